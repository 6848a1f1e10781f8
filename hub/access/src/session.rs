//! The secret of one browser's session, and the token that ties a form to it.
//!
//! What comes in: random bytes, or what a cookie holds. What goes out: the digest under which the hub keeps the session,
//! and the value that each form of it carries. Neither tells the secret. Comparisons are of digests, so that their time tells
//! nothing either.

use std::fmt;

use outhaul_bundle::Digest;

/// Bytes of a secret.
const BYTES: usize = 32;
/// What the secret is hashed with, for each use another.
const KEPT_AS: &str = "outhaul hub session\n";
const FORM: &str = "outhaul hub form\n";

/// A session's secret, as its cookie holds it.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionSecret(String);

impl SessionSecret {
    /// The secret of these random bytes.
    pub fn of(bytes: [u8; BYTES]) -> Self {
        Self(hex::encode(bytes))
    }

    /// The secret that a cookie holds; `None` for anything that this program never wrote.
    pub fn from_cookie(text: &str) -> Option<Self> {
        let hex = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        let fits = text.len() == BYTES * 2 && text.bytes().all(hex);
        fits.then(|| Self(text.to_owned()))
    }

    /// What the cookie holds.
    pub fn cookie(&self) -> &str {
        &self.0
    }

    /// The digest under which the session is kept, 64 hexadecimal digits.
    pub fn digest(&self) -> String {
        self.hashed(KEPT_AS)
    }

    /// What each form of the session carries: another site cannot know it.
    pub fn form_token(&self) -> String {
        self.hashed(FORM)
    }

    /// Whether a form came from a page of this session.
    pub fn made(&self, form_token: &str) -> bool {
        Digest::of(form_token.as_bytes()) == Digest::of(self.form_token().as_bytes())
    }

    fn hashed(&self, with: &str) -> String {
        Digest::of(format!("{with}{}", self.0).as_bytes()).hex()
    }
}

impl fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionSecret(…)")
    }
}

/// The value of the cookie of this name in a `Cookie` header; the first where there are several.
pub fn cookie<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    header
        .split(';')
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(found, value)| (found == name).then_some(value))
}

/// The token in the text of a header. The scheme may be written in small letters (RFC 9110, section 11.1).
pub fn bearer(text: &str) -> &str {
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("Bearer") => token,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_of_another_session_is_not_of_this_one() {
        let (one, other) = (SessionSecret::of([1; 32]), SessionSecret::of([2; 32]));
        assert!(one.made(&one.form_token()));
        for wrong in [
            other.form_token().as_str(),
            "",
            one.cookie(),
            &one.digest(),
            &one.form_token()[1..],
        ] {
            assert!(!one.made(wrong), "{wrong}");
        }
        let kept = [one.digest(), one.form_token()];
        assert!(kept.iter().all(|text| !text.contains(one.cookie())));
        assert_eq!(format!("{one:?}"), "SessionSecret(…)");
    }

    #[test]
    fn a_cookie_that_this_program_never_wrote_is_none() {
        let secret = SessionSecret::of([0xa5; 32]);
        assert_eq!(
            SessionSecret::from_cookie(secret.cookie()),
            Some(secret.clone())
        );
        let longer = format!("{}a", secret.cookie());
        for wrong in ["", "a5", &secret.cookie()[1..], &longer, &"G".repeat(64)] {
            assert_eq!(SessionSecret::from_cookie(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn cookies_are_told_apart_by_their_whole_name() {
        let header = "a=1; outhaul_session=x; xouthaul_session=y; outhaul_session=z";
        assert_eq!(cookie(header, "outhaul_session"), Some("x"));
        assert_eq!(cookie(header, "session"), None);
        assert_eq!(cookie("", "a"), None);
    }
}
