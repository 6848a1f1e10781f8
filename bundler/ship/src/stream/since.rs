//! A kept bundle without the blobs that its sites have from an earlier one.
//!
//! What comes in: a bundle that the fleet keeps, which earlier bundles its sites have, and a folder. What goes out: a
//! copy in it with all the metadata, the index, and the blobs that those do not all have, some as patches, read back. Which blobs an
//! earlier bundle had is written down when the fleet lets go of it ([`remember`]), or read out of its file. Nothing is
//! signed here, and no key is needed: a site compares what is left out with the digests of the signed index.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use outhaul_bundle::index::Blob;
use outhaul_bundle::name::Name;
use outhaul_bundle::volume::{Base, MAX_BASES};
use outhaul_bundle::{Digest, Index, Volume};
use outhaul_kit::media;
use outhaul_signer::durable::{self, SECRET_MODE};
use outhaul_signer::fleet::Fleet;
use serde::{Deserialize, Serialize};

use super::copies::{Copied, CopyError, KeptBundle};
use super::patches::{Patches, Patching, Travels};
use super::shelf::{self, StoredBundle};
use super::volumes::{ReadableBundle, open};
use crate::deliver::{self, DeliverError};
use outhaul_attest::inspect::{self, InspectError};

const FORMAT: &str = "outhaul.dev/earlier-bundle/v1";
const ENDING: &str = ".blobs.json";
/// Earlier bundles of one stream whose blobs are remembered.
const KEPT: usize = 32;
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// An earlier bundle, as a person names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Earlier {
    /// By its number.
    Number(u64),
    /// By the digest of its index or of its file.
    Digest(Digest),
    /// By its file.
    File(PathBuf),
}

/// An earlier bundle and the blobs that it has.
#[derive(Debug, Clone)]
pub struct Has {
    base: Base,
    blobs: BTreeSet<Digest>,
    /// Its file, when it is here.
    file: Option<PathBuf>,
}

/// What the sites of a bundle have by their reports.
#[derive(Debug)]
pub struct Reported {
    /// What may be left out; `None` for the whole bundle.
    pub bases: Option<Vec<Has>>,
    /// Why it is the whole bundle, where the reports name an earlier one.
    pub unknown: Option<CopyError>,
}

/// Whether what is to be left out is `bundle` itself, and nothing but that: there is nothing to copy then.
pub fn is_newest(bundle: &KeptBundle, bases: Option<&[Has]>) -> bool {
    let is_it = |base: &Has| base.base.number == bundle.number;
    bases.is_some_and(|bases| !bases.is_empty() && bases.iter().all(is_it))
}

impl Has {
    /// Opens its file, when that is here and has all of its blobs.
    fn open(&self) -> Option<ReadableBundle> {
        let opened = ReadableBundle::open(self.file.as_ref()?).ok()?;
        let is_right = Digest::of(&opened.index.to_bytes()) == self.base.index;
        (is_right && opened.is_whole()).then_some(opened)
    }
}

/// What a copy leaves out, and what it carries as patches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Numbers of the bundles of which a site needs one.
    pub numbers: Vec<u64>,
    /// How many blobs.
    pub blobs: usize,
    /// Their bytes.
    pub bytes: u64,
    /// How each of the other blobs travels.
    pub others: Vec<Travels>,
}

/// The blobs of a bundle that the fleet keeps no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EarlierBundle {
    format: String,
    number: u64,
    /// Digest of its index.
    index: Digest,
    /// Digest of its file.
    file: Digest,
    blobs: BTreeSet<Digest>,
}

impl EarlierBundle {
    fn of(index: &Index, file: Digest) -> Self {
        Self {
            format: FORMAT.to_owned(),
            number: index.number,
            index: Digest::of(&index.to_bytes()),
            file,
            blobs: index.blobs.iter().map(|blob| blob.digest).collect(),
        }
    }

    fn read(path: &Path) -> Option<Self> {
        let bytes = durable::read_if_present(path, MAX_BYTES).ok()??;
        let known: Self = serde_json::from_slice(&bytes).ok()?;
        (known.format == FORMAT).then_some(known)
    }

    fn is(&self, earlier: &Earlier) -> bool {
        match earlier {
            Earlier::Number(number) => self.number == *number,
            Earlier::Digest(digest) => self.index == *digest || self.file == *digest,
            Earlier::File(_) => false,
        }
    }

    fn has(self, file: Option<PathBuf>) -> Has {
        let base = Base {
            number: self.number,
            index: self.index,
        };
        Has {
            base,
            blobs: self.blobs,
            file,
        }
    }
}

/// Writes down which blobs the kept bundle of `role` has, before the fleet lets go of it. Without it, copies since that
/// bundle need its file: that this cannot be done keeps no bundle from being made.
pub(super) fn remember(fleet: &Path, role: &str) {
    let Ok(Some(kept)) = StoredBundle::read(fleet, role) else {
        return;
    };
    let path = shelf::bundle(fleet, role, kept.number());
    let Ok(opened) = ReadableBundle::open(&path) else {
        tracing::debug!(path = %path.display(), "which blobs it has is not remembered");
        return;
    };
    let known = EarlierBundle::of(&opened.index, kept.file());
    let mut bytes = serde_json::to_vec(&known).unwrap_or_default();
    bytes.push(b'\n');
    let to = record(fleet, role, known.number);
    if let Err(error) = durable::write(&to, &bytes, SECRET_MODE) {
        tracing::warn!(
            "`copy --since {}` will need `--since-file`: {error}",
            known.number
        );
        return;
    }
    let mut numbers = remembered(fleet, role);
    let surplus = numbers.len().saturating_sub(KEPT);
    for number in numbers.drain(..surplus) {
        // It is only in the way; the next bundle tries again.
        let _ = std::fs::remove_file(record(fleet, role, number));
    }
}

/// Numbers of the earlier bundles of `role` whose blobs are remembered, ascending.
fn remembered(fleet: &Path, role: &str) -> Vec<u64> {
    let folder = record(fleet, role, 0);
    let entries = folder.parent().map(std::fs::read_dir);
    let names = entries.into_iter().flatten().flatten().flatten();
    let number = |name: &str| -> Option<u64> {
        let rest = name.strip_prefix(role)?.strip_prefix('.')?;
        rest.strip_suffix(ENDING)?.parse().ok()
    };
    let mut numbers: Vec<u64> = names
        .filter_map(|entry| number(entry.file_name().to_str()?))
        .collect();
    numbers.sort_unstable();
    numbers
}

fn record(fleet: &Path, role: &str, number: u64) -> PathBuf {
    let bundle = shelf::bundle(fleet, role, number);
    bundle.with_file_name(format!("{role}.{number}{ENDING}"))
}

/// What each of `earlier` has of `bundle`'s stream. The file of one is verified by `trust`: the fleet's root metadata and
/// the time.
///
/// # Errors
/// [`CopyError`] for an earlier bundle of which it is not known what it has.
pub fn bases(
    fleet: &Fleet,
    bundle: &KeptBundle,
    earlier: &[Earlier],
    trust: (&[u8], Timestamp),
) -> Result<Vec<Has>, CopyError> {
    if earlier.len() > MAX_BASES {
        let (count, max) = (earlier.len(), MAX_BASES);
        return Err(CopyError::ManyBases { count, max });
    }
    let opened = open(bundle)?;
    let found = earlier.iter().map(|one| {
        let found = find(fleet, bundle, &opened.index, one, trust)?;
        let file = match one {
            Earlier::File(path) => path.clone(),
            _ => shelf::bundle(fleet.folder(), bundle.role(), found.number),
        };
        Ok(found.has(Some(file)))
    });
    found.collect()
}

/// As [`bases`], where reports of sites name the earlier bundles, by their digests. A whole bundle always works: it is what is copied where
/// nothing is reported, and where it is not known what a reported one has.
pub fn reported(
    fleet: &Fleet,
    bundle: &KeptBundle,
    reported: Option<&[Digest]>,
    trust: (&[u8], Timestamp),
) -> Reported {
    let found = reported.map(|known| {
        let earlier: Vec<_> = known.iter().copied().map(Earlier::Digest).collect();
        bases(fleet, bundle, &earlier, trust)
    });
    match found.transpose() {
        Ok(bases) => Reported {
            bases,
            unknown: None,
        },
        Err(error) => Reported {
            bases: None,
            unknown: Some(error),
        },
    }
}

/// For whom `bundle` is sealed: names by the ids of their keys; `None` when it is open.
///
/// # Errors
/// [`CopyError`] when it cannot be read.
pub fn sealed_for(bundle: &KeptBundle) -> Result<Option<BTreeMap<Name, Name>>, CopyError> {
    let index = open(bundle)?.index;
    let mut sealed = index.blobs.into_iter().filter_map(|blob| blob.sealed);
    Ok(sealed.next().map(|sealed| sealed.recipients))
}

/// Copies `bundle` into `folder` without the blobs that every one of `bases` has, and with patches for the others as
/// `patching` allows, where they are smaller; whole when there are none.
///
/// # Errors
/// [`CopyError`]
pub fn copy(
    bundle: &KeptBundle,
    folder: &Path,
    bases: &[Has],
    patching: Patching,
) -> Result<(Copied, Option<LeftOut>), CopyError> {
    bundle.check()?;
    let opened = open(bundle)?;
    let has = |blob: &Blob| bases.iter().all(|base| base.blobs.contains(&blob.digest));
    let old = match patching {
        Patching::None => None,
        _ => bases.iter().find_map(Has::open),
    };
    let patches = Patches::make(&opened, old.as_ref(), &has, patching);
    let mut patches = patches.map_err(CopyError::Patches)?;
    let named: Vec<_> = bases
        .iter()
        .map(|one| (one.base.clone(), one.blobs.clone()))
        .collect();
    let Some(volume) = Volume::since_with(&opened.index, &named, &patches.sizes()) else {
        return Ok((bundle.copy(folder)?, None));
    };
    let file = folder.join(name(&bundle.file_name(), &volume));
    let left_out = volume.left_out(&opened.index);
    let left_out = LeftOut {
        numbers: volume.bases().iter().map(|base| base.number).collect(),
        blobs: left_out.len(),
        bytes: left_out.iter().map(|blob| blob.size).sum(),
        others: std::mem::take(&mut patches.travels),
    };
    let copied = match opened.is_there(&file, &volume, &patches) {
        Some(bytes) => Copied {
            file,
            bytes,
            written: false,
        },
        None => Copied {
            bytes: opened.write(&file, &volume, &patches)?,
            file,
            written: true,
        },
    };
    Ok((copied, Some(left_out)))
}

/// What an earlier bundle of the stream had.
fn find(
    fleet: &Fleet,
    bundle: &KeptBundle,
    index: &Index,
    earlier: &Earlier,
    trust: (&[u8], Timestamp),
) -> Result<EarlierBundle, CopyError> {
    let (folder, role) = (fleet.folder(), bundle.role());
    if let Earlier::File(path) = earlier {
        return of_file(trust, bundle, path);
    }
    let current = EarlierBundle::of(index, bundle.file());
    if current.is(earlier) {
        return Ok(current);
    }
    let mut known = remembered(folder, role);
    let wanted = |number: &&u64| match earlier {
        Earlier::Number(wanted) => *number == wanted,
        _ => true,
    };
    let records = known.iter().filter(wanted);
    let mut records =
        records.filter_map(|number| EarlierBundle::read(&record(folder, role, *number)));
    if let Some(found) = records.find(|found| found.is(earlier)) {
        return Ok(found);
    }
    known.push(bundle.number);
    Err(CopyError::NoBase {
        stream: bundle.stream(),
        number: bundle.number,
        base: match earlier {
            Earlier::Number(number) => number.to_string(),
            Earlier::Digest(digest) => digest.to_string(),
            Earlier::File(path) => path.display().to_string(),
        },
        known,
    })
}

/// What the bundle in a file has, once the fleet's own keys verify it.
fn of_file(
    (root, now): (&[u8], Timestamp),
    bundle: &KeptBundle,
    path: &Path,
) -> Result<EarlierBundle, CopyError> {
    let unusable = |source: InspectError| CopyError::BaseFile {
        path: path.to_owned(),
        source: Box::new(source),
    };
    let file = media::open_file(path).map_err(DeliverError::from)?;
    let found = inspect::inspect(file, Some(root), now).map_err(unusable)?;
    let stream = &found.index.stream;
    if stream.role.as_str() != bundle.role() {
        return Err(CopyError::OtherStream {
            path: path.to_owned(),
            stream: bundle.stream(),
            found: format!("{}/{}", stream.environment, stream.cluster_type),
        });
    }
    let digest = deliver::digest_of(path).map_err(CopyError::Deliver)?;
    Ok(EarlierBundle::of(&found.index, digest))
}

/// `stage-press-7.since5.outhaul`, `stage-press-7.since3and5.outhaul`
fn name(bundle: &str, volume: &Volume) -> String {
    let stem = bundle.strip_suffix(".outhaul").unwrap_or(bundle);
    let numbers: Vec<String> = volume
        .bases()
        .iter()
        .map(|base| base.number.to_string())
        .collect();
    format!("{stem}.since{}.outhaul", numbers.join("and"))
}
