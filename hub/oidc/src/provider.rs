//! What a provider says of itself (`OpenID` Connect Discovery 1.0), as far as the hub uses it.
//!
//! What comes in: JSON. What goes out: a [`Provider`] whose endpoints may be asked, or why not. A provider that names itself
//! otherwise than the settings is none. An endpoint of a provider that is asked over TLS is asked over TLS.

use serde::Deserialize;

use crate::algorithm::Algorithm;
use crate::error::LoginError;
use crate::settings::OidcSettings;

/// Where what it says of itself lies, below its name.
pub const DISCOVERY: &str = ".well-known/openid-configuration";

/// A provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Where browsers are sent.
    pub authorization_endpoint: String,
    /// Where codes are exchanged.
    pub token_endpoint: String,
    /// Where its keys are.
    pub jwks_uri: String,
    /// Whether each answer says who answers (RFC 9207).
    pub sends_issuer: bool,
    /// Whether the secret goes into the form instead of a header.
    pub secret_in_form: bool,
    /// What it signs with, of what the hub verifies.
    pub algorithms: Vec<Algorithm>,
}

#[derive(Debug, Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    response_types_supported: Option<Vec<String>>,
    #[serde(default)]
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    id_token_signing_alg_values_supported: Option<Vec<String>>,
}

impl Provider {
    /// Reads what the provider of these settings says of itself.
    ///
    /// # Errors
    /// [`LoginError::Provider`] when it is another one, or cannot do what a login needs.
    pub fn parse(settings: &OidcSettings, json: &[u8]) -> Result<Self, LoginError> {
        let wrong = |problem: String| LoginError::Provider(problem);
        let found: Document =
            serde_json::from_slice(json).map_err(|error| wrong(error.to_string()))?;
        if found.issuer != settings.issuer {
            let named: String = found.issuer.chars().take(200).collect();
            return Err(wrong(format!(
                "it names itself `{}`, and `issuer` of the settings is `{}`; write it exactly as it names itself",
                named.escape_debug(),
                settings.issuer
            )));
        }
        let is_tls = outhaul_http::is_tls(&settings.issuer) == Ok(true);
        for (name, url) in [
            ("authorization_endpoint", &found.authorization_endpoint),
            ("token_endpoint", &found.token_endpoint),
            ("jwks_uri", &found.jwks_uri),
        ] {
            let is_sound = match outhaul_http::is_tls(url) {
                // This machine's own servers are not for a provider elsewhere to name.
                Ok(over_tls) => (over_tls || !is_tls) && !url.contains('#') && url.is_ascii(),
                Err(_) => false,
            };
            if !is_sound {
                return Err(wrong(format!("its `{name}` is no URL that may be asked")));
            }
        }
        let lacks = |given: &Option<Vec<String>>, what: &str| {
            given
                .as_ref()
                .is_some_and(|all| !all.iter().any(|one| one == what))
        };
        if lacks(&found.response_types_supported, "code") {
            return Err(wrong("it has no authorization code flow".to_owned()));
        }
        if lacks(&found.code_challenge_methods_supported, "S256") {
            return Err(wrong("it has no PKCE with S256".to_owned()));
        }
        // Left out, it is the header (RFC 8414, section 2).
        let methods = &found.token_endpoint_auth_methods_supported;
        let secret_in_form = lacks(methods, "client_secret_basic");
        if secret_in_form && lacks(methods, "client_secret_post") {
            return Err(wrong("it takes no client secret".to_owned()));
        }
        let stated = &found.id_token_signing_alg_values_supported;
        let is_stated = |algorithm: &Algorithm| {
            let is_it = |all: &Vec<String>| all.iter().any(|name| algorithm.is_named(name));
            stated.as_ref().is_none_or(is_it)
        };
        let algorithms: Vec<_> = Algorithm::ALL.into_iter().filter(is_stated).collect();
        if algorithms.is_empty() {
            return Err(wrong(
                "it signs with none of RS256, ES256 and EdDSA (Ed25519)".to_owned(),
            ));
        }
        Ok(Self {
            authorization_endpoint: found.authorization_endpoint,
            token_endpoint: found.token_endpoint,
            jwks_uri: found.jwks_uri,
            sends_issuer: found.authorization_response_iss_parameter_supported,
            secret_in_form,
            algorithms,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::settings::tests::{GOOD, parsed};

    pub(crate) fn document() -> Value {
        json!({
            "issuer": "https://id.example.org",
            "authorization_endpoint": "https://id.example.org/authorize",
            "token_endpoint": "https://id.example.org/token",
            "jwks_uri": "https://keys.example.org/jwks",
        })
    }

    pub(crate) fn provider(document: &Value) -> Result<Provider, LoginError> {
        Provider::parse(&parsed(GOOD).unwrap(), document.to_string().as_bytes())
    }

    #[test]
    fn what_a_provider_leaves_out_is_what_the_standards_say() {
        let found = provider(&document()).unwrap();
        assert!(!found.sends_issuer && !found.secret_in_form);
        assert_eq!(found.algorithms, Algorithm::ALL);
        let mut more = document();
        more["token_endpoint_auth_methods_supported"] =
            json!(["client_secret_post", "private_key_jwt"]);
        more["id_token_signing_alg_values_supported"] = json!(["HS256", "none", "ES256"]);
        more["authorization_response_iss_parameter_supported"] = json!(true);
        let found = provider(&more).unwrap();
        assert!(found.sends_issuer && found.secret_in_form);
        assert_eq!(found.algorithms, [Algorithm::Es256]);
        // By the name of RFC 8037, of RFC 9864, and by both.
        for names in [
            json!(["EdDSA"]),
            json!(["Ed25519"]),
            json!(["Ed25519", "EdDSA"]),
        ] {
            more["id_token_signing_alg_values_supported"] = names.clone();
            let found = provider(&more).unwrap();
            assert_eq!(found.algorithms, [Algorithm::EdDsa], "{names}");
        }
        more["id_token_signing_alg_values_supported"] = json!(["Ed448"]);
        assert!(provider(&more).is_err(), "another curve");
    }

    #[test]
    fn a_provider_that_is_another_or_leads_elsewhere_is_refused() {
        for (key, value, words) in [
            ("issuer", json!("https://id.example.org/"), "names itself"),
            ("issuer", json!("https://evil.example"), "names itself"),
            ("issuer", json!(1), "invalid type"),
            (
                "token_endpoint",
                json!("http://id.example.org/token"),
                "`token_endpoint`",
            ),
            (
                "token_endpoint",
                json!("http://127.0.0.1:8420/"),
                "`token_endpoint`",
            ),
            ("jwks_uri", json!("file:///etc/passwd"), "`jwks_uri`"),
            (
                "authorization_endpoint",
                json!("javascript:alert(1)"),
                "`authorization_endpoint`",
            ),
            (
                "authorization_endpoint",
                json!("https://a/\r\nX: y"),
                "`authorization_endpoint`",
            ),
            (
                "authorization_endpoint",
                json!("https://a/#b"),
                "`authorization_endpoint`",
            ),
            ("response_types_supported", json!(["id_token"]), "code flow"),
            ("code_challenge_methods_supported", json!(["plain"]), "PKCE"),
            (
                "token_endpoint_auth_methods_supported",
                json!(["none"]),
                "client secret",
            ),
            (
                "id_token_signing_alg_values_supported",
                json!(["HS256", "none"]),
                "signs with none",
            ),
        ] {
            let mut document = document();
            document[key] = value;
            let error = provider(&document).unwrap_err();
            assert!(matches!(error, LoginError::Provider(_)), "{error}");
            assert!(error.to_string().contains(words), "{key}: {error}");
        }
    }
}
