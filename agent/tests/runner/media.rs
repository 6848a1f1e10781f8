//! Sticks as they are: read-only, full, gone, and with bundles for many sites.
//!
//! Root writes where modes forbid it. As root these tests mount a small tmpfs; where even that is not
//! allowed they say `SKIPPED`, and fail in CI.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use outhaul_test_kit::{Centre, Draft};
use outhaul_tests::Checked as _;
use outhaul_tests::skipped;

use crate::site::{Site, assert_reports, copy, tree};

/// Whether the tests run as root.
pub fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout == b"0\n"
}

/// A folder that can be made read-only for everyone, root included.
#[derive(Debug)]
pub struct Stick {
    folder: tempfile::TempDir,
    mounted: bool,
}

impl Stick {
    /// `None` where a file system would have to be mounted and cannot be.
    pub fn new(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        if !is_root() {
            return Some(Self {
                folder,
                mounted: false,
            });
        }
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "outhaul-test"])
            .arg(folder.path());
        let done = mount.output().is_ok_and(|output| output.status.success());
        if !done {
            skipped("root may not mount here, so nothing can be read-only");
        }
        done.then_some(Self {
            folder,
            mounted: true,
        })
    }

    /// A small file system, mounted in a new folder of `above`; `None` where it cannot be.
    pub fn below(above: &Path, name: &str) -> Option<Self> {
        if !is_root() {
            return None;
        }
        let folder = tempfile::Builder::new()
            .prefix(name)
            .tempdir_in(above)
            .unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "outhaul-test"]);
        let done = mount.arg(folder.path()).output();
        done.is_ok_and(|output| output.status.success())
            .then_some(Self {
                folder,
                mounted: true,
            })
    }

    pub fn is_mounted(&self) -> bool {
        self.mounted
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn read_only(&self) {
        if self.mounted {
            let mut mount = Command::new("mount");
            mount.args(["-o", "remount,ro"]).arg(self.path());
            assert!(mount.status().unwrap().success());
        } else {
            fs::set_permissions(self.path(), fs::Permissions::from_mode(0o555)).unwrap();
        }
    }
}

impl Drop for Stick {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg(self.path()).status();
        } else {
            let _ = fs::set_permissions(self.path(), fs::Permissions::from_mode(0o755));
        }
    }
}

#[test]
fn a_read_only_stick_is_good_enough() {
    let Some(stick) = Stick::new("4m") else {
        return;
    };
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    fs::copy(
        centre.publish(&Draft::hello("hi")),
        stick.path().join("b.outhaul"),
    )
    .unwrap();
    stick.read_only();
    assert!(
        fs::write(stick.path().join("x"), "").is_err(),
        "the stick is not read-only"
    );
    site.take(stick.path());
    assert_eq!(site.applied().len(), 3);
}

#[test]
fn an_export_to_a_read_only_stick_fails_clearly_and_loses_nothing() {
    let Some(stick) = Stick::new("1m") else {
        return;
    };
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("hi")));
    let before = site.event_log();
    stick.read_only();
    let output = site.run(&["export", stick.path().to_str().unwrap()]);
    assert_reports(&output, 3, &[stick.path().to_str().unwrap(), "help:"]);
    assert_eq!(site.event_log(), before);
}

#[test]
fn an_export_to_a_full_stick_fails_clearly_and_leaves_no_torn_file() {
    let stick = Stick::new("64k").filter(|stick| stick.mounted);
    let Some(stick) = stick else {
        return skipped("only root can mount a small file system");
    };
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("hi")));
    let before = site.event_log();
    let _ = fs::write(stick.path().join("photos"), vec![1; 1 << 20]);
    let output = site.run(&["export", stick.path().to_str().unwrap()]);
    let kept = "every report that the hub has not acknowledged is still here";
    assert_reports(
        &output,
        3,
        &["No space left", kept, "help: free some space"],
    );
    let left: Vec<_> = fs::read_dir(stick.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["photos"], "no torn file and no empty folder");
    assert_eq!(site.event_log(), before);
}

#[test]
fn an_export_to_nowhere_fails_clearly() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let gone = site.folder.path().join("no-stick");
    assert_reports(
        &site.run(&["export", gone.to_str().unwrap()]),
        3,
        &["no-stick", "help:"],
    );
}

#[test]
fn a_disk_that_fills_up_at_import_changes_nothing_that_runs() {
    let stick = Stick::new("2m").filter(|stick| stick.mounted);
    let Some(disk) = stick else {
        return skipped("only root can mount a small file system");
    };
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    // The state moves to a small disk.
    let state = disk.path().join("state");
    copy(&site.state(), &state);
    let bundle = centre.publish(&Draft::hello("hi"));
    fs::write(state.join("agent.toml"), "min_free_mb = 0\n").unwrap();
    let _ = fs::write(disk.path().join("photos"), vec![1; 4 << 20]);
    let import = |command: &mut Command| {
        command
            .arg("--state")
            .arg(&state)
            .arg("import")
            .arg(&bundle)
            .checked()
            .unwrap()
    };
    let output = import(&mut Command::new(env!("CARGO_BIN_EXE_outhaul-agent")));
    assert_reports(&output, 3, &["help:"]);
    assert!(tree(&state.join("applied")).is_empty());
    fs::remove_file(disk.path().join("photos")).unwrap();
    let output = import(&mut Command::new(env!("CARGO_BIN_EXE_outhaul-agent")));
    assert_reports(&output, 0, &[]);
    assert_eq!(tree(&state.join("applied")).len(), 3);
}

#[test]
fn of_many_bundles_on_a_stick_the_newest_for_this_stream_is_taken() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let stick = tempfile::tempdir().unwrap();
    let folder = stick.path().join("march/drones");
    fs::create_dir_all(&folder).unwrap();
    fs::copy(
        centre.publish(&Draft::hello("one")),
        stick.path().join("z.outhaul"),
    )
    .unwrap();
    fs::copy(
        centre.publish(&Draft::hello("two")),
        folder.join("a.outhaul"),
    )
    .unwrap();
    let other = centre.publish(&Draft::hello("other").cluster_type("tractor"));
    fs::copy(other, stick.path().join("tractor.outhaul")).unwrap();
    fs::write(stick.path().join("readme.txt"), "not a bundle").unwrap();
    let output = site.import(stick.path());
    assert_reports(
        &output,
        0,
        &[
            "skipped `tractor.outhaul`",
            "dev/tractor",
            "bundle 1 is older",
        ],
    );
    assert_eq!(site.active(), Some(2));
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: two\n");
}

#[test]
fn an_empty_stick_is_reported_as_such() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let stick = tempfile::tempdir().unwrap();
    assert_reports(&site.import(stick.path()), 1, &["is empty", "findmnt"]);
    let gone = stick.path().join("gone");
    assert_reports(&site.import(&gone), 3, &["gone", "mounted"]);
}

#[test]
fn attack_reports_are_not_written_into_the_sites_own_folder() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let before = tree(&site.state());
    for folder in [site.state(), site.state().join("generations")] {
        let done = site.run(&["export", folder.to_str().unwrap()]);
        assert_reports(
            &done,
            2,
            &[
                "is in this site's own folder and on no stick",
                "name the folder where the stick is mounted",
            ],
        );
    }
    assert_eq!(tree(&site.state()), before);
}

#[test]
fn attack_nothing_is_written_into_folders_that_are_somebody_elses() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let other = Site::new(&centre, "drone-8");
    let made = tempfile::tempdir().unwrap();
    let at = |name: &str| made.path().join(name);
    for (file, folder) in [("fleet/fleet.json", "fleet"), ("hub/hub.key", "hub")] {
        fs::create_dir(at(folder)).unwrap();
        fs::write(at(file), "").unwrap();
    }
    fs::create_dir_all(at("plane/.environments")).unwrap();
    for (folder, what) in [
        (at("fleet"), "in the folder of a fleet's keys, `"),
        (at("hub"), "in the state folder of a hub, `"),
        (at("plane"), "in the control plane, `"),
        (other.state(), "in the state folder of a site, `"),
    ] {
        let before = tree(&folder);
        let new = folder.join("new");
        let words = [what, "nothing was written", "help: name"];
        let exported = site.run(&["export", folder.to_str().unwrap()]);
        assert_reports(&exported, 2, &words);
        let file = folder.join("drone-7.backup");
        assert_reports(
            &site.run(&["backup", "--to", file.to_str().unwrap()]),
            2,
            &words,
        );
        fs::create_dir(&new).unwrap();
        assert_reports(&site.run(&["export", new.to_str().unwrap()]), 2, &words);
        fs::remove_dir(&new).unwrap();
        let page = site.run(&[
            "status",
            "--page",
            folder.join("page.html").to_str().unwrap(),
        ]);
        assert_reports(&page, 2, &["no page is written to", what]);
        assert_eq!(tree(&folder), before);
    }
    // Its own folder is no place for its backup: both are lost together.
    let own = site.state().join("drone-7.backup");
    let words = ["in the state folder of a site", "nothing was written"];
    assert_reports(
        &site.run(&["backup", "--to", own.to_str().unwrap()]),
        2,
        &words,
    );
    site.ok(&["export", made.path().to_str().unwrap()]);
}

#[test]
fn attack_a_fifo_in_the_place_of_a_stored_or_applied_file_is_not_waited_for() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let bounded = |arguments: &[&str]| {
        let command = site.command(arguments);
        let mut bounded = Command::new("timeout");
        bounded.args(["--signal=KILL", "60"]);
        bounded.arg(command.get_program()).args(command.get_args());
        bounded.checked().unwrap()
    };
    let inside = |folder: &str, found: &dyn Fn(&Path) -> bool| {
        let all = outhaul_test_kit::folder::paths(&site.state().join(folder));
        all.into_iter()
            .find(|path| path.is_file() && found(path))
            .unwrap()
    };
    let blob = inside("blobs", &|_| true);
    let generation = inside("generations/1", &|path| path.ends_with("manifest.yaml"));
    let applied = inside("applied", &|_| true);
    for path in [blob, generation, applied] {
        fs::remove_file(&path).unwrap();
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        for arguments in [
            &["status"][..],
            &["plan", "nothing"],
            &["apply"],
            &["rollback"],
        ] {
            let done = bounded(arguments);
            assert!(
                done.status.code().is_some(),
                "{}: {arguments:?}",
                path.display()
            );
        }
        fs::remove_file(&path).ok();
    }
}

#[test]
fn a_link_to_a_folder_is_named_and_what_it_leads_to_is_read_by_the_printed_command() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let (stick, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let one = centre.publish(&Draft::hello("one"));
    fs::copy(&one, stick.path().join("one.outhaul")).unwrap();
    let two = centre.publish(&Draft::hello("two"));
    fs::copy(&two, other.path().join("two.outhaul")).unwrap();
    std::os::unix::fs::symlink(other.path(), stick.path().join("newer")).unwrap();
    let taken = site.import(stick.path());
    let link = format!("{}/newer", stick.path().display());
    let words = [
        "links are not followed",
        &format!("(`{link}`)"),
        &format!("`outhaul-agent import {link}/`"),
    ];
    assert_reports(&taken, 0, &words);
    assert_eq!(site.active(), Some(1));
    site.ok(&["import", &format!("{link}/")]);
    assert_eq!(site.active(), Some(2));
}
