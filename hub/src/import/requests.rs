//! Enrolment requests that come as files.
//!
//! What comes in: a file named like one. What goes out: what became of it. One that breaks a rule is refused by name.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use outhaul_bundle::report::MAX_ENROLMENT_REQUEST_BYTES;
use outhaul_kit::durable;

use super::{Imported, ImportedRequest, refuse};
use crate::enrol::{self, EnrolError};
use crate::error::HubError;
use crate::state::Hub;
use crate::store::RequestOrigin;

pub(super) fn import(
    hub: &mut Hub,
    path: &Path,
    file: File,
    done: &mut Imported,
    now_ms: i64,
) -> Result<(), HubError> {
    let mut bytes = Vec::new();
    // One byte more than a request may have is one that is refused.
    file.take(MAX_ENROLMENT_REQUEST_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(durable::at("read", path))?;
    let outcome = enrol::check(&bytes, hub.fleet()).and_then(|checked| {
        let result = hub
            .store
            .write(|session| enrol::receive(session, &checked, RequestOrigin::FILE, now_ms))?;
        Ok(ImportedRequest {
            site: checked.request.site.to_string(),
            fingerprint: checked.key.id(),
            result,
        })
    });
    match outcome {
        Ok(requested) => done.requests.push(requested),
        Err(EnrolError::Store(error)) => return Err(error.into()),
        Err(error) => {
            let (rule, reason) = (error.rule(), outhaul_kit::text::chain(&error));
            refuse(done, path, rule, reason);
        }
    }
    Ok(())
}
