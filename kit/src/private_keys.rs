//! Private keys in texts: those of age, and those in PEM and as OpenSSH writes them.
//!
//! What comes in: a text, or one line of it. What goes out: whether a private key stands there, of what kind, and where. Public keys and
//! certificates are none. It reads no key.

use std::ops::Range;

/// How identities of age begin, as they are written and as some readers take them.
const AGE: [&str; 2] = ["AGE-SECRET-KEY-", "age-secret-key-"];
/// How the first line of PEM begins, and the last one.
const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
/// What ends both.
const DASHES: &str = "-----";
/// What the name of a private key in PEM ends with.
const NAMES: [&str; 2] = ["PRIVATE KEY", "PRIVATE KEY BLOCK"];
/// How lines between them begin that are no base64.
const HEADERS: [&str; 5] = ["Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Hash:"];

/// What kind of private key is in a text; `None` when there is none.
pub fn in_text(text: &str) -> Option<&'static str> {
    if AGE.iter().any(|start| text.contains(start)) {
        return Some("a private key of age");
    }
    begin(text).map(|_| "a private key in PEM")
}

/// Where the private keys in PEM of a text stand: each up to its last line, or to the end of the text where it has none.
pub fn spans(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text.get(from..).and_then(begin).map(|at| from + at) {
        let end = text.get(start..).and_then(end);
        let end = end.map_or(text.len(), |end| start + end);
        found.push(start..end);
        from = end;
    }
    found
}

/// Whether a private key in PEM begins in `line` and goes on behind it.
pub fn begins(line: &str) -> bool {
    let last = spans(line).pop();
    last.is_some_and(|last| line.get(last).is_some_and(|key| end(key).is_none()))
}

/// Whether `line` is the last one of a key in PEM.
pub fn ends(line: &str) -> bool {
    line.contains(END)
}

/// Whether `line` may be a part of a key in PEM, as it is written in a text of YAML or JSON.
pub fn is_part(line: &str) -> bool {
    let line = line.trim_matches(|c: char| c.is_whitespace() || "\"'\\,-+#".contains(c));
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=\\".contains(c);
    line.chars().all(is_base64) || HEADERS.iter().any(|start| line.starts_with(start))
}

/// Where a private key in PEM begins.
fn begin(text: &str) -> Option<usize> {
    let mut all = text.match_indices(BEGIN);
    let found = all.find(|(at, _)| {
        let rest = text.get(at + BEGIN.len()..).unwrap_or_default();
        let rest = rest.lines().next().unwrap_or_default();
        let name = rest.split_once(DASHES).map(|(name, _)| name);
        name.is_some_and(|name| NAMES.iter().any(|known| name.ends_with(known)))
    });
    found.map(|(at, _)| at)
}

/// Where the key that begins at the start of `text` ends.
fn end(text: &str) -> Option<usize> {
    let at = text.find(END)? + END.len();
    let rest = text.get(at..)?;
    let dashes = rest.find(DASHES);
    Some(dashes.map_or(text.len(), |dashes| at + dashes + DASHES.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_key_is_found_from_its_first_to_its_last_line_and_a_public_one_is_none() {
        let key = "-----BEGIN EC PRIVATE KEY-----\nMEEC\n-----END EC PRIVATE KEY-----";
        let text = format!("a {key} b {key}");
        assert_eq!(spans(&text), [2..2 + key.len(), 5 + key.len()..text.len()]);
        let open = "-----BEGIN PRIVATE KEY-----\nMEEC";
        assert_eq!(spans(open).pop(), Some(0..open.len()));
        for (text, expected) in [
            (key, true),
            ("AGE-SECRET-KEY-1QQ", true),
            ("x age-secret-key-1qq", true),
            ("-----BEGIN PGP PRIVATE KEY BLOCK-----", true),
            ("-----BEGIN PUBLIC KEY-----", false),
            ("-----END PRIVATE KEY-----", false),
            ("-----BEGIN CERTIFICATE-----\nno PRIVATE KEY-----", false),
            ("age1qq", false),
        ] {
            assert_eq!(in_text(text).is_some(), expected, "{text}");
        }
        assert!(begins("k: -----BEGIN PRIVATE KEY-----") && !begins(&key.replace('\n', "\\n")));
        assert!(is_part("    MEEC+/=") && is_part("DEK-Info: AES") && !is_part("name: a"));
    }
}
