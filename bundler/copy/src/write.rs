//! Copies that were planned, written to a medium one after the other.
//!
//! What comes in: the plan and the medium. What goes out: what came of each copy, as soon as it is on the medium and may be pulled out with it,
//! and all of it at the end. A bundle that the fleet has lost or that was changed there stops none of the others. Each file is written beside
//! its place, read back and renamed; what is there already and whole is left as it is. It prints nothing.

use std::path::Path;

use outhaul_kit::interrupt;
use outhaul_kit::media::Media;
use outhaul_ship::deliver::DeliverError;

use crate::copies::{Copied, CopyError, KeptBundle};
use crate::patches::Patching;
use crate::plan::{CopyStep, PlannedCopy};
use crate::since::{self, LeftOut};
use crate::volumes::{self, Cut};

/// A file that is on the medium.
#[derive(Debug, Clone)]
pub struct FinishedCopy {
    /// The bundle that it is of.
    pub bundle: KeptBundle,
    /// The file.
    pub copied: Copied,
    /// What it leaves out; `None` for a whole bundle or a part of it.
    pub left_out: Option<LeftOut>,
    /// Whether something was to be left out.
    pub is_since: bool,
}

/// What came of one step.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Nothing was copied: the sites have this bundle.
    UpToDate(&'a KeptBundle),
    /// A file is there.
    Finished(&'a FinishedCopy),
}

/// What came of all copies.
#[derive(Debug, Default)]
pub struct Written {
    /// The files, in order.
    pub files: Vec<FinishedCopy>,
    /// Why streams have none.
    pub lost: Vec<CopyError>,
}

/// Writes `copies` to `media`: whole bundles in parts where there is a `cut`, patches as `patching` says. `each` gets what came of each.
/// The caller holds [`interrupt::parts`] until it has said what was written, so that an interruption names the finished files until then.
///
/// # Errors
/// [`CopyError`]: the files that `each` got are whole, and stay.
pub fn write(
    copies: &[PlannedCopy],
    media: &Media,
    cut: Option<Cut<'_>>,
    patching: Patching,
    each: &mut dyn FnMut(Progress<'_>),
) -> Result<Written, CopyError> {
    if let Some(cut) = cut {
        volumes::check(copies.iter().map(|one| &one.bundle), cut)?;
    }
    let mut written = Written::default();
    for PlannedCopy { bundle, step } in copies {
        let folder = media.path();
        let files = match step {
            CopyStep::UpToDate => {
                each(Progress::UpToDate(bundle));
                continue;
            }
            CopyStep::Since(bases) => {
                since::copy(bundle, folder, bases, patching).map(|one| vec![one])
            }
            CopyStep::Whole => whole(bundle, folder, cut),
        };
        let files = match files {
            // The others are none the worse for it.
            Err(error) if error.is_of_the_fleets_copy() => {
                written.lost.push(error);
                continue;
            }
            files => files?,
        };
        // Only what stays when the stick is pulled is named when the work is interrupted.
        let _whole = interrupt::finishing();
        media.sync().map_err(DeliverError::from)?;
        for (copied, left_out) in files {
            let finished = FinishedCopy {
                bundle: bundle.clone(),
                copied,
                left_out,
                is_since: matches!(step, CopyStep::Since(_)),
            };
            each(Progress::Finished(&finished));
            interrupt::finished(format!(
                "{}: number {}, `{}`",
                bundle.stream(),
                bundle.number,
                finished.copied.file.display()
            ));
            written.files.push(finished);
        }
    }
    Ok(written)
}

/// All of a bundle, in one file or cut.
fn whole(
    bundle: &KeptBundle,
    folder: &Path,
    cut: Option<Cut<'_>>,
) -> Result<Vec<(Copied, Option<LeftOut>)>, CopyError> {
    let copied = match cut {
        Some(cut) => volumes::copy(bundle, folder, cut)?,
        None => vec![bundle.copy(folder)?],
    };
    Ok(copied.into_iter().map(|copied| (copied, None)).collect())
}
