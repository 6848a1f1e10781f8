//! Who may sign without a key pair: an issuer, and who it knows.
//!
//! What comes in: an entry of a policy, and what a certificate says. What goes out: whether the one is the other, and what is wrong
//! with an entry that strangers fit, too. What a certificate says is verified elsewhere.

use std::net::IpAddr;

use super::pattern::fits;
use crate::model::Spanned;
use outhaul_kit::url::UrlParts;

/// Most characters of an issuer or a subject.
const MAX_CHARS: usize = 1000;
/// Whose subjects are workflows: `https://github.com/OWNER/REPOSITORY/.github/workflows/FILE@REF`.
const WORKFLOWS: &str = "https://token.actions.githubusercontent.com";

/// Domains of mail at which anybody gets an address.
const PUBLIC_MAIL: [&str; 27] = [
    "126.com",
    "163.com",
    "duck.com",
    "fastmail.com",
    "free.fr",
    "freenet.de",
    "gmx.info",
    "hey.com",
    "laposte.net",
    "libero.it",
    "mac.com",
    "mail.com",
    "mail.ru",
    "me.com",
    "naver.com",
    "orange.fr",
    "pm.me",
    "posteo.de",
    "qq.com",
    "t-online.de",
    "tuta.com",
    "tutanota.com",
    "users.noreply.github.com",
    "wanadoo.fr",
    "web.de",
    "yandex.asia",
    "zohomail.com",
];

/// Providers of mail for anybody, each with a domain for many countries, such as `yahoo.co.uk`.
const PUBLIC_PROVIDERS: [&str; 16] = [
    "aol",
    "gmail",
    "gmx",
    "googlemail",
    "hotmail",
    "icloud",
    "live",
    "msn",
    "outlook",
    "proton",
    "protonmail",
    "rocketmail",
    "yahoo",
    "yandex",
    "ymail",
    "zoho",
];

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
    let own = issuer.strip_prefix("http://").filter(|_| {
        let host = UrlParts::of(issuer).map_or("", |url| url.host());
        let ip: Option<IpAddr> = host.parse().ok();
        host == "localhost" || ip.is_some_and(|ip| ip.is_loopback())
    });
    let is_plain = |rest: &str| {
        !rest.is_empty()
            && !rest.starts_with('/')
            && !rest.contains('*')
            && !rest.chars().any(|c| c.is_whitespace() || c.is_control())
    };
    match rest.or(own) {
        Some(rest) if rest.contains("/.well-known") => Some((
            "it is the address of an issuer's discovery document",
            "write the issuer alone, as certificates have it: what is before `/.well-known`",
        )),
        Some(rest) if rest.contains(['?', '#']) => Some((
            "it is the address of a page, and not of an issuer",
            "write the issuer alone, as certificates have it, without `?` and `#`",
        )),
        Some(rest) if is_plain(rest) && issuer.chars().count() <= MAX_CHARS => None,
        _ => Some((
            "it is not the URL of an issuer",
            "write it as certificates have it, in full and without `*`, such as `https://token.actions.githubusercontent.com`",
        )),
    }
}

/// Whether anybody gets an address at a domain, which is in small letters.
fn is_public_mail(domain: &str) -> bool {
    /// Most characters of each part of an ending, such as `com` or `co.uk`.
    const MAX_ENDING_CHARS: usize = 3;
    // A dot at the end is the same domain.
    let domain = domain.trim_end_matches('.');
    let parts: Vec<&str> = domain.split('.').collect();
    let is_ending = |part: &&str| part.len() <= MAX_ENDING_CHARS;
    let is_provider = match parts.split_first() {
        Some((name, ending)) => {
            PUBLIC_PROVIDERS.contains(name)
                && matches!(ending.len(), 1 | 2)
                && ending.iter().all(is_ending)
        }
        None => false,
    };
    is_provider || PUBLIC_MAIL.contains(&domain)
}

/// What is wrong with a subject: who is a stranger must not fit it.
pub fn bad_subject(subject: &str) -> Option<(&'static str, &'static str)> {
    if subject.chars().any(|c| c.is_whitespace() || c.is_control())
        || subject.chars().count() > MAX_CHARS
    {
        return Some((
            "no certificate has such a subject",
            "write it as `cosign verify` accepts it: an address of mail, or a URL",
        ));
    }
    let (start, _) = subject.split_once('*')?;
    let url = subject.split_once("://");
    let Some((scheme, _)) = url.filter(|(scheme, _)| !scheme.contains('*')) else {
        let domain = subject.rsplit_once('@').map(|(_, domain)| domain);
        let is_whole = domain.is_some_and(|domain| domain.contains('.') && !domain.contains('*'));
        let domain = domain.unwrap_or_default().to_ascii_lowercase();
        if is_public_mail(&domain) {
            return Some((
                "whoever gets an address at that provider of mail could fit it",
                "write the address in full: at a domain that everyone gets addresses of, `*` is everyone",
            ));
        }
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

/// Why an issuer knows nobody by a subject, and what to write.
pub fn unknown_to(issuer: &str, subject: &str) -> Option<(&'static str, &'static str)> {
    let is_workflow = issuer.trim_end_matches('/') == WORKFLOWS;
    (is_workflow && !subject.contains("://")).then_some((
        "matches no subject of this issuer: its subjects are URLs of workflows",
        "write the workflow's URL, such as `https://github.com/press/app/.github/workflows/release.yml@refs/tags/*`, or the issuer that \
         knows such addresses",
    ))
}

/// Of a subject that is sound, what it is for besides what one may think.
pub fn broad_subject(issuer: &str, subject: &str) -> Option<(&'static str, &'static str)> {
    const BRANCHES: &str = "fits workflows on every branch: whoever may push one there can sign";
    const HELP: &str = "name the workflow and its ref, such as `https://github.com/press/app/.github/workflows/release.yml@refs/tags/*`";
    if !subject.contains('*') {
        return None;
    }
    if subject.ends_with("@refs/heads/*") || subject.ends_with("@refs/*") {
        return Some((BRANCHES, HELP));
    }
    let Some((repository, workflow)) = subject.split_once("/.github/workflows/") else {
        let is_workflow = issuer.trim_end_matches('/') == WORKFLOWS;
        return is_workflow.then_some((BRANCHES, HELP));
    };
    let Some((file, at)) = workflow
        .rsplit_once('@')
        .filter(|(_, at)| !at.starts_with('*'))
    else {
        return Some((BRANCHES, HELP));
    };
    let what = match () {
        () if at.starts_with("refs/heads/*") => BRANCHES,
        () if file.starts_with('*') => {
            "fits every workflow of the repository: also one that others can start, or that anybody adds later"
        }
        () if repository.contains('*') => {
            "fits workflows of every repository there: whoever may make one can sign"
        }
        () => return None,
    };
    Some((what, HELP))
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
            "*@gmail.com",
            "release-*@GMail.com",
            "*@users.noreply.github.com",
            "*@yahoo.co.uk",
            "*@Yahoo.com.br",
            "*@hotmail.fr",
            "*@outlook.es",
            "*@live.nl",
            "*@gmx.at",
            "*@yahoo.co.uk.",
            "*@proton.me",
            "*@web.de",
            "*@gmx.info",
            "*@yandex.asia",
            "*@zohomail.com",
            "a b",
            "a\nb",
        ] {
            assert!(bad_subject(subject).is_some(), "{subject}");
        }
        for subject in [
            "build@press.example",
            "*@press.example",
            "build-*@press.example",
            "*@live.press.example",
            "*@outlook.example",
            "*@yahoo-press.com",
            "release.press@gmail.com",
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
            "https://accounts.example/.well-known/openid-configuration",
            "https://accounts.example/login?client=x",
            "https://accounts.example/#x",
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
    fn an_address_is_nobody_to_an_issuer_of_workflows() {
        let accounts = "https://accounts.example";
        for (issuer, subject, expected) in [
            (WORKFLOWS, "*@press.example", true),
            (WORKFLOWS, "release@press.example", true),
            (WORKFLOWS, "https://github.com/press/*", false),
            (accounts, "*@press.example", false),
        ] {
            assert_eq!(unknown_to(issuer, subject).is_some(), expected, "{subject}");
        }
        assert_eq!(broad_subject(accounts, "*@press.example"), None);
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
                true,
            ),
            (format!("{of}/app/.github/workflows/*@refs/tags/*"), true),
            (
                format!("{of}/app/.github/workflows/release.yml@refs/heads/*"),
                true,
            ),
            (
                format!("{of}/*/.github/workflows/release.yml@refs/tags/*"),
                true,
            ),
            (
                format!("{of}/app/.github/workflows/release-*.yml@refs/tags/*"),
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
        let gitlab = "https://gitlab.example/press/app//.gitlab-ci.yml@refs/heads";
        for (subject, expected) in [
            (format!("{gitlab}/*"), true),
            (format!("{gitlab}/main"), false),
        ] {
            let found = broad_subject("https://gitlab.example", &subject);
            assert_eq!(found.is_some(), expected, "{subject}");
        }
    }
}
