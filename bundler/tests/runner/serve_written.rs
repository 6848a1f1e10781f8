//! `outhaul serve` and what it wrote: a round finds what someone removed or changed of it, and writes it again; and what stays wrong.
//!
//! What comes in: a service that brought two environments, and files, folders and branches that are changed by hand. What must come out:
//! everything as it was written, by the next round, and nothing in a round after that.

use std::fs;
use std::path::PathBuf;

use super::repositories::{git, on_branch};
use super::serve::Centre;

fn only(folder: PathBuf, says: &str) -> PathBuf {
    let mut entries: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(says))
        .collect();
    entries.sort();
    entries.remove(0)
}

#[test]
fn what_is_gone_or_changed_of_what_was_written_is_written_again_by_the_next_round() {
    let centre = Centre::new();
    assert_eq!(centre.once().0, 0);
    let quiet = |centre: &Centre| {
        let (code, said) = centre.once();
        assert_eq!(code, 0, "{said}");
        assert_eq!(said.lines().count(), 2, "{said}");
    };
    quiet(&centre);
    let blob = only(centre.path("published/blobs/sha256"), "");
    let bundle = only(centre.path("bundles"), "dev-drone-1");
    let timestamp = centre.path("published/metadata/timestamp.json");
    for path in [&blob, &bundle, &timestamp] {
        let right = fs::read(path).unwrap();
        for change in [None, Some(vec![b'x'; right.len()])] {
            match change {
                None => fs::remove_file(path).unwrap(),
                Some(other) => fs::write(path, other).unwrap(),
            }
            let (code, said) = centre.once();
            assert_eq!(code, 0, "{said}");
            assert!(
                said.contains(path.file_name().unwrap().to_str().unwrap()),
                "{said}"
            );
            assert_eq!(fs::read(path).unwrap(), right, "{}", path.display());
            quiet(&centre);
        }
    }

    // The branch of the platform repository: changed by hand, and gone.
    let platform = centre.path("platform.git");
    let tree = || git(&platform, &["rev-parse", "dev^{tree}"]);
    let right = tree();
    let copy = centre.path("copy");
    git(
        &centre.path("."),
        &["clone", "--quiet", "platform.git", "copy"],
    );
    on_branch(&copy, "dev", |copy| {
        fs::write(
            copy.join("drone/hello-dev/platform-config.yaml"),
            "by: hand\n",
        )
        .unwrap();
    });
    git(&copy, &["push", "--quiet", "origin", "dev"]);
    let (code, said) = centre.once();
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("was edited directly in branch `dev`"),
        "{said}"
    );
    assert_eq!(tree(), right);
    quiet(&centre);
    git(&platform, &["update-ref", "-d", "refs/heads/dev"]);
    let (code, said) = centre.once();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("dev: branch `dev` of platform.git"), "{said}");
    assert_eq!(tree(), right);
    quiet(&centre);

    // Without the repository nothing is up to date.
    fs::rename(&platform, centre.path("elsewhere.git")).unwrap();
    let (code, said) = centre.once();
    assert_ne!(code, 0, "{said}");
    assert!(!said.contains("up to date"), "{said}");
    fs::rename(centre.path("elsewhere.git"), &platform).unwrap();
    quiet(&centre);
}

#[test]
fn a_folder_for_published_bundles_that_may_be_mistyped_is_refused_and_not_made() {
    let centre = Centre::new();
    let serve = fs::read_to_string(centre.path("serve.toml")).unwrap();
    let serve = serve.replace("publish = \"published\"", "publish = \"missing/web\"");
    fs::write(centre.path("serve.toml"), serve).unwrap();
    let (code, said) = centre.once();
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("`publish = \"missing/web\"`: there is no folder `missing`"),
        "{said}"
    );
    for path in ["missing", "bundles"] {
        assert!(!centre.path(path).exists(), "{path}");
    }
    fs::create_dir(centre.path("missing")).unwrap();
    let (code, said) = centre.once();
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("`missing/web` was not there, and was made for what is published"),
        "{said}"
    );
    assert!(centre.path("missing/web/metadata/timestamp.json").is_file());
}

#[test]
fn a_site_of_a_cluster_type_that_is_gone_is_wrong_for_as_long_as_it_follows_it() {
    let centre = Centre::new();
    assert_eq!(centre.once().0, 0);
    centre.outhaul(
        "site enrol drone-1 --fleet fleet --environment stage --cluster-type drone --out drone-1.kit",
    );
    let types = centre.path("plane");
    on_branch(&types, "stage", |copy| {
        for entry in fs::read_dir(copy).unwrap() {
            let path = entry.unwrap().path();
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            if text.contains("kind: ClusterType") {
                fs::write(&path, text.replace("name: drone", "name: press")).unwrap();
            }
        }
    });
    git(&types, &["checkout", "--quiet", "main"]);
    // The branch keeps what it has, and is said to, beside the bundle that was made.
    let (code, said) = centre.once();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("the branch is as it was"), "{said}");
    let serve = fs::read_to_string(centre.path("serve.toml")).unwrap();
    let serve = serve.replace("git = { to = \"platform.git\" }", "");
    fs::write(centre.path("serve.toml"), serve).unwrap();
    for _ in 0..2 {
        let (code, said) = centre.once();
        assert_eq!(code, 1, "{said}");
        assert!(
            said.contains("`stage` has no cluster type `drone`"),
            "{said}"
        );
        assert!(said.contains("drone-1"), "{said}");
    }
    fs::remove_file(centre.path("fleet/sites/drone-1.json")).unwrap();
    let (code, said) = centre.once();
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_service_that_has_nothing_to_promote_says_so_and_names_hooks_without_a_policy() {
    let centre = Centre::new();
    let config = fs::read_to_string(centre.path("serve.toml")).unwrap();
    let promote = "[promote]\nhub = \"https://hub.example\"\nhooks = [\"scna=/bin/true\"]\n";
    centre
        .fixture
        .write("serve.toml", &format!("{config}{promote}"));
    let (code, said) = centre.once();
    assert_eq!(code, 0, "{said}");
    for note in [
        "promotion: note: there is nothing to promote: `.environments/` has no PromotionPolicy, and `[promote]` no `first`",
        "promotion: note: no promotion policy has a hook `scna`, for which a program was given: no policy has any hook",
    ] {
        assert!(said.contains(note), "`{note}` is not in:\n{said}");
    }
}
