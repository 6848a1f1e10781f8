//! What the hub's key is used for beside acknowledgements: the secrets of sites that report by webhook.
//!
//! What comes in: an open hub. What goes out: what their secrets are derived from. It stores nothing.

use outhaul_signer::webhook::WebhookSecrets;

use super::{Hub, StateError};

impl Hub {
    /// What the secrets of sites that report by webhook are derived from.
    ///
    /// # Errors
    /// [`StateError::KeyNotOpen`].
    pub fn webhook_secrets(&self) -> Result<WebhookSecrets, StateError> {
        let key = self.key.as_ref().ok_or(StateError::KeyNotOpen)?;
        Ok(WebhookSecrets::of(key))
    }
}
