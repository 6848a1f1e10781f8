//! What someone did to a platform branch since it was published: the mode of a file, and the branch itself.
//!
//! What comes in: a control plane that `outhaul init` wrote, published to a bare repository, and changes there. What must come out: files as
//! they are rendered, and a warning.

use super::gate::GateFixture;
use super::repositories::git;

const PUBLISH: &str = "publish git --environment dev --control-plane cp --to platform.git";

#[test]
fn a_mode_that_was_changed_and_a_branch_that_is_gone_are_reported() {
    let made = GateFixture::new();
    let all = made.path(".");
    git(&all, &["init", "--quiet", "--bare", "platform.git"]);
    let (_, _, err) = made.ok(PUBLISH);
    assert!(!err.contains("warning: "), "{err}");
    let platform = made.path("platform.git");
    let listed = git(&platform, &["ls-tree", "-r", "dev"]);
    let of_edge = |line: &&str| line.contains("\tedge/");
    let (what, path) = listed
        .lines()
        .find(of_edge)
        .unwrap()
        .split_once('\t')
        .unwrap();
    assert!(what.starts_with("100644 blob "), "{what}");
    git(
        &all,
        &[
            "clone",
            "--quiet",
            "--branch",
            "dev",
            "platform.git",
            "clone",
        ],
    );
    let clone = made.path("clone");
    git(&clone, &["update-index", "--chmod=+x", path]);
    let by = ["-c", "user.name=Jo", "-c", "user.email=jo@example.org"];
    git(
        &clone,
        &[&by[..], &["commit", "--quiet", "-m", "chmod"]].concat(),
    );
    git(&clone, &["push", "--quiet", "origin", "dev"]);
    assert!(git(&platform, &["ls-tree", "dev", path]).starts_with("100755 "));

    let (_, _, err) = made.ok(PUBLISH);
    let warning = format!("warning: `{path}` was edited directly in the branch");
    assert!(err.contains(&warning), "{err}");
    assert!(git(&platform, &["ls-tree", "dev", path]).starts_with("100644 "));

    let tip = git(&platform, &["rev-parse", "dev"]);
    git(&platform, &["update-ref", "-d", "refs/heads/dev"]);
    let (_, _, err) = made.ok(PUBLISH);
    let warning = format!("warning: branch `dev` was at {tip} when it was last seen from here");
    assert!(err.contains(&warning), "{err}");
    let (_, _, err) = made.ok(PUBLISH);
    assert!(!err.contains("warning: "), "{err}");
}
