//! A site registered to report by webhook.
//!
//! What comes in: what the hub derives secrets from, and what someone on its machine wrote. What goes out: the registration on record
//! with the public half of a derived key, and the secret, which nothing keeps. It begins a numbering of its own, and what signed the
//! site's reports before signs none that are taken from then on: the intake sees to that.

use outhaul_bundle::name::Name;
use outhaul_bundle::report::WebhookSender;
use outhaul_kit::suggest::nearest;
use outhaul_signer::enrol::new_token;
use outhaul_signer::key::KeyError;
use outhaul_signer::webhook::WebhookSecrets;
use outhaul_store::{Registration, Session, StoreError, WebhookSite};

use crate::record::client;
use crate::settings::WebhookSettings;

/// Who registers, and when.
#[derive(Debug, Clone, Copy)]
pub struct Registrar<'a> {
    /// What the hub derives secrets from.
    pub secrets: &'a WebhookSecrets,
    /// Its fleet.
    pub fleet: &'a str,
    /// As whom it is on record.
    pub by: &'a str,
    /// When, milliseconds since 1970.
    pub now_ms: i64,
}

/// Why a site is not registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// It is registered, and is not to be replaced.
    #[error("site `{site}` is registered already")]
    Known {
        /// The site.
        site: String,
    },
    /// It is to be replaced, and is not registered.
    #[error("no site `{site}` is registered: there is nothing to replace")]
    Unknown {
        /// The site.
        site: String,
        /// The registered name that was meant most likely.
        near: Option<String>,
    },
    /// A setting is out of its bounds.
    #[error("{problem}")]
    Setting {
        /// What is wrong.
        problem: String,
    },
    /// There is no randomness.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Registers `site`, and returns its secret. With `replace` one that is registered, and no other: what signed its reports until then, an agent or
/// an earlier secret, signs none from then on.
///
/// # Errors
/// [`RegisterError`].
pub fn register(
    session: &Session<'_>,
    registrar: Registrar<'_>,
    (site, sender): (&Name, WebhookSender),
    settings: &WebhookSettings,
    replace: bool,
) -> Result<String, RegisterError> {
    settings
        .check(sender)
        .and_then(|()| client(settings).map(drop))
        .map_err(|problem| RegisterError::Setting { problem })?;
    let text = serde_json::to_string(settings).map_err(|error| RegisterError::Setting {
        problem: format!("the settings cannot be written: {error}"),
    })?;
    let known = session.site(site.as_str())?;
    if known.is_some() && !replace {
        let site = site.to_string();
        return Err(RegisterError::Known { site });
    }
    // A mistyped name would be one more site that a gate waits for, and the meant one would keep its secret.
    if known.is_none() && replace {
        let near = nearest(site.as_str(), &session.site_names()?).map(str::to_owned);
        let site = site.to_string();
        return Err(RegisterError::Unknown { site, near });
    }
    let salt = new_token()?;
    let secret = registrar
        .secrets
        .secret(registrar.fleet, site.as_str(), &salt);
    let key = registrar
        .secrets
        .report_key(registrar.fleet, site.as_str(), &salt)
        .public();
    let stream = &settings.stream;
    let registration = Registration {
        site: site.to_string(),
        role: stream.role.to_string(),
        environment: stream.environment.to_string(),
        cluster_type: stream.cluster_type.to_string(),
        key_generation: known.map_or(1, |known| known.key_generation + 1),
        enrolled_ms: registrar.now_ms,
        revoked_ms: None,
    };
    session.register_site(&registration, &key.id(), &key.to_pem())?;
    session.put_webhook_site(&WebhookSite {
        site: site.to_string(),
        sender: sender.to_string(),
        salt,
        settings: text,
        shown: String::new(),
        registered_ms: registrar.now_ms,
        registered_by: registrar.by.to_owned(),
    })?;
    Ok(secret.to_string())
}
