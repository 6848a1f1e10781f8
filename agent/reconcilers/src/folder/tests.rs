//! Tests of the folder reconciler: on a real folder, with an inventory in memory.
//!
//! What comes in: desired files, foreign files, links, changes behind its back. What goes out: what lies
//! in the target, what the inventory says, and what is reported. No database and no program is needed.
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use outhaul_bundle::index::DriftPolicy;
use tempfile::TempDir;

use super::*;
use crate::fixture_for_tests::{self, FakeContext, MemoryLedger};

pub(super) struct Fixture {
    folder: TempDir,
    pub(super) memory: MemoryLedger,
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            memory: MemoryLedger::default(),
        }
    }

    pub(super) fn target(&self) -> std::path::PathBuf {
        self.folder.path().join("target")
    }

    pub(super) fn marks(&self) -> std::path::PathBuf {
        self.site().marks(1)
    }

    pub(super) fn site(&self) -> Rc<FakeContext> {
        Rc::new(FakeContext(self.folder.path().to_owned()))
    }

    pub(super) fn desired(&self, files: &[(&str, &str)]) -> Desired {
        fixture_for_tests::desired(
            self.folder.path(),
            "drone-7",
            "app",
            DriftPolicy::Report,
            files,
        )
    }

    pub(super) fn apply(&mut self, files: &[(&str, &str)]) -> AssignmentResult {
        let desired = self.desired(files);
        let recorded = self.memory.0.clone();
        let folder = Folder::new(self.target(), self.site());
        folder
            .apply(&desired, &recorded, &mut self.memory, &Heartbeat::default())
            .unwrap()
    }

    fn observe(&mut self, files: &[(&str, &str)]) -> AssignmentResult {
        let desired = self.desired(files);
        let folder = Folder::new(self.target(), self.site());
        folder
            .observe(&desired, &self.memory.0, &Heartbeat::default())
            .unwrap()
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.target().join(path)).ok()
    }
}

#[test]
fn files_appear_change_and_go_with_the_generation() {
    let mut fixture = Fixture::new();
    assert_eq!(
        fixture
            .apply(&[("a.yaml", "1"), ("sub/b.yaml", "2")])
            .status,
        ComplianceStatus::Compliant
    );
    assert_eq!(fixture.read("app/sub/b.yaml").as_deref(), Some("2"));

    let second = fixture.apply(&[("a.yaml", "changed")]);
    assert_eq!(fixture.read("app/a.yaml").as_deref(), Some("changed"));
    assert!(
        !fixture.target().join("app/sub").exists(),
        "its empty folder went as well"
    );
    let reported: Vec<_> = second
        .steps
        .iter()
        .map(|s| (s.name.as_str(), s.status.as_str()))
        .collect();
    assert_eq!(
        reported,
        [("app/a.yaml", "changed"), ("app/sub/b.yaml", "removed")]
    );
    assert_eq!(fixture.memory.0.len(), 1);
}

#[test]
fn a_foreign_file_in_the_way_is_named_and_never_overwritten_or_removed() {
    let mut fixture = Fixture::new();
    fs::create_dir_all(fixture.target().join("app")).unwrap();
    fs::write(fixture.target().join("app/a.yaml"), "theirs").unwrap();
    fs::write(fixture.target().join("app/notes"), "theirs").unwrap();
    let result = fixture.apply(&[("a.yaml", "ours"), ("b.yaml", "ours")]);
    assert_eq!(result.status, ComplianceStatus::Failed);
    assert!(
        result
            .message
            .contains("app/a.yaml` is there and is not Outhaul's"),
        "{result:?}"
    );
    assert_eq!(fixture.read("app/a.yaml").as_deref(), Some("theirs"));
    assert_eq!(
        fixture.read("app/b.yaml"),
        None,
        "nothing was written at all"
    );

    fs::remove_file(fixture.target().join("app/a.yaml")).unwrap();
    fixture.apply(&[("a.yaml", "ours")]);
    let folder = Folder::new(fixture.target(), fixture.site());
    let recorded = fixture.memory.0.clone();
    folder
        .remove(
            2,
            "app",
            &recorded,
            &mut fixture.memory,
            &Heartbeat::default(),
        )
        .unwrap();
    assert_eq!(fixture.read("app/a.yaml"), None);
    assert_eq!(fixture.read("app/notes").as_deref(), Some("theirs"));
}

#[test]
fn links_below_the_target_are_never_followed() {
    let mut fixture = Fixture::new();
    let outside = fixture.folder.path().join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::create_dir_all(fixture.target()).unwrap();
    symlink(&outside, fixture.target().join("app")).unwrap();
    let result = fixture.apply(&[("a.yaml", "x")]);
    assert_eq!(result.status, ComplianceStatus::Failed);
    assert!(
        result.message.contains("not followed"),
        "{}",
        result.message
    );
    assert!(is_empty(&outside));

    fs::remove_file(fixture.target().join("app")).unwrap();
    fixture.apply(&[("a.yaml", "x")]);
    fs::remove_file(fixture.target().join("app/a.yaml")).unwrap();
    symlink(outside.join("victim"), fixture.target().join("app/a.yaml")).unwrap();
    let again = fixture.apply(&[("a.yaml", "y")]);
    assert_eq!(
        again.status,
        ComplianceStatus::Failed,
        "a link in place of a file is not ours"
    );
    assert!(is_empty(&outside));
}

#[test]
fn drift_is_seen_by_content_absence_and_kind() {
    let mut fixture = Fixture::new();
    let files = [("a.yaml", "1"), ("b.yaml", "2")];
    fixture.apply(&files);
    assert_eq!(fixture.observe(&files).status, ComplianceStatus::Compliant);
    fs::write(fixture.target().join("app/a.yaml"), "edited").unwrap();
    fs::remove_file(fixture.target().join("app/b.yaml")).unwrap();
    let result = fixture.observe(&files);
    assert_eq!(result.status, ComplianceStatus::Drifted);
    let named =
        "`app/a.yaml`: it was changed: 6 bytes, and 1 were applied; `app/b.yaml`: it is missing";
    let expected = format!("2 of 2 files are not as applied: {named}");
    assert_eq!(result.message, expected);
    fixture.apply(&files);
    assert_eq!(fixture.observe(&files).status, ComplianceStatus::Compliant);
}

#[test]
fn what_is_not_a_file_is_named_as_what_it_is_and_neither_followed_nor_removed() {
    let mut fixture = Fixture::new();
    let names = ["a.yaml", "b.yaml", "c.yaml", "d.yaml"];
    let mut files = names.map(|name| (name, "1")).to_vec();
    files.push(("sub/e.yaml", "1"));
    fixture.apply(&files);
    let app = fixture.target().join("app");
    let outside = fixture.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("a"), "1").unwrap();
    for name in names {
        fs::remove_file(app.join(name)).unwrap();
    }
    symlink(outside.join("a"), app.join("a.yaml")).unwrap();
    fs::create_dir(app.join("b.yaml")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, app.join("c.yaml"), fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(app.join("d.yaml")).unwrap();
    fs::rename(app.join("sub"), outside.join("sub")).unwrap();
    symlink(outside.join("sub"), app.join("sub")).unwrap();

    let seen = fixture.observe(&files);
    assert_eq!(seen.status, ComplianceStatus::Drifted);
    let of = |at: usize, what: &str| {
        let path = app.join(names[at]);
        format!(
            "{what} is in its place, which is not Outhaul's: move `{}` away",
            path.display()
        )
    };
    let kinds = ["a symbolic link", "a folder", "a FIFO", "a socket"];
    for (at, what) in kinds.into_iter().enumerate() {
        assert_eq!(seen.steps[at].message, of(at, what));
        assert_eq!(seen.steps[at].status, "failed");
    }
    let words = "a symbolic link is where the folder `sub` was; it is not followed";
    assert!(seen.steps[4].message.contains(words), "{seen:?}");
    let named = format!(
        "5 of 5 files are not as applied: `app/a.yaml`: {}; ",
        of(0, kinds[0])
    );
    assert!(seen.message.starts_with(&named), "{}", seen.message);

    for (at, what) in kinds.into_iter().enumerate() {
        let refused = fixture.apply(&files);
        assert_eq!(refused.status, ComplianceStatus::Failed);
        let (path, words) = (app.join(names[at]), format!("was written: it is {what}"));
        let path = path.display().to_string();
        assert!(
            refused.message.contains(&path) && refused.message.ends_with(&words),
            "{refused:?}"
        );
        fs::rename(app.join(names[at]), outside.join(what)).unwrap();
    }
    let refused = fixture.apply(&files);
    assert!(refused.message.contains(words), "{refused:?}");
    fs::remove_file(app.join("sub")).unwrap();
    fixture.apply(&files);
    assert_eq!(fixture.observe(&files).status, ComplianceStatus::Compliant);
    assert_eq!(fs::read(outside.join("sub/e.yaml")).unwrap(), b"1");
}

#[test]
fn another_mode_is_drift_in_every_bit_and_put_back() {
    use std::os::unix::fs::PermissionsExt as _;

    let mut fixture = Fixture::new();
    let files = [("a.yaml", "1")];
    fixture.apply(&files);
    let path = fixture.target().join("app/a.yaml");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(), 0o644);
    for other in [0o600, 0o640, 0o646, 0o666, 0o755, 0o777, 0o4644, 0o000] {
        fs::set_permissions(&path, fs::Permissions::from_mode(other)).unwrap();
        let seen = fixture.observe(&files);
        assert_eq!(seen.status, ComplianceStatus::Drifted, "{other:o}");
        let words = format!("its mode is {other:04o}, and 0644 was applied");
        assert!(seen.steps[0].message.contains(&words), "{seen:?}");
        let again = fixture.apply(&files);
        assert_eq!(again.steps[0].status, "changed", "{other:o}");
        assert_eq!(mode(), 0o644);
        assert_eq!(fixture.observe(&files).status, ComplianceStatus::Compliant);
    }
}

fn is_empty(path: &Path) -> bool {
    fs::read_dir(path).unwrap().next().is_none()
}

#[test]
fn a_sealed_value_is_in_the_clear_in_the_target_alone_and_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    use outhaul_seal::marker;

    let mut fixture = Fixture::new();
    let key = FakeContext::public_key(fixture.folder.path())
        .parse()
        .unwrap();
    let text = format!(
        "password: {}\n",
        marker::seal_value("hunter2", &[key], &bound("app")).unwrap()
    );
    let done = fixture.apply(&[("secret.yaml", &text), ("open.yaml", "a: b\n")]);
    assert_eq!(done.status, ComplianceStatus::Compliant, "{done:?}");
    let written = fixture.target().join("app/secret.yaml");
    assert_eq!(
        fs::read_to_string(&written).unwrap(),
        "password: \"hunter2\"\n"
    );
    assert_eq!(
        fs::metadata(&written).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(
        fs::read_to_string(fixture.folder.path().join("rendered/secret.yaml")).unwrap(),
        text
    );
    assert!(!format!("{done:?}{:?}", fixture.memory.0).contains("hunter2"));
    let again = fixture.apply(&[("secret.yaml", &text), ("open.yaml", "a: b\n")]);
    assert!(
        again.steps.iter().all(|step| step.status == "ok"),
        "{again:?}"
    );

    fs::write(&written, "password: other\n").unwrap();
    let folder = Folder::new(fixture.target(), fixture.site());
    let desired = fixture.desired(&[("secret.yaml", &text), ("open.yaml", "a: b\n")]);
    let seen = folder
        .observe(&desired, &fixture.memory.0, &Heartbeat::default())
        .unwrap();
    assert_eq!(seen.status, ComplianceStatus::Drifted);
}

#[test]
fn a_value_sealed_for_another_site_fails_its_assignment_and_writes_nothing() {
    use outhaul_seal::{Identity, marker};

    let mut fixture = Fixture::new();
    let other = Identity::generate().recipient();
    let text = format!(
        "password: {}\n",
        marker::seal_value("hunter2", &[other], &bound("app")).unwrap()
    );
    let done = fixture.apply(&[("a.yaml", "a: b\n"), ("secret.yaml", &text)]);
    assert_eq!(done.status, ComplianceStatus::Failed);
    assert!(
        done.message.contains("secret.yaml") && done.message.contains("sealed for others"),
        "{done:?}"
    );
    assert!(!fixture.target().join("app/a.yaml").exists());
}

fn bound(workload: &str) -> outhaul_seal::marker::Binding {
    format!("f/dev/{workload}/PASSWORD").parse().unwrap()
}

#[test]
fn a_value_of_another_workload_fails_its_assignment_by_name_and_writes_nothing() {
    use outhaul_seal::marker;

    let mut fixture = Fixture::new();
    let key = FakeContext::public_key(fixture.folder.path());
    let theirs = marker::seal_value("hunter2", &[key.parse().unwrap()], &bound("payroll")).unwrap();
    let text = format!("motto: {theirs}\n");
    let done = fixture.apply(&[("a.yaml", "a: b\n"), ("motto.yaml", &text)]);
    assert_eq!(done.status, ComplianceStatus::Failed);
    let says = "sealed for workload `payroll`, and this is workload `app`";
    assert!(
        done.message.contains(says) && done.message.contains("motto.yaml"),
        "{done:?}"
    );
    assert!(!fixture.target().join("app/a.yaml").exists());
}

/// The attack: `truncate -s 1T` of an applied file, which takes hours to read.
#[test]
fn attack_a_file_made_larger_than_the_disk_is_known_by_its_size() {
    let mut fixture = Fixture::new();
    fixture.apply(&[("a.yaml", "1"), ("gone.yaml", "2")]);
    for name in ["a.yaml", "gone.yaml"] {
        let path = fixture.target().join("app").join(name);
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_len(1 << 40).unwrap();
    }
    let seen = fixture.observe(&[("a.yaml", "1"), ("gone.yaml", "2")]);
    assert_eq!(seen.status, ComplianceStatus::Drifted);
    let reported = "it was changed: 1099511627776 bytes, and 1 were applied";
    assert_eq!(seen.steps[0].message, reported);
    let mended = fixture.apply(&[("a.yaml", "1")]);
    assert_eq!(mended.status, ComplianceStatus::Compliant, "{mended:?}");
    assert_eq!(fixture.read("app/a.yaml").as_deref(), Some("1"));
    assert!(!fixture.target().join("app/gone.yaml").exists());
}

#[test]
fn a_name_as_long_as_a_file_system_allows_is_written() {
    let mut fixture = Fixture::new();
    let (one, other) = ("n".repeat(255), format!("{}m", "n".repeat(254)));
    let result = fixture.apply(&[(&one, "1"), (&other, "2")]);
    assert_eq!(result.status, ComplianceStatus::Compliant, "{result:?}");
    assert_eq!(fixture.read(&format!("app/{other}")).as_deref(), Some("2"));
}

#[test]
fn more_files_than_one_batch_are_all_there_and_nothing_else_is() {
    let mut fixture = Fixture::new();
    let paths: Vec<String> = (0..2100)
        .map(|at| format!("{}/{at}.yaml", at % 7))
        .collect();
    let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "one")).collect();
    let result = fixture.apply(&files);
    assert_eq!(result.status, ComplianceStatus::Compliant, "{result:?}");
    for at in 0..7 {
        let folder = fixture.target().join(format!("app/{at}"));
        let all: Vec<_> = fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
        assert_eq!(all.len(), 300);
        assert!(
            all.iter()
                .all(|file| fs::read(file.path()).unwrap() == b"one")
        );
    }
}

#[test]
fn a_batch_that_fails_leaves_nothing_beside_its_files_and_names_only_what_was_written() {
    let fixture = Fixture::new();
    let from = fixture.folder.path().join("from");
    fs::write(&from, "new").unwrap();
    let target = Beneath::open(&fixture.target(), true).unwrap().unwrap();
    let file = DesiredFile {
        content: outhaul_bundle::Digest::of(b"new"),
        size: 3,
        executable: false,
        from,
        opened: None,
    };
    let mut writing = Writing::into(&target);
    for path in ["app/a", "app/b", "app/c"] {
        writing.add(path, &file, &mut |_| ()).unwrap();
    }
    // It came meanwhile: a file cannot take its name.
    fs::create_dir(fixture.target().join("app/b")).unwrap();
    writing.finish(&mut |_| ()).unwrap_err();
    let lacking = ["app/a", "app/b", "app/c"].map(|path| writing.lacks_name(path));
    assert_eq!(lacking, [false, true, true]);
    drop(writing);
    let left = fs::read_dir(fixture.target().join("app")).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["a", "b"]);
}
