//! The record that a stream had before it had that of a folder and a branch: it is read, and never written.
//!
//! What comes in: its bytes. What goes out: a [`Record`], or what is wrong with it. It says of each assignment from which
//! snapshot it is, and neither which snapshot the bundle is of nor why one was kept: each is taken for a kept one.

use std::collections::BTreeMap;

use outhaul_bundle::index::{Snapshot, Source};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Record;
use super::stream::ShippedAssignment;
use crate::isolation::Kept;

/// Its format.
const STREAM: &str = "outhaul.dev/rendered/v1";
/// In the place of what it does not say.
const UNKNOWN: &str = "an earlier version of outhaul wrote this record";

#[derive(Deserialize)]
struct Header {
    format: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stream {
    #[serde(rename = "format")]
    _format: String,
    environment: String,
    cluster_type: String,
    assignments: BTreeMap<String, Map<String, Value>>,
}

/// The record of a stream in `bytes`; `None` when they are of another format.
pub(super) fn stream(bytes: &[u8]) -> Option<Result<Record, serde_json::Error>> {
    let header: Header = serde_json::from_slice(bytes).ok()?;
    (header.format == STREAM).then(|| read(bytes))
}

fn read(bytes: &[u8]) -> Result<Record, serde_json::Error> {
    let read: Stream = serde_json::from_slice(bytes)?;
    let (environment, cluster_type) = (&read.environment, &read.cluster_type);
    let mut kept = BTreeMap::new();
    let mut shipped = BTreeMap::new();
    for (target, mut one) in read.assignments {
        let mut taken = |name| one.remove(name).unwrap_or_default();
        let (from, error) = (serde_json::from_value(taken("from"))?, UNKNOWN.to_owned());
        kept.insert(format!("{cluster_type}/{target}"), Kept { from, error });
        let assignment = ShippedAssignment {
            payload_commit: serde_json::from_value(taken("payload_commit"))?,
            rendered: serde_json::from_value(one.into())?,
        };
        shipped.insert(target, assignment);
    }
    let source = Source {
        name: environment.clone(),
        repo: String::new(),
        commit: String::new(),
    };
    let from = Snapshot::of(source.clone(), source, Vec::new());
    let shipped = shipped.into_iter();
    let record = Record::of_stream(environment, cluster_type, &from, kept, shipped);
    Ok(record)
}
