//! A base that ordinary commits move, and promotion commits written by hand: nothing is shipped from them.
//!
//! What comes in: a control plane that `outhaul init` wrote, with promotions through an open gate, and commits of someone who may push to
//! the branch. What must come out: a refusal that names the commit and what is wrong with it, and the ways that are on record.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::gate::GateFixture;
use super::repositories::{commit, git};

const KEYS: &str = "--fleet fleet --passphrase-file passphrase";

/// A fixture whose `stage` was promoted twice, with both commits and the commits on the branch.
struct Promoted {
    made: GateFixture,
    bases: [String; 2],
    moves: [String; 2],
}

fn promoted_twice() -> Promoted {
    let made = GateFixture::new();
    made.opens(&["dev"]);
    let step = |text: &str| {
        git(&made.path("cp"), &["checkout", "--quiet", "main"]);
        fs::write(made.path("cp/configs/more.txt"), text).unwrap();
        let base = commit(&made.path("cp"), text);
        made.ok("promote --control-plane cp --to dev");
        let hub = made.hub();
        made.ok(&format!(
            "promote --control-plane cp --to stage --hub {hub}"
        ));
        (base, made.at("stage"))
    };
    let ((one, first), (two, second)) = (step("one"), step("two"));
    Promoted {
        bases: [one, two],
        moves: [first, second],
        made,
    }
}

fn bundle(environment: &str) -> String {
    format!("bundle --environment {environment} --control-plane cp {KEYS} --out stick")
}

/// Sets the base of `branch` by an ordinary commit.
fn set_base(made: &GateFixture, branch: &str, to: &str) {
    let cp = made.path("cp");
    git(&cp, &["checkout", "--quiet", branch]);
    let path = made.path("cp/base-repo.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(&made.base(branch), to)).unwrap();
    commit(&cp, "another base");
    git(&cp, &["checkout", "--quiet", "main"]);
}

#[test]
fn attack_an_ordinary_commit_moves_no_environment_back_to_what_was_promoted_once() {
    let Promoted { made, bases, moves } = promoted_twice();
    let [one, two] = &bases;
    made.ok(&bundle("stage"));
    let cp = made.path("cp");
    git(&cp, &["checkout", "--quiet", "stage"]);
    git(&cp, &["revert", "--no-edit", &moves[1]]);
    assert_eq!(made.base("stage"), *one);
    let revert = made.at("stage");
    let refused = |made: &GateFixture| {
        let (_, _, err) = made.ends(1, &bundle("stage"));
        let moved = format!(
            "commit {:.12} moved it there from {two:.12}",
            made.at("stage")
        );
        assert!(
            err.contains("no record shows") && err.contains(&moved),
            "{err}"
        );
        let earlier = format!("commit {:.12}, which promoted it, came before", moves[0]);
        assert!(
            err.contains(&earlier) && err.contains("`--backwards`"),
            "{err}"
        );
    };
    refused(&made);
    // Nor does a merge of the branch as it was.
    git(&cp, &["reset", "--quiet", "--hard", &moves[1]]);
    git(
        &cp,
        &["merge", "--quiet", "--no-edit", "-s", "ours", &revert],
    );
    let tree = git(&cp, &["rev-parse", &format!("{}^{{tree}}", moves[0])]);
    let parents = ["-p", &moves[1], "-p", &moves[0], "-m", "Merge"];
    let merge = git(&cp, &[&["commit-tree", &tree][..], &parents].concat());
    git(&cp, &["reset", "--quiet", "--hard", &merge]);
    refused(&made);
    git(&cp, &["reset", "--quiet", "--hard", &revert]);
    git(&cp, &["checkout", "--quiet", "main"]);

    let hub = made.hub().to_owned();
    let promote = format!("promote --control-plane cp --to stage --commit {one} --hub {hub}");
    let (_, _, err) = made.ends(1, &promote);
    let moved = format!(
        "commit {revert:.12} of its branch moved `stage` from {two} to {one}, which does not contain it"
    );
    assert!(err.contains(&moved) && err.contains("--backwards"), "{err}");
    assert_eq!(made.at("stage"), revert);
    // Nor is it on record once another commit changed no more than the path.
    git(&cp, &["checkout", "--quiet", "stage"]);
    let base = made.path("cp/base-repo.yaml");
    let text = fs::read_to_string(&base).unwrap();
    fs::write(&base, text.replace("path: .", "path: elsewhere")).unwrap();
    commit(&cp, "another path");
    git(&cp, &["checkout", "--quiet", "main"]);
    let (_, _, err) = made.ends(1, &promote);
    assert!(err.contains(&moved), "{err}");
    git(&cp, &["update-ref", "refs/heads/stage", &revert]);
    made.closes();
    made.ends(1, &format!("{promote} --backwards"));
    made.opens(&["dev"]);
    made.ok(&format!("{promote} --backwards"));
    made.ok(&bundle("stage"));
    // Forwards by a commit is no way either.
    set_base(&made, "stage", two);
    made.ends(1, &bundle("stage"));
}

#[test]
fn an_environment_whose_folder_came_later_than_its_branch_is_promoted_where_it_is() {
    let made = GateFixture::new();
    made.opens(&["dev"]);
    let cp = made.path("cp");
    let declared = made.path("cp/.environments/stage.yaml");
    git(&cp, &["checkout", "--quiet", "main"]);
    let text = fs::read_to_string(&declared).unwrap();
    assert!(text.contains("path: .\n"), "{text}");
    fs::write(&declared, text.replace("path: .\n", "path: below\n")).unwrap();
    let base = commit(&cp, "stage has a folder");
    made.ok("promote --control-plane cp --to dev");
    // A branch that begins with another commit; its folder comes with the base that is asked for.
    let was = made.base("stage");
    let content = git(&cp, &["rev-parse", "stage^{tree}"]);
    git(&cp, &["checkout", "--quiet", "--orphan", "later"]);
    git(&cp, &["rm", "-r", "-f", "--quiet", "."]);
    fs::write(cp.join("README.md"), "stage").unwrap();
    commit(&cp, "begin");
    git(&cp, &["read-tree", "--prefix=below/", &content]);
    git(&cp, &["checkout-index", "--all", "--force"]);
    let file = cp.join("below/base-repo.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace(&was, &base)).unwrap();
    commit(&cp, "the folder");
    git(&cp, &["branch", "--quiet", "-M", "stage"]);
    git(&cp, &["checkout", "--quiet", "main"]);
    made.ends(1, &bundle("stage"));
    let hub = made.hub().to_owned();
    made.ok(&format!(
        "promote --control-plane cp --to stage --hub {hub}"
    ));
    made.ok(&bundle("stage"));
}

#[test]
fn a_promotion_that_comes_by_a_merge_counts() {
    let Promoted { made, moves, .. } = promoted_twice();
    let cp = made.path("cp");
    git(&cp, &["checkout", "--quiet", "stage"]);
    git(
        &cp,
        &["reset", "--quiet", "--hard", &format!("{}~1", moves[0])],
    );
    fs::write(made.path("cp/own.txt"), "own").unwrap();
    commit(&cp, "meanwhile");
    git(&cp, &["merge", "--quiet", "--no-edit", &moves[1]]);
    made.ok(&bundle("stage"));
    // And what comes after it changes nothing about that.
    fs::write(made.path("cp/own.txt"), "more").unwrap();
    commit(&cp, "later");
    made.ok(&bundle("stage"));
}

#[test]
fn attack_an_override_that_the_fleet_keeps_counts_for_its_move_alone() {
    let made = GateFixture::new();
    let base = made.base("prod");
    let words: Vec<String> = bundle("prod").split(' ').map(str::to_owned).collect();
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    words.extend(["--override-gate", "line 3", "--override-by", "Jo Park"]);
    let (code, _, err) = made.run(&words);
    assert_eq!(code, 0, "{err}");
    made.ok(&bundle("prod"));
    let new = made.change();
    set_base(&made, "prod", &new);
    made.ends(1, &bundle("prod"));
    set_base(&made, "prod", &base);
    let (_, _, err) = made.ends(1, &bundle("prod"));
    assert!(err.contains("was given for an earlier move there"), "{err}");
    let (code, _, err) = made.run(&words);
    assert_eq!(code, 0, "{err}");
    made.ok(&bundle("prod"));
    let (_, out, _) = made.ok("inspect stick/prod-edge-1.outhaul --fleet fleet");
    assert!(
        out.contains("past the gate") && out.contains("Jo Park"),
        "{out}"
    );
}

#[test]
fn attack_an_answer_whose_evidence_does_not_support_it_moves_nothing() {
    let made = GateFixture::new();
    made.change();
    made.ok("promote --control-plane cp --to dev");
    let before = made.at("stage");
    let hub = made.hub().to_owned();
    let promote = format!("promote --control-plane cp --to stage --hub {hub}");
    for (bent, says) in [
        ("bent: failed", "is `failed`, which closes the gate"),
        ("bent: received", "confirms by a report that came at `2020-"),
        ("bent: seen", "reported last at `2020-"),
        ("bent: needs", "runs bundle 1 and needs bundle 2"),
        ("bent: rules", "does not list the rule `commit`"),
        ("bent: age", "and of 72 at most was asked for"),
        ("bent: share", "and 100 % was asked for"),
        ("bent: twice", "names two reports of site `drone-1`"),
        ("bent: digest", "`sha256:d6` as the digest"),
    ] {
        made.closes();
        made.opens(&["dev", bent]);
        let (_, _, err) = made.ends(3, &promote);
        assert!(
            err.contains("counts as none") && err.contains(says),
            "{bent}: {err}"
        );
        assert_eq!(made.at("stage"), before);
    }
    made.closes();
    made.opens(&["dev"]);
    made.ok(&promote);
}

#[test]
fn attack_a_promotion_written_by_hand_with_evidence_that_does_not_hold_ships_nothing() {
    let made = GateFixture::new();
    let new = made.change();
    let digest = format!("sha256:{}", "30".repeat(32));
    let line = format!("- edge-1: report 4 ({digest}), bundle 1 active\n");
    let whole = format!(
        "Promote {new:.12} to stage\n\nThe gate of `dev` is open: 1 of 1 sites confirmed {new}.\n{line}\n\
         Outhaul-Promoted: stage {new}\nOuthaul-Gate: open dev\n"
    );
    let (before, base, cp) = (made.at("stage"), made.base("stage"), made.path("cp"));
    let as_it_is = 0o644;
    for (message, mode, says) in [
        (whole.clone(), 0o755, "changes the mode of `base-repo.yaml`"),
        (whole.replace(" active", " failed"), as_it_is, "is `failed`"),
        (
            whole.replace(&line, &line.repeat(2)),
            as_it_is,
            "two reports of site `edge-1`",
        ),
        (whole.replace("report 4", "report 0"), as_it_is, "report 0"),
        (
            whole.replace("edge-1", "no site"),
            as_it_is,
            "`no site`, which is not the name of a site",
        ),
        (
            whole.replace("1 of 1", "1 of 99"),
            as_it_is,
            "1 of 99 sites confirmed, where 100 % must (the default",
        ),
        (whole.replace('\n', "\r\n"), as_it_is, "carriage returns"),
        (
            whole
                .replace("open dev", "open prod")
                .replace("`dev`", "`prod`"),
            as_it_is,
            "the gate of `prod`, which is not the one before `stage`",
        ),
    ] {
        git(&cp, &["checkout", "--quiet", "--force", "stage"]);
        git(&cp, &["reset", "--quiet", "--hard", &before]);
        let path = made.path("cp/base-repo.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let text = text
            .replace(&format!("\"{base}\""), &new)
            .replace(&base, &new);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        git(&cp, &["add", "--all"]);
        let verbatim = ["commit", "--quiet", "--cleanup=verbatim", "-m", &message];
        git(&cp, &verbatim);
        let (_, _, err) = made.ends(1, &bundle("stage"));
        assert!(
            err.contains("no record shows") && err.contains(says),
            "{err}"
        );
        assert!(!made.path("stick").exists());
    }
}
