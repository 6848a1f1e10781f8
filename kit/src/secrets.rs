//! Secrets in settings: values that are to be kept secret, by their keys or by how they begin, and texts without them.
//!
//! What comes in: a key and its value, or a text such as a line of YAML. What goes out: whether a secret stands there in clear, and where;
//! or the text with `…` in its place. What only names a secret, such as a file, a variable or an object of a cluster, is none. It knows no
//! form of a file: what is printed is rather concealed once too often, and what is reported is not.

use std::ops::Range;

use crate::url_secrets;

/// What the keys of secrets end with, in words without marks between them.
const ENDINGS: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "token",
    "apikey",
    "privatekey",
    "secretkey",
    "accesskey",
    "accountkey",
    "signingkey",
    "encryptionkey",
    "clientsecret",
    "credential",
    "credentials",
];
/// What their last word is, where that alone ends other words, too.
const WORDS: [&str; 4] = ["pass", "pwd", "authorization", "bearer"];
/// The last word of keys whose value is a secret, or the name of one.
const EITHER: &str = "secret";
/// Behind one of these it is said whose secret it is.
const OF: [&str; 2] = ["of", "for"];
/// How values begin that name a secret: a path, a variable, a template, a tag, or where a store has it; a list or map has more keys.
const REFERENCES: [&str; 14] = [
    "/", "$", "{", "[", "<", "!", "./", "~/", "vault:", "arn:", "op://", "file:", "ref+", "ENC[",
];
/// Words that no secret is.
const NO_SECRETS: [&str; 9] = [
    "true", "false", "yes", "no", "on", "off", "null", "none", "~",
];
/// Fewest characters of a token that says what it is.
const LEAST_TOKEN: usize = 16;
/// Fewest characters of a value that is random when it has small and capital letters and digits, or, with more digits, no capitals.
const LEAST_RANDOM: (usize, usize) = (12, 16);
/// Fewest digits of a number that is a password.
const LEAST_NUMBER: usize = 4;
/// What stands in the place of a secret.
const CONCEALED: &str = "…";
/// What is shown in the place of a whole value.
pub const NOT_SHOWN: &str = "(looks like a secret: not shown)";

/// Whether the value of `key` is a secret in clear; or, where the value is a list, a map or settings of another program, one in it.
pub fn is_in_clear(key: &str, value: &str) -> bool {
    is_secret(key, value)
        || url_secrets::has_secret(value)
        || !tokens(value).is_empty()
        || has_setting(value)
}

/// The secrets in the value of `key`, for a text that may repeat them.
pub fn of<'a>(key: &str, value: &'a str) -> Vec<&'a str> {
    if is_secret(key, value) {
        return Vec::from([value]);
    }
    let lines = value.lines();
    let found = lines.flat_map(|line| {
        let spans = in_line(line).into_iter();
        spans.filter_map(|span| line.get(span))
    });
    found.collect()
}

/// `text` with `…` in the place of each secret.
pub fn without_secrets(text: &str) -> String {
    // The line and those above it that are indented less.
    let mut open: Vec<&str> = Vec::new();
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end_matches(['\n', '\r']);
        let hidden = match is_in_secret(open.iter().rev().copied(), bare) {
            true => std::iter::once(indent(bare)..bare.len()).collect(),
            false => in_line(bare),
        };
        out.push_str(&replaced(bare, &hidden));
        out.push_str(line.get(bare.len()..).unwrap_or_default());
        if !bare.trim().is_empty() {
            open.retain(|above| indent(above) < indent(bare));
            open.push(bare);
        }
    }
    url_secrets::without_secrets(&out)
}

/// `text` without tokens that say what they are, and without the secrets of URLs: a sentence has no keys and values.
pub fn without_tokens(text: &str) -> String {
    url_secrets::without_secrets(&replaced(text, &tokens(text)))
}

/// The secrets that stand in the line of `text` that has the byte `at`: what is shown with it is to be shown without them.
pub fn around(text: &str, at: usize) -> Vec<&str> {
    let at = (0..=at.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    let (before, after) = text.split_at(at);
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let end = after.find('\n').map_or(text.len(), |end| at + end);
    let line = text.get(start..end).unwrap_or_default();
    let line = line.trim_end_matches('\r');
    let above = text.get(..start).unwrap_or_default().rsplit('\n');
    if is_in_secret(above, line) {
        return Vec::from([line.trim()]);
    }
    let found = in_line(line);
    let found = found.into_iter().filter_map(|span| line.get(span));
    let mut found: Vec<&str> = found.collect();
    if url_secrets::has_secret(line) {
        found.push(line.trim());
    }
    found
}

/// `text` with `…` in the place of each of `secrets` that stands in it as a word.
pub fn without(text: &str, secrets: &[&str]) -> String {
    let mut text = text.to_owned();
    for secret in secrets {
        let secret = secret.trim().trim_matches(['"', '\'']);
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

fn replaced(line: &str, hidden: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(line.len());
    let mut from = 0;
    for span in hidden {
        if span.start < from {
            continue;
        }
        out.push_str(line.get(from..span.start).unwrap_or_default());
        out.push_str(CONCEALED);
        from = span.end;
    }
    out.push_str(line.get(from..).unwrap_or_default());
    out
}

/// Whether `key` is the name of something secret.
fn is_named(key: &str) -> bool {
    let key = key.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    let all = words(key);
    let before = all
        .iter()
        .position(|word| OF.contains(&word.as_str()))
        .filter(|at| *at > 0);
    // `passwordOfDatabase` is a password, and `tokenForm` no token.
    let whose = before.is_some_and(|at| ends_as_secret(all.get(..at).unwrap_or_default()));
    whose || ends_as_secret(&all)
}

fn ends_as_secret(words: &[String]) -> bool {
    let whole = words.concat();
    ENDINGS.iter().any(|end| whole.ends_with(end))
        || words
            .last()
            .is_some_and(|last| WORDS.contains(&last.as_str()))
}

/// The words of a key such as `DB_PASS`, `db.pass` or `dbPass`, in small letters.
fn words(key: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut word = String::new();
    let mut was_small = false;
    for c in key.chars() {
        if (!c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && was_small)) && !word.is_empty()
        {
            all.push(std::mem::take(&mut word));
        }
        if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        }
        was_small = c.is_ascii_lowercase();
    }
    if !word.is_empty() {
        all.push(word);
    }
    all
}

fn is_secret(key: &str, value: &str) -> bool {
    let value = value.trim().trim_matches(['"', '\'']);
    let is_number = value.parse::<f64>().is_ok();
    !value.is_empty()
        && !is_reference(value)
        && match is_number {
            true => value.len() >= LEAST_NUMBER && is_password(key),
            false => is_named(key) || is_either(key, value),
        }
}

/// Whether a number may be the value of a secret key: how many tokens there are is none.
fn is_password(key: &str) -> bool {
    let key = key.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    words(key)
        .last()
        .is_some_and(|last| last.starts_with("pass") || last == "pwd")
        && is_named(key)
}

fn is_either(key: &str, value: &str) -> bool {
    let key = key.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    words(key).last().is_some_and(|last| last == EITHER) && is_random(value)
}

fn is_reference(value: &str) -> bool {
    REFERENCES.iter().any(|start| value.starts_with(start))
        || NO_SECRETS.contains(&value.to_ascii_lowercase().as_str())
}

/// Whether a value is what nobody chooses as the name of an object.
fn is_random(value: &str) -> bool {
    let is_of_it = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '_' | '-');
    let digits = value.chars().filter(char::is_ascii_digit).count();
    let has = |of: fn(&char) -> bool| value.chars().any(|c| of(&c));
    let (mixed, small) = LEAST_RANDOM;
    let is_mixed = has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase) && digits > 0;
    // Names of objects have words with `-` between them; numbers of 128 bits are written with it, too.
    let is_number = value.chars().all(|c| c.is_ascii_hexdigit() || c == '-') && value.len() >= 32;
    let is_one_word = !value.contains('-') && has(char::is_ascii_alphabetic) && digits > 2;
    value.chars().all(is_of_it)
        && ((is_mixed && value.len() >= mixed)
            || (is_one_word && value.len() >= small)
            || (is_number && digits > 2))
}

/// Where tokens stand that say what they are, and what is sent to log in.
fn tokens(text: &str) -> Vec<Range<usize>> {
    let ends = |c: char| {
        !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.' | '+' | '/' | '=' | '~')
    };
    let mut found = Vec::new();
    let mut at = 0;
    let mut before = "";
    for word in text.split_inclusive(ends) {
        let bare = word.trim_end_matches(ends);
        // `KEY=token` is one word here.
        let last = bare
            .trim_end_matches('=')
            .rfind('=')
            .map_or(0, |end| end + 1);
        let value = bare.get(last..).unwrap_or_default();
        let core = value.split(|c: char| ends(c) || matches!(c, '+' | '/' | '=' | '~'));
        let is_token = |word: &str| word.len() >= LEAST_TOKEN && url_secrets::is_token(word);
        let is_login = match before {
            "basic" | "Basic" | "BASIC" => is_user_and_password(value),
            "bearer" | "Bearer" | "BEARER" => {
                value.len() >= LEAST_TOKEN && value.contains(|c: char| c.is_ascii_digit())
            }
            _ => false,
        };
        if is_login || core.into_iter().any(is_token) {
            found.push(at + last..at + bare.len());
        }
        at += word.len();
        if !bare.is_empty() {
            before = bare;
        }
    }
    found
}

/// Whether a word is base64 of `user:password`.
fn is_user_and_password(word: &str) -> bool {
    if word.len() < 8 || !word.len().is_multiple_of(4) {
        return false;
    }
    let mut bits = 0u32;
    let mut bytes = Vec::new();
    for (at, c) in word.trim_end_matches('=').bytes().enumerate() {
        let six = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return false,
        };
        bits = (bits << 6) | u32::from(six);
        if at % 4 > 0 {
            // Bits of the next byte are left over.
            let [.., byte] = (bits >> (6 - 2 * (at % 4))).to_be_bytes();
            bytes.push(byte);
        }
    }
    bytes.contains(&b':') && bytes.iter().all(|byte| (b' '..=b'~').contains(byte))
}

/// Whether a `key: value` or `key=value` in a longer text is a secret. A value of several words behind a colon is a sentence.
fn has_setting(text: &str) -> bool {
    settings(text).any(|(key, mark, span)| {
        let mut value = text.get(span).unwrap_or_default().trim_end();
        let words = value.split_whitespace().count();
        if words > 1 && !value.starts_with(['"', '\'']) {
            match mark {
                "=" => value = value.split_whitespace().next().unwrap_or_default(),
                _ => return false,
            }
        }
        is_secret(key, value)
    })
}

/// Each `key: value` and `key=value` of a text: the key, the mark, and where the value stands.
fn settings(text: &str) -> impl Iterator<Item = (&str, &str, Range<usize>)> {
    let ends = |c: char| matches!(c, ',' | ';' | '&' | '}' | ']' | '\n');
    text.match_indices([':', '=']).map(move |(at, mark)| {
        let before = text.get(..at).unwrap_or_default();
        let key = before.trim_end().trim_end_matches(['"', '\'']);
        let key = key.rsplit(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.'));
        let after = text.get(at + 1..).unwrap_or_default();
        let start = text.len() - after.trim_start_matches([' ', '\t']).len();
        let value = text.get(start..).unwrap_or_default();
        // What is quoted ends with its quotation mark.
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let quoted = quote.and_then(|quote| value.get(1..)?.find(quote).map(|end| end + 2));
        let end = quoted.unwrap_or_else(|| value.find(ends).unwrap_or(value.len()));
        (
            key.into_iter().next().unwrap_or_default(),
            mark,
            start..start + end,
        )
    })
}

/// Where secrets stand in one line: numbers, too, and all that is behind a key that begins the line.
fn in_line(line: &str) -> Vec<Range<usize>> {
    let mut found = tokens(line);
    let begins = line.trim_start_matches([' ', '\t', '-', '?', '+', '"', '\'']);
    let begins = line.len() - begins.len();
    for (key, _, mut span) in settings(line) {
        let value = line.get(span.clone()).unwrap_or_default();
        let bare = value.trim().trim_matches(['"', '\'']);
        let is_hidden = is_named(key) || is_either(key, bare);
        if !is_hidden || bare.is_empty() || is_reference(bare) || is_block(bare) {
            continue;
        }
        let is_first = line.get(begins..).is_some_and(|rest| rest.starts_with(key));
        if is_first {
            span.end = line.trim_end().len();
        }
        found.push(span);
    }
    found.sort_by_key(|span| (span.start, span.end));
    found
}

/// Whether a value begins on the next line.
fn is_block(value: &str) -> bool {
    value.starts_with(['|', '>', '&']) && value.len() < 4
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether `line` is, or is a part of, the value of a key of a secret in the lines `above`, the nearest first: by how far it is indented.
fn is_in_secret<'a>(above: impl Iterator<Item = &'a str>, line: &str) -> bool {
    let mut least = indent(line);
    if line.trim().is_empty() {
        return false;
    }
    for above in above {
        if above.trim().is_empty() || indent(above) >= least {
            continue;
        }
        least = indent(above);
        let Some((key, value)) = above.split_once(':') else {
            // A line of a block has none, and what is above it counts.
            continue;
        };
        let value = value.trim();
        let is_begun = value.is_empty() || is_block(value) || value.starts_with(['"', '\'']);
        let key = key.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        if is_begun && is_named(key) {
            // A map below such a key has keys of its own.
            return !value.is_empty() || !line.contains(':');
        }
        if least == 0 {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests;
