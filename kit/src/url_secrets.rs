//! Secrets in URLs: what stands between `://` and `@`, when it is a password or a token; such values of a query; and paths that are secrets.
//!
//! What comes in: a text that may hold URLs. What goes out: whether one of them holds a secret, and the text without it. A user's name
//! alone, such as `git` or an organisation, is none, and neither is what a site fills in (`?token=${TOKEN}`). It opens nothing.

use std::ops::Range;

use percent_encoding::percent_decode_str;

use crate::secret_keys::{is_reference, is_secret as is_secret_by_key};
use crate::secret_tokens::{is_token, replaced};

/// A user name that is at least as long may be a token.
const LONG_USER: usize = 20;
/// What the last words of keys of a query are whose values are secrets, beside those that are so elsewhere.
const QUERY: [&str; 6] = ["sig", "signature", "secret", "hmac", "pw", "accesscode"];
/// Addresses of which who knows the rest may send.
const HOOKS: [&str; 7] = [
    "hooks.slack.com/services/",
    "hooks.slack.com/workflows/",
    "hooks.slack.com/triggers/",
    "discord.com/api/webhooks/",
    "discordapp.com/api/webhooks/",
    "webhook.office.com/webhookb2/",
    "api.telegram.org/bot",
];

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
    found || !parts(text).is_empty()
}

/// Where values of queries and paths stand that are secrets.
fn parts(text: &str) -> Vec<Range<usize>> {
    let ends = |c: char| c.is_whitespace() || "`'\"<>".contains(c);
    let is_filled_in = |value: &str| {
        let first = value.chars().next();
        !first.is_some_and(|c| c.is_alphanumeric() || "%-_+/.".contains(c))
    };
    let mut found = Vec::new();
    for hook in HOOKS {
        for (at, _) in text.match_indices(hook) {
            let start = at + hook.len();
            let rest = text.get(start..).unwrap_or_default();
            let value = rest.split(ends).next().unwrap_or_default();
            if !is_filled_in(value) {
                found.push(start..start + value.len());
            }
        }
    }
    for (at, _) in text.match_indices(['?', '&', '#']) {
        let rest = text.get(at + 1..).unwrap_or_default();
        let pair = rest.split(|c: char| ends(c) || matches!(c, '&' | '#'));
        let pair = pair.into_iter().next().unwrap_or_default();
        let Some((key, value)) = pair.split_once('=') else {
            continue;
        };
        let of_key = |c: char| c.is_ascii_alphanumeric() || "_-.%".contains(c);
        if key.chars().all(of_key) && !is_filled_in(value) && is_secret_in_query(key, value) {
            let start = at + 1 + key.len() + 1;
            found.push(start..start + value.len());
        }
    }
    found.sort_by_key(|span| (span.start, span.end));
    found
}

fn is_secret_in_query(key: &str, value: &str) -> bool {
    let key = percent_decode_str(key).decode_utf8_lossy();
    let small = key.to_ascii_lowercase();
    let last = small.rsplit(['-', '_', '.']).next().unwrap_or_default();
    let is_one = QUERY.contains(&last) && !is_reference(value);
    is_one || is_secret_by_key(&key, value)
}

/// `text` without the secrets of the URLs in it, and without what may be one.
pub fn without_secrets(text: &str) -> String {
    let text = replaced(text, &parts(text));
    // What is long is left out of what is printed even where it may be a name.
    each_user(&text, |_, user, path| {
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

    #[test]
    fn a_token_in_a_query_or_a_webhook_is_a_secret_and_what_is_filled_in_is_none() {
        for text in [
            "https://git.example/x?access_token=hunter2a",
            "https://git.example/x?a=1&token=hunter2a&b=2",
            "https://git.example/x?access%5Ftoken=hunter2a",
            "https://git.example/x?private_token=hunter2a",
            "https://git.example/x#access_token=hunter2a",
            "https://a.blob.core.windows.net/b?sv=2024&sig=hunter2a%3D",
            "https://s3.example/b?X-Amz-Signature=hunter2a",
            "https://s3.example/b?X-Goog-Signature=hunter2a",
            "git@git.example:team/x?token=hunter2a",
            "https://hooks.slack.com/services/T0/B0/hunter2a",
            "https://discord.com/api/webhooks/1/hunter2a",
        ] {
            assert!(has_secret(text), "{text}");
            assert!(!without_secrets(text).contains("hunter2a"), "{text}");
        }
        for text in [
            "https://git.example/x?ref=main&path=a",
            "https://git.example/x?token=${TOKEN}&sig={{ .Sig }}",
            "https://git.example/x?token=&max_tokens=10",
            "https://git.example/tokens?sort=token",
            "https://hooks.slack.com/services/$HOOK",
            "https://hooks.slack.com/services/",
            "a && b?c=d",
        ] {
            assert!(!has_secret(text), "{text}");
            assert_eq!(without_secrets(text), text);
        }
    }
}
