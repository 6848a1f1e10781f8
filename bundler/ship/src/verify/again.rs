//! The commits of a bundle rendered and collected again, and compared with it.
//!
//! What comes in: the bundle's index, and the platform that its snapshot renders to now. What goes out: every difference. Payloads are
//! collected into a temporary folder, which is removed; nothing else is written.

use std::collections::BTreeMap;
use std::path::Path;

use outhaul_bundle::Index;
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_load::pipeline::Platform;
use outhaul_plane::delivery;

use super::{ContentDifference, differences, unread_sources};
use crate::assemble::{Spool, SpoolError};
use crate::collect::{CollectError, Collector, ImageSource};
use crate::stream;

/// Why a bundle could not be compared with its commits. It says nothing about the bundle.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The temporary folder failed.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// A payload cannot be collected.
    #[error(transparent)]
    Collect(#[from] CollectError),
}

impl Classified for CompareError {
    fn class(&self) -> FailureClass {
        FailureClass::Environment
    }

    fn help(&self) -> Option<String> {
        match self {
            Self::Spool(error) => Some(error.help()),
            Self::Collect(_) => None,
        }
    }
}

/// Compares the bundle with `platform`, which its snapshot renders to now, and with the payloads that its commits have. `images` brings the
/// files that workloads list; the payloads are below the folder `temporary` for as long as this runs.
///
/// # Errors
/// [`CompareError`]
pub fn with_commits(
    index: &Index,
    platform: &Platform,
    images: &dyn ImageSource,
    temporary: &Path,
) -> Result<Vec<ContentDifference>, CompareError> {
    let cluster_type = index.stream.cluster_type.as_str();
    let rendering = &platform.rendering;
    let Some(group) = rendering.cluster_types.get(cluster_type) else {
        return Ok(vec![ContentDifference {
            path: format!("cluster type {cluster_type}"),
            what: "only in the bundle",
        }]);
    };
    let mut sources = platform.sources.clone();
    for source in &index.snapshot.workloads {
        sources.pin(&source.name, &source.repo, &source.commit);
    }
    let plane = &platform.control_plane;
    let cluster_type = plane.cluster_types.get(cluster_type);
    let delivery = cluster_type.and_then(|one| delivery::of(plane, one).ok());
    let mut spool = Spool::new(temporary)?;
    let mut collector = Collector::new(&sources, &platform.cache).with_files(images);
    collector.carry(&delivery.unwrap_or_default());
    let payloads = collector.collect(&group.assignments, &BTreeMap::new(), &mut spool)?;
    let mut found = differences(index, &group.assignments, &payloads);
    let now = stream::with_payloads(&rendering.snapshot, payloads.sources);
    found.extend(unread_sources(&index.snapshot, &now));
    Ok(found)
}
