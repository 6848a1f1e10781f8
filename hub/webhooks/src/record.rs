//! The record of a commit, `.outhaul/platform.json`, fetched from the forge: what the commit was rendered from, and what it holds.
//!
//! What comes in: a registration, and the commit that a site's objects show. What goes out: a [`KnownRecord`], or why it cannot be read.
//! The address is the registered one; of an event only the id of a commit gets into it. Nothing is stored.

use std::collections::BTreeMap;
use std::time::Duration;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Snapshot;
use outhaul_bundle::output_record::{MAX_RECORD_BYTES, PlatformRecord};
use outhaul_http::{Authority, Client, ClientSettings, Method, TimeLimits};
use serde::{Deserialize, Serialize};

use crate::contents::digest_of;
use crate::settings::WebhookSettings;

/// Most assignments that a report names.
pub(crate) const MAX_ASSIGNMENTS: usize = 1_000;
/// How long a forge may take in all: less than Flux waits for an answer.
const WHOLE: Duration = Duration::from_secs(10);

/// How the record of a commit stands towards the bundles that the hub verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Compared {
    /// It holds what one of them does.
    Same,
    /// It agrees with none, and that proves nothing: no bundle of its base commit is on record, the index of the first that was compared
    /// cannot be read, or that one was rendered from other commits; in words.
    Unknown(String),
    /// It agrees with none, and contradicts the first that was compared; in words.
    Differs(String),
}

/// What is kept of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownRecord {
    /// The commit that it lies in.
    pub(crate) commit: String,
    /// Its environment.
    pub(crate) environment: String,
    /// The commits that it was rendered from.
    pub(crate) snapshot: Snapshot,
    /// What it holds for the site's cluster type, at most one more than a report names.
    pub(crate) assignments: Vec<String>,
    /// One digest over the files of each of them.
    #[serde(default)]
    pub(crate) contents: BTreeMap<String, Digest>,
    /// Digest of the index of the bundle that it was found to agree with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) same_as: Option<String>,
    /// The bundles that it was found to agree with none of, by the digest of each one's index and whether that was kept; and what was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) other_than: Option<(Vec<(String, bool)>, Compared)>,
}

impl KnownRecord {
    /// Whether it is that of `commit`, with all that is kept of one now.
    pub(crate) fn is_of(&self, commit: &str) -> bool {
        self.commit == commit && self.contents.len() == self.assignments.len()
    }
}

/// Fetches the record of `commit`.
///
/// # Errors
/// Why it cannot be read, in words.
pub(crate) fn fetch(settings: &WebhookSettings, commit: &str) -> Result<KnownRecord, String> {
    let client = client(settings)?;
    let address = settings.record_of(commit);
    let answer = client.request(Method::GET, &address).send();
    let answer = answer.map_err(|error| format!("{address}: {}", plain(&error.problem())))?;
    if answer.status() != 200 {
        return Err(format!("{address}: answered {}", answer.status_text()));
    }
    let bytes = answer.bytes(MAX_RECORD_BYTES);
    let bytes = bytes.map_err(|error| format!("{address}: {}", plain(&error.problem())))?;
    read(settings, commit, &bytes).map_err(|problem| format!("{address} {problem}"))
}

/// A problem of the client, whose word for a time limit names its setting.
fn plain(problem: &str) -> String {
    match problem.starts_with("timeout: ") {
        true => format!("no whole answer within {} seconds", WHOLE.as_secs()),
        false => problem.to_owned(),
    }
}

/// What fetches records. It reads the certificate authority that the settings name, so that a file that is none is an error here.
pub(crate) fn client(settings: &WebhookSettings) -> Result<Client, String> {
    let address = settings.record_of("");
    let is_tls = outhaul_http::is_tls(&address)?;
    let authority = Authority::of(is_tls, settings.ca.as_deref());
    let agent = concat!("outhaul-hub/", env!("CARGO_PKG_VERSION"));
    let client = Client::new(&ClientSettings {
        limits: TimeLimits {
            connect: Some(WHOLE),
            answer: Some(WHOLE),
            body: Some(WHOLE),
            whole: Some(WHOLE),
        },
        ..ClientSettings::new(agent, authority)
    });
    client.map_err(|error| error.problem())
}

fn read(settings: &WebhookSettings, commit: &str, bytes: &[u8]) -> Result<KnownRecord, String> {
    let record = PlatformRecord::from_bytes(bytes)?;
    let cluster_type = settings.stream.cluster_type.as_str();
    let names = record.assignments(cluster_type);
    let assignments: Vec<String> = names
        .into_iter()
        .take(MAX_ASSIGNMENTS + 1)
        .map(str::to_owned)
        .collect();
    let contents = assignments.iter().map(|name| {
        let folder = format!("{cluster_type}/{name}/");
        let below = record.files.range(folder.clone()..);
        let below = below.map_while(|(path, digest)| Some((path.strip_prefix(&folder)?, digest)));
        (name.clone(), digest_of(below))
    });
    Ok(KnownRecord {
        commit: commit.to_owned(),
        contents: contents.collect(),
        assignments,
        same_as: None,
        other_than: None,
        environment: record.environment,
        snapshot: record.snapshot,
    })
}
