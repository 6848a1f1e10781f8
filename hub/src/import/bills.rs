//! Bills of materials, and statements about exploitability that bundles carry, which come as files.
//!
//! What comes in: a file named like one. What goes out: what became of it, in the counts of the import. One that no bundle on record
//! lists is refused by name.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use outhaul_kit::durable;

use super::{Imported, RefusedFile};
use crate::error::HubError;
use crate::materials::{self, Bill, MAX_BILL_BYTES};
use crate::state::Hub;

/// One that a bundle lists: of a sealed bundle it comes as a file only.
pub(super) fn import(
    hub: &mut Hub,
    path: &Path,
    file: File,
    done: &mut Imported,
    now_ms: i64,
) -> Result<(), HubError> {
    let mut bytes = Vec::new();
    file.take(MAX_BILL_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(durable::at("read", path))?;
    let refused = match materials::take_file(&mut hub.store, &bytes, now_ms)? {
        Bill::New => {
            done.materials += 1;
            return Ok(());
        }
        Bill::Known => {
            done.known_materials += 1;
            return Ok(());
        }
        Bill::NotListed => (
            "not-listed",
            match path.to_string_lossy().to_ascii_lowercase().ends_with(outhaul_vex::ENDING) {
                true => "no bundle on record lists these statements: import the bundle first; those that no bundle carries are for \
                         `outhaul-hub advisories import`".to_owned(),
                false => "no bundle on record lists this bill of materials: import the bundle first".to_owned(),
            },
        ),
        Bill::Unreadable(why) => ("unreadable", why),
    };
    let refused = RefusedFile::whole(path, refused.0, refused.1, false);
    done.refused.push(refused);
    Ok(())
}
