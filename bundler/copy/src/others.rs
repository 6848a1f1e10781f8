//! Bundles that lie where bundles were copied to, and are not of this fleet or not whole.
//!
//! What comes in: the fleet, the medium, and what was written to it. What goes out: each other file there that is called a
//! bundle and does not verify. A site refuses it as well; whoever carries the stick reads here that it is there. Nothing is removed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use outhaul_attest::inspect;
use outhaul_kit::media::{Bounds, Media, is_named};
use outhaul_kit::text;
use outhaul_ship::deliver::DeliverError;
use outhaul_signer::fleet::Fleet;

use crate::copies::CopyError;

/// What is looked at on a medium.
const BOUNDS: Bounds = Bounds {
    depth: 3,
    entries: 10_000,
    kept: 100,
};

/// Other bundles of a medium.
#[derive(Debug)]
pub struct OtherBundles {
    /// Those that do not verify, and why.
    pub unverified: Vec<(PathBuf, String)>,
    /// Whether the medium holds more than was looked at.
    pub incomplete: bool,
}

/// The bundles on `media` that are none of `written` and do not verify by the root of `fleet`, at `now`.
///
/// # Errors
/// [`CopyError`] when the fleet's root or the medium cannot be read.
pub fn others(
    fleet: &Fleet,
    media: &Media,
    written: &BTreeSet<&Path>,
    now: Timestamp,
) -> Result<OtherBundles, CopyError> {
    let root = fleet.newest_root_bytes()?;
    let is_bundle = |name: &OsStr| is_named(Path::new(name), "outhaul");
    let found = media.files(BOUNDS, is_bundle).map_err(DeliverError::from)?;
    let mut unverified = Vec::new();
    for file in &found.files {
        let path = media.path().join(file);
        if written.contains(path.as_path()) {
            continue;
        }
        let opened = media.open_file(file).map_err(|error| error.to_string());
        let problem = match opened {
            Ok(None) => continue,
            Ok(Some(file)) => match inspect::inspect(file, Some(&root), now) {
                Ok(_) => continue,
                Err(error) => text::chain(&error),
            },
            Err(problem) => problem,
        };
        unverified.push((path, problem));
    }
    Ok(OtherBundles {
        unverified,
        incomplete: found.incomplete,
    })
}
