//! The request by which the centre learns this site's keys.
//!
//! What comes in: the site, its key, and what lets someone verify the request: the kit's key, or the key that is to
//! be replaced. What goes out: a file in the state folder, signed by both. It is carried home with the reports.

use std::path::PathBuf;

use outhaul_bundle::report::{ENROLMENT_PAYLOAD_TYPE, EnrolmentRequest};
use outhaul_signer::{Envelope, SigningKey};

use crate::durable;
use crate::state::{self, SiteIdentity, StateError};
use crate::state_folder::StateFolder;

/// What a request is about.
#[derive(Debug)]
pub struct Asking<'a> {
    /// For a first key: the key of the kit.
    kit: Option<&'a SigningKey>,
    /// For new keys by order: the order's number, and the key that signs the request for the new one.
    rekey: Option<(u64, &'a SigningKey)>,
    /// The public key that is to be sealed for.
    seal_key: &'a str,
}

impl<'a> Asking<'a> {
    /// For a first key, by a kit.
    pub fn first(kit: &'a SigningKey, seal_key: &'a str) -> Self {
        Self {
            kit: Some(kit),
            rekey: None,
            seal_key,
        }
    }

    /// For new keys, by the order of this number.
    pub fn rekey(number: u64, old: &'a SigningKey, seal_key: &'a str) -> Self {
        Self {
            kit: None,
            rekey: Some((number, old)),
            seal_key,
        }
    }
}

/// Writes the request for `key`, signed by it, and by the kit's key or the key that it is to replace.
///
/// # Errors
/// [`StateError`] when it cannot be written.
pub fn write_request(
    state_folder: &StateFolder,
    site: &SiteIdentity,
    asking: &Asking<'_>,
    key: &SigningKey,
) -> Result<PathBuf, StateError> {
    let request = EnrolmentRequest {
        fleet: site.fleet.clone(),
        site: site.name.clone(),
        stream: site.stream.clone(),
        public_key: key.public().to_pem(),
        kit: asking
            .kit
            .map_or_else(String::new, |kit| kit.public().to_hex()),
        seal_key: asking.seal_key.to_owned(),
        order: asking.rekey.map(|(number, _)| number),
    };
    let payload = state::to_json(&request).into_bytes();
    let mut envelope = Envelope::sign(ENROLMENT_PAYLOAD_TYPE, payload, key);
    if let Some(kit) = asking.kit {
        envelope = envelope.countersigned(kit);
    }
    if let Some((_, old)) = asking.rekey {
        envelope = envelope.countersigned(old);
    }
    let path = state_folder.request(site.name.as_str());
    let mut line = envelope.to_json();
    line.push(b'\n');
    durable::write(&path, &line, 0o600)?;
    Ok(path)
}

/// Most bytes of a request that is read again.
const MAX_BYTES: u64 = 64 * 1024;
/// Most requests that are looked at; a state folder has one.
const MAX_REQUESTS: usize = 16;

/// The request in the state folder: which site this is, where the database does not say so. It is this agent's own file, and only shown.
pub fn written(state_folder: &StateFolder) -> Option<EnrolmentRequest> {
    all(state_folder).into_iter().next()
}

/// Every request in the state folder that can be read, as [`written`].
pub fn all(state_folder: &StateFolder) -> Vec<EnrolmentRequest> {
    let names = durable::list(state_folder.root()).unwrap_or_default();
    let mut requests: Vec<_> = names.into_iter().collect();
    requests.retain(|path| path.extension().is_some_and(|end| end == "request"));
    let read = |path: &PathBuf| {
        let bytes = durable::read(path, MAX_BYTES).ok()?;
        let envelope = Envelope::from_json(bytes.trim_ascii_end()).ok()?;
        let request: EnrolmentRequest =
            serde_json::from_slice(envelope.unverified_payload()).ok()?;
        (*path == state_folder.request(request.site.as_str())).then_some(request)
    };
    requests
        .iter()
        .take(MAX_REQUESTS)
        .filter_map(read)
        .collect()
}
