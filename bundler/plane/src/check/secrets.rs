//! Secrets: values that are to be kept secret, by their keys or by how they begin, and that everybody can read.
//!
//! What comes in: a control plane. What goes out: a warning for each such value of a config container that is not sealed: it is in git,
//! in what is rendered and in every bundle as it is written. What only names a secret, such as a file or an object of the cluster, is
//! left alone, and private keys, which have a finding of their own. The value is never printed.

use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_kit::url_secrets;
use outhaul_signer::seal::marker;

/// What the keys of secrets end with, in words without marks between them.
const ENDINGS: [&str; 13] = [
    "password",
    "passwd",
    "passphrase",
    "token",
    "apikey",
    "privatekey",
    "secretkey",
    "accesskey",
    "signingkey",
    "encryptionkey",
    "clientsecret",
    "credential",
    "credentials",
];
/// What their last word is, where that alone ends other words, too.
const WORDS: [&str; 4] = ["pass", "pwd", "authorization", "bearer"];

/// Fewest characters of a token that says what it is.
const LEAST_TOKEN: usize = 16;
/// Words that no secret is.
const NO_SECRETS: [&str; 8] = ["true", "false", "yes", "no", "on", "off", "null", "none"];

/// The code of the finding.
pub const CODE: &str = "secret-in-clear";

/// What to do about one.
pub const HELP: &str = "`outhaul secret seal` makes a text that only the sites open: put it in the place of the value; a secret that was \
                        published already is to be replaced by another one";

/// What is said of one.
pub fn message(key: &str) -> String {
    format!(
        "`{key}` looks like a secret, and everybody who has this repository, what is rendered or a bundle can read it"
    )
}

pub(super) fn in_clear(plane: &ControlPlane, findings: &mut Diagnostics) {
    for container in plane.configs.values() {
        for (key, text) in &container.data {
            if !is_in_clear(key, &text.value) {
                continue;
            }
            findings.push(
                Diagnostic::warning(CODE, message(key))
                    .at(&text.location)
                    .concealed()
                    .help(HELP),
            );
        }
    }
}

/// Whether the value of `key` is to be kept secret, and is not; or, where the value is a list, a map or settings of another program, one
/// in it.
pub fn is_in_clear(key: &str, value: &str) -> bool {
    // Beside a sealed text another one may stand in clear.
    let value = marker::replace_markers(value, "");
    is_secret(key, &value)
        || url_secrets::has_secret(&value)
        || has_token(&value)
        || has_setting(&value)
}

fn is_secret(key: &str, value: &str) -> bool {
    let value = value.trim().trim_matches(['"', '\'']);
    let word: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
    let word = word.to_ascii_lowercase();
    // A path, a variable, a template or a list names it, or has more keys.
    let is_reference = value.starts_with(['/', '$', '{', '[', '<']) || value.parse::<f64>().is_ok();
    let is_word = NO_SECRETS.contains(&value.to_ascii_lowercase().as_str());
    let is_named = ENDINGS.iter().any(|end| word.ends_with(end))
        || WORDS.contains(&last_word(key).to_ascii_lowercase().as_str());
    is_named && !value.is_empty() && !is_reference && !is_word
}

/// The last word of a key such as `DB_PASS`, `db.pass` or `dbPass`.
fn last_word(key: &str) -> &str {
    let ends = |c: char| !c.is_ascii_alphanumeric();
    let key = key.trim_end_matches(ends);
    let key = key.rsplit(ends).next().unwrap_or_default();
    let bytes = key.as_bytes();
    let begins = |at: &usize| bytes[*at].is_ascii_uppercase() && bytes[at - 1].is_ascii_lowercase();
    let start = (1..bytes.len()).rev().find(begins).unwrap_or(0);
    key.get(start..).unwrap_or_default()
}

fn has_token(value: &str) -> bool {
    let ends = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.');
    value
        .split(ends)
        .any(|word| word.len() >= LEAST_TOKEN && url_secrets::is_token(word))
}

/// Whether a `key: value` or `key=value` in a longer text is a secret. A value of several words behind a colon is a sentence.
fn has_setting(text: &str) -> bool {
    let ends = |c: char| matches!(c, ',' | ';' | '&' | '}' | ']' | '\n');
    text.match_indices([':', '=']).any(|(at, mark)| {
        let (before, after) = text.split_at(at);
        let key = before.trim_end().trim_end_matches(['"', '\'']);
        let key = key.rsplit(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.'));
        let value = after.get(1..).unwrap_or_default().trim_start();
        let mut value = value.split(ends).next().unwrap_or_default().trim_end();
        let words = value.split_whitespace().count();
        if words > 1 && !value.starts_with(['"', '\'']) {
            match mark {
                "=" => value = value.split_whitespace().next().unwrap_or_default(),
                _ => return false,
            }
        }
        key.into_iter()
            .next()
            .is_some_and(|key| is_secret(key, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sealed text, as far as its form goes.
    fn sealed() -> String {
        format!("{}AAAA]", marker::OPENING)
    }

    #[test]
    fn what_is_a_secret_by_its_key_or_its_value_is_known_and_what_names_one_is_not() {
        for (key, value) in [
            ("PASSWORD", "hunter2"),
            ("db.password", "hunter2"),
            ("DB_API_KEY", "abc"),
            ("clientSecret", "abc"),
            ("GITHUB_TOKEN", "ghp_abc"),
            ("REPOSITORY", "https://me:hunter2@git.example/a"),
            ("ANYTHING", "ghp_0123456789abcdefghijklmnop"),
            ("DATABASE", "jdbc:postgresql://db/a?user=a&password=hunter2"),
            ("DATABASE", "Server=db;Password=hunter2;"),
            ("USERS", "[{user: a, password: hunter2}]"),
            ("ENV", "- name: a\n  db: {api_token: hunter2}"),
            ("SETTINGS", "{\"password\": \"hunter2\"}"),
            ("DB_PASS", "hunter2"),
            ("dbPass", "hunter2"),
            ("dbpassword", "hunter2"),
            ("AWS", "AKIAIOSFODNN7EXAMPLE"),
            ("ENV", "PASSWORD=hunter2 USER=a"),
            ("USERS", "[{password: SEALED}, {password: hunter2}]"),
        ] {
            let value = &value.replace("SEALED", &sealed());
            assert!(is_in_clear(key, value), "{key}: {value}");
        }
        for (key, value) in [
            ("PASSWORD_FILE", "/run/secrets/password"),
            ("PASSWORD", "/run/secrets/password"),
            ("PASSWORD", "${DB_PASSWORD}"),
            ("PASSWORD", ""),
            ("PASSWORD", "SEALED"),
            ("USERS", "[{password: SEALED}, {password: SEALED}]"),
            ("TOKEN_URL", "https://login.example/token"),
            ("MAX_TOKEN", "4096"),
            ("ENABLE_PASSWORD", "false"),
            ("USERS", "[{user: a, passwordFile: /run/a}]"),
            ("NOTE", "password: see the manual"),
            ("COMPASS", "north"),
            ("BYPASS", "all"),
            ("ZONE", "ASIA_PACIFIC_REGION_NORTH"),
            ("IMAGE", "registry.example/token-service:1.2"),
            ("HOSTS", "db.example:5432, cache.example:6379"),
            ("SECRET_NAME", "database"),
            ("imagePullSecret", "registry"),
            ("REGION", "east-us"),
        ] {
            let value = value.replace("SEALED", &sealed());
            assert!(!is_in_clear(key, &value), "{key}: {value}");
        }
    }
}
