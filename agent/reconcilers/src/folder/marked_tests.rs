//! Tests of looking at a folder by marks: what is not read, and what no mark hides.
//!
//! What comes in: a folder that was applied, marks, changes behind its back. What goes out: what the look reports.
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use outhaul_bundle::Digest;
use outhaul_bundle::report::{AssignmentResult, ComplianceStatus};
use outhaul_kit::heartbeat::Heartbeat;

use super::tests::Fixture;
use super::{Folder, Reconciler as _};
use crate::marks::{self, Stamp};

const FILES: &[(&str, &str)] = &[("a.yaml", "ours")];

/// A folder with one applied file, whose mark says that it was just read.
struct Marked {
    fixture: Fixture,
    file: PathBuf,
}

impl Marked {
    fn new() -> Self {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.apply(FILES).status, ComplianceStatus::Compliant);
        let file = fixture.target().join("app/a.yaml");
        let marked = Self { fixture, file };
        marked.mark();
        marked
    }

    fn mark(&self) {
        let stamp = Stamp::of(&fs::symlink_metadata(&self.file).unwrap());
        let files = [("app/a.yaml", Digest::of(b"ours"), stamp)];
        marks::forge(&self.fixture.marks(), "folder-app", &files);
    }

    fn looked(&self, full_read: Duration) -> AssignmentResult {
        Folder::new(self.fixture.target(), self.fixture.site())
            .reading_all_every(full_read)
            .observe(
                &self.fixture.desired(FILES),
                &self.fixture.memory.0,
                &Heartbeat::default(),
            )
            .unwrap()
    }

    #[track_caller]
    fn finds(&self, expected: &str) {
        let found = self.looked(marks::FULL_READ);
        assert_eq!(found.status, ComplianceStatus::Drifted, "{found:?}");
        assert!(found.steps[0].message.contains(expected), "{found:?}");
    }
}

/// The mark is false, which only reading could tell: nothing was read until all of it is due.
#[test]
fn a_file_that_is_as_its_mark_says_is_read_only_when_all_is() {
    let marked = Marked::new();
    fs::write(&marked.file, "OURS").unwrap();
    marked.mark();
    let found = marked.looked(marks::FULL_READ);
    assert_eq!(found.status, ComplianceStatus::Compliant);
    assert_eq!(found.steps[0].name, "1 files");
    let found = marked.looked(Duration::ZERO);
    assert_eq!(found.status, ComplianceStatus::Drifted);
}

#[test]
fn a_change_of_the_same_size_with_its_old_time_is_found() {
    let marked = Marked::new();
    let before = fs::metadata(&marked.file).unwrap();
    fs::write(&marked.file, "OURS").unwrap();
    let times = FileTimes::new().set_modified(before.modified().unwrap());
    let file = File::options().write(true).open(&marked.file).unwrap();
    file.set_times(times).unwrap();
    let after = fs::metadata(&marked.file).unwrap();
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert_eq!(after.len(), before.len());
    marked.finds("it was changed: ");
}

#[test]
fn another_file_of_the_same_size_and_time_in_its_place_is_found() {
    let marked = Marked::new();
    let before = fs::metadata(&marked.file).unwrap();
    let other = marked.fixture.target().join("other");
    fs::write(&other, "OURS").unwrap();
    let times = FileTimes::new().set_modified(before.modified().unwrap());
    let file = File::options().write(true).open(&other).unwrap();
    file.set_times(times).unwrap();
    fs::rename(&other, &marked.file).unwrap();
    marked.finds("it was changed: ");
}

#[test]
fn a_changed_permission_is_found_by_its_mark_and_by_reading_everything() {
    let marked = Marked::new();
    for mode in [0o600, 0o646, 0o755] {
        fs::set_permissions(&marked.file, Permissions::from_mode(mode)).unwrap();
        let words = format!("its mode is {mode:04o}, and 0644 was applied");
        marked.finds(&words);
        // Also where the mark is as new as the mode.
        marked.mark();
        marked.finds(&words);
        let everything = marked.looked(Duration::ZERO);
        assert_eq!(everything, marked.looked(marks::FULL_READ));
    }
    fs::set_permissions(&marked.file, Permissions::from_mode(0o644)).unwrap();
    for full_read in [marks::FULL_READ, Duration::ZERO] {
        let found = marked.looked(full_read);
        assert_eq!(found.status, ComplianceStatus::Compliant);
    }
}

#[test]
fn what_is_gone_or_was_put_in_its_place_is_found() {
    let marked = Marked::new();
    fs::remove_file(&marked.file).unwrap();
    marked.finds("it is missing");
    fs::create_dir(&marked.file).unwrap();
    marked.finds("a folder is in its place");
}
