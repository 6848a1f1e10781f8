//! A state folder, or single files in it, that belong to another user than the one who gives a command.
//!
//! What must come out: file, owner and mode are named with the command that puts it right, for that user and for root alike; nobody is sent from
//! one to the other and back.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Command;

use outhaul_test_kit::{Centre, Draft};
use outhaul_tests::skipped;

use crate::site::{Site, assert_reports, stderr, stdout, tree};
use crate::split::{NOBODY, as_user, give, no_other_user};

/// A site of the user [`NOBODY`] that runs bundle 1, and bundle 2.
fn of_nobody() -> (Site, String) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(site.folder.path(), open).unwrap();
    let two = site.folder.path().join("two.outhaul");
    fs::copy(centre.publish(&Draft::hello("two")), &two).unwrap();
    give(&site.state(), NOBODY);
    (site, two.to_str().unwrap().to_owned())
}

#[test]
fn what_status_tells_root_to_type_in_another_users_folder_is_given_as_that_user() {
    if let Some(why) = no_other_user() {
        return skipped(why);
    }
    let (site, _) = of_nobody();
    let printed = stdout(&site.run(&["status"]));
    let typed = format!(
        "`sudo -u '#{NOBODY}' outhaul-agent --state {} export FOLDER`",
        site.state().to_str().unwrap()
    );
    assert!(printed.contains(&typed), "{printed}");
    assert!(!printed.contains("`outhaul-agent export"), "{printed}");
    // A page that cannot be written is named by its own name.
    let closed = site.folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let page = closed.join("page.html");
    let done = as_user(&site, NOBODY, &["status", "--page", page.to_str().unwrap()]);
    let named = format!("cannot write `{}`", page.to_str().unwrap());
    assert_reports(&done, 3, &[&named]);
}

/// Runs the last command in backquotes with `what`, as root.
#[track_caller]
fn type_as_root(said: &str, what: &str) {
    let quoted = said.split('`').skip(1).step_by(2);
    let command = quoted.filter(|quoted| quoted.contains(what)).last();
    let command = command.unwrap_or_else(|| panic!("{said}"));
    let command = command.trim_start_matches("sudo ");
    let done = Command::new("sh").args(["-c", command]).status();
    assert!(done.unwrap().success(), "{command}");
}

#[test]
fn a_folder_of_root_with_another_users_site_is_given_back_by_what_is_printed() {
    if let Some(why) = no_other_user() {
        return skipped(why);
    }
    for by_root in [false, true] {
        let (site, two) = of_nobody();
        chown(site.state(), Some(0), Some(0)).unwrap();
        let before = tree(&site.state());
        let of_user = as_user(&site, NOBODY, &["import", &two]);
        let words = ["belongs to user 0 (root), mode 700", "runs as user 65534"];
        assert_reports(&of_user, 3, &words);
        let of_root = site.run(&["import", &two]);
        let words = ["belongs to user 0 (root), and `agent.db` in it to user 65534"];
        assert_reports(&of_root, 3, &words);
        assert_eq!(tree(&site.state()), before);
        match by_root {
            true => type_as_root(&stderr(&of_root), "chown -R 65534:"),
            false => type_as_root(&stderr(&of_user), "sudo chown -R 65534:"),
        }
        assert_reports(&as_user(&site, NOBODY, &["import", &two]), 0, &[]);
        assert_eq!(site.active(), Some(2));
    }
}

#[test]
fn a_file_of_root_in_another_users_folder_is_named_and_given_back_by_what_is_printed() {
    if let Some(why) = no_other_user() {
        return skipped(why);
    }
    for name in ["lock", "agent.db", "site.key", "floors.json", "generations"] {
        let (site, two) = of_nobody();
        chown(site.state().join(name), Some(0), Some(0)).unwrap();
        let before = tree(&site.state());
        let named = format!("{name}` belongs to user 0 (root), mode ");
        let status = as_user(&site, NOBODY, &["status"]);
        assert_reports(&status, 3, &[&named, "sudo chown"]);
        // Nobody works there.
        assert!(!stdout(&status).contains("is at work"), "{status:?}");
        for command in [&["run", "--once"][..], &["import", &two], &["hold"]] {
            let refused = as_user(&site, NOBODY, command);
            assert_reports(&refused, 3, &[&named, "nothing was changed"]);
        }
        assert_eq!(tree(&site.state()), before, "{name}");
        type_as_root(&stderr(&status), "chown");
        assert_reports(&as_user(&site, NOBODY, &["import", &two]), 0, &[]);
    }
}

#[test]
fn a_file_that_its_owner_may_not_read_is_opened_by_what_is_printed() {
    if let Some(why) = no_other_user() {
        return skipped(why);
    }
    let (site, two) = of_nobody();
    let floors = site.state().join("floors.json");
    fs::set_permissions(floors, fs::Permissions::from_mode(0o000)).unwrap();
    let refused = as_user(&site, NOBODY, &["import", &two]);
    assert_reports(&refused, 3, &["floors.json` belongs to user 65534, mode 0"]);
    type_as_root(&stderr(&refused), "chmod");
    assert_reports(&as_user(&site, NOBODY, &["import", &two]), 0, &[]);
}

#[test]
fn a_kit_and_a_backup_of_another_user_go_through_a_place_between_as_printed() {
    if let Some(why) = no_other_user() {
        return skipped(why);
    }
    let (site, _) = of_nobody();
    let centre = Centre::new();
    // The folder of the person who gives the commands.
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let name = format!("drone-7-of-{}", std::process::id());
    let to = home.path().join(format!("{name}.backup"));
    let to = to.to_str().unwrap();
    let emptied = || {
        fs::remove_dir_all(site.state()).unwrap();
        fs::create_dir(site.state()).unwrap();
        give(&site.state(), NOBODY);
    };
    let refused = as_user(&site, NOBODY, &["backup", "--with-content", "--to", to]);
    let words = [
        "Permission denied",
        "runs as user 65534",
        "nothing was written",
    ];
    assert_reports(&refused, 3, &words);
    type_all(&site, &stderr(&refused));
    assert!(fs::metadata(to).unwrap().len() > 0);

    emptied();
    let restore = ["restore", to, "--who", "ann the second"];
    let refused = as_user(&site, NOBODY, &restore);
    assert_reports(&refused, 3, &["Permission denied", "nothing was changed"]);
    let digest = format!("sha256:{}", "0".repeat(64));
    let of_other = [&restore[..], &["--digest", &digest]].concat();
    let of_other = stderr(&as_user(&site, NOBODY, &of_other));
    let word = format!("restore --digest {digest} --who 'ann the second' /");
    assert!(of_other.contains(&word), "{of_other}");
    type_all(&site, &stderr(&refused));
    assert_eq!(site.status()["restored"]["who"], "ann the second");
    assert_eq!(site.status()["active"], 1);

    emptied();
    let kit = home.path().join(format!("{name}.kit"));
    fs::copy(centre.kit("drone-7"), &kit).unwrap();
    let refused = as_user(&site, NOBODY, &["enrol", kit.to_str().unwrap()]);
    assert_reports(&refused, 3, &["Permission denied", "nothing was changed"]);
    type_all(&site, &stderr(&refused));
    assert_eq!(site.status()["site"], "drone-7");
}

/// Types each printed command as it is printed, with what stands for `sudo` where this user is root already.
#[track_caller]
fn type_all(site: &Site, said: &str) {
    let programs = site.folder.path().join("bin");
    fs::create_dir_all(&programs).unwrap();
    let sudo = programs.join("sudo");
    let text = "#!/bin/sh\nif [ \"$1\" = -u ]; then user=${2#\\#}; shift 2; set -- setpriv --reuid=$user --regid=$user --clear-groups -- \"$@\"; fi\n\
                exec env -u OUTHAUL_STATE \"$@\"\n";
    fs::write(&sudo, text).unwrap();
    fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!(
        "{}:{}:{path}",
        programs.display(),
        site.folder.path().display()
    );
    let help = said.split("help: ").nth(1).unwrap();
    let quoted: Vec<_> = help.split('`').skip(1).step_by(2).collect();
    assert_eq!(quoted.len(), 3, "{said}");
    for command in quoted {
        let mut typed = Command::new("sh");
        typed.args(["-c", command]).env("PATH", &path);
        let done = typed.output().unwrap();
        assert!(done.status.success(), "{command}: {}", stderr(&done));
    }
}
