//! Bundles that lie where bundles were copied to, and are not of this fleet or not whole.
//!
//! What comes in: the fleet, the medium, and what was written to it. What goes out: a line for each other file there that is called a
//! bundle and does not verify. A site refuses it as well; whoever carries the stick reads here that it is there. Nothing is removed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use outhaul_attest::inspect;
use outhaul_kit::media::{Bounds, Media, is_named};
use outhaul_kit::text;
use outhaul_signer::fleet::Fleet;

use crate::cli::failure::Failure;
use crate::cli::key::fleet_failure;

/// What is looked at on a medium.
const BOUNDS: Bounds = Bounds {
    depth: 3,
    entries: 10_000,
    kept: 100,
};

/// A line for each bundle on `media` that is not one of `written` and does not verify by the root of `fleet`.
pub(super) fn unverified(
    fleet: &Fleet,
    media: &Media,
    written: &BTreeSet<&Path>,
) -> Result<Vec<String>, Failure> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the edge of the program: all below is given the time"
    )]
    let now = jiff::Timestamp::now();
    let root = fleet.newest_root_bytes().map_err(fleet_failure)?;
    let is_bundle = |name: &OsStr| is_named(Path::new(name), "outhaul");
    let found = media
        .files(BOUNDS, is_bundle)
        .map_err(|error| Failure::file(&error))?;
    let mut lines = Vec::new();
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
        lines.push(format!(
            "`{}` lies there as well, was not written now, and does not verify: {problem}",
            path.display()
        ));
    }
    if found.incomplete {
        lines.push(format!(
            "`{}` holds more than was read: what else lies there was not checked",
            media.path().display()
        ));
    }
    Ok(lines)
}
