//! Who may sign without a key pair: an issuer, and who it knows.
//!
//! What comes in: an entry of a policy, and what a certificate says. What goes out: whether the one is the other, and what is wrong
//! with an entry that strangers fit, too. What a certificate says is verified elsewhere.

use super::fits;
use crate::model::Spanned;

/// Most characters of an issuer or a subject.
const MAX_CHARS: usize = 1000;
/// Whose subjects are workflows: `https://github.com/OWNER/REPOSITORY/.github/workflows/FILE@REF`.
const WORKFLOWS: &str = "https://token.actions.githubusercontent.com";

/// Who may sign.
#[derive(Debug, Clone, PartialEq)]
pub struct SignerIdentity {
    /// The issuer's URL, as certificates have it.
    pub issuer: Spanned<String>,
    /// The subject, with `*` for any run of characters.
    pub subject: Spanned<String>,
}

impl SignerIdentity {
    /// Whether it is who a certificate names.
    pub fn is(&self, issuer: &str, subject: &str) -> bool {
        self.issuer.value == issuer && fits(&self.subject.value, subject)
    }
}

/// What is wrong with an issuer, and what to write.
pub fn bad_issuer(issuer: &str) -> Option<(&'static str, &'static str)> {
    let rest = issuer.strip_prefix("https://");
    // This machine's own, which is asked without encryption.
    let own = issuer.strip_prefix("http://");
    let own = own.filter(|rest| {
        let host = rest.split(['/', ':']).next().unwrap_or_default();
        host == "localhost" || host.starts_with("127.")
    });
    let is_plain = |rest: &str| {
        !rest.is_empty()
            && !rest.starts_with('/')
            && !rest.contains('*')
            && !rest.chars().any(|c| c.is_whitespace() || c.is_control())
    };
    match rest.or(own) {
        Some(rest) if is_plain(rest) && issuer.chars().count() <= MAX_CHARS => None,
        _ => Some((
            "it is not the URL of an issuer",
            "write it as certificates have it, in full and without `*`, such as `https://token.actions.githubusercontent.com`",
        )),
    }
}

/// What is wrong with a subject: who is a stranger must not fit it.
pub fn bad_subject(subject: &str) -> Option<(&'static str, &'static str)> {
    if subject.chars().any(|c| c.is_whitespace() || c.is_control())
        || subject.chars().count() > MAX_CHARS
    {
        return Some((
            "no certificate has such a subject",
            "write it as `cosign verify` takes it: an address of mail, or a URL",
        ));
    }
    let (start, _) = subject.split_once('*')?;
    let url = subject.split_once("://");
    let Some((scheme, _)) = url.filter(|(scheme, _)| !scheme.contains('*')) else {
        let domain = subject.rsplit_once('@').map(|(_, domain)| domain);
        let is_whole = domain.is_some_and(|domain| domain.contains('.') && !domain.contains('*'));
        return (!is_whole).then_some((
            "whoever has an account at the issuer could fit it",
            "write the subject in full, or with `*` before the `@` of one domain, such as `*@press.example`",
        ));
    };
    let path = start.get(scheme.len() + 3..).unwrap_or_default();
    let mut parts = path.split('/');
    let (host, owner) = (parts.next(), parts.next());
    // A part is whole where something comes after it.
    let is_whole = host.is_some_and(|host| !host.is_empty())
        && owner.is_some_and(|owner| !owner.is_empty())
        && parts.next().is_some();
    (!is_whole).then_some((
        "whoever has an account at the issuer could fit it",
        "write host and owner in full, with `/` after them, such as `https://github.com/press/*`",
    ))
}

/// Of a subject that is sound, what it is for besides what one may think.
pub fn broad_subject(issuer: &str, subject: &str) -> Option<(&'static str, &'static str)> {
    let (before, _) = subject.rsplit_once('*')?;
    let is_workflow = issuer.trim_end_matches('/') == WORKFLOWS;
    let names_ref = before.contains("@refs/heads/") || before.contains("@refs/tags/");
    let names_file = before.contains("/.github/workflows/");
    let pinned = names_file
        && (names_ref
            || subject
                .rsplit_once('@')
                .is_some_and(|(_, at)| !at.contains('*')));
    (is_workflow && !pinned).then_some((
        "fits workflows on every branch: whoever may push one there can sign",
        "name the workflow and its ref, such as `https://github.com/press/app/.github/workflows/release.yml@refs/tags/*`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_that_strangers_fit_is_refused() {
        for subject in [
            "*",
            "**",
            "https://*",
            "https://github.com*",
            "https://github.com/*",
            "https://github.com/press*",
            "https://github.com//*",
            "*://github.com/press/app",
            "https://*/press/app",
            "*.example",
            "*press.example",
            "*@*",
            "build@*",
            "*@*.example",
            "*@example",
            "a b",
            "a\nb",
        ] {
            assert!(bad_subject(subject).is_some(), "{subject}");
        }
        for subject in [
            "build@press.example",
            "*@press.example",
            "build-*@press.example",
            "https://github.com/press/*",
            "https://github.com/press/app/.github/workflows/*@refs/tags/*",
            "spiffe://press.example/build/*",
            "build",
        ] {
            assert_eq!(bad_subject(subject), None, "{subject}");
        }
        assert!(bad_subject(&"a".repeat(MAX_CHARS + 1)).is_some());
    }

    #[test]
    fn an_issuer_is_one_url() {
        for issuer in [
            "",
            "https://",
            "https:///x",
            "accounts.example",
            "http://accounts.example",
            "http://localhost.example",
            "https://*.example",
            "https://a b",
        ] {
            assert!(bad_issuer(issuer).is_some(), "{issuer}");
        }
        for issuer in [
            "https://accounts.example",
            "http://localhost:8080",
            WORKFLOWS,
        ] {
            assert_eq!(bad_issuer(issuer), None, "{issuer}");
        }
    }

    #[test]
    fn a_subject_for_every_branch_is_named() {
        let of = "https://github.com/press";
        for (subject, expected) in [
            (format!("{of}/*"), true),
            (format!("{of}/app/.github/workflows/release.yml@*"), true),
            (
                format!("{of}/app/.github/workflows/release.yml@refs/*"),
                true,
            ),
            (
                format!("{of}/app/.github/workflows/release.yml@refs/tags/*"),
                false,
            ),
            (
                format!("{of}/app/.github/workflows/*@refs/heads/main"),
                false,
            ),
            (format!("{of}/*@refs/heads/main"), true),
            (
                format!("{of}/app/.github/workflows/release.yml@refs/heads/main"),
                false,
            ),
        ] {
            let found = broad_subject(WORKFLOWS, &subject);
            assert_eq!(found.is_some(), expected, "{subject}");
        }
        assert!(broad_subject("https://accounts.example", &format!("{of}/*")).is_none());
    }
}
