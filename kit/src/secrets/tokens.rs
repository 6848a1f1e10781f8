//! Tokens: words that say themselves that they are secrets, and what is sent to log in.
//!
//! What comes in: a text. What goes out: where such words stand in it. It knows no keys.

use std::ops::Range;

use crate::{private_keys, url_secrets};

/// Fewest characters of a token that says what it is.
const LEAST_TOKEN: usize = 16;
/// How `-----BEGIN ` and an identity of age begin in base64, and how many characters of it hold the first line.
const KEYS: [&str; 2] = ["LS0tLS1CRUdJTi", "QUdFLVNFQ1JFVC1LRVkt"];
const LINE: usize = 120;

/// Where tokens stand that say what they are, and what is sent to log in.
pub(super) fn all(text: &str) -> Vec<Range<usize>> {
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
        if is_login || is_key(value) || core.into_iter().any(is_token) {
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
pub(super) fn is_user_and_password(word: &str) -> bool {
    if word.len() < 8 || !word.len().is_multiple_of(4) {
        return false;
    }
    decoded(word).is_some_and(|bytes| {
        bytes.contains(&b':') && bytes.iter().all(|byte| (b' '..=b'~').contains(byte))
    })
}

/// Whether a word is base64 of a private key, as objects of a cluster have it.
fn is_key(word: &str) -> bool {
    if !KEYS.iter().any(|start| word.starts_with(start)) {
        return false;
    }
    let start = word.get(..word.len().min(LINE)).unwrap_or_default();
    let text = decoded(start).unwrap_or_default();
    private_keys::in_text(&String::from_utf8_lossy(&text)).is_some()
}

/// The bytes of a word of base64; `None` when it is none.
fn decoded(word: &str) -> Option<Vec<u8>> {
    let mut bits = 0u32;
    let mut bytes = Vec::new();
    for (at, c) in word.trim_end_matches('=').bytes().enumerate() {
        let six = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(six);
        if at % 4 > 0 {
            // Bits of the next byte are left over.
            let [.., byte] = (bits >> (6 - 2 * (at % 4))).to_be_bytes();
            bytes.push(byte);
        }
    }
    Some(bytes)
}
