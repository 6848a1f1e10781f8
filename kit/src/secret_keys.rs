//! Keys and values: which are those of secrets.
//!
//! What comes in: a key and its value. What goes out: whether the key is that of a secret, and whether the value is one, or what only names
//! one. It knows no form of a text.

use crate::secret_tokens as tokens;

/// What the keys of secrets end with, in words without marks between them.
const ENDINGS: [&str; 22] = [
    "password",
    "passwords",
    "passwd",
    "pwd",
    "dbpass",
    "dbpw",
    "userpass",
    "keypass",
    "storepass",
    "passphrase",
    "token",
    "apikey",
    "apikeys",
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
const WORDS: [&str; 4] = ["pass", "pw", "authorization", "bearer"];
/// The last word of keys whose value is a secret, or the name of one.
const EITHER: &str = "secret";
/// Behind one of these it is said whose secret it is.
const OF: [&str; 2] = ["of", "for"];
/// Behind their `:` stand maps with users and files as often as secrets.
const COLLECTIONS: [&str; 2] = ["credential", "credentials"];
/// How values begin that are sent to log in.
const LOGINS: [&str; 5] = ["basic", "bearer", "token", "digest", "apikey"];
/// Words of the keys of such values.
const LOGIN_KEYS: [&str; 4] = ["auth", "authorization", "header", "headers"];
/// What stands behind such a word in a sentence.
const NO_LOGINS: [&str; 8] = [
    "auth",
    "authentication",
    "authorization",
    "realm",
    "scheme",
    "settings",
    "token",
    "tokens",
];
/// What stands around values, also where they are quoted within a quoted text.
pub(crate) const QUOTES: [char; 3] = ['"', '\'', '\\'];
/// How values begin that name a secret: a path, a variable, a template, a tag, or where a store has it; a list or map has more keys.
const REFERENCES: [&str; 14] = [
    "/", "$", "{", "[", "<", "!", "./", "~/", "vault:", "arn:", "op://", "file:", "ref+", "ENC[",
];
/// Words that no secret is.
const NO_SECRETS: [&str; 9] = [
    "true", "false", "yes", "no", "on", "off", "null", "none", "~",
];
/// Fewest characters of a value that is random when it has small and capital letters and digits, or, with more digits, no capitals.
const LEAST_RANDOM: (usize, usize) = (12, 16);
/// Fewest digits of a number that is a password.
const LEAST_NUMBER: usize = 4;

/// Whether `key` is the name of something secret.
pub(crate) fn is_named(key: &str) -> bool {
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

pub(crate) fn is_secret(key: &str, value: &str) -> bool {
    let value = value.trim().trim_matches(QUOTES);
    let is_number = value.parse::<f64>().is_ok();
    !value.is_empty()
        && !is_reference(value)
        && (is_login(key, value)
            || match is_number {
                true => value.len() >= LEAST_NUMBER && is_password(key),
                false => is_named(key) || is_either(key, value),
            })
}

/// Whether a number may be the value of a secret key: how many tokens there are is none.
fn is_password(key: &str) -> bool {
    let key = key.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    words(key).last().is_some_and(|last| {
        last.starts_with("pass") || last.ends_with("pwd") || last.ends_with("password")
    }) && is_named(key)
}

pub(crate) fn is_either(key: &str, value: &str) -> bool {
    let key = key.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    words(key).last().is_some_and(|last| last == EITHER) && is_random(value)
}

pub(crate) fn is_reference(value: &str) -> bool {
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

/// Whether a list or map that is the value of `key` is one of secrets, whatever its keys are.
pub(crate) fn holds_secrets(key: &str) -> bool {
    let key = key.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    let is_collection = |last: &String| COLLECTIONS.contains(&last.as_str());
    is_named(key) && !words(key).last().is_some_and(is_collection)
}

/// Whether `value` is what the header `key` has to log in: a word such as `Bearer` and another one, or what a registry's login is kept as.
pub(crate) fn is_login(key: &str, value: &str) -> bool {
    let bare = |text: &str| text.trim_matches(QUOTES).to_owned();
    let all = words(key);
    if !all.iter().any(|word| LOGIN_KEYS.contains(&word.as_str())) {
        return false;
    }
    let mut parts = value.split_whitespace();
    let first = bare(parts.next().unwrap_or_default());
    let Some(second) = parts.next() else {
        let is_auth = all.last().is_some_and(|last| last == "auth");
        return is_auth && (tokens::is_user_and_password(&first) || is_random(&first));
    };
    let is_told = second.ends_with(['"', '\'']) || parts.next().is_none();
    let second = bare(second);
    let small = second.to_ascii_lowercase();
    LOGINS.contains(&first.to_ascii_lowercase().as_str())
        && !second.is_empty()
        && !is_reference(&second)
        && !NO_LOGINS.contains(&small.as_str())
        && (is_told || small != second || second.contains(|c: char| c.is_ascii_digit()))
}
