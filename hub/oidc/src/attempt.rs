//! One login of one browser: what ties the way to the provider to the way back.
//!
//! What comes in: random bytes once, then what a cookie and an address hold. What goes out: `state`, `nonce`, the verifier of PKCE
//! and its challenge, each made from the secret that only this browser's cookie holds. The hub keeps nothing until the browser
//! comes back, so that a login begun at one instance is finished at another, and strangers who begin logins fill nothing.
//! Neither the address nor the provider learns what another value could be made from.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use outhaul_bundle::Digest;
use ring::digest::{SHA256, digest};

use crate::error::LoginError;
use crate::provider::Provider;
use crate::settings::OidcSettings;

/// How long a login may take, in milliseconds.
pub const LIFETIME_MS: i64 = 10 * 60 * 1000;
/// Bytes of a secret.
const BYTES: usize = 32;
/// Longest cookie, in bytes: browsers keep no longer one.
const MAX_COOKIE_BYTES: usize = 4 * 1024;
/// Longest address that one comes back to, in bytes: it fits the cookie.
const MAX_NEXT_BYTES: usize = 2_000;
/// Longest `code`, in bytes.
const MAX_CODE_BYTES: usize = 4 * 1024;
/// Most bytes of the address that the browser comes back with.
const MAX_QUERY_BYTES: usize = 8 * 1024;

/// A login that has begun.
#[derive(Clone, PartialEq, Eq)]
pub struct Attempt {
    secret: String,
    begun_ms: i64,
    /// Where to go afterwards.
    next: String,
}

impl std::fmt::Debug for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Attempt(…)")
    }
}

impl Attempt {
    /// A new one, of these random bytes. An address that is too long for a cookie is left out.
    pub fn new(random: [u8; BYTES], begun_ms: i64, next: &str) -> Self {
        Self {
            secret: hex::encode(random),
            begun_ms,
            next: match next.len() <= MAX_NEXT_BYTES {
                true => next.to_owned(),
                false => "/".to_owned(),
            },
        }
    }

    /// The one that a cookie holds; `None` for anything that this program never wrote.
    pub fn from_cookie(text: &str) -> Option<Self> {
        if text.len() > MAX_COOKIE_BYTES {
            return None;
        }
        let mut parts = text.split('.');
        let (secret, begun, next) = (parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        if parts.next().is_some() || secret.len() != BYTES * 2 || !secret.bytes().all(is_hex) {
            return None;
        }
        let next = URL_SAFE_NO_PAD.decode(next).ok()?;
        Some(Self {
            secret: secret.to_owned(),
            begun_ms: begun.parse().ok()?,
            next: String::from_utf8(next).ok()?,
        })
    }

    /// What the cookie holds: letters, digits and `. - _`.
    pub fn cookie(&self) -> String {
        let next = URL_SAFE_NO_PAD.encode(&self.next);
        format!("{}.{}.{next}", self.secret, self.begun_ms)
    }

    /// Where to go afterwards, as it was asked for: it is to be checked before it is used.
    pub fn next(&self) -> &str {
        &self.next
    }

    /// When it began, milliseconds since 1970.
    pub fn begun_ms(&self) -> i64 {
        self.begun_ms
    }

    /// When it ends.
    pub fn ends_ms(&self) -> i64 {
        self.begun_ms.saturating_add(LIFETIME_MS)
    }

    /// The digest under which it is kept that it was used, 64 hexadecimal digits.
    pub fn digest(&self) -> String {
        Digest::of(self.derived("used").as_bytes()).hex()
    }

    /// What the ID token has to repeat.
    pub fn nonce(&self) -> String {
        self.derived("nonce")
    }

    /// What the code is exchanged with (RFC 7636).
    pub fn verifier(&self) -> String {
        self.derived("verifier")
    }

    fn state(&self) -> String {
        self.derived("state")
    }

    fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.verifier().as_bytes()))
    }

    fn derived(&self, what: &str) -> String {
        let Self {
            secret,
            begun_ms,
            next,
        } = self;
        let text = format!("outhaul hub oidc {what}\n{secret}\n{begun_ms}\n{next}");
        URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes()))
    }

    /// The provider's address that the browser is sent to.
    pub fn address(&self, settings: &OidcSettings, provider: &Provider) -> String {
        let scope = std::iter::once("openid")
            .chain(
                settings
                    .request_scopes
                    .iter()
                    .map(String::as_str)
                    .filter(|one| *one != "openid"),
            )
            .collect::<Vec<_>>();
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("response_type", "code")
            .append_pair("client_id", &settings.client_id)
            .append_pair("redirect_uri", &settings.redirect_url())
            .append_pair("scope", &scope.join(" "))
            .append_pair("state", &self.state())
            .append_pair("nonce", &self.nonce())
            .append_pair("code_challenge", &self.challenge())
            .append_pair("code_challenge_method", "S256")
            .finish();
        let to = &provider.authorization_endpoint;
        let separator = if to.contains('?') { '&' } else { '?' };
        format!("{to}{separator}{query}")
    }
}

/// What the browser comes back with.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Returned {
    code: Option<String>,
    state: Option<String>,
    issuer: Option<String>,
    error: Option<String>,
}

impl std::fmt::Debug for Returned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Returned(…)")
    }
}

impl Returned {
    /// Reads the part of the address after `?`. Parameters that are not known are left alone: providers send some.
    ///
    /// # Errors
    /// [`LoginError::Returned`] for one that is too long, or comes twice.
    pub fn parse(query: &str) -> Result<Self, LoginError> {
        if query.len() > MAX_QUERY_BYTES {
            return Err(LoginError::Returned("its address is too long"));
        }
        let mut found = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let place = match &*name {
                "code" => &mut found.code,
                "state" => &mut found.state,
                "iss" => &mut found.issuer,
                "error" => &mut found.error,
                _ => continue,
            };
            if place.replace(value.into_owned()).is_some() {
                return Err(LoginError::Returned("a parameter comes twice"));
            }
        }
        Ok(found)
    }

    /// Whether this browser began `attempt`, and it still holds.
    ///
    /// # Errors
    /// [`LoginError::OtherBrowser`] or [`LoginError::TooLate`].
    pub fn belongs_to(&self, attempt: &Attempt, now_ms: i64) -> Result<(), LoginError> {
        let state = self.state.as_deref().unwrap_or_default();
        // Of digests, so that the time that it takes tells nothing.
        if Digest::of(state.as_bytes()) != Digest::of(attempt.state().as_bytes()) {
            return Err(LoginError::OtherBrowser);
        }
        let age = now_ms.saturating_sub(attempt.begun_ms);
        match (0..LIFETIME_MS).contains(&age) {
            true => Ok(()),
            false => Err(LoginError::TooLate),
        }
    }

    /// The code, if it is from this provider and from no other.
    ///
    /// # Errors
    /// [`LoginError`] when another provider answered (RFC 9207), the provider refused, or there is no code.
    pub fn code(&self, settings: &OidcSettings, provider: &Provider) -> Result<&str, LoginError> {
        match &self.issuer {
            Some(issuer) if *issuer != settings.issuer => return Err(LoginError::MixedUp),
            None if provider.sends_issuer => return Err(LoginError::MixedUp),
            _ => {}
        }
        if let Some(error) = &self.error {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let is_known = error.len() <= 64 && error.chars().all(is_word) && !error.is_empty();
            let error = if is_known {
                error
            } else {
                "no readable reason"
            };
            return Err(LoginError::Refused(error.to_owned()));
        }
        let code = self.code.as_deref().unwrap_or_default();
        match (1..=MAX_CODE_BYTES).contains(&code.len()) {
            true => Ok(code),
            false => Err(LoginError::Returned("it brings no code")),
        }
    }
}

#[cfg(test)]
mod tests;
