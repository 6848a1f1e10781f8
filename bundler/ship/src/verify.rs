//! Verify: does a bundle hold what its snapshot gives, and does its fleet say so?
//!
//! What comes in: a bundle file, its index (already verified), keys where it is sealed, and what the
//! same commits render to now. What goes out: the attestations in it, and a list of differences, file
//! by file; empty means equal. Every blob is opened, decompressed and hashed in bounded memory.
//! It installs and writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Seek, Write};
use std::sync::Arc;

use outhaul_bundle::decode::{self, DecodeError, InMemory};
use outhaul_bundle::index::{Assignment, Blob, Content, File};
use outhaul_bundle::limits::Limits;
use outhaul_bundle::name::Name;
use outhaul_bundle::read::{BlobSink, BundleReader, ReadError};
use outhaul_bundle::{Digest, Index};
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::PublicKey;
use serde_json::Value;

use crate::assemble::attest_and_seal::Keys;
use crate::collect::Payloads;
use outhaul_attest::images::is_of_image;
use outhaul_attest::{self as attest, statement};
use outhaul_files::apt;
use outhaul_plane::render::RenderedAssignment;

/// Largest attestation that is read, in bytes.
const MAX_ATTESTATION_BYTES: u64 = 64 * 1024 * 1024;

/// Opens every blob of the bundle in `input`; the digests of all contents hold afterwards. Returns the
/// attestations by file name.
///
/// # Errors
/// [`ContentsError`] for the first blob that is damaged, sealed for others, or not what the index says.
pub fn contents(
    input: impl Read,
    expected: &Content,
    keys: &Keys,
) -> Result<BTreeMap<String, Vec<u8>>, ContentsError> {
    let mut reader = BundleReader::new(input, Limits::default());
    reader.read_metadata()?;
    let (index, _) = reader.read_index(expected)?;
    let wanted = index
        .attestations
        .iter()
        .filter(|file| file.size <= MAX_ATTESTATION_BYTES);
    let wanted: BTreeMap<Digest, String> = wanted
        .map(|file| (file.content, file.path.to_string()))
        .collect();
    let mut sink = Decoding {
        keys,
        wanted: &wanted,
        blob: None,
        found: InMemory::default(),
        wrong: None,
    };
    let read = reader.read_blobs(&index, &mut sink);
    if let Some(error) = sink.wrong {
        return Err(error.into());
    }
    read?;
    Ok(sink.found.take())
}

/// Why the contents of a bundle are not what its index says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContentsError {
    /// A blob does not yield what it should, or is sealed for others.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The file is damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl ContentsError {
    /// Whether only a key is missing.
    pub fn is_for_others(&self) -> bool {
        matches!(self, Self::Decode(error) if error.rule() == "recipient")
    }
}

/// Decodes each blob from a temporary file, once its carried bytes are known to be right.
struct Decoding<'a> {
    keys: &'a Keys,
    wanted: &'a BTreeMap<Digest, String>,
    blob: Option<std::fs::File>,
    found: InMemory<String>,
    wrong: Option<DecodeError>,
}

impl BlobSink for Decoding<'_> {
    fn begin(&mut self, _: &Blob) -> io::Result<Option<Box<dyn Write + '_>>> {
        let file = self.blob.insert(tempfile::tempfile()?);
        Ok(Some(Box::new(file)))
    }

    fn commit(&mut self, blob: &Blob) -> io::Result<()> {
        let Some(mut file) = self.blob.take() else {
            return Ok(());
        };
        file.rewind()?;
        let mut each = |content: &Content| {
            let name = self.wanted.get(&content.digest).cloned();
            Ok(name.map(|name| self.found.writer(name)))
        };
        decode::decode_sealed(blob, file, &Limits::default(), self.keys, &mut each).map_err(
            |error| {
                let reported = io::Error::other(error.to_string());
                self.wrong = Some(error);
                reported
            },
        )
    }

    fn discard(&mut self, _: &Blob) {
        self.blob = None;
    }
}

/// What the fleet's own statement in the bundle is worth.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Statement {
    /// The bundle has none.
    Absent,
    /// It is there and nothing was given to check its signature with.
    Unchecked,
    /// Signed by the fleet, about exactly these contents.
    Holds,
    /// It is not what it should be: how.
    Wrong(String),
}

/// Judges the statement among `attestations`. `keys`: the fleet's, `None` when they are not known.
pub fn statement(
    index: &Index,
    attestations: &BTreeMap<String, Vec<u8>>,
    keys: Option<&[PublicKey]>,
) -> Statement {
    let Some(bytes) = attestations.get(attest::PROVENANCE) else {
        return Statement::Absent;
    };
    let Some(keys) = keys else {
        return Statement::Unchecked;
    };
    let judged = Envelope::from_json(bytes.trim_ascii_end()).and_then(|envelope| {
        let payload = envelope.verify(statement::PAYLOAD_TYPE, keys)?;
        Ok(payload.to_vec())
    });
    let payload = match judged {
        Ok(payload) => payload,
        Err(error) => return Statement::Wrong(error.to_string()),
    };
    let said: Value = serde_json::from_slice(&payload).unwrap_or_default();
    let digest = |at: usize| {
        said["subject"][at]["digest"]["sha256"]
            .as_str()
            .unwrap_or_default()
    };
    if digest(0) != Digest::of(statement::contents_list(index).as_bytes()).hex() {
        return Statement::Wrong("it is about other contents".to_owned());
    }
    let sbom = attestations
        .get(attest::SBOM)
        .map(|bytes| Digest::of(bytes).hex());
    match sbom {
        Some(sbom) if sbom == digest(1) => {}
        Some(_) => return Statement::Wrong("it is about another bill of materials".to_owned()),
        None => {
            let why = "the bill of materials that it names is not there";
            return Statement::Wrong(why.to_owned());
        }
    }
    let named = |file: &str, bytes: &[u8]| {
        let subjects = said["subject"].as_array().into_iter().flatten();
        let mut subjects = subjects.filter(|subject| subject["name"] == file);
        subjects.any(|subject| subject["digest"]["sha256"] == Digest::of(bytes).hex())
    };
    let is_named = |file: &str| is_of_image(file) || file.ends_with(outhaul_vex::ENDING);
    let mut others = attestations.iter().filter(|(file, _)| is_named(file));
    match others.find(|(file, bytes)| !named(file, bytes)) {
        Some((file, _)) => Statement::Wrong(format!("it does not name `{file}` as it is here")),
        None => Statement::Holds,
    }
}

/// One way in which a bundle is not what its commits give.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct ContentDifference {
    /// `<assignment>/files/<path>`, `<assignment>/payload/<path>`, `<assignment>/config`, `<assignment>/site-values`,
    /// `<assignment>/sites`, `<assignment>/sites/<site>`, `<assignment>`.
    pub path: String,
    /// `changed`, `only in the bundle`, `only rendered`, `kept, but it is sound`.
    pub what: &'static str,
}

/// Compares the bundle's assignments with what was rendered. Sorted; empty means equal. What the index
/// says was kept is of another snapshot and is not compared; this one must then not render to it.
pub fn differences(
    index: &Index,
    rendered: &BTreeMap<String, Arc<RenderedAssignment>>,
    payloads: &Payloads,
) -> Vec<ContentDifference> {
    let mut found = Vec::new();
    let mut tell = |path: String, what| found.push(ContentDifference { path, what });
    let carried: BTreeMap<&str, &Assignment> = index
        .assignments
        .iter()
        .map(|one| (one.name.as_str(), one))
        .collect();
    for (name, now) in rendered {
        let wanted = wanted_sites(now, &index.recipients);
        // A bundle for some sites leaves out what none of them is to have.
        let for_nobody = wanted.is_some_and(|sites| sites.is_empty());
        if !carried.contains_key(name.as_str()) && !for_nobody {
            tell(name.clone(), "only rendered");
        }
    }
    let nothing = Vec::new();
    for (name, assignment) in carried {
        if index.kept.contains_key(&assignment.name) {
            if rendered.contains_key(name) {
                tell(name.to_owned(), "kept, but it is sound");
            }
            continue;
        }
        let Some(now) = rendered.get(name) else {
            tell(name.to_owned(), "only in the bundle");
            continue;
        };
        if now.config_version != assignment.config_version {
            tell(format!("{name}/config"), "changed");
        }
        if now.site_values != assignment.site_values {
            tell(format!("{name}/site-values"), "changed");
        }
        if now.bootstrap.as_deref() != assignment.bootstrap.as_ref().map(Name::as_str) {
            tell(format!("{name}/bootstrap"), "changed");
        }
        let files = now
            .files
            .iter()
            .map(|(path, bytes)| (path.as_str(), (Digest::of(bytes), false)));
        compare(
            &assignment.files,
            files.collect(),
            &format!("{name}/files"),
            &mut tell,
        );
        let sites = assignment.sites.as_ref();
        let sites = sites.map(|sites| sites.iter().map(Name::as_str).collect::<BTreeSet<_>>());
        if sites != wanted_sites(now, &index.recipients) {
            tell(format!("{name}/sites"), "changed");
        }
        of_sites(assignment, now, &index.recipients, &mut tell);
        let payload = payloads.files.get(name).unwrap_or(&nothing).iter();
        // Who verifies has no key of the fleet; what was signed is compared without its signature.
        let release = format!("{}/{}", apt::FOLDER, apt::RELEASE);
        let has_packages = assignment
            .payload
            .iter()
            .any(|file| file.path.as_str() == release);
        let is_compared = |path: &str| !has_packages || !apt::depends_on_signer(path);
        let payload = payload.filter(|file| is_compared(file.path.as_str()));
        let carried = assignment.payload.iter();
        let carried = carried
            .filter(|file| is_compared(file.path.as_str()))
            .cloned();
        let carried: Vec<_> = carried.collect();
        let payload = payload.map(|file| (file.path.as_str(), (file.content, file.executable)));
        compare(
            &carried,
            payload.collect(),
            &format!("{name}/payload"),
            &mut tell,
        );
    }
    served(index, payloads, &mut tell);
    found.sort();
    found
}

/// Compares the repositories that the site serves. What only a kept assignment needs is of another snapshot.
fn served(index: &Index, payloads: &Payloads, tell: &mut impl FnMut(String, &'static str)) {
    let carried = &index.served.repositories;
    for one in &payloads.served.repositories {
        let path = || format!("served/{}", one.url);
        match carried.iter().find(|other| other.url == one.url) {
            None => tell(path(), "only rendered"),
            Some(other) if other != one && index.kept.is_empty() => tell(path(), "changed"),
            Some(_) => {}
        }
    }
    let now = &payloads.served.repositories;
    let gone = carried
        .iter()
        .filter(|one| now.iter().all(|other| other.url != one.url));
    if index.kept.is_empty() {
        gone.for_each(|one| tell(format!("served/{}", one.url), "only in the bundle"));
    }
}

/// The only sites that an assignment is for, of those that the bundle is for.
fn wanted_sites<'a>(
    rendered: &'a RenderedAssignment,
    recipients: &BTreeSet<Name>,
) -> Option<BTreeSet<&'a str>> {
    let names = rendered.sites.as_ref()?.iter().map(String::as_str);
    let is_for =
        |site: &&str| recipients.is_empty() || recipients.iter().any(|r| r.as_str() == *site);
    Some(names.filter(is_for).collect())
}

/// Compares what each site has of its own.
fn of_sites(
    carried: &Assignment,
    rendered: &RenderedAssignment,
    recipients: &BTreeSet<Name>,
    tell: &mut impl FnMut(String, &'static str),
) {
    let wanted =
        |site: &str| recipients.is_empty() || recipients.iter().any(|r| r.as_str() == site);
    let mut now: BTreeMap<&str, _> = BTreeMap::new();
    for overlay in &rendered.overlays {
        let files = overlay.files.iter();
        let files: Vec<_> = files
            .map(|(path, b)| (path.as_str(), Digest::of(b)))
            .collect();
        for site in overlay.sites.iter().filter(|site| wanted(site)) {
            now.insert(site, (overlay.config_version, files.clone()));
        }
    }
    for overlay in &carried.overlays {
        let files = overlay.files.iter();
        let files: Vec<_> = files
            .map(|file| (file.path.as_str(), file.content))
            .collect();
        for site in &overlay.sites {
            let path = format!("{}/sites/{site}", carried.name);
            match now.remove(site.as_str()) {
                None => tell(path, "only in the bundle"),
                Some(other) if other != (overlay.config_version, files.clone()) => {
                    tell(path, "changed");
                }
                Some(_) => {}
            }
        }
    }
    for site in now.into_keys() {
        tell(format!("{}/sites/{site}", carried.name), "only rendered");
    }
}

fn compare(
    carried: &[File],
    mut rendered: BTreeMap<&str, (Digest, bool)>,
    folder: &str,
    tell: &mut impl FnMut(String, &'static str),
) {
    for file in carried {
        let path = format!("{folder}/{}", file.path);
        match rendered.remove(file.path.as_str()) {
            Some(now) if now == (file.content, file.executable) => {}
            Some(_) => tell(path, "changed"),
            None => tell(path, "only in the bundle"),
        }
    }
    for path in rendered.keys() {
        tell(format!("{folder}/{path}"), "only rendered");
    }
}

#[cfg(test)]
mod tests;
