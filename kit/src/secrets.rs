//! Secrets in settings: values that are to be kept secret, by their keys or by how they begin, and texts without them.
//!
//! What comes in: a key and its value, or a text such as a line of YAML. What goes out: whether a secret stands there in clear, and where;
//! or the text with `…` in its place. What only names a secret, such as a file, a variable or an object of a cluster, is none. It knows no
//! form of a file: what is printed is rather concealed once too often, and what is reported is not.

use std::ops::Range;

use crate::secret_keys::{QUOTES, holds_secrets, is_login, is_named, is_reference, is_secret};
use crate::secret_tokens::{CONCEALED, replaced};
use crate::{private_keys, secret_tokens as tokens, url_secrets};

mod lines;

pub use lines::{around, without_secrets};

/// What is shown in the place of a whole value.
pub const NOT_SHOWN: &str = "(looks like a secret: not shown)";

/// Whether the value of `key` is a secret in clear; or, where the value is a list, a map or settings of another program, one in it.
pub fn is_in_clear(key: &str, value: &str) -> bool {
    is_secret(key, value)
        || url_secrets::has_secret(value)
        || private_keys::in_text(value).is_some()
        || !tokens::all(value).is_empty()
        || has_setting(value)
        || has_item(key, value)
}

/// Whether the value of `key` is not to be shown: it is a secret in clear, or a list or map below a key of secrets.
pub fn is_hidden(key: &str, value: &str) -> bool {
    is_in_clear(key, value) || flow(key, value).is_some()
}

/// Whether what stands below `key`, by whatever key, is to be kept secret as if `key` were its own.
pub fn holds(key: &str) -> bool {
    holds_secrets(key)
}

/// The secrets in the value of `key`, for a text that may repeat them.
pub fn of<'a>(key: &str, value: &'a str) -> Vec<&'a str> {
    if is_secret(key, value) {
        return Vec::from([value]);
    }
    lines::all(value)
}

/// `text` without tokens that say what they are, and without the secrets of URLs: a sentence has no keys and values.
pub fn without_tokens(text: &str) -> String {
    let mut found = tokens::all(text);
    found.extend(private_keys::spans(text));
    found.sort_by_key(|span| (span.start, span.end));
    url_secrets::without_secrets(&replaced(text, &found))
}

/// A sentence that may quote a key or a value of a file, without the secrets that stand in it as `key=value`, or between marks of quotation as
/// `key: value`.
pub fn without_settings(sentence: &str) -> String {
    let mut found = Vec::new();
    for (key, mark, mut span) in settings(sentence) {
        let before = sentence.get(..span.start).unwrap_or_default();
        let is_quoted = before.matches('`').count() % 2 == 1;
        let rest = sentence.get(span.start..).unwrap_or_default();
        let end = match (is_quoted, mark) {
            (true, _) => rest.find('`'),
            (false, "=") => rest.find(char::is_whitespace).or(Some(rest.len())),
            (false, _) => continue,
        };
        span.end = span.start + end.unwrap_or(rest.len());
        let value = sentence.get(span.clone()).unwrap_or_default();
        if is_secret(key, value) || (is_named(key) && !is_reference(value) && !value.is_empty()) {
            found.push(span);
        }
    }
    replaced(sentence, &found)
}

/// `text` with `…` in the place of each of `secrets` that stands in it as a word.
pub fn without(text: &str, secrets: &[&str]) -> String {
    let mut text = text.to_owned();
    for secret in secrets {
        let secret = secret.trim().trim_matches(QUOTES);
        if secret.len() < 2 {
            continue;
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(at) = rest.find(secret) {
            let (before, after) = rest.split_at(at);
            let after = after.get(secret.len()..).unwrap_or_default();
            let is_word = !before.ends_with(char::is_alphanumeric)
                && !after.starts_with(char::is_alphanumeric);
            out.push_str(before);
            out.push_str(if is_word { CONCEALED } else { secret });
            rest = after;
        }
        out.push_str(rest);
        text = out;
    }
    text
}

/// Whether a `key: value` or `key=value` in a longer text is a secret. A value of several words behind a colon is a sentence.
fn has_setting(text: &str) -> bool {
    settings(text).any(|(key, mark, span)| {
        let mut value = text.get(span).unwrap_or_default().trim_end();
        let words = value.split_whitespace().count();
        if words > 1 && !value.starts_with(QUOTES) {
            match mark {
                "=" => value = value.split_whitespace().next().unwrap_or_default(),
                _ => return is_login(key, value),
            }
        }
        is_secret(key, value) || has_item(key, value)
    })
}

/// Whether an item of a list is a secret by the list's key.
fn has_item(key: &str, list: &str) -> bool {
    let Some(items) = flow(key, list).filter(|_| list.starts_with('[')) else {
        return false;
    };
    let ends = |c: char| matches!(c, '[' | ']' | ',');
    let mut items = items.split(ends).map(str::trim);
    items.any(|item| !item.contains([':', '{']) && is_secret(key, item))
}

/// The list or map that `value` begins with, when it is one of secrets by its key: up to its end, or as far as the text goes.
fn flow<'v>(key: &str, value: &'v str) -> Option<&'v str> {
    let is_template = value.starts_with("{{") || value.starts_with("[[");
    let is_flow = match value.chars().next() {
        Some('[') => is_named(key),
        Some('{') => holds_secrets(key),
        _ => false,
    };
    if !is_flow || is_template || !value.contains(char::is_alphanumeric) {
        return None;
    }
    value.get(..brackets(value, 0).unwrap_or(value.len()))
}

/// Where the last of `depth` brackets, or of those that `text` opens, is closed; or how many are open at its end.
fn brackets(text: &str, mut depth: usize) -> Result<usize, usize> {
    let (mut quote, mut before) = (None, ' ');
    for (at, c) in text.char_indices() {
        match c {
            _ if quote == Some(c) => quote = None,
            _ if quote.is_some() => {}
            '"' | '\'' if !before.is_alphanumeric() => quote = Some(c),
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && matches!(c, ']' | '}') && quote.is_none() {
            return Ok(at + c.len_utf8());
        }
        before = c;
    }
    Err(depth)
}

/// Each `key: value` and `key=value` of a text: the key, the mark, and where the value stands.
fn settings(text: &str) -> impl Iterator<Item = (&str, &str, Range<usize>)> {
    let ends = |c: char| matches!(c, ',' | ';' | '&' | '}' | ']' | '\n');
    text.match_indices([':', '=']).map(move |(at, mark)| {
        let before = text.get(..at).unwrap_or_default();
        let key = before.trim_end().trim_end_matches(QUOTES);
        let key = key.rsplit(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.'));
        let after = text.get(at + 1..).unwrap_or_default();
        let start = text.len() - after.trim_start_matches([' ', '\t']).len();
        let value = text.get(start..).unwrap_or_default();
        // What is quoted ends with its quotation mark.
        let quotes = ["\"", "'", "\\\"", "\\'"];
        let quote = quotes.into_iter().find(|quote| value.starts_with(quote));
        let quoted = quote.and_then(|quote| {
            let end = value.get(quote.len()..)?.find(quote)?;
            Some(end + 2 * quote.len())
        });
        let end = quoted.unwrap_or_else(|| value.find(ends).unwrap_or(value.len()));
        (
            key.into_iter().next().unwrap_or_default(),
            mark,
            start..start + end,
        )
    })
}

#[cfg(test)]
mod tests;
