//! Enabling and disabling on folders as they are found, and cut off after each step.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use super::*;

const DOCKER: &str = "server = \"https://docker.io\"\n[host.\"https://cache.site\"]\n";

fn mirror() -> Mirror {
    Mirror {
        url: "https://127.0.0.1:5443".into(),
        authority: Some("/ca.pem".into()),
    }
}

/// `certs.d` with a registry that has hosts, one that has certificates, and one that has nothing.
fn prepared() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("certs.d");
    for (name, file, text) in [
        ("docker.io", HOSTS, DOCKER),
        ("registry.site:5000", "ca.crt", "a certificate"),
    ] {
        fs::create_dir_all(folder.join(name)).unwrap();
        fs::write(folder.join(name).join(file), text).unwrap();
    }
    fs::create_dir(folder.join("quay.io")).unwrap();
    let mode = fs::Permissions::from_mode(0o640);
    fs::set_permissions(folder.join("docker.io/hosts.toml"), mode).unwrap();
    (root, folder)
}

/// Every file and folder below `root`: inode and content.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u64, u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(at) = waiting.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let about = fs::symlink_metadata(&path).unwrap();
            let content = fs::read(&path).unwrap_or_default();
            if about.is_dir() {
                waiting.push(path.clone());
            }
            found.insert(path, (about.ino(), about.mode(), content));
        }
    }
    found
}

fn whats(changes: &[FileChange]) -> Vec<(&str, &HostsFileOutcome)> {
    let name = |change: &FileChange| {
        change
            .path
            .parent()?
            .file_name()?
            .to_str()
            .map(str::to_owned)
    };
    let mut all: Vec<_> = changes
        .iter()
        .map(|change| (name(change).unwrap(), &change.what))
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.into_iter()
        .map(|(name, what)| (&*name.leak(), what))
        .collect()
}

#[test]
fn what_was_there_is_kept_asked_second_and_brought_back_as_the_same_file() {
    let (root, folder) = prepared();
    let before = tree(root.path());
    let changes = enable(&folder, &mirror()).unwrap();
    let kept = folder.join("docker.io").join(BEFORE);
    let all = whats(&changes);
    assert_eq!(all[0], ("_default", &HostsFileOutcome::Written));
    assert_eq!(all[1], ("docker.io", &HostsFileOutcome::Merged(kept)));
    assert_eq!(all[2], ("quay.io", &HostsFileOutcome::Written));
    assert!(
        matches!(all[3], ("registry.site:5000", HostsFileOutcome::Left(why)) if why.contains("certificates"))
    );
    let merged = fs::read_to_string(folder.join("docker.io/hosts.toml")).unwrap();
    assert!(
        merged.find("127.0.0.1:5443") < merged.find("cache.site"),
        "{merged}"
    );
    let mode = fs::metadata(folder.join("docker.io/hosts.toml"))
        .unwrap()
        .mode();
    assert_eq!(mode & 0o777, 0o640);

    // Again: nothing is written.
    let enabled = tree(root.path());
    let again = enable(&folder, &mirror()).unwrap();
    assert_eq!(
        again
            .iter()
            .filter(|one| one.what == HostsFileOutcome::Unchanged)
            .count(),
        3
    );
    assert_eq!(tree(root.path()), enabled);

    let changes = disable(&folder).unwrap();
    assert_eq!(
        whats(&changes),
        [
            ("_default", &HostsFileOutcome::Removed),
            ("docker.io", &HostsFileOutcome::Restored),
            ("quay.io", &HostsFileOutcome::Removed)
        ]
    );
    assert_eq!(tree(root.path()), before);
    assert_eq!(disable(&folder).unwrap(), []);
}

#[test]
fn a_folder_that_was_made_goes_again() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("containerd/certs.d");
    assert_eq!(disable(&folder).unwrap(), []);
    enable(&folder, &mirror()).unwrap();
    disable(&folder).unwrap();
    assert!(!folder.exists());
}

/// Every state that a cut between two steps of enabling can leave: the record alone; the second name; all.
#[test]
fn a_cut_after_any_step_is_finished_and_undone() {
    let cut_after = |steps: usize| {
        let (root, folder) = prepared();
        let before = tree(root.path());
        // Its record names no path: that of another folder alike is the same.
        let (_other, alike) = prepared();
        enable(&alike, &mirror()).unwrap();
        let record = fs::read(alike.join(record::FILE)).unwrap();
        let path = folder.join("docker.io/hosts.toml");
        let steps_done: [&dyn Fn(); 4] = [
            &|| fs::write(folder.join(record::FILE), &record).unwrap(),
            &|| {
                fs::create_dir(folder.join(DEFAULT)).unwrap();
            },
            &|| fs::hard_link(&path, folder.join("docker.io").join(BEFORE)).unwrap(),
            &|| durable::write(&path, mirror().merged(DOCKER).unwrap().as_bytes(), 0o640).unwrap(),
        ];
        steps_done.iter().take(steps).for_each(|step| step());
        (root, folder, before)
    };
    for steps in 1..=4 {
        let (root, folder, before) = cut_after(steps);
        disable(&folder).unwrap();
        assert_eq!(tree(root.path()), before, "undone after {steps} steps");
        let (root, folder, before) = cut_after(steps);
        enable(&folder, &mirror()).unwrap();
        let text = fs::read_to_string(folder.join("docker.io/hosts.toml")).unwrap();
        assert_eq!(
            text.matches("[host.\"https://127.0.0.1:5443\"]").count(),
            1,
            "{text}"
        );
        disable(&folder).unwrap();
        assert_eq!(
            tree(root.path()),
            before,
            "finished and undone after {steps} steps"
        );
    }
}

#[test]
fn another_address_takes_the_place_of_the_first_and_what_was_there_stays_the_oldest() {
    let (root, folder) = prepared();
    let before = tree(root.path());
    enable(&folder, &mirror()).unwrap();
    let other = Mirror {
        url: "https://127.0.0.1:6443".into(),
        ..mirror()
    };
    enable(&folder, &other).unwrap();
    let text = fs::read_to_string(folder.join("docker.io/hosts.toml")).unwrap();
    assert!(text.contains(":6443") && !text.contains(":5443"), "{text}");
    disable(&folder).unwrap();
    assert_eq!(tree(root.path()), before);
}

#[test]
fn what_somebody_has_changed_since_is_never_overwritten() {
    let (_root, folder) = prepared();
    enable(&folder, &mirror()).unwrap();
    for name in ["docker.io", DEFAULT] {
        fs::write(folder.join(name).join(HOSTS), "# mine\n").unwrap();
    }
    let changes = enable(&folder, &mirror()).unwrap();
    assert!(
        changes
            .iter()
            .any(|one| matches!(&one.what, HostsFileOutcome::Left(why) if why.contains("someone")))
    );
    fs::write(folder.join(DEFAULT).join(HOSTS), "# mine again\n").unwrap();
    let changes = disable(&folder).unwrap();
    let left = changes
        .iter()
        .filter(|one| matches!(one.what, HostsFileOutcome::Left(_)));
    assert_eq!(left.count(), 2, "{changes:?}");
    assert_eq!(
        fs::read_to_string(folder.join("docker.io/hosts.toml")).unwrap(),
        "# mine\n"
    );
    assert_eq!(
        fs::read_to_string(folder.join("docker.io").join(BEFORE)).unwrap(),
        DOCKER
    );
    // Put right by hand, the rest is undone.
    fs::remove_file(folder.join("docker.io/hosts.toml")).unwrap();
    fs::remove_file(folder.join(DEFAULT).join(HOSTS)).unwrap();
    disable(&folder).unwrap();
    assert_eq!(
        fs::read_to_string(folder.join("docker.io/hosts.toml")).unwrap(),
        DOCKER
    );
    assert!(!folder.join(record::FILE).exists());
}

#[test]
fn what_cannot_be_extended_is_named_file_by_file_before_any_is_written() {
    let (root, folder) = prepared();
    fs::write(folder.join("docker.io/hosts.toml"), "server = ").unwrap();
    fs::write(folder.join("quay.io").join(HOSTS), [0xff]).unwrap();
    let before = tree(root.path());
    let Err(ServeError::Hosts { problems }) = enable(&folder, &mirror()) else {
        panic!("two files are broken");
    };
    assert!(
        problems.len() == 2 && problems[0].contains("docker.io"),
        "{problems:?}"
    );
    assert_eq!(tree(root.path()), before);
}

#[test]
fn a_record_that_names_a_path_is_refused() {
    let (_root, folder) = prepared();
    let record = r#"{"format":"outhaul-containerd-v1","made_folder":false,"entries":{"../x":{"existed":false,"made_folder":false,"written":[]}}}"#;
    fs::write(folder.join(record::FILE), record).unwrap();
    let error = disable(&folder).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("is not the name of a registry's folder"),
        "{error}"
    );
}
