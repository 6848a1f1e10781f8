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
const ENDINGS: [&str; 17] = [
    "pass",
    "pwd",
    "authorization",
    "bearer",
    "signingkey",
    "encryptionkey",
    "password",
    "passwd",
    "passphrase",
    "token",
    "apikey",
    "privatekey",
    "secretkey",
    "accesskey",
    "clientsecret",
    "credential",
    "credentials",
];

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
    if value.contains(marker::OPENING) {
        return false;
    }
    is_secret(key, value)
        || url_secrets::has_secret(value)
        || has_token(value)
        || has_setting(value)
}

fn is_secret(key: &str, value: &str) -> bool {
    let value = value.trim().trim_matches(['"', '\'']);
    let word: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
    let word = word.to_ascii_lowercase();
    // A path, a variable, a template or a list names it, or has more keys.
    let is_reference = value.starts_with(['/', '$', '{', '[', '<']) || value.parse::<f64>().is_ok();
    let is_word = NO_SECRETS.contains(&value.to_ascii_lowercase().as_str());
    let is_named = ENDINGS.iter().any(|end| word.ends_with(end));
    is_named && !value.is_empty() && !is_reference && !is_word
}

fn has_token(value: &str) -> bool {
    let ends = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.');
    let is_token = |word: &str| word.len() >= LEAST_TOKEN && url_secrets::is_token(word);
    value.split(ends).any(is_token)
}

/// Whether a `key: value` or `key=value` in a longer text is a secret.
fn has_setting(text: &str) -> bool {
    let ends = |c: char| matches!(c, ',' | ';' | '&' | '}' | ']' | '\n' | ' ');
    text.match_indices([':', '=']).any(|(at, _)| {
        let (before, after) = text.split_at(at);
        let key = before.trim_end().trim_end_matches(['"', '\'']);
        let key = key.rsplit(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.'));
        let value = after.get(1..).unwrap_or_default().trim_start();
        let value = value.split(ends).next().unwrap_or_default();
        key.into_iter()
            .next()
            .is_some_and(|key| is_secret(key, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            assert!(is_in_clear(key, value), "{key}: {value}");
        }
        for (key, value) in [
            ("PASSWORD_FILE", "/run/secrets/password"),
            ("PASSWORD", "/run/secrets/password"),
            ("PASSWORD", "${DB_PASSWORD}"),
            ("PASSWORD", ""),
            ("PASSWORD", "outhaul:sealed"),
            ("TOKEN_URL", "https://login.example/token"),
            ("MAX_TOKEN", "4096"),
            ("ENABLE_PASSWORD", "false"),
            ("USERS", "[{user: a, passwordFile: /run/a}]"),
            ("NOTE", "the password is asked for: see the manual"),
            ("COMPASS", ""),
            ("SECRET_NAME", "database"),
            ("imagePullSecret", "registry"),
            ("REGION", "east-us"),
        ] {
            let value = value.replace("outhaul:sealed", marker::OPENING);
            assert!(!is_in_clear(key, &value), "{key}: {value}");
        }
    }
}
