//! Secrets in URLs: what stands between `://` and `@`, when it is a password or a token.
//!
//! What comes in: a text that may hold URLs. What goes out: whether one of them holds a secret, and the text without it. A user's name
//! alone, such as `git` or an organisation, is none. It opens nothing.

/// A user name that is at least as long may be a token.
const LONG_USER: usize = 20;
/// How tokens begin that say what they are: those of forges and chats, and signed JSON.
const TOKENS: [&str; 13] = [
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
];
/// How keys of a cloud begin, and how long they are: capital letters and digits.
const KEYS: ([&str; 2], usize) = (["AKIA", "ASIA"], 20);

/// How tokens begin that are letters and digits behind that, and how long they are at least: programs name variables so, too.
const LONG_TOKENS: [(&str, usize); 2] = [("npm_", 40), ("AIza", 39)];

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

/// Whether what stands before `@` in a URL is a secret, or holds one. A long name of letters and digits is, unless it is the name of an
/// organisation: those are words, or stand in the path, too.
fn is_secret(user: &str, path: &str) -> bool {
    let is_random = user.len() >= LONG_USER
        && user.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && user.bytes().any(|byte| byte.is_ascii_digit());
    let stands_there = || path.split('/').any(|part| part == user);
    user.contains(':') || is_token(user) || (is_random && !stands_there())
}

/// Whether a URL in `text` holds a secret. Over SSH a long name is that of a key, and only a password is one.
pub fn has_secret(text: &str) -> bool {
    let mut found = false;
    each_user(text, |scheme, user, path| {
        found |= match scheme.ends_with("ssh") {
            true => user.contains(':'),
            false => is_secret(user, path),
        };
        false
    });
    found
}

/// `text` without the secrets of the URLs in it, and without what may be one.
pub fn without_secrets(text: &str) -> String {
    // What is long is left out of what is printed even where it may be a name.
    each_user(text, |_, user, path| {
        user.len() >= LONG_USER || is_secret(user, path)
    })
}

/// Asks of each URL in `text`, by what stands before `://`, by its user and its path, whether the user is left out; the text without those.
fn each_user(text: &str, mut is_left_out: impl FnMut(&str, &str, &str) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        rest = after;
        let end = after
            .find(|c: char| {
                matches!(c, '/' | '?' | '#' | '`' | '\'' | '"' | '<' | '>') || c.is_whitespace()
            })
            .unwrap_or(after.len());
        let Some(user) = after.get(..end).and_then(|text| text.rfind('@')) else {
            continue;
        };
        let scheme = before.trim_end_matches("://");
        let path = after.get(end..).unwrap_or_default();
        let path = path.split(|c: char| matches!(c, '?' | '#') || c.is_whitespace());
        let path = path.into_iter().next().unwrap_or_default();
        if after
            .get(..user)
            .is_some_and(|user| is_left_out(scheme, user, path))
        {
            out.push('…');
            rest = after.get(user..).unwrap_or_default();
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::{has_secret, without_secrets};

    #[test]
    fn passwords_and_tokens_are_secrets_and_names_are_none() {
        for text in [
            "https://u:secret@git.example/x",
            "https://ghp_secret@git.example/x",
            "https://glpat-secret@git.example/x",
            "https://secret0secret1secret2secret@git.example/x",
            "a https://git.example/x and ssh://a@b:secret@git.example/x",
        ] {
            assert!(has_secret(text), "{text}");
            assert!(!without_secrets(text).contains("secret"), "{text}");
        }
        for text in [
            "https://org@dev.azure.com/x",
            "ssh://git@git.example:22/x",
            "git@git.example:x",
            "ssh://git@[2001:db8::1]/x",
            "https://git.example:8443/a@b:c",
        ] {
            assert_eq!(without_secrets(text), text);
            assert!(!has_secret(text), "{text}");
        }
        // An organisation's own address, as a forge gives it out.
        for name in [
            "contoso-manufacturing-europe",
            "contosomanufacturingeurope",
            "contosoplant4manufacturing",
            "ASIAPAC",
        ] {
            let text = format!("https://{name}@dev.azure.com/{name}/plant/_git/press");
            assert!(!has_secret(&text), "{text}");
        }
        assert!(!has_secret("ssh://APKAEIBAERJR2EXAMPLE0@git.example/x"));
    }
}
