//! Words: title case, camel and snake case, abbreviation, wrapping.
//!
//! In: strings. Out: strings as goutils and xstrings make them, with their byte-wise habits:
//! `abbrev` and `wrap` may cut a character in half, `nospace` reads bytes as Latin-1.

use super::strings::{is_space, lower, upper};
use crate::functions::args::{number, string, utf8};
use crate::functions::{Env, Function, Ty};
use crate::runtime::{Fault, RuntimeResult, Value, text};
use unicode_general_category::{GeneralCategory, get_general_category};

mod casing;

const T: Ty = Ty::Text;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("abbrev", &[Ty::Int, T], |_, args| {
        let (width, whole) = (number(args, 0), string(args, 1));
        if width < 4 {
            return Ok(text(whole));
        }
        Ok(text(abbreviate(whole, 0, width)))
    }),
    Function::new("abbrevboth", &[Ty::Int, Ty::Int, T], |_, args| {
        let (left, right, whole) = (number(args, 0), number(args, 1), string(args, 2));
        if right < 4 || left > 0 && right < 7 {
            return Ok(text(whole));
        }
        Ok(text(abbreviate(whole, left, right)))
    }),
    Function::new("title", &[T], |env, args| changed(env, args, title)),
    Function::new("untitle", &[T], |env, args| {
        changed(env, args, uncapitalize)
    }),
    Function::new("swapcase", &[T], |env, args| changed(env, args, swap_case)),
    Function::new("nospace", &[T], |env, args| no_space(env, string(args, 0))),
    Function::new("initials", &[T], |_, args| {
        Ok(text(initials(string(args, 0))))
    }),
    Function::new("snakecase", &[T], |env, args| {
        changed(env, args, |whole| casing::separated(whole, '_'))
    }),
    Function::new("kebabcase", &[T], |env, args| {
        changed(env, args, |whole| casing::separated(whole, '-'))
    }),
    Function::new("camelcase", &[T], |env, args| {
        changed(env, args, casing::camel)
    }),
    Function::new("wrap", &[Ty::Int, T], |env, args| {
        wrap(env, string(args, 1), number(args, 0), b"\n", false)
    }),
    Function::new("wrapWith", &[Ty::Int, T, T], |env, args| {
        let separator = string(args, 1);
        let separator = if separator.is_empty() {
            b"\n"
        } else {
            separator
        };
        wrap(env, string(args, 2), number(args, 0), separator, true)
    }),
];

fn changed(env: &Env<'_>, args: &[Value], change: impl Fn(&str) -> String) -> RuntimeResult<Value> {
    env.budget.bytes(string(args, 0).len())?;
    Ok(text(change(&utf8(args, 0))))
}

/// goutils' `AbbreviateFull`; the width is at least 4, and 7 with an offset.
fn abbreviate(whole: &[u8], offset: i64, width: i64) -> Vec<u8> {
    let length = i64::try_from(whole.len()).unwrap_or(i64::MAX);
    if length <= width {
        return whole.to_vec();
    }
    let part = |from: i64, to: i64| -> &[u8] {
        let from = usize::try_from(from).unwrap_or(0);
        let to = usize::try_from(to).unwrap_or(0);
        whole.get(from..to).unwrap_or(&[])
    };
    let mut offset = offset.min(length);
    if length - offset < width - 3 {
        offset = length - (width - 3);
    }
    if offset <= 4 {
        return [part(0, width - 3), b"..."].concat();
    }
    if offset + width - 3 < length {
        let tail = part(offset, length);
        return [b"...", abbreviate(tail, 0, width - 3).as_slice()].concat();
    }
    [b"...", part(length - (width - 3), length)].concat()
}

/// Go's deprecated `strings.Title`: letters, digits, underscores and single quotes are words.
fn title(whole: &str) -> String {
    let mut before = ' ';
    let mut out = String::with_capacity(whole.len());
    for c in whole.chars() {
        out.push(if is_separator(before) { to_title(c) } else { c });
        before = c;
    }
    out
}

fn is_separator(c: char) -> bool {
    if c.is_ascii() {
        return !(c.is_ascii_alphanumeric() || c == '_');
    }
    !is_letter(c) && get_general_category(c) != GeneralCategory::DecimalNumber && is_space(c)
}

pub(super) fn is_letter(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphabetic();
    }
    matches!(
        get_general_category(c),
        GeneralCategory::UppercaseLetter
            | GeneralCategory::LowercaseLetter
            | GeneralCategory::TitlecaseLetter
            | GeneralCategory::ModifierLetter
            | GeneralCategory::OtherLetter
    )
}

/// Go's `unicode.ToTitle`: as upper case, except for the four digraphs and their kin.
fn to_title(c: char) -> char {
    match u32::from(c) {
        0x1c4..=0x1c6 => '\u{1c5}',
        0x1c7..=0x1c9 => '\u{1c8}',
        0x1ca..=0x1cc => '\u{1cb}',
        0x1f1..=0x1f3 => '\u{1f2}',
        // Georgian has upper case, but no title case.
        0x10d0..=0x10ff => c,
        _ => upper(c),
    }
}

/// The first letter of every word in lower case.
fn uncapitalize(whole: &str) -> String {
    let mut starts = true;
    let mut out = String::with_capacity(whole.len());
    for c in whole.chars() {
        if is_space(c) {
            starts = true;
            out.push(c);
        } else {
            out.push(if starts { lower(c) } else { c });
            starts = false;
        }
    }
    out
}

fn swap_case(whole: &str) -> String {
    let mut after_space = true;
    let mut out = String::with_capacity(whole.len());
    for c in whole.chars() {
        let category = get_general_category(c);
        out.push(match category {
            GeneralCategory::UppercaseLetter | GeneralCategory::TitlecaseLetter => lower(c),
            GeneralCategory::LowercaseLetter if after_space => to_title(c),
            GeneralCategory::LowercaseLetter => upper(c),
            _ => c,
        });
        after_space = is_space(c);
    }
    out
}

/// goutils reads every byte as a separate character.
fn no_space(env: &Env<'_>, whole: &[u8]) -> RuntimeResult<Value> {
    env.budget.bytes(whole.len().saturating_mul(2))?;
    if !whole.iter().any(|byte| is_space(char::from(*byte))) {
        return Ok(text(whole));
    }
    let kept = whole
        .iter()
        .map(|byte| char::from(*byte))
        .filter(|c| !is_space(*c));
    Ok(text(kept.collect::<String>()))
}

/// Bytes again, not characters.
fn initials(whole: &[u8]) -> String {
    let mut starts = true;
    let mut out = String::new();
    for c in whole.iter().map(|byte| char::from(*byte)) {
        if is_space(c) {
            starts = true;
        } else if starts {
            out.push(c);
            starts = false;
        }
    }
    out
}

fn wrap(
    env: &Env<'_>,
    whole: &[u8],
    width: i64,
    separator: &[u8],
    cut_words: bool,
) -> RuntimeResult<Value> {
    let width = usize::try_from(width).unwrap_or(0).max(1);
    let breaks = whole.len() / width + whole.iter().filter(|byte| **byte == b' ').count() + 1;
    let most = breaks
        .saturating_mul(separator.len())
        .saturating_add(whole.len());
    env.budget.bytes(most)?;
    let mut out = Vec::new();
    let mut rest = whole;
    while rest.len() > width {
        if rest[0] == b' ' {
            rest = &rest[1..];
            continue;
        }
        let Some(window) = rest.get(..=width) else {
            return Fault::go("runtime error: slice bounds out of range");
        };
        if let Some(space) = window.iter().rposition(|byte| *byte == b' ') {
            out.extend_from_slice(&rest[..space]);
            out.extend_from_slice(separator);
            rest = &rest[space + 1..];
        } else if cut_words {
            out.extend_from_slice(&rest[..width]);
            out.extend_from_slice(separator);
            rest = &rest[width..];
        } else if let Some(space) = rest[width..].iter().position(|byte| *byte == b' ') {
            out.extend_from_slice(&rest[..width + space]);
            out.extend_from_slice(separator);
            rest = &rest[width + space + 1..];
        } else {
            out.extend_from_slice(rest);
            rest = &[];
        }
    }
    out.extend_from_slice(rest);
    Ok(text(out))
}
