//! `plan`: it takes what `import` takes, refuses what `import` refuses, and changes nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use outhaul_bundle::Instruction;
use outhaul_test_kit::{Centre, Draft, Load, noise};

use crate::ansible::{playbook, with_ansible, write};
use crate::order_trust::{damaged, difference, everything, move_to};
use crate::orders::running;
use crate::site::{Site, code, stderr, stdout};
use crate::split::Split;
use crate::taken_away::{DATABASE, remove};

/// Plans on one copy of the site and imports on another: the same refusals, and only the import changes
/// anything.
#[track_caller]
fn as_import(site: &Site, arguments: &[&str]) -> (Output, Output) {
    let (planning, importing) = (site.copy(), site.copy());
    let before = everything(&planning);
    let planned = planning.run(&[&["plan"], arguments].concat());
    let changed = difference(&before, &everything(&planning));
    assert!(changed.is_empty(), "{arguments:?}: {changed:#?}");
    let imported = importing.run(&[&["import"], arguments].concat());
    assert_eq!(
        code(&planned),
        code(&imported),
        "{arguments:?}\n{}\n{}",
        stderr(&planned),
        stderr(&imported)
    );
    let refusals = |output: &Output| -> Vec<String> {
        let lines = stderr(output);
        let of_error = |line: &&str| {
            ["error:", "help:", "skipped"]
                .iter()
                .any(|w| line.starts_with(w))
        };
        lines.lines().filter(of_error).map(str::to_owned).collect()
    };
    assert_eq!(refusals(&planned), refusals(&imported), "{arguments:?}");
    (planned, imported)
}

fn stick(files: &[&Path]) -> tempfile::TempDir {
    let stick = tempfile::tempdir().unwrap();
    for file in files {
        fs::copy(file, stick.path().join(file.file_name().unwrap())).unwrap();
    }
    stick
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_plan_refuses_what_an_import_refuses_and_changes_nothing() {
    let centre = Centre::new();
    let site = running(&centre);
    let old = centre.folder().join("drone-1.outhaul");
    let load = Load::new("hello").file("big.bin", noise(100_000));
    let two = centre.publish(&Draft::new([load]));
    let [flipped, cut] = damaged(&two);
    let other = centre.publish(&Draft::hello("elsewhere").cluster_type("press"));
    let elsewhere = Centre::new();
    let foreign = elsewhere.publish(&Draft::hello("foreign"));
    let only = centre.publish(&Draft::hello("three").only_for("drone-9"));
    let none = site.folder.path().join("nowhere.outhaul");
    let empty = stick(&[]);
    let wrong = site.folder.path().join("text.slip");
    fs::write(&wrong, "no slip").unwrap();
    for bad in [&flipped, &cut, &other, &foreign, &only, &none, &wrong] {
        let (planned, _) = as_import(&site, &[text(bad)]);
        assert_ne!(code(&planned), 0, "{}: {}", bad.display(), stdout(&planned));
    }
    as_import(&site, &[text(&old)]);
    as_import(&site, &[text(empty.path())]);
    as_import(&site, &["--text", "OUTHAUL:9X54"]);
    let several = stick(&[&flipped, &other, &foreign]);
    as_import(&site, &[text(several.path())]);
    // The newest is damaged: the one before it is taken.
    let several = stick(&[&flipped, &two, &old]);
    let (planned, imported) = as_import(&site, &[text(several.path())]);
    assert!(
        stdout(&planned).contains("bundle 2 instead of 1"),
        "{}",
        stdout(&planned)
    );
    assert!(
        stdout(&imported).contains("bundle 2 is active"),
        "{}",
        stdout(&imported)
    );
}

#[test]
fn a_plan_shows_orders_and_does_none() {
    let centre = Centre::new();
    centre.publish(&Draft::hello("elsewhere").cluster_type("press"));
    let site = running(&centre);
    let rows: [(Instruction, &[&str]); 3] = [
        (
            Instruction::Rekey,
            &["order 1 `rekey`", "new keys", "change hello"],
        ),
        (
            move_to(&centre, "press", 90),
            &[
                "order 1 `move`",
                "dev/press from bundle 90",
                "nothing else of it",
            ],
        ),
        (
            Instruction::Revoke,
            &[
                "order 1 `revoke`",
                "installs nothing new",
                "nothing else of it",
            ],
        ),
    ];
    for (what, words) in rows {
        let bundle = centre.publish(&Draft::hello("two").order("drone-7", 1, what));
        let stick = stick(&[&bundle]);
        let (planned, imported) = as_import(&site, &[text(stick.path())]);
        assert_eq!(code(&planned), 0, "{}", stderr(&planned));
        let printed = stdout(&planned);
        for word in words {
            assert!(printed.contains(word), "`{word}` is not in: {printed}");
        }
        // The import carries out just that.
        let done = stdout(&imported) + &stderr(&imported);
        assert!(done.contains("order"), "{done}");
    }
}

#[test]
fn a_plan_says_what_would_wait_and_for_whom() {
    let centre = Centre::new();
    let site = running(&centre);
    let two = centre.publish(&Draft::hello("two"));
    site.configure("approval = \"always\"");
    let (planned, imported) = as_import(&site, &[text(&two)]);
    let printed = stdout(&planned);
    assert!(
        printed.contains("it would wait: approve it with `outhaul-agent approve 2`"),
        "{printed}"
    );
    assert!(
        stdout(&imported)
            .contains("bundle 2 is waiting: approve it with `outhaul-agent approve 2`"),
        "{}",
        stdout(&imported)
    );
    // It is here now and waits: that is said, too.
    site.ok(&["import", text(&two)]);
    let (planned, _) = as_import(&site, &[text(&two)]);
    assert!(stdout(&planned).contains("waiting"), "{}", stdout(&planned));
}

#[test]
fn a_slip_on_a_stick_counts_for_the_bundles_beside_it() {
    let centre = Centre::new();
    let site = running(&centre);
    let two = centre.publish(&Draft::hello("two"));
    let three = centre.publish(&Draft::hello("three"));
    let slip = centre.slip("drone");
    let (planned, _) = as_import(&site, &[text(&slip)]);
    assert!(
        stdout(&planned).contains("floors would rise"),
        "{}",
        stdout(&planned)
    );
    // What the slip rules out is refused by the plan as well, though floors did not rise.
    let overtaken = stick(&[&slip, &two]);
    let (planned, _) = as_import(&site, &[text(overtaken.path())]);
    assert!(
        !stdout(&planned).contains("bundle 2 instead"),
        "{}",
        stdout(&planned)
    );
    let good: [PathBuf; 2] = [slip, three];
    let good = stick(&good.each_ref().map(PathBuf::as_path));
    let (planned, _) = as_import(&site, &[text(good.path())]);
    assert!(
        stdout(&planned).contains("bundle 3 instead of 1"),
        "{}",
        stdout(&planned)
    );
}

#[test]
fn what_an_import_remembered_is_no_nothing() {
    let centre = Centre::new();
    let site = running(&centre);
    let one = centre.folder().join("drone-1.outhaul");
    let (_, imported) = as_import(&site, &[text(&one)]);
    assert_eq!(
        stdout(&imported),
        "bundle 1 is already active; nothing was applied\n"
    );
    let again = centre.publish_again(&Draft::hello("one"), 1);
    let (planned, imported) = as_import(&site, &[text(&again)]);
    for (printed, words) in [
        (stdout(&planned), "its newer metadata would be remembered: "),
        (
            stdout(&imported),
            "nothing was applied, and its newer metadata is remembered: ",
        ),
    ] {
        assert!(
            printed.contains(words) && printed.contains("timestamp"),
            "{printed}{}",
            stderr(&imported)
        );
    }
    let value = site.ok(&["import", text(&again)]);
    assert!(
        !value["remembered"].as_array().unwrap().is_empty(),
        "{value}"
    );
}

#[test]
fn a_plan_names_sealed_values_that_this_site_cannot_open_and_where_they_stand() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let stranger = outhaul_seal::Identity::generate().recipient().to_string();
    let fleet = site.status()["fleet"].as_str().unwrap().to_owned();
    let bound = format!("{fleet}/dev/hello/PASSWORD");
    let marker = outhaul_seal::marker::seal_value(
        "s3cret value",
        &[stranger.parse().unwrap()],
        &bound.parse().unwrap(),
    );
    let text = format!("a: plain\npassword: {}\n", marker.unwrap());
    let load = Load::new("hello").file("config.yaml", text);
    let bundle = centre.publish(&Draft::new([load]));
    let planned = site.run(&["plan", bundle.to_str().unwrap()]);
    assert_eq!(code(&planned), 0, "{}", stderr(&planned));
    let printed = stdout(&planned);
    let line = printed
        .lines()
        .find(|line| line.contains("this site cannot open"));
    let line = line.unwrap_or_else(|| panic!("{printed}"));
    for word in ["`hello`", "`config.yaml`", "line 2", "sealed for others"] {
        assert!(line.contains(word), "`{word}` is not in: {line}");
    }
    assert!(!printed.contains("s3cret value"), "{printed}");
    // What it says would fail does.
    let taken = site.import(&bundle);
    assert_ne!(code(&taken), 0, "{}", stdout(&taken));
}

#[test]
fn a_plan_says_that_playbooks_run_whatever_is_known_of_what_runs() {
    let Some((centre, site)) = with_ansible() else {
        return;
    };
    let load = |name: &str| {
        let tasks = write("a file", name, "{{ outhaul_assignment }}");
        Load::new(name).file("reconciler.yaml", playbook(&tasks))
    };
    let of_ansible = |loads: Vec<Load>| Draft::new(loads).ansible();
    let backup = site.folder.path().join("drone-7.backup");
    let one = centre.publish(&of_ansible(vec![load("hello")]));
    site.take(&one);
    site.ok(&["backup", "--to", text(&backup)]);
    let two = centre.publish(&of_ansible(vec![load("hello"), load("more")]));
    let planned = |site: &Site, bundle: &Path| stdout(&site.run(&["plan", text(bundle)]));
    let known = planned(&site, &two);
    assert!(
        known.contains("run again, though unchanged: hello") && known.contains("add more"),
        "{known}"
    );
    // What ran is not here any more.
    let unknown = |site: &Site, bundle: &Path, first: &str| {
        let printed = planned(site, bundle);
        for words in [first, "  change hello\n    run reconciler.yaml"] {
            assert!(printed.contains(words), "{printed}");
        }
        assert!(!printed.contains("nothing would change"), "{printed}");
        fs::remove_file(site.folder.path().join("out/hello")).unwrap();
        assert_eq!(code(&site.import(bundle)), 0);
        assert!(site.folder.path().join("out/hello").exists());
    };
    fs::remove_dir_all(site.state().join("generations/1")).unwrap();
    let again = [
        "bundle 1 again:",
        "  its content is not here and would be stored again",
    ];
    unknown(&site, &one, &again.join("\n"));
    fs::rename(site.state(), site.folder.path().join("aside")).unwrap();
    site.ok(&["restore", text(&backup), "--who", "ann"]);
    unknown(&site, &one, &again.join("\n"));
    remove(&site, &DATABASE);
    site.ok(&["enrol", text(&centre.kit_with("drone-7", "second", |_| {}))]);
    unknown(
        &site,
        &two,
        "bundle 2, the first since the database of this site was lost:",
    );
}

#[test]
fn a_plan_says_that_blobs_would_be_copied_which_are_missing() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let one = centre.publish(&Draft::hello("one"));
    site.take(&one);
    fs::remove_dir_all(site.state().join("blobs")).unwrap();
    let planned = stdout(&site.run(&["plan", text(&one)]));
    assert!(
        planned.contains("of its stored blobs, which are missing here, would be copied"),
        "{planned}"
    );
}

#[test]
fn a_plan_fails_as_the_import_does_where_files_of_a_lost_database_are_in_the_way() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    remove(&site, &DATABASE);
    fs::remove_dir_all(site.state().join("generations")).unwrap();
    site.ok(&["enrol", text(&centre.kit_with("drone-7", "second", |_| {}))]);
    let two = centre.publish(&Draft::hello("two"));
    let planned = site.run(&["plan", text(&two)]);
    let words = "/applied/hello/manifest.yaml` is there and is not Outhaul's";
    let printed = stdout(&planned);
    assert!(
        printed.contains("it would fail: `") && printed.contains(words),
        "{printed}"
    );
    let imported = site.import(&two);
    assert!(stdout(&imported).contains(words), "{}", stdout(&imported));
    assert_eq!((code(&planned), code(&imported)), (1, 1));
}

#[test]
fn a_plan_says_that_only_the_apply_helper_can_look_for_files_in_the_way_which_the_import_names() {
    let centre = Centre::new();
    let split = Split::new(Site::new(&centre, "drone-7"));
    let foreign = split.folder().join("applied/hello/manifest.yaml");
    fs::create_dir_all(foreign.parent().unwrap()).unwrap();
    fs::write(&foreign, "someone else's\n").unwrap();
    let one = centre.publish(&Draft::hello("one"));
    let planned = split.site.run(&["plan", text(&one)]);
    let words = "were not looked for, because only the apply helper can look";
    assert!(stdout(&planned).contains(words), "{}", stdout(&planned));
    let imported = split.site.import(&one);
    let named = "/applied/hello/manifest.yaml` is there and is not Outhaul's";
    assert!(stdout(&imported).contains(named), "{}", stdout(&imported));
    assert_eq!((code(&planned), code(&imported)), (0, 1));
}

#[test]
fn a_plan_says_what_a_bundle_would_wait_for_and_until_when() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let delays = site.folder.path().join("later");
    fs::create_dir(&delays).unwrap();
    fs::write(delays.join("press"), "a print job runs").unwrap();
    site.configure(&format!(
        "approval = \"always\"\n[delay]\nfolder = {delays:?}\n[health]\nsoak_s = 600\n"
    ));
    let one = centre.publish(&Draft::hello("one"));
    let planned = stdout(&site.run(&["plan", text(&one)]));
    for words in [
        "it would wait: ",
        "`press`",
        "a print job runs",
        "until ",
        "`outhaul-agent approve 1`",
        "when this site stays healthy for 600 s",
    ] {
        assert!(planned.contains(words), "`{words}`: {planned}");
    }
    assert!(site.status()["generations"].as_array().unwrap().is_empty());
}
