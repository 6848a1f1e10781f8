//! Lines: where secrets stand in a text that is read line by line, such as a file of YAML that may be broken.
//!
//! What comes in: a text. What goes out: the text without its secrets, or those of one of its lines. It goes by indentation, brackets and
//! the names beside values alone: where it cannot know, it takes for a secret what may be one.

use std::ops::Range;

use super::{brackets, flow, settings};
use crate::secret_keys::{
    QUOTES, holds_secrets, is_either, is_login, is_named, is_reference, is_secret,
};
use crate::secret_tokens::replaced;
use crate::{private_keys, secret_tokens as tokens, url_secrets};

/// Most lines before a line that are looked at for what reaches into it, but for those that it is indented below.
const MOST_BEFORE: usize = 4096;
/// Keys of what a value is called, and of the value.
const NAMES: [&str; 2] = ["name", "key"];
const VALUES: [&str; 2] = ["value", "default"];
/// Values that say of what type a secret is.
const TYPES: [&str; 3] = ["string", "object", "array"];

/// `text` with `…` in the place of each secret.
pub fn without_secrets(text: &str) -> String {
    let mut walk = Walk::default();
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end_matches(['\n', '\r']);
        out.push_str(&replaced(bare, &walk.step(bare)));
        out.push_str(line.get(bare.len()..).unwrap_or_default());
    }
    url_secrets::without_secrets(&out)
}

/// The secrets in all lines of a text.
pub(super) fn all(text: &str) -> Vec<&str> {
    let mut walk = Walk::default();
    let found = text.lines().flat_map(|line| {
        let spans = walk.step(line).into_iter();
        spans.filter_map(|span| line.get(span))
    });
    found.collect()
}

/// The secrets that stand in the line of `text` that has the byte `at`: what is shown with it is to be shown without them. Each line of what
/// may be a Secret of a cluster is one.
pub fn around(text: &str, at: usize) -> Vec<&str> {
    // What is said of the end of a text is shown at its last line.
    let at = at.min(text.trim_end().len());
    let at = (0..=at)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    let (before, after) = text.split_at(at);
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let end = after.find('\n').map_or(text.len(), |end| at + end);
    let line = text.get(start..end).unwrap_or_default();
    let line = line.trim_end_matches('\r');
    let mut walk = Walk::before(text.get(..start).unwrap_or_default(), line);
    let found = walk.step(line).into_iter();
    let mut found: Vec<&str> = found.filter_map(|span| line.get(span)).collect();
    if url_secrets::has_secret(line) || is_of_secret(text, start) {
        found.push(line.trim());
    }
    found
}

/// Whether the line at `start` is one of a document that may be a Secret.
fn is_of_secret(text: &str, start: usize) -> bool {
    if !text.contains("Secret") && !text.contains("stringData") {
        return false;
    }
    let (before, after) = text.split_at(start);
    let from = before.rfind("\n---").unwrap_or(0);
    let to = after.find("\n---").map_or(text.len(), |at| start + at);
    let document = text.get(from..to).unwrap_or_default();
    let is_kind = document.match_indices("Secret").any(|(at, word)| {
        let before = document.get(..at).unwrap_or_default();
        let after = document.get(at + word.len()..).unwrap_or_default();
        let is_word = !before.ends_with(char::is_alphanumeric)
            && !after
                .replacen("List", "", 1)
                .starts_with(char::is_alphanumeric);
        let line = before.rsplit('\n').next().unwrap_or_default();
        let above = before.trim_end_matches(|c: char| !c.is_alphanumeric());
        is_word && (line.contains("kind") || above.ends_with("kind"))
    });
    is_kind || document.contains("stringData")
}

/// What is known of the lines before one.
#[derive(Default)]
struct Walk<'t> {
    /// The lines that it is indented below, and whether the name beside each is that of a secret.
    open: Vec<(&'t str, bool)>,
    /// Whether the last name of a value is that of a secret.
    is_named: bool,
    /// How many brackets of a list or map of secrets are open, and how far its first line is indented.
    flow: Option<(usize, usize)>,
    /// Whether a private key has begun.
    is_key: bool,
}

impl<'t> Walk<'t> {
    /// What is known at the end of `text`, before `line`.
    fn before(text: &'t str, line: &str) -> Self {
        let (mut near, mut far) = (Vec::new(), Vec::new());
        let mut least = indent(line);
        for (count, above) in text.lines().rev().enumerate() {
            if above.trim().is_empty() {
                continue;
            }
            if count < MOST_BEFORE {
                near.push(above);
                least = least.min(indent(above));
            } else if least == 0 {
                break;
            } else if indent(above) < least {
                far.push(above);
                least = indent(above);
            }
        }
        let mut walk = Self::default();
        for above in far.into_iter().rev().chain(near.into_iter().rev()) {
            walk.pass(above);
        }
        walk
    }

    /// Where secrets stand in the next line.
    fn step(&mut self, line: &'t str) -> Vec<Range<usize>> {
        let found = self.hidden(line);
        self.pass(line);
        found
    }

    fn hidden(&self, line: &str) -> Vec<Range<usize>> {
        let whole = line.len() - line.trim_start().len()..line.len();
        let is_of_key = self.is_key && (private_keys::is_part(line) || private_keys::ends(line));
        match self.below(line) {
            _ if line.trim().is_empty() => Vec::new(),
            _ if is_of_key || self.is_in_flow(line) => Vec::from([whole]),
            Some(span) => Vec::from([span]),
            None => in_line(line, names_secret(line).unwrap_or(self.is_named)),
        }
    }

    fn pass(&mut self, line: &'t str) {
        if line.trim().is_empty() {
            return;
        }
        let is_part = private_keys::is_part(line) && !private_keys::ends(line);
        self.is_key = (self.is_key && is_part) || private_keys::begins(line);
        self.is_named = names_secret(line).unwrap_or(self.is_named);
        self.flow = match self.flow.filter(|_| self.is_in_flow(line)) {
            Some((depth, indented)) => {
                let depth = brackets(line, depth).err();
                depth.map(|depth| (depth, indented))
            }
            None => self.opened(line).map(|depth| (depth, indent(line))),
        };
        while self
            .open
            .last()
            .is_some_and(|(above, _)| indent(above) >= indent(line))
        {
            self.open.pop();
        }
        self.open.push((line, self.is_named));
    }

    /// Whether a list or map of secrets goes on in `line`.
    fn is_in_flow(&self, line: &str) -> bool {
        self.flow
            .is_some_and(|(_, indented)| indent(line) >= indented && !line.starts_with("---"))
    }

    /// How many brackets of a list or map of secrets are open at the end of `line`.
    fn opened(&self, line: &str) -> Option<usize> {
        if !line.contains(['[', '{']) {
            return None;
        }
        let is_beside = names_secret(line).unwrap_or(self.is_named);
        settings(line).find_map(|(key, _, span)| {
            let key = known_as(key, is_beside);
            let value = line.get(span.start..).unwrap_or_default();
            let is_flow = match value.chars().next() {
                Some('[') => is_named(key) && !value.starts_with("[["),
                Some('{') => holds_secrets(key) && !value.starts_with("{{"),
                _ => false,
            };
            is_flow.then(|| brackets(value, 0).err())?
        })
    }

    /// What of `line` is a value below the key of a secret, by how far it is indented.
    fn below(&self, line: &str) -> Option<Range<usize>> {
        let whole = line.len() - line.trim_start().len()..line.len();
        let mut names_other = false;
        let above = self.open.iter().rev();
        for (above, is_named_beside) in above.filter(|(above, _)| indent(above) < indent(line)) {
            let Some((key, value)) = above.split_once(':') else {
                // A line of a block has none, and what is above it counts.
                continue;
            };
            let value = value.trim();
            let key = key.trim_matches(|c: char| !c.is_ascii_alphanumeric());
            names_other |= value.is_empty() && (key.ends_with("Ref") || key.ends_with("From"));
            let key = known_as(key, *is_named_beside);
            let is_begun = value.is_empty() || is_block(value) || value.starts_with(QUOTES);
            if !is_begun || !is_named(key) {
                continue;
            }
            let Some((_, rest)) = line.split_once(':').filter(|_| value.is_empty()) else {
                return Some(whole);
            };
            // A map has keys of its own; where it is no collection, its values are secrets, too.
            let is_secret = !names_other
                && holds_secrets(key)
                && !TYPES.contains(&rest.trim())
                && (is_secret(key, rest) || flow(key, rest.trim()).is_some());
            let start = line.len() - rest.trim_start().len();
            return is_secret.then_some(start..line.len());
        }
        None
    }
}

/// Where secrets stand in one line: numbers, too, and all that is behind a key that begins the line.
fn in_line(line: &str, is_beside: bool) -> Vec<Range<usize>> {
    let mut found = tokens::all(line);
    found.extend(private_keys::spans(line));
    let begins = line.trim_start_matches([' ', '\t', '-', '?', '+', '"', '\'']);
    let begins = line.len() - begins.len();
    for (key, _, mut span) in settings(line) {
        let is_first = line.get(begins..).is_some_and(|rest| rest.starts_with(key));
        let key = known_as(key, is_beside);
        let rest = line.get(span.start..).unwrap_or_default();
        let value = line.get(span.clone()).unwrap_or_default();
        let bare = value.trim().trim_matches(QUOTES);
        match flow(key, rest) {
            Some(flow) => span.end = span.start + flow.len(),
            None if bare.is_empty() || is_reference(bare) || is_block(bare) => continue,
            None if is_named(key) || is_either(key, bare) || is_login(key, bare) => {}
            None => continue,
        }
        if is_first {
            span.end = line.trim_end().len();
        }
        found.push(span);
    }
    found.sort_by_key(|span| (span.start, span.end));
    found
}

/// Whether a name in `line`, as it stands beside a value, is that of a secret; `None` where there is no name.
fn names_secret(line: &str) -> Option<bool> {
    if !NAMES.iter().any(|name| line.contains(name)) {
        return None;
    }
    let names = settings(line).filter(|(key, _, _)| NAMES.contains(key));
    let names = names.map(|(_, _, span)| {
        let name = line.get(span).unwrap_or_default().trim();
        is_named(name.trim_matches(QUOTES))
    });
    names.reduce(|one, other| one || other)
}

/// The key that a value is known by: a value beside the name of a secret is one.
fn known_as(key: &str, is_beside: bool) -> &str {
    match is_beside && VALUES.contains(&key) {
        true => "password",
        false => key,
    }
}

/// Whether a value begins on the next line.
fn is_block(value: &str) -> bool {
    value.starts_with(['|', '>', '&']) && value.len() < 4
}

/// How far a line is indented: what begins with `- ` is so below a key in the same column.
fn indent(line: &str) -> usize {
    let bare = line.trim_start();
    2 * (line.len() - bare.len()) + usize::from(bare.starts_with("- "))
}
