//! What bundles and their images hold: bills of materials, out of bundles and out of files; and the statements about exploitability that
//! bundles carry beside them.
//!
//! What comes in: a bundle whose index was verified, or a file that claims to be one of those that an index lists. What goes
//! out: bills and statements on record, by their digests. Of a bundle only what lies before its content is read. What cannot be had
//! (sealed, or behind what was sent) keeps nothing from being recorded: it is named, and may come later as a file.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};

use outhaul_affected::Materials;
use outhaul_bundle::decode::{self, InMemory};
use outhaul_bundle::index::{Blob, Content};
use outhaul_bundle::limits::Limits;
use outhaul_bundle::read::{BlobSink, BundleReader};
use outhaul_bundle::{Digest, Index};
use outhaul_store::{Session, Store, StoreError};

/// How the file name of a bill of materials ends.
const BILL: &str = ".cdx.json";
/// Largest bill that is taken, in bytes.
pub const MAX_BILL_BYTES: u64 = outhaul_affected::MAX_BILL_BYTES as u64;
/// Most bytes of the bills of one bundle.
const MAX_BILLS_BYTES: u64 = 256 * 1024 * 1024;

/// Whether a file is a bill of materials, or statements about exploitability, by its name in lower case.
pub fn is_one(name: &str) -> bool {
    name.ends_with(BILL) || name.ends_with(outhaul_vex::ENDING)
}

/// The bills, and documents of statements, that an index lists: file names and digests.
pub fn listed(index: &Index) -> Vec<(String, Digest)> {
    let attestations = index.attestations.iter();
    attestations
        .filter(|file| is_one(file.path.as_str()))
        .map(|file| (file.path.to_string(), file.content))
        .collect()
}

/// Notes the bills that a bundle lists, reads those that are not on record, and returns the file names of those that could not be
/// had, with why where they are there.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn take_from_bundle<R: Read>(
    store: &mut Store,
    reader: &mut BundleReader<R>,
    index: &Index,
    now_ms: i64,
) -> Result<Vec<String>, StoreError> {
    let listed = listed(index);
    if listed.is_empty() {
        return Ok(Vec::new());
    }
    let role = index.stream.role.as_str();
    let wanted = store.write(|session| {
        session.list_materials(role, index.number, &listed)?;
        missing(session, role, index.number)
    })?;
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let found = read(reader, index, &wanted);
    store.write(|session| {
        // What is signed and cannot be read stays missing: nothing can be known from it.
        let mut unreadable = BTreeMap::new();
        for (digest, bytes) in &found {
            let Some(path) = wanted.get(digest) else {
                continue;
            };
            match ReadFile::of(path, bytes, now_ms) {
                Ok(read) => read.keep(session, digest, now_ms)?,
                Err(why) => drop(unreadable.insert(*digest, why)),
            }
        }
        let missing = missing(session, role, index.number)?.into_iter();
        let named = missing.map(|(digest, path)| match unreadable.remove(&digest) {
            Some(why) => format!("{path} ({why})"),
            None => path,
        });
        Ok(named.collect())
    })
}

fn missing(
    session: &Session<'_>,
    role: &str,
    number: u64,
) -> Result<BTreeMap<Digest, String>, StoreError> {
    let all = session.materials_of(role, number)?.into_iter();
    let missing = all.filter(|(_, (_, is_there))| !is_there);
    Ok(missing
        .filter_map(|(path, (digest, _))| Some((digest.parse().ok()?, path)))
        .collect())
}

/// What came of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bill {
    /// It is on record now.
    New,
    /// It was before.
    Known,
    /// No bundle on record lists it.
    NotListed,
    /// A bundle lists it, and it cannot be read: why.
    Unreadable(String),
}

/// Takes a bill, or statements, that came as a file.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn take_file(store: &mut Store, bytes: &[u8], now_ms: i64) -> Result<Bill, StoreError> {
    let digest = Digest::of(bytes);
    store.write(|session| {
        Ok(match session.listed_as(&digest)? {
            (None, _) => Bill::NotListed,
            (Some(_), true) => Bill::Known,
            (Some(path), false) => match ReadFile::of(&path, bytes, now_ms) {
                Ok(read) => {
                    read.keep(session, &digest, now_ms)?;
                    Bill::New
                }
                Err(why) => Bill::Unreadable(why),
            },
        })
    })
}

/// A file that was read, whichever of the two it is.
enum ReadFile {
    Bill(Box<Materials>),
    Statements(Vec<outhaul_vex::Statement>),
}

impl ReadFile {
    /// By the name under which a signed index lists it.
    fn of(path: &str, bytes: &[u8], now_ms: i64) -> Result<Self, String> {
        if path.ends_with(outhaul_vex::ENDING) {
            // Also in the words of an earlier program that made the bundle: what does not travel again would stay missing.
            let read = outhaul_vex::read_listed(bytes, now_ms).map_err(|error| error.to_string());
            return read.map(Self::Statements);
        }
        let read = Materials::read(bytes).map_err(|error| error.to_string());
        read.map(|bill| Self::Bill(Box::new(bill)))
    }

    fn keep(&self, session: &Session<'_>, digest: &Digest, now_ms: i64) -> Result<(), StoreError> {
        match self {
            Self::Bill(bill) => session.keep_materials(digest, bill, now_ms),
            Self::Statements(all) => session.keep_statements(digest, all, now_ms),
        }
    }
}

/// Reads what is wanted out of a bundle, up to its content.
fn read<R: Read>(
    reader: &mut BundleReader<R>,
    index: &Index,
    wanted: &BTreeMap<Digest, String>,
) -> BTreeMap<Digest, Vec<u8>> {
    let attestations = index.attestations.iter();
    let mut sink = Bills {
        attestations: attestations.map(|file| file.content).collect(),
        wanted,
        open: None,
        bytes: 0,
        found: InMemory::default(),
    };
    // Of a part or a copy that leaves something out, what it has is read.
    if reader.read_volume(index).is_ok() {
        // It ends where the content begins, or where what was sent does: what was found before is whole.
        let _ = reader.read_blobs(index, &mut sink);
    }
    sink.found.take()
}

/// Keeps the contents that are wanted; refuses to go on at the first blob that holds anything else than attestations.
struct Bills<'a> {
    attestations: BTreeSet<Digest>,
    wanted: &'a BTreeMap<Digest, String>,
    open: Option<Vec<u8>>,
    bytes: u64,
    found: InMemory<Digest>,
}

impl BlobSink for Bills<'_> {
    fn begin(&mut self, blob: &Blob) -> io::Result<Option<Box<dyn Write + '_>>> {
        let mut contents = blob.contents.iter();
        if !contents.all(|content| self.attestations.contains(&content.digest)) {
            return Err(io::Error::other("here the content begins"));
        }
        let mut contents = blob.contents.iter();
        let is_wanted = contents.any(|content| self.wanted.contains_key(&content.digest));
        let plain: u64 = blob.contents.iter().map(|content| content.size).sum();
        let is_small =
            blob.size.max(plain) <= MAX_BILL_BYTES && self.bytes + plain <= MAX_BILLS_BYTES;
        if !is_wanted || blob.sealed.is_some() || !is_small {
            self.open = None;
            return Ok(None);
        }
        self.bytes += plain;
        Ok(Some(Box::new(self.open.insert(Vec::new()))))
    }

    fn commit(&mut self, blob: &Blob) -> io::Result<()> {
        let Some(bytes) = self.open.take() else {
            return Ok(());
        };
        let mut each = |content: &Content| {
            let is_wanted = self.wanted.contains_key(&content.digest);
            Ok(is_wanted.then(|| self.found.writer(content.digest)))
        };
        decode::decode(blob, &*bytes, &Limits::default(), &mut each).map_err(|error| {
            for content in &blob.contents {
                self.found.remove(&content.digest);
            }
            io::Error::other(error.to_string())
        })
    }

    fn discard(&mut self, _: &Blob) {
        self.open = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_a_signed_index_lists_are_read_in_words_of_before_and_not_of_a_time_to_come()
    {
        let of = |date: &str| {
            let text = format!(
                r#"{{"@context":"https://openvex.dev/ns/v0.2.0","author":"A","timestamp":"{date}T00:00:00Z","statements":[
                    {{"vulnerability":{{"name":"CVE-1"}},"products":[{{"@id":"pkg:oci/app"}}],"status":"not_affected","justification":"in our own words"}}]}}"#
            );
            ReadFile::of("team.openvex.json", text.as_bytes(), 0)
        };
        let Ok(ReadFile::Statements(read)) = of("1970-01-01") else {
            panic!("they stay missing");
        };
        assert_eq!(read[0].reason, "in our own words");
        let problem = of("1970-01-03").err().unwrap();
        assert!(problem.contains("is in the future"), "{problem}");
    }
}
