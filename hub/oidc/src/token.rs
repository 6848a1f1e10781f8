//! ID tokens: signed texts (RFC 7515) of which nothing is used before a key of the provider was found that signed them.
//!
//! What comes in: a token, the provider's keys, and what the login expects. What goes out: the claims, or why not. The algorithm
//! is one of three with a public key, and the key's kind has to be the algorithm's: a token without a signature, or with one
//! made from a public key as if it were a secret, is none. What a token's head says about where its key is, is not looked at.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::algorithm::Algorithm;
use crate::error::LoginError;
use crate::keys::{Key, Keys};

/// By how much the clocks of provider and hub may differ, in milliseconds.
const SKEW_MS: i64 = 60 * 1000;
/// Longest token, in bytes.
const MAX_TOKEN_BYTES: usize = 128 * 1024;

/// What a login expects of its token.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// Who signs.
    pub issuer: &'a str,
    /// For whom.
    pub client: &'a str,
    /// What the login sent.
    pub nonce: &'a str,
    /// When the login began, milliseconds since 1970.
    pub begun_ms: i64,
    /// Now.
    pub now_ms: i64,
    /// What the provider signs with.
    pub algorithms: &'a [Algorithm],
}

/// What a verified token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims(pub(crate) Map<String, Value>);

#[derive(Debug, Deserialize)]
struct Head {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    typ: Option<String>,
    #[serde(default)]
    crit: Option<Value>,
}

fn wrong(problem: impl Into<String>) -> LoginError {
    LoginError::Token(problem.into())
}

/// The claims of a token that a key of the provider signed, for this login.
///
/// # Errors
/// [`LoginError::Signature`] where no key fits, [`LoginError::Token`] where it is for something else.
pub fn verify(token: &str, keys: &Keys, expected: &Expected<'_>) -> Result<Claims, LoginError> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(wrong(format!("it has more than {MAX_TOKEN_BYTES} bytes")));
    }
    let (signed, signature) = token
        .rsplit_once('.')
        .ok_or_else(|| wrong("it has no signature"))?;
    let (head, body) = signed
        .split_once('.')
        .ok_or_else(|| wrong("it has no three parts"))?;
    if body.contains('.') {
        return Err(wrong("it has more than three parts"));
    }
    let decoded = |text: &str| {
        URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|_| wrong("a part of it is not base64url"))
    };
    let head: Head = serde_json::from_slice(&decoded(head)?)
        .map_err(|error| wrong(format!("its head: {error}")))?;
    let algorithm = algorithm(&head, expected)?;
    let signature = decoded(signature)?;
    let signs = |key: &&Key| key.verifies(algorithm, signed.as_bytes(), &signature);
    if !keys
        .for_head(head.kid.as_deref(), algorithm)
        .any(|key| signs(&key))
    {
        let of = head.kid.as_deref().map_or_else(String::new, |kid| {
            let kid: String = kid.chars().take(100).collect();
            format!(" for its key id `{}`", kid.escape_debug())
        });
        return Err(LoginError::Signature(format!(
            "no {} key fits{of}",
            algorithm.name()
        )));
    }
    let claims: Claims = serde_json::from_slice(&decoded(body)?)
        .map_err(|error| wrong(format!("its claims: {error}")))?;
    is_for(&claims.0, expected)?;
    Ok(claims)
}

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ClaimsOnce)
    }
}

/// Reads claims of which none comes twice: of two, another reader may take the other one (RFC 7519, section 4).
struct ClaimsOnce;

impl<'de> Visitor<'de> for ClaimsOnce {
    type Value = Claims;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Claims, A::Error> {
        let mut claims = Map::new();
        while let Some((name, value)) = members.next_entry::<String, Value>()? {
            if claims.contains_key(&name) {
                let name: String = name.chars().take(100).collect();
                let text = format!("`{}` comes twice", name.escape_debug());
                return Err(serde::de::Error::custom(text));
            }
            claims.insert(name, value);
        }
        Ok(Claims(claims))
    }
}

fn algorithm(head: &Head, expected: &Expected<'_>) -> Result<Algorithm, LoginError> {
    // What has to be understood is not (RFC 7515, section 4.1.11).
    if head.crit.is_some() {
        return Err(wrong("its head has `crit`"));
    }
    // Not a token for something else that the same keys sign (RFC 8725, section 3.11).
    if head
        .typ
        .as_ref()
        .is_some_and(|typ| !typ.eq_ignore_ascii_case("JWT"))
    {
        return Err(wrong("its type is another than JWT"));
    }
    let mut known = expected.algorithms.iter().copied();
    known.find(|one| one.is_named(&head.alg)).ok_or_else(|| {
        let name: String = head.alg.chars().take(20).collect();
        let all: Vec<_> = expected.algorithms.iter().map(|one| one.name()).collect();
        let name = name.escape_debug();
        wrong(format!(
            "it is signed with `{name}`, and {} is expected",
            all.join(" or ")
        ))
    })
}

/// Whether the claims are for this login, now.
fn is_for(claims: &Map<String, Value>, expected: &Expected<'_>) -> Result<(), LoginError> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(expected.issuer) {
        return Err(wrong("its issuer is not the provider"));
    }
    let client = expected.client;
    let (is_named, others) = match claims.get("aud") {
        Some(Value::String(one)) => (one == client, false),
        Some(Value::Array(all)) => (
            all.iter().any(|one| one.as_str() == Some(client)),
            all.iter().any(|one| one.as_str() != Some(client)),
        ),
        _ => (false, false),
    };
    if !is_named {
        return Err(wrong("it is not for this hub: its audience is another"));
    }
    match claims.get("azp") {
        Some(party) if party.as_str() != Some(client) => {
            return Err(wrong("it was made for another client (`azp`)"));
        }
        None if others => {
            return Err(wrong("it is for others as well, and has no `azp`"));
        }
        _ => {}
    }
    let seconds = |name: &str| {
        let found = claims.get(name)?;
        found.as_i64().or_else(|| found.as_f64().and_then(whole))
    };
    let ms = |name: &str| seconds(name).map(|seconds| seconds.saturating_mul(1000));
    let ends_ms = ms("exp").ok_or_else(|| wrong("it does not say when it ends (`exp`)"))?;
    if ends_ms.saturating_add(SKEW_MS) <= expected.now_ms {
        return Err(wrong("it has expired, or a clock is wrong"));
    }
    let made_ms = ms("iat").ok_or_else(|| wrong("it does not say when it was made (`iat`)"))?;
    if made_ms > expected.now_ms.saturating_add(SKEW_MS) {
        return Err(wrong("it was made in the future: a clock is wrong"));
    }
    // To the second, as it is written.
    if made_ms.saturating_add(SKEW_MS) < expected.begun_ms {
        return Err(wrong("it was made before this login, or a clock is wrong"));
    }
    let begins_ms = match claims.get("nbf") {
        None => i64::MIN,
        Some(_) => ms("nbf").ok_or_else(|| wrong("its `nbf` is not a time"))?,
    };
    if begins_ms > expected.now_ms.saturating_add(SKEW_MS) {
        return Err(wrong("it is not valid yet (`nbf`): a clock is wrong"));
    }
    match text("nonce") == Some(expected.nonce) {
        true => Ok(()),
        false => Err(wrong("it is for another login (`nonce`)")),
    }
}

/// A number of seconds that was written with a fraction.
#[expect(
    clippy::cast_possible_truncation,
    reason = "within bounds that are checked"
)]
fn whole(seconds: f64) -> Option<i64> {
    (0.0..=1e12).contains(&seconds).then_some(seconds as i64)
}

#[cfg(test)]
pub(crate) mod tests;
