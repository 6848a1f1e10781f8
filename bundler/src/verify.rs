//! Verify: does a bundle hold what its snapshot gives, and does its fleet say so?
//!
//! What comes in: a bundle file, its index (already vouched for), keys where it is sealed, and what the
//! same commits render to now. What goes out: the attestations in it, and a list of differences, file
//! by file; empty means equal. Every blob is opened, decompressed and hashed in bounded memory.
//! It installs and writes nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Seek, Write};
use std::rc::Rc;
use std::sync::Arc;

use outhaul_bundle::decode::{self, DecodeError};
use outhaul_bundle::index::{Assignment, Blob, Content, File};
use outhaul_bundle::limits::Limits;
use outhaul_bundle::name::Name;
use outhaul_bundle::read::{BlobSink, BundleReader, ReadError};
use outhaul_bundle::{Digest, Index};
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::PublicKey;
use serde_json::Value;

use crate::assemble::finish::Keys;
use crate::attest::{self, statement};
use crate::collect::Payloads;
use crate::render::RenderedAssignment;

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
        found: Rc::default(),
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
    found: Rc<RefCell<BTreeMap<String, Vec<u8>>>>,
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
            let found = self.found.clone();
            Ok(name.map(|name| Box::new(Keeping { name, found }) as Box<dyn Write>))
        };
        decode::decode_sealed(blob, file, &Limits::default(), self.keys, &mut each).map_err(
            |error| {
                let told = io::Error::other(error.to_string());
                self.wrong = Some(error);
                told
            },
        )
    }

    fn discard(&mut self, _: &Blob) {
        self.blob = None;
    }
}

struct Keeping {
    name: String,
    found: Rc<RefCell<BTreeMap<String, Vec<u8>>>>,
}

impl Write for Keeping {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut found = self.found.borrow_mut();
        found
            .entry(self.name.clone())
            .or_default()
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
        Some(sbom) if sbom == digest(1) => Statement::Holds,
        Some(_) => Statement::Wrong("it is about another bill of materials".to_owned()),
        None => Statement::Wrong("the bill of materials that it names is not there".to_owned()),
    }
}

/// One way in which a bundle is not what its commits give.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Difference {
    /// `<assignment>/files/<path>`, `<assignment>/payload/<path>`, `<assignment>/config`,
    /// `<assignment>/sites/<site>`, `<assignment>`.
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
) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut tell = |path: String, what| found.push(Difference { path, what });
    let carried: BTreeMap<&str, &Assignment> = index
        .assignments
        .iter()
        .map(|one| (one.name.as_str(), one))
        .collect();
    for name in rendered
        .keys()
        .filter(|name| !carried.contains_key(name.as_str()))
    {
        tell(name.clone(), "only rendered");
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
        of_sites(assignment, now, &index.recipients, &mut tell);
        let payload = payloads.files.get(name).unwrap_or(&nothing).iter();
        let payload = payload.map(|file| (file.path.as_str(), (file.content, file.executable)));
        compare(
            &assignment.payload,
            payload.collect(),
            &format!("{name}/payload"),
            &mut tell,
        );
    }
    found.sort();
    found
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
mod tests {
    #![allow(clippy::unwrap_used)]
    use outhaul_bundle::fake::FakeBundle;
    use outhaul_signer::key::SigningKey;

    use super::*;

    fn fake() -> FakeBundle {
        FakeBundle::new(1, &[("a.yaml", b"a"), ("b.yaml", b"b")]).unwrap()
    }

    fn rendered() -> BTreeMap<String, Arc<RenderedAssignment>> {
        let files = [("a.yaml", b"a"), ("b.yaml", b"b")];
        let one = RenderedAssignment {
            workload: String::new(),
            workspace: String::new(),
            policies: Vec::new(),
            namespace: String::new(),
            config_version: Digest::of(b"config"),
            files: files
                .map(|(name, bytes)| (name.to_owned(), bytes.to_vec()))
                .into(),
            manifests: BTreeMap::new(),
            overlays: Vec::new(),
        };
        BTreeMap::from([("hello-world-test".to_owned(), Arc::new(one))])
    }

    fn told(rendered: &BTreeMap<String, Arc<RenderedAssignment>>) -> Vec<String> {
        let found = differences(&fake().index, rendered, &Payloads::default());
        found
            .iter()
            .map(|one| format!("{} {}", one.path, one.what))
            .collect()
    }

    #[test]
    fn the_same_commits_give_no_difference() {
        assert!(told(&rendered()).is_empty());
    }

    #[test]
    fn every_difference_is_named() {
        let mut now = rendered();
        let one = Arc::make_mut(now.get_mut("hello-world-test").unwrap());
        one.config_version = Digest::of(b"other");
        one.files.insert("a.yaml".into(), b"other".to_vec());
        one.files.remove("b.yaml");
        one.files.insert("c.yaml".into(), b"c".to_vec());
        let copy = one.clone();
        now.insert("new-one".into(), Arc::new(copy));
        assert_eq!(
            told(&now),
            [
                "hello-world-test/config changed",
                "hello-world-test/files/a.yaml changed",
                "hello-world-test/files/b.yaml only in the bundle",
                "hello-world-test/files/c.yaml only rendered",
                "new-one only rendered",
            ]
        );
        assert_eq!(
            told(&BTreeMap::new()),
            ["hello-world-test only in the bundle"]
        );
    }

    #[test]
    fn what_single_sites_have_is_compared_site_by_site() {
        let overlay = |sites: &[&str], bytes: &[u8]| crate::render::RenderedOverlay {
            sites: sites.iter().map(ToString::to_string).collect(),
            config_version: Digest::of(b"own"),
            files: BTreeMap::from([("a.yaml".to_owned(), bytes.to_vec())]),
        };
        let mut index = fake().index;
        let mut file = index.assignments[0].files[0].clone();
        file.content = Digest::of(b"x");
        index.assignments[0].overlays = vec![outhaul_bundle::index::Overlay {
            sites: ["p-1", "p-2", "p-3"].map(|s| s.parse().unwrap()).into(),
            config_version: Digest::of(b"own"),
            files: vec![file],
        }];
        let told = |overlays: Vec<_>, index: &Index| -> Vec<String> {
            let mut now = rendered();
            Arc::make_mut(now.get_mut("hello-world-test").unwrap()).overlays = overlays;
            let found = differences(index, &now, &Payloads::default());
            found
                .iter()
                .map(|one| format!("{} {}", one.path, one.what))
                .collect()
        };
        let same = overlay(&["p-1", "p-2", "p-3"], b"x");
        assert!(told(vec![same.clone()], &index).is_empty());
        assert_eq!(
            told(
                vec![overlay(&["p-1"], b"x"), overlay(&["p-2", "p-4"], b"y")],
                &index
            ),
            [
                "hello-world-test/sites/p-2 changed",
                "hello-world-test/sites/p-3 only in the bundle",
                "hello-world-test/sites/p-4 only rendered",
            ]
        );
        // A bundle for one site has nothing of the others.
        index.assignments[0].overlays[0]
            .sites
            .retain(|site| site.as_str() == "p-1");
        index.recipients.insert("p-1".parse().unwrap());
        assert!(told(vec![same], &index).is_empty());
    }

    #[test]
    fn what_was_kept_is_not_compared_and_must_be_broken_now() {
        let mut index = fake().index;
        let name = index.assignments[0].name.clone();
        index.kept.insert(name, Digest::of(b"an earlier snapshot"));
        let differences = |now| differences(&index, &now, &Payloads::default());
        assert!(differences(BTreeMap::new()).is_empty());
        assert_eq!(differences(rendered())[0].what, "kept, but it is sound");
    }

    #[test]
    fn contents_that_are_not_what_the_index_says_are_found_behind_right_carried_bytes() {
        let mut bundle = fake();
        let bytes = bundle.to_bytes().unwrap();
        let keys = Keys::default();
        assert!(
            contents(&*bytes, &bundle.expected_index(), &keys)
                .unwrap()
                .is_empty()
        );
        // Both sizes are 1: the two contents of the pack change places.
        bundle.index.blobs[0].contents.swap(0, 1);
        let bytes = bundle.to_bytes().unwrap();
        assert!(contents(&*bytes, &bundle.expected_index(), &keys).is_err());
    }

    #[test]
    fn a_statement_counts_when_the_fleet_signed_it_about_this_bundle() {
        let key = SigningKey::generate().unwrap();
        let index = fake().index;
        let sign = |index: &Index| {
            let payload = statement::statement(index, b"sbom");
            Envelope::sign(statement::PAYLOAD_TYPE, payload, &key).to_json()
        };
        let with = |provenance: Vec<u8>, sbom: &[u8]| {
            BTreeMap::from([
                (attest::PROVENANCE.to_owned(), provenance),
                (attest::SBOM.to_owned(), sbom.to_vec()),
            ])
        };
        let keys = [key.public()];
        let judge = |files: &BTreeMap<_, _>, keys| statement(&index, files, keys);
        let good = with(sign(&index), b"sbom");
        assert_eq!(judge(&good, Some(&keys[..])), Statement::Holds);
        assert_eq!(judge(&good, None), Statement::Unchecked);
        assert_eq!(judge(&BTreeMap::new(), Some(&keys[..])), Statement::Absent);
        let other = [SigningKey::generate().unwrap().public()];
        assert!(matches!(
            judge(&good, Some(&other[..])),
            Statement::Wrong(_)
        ));
        let about_another = FakeBundle::new(1, &[("a.yaml", b"x")]).unwrap().index;
        for bad in [
            with(sign(&about_another), b"sbom"),
            with(sign(&index), b"other"),
        ] {
            assert!(matches!(judge(&bad, Some(&keys[..])), Statement::Wrong(_)));
        }
    }
}
