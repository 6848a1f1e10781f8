//! Secrets in URLs: what stands between `://` and `@`, when it is a password or a token.
//!
//! What comes in: a text that may hold URLs. What goes out: whether one of them holds a secret, and the text without it. A user's name
//! alone, such as `git` or an organisation, is none. It opens nothing.

/// A user name that is at least as long is taken for a token.
const LONG_USER: usize = 20;
/// How tokens begin that say what they are: those of forges, of clouds, of chats, and signed JSON.
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
    "AKIA",
    "ASIA",
    "xoxb-",
    "xoxp-",
    "sk_live_",
    "eyJhbGciOi",
];

/// Whether `word` begins as a token does that says what it is.
pub fn is_token(word: &str) -> bool {
    TOKENS.iter().any(|start| word.starts_with(start))
}

/// Whether what stands before `@` in a URL is a secret, or holds one.
pub fn is_secret(user: &str) -> bool {
    user.contains(':') || user.len() >= LONG_USER || is_token(user)
}

/// Whether a URL in `text` holds a secret. Over SSH a long name is that of a key, and only a password is one.
pub fn has_secret(text: &str) -> bool {
    let mut found = false;
    each_user(text, |scheme, user| {
        found |= match scheme.ends_with("ssh") {
            true => user.contains(':'),
            false => is_secret(user),
        };
        false
    });
    found
}

/// `text` without the secrets of the URLs in it, and without what may be one.
pub fn without_secrets(text: &str) -> String {
    each_user(text, |_, user| is_secret(user))
}

/// Asks of each URL in `text`, by what stands before `://` and by its user, whether the user is left out; the text without those.
fn each_user(text: &str, mut is_left_out: impl FnMut(&str, &str) -> bool) -> String {
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
        if after
            .get(..user)
            .is_some_and(|user| is_left_out(scheme, user))
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
            "https://secretsecretsecretsecret@git.example/x",
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
        assert!(!has_secret("ssh://APKAEIBAERJR2EXAMPLE0@git.example/x"));
    }
}
