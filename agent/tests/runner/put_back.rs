//! A database that was removed and saved, or cannot be saved yet: what keeps someone from losing it by the next command, and the way back, typed as it is
//! printed.
//!
//! What must come out: no site is enrolled over what it can have again, no command that was printed overwrites a newer database, and no advice leaves
//! reports behind that wait for the hub.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use outhaul_bundle::report::{ACK_PAYLOAD_TYPE, Ack};
use outhaul_signer::{Envelope, SigningKey};
use outhaul_test_kit::{Centre, Draft};

use crate::saved_holds::assert_held;
use crate::service::{Service, log, until};
use crate::site::{Site, assert_reports, code, stderr, stdout};
use crate::taken_away::{DATABASE, as_printed, at_work, path, remove, running, signal};

pub fn database(site: &Site) -> PathBuf {
    site.state().join("agent.db")
}

/// A site of which the whole state folder was removed under its service, and what it had reported.
pub fn removed(centre: &Centre) -> (Site, Vec<String>) {
    let (site, service) = at_work(centre);
    let before = site.event_log();
    lost_under(&site, service);
    (site, before)
}

/// Removes the whole state folder under the service, which ends for it.
pub fn lost_under(site: &Site, mut service: Service) {
    signal(&service, "-STOP");
    fs::remove_dir_all(site.state()).unwrap();
    signal(&service, "-CONT");
    assert_eq!(service.ended().code(), Some(3));
}

fn saved(site: &Site) -> PathBuf {
    let mut found = fs::read_dir(site.state().join("rescued")).unwrap();
    let path = found.find_map(|entry| {
        let path = entry.unwrap().path();
        path.extension()
            .is_some_and(|end| end == "db")
            .then_some(path)
    });
    path.unwrap()
}

/// Whether all of `before` is in `now`, in its order.
fn has_all(now: &[String], before: &[String]) -> bool {
    let mut now = now.iter();
    before.iter().all(|one| now.any(|other| other == one))
}

#[test]
fn a_site_is_not_enrolled_over_its_own_saved_database_and_goes_on_with_it_as_printed() {
    let centre = Centre::new();
    let (site, before) = removed(&centre);
    let status = site.run(&["status"]);
    let words = [
        "is gone, though `rescued/",
        "put the saved one in its place",
    ];
    assert_reports(&status, 3, &words);
    let shown = stdout(&status);
    assert!(shown.contains("site drone-7 of fleet "), "{shown}");
    let other = centre.kit("drone-8");
    let words = [
        "the kit is for site `drone-8`",
        "site `drone-7` of fleet",
        "as `rescued/",
    ];
    assert_reports(&site.run(&["enrol", path(&other)]), 2, &words);
    let kit = centre.kit_with("drone-7", "second-token", |_| {});
    let enrol = || site.run(&["enrol", path(&kit)]);
    let words = [
        "is saved whole in `",
        "may accept none of the reports",
        "repeat this command",
    ];
    let refused = enrol();
    assert_reports(&refused, 2, &words);
    assert!(!database(&site).exists());
    assert!(as_printed(&stderr(&refused), "if test ").status.success());
    let words = ["this site has a new key"];
    assert_reports(&enrol(), 0, &words);
    let now = site.event_log();
    assert!(has_all(&now, &before), "{before:?} {now:?}");
    assert_eq!(site.active(), Some(1));
}

#[test]
fn a_site_begins_anew_without_its_saved_database_when_that_was_moved_away_as_printed() {
    let centre = Centre::new();
    let (site, _) = removed(&centre);
    let name = saved(&site).file_name().unwrap().to_owned();
    let refused = site.run(&["enrol", path(&centre.kit("drone-7"))]);
    assert!(as_printed(&stderr(&refused), "mv ").status.success());
    assert!(
        site.folder
            .path()
            .join(name)
            .with_extension("db.aside")
            .exists()
    );
    let enrolled = site.run(&["enrol", path(&centre.kit("drone-7"))]);
    let words = ["the hub accepts reports of a former numbering where"];
    assert_reports(&enrolled, 0, &words);
    assert!(!stderr(&enrolled).contains("rescued/left"));
    site.take(&centre.publish(&Draft::hello("two")));
}

#[test]
fn a_saved_database_that_was_cut_short_is_no_way_back_and_keeps_no_site_from_being_enrolled() {
    for kept in [2, 0] {
        let centre = Centre::new();
        let (site, _) = removed(&centre);
        let saved = saved(&site);
        let file = fs::File::options().write(true).open(&saved).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length / 4096 / 3 * kept * 4096).unwrap();
        let said = stderr(&site.run(&["status"]));
        let damaged = format!("what is saved in `{}` is damaged", saved.display());
        assert!(
            said.contains(&damaged) && !said.contains("in its place (`"),
            "{said}"
        );
        assert!(said.contains("`outhaul-agent restore FILE`"), "{said}");
        site.ok(&["enrol", path(&centre.kit("drone-7"))]);
        site.take(&centre.publish(&Draft::hello("two")));
    }
}

#[test]
fn the_printed_command_leaves_a_database_alone_that_is_in_place_by_then() {
    let centre = Centre::new();
    let (site, mut service) = at_work(&centre);
    remove(&site, &["agent.db"]);
    assert_eq!(service.ended().code(), Some(3));
    let said = stderr(&site.run(&["status"]));
    let newer = |text: &str| {
        for name in DATABASE {
            fs::write(site.state().join(name), text).unwrap();
        }
    };
    newer("newer");
    let done = as_printed(&said, "if test ");
    assert!(
        stderr(&done).contains("agent.db: a database is there"),
        "{}",
        stderr(&done)
    );
    assert!(!done.status.success());
    for name in DATABASE {
        assert_eq!(fs::read(site.state().join(name)).unwrap(), b"newer");
    }
    // What is empty is none.
    newer("");
    assert!(as_printed(&said, "if test ").status.success());
    assert_eq!(site.active(), Some(1));
}

#[test]
fn what_waits_in_rescued_comes_along_when_the_folder_is_moved_aside_for_a_restore_as_printed() {
    let centre = Centre::new();
    let site = running(&centre, "drone-7");
    let backup = site.folder.path().join("drone-7.backup");
    site.ok(&["backup", "--to", path(&backup)]);
    site.hold("hello", "bob", "repair");
    let mut service = Service::start(&site);
    service.wait_for("STATUS=bundle 1 is active");
    remove(&site, &["agent.db"]);
    assert_eq!(service.ended().code(), Some(3));
    let reports = site.state().join("rescued/reports");
    let waiting = outhaul_test_kit::folder::tree(&reports);
    fs::remove_file(saved(&site)).unwrap();
    fs::write(database(&site), "damaged").unwrap();
    let said = stderr(&site.run(&["status"]));
    let moves = format!("mv {} ", path(&site.state()));
    assert!(as_printed(&said, &moves).status.success(), "{said}");
    assert_eq!(outhaul_test_kit::folder::tree(&reports), waiting);
    // `holds.json` came along, too: the hold was given after the backup was made.
    let restored = site.ok(&["restore", path(&backup), "--who", "ann"]);
    let held = restored["held"][0].as_str().unwrap();
    assert!(
        held.contains("rescued/holds.json`") && held.contains("`hello` (held by bob: repair;"),
        "{held}"
    );
    assert!(!site.state().join("rescued/holds.json").exists());
    let attention = site.status()["attention"].to_string();
    assert!(attention.contains("rescued-reports"), "{attention}");
    assert_held(&site, &centre);
}

#[test]
fn reports_that_wait_in_an_older_copy_are_saved_and_what_runs_is_not_said_by_it() {
    let centre = Centre::new();
    let site = running(&centre, "drone-7");
    let before = site.event_log();
    let older = site.folder.path().join("older.db");
    let db = rusqlite::Connection::open(database(&site)).unwrap();
    db.execute("VACUUM INTO ?1", [path(&older)]).unwrap();
    drop(db);
    site.take(&centre.publish(&Draft::hello("two")));
    site.reports();
    remove(&site, &DATABASE);
    fs::copy(&older, database(&site)).unwrap();
    let status = site.run(&["status"]);
    let reports = format!(
        "it holds {} reports that had not reached the hub when it was copied; those reports are saved in `",
        before.len()
    );
    let words = [&reports, "is an older copy than", "/rescued/reports`"];
    assert_reports(&status, 3, &words);
    let shown = stdout(&status);
    assert!(
        shown.contains("active: not known: the database is an older copy"),
        "{shown}"
    );
    assert!(shown.contains("site drone-7 of fleet "), "{shown}");
    let moves = format!("mv {}", path(&database(&site)));
    assert!(as_printed(&stderr(&status), &moves).status.success());
    let kit = centre.kit_with("drone-7", "second-token", |_| {});
    let words = [&*format!("reports 1 to {} of numbering ", before.len())];
    assert_reports(&site.run(&["enrol", path(&kit)]), 0, &words);
    let stick = tempfile::tempdir().unwrap();
    let exported = site.ok(&["export", path(stick.path())]);
    assert_eq!(exported["former_reports"], before.len());
}

#[test]
fn a_service_that_cannot_save_its_removed_database_stays_says_so_and_saves_it_when_there_is_space()
{
    let centre = Centre::new();
    let site = running(&centre, "drone-7");
    let before = site.event_log();
    let (room, out) = (
        site.folder.path().join("room"),
        site.folder.path().join("out"),
    );
    let command = site.command(&["run"]);
    let mut service = Command::new("unshare");
    service.args(["--mount", "--map-root-user", "sh", "-c"]);
    service.arg(
        "mkdir -p \"$1\" && mount -t tmpfs -o size=4k none \"$1\" || exit 99; rescued=$1; room=$2; out=$3; shift 3; \
         (while ! test -e \"$room\"; do sleep 0.1; done; mount -o remount,size=10m none \"$rescued\") & \
         \"$@\"; code=$?; touch \"$room\"; cp -r \"$rescued\" \"$out\"; exit $code",
    );
    service
        .arg("sh")
        .args([&site.state().join("rescued"), &room, &out]);
    service.arg(command.get_program()).args(command.get_args());
    let Ok(mut service) = service
        .stdout(Stdio::null())
        .stderr(fs::File::create(log(&site)).unwrap())
        .spawn()
    else {
        outhaul_tests::skipped("no mount namespace can be made here");
        return;
    };
    let said = || fs::read_to_string(log(&site)).unwrap();
    until("it does not start", || {
        said().starts_with("unshare:")
            || code_of(&mut service) == Some(99)
            || site.status()["service"] == true
    });
    if code_of(&mut service).is_some() {
        outhaul_tests::skipped("no mount namespace can be made here");
        return;
    }
    remove(&site, &["agent.db"]);
    until("it does not say that it stays", || {
        said().contains("the service stays")
    });
    let words = [
        "could not save it yet: the database was removed and cannot be saved (",
        " KiB are free",
        "Leave the service running",
    ];
    for _ in 0..2 {
        assert_reports(&site.run(&["status"]), 3, &words);
        assert_eq!(code_of(&mut service), None, "{}", said());
    }
    fs::write(&room, "").unwrap();
    let ended = service.wait().unwrap();
    assert_eq!(ended.code(), Some(3), "{}", said());
    assert!(
        said().contains("all that it held is saved in"),
        "{}",
        said()
    );
    outhaul_test_kit::folder::copy(&out, &site.state().join("rescued"));
    let again = stderr(&site.run(&["status"]));
    assert!(as_printed(&again, "if test ").status.success(), "{again}");
    assert!(has_all(&site.event_log(), &before));
    // What was saved in parts is there once.
    assert_eq!(
        fs::read_dir(site.state().join("rescued/reports"))
            .unwrap()
            .count(),
        1
    );
}

fn code_of(service: &mut std::process::Child) -> Option<i32> {
    service.try_wait().unwrap().and_then(|status| status.code())
}

#[test]
fn an_acknowledgement_that_begins_a_new_numbering_is_in_site_json_at_once() {
    let centre = Centre::new();
    let key = SigningKey::generate().unwrap();
    let kit = centre.kit_with("drone-7", "token", |kit| {
        kit.hub_key = key.public().to_pem();
    });
    let site = Site::with_kit("drone-7", &kit);
    site.take(&centre.publish(&Draft::hello("one")));
    let known = || -> serde_json::Value {
        serde_json::from_slice(&fs::read(site.state().join("site.json")).unwrap()).unwrap()
    };
    let epoch = known()["epoch"].as_str().unwrap().to_owned();
    let ack = Ack {
        fleet: site.status()["fleet"].as_str().unwrap().parse().unwrap(),
        site: "drone-7".parse().unwrap(),
        epoch: epoch.parse().unwrap(),
        number: 99,
        digest: None,
        hub_time_ms: 1,
    };
    let stick = tempfile::tempdir().unwrap();
    fs::create_dir(stick.path().join("acks")).unwrap();
    let signed = Envelope::sign(ACK_PAYLOAD_TYPE, serde_json::to_vec(&ack).unwrap(), &key);
    fs::write(stick.path().join("acks/drone-7.acks"), signed.to_json()).unwrap();
    let done = site.import(stick.path());
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    assert_eq!(known()["before"], serde_json::json!([epoch]));
    assert_eq!(known()["reports"], site.status()["reports_last"]);
}

#[test]
fn a_place_that_cannot_be_looked_at_any_more_keeps_no_removed_database_from_being_known_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let path: &Path = &folder.path().join("state/agent.db");
    fs::create_dir(folder.path().join("state")).unwrap();
    let store = outhaul_site::state::Store::open(path).unwrap();
    let aside = folder.path().join("aside");
    fs::rename(folder.path().join("state"), &aside).unwrap();
    fs::write(folder.path().join("state"), "no folder").unwrap();
    let looked = store.check_place().unwrap_err();
    assert!(
        looked.unsaved().is_none(),
        "it has a name somewhere: {looked}"
    );
    fs::remove_file(aside.join("agent.db")).unwrap();
    let looked = store.check_place().unwrap_err();
    assert!(looked.unsaved().is_some(), "{looked}");
}

#[test]
fn what_is_wrong_with_the_saved_reports_is_said_with_a_way_out_that_leads_further() {
    let centre = Centre::new();
    let site = running(&centre, "drone-7");
    let rescued = site.state().join("rescued");
    // A file in its place: the agent makes the folder itself.
    fs::write(&rescued, "").unwrap();
    let words = [
        "not the agent's own folder, which it makes itself",
        "put nothing in its place",
    ];
    assert_reports(&site.run(&["status"]), 3, &words);
    fs::remove_file(&rescued).unwrap();
    // Reports that nobody may read but another user, and a folder that others may write to.
    fs::create_dir_all(rescued.join("reports")).unwrap();
    let open =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    open(&site.state(), 0o777);
    let said = stderr(&site.run(&["status"]));
    assert!(
        said.contains("has mode 777: other users may have changed what is in it"),
        "{said}"
    );
    assert!(!stderr(&site.run(&["status"])).contains("has mode 7"));
    let _: () = open(site.folder.path(), 0o755);
    let nobody = |arguments: &[&str]| {
        let command = site.command(arguments);
        let mut other = Command::new("setpriv");
        other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        other.arg(command.get_program()).args(command.get_args());
        other.output().unwrap()
    };
    let owned = Command::new("chown")
        .args(["-R", "65534:65534"])
        .arg(site.state())
        .status();
    if !owned.unwrap().success() {
        outhaul_tests::skipped("no file can be given to another user here");
        return;
    }
    let reports = rescued.join("reports");
    let given = Command::new("chown").arg("0:0").arg(&reports).status();
    assert!(given.unwrap().success());
    open(&reports, 0o700);
    let refused = nobody(&["status"]);
    let words = [path(&reports), "belongs to user 0 (root), mode 700"];
    assert_reports(&refused, 3, &words);
    let command = as_printed(
        &stderr(&refused).replace("`sudo ", "`"),
        "chown -R 65534:65534",
    );
    assert!(command.status.success());
    assert_reports(&nobody(&["status"]), 0, &[]);
    // Where no site is yet, and the reports are another user's.
    for name in fs::read_dir(site.state())
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        if name != rescued {
            let _ = fs::remove_file(&name).or_else(|_| fs::remove_dir_all(&name));
        }
    }
    let given = Command::new("chown").arg("0:0").arg(site.state()).status();
    assert!(given.unwrap().success());
    let enrol = || site.run(&["enrol", path(&centre.kit("drone-7"))]);
    let refused = enrol();
    let words = [
        "it is what another user put there",
        "saved by a service of that user",
    ];
    assert_reports(&refused, 3, &words);
    let command = as_printed(&stderr(&refused).replace("`sudo ", "`"), "chown -R 0:0");
    assert!(command.status.success(), "{}", stderr(&refused));
    assert_reports(&enrol(), 0, &[]);
}

#[test]
fn a_bundle_that_waits_and_is_not_here_any_more_is_imported_before_it_is_approved() {
    let centre = Centre::new();
    let site = running(&centre, "drone-7");
    site.configure("approval = \"always\"\n");
    let two = centre.publish(&Draft::hello("two"));
    let waits = site.import(&two);
    assert!(
        stdout(&waits).contains("bundle 2 is waiting"),
        "{}",
        stdout(&waits)
    );
    for folder in ["blobs", "generations"] {
        fs::remove_dir_all(site.state().join(folder)).unwrap();
    }
    let next = site.status()["next"][0].as_str().unwrap().to_owned();
    assert!(next.starts_with("import bundle 2 again first"), "{next}");
    assert!(next.contains("`outhaul-agent approve 2`"), "{next}");
    site.ok(&["import", path(&two)]);
    site.ok(&["approve", "2"]);
    assert_eq!(site.active(), Some(2));
}
