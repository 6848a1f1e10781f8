//! Files of somebody else where this site has applied nothing yet: in another target, and on the machine that a backup is restored on.
//!
//! What must come out: they stay as they are, `plan` and `import` name them, and `plan` lists what is written again.

use std::fs;
use std::path::{Path, PathBuf};

use outhaul_test_kit::{Centre, Draft};

use crate::site::{Site, code, stderr, stdout};

const WORDS: &str = "is there and is not Outhaul's";

#[track_caller]
fn assert_in_the_way(site: &Site, bundle: &Path) {
    let planned = site.run(&["plan", bundle.to_str().unwrap()]);
    assert_eq!(code(&planned), 1, "{}", stdout(&planned));
    assert!(stdout(&planned).contains(WORDS), "{}", stdout(&planned));
}

/// A file of somebody else at the path of one that this agent applied elsewhere.
fn foreign(target: &Path) -> PathBuf {
    let path = target.join("hello/manifest.yaml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "FOREIGN").unwrap();
    path
}

#[test]
fn a_file_of_somebody_else_in_another_target_is_not_written_over_and_plan_says_so() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let two = centre.publish(&Draft::hello("two"));
    let new = site.folder.path().join("new");
    site.configure(&format!("[folder]\ntarget = {new:?}\n"));
    // Nothing is there: all of it is written.
    let planned = stdout(&site.run(&["plan", two.to_str().unwrap()]));
    assert!(planned.contains("add hello/manifest.yaml"), "{planned}");
    let file = foreign(&new);
    assert_in_the_way(&site, &two);
    for command in [&["apply"][..], &["import", two.to_str().unwrap()]] {
        let said = site.run(command);
        assert_eq!(code(&said), 1, "{command:?}");
        let said = stdout(&said) + &stderr(&said);
        assert!(said.contains(WORDS), "{command:?}: {said}");
        assert_eq!(fs::read(&file).unwrap(), b"FOREIGN", "{command:?}");
    }
    fs::remove_file(&file).unwrap();
    site.ok(&["apply"]);
    site.take(&centre.publish(&Draft::hello("three")));
    assert_eq!(fs::read(&file).unwrap(), b"greeting: three\n");
    // In the first target, what this agent wrote there is its own still.
    site.configure("");
    let four = centre.publish(&Draft::hello("four"));
    let planned = stdout(&site.run(&["plan", four.to_str().unwrap()]));
    assert!(planned.contains("change hello/manifest.yaml"), "{planned}");
    site.take(&four);
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: four\n");
}

#[test]
fn an_emptied_target_is_what_plan_says_is_written_again() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let two = centre.publish(&Draft::hello("one"));
    let planned = stdout(&site.run(&["plan", two.to_str().unwrap()]));
    assert!(planned.contains("nothing would change"), "{planned}");
    fs::remove_dir_all(site.state().join("applied")).unwrap();
    let planned = stdout(&site.run(&["plan", two.to_str().unwrap()]));
    assert!(planned.contains("add hello/manifest.yaml"), "{planned}");
    assert!(!planned.contains("nothing would change"), "{planned}");
    site.take(&two);
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: one\n");
}

#[test]
fn a_file_of_somebody_else_on_the_machine_of_a_restored_site_is_not_written_over() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let target = site.folder.path().join("srv");
    site.configure(&format!("[folder]\ntarget = {target:?}\n"));
    site.take(&centre.publish(&Draft::hello("one")));
    let backup = site.folder.path().join("drone-7.backup");
    site.ok(&["backup", "--to", backup.to_str().unwrap(), "--with-content"]);
    fs::rename(site.state(), site.folder.path().join("former")).unwrap();
    site.ok(&["restore", backup.to_str().unwrap(), "--who", "ann"]);
    let two = centre.publish(&Draft::hello("two"));
    let copy = site.folder.path().join("former-target");
    // What lies there as it was applied is this agent's.
    let planned = stdout(&site.run(&["plan", two.to_str().unwrap()]));
    assert!(planned.contains("change hello/manifest.yaml"), "{planned}");
    fs::rename(&target, &copy).unwrap();
    let planned = stdout(&site.run(&["plan", two.to_str().unwrap()]));
    assert!(planned.contains("add hello/manifest.yaml"), "{planned}");
    let file = foreign(&target);
    assert_in_the_way(&site, &two);
    for command in [&["apply"][..], &["import", two.to_str().unwrap()]] {
        let said = site.run(command);
        assert_eq!(code(&said), 1, "{command:?}");
        let said = stdout(&said) + &stderr(&said);
        assert!(said.contains(WORDS), "{command:?}: {said}");
        assert_eq!(fs::read(&file).unwrap(), b"FOREIGN", "{command:?}");
    }
    fs::remove_file(&file).unwrap();
    site.ok(&["apply"]);
    assert!(file.exists());
}
