//! The order of versions, as dpkg and apk have it.
//!
//! What comes in: two versions. What goes out: which is the older. dpkg's is that of deb-version(7) ("Sorting algorithm"):
//! epoch, upstream version, revision; parts of letters and digits in turn, where `~` is before the end and letters
//! before other characters. apk's is that of apk-package(5): numbers, a letter, suffixes, `-r` and a number. What is
//! no version at all has an order, too, so that nothing is lost.

use std::cmp::Ordering;

use crate::materials::ComponentKind;

/// Versions of dpkg and apk begin with a digit, with an epoch or without, and have few other characters. Tags that are compared begin
/// with a digit, too, and may have a `v` before it; for dpkg a version with one is later than all without.
pub(crate) fn is_version(kind: ComponentKind, text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._+-~".contains(c);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    match kind {
        ComponentKind::Image => begins_with_a_digit(text.strip_prefix('v').unwrap_or(text)),
        ComponentKind::Deb | ComponentKind::Apk => match text.split_once(':') {
            Some((epoch, rest)) => {
                is_number(epoch) && begins_with_a_digit(rest) && rest.chars().all(is_part)
            }
            None => begins_with_a_digit(text) && text.chars().all(is_part),
        },
    }
}

pub(crate) fn begins_with_a_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// Compares as dpkg does.
pub(crate) fn deb(a: &str, b: &str) -> Ordering {
    let (a, b) = (DebVersion::of(a), DebVersion::of(b));
    numbers(a.epoch, b.epoch)
        .then_with(|| part(a.upstream, b.upstream))
        .then_with(|| part(a.revision, b.revision))
}

struct DebVersion<'a> {
    epoch: &'a str,
    upstream: &'a str,
    revision: &'a str,
}

impl<'a> DebVersion<'a> {
    fn of(text: &'a str) -> Self {
        let (epoch, rest) = text.trim().split_once(':').unwrap_or(("0", text.trim()));
        let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
        Self {
            epoch,
            upstream,
            revision,
        }
    }
}

/// Digits by their value, however many.
fn numbers(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// The place of a character among others: `~`, the end, letters, the rest.
fn place(byte: Option<u8>) -> (u8, u8) {
    match byte {
        Some(b'~') => (0, 0),
        None => (1, 0),
        Some(letter) if letter.is_ascii_alphabetic() => (2, letter),
        Some(other) => (3, other),
    }
}

/// Parts that are no digits and parts that are, in turn.
fn part(mut a: &str, mut b: &str) -> Ordering {
    while !a.is_empty() || !b.is_empty() {
        let ((words_a, rest_a), (words_b, rest_b)) = (words(a), words(b));
        for at in 0..words_a.len().max(words_b.len()) {
            let letter = |text: &str| place(text.as_bytes().get(at).copied());
            match letter(words_a).cmp(&letter(words_b)) {
                Ordering::Equal => {}
                other => return other,
            }
        }
        let ((digits_a, rest_a), (digits_b, rest_b)) = (digits(rest_a), digits(rest_b));
        match numbers(digits_a, digits_b) {
            Ordering::Equal => {}
            other => return other,
        }
        (a, b) = (rest_a, rest_b);
    }
    Ordering::Equal
}

fn words(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// Compares as apk does.
pub(crate) fn apk(a: &str, b: &str) -> Ordering {
    let (a, b) = (ApkVersion::of(a), ApkVersion::of(b));
    a.compare(&b)
}

/// Suffixes before a release, in their order, and after it.
const BEFORE: [&str; 4] = ["alpha", "beta", "pre", "rc"];
const AFTER: [&str; 5] = ["cvs", "svn", "git", "hg", "p"];

#[derive(Debug)]
struct ApkVersion<'a> {
    numbers: Vec<&'a str>,
    letter: Option<char>,
    /// Places of suffixes, below 0 before the release, each with its number.
    suffixes: Vec<(i8, &'a str)>,
    revision: &'a str,
    rest: &'a str,
}

impl<'a> ApkVersion<'a> {
    fn of(text: &'a str) -> Self {
        let text = text.trim();
        let (text, revision) = match text.rsplit_once("-r") {
            Some((before, number)) if is_number(number) => (before, number),
            _ => (text, "0"),
        };
        let (main, hash) = text.split_once('~').unwrap_or((text, ""));
        let mut parts = main.split('_');
        let mut version = parts.next().unwrap_or_default();
        let mut rest = hash;
        let mut letter = None;
        let last = version.chars().last();
        if let Some(last) = last.filter(char::is_ascii_lowercase) {
            version = &version[..version.len() - 1];
            letter = Some(last);
        }
        let numbers: Vec<&str> = version.split('.').collect();
        let mut suffixes = Vec::new();
        for part in parts {
            let (name, number) = words(part);
            let find = |names: &[&str]| names.iter().position(|one| *one == name);
            let place = match (find(&BEFORE), find(&AFTER)) {
                (Some(at), _) => i8::try_from(at).unwrap_or(0) - 4,
                (None, Some(at)) => i8::try_from(at).unwrap_or(0) + 1,
                (None, None) => {
                    rest = part;
                    break;
                }
            };
            suffixes.push((place, number));
        }
        Self {
            numbers,
            letter,
            suffixes,
            revision,
            rest,
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        for at in 0..self.numbers.len().max(other.numbers.len()) {
            let order = match (self.numbers.get(at), other.numbers.get(at)) {
                (Some(a), Some(b)) => component(a, b, at == 0),
                (Some(_), None) => Ordering::Greater,
                (None, _) => Ordering::Less,
            };
            if order != Ordering::Equal {
                return order;
            }
        }
        let letters = self.letter.cmp(&other.letter);
        if letters != Ordering::Equal {
            return letters;
        }
        for at in 0..self.suffixes.len().max(other.suffixes.len()) {
            let place = |one: &Self| one.suffixes.get(at).map_or(0, |(place, _)| *place);
            let number = |one: &Self| {
                one.suffixes
                    .get(at)
                    .map_or("", |(_, number)| *number)
                    .to_owned()
            };
            let order = place(self)
                .cmp(&place(other))
                .then_with(|| numbers(&number(self), &number(other)));
            if order != Ordering::Equal {
                return order;
            }
        }
        numbers(self.revision, other.revision).then_with(|| self.rest.cmp(other.rest))
    }
}

/// A number of a version. After the first one, one with a zero before it is a fraction.
fn component(a: &str, b: &str, is_first: bool) -> Ordering {
    if !is_first && (a.starts_with('0') || b.starts_with('0')) {
        return a.cmp(b);
    }
    match (is_number(a), is_number(b)) {
        (true, true) => numbers(a, b),
        _ => part(a, b),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests;
