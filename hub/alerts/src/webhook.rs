//! A webhook: a message as JSON, by POST, signed with a shared secret.
//!
//! What comes in: the settings of one, and a message. What goes out: whether the server took it: an answer of 200 to 299.
//! Redirects are not followed, and no proxy is used: the body goes to the address that the file names and to no other. The
//! secret is read again for each message, so that a new one needs no restart.

use hmac::{Hmac, KeyInit as _, Mac as _};
use outhaul_bundle::hub_api::ALERT_SIGNATURE;
use outhaul_http::{Authority, Client, ClientSettings, Method, quoted};
use outhaul_kit::durable;
use sha2::Sha256;

use crate::Destination;
use crate::message::Message;
use crate::settings::WebhookSettings;

/// Most bytes of a secret.
const MAX_SECRET_BYTES: u64 = 4096;
/// Most bytes of an answer that are shown.
const EXCERPT_BYTES: u64 = 200;

/// One webhook.
#[derive(Debug)]
pub struct Webhook(pub WebhookSettings);

impl Destination for Webhook {
    fn send(&self, message: &Message) -> Result<(), String> {
        let body = serde_json::to_vec(&message.body).map_err(|error| error.to_string())?;
        let is_tls = outhaul_http::is_tls(&self.0.url)?;
        let authority = Authority::of(is_tls, self.0.ca.as_deref());
        let agent = concat!("outhaul-hub/", env!("CARGO_PKG_VERSION"));
        let client = Client::new(&ClientSettings::new(agent, authority));
        let client = client.map_err(|error| error.problem())?;
        let mut request = client
            .request(Method::POST, &self.0.url)
            .header("Content-Type", "application/json");
        if let Some(path) = &self.0.secret_file {
            let secret =
                durable::read_secret(path, MAX_SECRET_BYTES).map_err(|error| error.to_string())?;
            let signature = signature(secret.trim_ascii_end(), &body)?;
            request = request.header(ALERT_SIGNATURE, &signature);
        }
        let answer = request.send_bytes(&body).map_err(|error| error.problem())?;
        match answer.status() {
            200..=299 => Ok(()),
            _ => {
                let status = answer.status_text();
                let text = answer.excerpt(EXCERPT_BYTES);
                Err(format!("the server answered {status}{}", quoted(&text)))
            }
        }
    }
}

/// `sha256=…` over `body`, as [`ALERT_SIGNATURE`] has it.
fn signature(secret: &[u8], body: &[u8]) -> Result<String, String> {
    if secret.is_empty() {
        return Err("the secret file is empty".into());
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|error| error.to_string())?;
    mac.update(body);
    Ok(format!(
        "sha256={}",
        hex::encode(mac.finalize().into_bytes())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_other_programs() {
        // RFC 4231, test case 2.
        let made = signature(b"Jefe", b"what do ya want for nothing?").unwrap();
        let expected = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(made, expected);
        assert!(signature(b"", b"x").is_err());
    }
}
