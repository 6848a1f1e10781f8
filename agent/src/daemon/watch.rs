//! Which watched places have something new: folders of `agent.toml`, and what is mounted below them.
//!
//! What comes in: the folders, the kernel's table of mounts, and what lay there the last time. What goes
//! out: the places whose bundles, slips or acknowledgements changed, and mounts that are new. It reads
//! what the file system says of files, never their content; what is new is verified by the intake.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use outhaul_kit::media::{self as kit_media, FileOrFolder, Marks};
use outhaul_kit::mounts;

use crate::durable::{self, FileError};
use crate::intake::media;
use crate::state::SiteIdentity;

/// What lay in a place: the marks of each file that could matter.
type Print = Vec<(PathBuf, Marks)>;

/// What was seen.
#[derive(Debug, Default)]
pub struct Watch {
    seen: BTreeMap<PathBuf, Print>,
    /// Watched folders that could not be read, as it was logged.
    troubled: BTreeMap<PathBuf, String>,
}

impl Watch {
    /// Places that changed since the last call; of acknowledgements, those for this site count.
    pub fn changed(&mut self, folders: &[PathBuf], site: &SiteIdentity) -> Vec<PathBuf> {
        let mounts = mounts::below(folders);
        let mut places: BTreeSet<PathBuf> = folders.iter().cloned().collect();
        places.extend(mounts.iter().cloned());
        // A stick that was pulled and comes back is new again.
        self.seen.retain(|place, _| places.contains(place));
        self.troubled.retain(|place, _| places.contains(place));
        let mut changed = Vec::new();
        for place in places {
            let print = match print(&place, &mounts, site) {
                Ok(print) => {
                    self.troubled.remove(&place);
                    print
                }
                Err(error) => {
                    self.trouble(&place, &error);
                    Print::new()
                }
            };
            let before = self.seen.insert(place.clone(), print.clone());
            // A stick with nothing on it for this site is reported, too.
            let is_new_mount = before.is_none() && mounts.contains(&place);
            if is_new_mount || (before.as_ref() != Some(&print) && !print.is_empty()) {
                changed.push(place);
            }
        }
        changed
    }

    /// The places that were there at the last look.
    pub fn places(&self) -> Vec<PathBuf> {
        self.seen.keys().cloned().collect()
    }

    /// One line in the log for as long as it stays the same.
    fn trouble(&mut self, place: &Path, error: &FileError) {
        let reported = error.to_string();
        if self.troubled.get(place) != Some(&reported) {
            tracing::warn!("watched folder: {reported}; {}", error.help());
            self.troubled.insert(place.to_owned(), reported);
        }
    }
}

fn print(place: &Path, mounts: &[PathBuf], site: &SiteIdentity) -> Result<Print, FileError> {
    let media = match FileOrFolder::open(place)? {
        // Each stick below it is a place by itself.
        FileOrFolder::Folder(media) => media.without(mounts),
        FileOrFolder::File(file) => {
            let marks = kit_media::marks(&file).map_err(durable::at("look at", place))?;
            return Ok(vec![(place.to_owned(), marks)]);
        }
    };
    let found = media::bundles(&media, site)?;
    let acks = media::acks_of(site.name.as_str());
    let files = found.files.into_iter().chain([acks]);
    let mut print: Print = files
        .filter_map(|file| media.marks(&file).map(|marks| (file, marks)))
        .collect();
    // What cannot be used is reported once, too.
    let unusable = found.unusable.into_iter();
    print.extend(unusable.map(|error| (error.path, Marks::default())));
    Ok(print)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn site() -> SiteIdentity {
        serde_json::from_value(serde_json::json!({
            "fleet": "acme", "name": "drone-7", "epoch": "e1", "hub_url": "", "hub_key": "",
            "stream": { "role": "s-1", "environment": "dev", "cluster_type": "drone" },
        }))
        .unwrap()
    }

    #[test]
    fn a_place_is_new_once_and_again_when_a_file_changes() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().to_path_buf()];
        let mut watch = Watch::default();
        assert!(
            watch.changed(&folders, &site()).is_empty(),
            "an empty folder brings nothing"
        );
        durable::write(&folder.path().join("a.outhaul"), b"1", 0o600).unwrap();
        assert_eq!(watch.changed(&folders, &site()), folders);
        assert!(watch.changed(&folders, &site()).is_empty());
        durable::write(&folder.path().join("a.outhaul"), b"12", 0o600).unwrap();
        assert_eq!(watch.changed(&folders, &site()), folders);
    }

    #[test]
    fn a_watched_folder_that_is_not_there_is_said_once() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("wacth");
        let mut watch = Watch::default();
        for _ in 0..2 {
            assert!(
                watch
                    .changed(std::slice::from_ref(&gone), &site())
                    .is_empty()
            );
            let said: Vec<_> = watch.troubled.keys().collect();
            assert_eq!(said, [&gone]);
        }
        std::fs::create_dir(&gone).unwrap();
        watch.changed(std::slice::from_ref(&gone), &site());
        assert!(watch.troubled.is_empty());
    }

    #[test]
    fn a_file_replaced_by_one_of_the_same_size_and_modification_time_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().to_path_buf()];
        let path = folder.path().join("a.slip");
        let written_at = |bytes: &[u8]| {
            durable::write(&path, bytes, 0o600).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        };
        let mut watch = Watch::default();
        let changed = || {
            let meta = std::fs::metadata(&path).unwrap();
            (meta.ctime(), meta.ctime_nsec())
        };
        written_at(b"one");
        assert_eq!(watch.changed(&folders, &site()), folders);
        let before = changed();
        // The kernel's clock for files has steps of some milliseconds.
        while changed() == before {
            written_at(b"two");
        }
        assert_eq!(watch.changed(&folders, &site()), folders);
        assert!(watch.changed(&folders, &site()).is_empty());
    }
}
