//! Tokens: words that say themselves that they are secrets, and what is sent to log in.
//!
//! What comes in: a text. What goes out: where such words stand in it. It knows no keys.

use std::ops::Range;

use crate::private_keys;

/// What stands in the place of a secret.
pub(crate) const CONCEALED: &str = "…";
/// How tokens begin that say what they are: those of forges and chats, and signed JSON.
const TOKENS: [&str; 15] = [
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "gldt-",
    "bbp_",
    "xoxb-",
    "xoxp-",
    "sk_live_",
    "eyJhbGciOi",
    "AGE-SECRET-KEY-",
    "age-secret-key-",
];
/// How keys of a cloud begin, and how long they are: capital letters and digits.
const KEYS: ([&str; 2], usize) = (["AKIA", "ASIA"], 20);

/// How tokens begin that are letters and digits behind that, and how long they are at least: programs name variables so, too.
const LONG_TOKENS: [(&str, usize); 2] = [("npm_", 40), ("AIza", 39)];

/// Fewest characters of a token that says what it is.
const LEAST_TOKEN: usize = 16;
/// How `-----BEGIN ` and an identity of age begin in base64, and how many characters of it hold the first line.
const ENCODED: [&str; 2] = ["LS0tLS1CRUdJTi", "QUdFLVNFQ1JFVC1LRVkt"];
const LINE: usize = 120;

/// Where tokens stand that say what they are, and what is sent to log in.
pub(crate) fn all(text: &str) -> Vec<Range<usize>> {
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
        let is_token = |word: &str| word.len() >= LEAST_TOKEN && is_token(word);
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

/// Whether `word` is a token or key that says what it is.
pub fn is_token(word: &str) -> bool {
    let is_long = LONG_TOKENS.iter().any(|(start, length)| {
        let rest = word.strip_prefix(start).unwrap_or_default();
        let is_of_it =
            |c: char| c.is_ascii_alphanumeric() || (*start == "AIza" && "_-".contains(c));
        rest.len() + start.len() >= *length && rest.chars().all(is_of_it)
    });
    let (starts, length) = KEYS;
    let is_key = word.len() == length
        && word
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
        && starts.iter().any(|start| word.starts_with(start));
    is_key || is_long || TOKENS.iter().any(|start| word.starts_with(start))
}

/// `line` with `…` in the place of each of its parts that are hidden.
pub(crate) fn replaced(line: &str, hidden: &[Range<usize>]) -> String {
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

/// Whether a word is base64 of `user:password`.
pub(crate) fn is_user_and_password(word: &str) -> bool {
    if word.len() < 8 || !word.len().is_multiple_of(4) {
        return false;
    }
    decoded(word).is_some_and(|bytes| {
        bytes.contains(&b':') && bytes.iter().all(|byte| (b' '..=b'~').contains(byte))
    })
}

/// Whether a word is base64 of a private key, as objects of a cluster have it.
fn is_key(word: &str) -> bool {
    if !ENCODED.iter().any(|start| word.starts_with(start)) {
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
