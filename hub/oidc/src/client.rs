//! The hub asks the provider: what it says of itself, its keys, and what a code stands for.
//!
//! What comes in: settings, once, and what a login needs. What goes out: verified claims, or why not. It asks only when someone logs
//! in, follows no redirect, uses no proxy, and reads a bounded part of each answer within a time limit. Its keys are read
//! for each login, so that a key that it takes away counts no more; what it says of itself is kept for ten minutes. Few are
//! asked at once, and after a failure nobody is for some seconds: strangers can begin logins, too.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outhaul_http::{Authority, BaseUrl, Client, ClientSettings, Method, Response, TimeLimits};
use outhaul_kit::durable;
use serde_json::Value;

use crate::attempt::{Attempt, Returned};
use crate::error::LoginError;
use crate::keys::Keys;
use crate::person::Person;
use crate::provider::{DISCOVERY, Provider};
use crate::settings::{OidcSettings, SettingsError};
use crate::token::{self, Expected};

/// Most bytes of a secret.
const MAX_SECRET_BYTES: u64 = 4096;
/// Most bytes of an answer.
const MAX_ANSWER_BYTES: u64 = 512 * 1024;
/// How long what a provider says of itself is kept, in milliseconds.
const KEPT_MS: i64 = 10 * 60 * 1000;
/// How long after a failure it is not asked again.
const PAUSE_MS: i64 = 3 * 1000;
/// Requests at once.
const AT_ONCE: usize = 4;
/// How long one request may take.
const LIMITS: TimeLimits = TimeLimits {
    connect: Some(Duration::from_secs(5)),
    answer: Some(Duration::from_secs(10)),
    body: Some(Duration::from_secs(10)),
    whole: Some(Duration::from_secs(15)),
};

/// A provider that is asked.
#[derive(Debug)]
pub struct Oidc {
    /// What the file says.
    pub settings: OidcSettings,
    client: Client,
    known: Mutex<CachedProvider>,
    asking: Arc<AtomicUsize>,
    /// The second in which a failure was said last.
    said: AtomicI64,
}

/// What the provider said of itself, and when it was asked last.
#[derive(Debug, Default)]
struct CachedProvider {
    at_ms: i64,
    answer: Option<Result<Arc<Provider>, LoginError>>,
}

/// A code of this provider, and a place among the few for whom it is asked at once: whoever has one is not told that too many are
/// before them.
#[must_use]
pub struct CodeToAsk {
    code: String,
    provider: Arc<Provider>,
    _place: Asking,
}

impl std::fmt::Debug for CodeToAsk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CodeToAsk(…)")
    }
}

/// One of those who are asked for at the moment.
#[derive(Debug)]
struct Asking(Arc<AtomicUsize>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Oidc {
    /// Prepares to ask; the files that the settings name are read, and nobody is asked.
    ///
    /// # Errors
    /// [`SettingsError`] when a file cannot be used.
    pub fn new(settings: OidcSettings, path: &std::path::Path) -> Result<Self, SettingsError> {
        let wrong = |key: &str, problem: String| SettingsError {
            path: path.to_owned(),
            problem: format!("`{key}`: {problem}"),
        };
        let is_tls = outhaul_http::is_tls(&settings.issuer) == Ok(true);
        // A provider of this machine may name endpoints elsewhere, which are asked over TLS.
        let authority = Authority::of(is_tls || settings.ca.is_some(), settings.ca.as_deref());
        let agent = concat!("outhaul-hub/", env!("CARGO_PKG_VERSION"));
        let client = Client::new(&ClientSettings {
            limits: LIMITS,
            ..ClientSettings::new(agent, authority)
        })
        .map_err(|error| wrong("ca", error.to_string()))?;
        let oidc = Self {
            settings,
            client,
            known: Mutex::default(),
            asking: Arc::default(),
            said: AtomicI64::new(0),
        };
        oidc.secret()
            .map_err(|problem| wrong("clientSecretFile", problem))?;
        Ok(oidc)
    }

    fn secret(&self) -> Result<String, String> {
        let bytes = durable::read_secret(&self.settings.client_secret_file, MAX_SECRET_BYTES)
            .map_err(|error| error.to_string())?;
        match String::from_utf8(bytes) {
            Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            _ => Err("the file holds no secret".to_owned()),
        }
    }

    /// The address that a login's browser is sent to.
    ///
    /// # Errors
    /// [`LoginError`] when the provider does not say where that is.
    pub fn begin(&self, attempt: &Attempt, now_ms: i64) -> Result<String, LoginError> {
        Ok(attempt.address(&self.settings, &*self.provider(now_ms)?))
    }

    /// The code that a browser brings back, if it is from this provider and it can be asked for it now. Nothing is used up by it:
    /// the login may be tried again.
    ///
    /// # Errors
    /// [`LoginError`] when it is not, the provider refused, or too many ask at once.
    pub fn code(&self, returned: &Returned, now_ms: i64) -> Result<CodeToAsk, LoginError> {
        let provider = self.provider(now_ms)?;
        Ok(CodeToAsk {
            code: returned.code(&self.settings, &provider)?.to_owned(),
            provider,
            _place: self.ask()?,
        })
    }

    /// Who the code is about.
    ///
    /// # Errors
    /// [`LoginError`] when the provider does not take it, or its answer does not hold.
    pub fn person(
        &self,
        attempt: &Attempt,
        code: CodeToAsk,
        now_ms: i64,
    ) -> Result<Person, LoginError> {
        let provider = &code.provider;
        let token = self.exchange(provider, attempt, &code.code)?;
        let keys = self.body(self.client.request(Method::GET, &provider.jwks_uri).send())?;
        let expected = Expected {
            issuer: &self.settings.issuer,
            client: &self.settings.client_id,
            nonce: &attempt.nonce(),
            begun_ms: attempt.begun_ms(),
            now_ms,
            algorithms: &provider.algorithms,
        };
        let claims = token::verify(&token, &Keys::parse(&keys)?, &expected)?;
        Person::of(&claims, &self.settings)
    }

    fn ask(&self) -> Result<Asking, LoginError> {
        let before = self.asking.fetch_add(1, Ordering::AcqRel);
        let one = Asking(Arc::clone(&self.asking));
        match before < AT_ONCE {
            true => Ok(one),
            false => Err(LoginError::Busy),
        }
    }

    fn provider(&self, now_ms: i64) -> Result<Arc<Provider>, LoginError> {
        if let Some(answer) = self.known(now_ms) {
            return answer;
        }
        let _one = self.ask()?;
        let answer = self.discover().map(Arc::new);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = CachedProvider {
            at_ms: now_ms,
            answer: Some(answer.clone()),
        };
        answer
    }

    /// What it said of itself, as long as that counts.
    fn known(&self, now_ms: i64) -> Option<Result<Arc<Provider>, LoginError>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let holds_ms = match known.answer.as_ref()? {
            Ok(_) => KEPT_MS,
            Err(_) => PAUSE_MS,
        };
        // A clock that was set back must not keep it for longer.
        let counts = (now_ms - known.at_ms).abs() < holds_ms;
        known.answer.clone().filter(|_| counts)
    }

    /// Whether a failure at `now_ms` is worth a line of the log: one in a second is, as strangers can cause them.
    pub fn should_log(&self, now_ms: i64) -> bool {
        let second = now_ms.div_euclid(1000);
        self.said.swap(second, Ordering::Relaxed) != second
    }

    fn discover(&self) -> Result<Provider, LoginError> {
        let base: BaseUrl = (self.settings.issuer.parse())
            .map_err(|expected: &str| LoginError::Provider(expected.to_owned()))?;
        let url = base.join(DISCOVERY);
        let body = self.body(self.client.request(Method::GET, &url).send())?;
        Provider::parse(&self.settings, &body)
    }

    fn body(
        &self,
        answer: Result<Response, outhaul_http::HttpError>,
    ) -> Result<Vec<u8>, LoginError> {
        let unreachable = |error: outhaul_http::HttpError| LoginError::Unreachable(error.problem());
        let answer = answer.map_err(unreachable)?;
        match answer.status() {
            200 => answer.bytes(MAX_ANSWER_BYTES).map_err(unreachable),
            _ => {
                let status = answer.status_text();
                Err(LoginError::Unreachable(format!("it answers {status}")))
            }
        }
    }

    /// The ID token that a code stands for.
    fn exchange(
        &self,
        provider: &Provider,
        attempt: &Attempt,
        code: &str,
    ) -> Result<String, LoginError> {
        let wrong = |problem: &str| LoginError::Exchange(problem.to_owned());
        let secret = self
            .secret()
            .map_err(|_| wrong("the hub cannot use the file with its client secret"))?;
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &self.settings.redirect_url())
            .append_pair("code_verifier", &attempt.verifier());
        let client = self.settings.client_id.as_str();
        if provider.secret_in_form {
            form.append_pair("client_id", client)
                .append_pair("client_secret", &secret);
        }
        let mut request = self
            .client
            .request(Method::POST, &provider.token_endpoint)
            .header("Content-Type", "application/x-www-form-urlencoded")
            .header("Accept", "application/json");
        if !provider.secret_in_form {
            request = request.secret_header("Authorization", &basic(client, &secret));
        }
        let answer = request.send_bytes(form.finish().as_bytes());
        let answer = answer.map_err(|error| LoginError::Unreachable(error.problem()))?;
        let (status, is_good) = (answer.status_text(), answer.status() == 200);
        let body = answer.bytes(MAX_ANSWER_BYTES);
        let body = body.map_err(|error| LoginError::Unreachable(error.problem()))?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        if !is_good {
            // A word of RFC 6749 and no text of the provider's: the page shows it.
            let known = [
                "invalid_client",
                "invalid_grant",
                "unauthorized_client",
                "invalid_request",
            ];
            let word = known.into_iter().find(|word| body["error"] == **word);
            let word = word.map_or_else(String::new, |word| format!(", `{word}`"));
            return Err(wrong(&format!("it answers {status}{word}")));
        }
        match body["id_token"].as_str() {
            Some(token) => Ok(token.to_owned()),
            None => Err(wrong("its answer has no ID token")),
        }
    }
}

/// Client and secret in a header (RFC 6749, section 2.3.1).
fn basic(client: &str, secret: &str) -> String {
    let escaped = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", escaped(client), escaped(secret));
    format!("Basic {}", STANDARD.encode(pair))
}

#[cfg(test)]
mod tests;
