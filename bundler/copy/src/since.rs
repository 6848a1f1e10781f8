//! A kept bundle without the blobs that its sites have from an earlier one.
//!
//! What comes in: a bundle that the fleet keeps, which earlier bundles its sites have, and a folder. What goes out: a
//! copy in it with all the metadata, the index, and the blobs that those do not all have, some as patches, read back. Which blobs an
//! earlier bundle had is on record since the fleet let go of it ([`BlobRecord`]), or read out of its file. Nothing is
//! signed here, and no key is needed: a site compares what is left out with the digests of the signed index.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use outhaul_bundle::index::Blob;
use outhaul_bundle::name::Name;
use outhaul_bundle::volume::{Base, MAX_BASES};
use outhaul_bundle::{Digest, Index, Volume};
use outhaul_kit::media;
use outhaul_signer::fleet::Fleet;

use super::copies::{Copied, CopyError, KeptBundle};
use super::patches::{How, Patches, Patching, Travels};
use super::volumes::{ReadableBundle, open};
use outhaul_attest::inspect::{self, InspectError};
use outhaul_ship::deliver::{self, DeliverError};
use outhaul_ship::stream::blob_record::{BlobRecord, remembered};
use outhaul_ship::stream::shelf;

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

impl Has {
    fn of(known: BlobRecord, file: Option<PathBuf>) -> Self {
        let base = Base {
            number: known.number,
            index: known.index,
        };
        Self {
            base,
            blobs: known.blobs,
            file,
        }
    }

    /// The earlier bundle's number.
    pub fn number(&self) -> u64 {
        self.base.number
    }

    /// An earlier bundle without blobs.
    #[cfg(test)]
    pub(crate) fn fake(number: u64) -> Self {
        let base = Base {
            number,
            index: Digest::of(b"index"),
        };
        Self {
            base,
            blobs: BTreeSet::new(),
            file: None,
        }
    }

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

impl LeftOut {
    /// How many layers travel as twins: only sites that bring images into containerd take such a copy.
    pub fn twins(&self) -> usize {
        let is_twin = |one: &&Travels| matches!(one.how, How::Twin { .. });
        self.others.iter().filter(is_twin).count()
    }
}

/// What each of `earlier` has of `bundle`'s stream. The file of one is verified by `trust`: the fleet's root metadata and
/// the time.
///
/// # Errors
/// [`CopyError`] for an earlier bundle of which it is not known what it has.
pub(crate) fn bases(
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
        Ok(Has::of(found, Some(file)))
    });
    found.collect()
}

/// For whom `bundle` is sealed: names by the ids of their keys; `None` when it is open.
///
/// # Errors
/// [`CopyError`] when it cannot be read.
pub(crate) fn sealed_for(bundle: &KeptBundle) -> Result<Option<BTreeMap<Name, Name>>, CopyError> {
    let index = open(bundle)?.index;
    let mut sealed = index.blobs.into_iter().filter_map(|blob| blob.sealed);
    Ok(sealed.next().map(|sealed| sealed.recipients))
}

/// Copies `bundle` into `folder` without the blobs that every one of `bases` has, and with patches for the others as
/// `patching` allows, where they are smaller; whole when there are none.
///
/// # Errors
/// [`CopyError`]
pub(crate) fn copy(
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
    let (mut patches, patching) = patches.map_err(CopyError::Patches)?;
    let named: Vec<_> = bases
        .iter()
        .map(|one| (one.base.clone(), one.blobs.clone()))
        .collect();
    let Some(volume) = Volume::since_with(&opened.index, &named, &patches.sizes()) else {
        return Ok((bundle.copy(folder)?, None));
    };
    let file = folder.join(name(&bundle.file_name(), &volume, patching));
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

/// Whether `known` is of the bundle that a person named.
fn is(known: &BlobRecord, earlier: &Earlier) -> bool {
    match earlier {
        Earlier::Number(number) => known.number == *number,
        Earlier::Digest(digest) => known.index == *digest || known.file == *digest,
        Earlier::File(_) => false,
    }
}

/// What an earlier bundle of the stream had.
fn find(
    fleet: &Fleet,
    bundle: &KeptBundle,
    index: &Index,
    earlier: &Earlier,
    trust: (&[u8], Timestamp),
) -> Result<BlobRecord, CopyError> {
    let (folder, role) = (fleet.folder(), bundle.role());
    if let Earlier::File(path) = earlier {
        return of_file(trust, bundle, path);
    }
    let current = BlobRecord::of(index, bundle.file());
    if is(&current, earlier) {
        return Ok(current);
    }
    let mut known = remembered(folder, role);
    let wanted = |number: &&u64| match earlier {
        Earlier::Number(wanted) => *number == wanted,
        _ => true,
    };
    let records = known.iter().filter(wanted);
    let mut records = records.filter_map(|number| BlobRecord::read(folder, role, *number));
    if let Some(found) = records.find(|found| is(found, earlier)) {
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
) -> Result<BlobRecord, CopyError> {
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
    Ok(BlobRecord::of(&found.index, digest))
}

/// `stage-press-7.since5.outhaul`, `stage-press-7.since3and5.outhaul`; where it has twins `stage-press-7.since5.twins.outhaul`, as both may be needed on
/// one medium: not every site takes the second.
fn name(bundle: &str, volume: &Volume, patching: Patching) -> String {
    let stem = bundle.strip_suffix(".outhaul").unwrap_or(bundle);
    let numbers: Vec<String> = volume
        .bases()
        .iter()
        .map(|base| base.number.to_string())
        .collect();
    let twins = match patching {
        Patching::Twins => ".twins",
        Patching::Exact | Patching::None => "",
    };
    format!("{stem}.since{}{twins}.outhaul", numbers.join("and"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_that_travel_as_twins_are_counted() {
        let travels = |how| Travels {
            name: "layer".to_owned(),
            blob: Digest::of(b"layer"),
            bytes: 9,
            how,
        };
        let why = || "it is zstd".to_owned();
        let left_out = LeftOut {
            numbers: vec![1],
            blobs: 0,
            bytes: 0,
            others: vec![
                travels(How::Twin {
                    bytes: 1,
                    why: why(),
                }),
                travels(How::Whole { why: why() }),
                travels(How::Twin {
                    bytes: 2,
                    why: why(),
                }),
            ],
        };
        assert_eq!(left_out.twins(), 2);
    }
}
