//! Payloads that cannot be reached now, out of the bundle that the stream shipped last.
//!
//! What comes in: the fleet's kept bundle of a stream, and the names of assignments that stay as they
//! were. What goes out: their payloads, into a spool. A server that does not answer today takes nothing
//! from a site that has its content. Of a sealed bundle nothing can be read here; then there is nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::path::PathBuf;
use std::rc::Rc;

use outhaul_bundle::decode;
use outhaul_bundle::index::{Blob, Content, Index, Source};
use outhaul_bundle::limits::Limits;
use outhaul_bundle::read::{BlobSink, BundleReader};
use outhaul_bundle::{Digest, index};
use outhaul_control::diagnostic::Diagnostic;
use outhaul_git::source::normal_url;
use outhaul_plane::schedule::AssignmentId;
use outhaul_signer::durable;
use outhaul_signer::fleet::Fleet;

use super::shelf::{self, Signed};
use crate::assemble::{Spool, SpoolError};
use crate::collect::{KEPT, Payloads};
use outhaul_attest::contents::Keys;
use outhaul_record::record::ShippedAssignment;

/// The payloads of the bundle that a stream shipped last.
pub(super) struct LastPayloads {
    path: PathBuf,
    number: u64,
    index: Index,
    /// Those that are to be taken from it.
    taken: BTreeMap<String, Option<Source>>,
}

impl LastPayloads {
    /// The kept bundle of `role`, when it is there, is what it was, and can be read here.
    pub(super) fn open(fleet: &Fleet, role: &str) -> Option<Self> {
        let latest = fleet.latest(role).ok()??;
        let path = shelf::bundle(fleet.folder(), role, latest.number);
        // What is taken from it is signed again: it has to be the one that was signed last, whole.
        let signed = Signed::of(fleet, &latest).ok()?;
        let index = signed.index(durable::open_file(&path).ok()?)?;
        Some(Self {
            path,
            number: latest.number,
            index,
            taken: BTreeMap::new(),
        })
    }

    /// What it holds.
    pub(super) fn index(&self) -> &Index {
        &self.index
    }

    /// The bundle's number.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether images were served with it.
    pub(super) fn has_images(&self) -> bool {
        !self.index.served.images.is_empty()
    }

    /// Takes the payload of an assignment as it was; whether it is there.
    pub(super) fn take(&mut self, name: &str, before: &ShippedAssignment) -> bool {
        let repo = before.rendered.manifests.get("repo");
        if before.payload_commit.is_some() && repo.is_none() {
            return false;
        }
        let Some(assignment) = self.assignment(name) else {
            return false;
        };
        let mut wanted: BTreeSet<Digest> =
            assignment.payload.iter().map(|file| file.content).collect();
        // What it needs besides cannot be known now: all that was served goes with it.
        wanted.extend(self.index.served.contents().map(|one| one.digest));
        let contents = |blob: &Blob| {
            blob.contents
                .iter()
                .map(|one| one.digest)
                .collect::<Vec<_>>()
        };
        let readable = self.index.blobs.iter().filter(|blob| blob.sealed.is_none());
        let readable: BTreeSet<Digest> = readable.flat_map(contents).collect();
        let mut sources = self.index.snapshot.workloads.iter();
        let commit = before.payload_commit.as_ref();
        let is_there = commit.is_none_or(|commit| sources.any(|one| one.commit == *commit));
        if !wanted.is_subset(&readable) || !is_there {
            return false;
        }
        let source = commit.zip(repo).map(|(commit, repo)| Source {
            name: format!("{KEPT}{name}"),
            repo: repo.clone(),
            commit: commit.clone(),
        });
        self.taken.insert(name.to_owned(), source);
        true
    }

    /// Whether the payload of `name` is taken from here.
    pub(super) fn has(&self, name: &str) -> bool {
        self.taken.contains_key(name)
    }

    /// Adds what is taken to what was collected.
    ///
    /// # Errors
    /// [`SpoolError`] when the bundle cannot be read any more, or the disk is full.
    pub(super) fn add_to(
        &self,
        payloads: &mut Payloads,
        spool: &mut Spool,
    ) -> Result<(), SpoolError> {
        let mut wanted = BTreeSet::new();
        for (name, source) in &self.taken {
            let files = self.assignment(name).map(|one| one.payload.clone());
            let files = files.unwrap_or_default();
            wanted.extend(files.iter().map(|file| file.content));
            if let Some(source) = source {
                payloads.files.insert(name.clone(), files);
                payloads.commits.insert(name.clone(), source.commit.clone());
                payloads.sources.push(source.clone());
            }
        }
        if !self.taken.is_empty() {
            self.serve_again(payloads, &mut wanted);
        }
        payloads.sources.sort();
        payloads.sources.dedup();
        let failed = |source| SpoolError::at(&self.path, source);
        let found = self.extract(wanted).map_err(failed)?;
        for mut file in found.into_values() {
            spool.add_with(|out| {
                file.rewind()?;
                io::copy(&mut file, out).map(drop)
            })?;
        }
        Ok(())
    }

    /// Adds what was served, but for what is served now under the same name.
    fn serve_again(&self, payloads: &mut Payloads, wanted: &mut BTreeSet<Digest>) {
        let is_same = |url: &str, other: &str| normal_url(url) == normal_url(other);
        let there = &mut payloads.served;
        for one in &self.index.served.repositories {
            if there
                .repositories
                .iter()
                .all(|other| !is_same(&one.url, &other.url))
            {
                wanted.insert(one.pack.digest);
                there.repositories.push(one.clone());
            }
        }
        for image in &self.index.served.images {
            if there.images.iter().all(|other| other.name != image.name) {
                let contents = std::iter::once(&image.manifest).chain(&image.blobs);
                wanted.extend(contents.map(|content| content.digest));
                there.images.push(image.clone());
            }
        }
        there.repositories.sort();
        there.images.sort();
    }

    fn assignment(&self, name: &str) -> Option<&index::Assignment> {
        let mut all = self.index.assignments.iter();
        all.find(|one| one.name.as_str() == name)
    }

    /// Some of its contents, each in a separate file.
    pub(super) fn extract(&self, wanted: BTreeSet<Digest>) -> io::Result<BTreeMap<Digest, File>> {
        let mut sink = Extracting {
            wanted,
            blob: None,
            found: Rc::default(),
        };
        let mut reader = BundleReader::new(durable::open_file(&self.path)?, Limits::default());
        reader.read_metadata().map_err(io::Error::other)?;
        let bytes = self.index.to_bytes();
        let expected = Content {
            digest: Digest::of(&bytes),
            size: bytes.len() as u64,
        };
        let (index, _) = reader.read_index(&expected).map_err(io::Error::other)?;
        reader
            .read_blobs(&index, &mut sink)
            .map_err(io::Error::other)?;
        Ok(sink.found.take())
    }
}

/// What is kept goes to sites once more, whatever a policy has come to say of its images since.
pub(super) fn unverified(
    (environment, id): (&str, &AssignmentId),
    number: u64,
    policy: &str,
    why: &str,
) -> Diagnostic {
    let message = format!(
        "`{environment}/{}/{}` stays as bundle {number} had it, and what was served with it is not checked against \
         `imageSignatures` in {policy}: {why}",
        id.cluster_type, id.target
    );
    Diagnostic::warning("kept-unverified", message).help(
        "sites that have it keep it, and a site that takes this stream for the first time gets it, too; have the images signed, \
         or remove the deployment target: then it is removed on site",
    )
}

/// Decodes the blobs that hold something wanted.
struct Extracting {
    wanted: BTreeSet<Digest>,
    blob: Option<File>,
    found: Rc<RefCell<BTreeMap<Digest, File>>>,
}

impl BlobSink for Extracting {
    fn begin(&mut self, blob: &Blob) -> io::Result<Option<Box<dyn Write + '_>>> {
        let wanted = |content: &Content| self.wanted.contains(&content.digest);
        if !blob.contents.iter().any(wanted) {
            return Ok(None);
        }
        let file = self.blob.insert(tempfile::tempfile()?);
        Ok(Some(Box::new(file)))
    }

    fn commit(&mut self, blob: &Blob) -> io::Result<()> {
        let Some(mut file) = self.blob.take() else {
            return Ok(());
        };
        file.rewind()?;
        let mut each = |content: &Content| {
            if !self.wanted.contains(&content.digest) {
                return Ok(None);
            }
            let file = tempfile::tempfile()?;
            let out = file.try_clone()?;
            self.found.borrow_mut().insert(content.digest, file);
            Ok(Some(Box::new(out) as Box<dyn Write>))
        };
        decode::decode_sealed(blob, file, &Limits::default(), &Keys::default(), &mut each)
            .map_err(io::Error::other)
    }

    fn discard(&mut self, _: &Blob) {
        self.blob = None;
    }
}
