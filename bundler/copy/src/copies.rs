//! The same bundle once more, for another stick: from the fleet's own copies, without a control plane or a key.
//!
//! What comes in: a fleet, which of its streams, and a folder that is there. What goes out: each stream's last bundle
//! in it, byte for byte as it was signed, read back from the medium. What is there already and whole is left as it is. Each blob of both is
//! compared with the signed index, in the one reading that either needs.
//! It makes no bundle, uses no number, and hands out no copy that was changed.

use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::volume::VolumeError;
use outhaul_parity::ParityError;
use outhaul_signer::durable::FileError;
use outhaul_signer::fleet::{Fleet, FleetError, StreamSettings};

use outhaul_attest::inspect::InspectError;
use outhaul_ship::deliver::{self, DeliverError};
use outhaul_ship::stream::shelf::{self, Signed, StoredBundle};
use outhaul_sites::acknowledged::AcknowledgedError;

/// A bundle that the fleet keeps.
#[derive(Debug, Clone)]
pub struct KeptBundle {
    /// Its environment.
    pub environment: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// Its number.
    pub number: u64,
    role: String,
    path: PathBuf,
    file: Digest,
    signed: Signed,
}

/// What became of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The file on the medium.
    pub file: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Whether it was written now; else it was there already.
    pub written: bool,
}

/// Why a bundle is not cut, without a size that works: the one that works for all that is copied is in the help, and a bundle may be
/// smaller whole than its largest blob is in a part.
fn not_cut(error: &VolumeError) -> String {
    match error {
        VolumeError::TooSmall { max, .. } => {
            format!("a part of at most {max} bytes is too small: a blob is never parted")
        }
        error => error.to_string(),
    }
}

/// Why a bundle was not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// It was not written.
    #[error(transparent)]
    Deliver(#[from] DeliverError),
    /// The fleet has no such bundle.
    #[error("the fleet in `{}` keeps no bundle{of}", fleet.display())]
    Nothing {
        /// The fleet's folder.
        fleet: PathBuf,
        /// Of what.
        of: String,
        /// What it keeps.
        kept: Vec<String>,
        /// The name that it has nothing of, and those that it could have been.
        wanted: Option<(String, Vec<String>)>,
    },
    /// It cannot be cut as it was asked for.
    #[error("{stream}, number {number}: {}; no part was begun", not_cut(error))]
    Cut {
        /// Environment and cluster type.
        stream: String,
        /// Its number.
        number: u64,
        /// Why.
        error: VolumeError,
        /// The smallest size that works for it and for all that is copied with it.
        least: u64,
    },
    /// It has no part of that number.
    #[error(
        "{stream}, number {number} has {parts} parts of that size, there is no part {part}; no part was begun"
    )]
    NoPart {
        /// Environment and cluster type.
        stream: String,
        /// Its number.
        number: u64,
        /// The part that was asked for.
        part: usize,
        /// How many there are.
        parts: usize,
    },
    /// It has no parity part of that number.
    #[error(
        "{stream}, number {number} gets {of} parity parts, there is no parity part {part}; no part was begun"
    )]
    NoParityPart {
        /// Environment and cluster type.
        stream: String,
        /// Its number.
        number: u64,
        /// The parity part that was asked for.
        part: usize,
        /// How many there are.
        of: usize,
    },
    /// Not all parts fit.
    #[error(
        "the parts of {stream}, number {number} need {bytes} bytes, and {free} bytes are free in `{}`; no part was begun",
        folder.display()
    )]
    Parts {
        /// Environment and cluster type.
        stream: String,
        /// Its number.
        number: u64,
        /// The medium.
        folder: PathBuf,
        /// What they need.
        bytes: u64,
        /// What is free.
        free: u64,
        /// The first ones, which fit.
        fit: Vec<usize>,
    },
    /// It is not known what an earlier bundle has.
    #[error(
        "what bundle {base} of {stream} has is not known here, so that number {number} cannot be copied without it"
    )]
    NoBase {
        /// Environment and cluster type.
        stream: String,
        /// Its number.
        number: u64,
        /// What was asked for.
        base: String,
        /// The numbers that are known.
        known: Vec<u64>,
    },
    /// The file that was given as an earlier bundle is not of the stream.
    #[error("`{}` is a bundle of {found}, not of {stream}", path.display())]
    OtherStream {
        /// The file.
        path: PathBuf,
        /// Environment and cluster type that are copied.
        stream: String,
        /// Those of the file.
        found: String,
    },
    /// The file that was given as an earlier bundle is not to be accepted.
    #[error("`{}`, given as an earlier bundle, cannot be used", path.display())]
    BaseFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<InspectError>,
    },
    /// More earlier bundles than one copy names.
    #[error("{count} earlier bundles were named, and one copy names at most {max}")]
    ManyBases {
        /// How many.
        count: usize,
        /// The most.
        max: usize,
    },
    /// Patches could not be made.
    #[error("what differs from the earlier bundle could not be written down")]
    Patches(#[source] std::io::Error),
    /// The fleet's copy cannot be read as a bundle.
    #[error("the fleet's copy of {stream}, number {number} cannot be read")]
    Read {
        /// Environment and cluster type.
        stream: String,
        /// Its number.
        number: u64,
        /// Why.
        source: Box<InspectError>,
    },
    /// No parity could be made of the fleet's copy.
    #[error(
        "no parity was made of the fleet's copy of {stream}, number {number}; no parity part was written, parts that were written are whole"
    )]
    Parity {
        /// Environment and cluster type.
        stream: String,
        /// Its number.
        number: u64,
        /// Why.
        source: ParityError,
    },
    /// The fleet keeps no bundle of what it has signed.
    #[error(
        "number {number} of {stream} was signed last, and the fleet keeps no copy of its bundle; no copy of an older one was begun"
    )]
    NotKept {
        /// Environment and cluster type.
        stream: String,
        /// Its number.
        number: u64,
    },
    /// What the fleet keeps of a stream is not known.
    #[error(
        "which bundle of {stream} the fleet keeps cannot be determined; no copy of it was begun"
    )]
    Record {
        /// Environment and cluster type.
        stream: String,
        /// Why.
        source: FileError,
    },
    /// For the sites that were named nothing can be copied.
    #[error(transparent)]
    Sites(#[from] AcknowledgedError),
    /// What the fleet has signed cannot be known.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// The fleet's copy is not what was signed.
    #[error("the fleet's copy of {stream}, number {number} (`{}`), is gone or was changed; no copy of it was begun", path.display())]
    Changed {
        /// Environment and cluster type.
        stream: String,
        /// Its number.
        number: u64,
        /// The file.
        path: PathBuf,
    },
}

impl CopyError {
    /// Whether it is about what the fleet keeps of one stream, and not about the medium or what was asked for.
    pub(crate) fn is_of_the_fleets_copy(&self) -> bool {
        matches!(self, Self::Changed { .. } | Self::Read { .. })
    }
}

impl KeptBundle {
    /// `environment/cluster type`.
    pub fn stream(&self) -> String {
        format!("{}/{}", self.environment, self.cluster_type)
    }

    /// The name that it has on a stick.
    pub fn file_name(&self) -> String {
        shelf::file_name(&self.environment, &self.cluster_type, self.number)
    }

    /// Puts it into `folder`.
    ///
    /// # Errors
    /// [`CopyError`]; what lay there under its name is then as it was, or gone when the medium gave back other bytes.
    pub fn copy(&self, folder: &Path) -> Result<Copied, CopyError> {
        let file = folder.join(self.file_name());
        let there = self.signed.there(&file);
        if let Some((_, bytes)) = there.filter(|(digest, _)| *digest == self.file) {
            return Ok(Copied {
                file,
                bytes,
                written: false,
            });
        }
        self.check()?;
        let (_, bytes) = deliver::copy_verified(&self.path, &file, self.file)?;
        Ok(Copied {
            file,
            bytes,
            written: true,
        })
    }

    /// The role of its stream.
    pub fn role(&self) -> &str {
        &self.role
    }

    /// The digest of its file.
    pub(super) fn file(&self) -> Digest {
        self.file
    }

    /// Where the fleet keeps it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sees that the fleet's copy is what was signed, each blob of it, and the file that is on record.
    ///
    /// # Errors
    /// [`CopyError::Changed`]
    pub(super) fn check(&self) -> Result<(), CopyError> {
        if self.signed.file(&self.path) == Some(self.file) {
            return Ok(());
        }
        Err(CopyError::Changed {
            stream: self.stream(),
            number: self.number,
            path: self.path.clone(),
        })
    }
}

/// What the fleet keeps, and what it has signed and lost.
#[derive(Debug)]
pub struct Kept {
    /// The last bundle of each stream, in order.
    pub bundles: Vec<KeptBundle>,
    /// Why there is none of a stream.
    pub lost: Vec<CopyError>,
}

/// As [`kept_or_lost`], where each stream is needed.
///
/// # Errors
/// As there, and that of the first stream whose bundle is lost.
pub fn kept(
    fleet: &Fleet,
    environment: Option<&str>,
    cluster_types: &[String],
) -> Result<Vec<KeptBundle>, CopyError> {
    let kept = kept_or_lost(fleet, environment, cluster_types)?;
    match kept.lost.into_iter().next() {
        Some(lost) => Err(lost),
        None => Ok(kept.bundles),
    }
}

/// The bundle of a stream that was signed last; `None` when none ever was.
fn last_of(
    fleet: &Fleet,
    role: &str,
    stream: &StreamSettings,
) -> Result<Option<KeptBundle>, CopyError> {
    let name = format!("{}/{}", stream.environment, stream.cluster_type);
    let kept = StoredBundle::read(fleet.folder(), role);
    let kept = kept.map_err(|source| CopyError::Record {
        stream: name.clone(),
        source,
    })?;
    let Some(latest) = fleet.latest(role)? else {
        return Ok(None);
    };
    // What is written beside the bundle is not signed, and may be of one before after a power cut.
    let Some(kept) = kept.filter(|kept| kept.number() == latest.number) else {
        return Err(CopyError::NotKept {
            stream: name,
            number: latest.number,
        });
    };
    let path = shelf::bundle(fleet.folder(), role, latest.number);
    let index = shelf::index_of(&path).map(|index| Digest::of(&index.to_bytes()));
    if index.is_none_or(|index| *index.as_bytes() != latest.index) {
        return Err(CopyError::Changed {
            stream: name,
            number: latest.number,
            path,
        });
    }
    Ok(Some(KeptBundle {
        environment: stream.environment.clone(),
        cluster_type: stream.cluster_type.clone(),
        number: latest.number,
        role: role.to_owned(),
        path,
        file: kept.file(),
        signed: Signed::of(fleet, &latest)?,
    }))
}

/// What the fleet keeps of `environment` and of `cluster_types`; of all where nothing is said. Of a stream that has lost its last
/// bundle no earlier one takes its place.
///
/// # Errors
/// [`CopyError::Nothing`] when there is none, or none of a cluster type that was named.
pub fn kept_or_lost(
    fleet: &Fleet,
    environment: Option<&str>,
    cluster_types: &[String],
) -> Result<Kept, CopyError> {
    let is_wanted = |name: &String| cluster_types.is_empty() || cluster_types.contains(name);
    let mut all: Vec<KeptBundle> = Vec::new();
    let mut lost = Vec::new();
    for (role, stream) in fleet.streams() {
        let is_here = environment.is_none_or(|wanted| wanted == stream.environment);
        match last_of(fleet, role, stream) {
            Ok(kept) => all.extend(kept),
            Err(CopyError::Fleet(error)) => return Err(error.into()),
            Err(error) if is_here && is_wanted(&stream.cluster_type) => {
                lost.push((&stream.cluster_type, error));
            }
            Err(_) => {}
        }
    }
    all.sort_by_key(KeptBundle::file_name);
    let known: Vec<String> = all.iter().map(KeptBundle::stream).collect();
    let names =
        |name: fn(&KeptBundle) -> &String| all.iter().map(name).cloned().collect::<Vec<_>>();
    let environments = names(|one| &one.environment);
    let all_types = names(|one| &one.cluster_type);
    let nothing = |of: String, wanted: Option<(String, Vec<String>)>| CopyError::Nothing {
        fleet: fleet.folder().to_owned(),
        of,
        kept: known.clone(),
        wanted,
    };
    all.retain(|one| environment.is_none_or(|wanted| wanted == one.environment));
    let of = environment.map_or_else(String::new, |name| format!(" of environment `{name}`"));
    let is_there = |name: &&String| {
        !all.iter().any(|one| one.cluster_type == **name)
            && !lost.iter().any(|(lost, _)| *lost == *name)
    };
    if let Some(missing) = cluster_types.iter().find(is_there) {
        let wanted = match environment.filter(|_| all.is_empty()) {
            Some(name) => (name.to_owned(), environments),
            None => (missing.clone(), all_types),
        };
        return Err(nothing(
            format!("{of} of cluster type `{missing}`"),
            Some(wanted),
        ));
    }
    if all.is_empty() && lost.is_empty() {
        let wanted = environment.map(|name| (name.to_owned(), environments));
        return Err(nothing(of, wanted));
    }
    all.retain(|one| is_wanted(&one.cluster_type));
    Ok(Kept {
        bundles: all,
        lost: lost.into_iter().map(|(_, error)| error).collect(),
    })
}
