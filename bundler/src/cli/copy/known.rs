//! The reports that say what single sites have already, from where a person said that they are.
//!
//! What comes in: names of sites, and files or a hub. What goes out: what was read of their reports. It decides nothing, and writes nothing.

use std::path::{Path, PathBuf};

use outhaul_bundle::name::Name;
use outhaul_kit::suggest::nearest;
use outhaul_promote::HubConnection;
use outhaul_sites::{Seen, Sites};

use crate::cli::failure::Failure;
use crate::cli::say;

/// Most names beside a missing one that are compared with it.
const MAX_NAMES: usize = 10_000;

/// Where the reports of sites are.
#[derive(Debug, Clone, Copy)]
pub(super) enum ReportSource<'s> {
    /// Files, or folders that are looked through.
    Files(&'s [PathBuf]),
    /// A hub that has them.
    Hub(HubConnection<'s>),
}

/// What the reports of the sites `names` say.
pub(super) fn seen(
    sites: &Sites<'_>,
    names: &[Name],
    reports: ReportSource<'_>,
) -> Result<Seen, Failure> {
    let mut seen = Seen::default();
    match reports {
        ReportSource::Files(paths) => {
            for path in paths {
                let noted = sites.note_reports(path, &mut seen, &say);
                noted.map_err(|error| match beside(path) {
                    Some(near) => {
                        Failure::from(error).help(format!("did you mean `{}`?", near.display()))
                    }
                    None => Failure::from(error),
                })?;
            }
        }
        ReportSource::Hub(hub) => {
            for name in names {
                let mut fetch = |before| {
                    hub.reports(name.as_str(), before).map_err(|error| {
                        Failure::of(&error).help(
                            "nothing was written; `--reports FILE` takes them from the stick that came back",
                        )
                    })
                };
                sites.note_answers(hub.url, name, &mut seen, &say, &mut fetch)?;
            }
        }
    }
    Ok(seen)
}

/// Of a path that is missing, the one beside it with the most similar name.
fn beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name().filter(|_| !path.exists())?.to_str()?;
    let above = path
        .parent()
        .filter(|above| !above.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(above).ok()?.take(MAX_NAMES).flatten();
    let names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    Some(path.with_file_name(nearest(name, &names)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_path_has_a_nearest_one_and_one_that_is_there_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let reports = folder.path().join("reports");
        std::fs::create_dir(&reports).unwrap();
        assert_eq!(beside(&folder.path().join("report")), Some(reports.clone()));
        assert_eq!(beside(&reports), None);
        assert_eq!(beside(&folder.path().join("elsewhere-altogether")), None);
    }
}
