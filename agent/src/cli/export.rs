//! `export`: reports onto a stick.

use outhaul_kit::belongs::{Owner, owner_of, resolved};
use outhaul_kit::console;
use outhaul_kit::mounts;
use outhaul_kit::text::json_path;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Context;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::report;

/// Writes all reports that the hub has not acknowledged into FOLDER/reports.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent export /media/stick"
)]
pub struct Args {
    /// A folder, such as the mount point of a stick.
    folder: PathBuf,
}

/// Where sticks are mounted.
const MOUNTED: [&str; 3] = ["/media", "/mnt", "/run/media"];

/// Refuses a folder where sticks are mounted, when no stick is: what is written there would lie on this machine's own disk, and
/// whoever carries the stick home carries nothing. Where the system does not say what is mounted, nothing is refused.
fn refuse_without_stick(folder: &Path, state: &Path) -> Result<(), AgentError> {
    // A folder that is not there is reported by whoever writes to it.
    let Ok(whole) = folder.canonicalize() else {
        return Ok(());
    };
    let points: Vec<PathBuf> = mounts::all().into_iter().map(|mount| mount.point).collect();
    let is_what = match mounted_from_disk(&whole, state) {
        Some(folder) => format!("`{}`, ", outhaul_kit::text::path(&folder)),
        None if points.is_empty() || !lacks_stick(&whole, &points) => return Ok(()),
        None => String::new(),
    };
    let typed = outhaul_kit::text::quoted(folder);
    let folder = outhaul_kit::text::path(folder);
    Err(AgentError::Usage {
        message: format!(
            "no stick is mounted at `{folder}`: it is {is_what}a folder on this machine's own disk; nothing was written, and the reports \
             wait"
        ),
        help: format!(
            "plug the stick in, mount it (`findmnt {typed}` then shows it) and repeat the command; or name a folder \
             elsewhere, and carry what is in it"
        ),
    })
}

/// Refuses the site's own folder: whoever removes it as a stick removes the site.
fn refuse_own(folder: &Path, state: &Path) -> Result<(), AgentError> {
    match (folder.canonicalize(), state.canonicalize()) {
        (Ok(whole), Ok(state)) if whole.starts_with(&state) => Err(AgentError::Usage {
            message: format!(
                "`{}` is in this site's own folder and on no stick; nothing was written, and the reports wait",
                outhaul_kit::text::path(folder)
            ),
            help: "name the folder where the stick is mounted, or a new one elsewhere".into(),
        }),
        _ => Ok(()),
    }
}

/// Refuses a folder that is someone else's, by what lies in it: a stick is none of these, and they are not carried.
fn refuse_others(folder: &Path) -> Result<(), AgentError> {
    let Some((owner, above)) = owner_of(folder, &Owner::ALL) else {
        return Ok(());
    };
    Err(AgentError::Usage {
        message: format!(
            "`{}` is in {}, `{}`, and on no stick; nothing was written, and the reports wait",
            outhaul_kit::text::path(folder),
            owner.name(),
            outhaul_kit::text::path(&above)
        ),
        help: "name the folder where the stick is mounted, or a new one elsewhere".into(),
    })
}

/// The folder of this machine's own disk that `folder` is, where it is mounted at a place for sticks, too.
fn mounted_from_disk(folder: &Path, state: &Path) -> Option<PathBuf> {
    place_of_sticks(folder)?;
    let disk = |path: &Path| path.metadata().ok().map(|found| found.dev());
    let is_own = [state, Path::new("/")].map(disk).contains(&disk(folder));
    let mut names = mounts::other_names(folder).into_iter();
    names.find(|name| is_own && place_of_sticks(name).is_none())
}

/// Of the places where sticks are mounted, the one that `folder` is in.
fn place_of_sticks(folder: &Path) -> Option<&'static str> {
    MOUNTED.into_iter().find(|place| folder.starts_with(place))
}

/// Whether `folder` is where sticks are mounted, and none of the mounts at `points` is there or between.
fn lacks_stick(folder: &Path, points: &[PathBuf]) -> bool {
    let Some(place) = place_of_sticks(folder) else {
        return false;
    };
    let is_between = |point: &PathBuf| point.starts_with(place) && folder.starts_with(point);
    !points.iter().any(is_between)
}

/// Exit code where something could not be exported.
const REFUSED: u8 = 1;
/// What to do about a file of saved reports that cannot be read.
const UNREAD: &str = "copy that file onto the stick, as far as it can be read, and move it out of the state folder; all other reports are exported";

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    refuse_without_stick(&args.folder, &context.state)?;
    refuse_own(&args.folder, &context.state)?;
    refuse_others(&args.folder)?;
    // A link to a stick is one more name of it.
    outhaul_place::refuse_folder(&resolved(&args.folder))?;
    let exported = report::export(&mut Agent::open(&context.state)?, &args.folder)?;
    let count = exported.reports + exported.former;
    let reports = if count == 1 { "report" } else { "reports" };
    let mut lines = vec![format!("{count} {reports} exported")];
    lines.extend(
        exported
            .files
            .iter()
            .chain(&exported.request)
            .map(|f| format!("  {}", f.display())),
    );
    if exported.former > 0 {
        super::say(&format!(
            "{} of these are of a former database of this site, which was removed; {}",
            exported.former,
            report::former::ACCEPTED
        ));
    }
    for unread in &exported.unread {
        super::say(&format!("not exported: {unread}"));
        console::note_failure(
            REFUSED,
            &format!("error: not exported: {unread}\nhelp: {UNREAD}"),
        );
    }
    let folder = outhaul_kit::text::path(&args.folder);
    super::say(&if count == 0 {
        format!("no report waits for the hub; `{folder}` is safe to remove now")
    } else {
        format!(
            "they stay here until the hub's acknowledgement comes back on a stick or over the network; \
             `{folder}` is safe to remove now"
        )
    });
    let paths = |paths: &[PathBuf]| paths.iter().map(|path| json_path(path)).collect::<Vec<_>>();
    context.print(
        &lines.join("\n"),
        &serde_json::json!({
            "reports": exported.reports, "former_reports": exported.former, "unread": exported.unread, "files": paths(&exported.files),
            "request": exported.request.as_deref().map(json_path),
        }),
    );
    Ok(if exported.unread.is_empty() {
        0
    } else {
        REFUSED
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTS: [&str; 3] = ["/", "/media/ann/MY STICK", "/mnt"];

    #[test]
    fn a_mount_point_without_a_stick_is_known_and_other_folders_are_not_refused() {
        let lacks = |folder: &str| lacks_stick(Path::new(folder), &POINTS.map(PathBuf::from));
        for folder in [
            "/media/stick",
            "/media",
            "/media/ann",
            "/run/media/ann/stick",
        ] {
            assert!(lacks(folder), "{folder}");
        }
        for folder in [
            "/media/ann/MY STICK",
            "/media/ann/MY STICK/a",
            "/mnt",
            "/mnt/site",
            "/srv/out",
        ] {
            assert!(!lacks(folder), "{folder}");
        }
        let elsewhere = tempfile::tempdir().unwrap();
        assert!(refuse_without_stick(elsewhere.path(), elsewhere.path()).is_ok());
        assert!(refuse_without_stick(&elsewhere.path().join("none"), elsewhere.path()).is_ok());
    }
}
