//! What is worth a note after bundles were made: a folder that is new, and settings that had no effect. For commands and the service.
//!
//! What comes in: what was asked for, and what was made. What goes out: lines that begin with `note:`. It prints nothing.

use std::path::Path;

use outhaul_load::pipeline::Platform;
use outhaul_load::program::Programs;
use outhaul_ship::stream::Production;

use crate::registries::Registries;

/// The notes. `new_folder` is the folder for published bundles where it was not there before.
pub(crate) fn after_bundles(
    platform: &Platform,
    images: &Registries,
    scanners: &Programs,
    new_folder: Option<&Path>,
    production: &Production,
) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(folder) = new_folder.filter(|folder| folder.is_dir()) {
        notes.push(format!(
            "note: `{}` was not there, and was made for what is published",
            folder.display()
        ));
    }
    let was_collected = production.streams.iter().any(|stream| stream.changed);
    let unused = images.unused(was_collected).into_iter();
    let scanners = outhaul_check::unused_scanners(&platform.control_plane, scanners);
    // The service would repeat it in each round otherwise.
    let scanners = scanners.into_iter().filter(|_| was_collected);
    notes.extend(
        unused
            .chain(scanners)
            .map(|unused| format!("note: {unused}")),
    );
    notes
}
