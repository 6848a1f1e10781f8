//! Files that somebody took for a bundle: kits, requests, reports and acknowledgements.
//!
//! What comes in: an open file that is not meant as a slip. What goes out: what it is and which command takes it,
//! or nothing. It reads the first bytes only, trusts none of them, and does not change the file.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use outhaul_bundle::report::{ACK_PAYLOAD_TYPE, ENROLMENT_PAYLOAD_TYPE, PAYLOAD_TYPE};
use outhaul_signer::enrol;

use crate::error::AgentError;

/// These files differ in their first bytes.
const LOOKED_AT: usize = 1024;

/// The error for a file called `name` that is another of Outhaul's files.
pub(super) fn refuse_other_file(name: &str, file: &File) -> Result<(), AgentError> {
    let mut first = [0u8; LOOKED_AT];
    // An unreadable file is reported by the next reader.
    let Ok(count) = file.read_at(&mut first, 0) else {
        return Ok(());
    };
    let first = first.get(..count).unwrap_or_default();
    if first.first() != Some(&b'{') {
        return Ok(());
    }
    let text = String::from_utf8_lossy(first);
    let known = [
        (
            enrol::FORMAT,
            "a kit, which makes a machine a site",
            format!("`outhaul-agent enrol {name}` takes it; bundles are named `*.outhaul`"),
        ),
        (
            ENROLMENT_PAYLOAD_TYPE,
            "an enrolment request, which a site writes for the centre",
            "carry it to the centre: `outhaul site approve` and `outhaul-hub site add` take it"
                .to_owned(),
        ),
        (
            ACK_PAYLOAD_TYPE,
            "a file of acknowledgements",
            "name the stick's folder instead: acknowledgements are read from its `acks` folder"
                .to_owned(),
        ),
        (
            PAYLOAD_TYPE,
            "a file of reports, which a site writes for the hub",
            "carry it to the hub: `outhaul-hub import` takes it".to_owned(),
        ),
    ];
    let found = known.into_iter().find(|(mark, ..)| text.contains(mark));
    match found {
        Some((_, what, help)) => Err(AgentError::Usage {
            message: format!("`{name}` is {what}, not a bundle"),
            help,
        }),
        None => Ok(()),
    }
}
