//! What of a base an ordinary commit may change, and which bases an environment may have: nothing ships that no gate has seen.
//!
//! What comes in: a control plane that `outhaul init` wrote, with its content in a folder and another one beside it, and commits of someone
//! who may push to an environment's branch. What must come out: a refusal that says what was changed, and the way out through the gate.

use std::fs;
use std::os::unix::fs::symlink;

use super::gate::GateFixture;
use super::repositories::{commit, git};

const KEYS: &str = "--fleet fleet --passphrase-file passphrase";
const PLANE: &str = "--environment stage --control-plane cp";
/// What `init` writes on `main`.
const CONTENT: [&str; 4] = ["configs", "schemas", "templates", "workloads"];

/// `stage` and `dev` based on `seen/` of one commit, through the gate; `other/` beside it has other content.
struct Bases(GateFixture);

impl Bases {
    fn new() -> Self {
        let made = Self(GateFixture::new());
        made.0.opens(&["dev"]);
        let cp = made.0.path("cp");
        for folder in ["seen", "other"] {
            fs::create_dir(cp.join(folder)).unwrap();
        }
        for name in CONTENT.into_iter().filter(|name| cp.join(name).is_dir()) {
            git(&cp, &["mv", name, &format!("seen/{name}")]);
        }
        for name in fs::read_dir(cp.join("seen")).unwrap() {
            let name = name.unwrap().file_name();
            fs::create_dir(cp.join("other").join(&name)).unwrap();
            for file in fs::read_dir(cp.join("seen").join(&name)).unwrap() {
                let file = file.unwrap();
                let text = fs::read_to_string(file.path()).unwrap();
                let path = cp.join("other").join(&name).join(file.file_name());
                fs::write(path, text.replace("Hello", "Unseen")).unwrap();
            }
        }
        commit(&cp, "In folders");
        for branch in ["dev", "stage"] {
            made.edit(branch, |text| text.replace("path: .", "path: seen"));
        }
        made.0.ok("promote --control-plane cp --to dev");
        made.promote();
        made.ships();
        made
    }

    /// An ordinary commit that changes the file with the base.
    fn edit(&self, branch: &str, change: impl Fn(&str) -> String) {
        self.on(branch, |path| {
            let path = format!("{path}/base-repo.yaml");
            let text = fs::read_to_string(&path).unwrap();
            let changed = change(&text);
            assert_ne!(text, changed);
            fs::write(path, changed).unwrap();
        });
    }

    /// An ordinary commit of what `change` does to the files of a branch.
    fn on(&self, branch: &str, change: impl Fn(&str)) {
        let cp = self.0.path("cp");
        git(&cp, &["checkout", "--quiet", branch]);
        change(cp.to_str().unwrap());
        commit(&cp, "an ordinary commit");
        git(&cp, &["checkout", "--quiet", "main"]);
    }

    #[track_caller]
    fn promote(&self) {
        let hub = self.0.hub();
        self.0.ok(&format!(
            "promote --control-plane cp --to stage --hub {hub}"
        ));
    }

    /// The path of the base of `stage` is `other`, which no site of `dev` runs.
    #[track_caller]
    fn refuses_to_promote(&self) {
        let before = self.0.at("stage");
        let hub = self.0.hub();
        let (_, _, err) = self.0.ends(
            1,
            &format!("promote --control-plane cp --to stage --hub {hub}"),
        );
        assert!(
            err.contains("has the path `other`")
                && err.contains("where that of `dev` has `seen`")
                && err.contains("nothing was changed"),
            "{err}"
        );
        assert_eq!(self.0.at("stage"), before);
    }

    #[track_caller]
    fn ships(&self) {
        self.0.ok(&format!("bundle {PLANE} {KEYS} --out stick"));
    }

    /// Ends `code`, and makes no bundle.
    #[track_caller]
    fn refuses(&self, code: i32, says: &str) {
        let before = fs::read_dir(self.0.path("stick")).unwrap().count();
        let (_, _, err) = self
            .0
            .ends(code, &format!("bundle {PLANE} {KEYS} --out stick"));
        assert!(
            err.contains(says) && err.contains("nothing was written"),
            "{err}"
        );
        assert_eq!(fs::read_dir(self.0.path("stick")).unwrap().count(), before);
    }
}

#[test]
fn attack_an_ordinary_commit_changes_the_path_of_the_base_at_the_same_commit() {
    let made = Bases::new();
    let base = made.0.base("stage");
    for (from, to, was, is) in [
        ("path: seen", "path: other", "seen", "other"),
        // The spelling of the path, and an alias, are no way around it.
        ("path: other", "path: ./other/../seen", "other", ""),
        ("path: ./other/../seen", "path: other//", "other", ""),
        (
            "metadata:\n  name: main\nspec:",
            "metadata:\n  labels: {at: &at ./seen}\n  name: main\nspec:",
            "other",
            "",
        ),
        ("path: other//", "path: *at", "other", "seen"),
    ] {
        made.edit("stage", |text| text.replace(from, to));
        if is.is_empty() {
            continue;
        }
        made.refuses(
            1,
            &format!("changed the path of the base from `{was}` to `{is}`"),
        );
        // At the same commit, through the gate, where the environment before has the path, too.
        made.0.closes();
        let hub = made.0.hub();
        let promote = format!("promote --control-plane cp --to stage --hub {hub}");
        made.0.ends(1, &promote);
        made.0.opens(&["dev"]);
        if is == "other" {
            made.refuses_to_promote();
            made.edit("dev", |text| text.replace("path: seen", "path: other"));
        } else {
            made.edit("dev", |text| text.replace("path: other", "path: ./seen"));
        }
        made.promote();
        assert_eq!(made.0.base("stage"), base);
        made.ships();
    }
    // Other spellings of the same path ship.
    made.edit("stage", |text| text.replace("path: *at", "path: ./seen/"));
    made.ships();
}

#[test]
fn attack_a_changed_path_does_not_ship_with_the_next_commit_that_is_promoted() {
    let made = Bases::new();
    made.edit("stage", |text| text.replace("path: seen", "path: other"));
    made.on("main", |path| {
        fs::write(format!("{path}/seen/more.txt"), "more").unwrap();
    });
    made.0.ok("promote --control-plane cp --to dev");
    made.refuses_to_promote();
    made.refuses(1, "changed the path of the base from `seen` to `other`");
    made.refuses(1, "promote --to stage --override-gate REASON");
    let check = "check --environment stage --control-plane cp --output lines";
    let (_, out, _) = made.0.ok(check);
    let unseen = "the base of `stage` has the path `other`, where that of `dev` has `seen`";
    assert!(
        out.contains("ungated-base") && out.contains(unseen),
        "{out}"
    );
    // Past the gate it is on record, and the next commit keeps it.
    let past = ["--override-gate", "line 3", "--override-by", "Jo"];
    let promote = "promote --control-plane cp --to stage";
    let words: Vec<&str> = promote.split(' ').chain(past).collect();
    let (code, _, err) = made.0.run(&words);
    assert_eq!(code, 0, "{err}");
    made.ships();
    made.on("main", |path| {
        fs::write(format!("{path}/seen/more.txt"), "again").unwrap();
    });
    made.0.ok("promote --control-plane cp --to dev");
    made.promote();
    made.ships();
}

#[test]
fn attack_a_path_that_the_environment_before_left_is_not_promoted_at_its_next_commit() {
    let made = Bases::new();
    made.edit("dev", |text| text.replace("path: seen", "path: other"));
    let next = |text: &str| {
        made.on("main", |path| {
            fs::write(format!("{path}/seen/more.txt"), text).unwrap();
        });
        made.0.ok("promote --control-plane cp --to dev");
    };
    next("more");
    // What was promoted before ships on; of the next commit no site of `dev` runs that path.
    made.ships();
    let before = made.0.at("stage");
    let hub = made.0.hub();
    let promote = format!("promote --control-plane cp --to stage --hub {hub}");
    let (_, _, err) = made.0.ends(1, &promote);
    assert!(
        err.contains("has the path `seen`") && err.contains("where that of `dev` has `other`"),
        "{err}"
    );
    assert_eq!(made.0.at("stage"), before);
    // Past the gate it is on record, and the promotions after that keep it.
    let past = ["--override-gate", "line 3", "--override-by", "Jo"];
    let words: Vec<&str> = promote.split(' ').chain(past).collect();
    let (code, _, err) = made.0.run(&words);
    assert_eq!(code, 0, "{err}");
    let recorded = || git(&made.0.path("cp"), &["log", "-1", "--format=%B", "stage"]);
    let line = "\nOuthaul-Other-Path: seen\n";
    assert!(recorded().contains(line), "{}", recorded());
    made.ships();
    for text in ["again", "and again"] {
        next(text);
        made.promote();
        assert!(recorded().contains(line), "{}", recorded());
        made.ships();
    }
}

#[test]
fn an_override_for_one_path_of_a_base_does_not_count_for_another() {
    let made = Bases::new();
    let past = ["--override-gate", "line 3", "--override-by", "Jo"];
    let line = format!("bundle {PLANE} {KEYS} --out stick");
    made.edit("stage", |text| text.replace("path: seen", "path: other"));
    let words: Vec<&str> = line.split(' ').chain(past).collect();
    assert_eq!(made.0.run(&words).0, 0);
    made.ships();
    made.edit("stage", |text| text.replace("path: other", "path: seen"));
    made.refuses(1, "was given for an earlier move there, and does not count");
}

#[test]
fn attack_a_second_base_and_a_hidden_one_ship_nothing_that_no_gate_has_seen() {
    let made = Bases::new();
    let base = made.0.base("stage");
    let object = |name: &str, commit: &str, path: &str| {
        format!(
            "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: BaseRepo\nmetadata: {{name: {name}}}\nspec:\n  \
             repo: https://git.example.org/cp\n  branch: main\n  path: {path}\n{commit}"
        )
    };
    let pinned = format!("  commit: {base}\n");
    // Beside the one that is promoted: of the environment itself.
    let extra = object("extra", &pinned, "more");
    made.on("main", |path| {
        fs::create_dir(format!("{path}/more")).unwrap();
        fs::write(format!("{path}/more/none.yaml"), "# nothing yet\n").unwrap();
    });
    let newest = made.0.at("main");
    made.on("stage", |path| {
        let text = extra.replace(&base, &newest);
        fs::write(format!("{path}/extra.yaml"), text).unwrap();
    });
    made.refuses(1, "no gate decides about its base `extra`");
    let (_, _, err) = made.0.ok("check --environment stage --control-plane cp");
    let (_, out, _) = made
        .0
        .ok("check --environment stage --control-plane cp --output lines");
    assert!(out.contains("warning[ungated-base]"), "{out}{err}");
    let words = format!("bundle {PLANE} {KEYS} --out stick");
    let past = ["--override-gate", "line 3", "--override-by", "Jo"];
    let words: Vec<&str> = words.split(' ').chain(past).collect();
    assert_eq!(
        made.0.run(&words).0,
        1,
        "an override is for one move of `main`"
    );
    made.on("stage", |path| {
        fs::remove_file(format!("{path}/extra.yaml")).unwrap();
    });
    made.ships();

    // In the content that is promoted it is promoted with it, when it has a commit.
    made.on("main", |path| {
        let text = object("extra", "", "more");
        fs::write(format!("{path}/seen/extra.yaml"), text).unwrap();
    });
    made.0.ok("promote --control-plane cp --to dev");
    made.promote();
    made.refuses(1, "it has no commit, and follows branch `main`");
    made.on("main", |path| {
        let text = extra.replace(&base, &newest);
        fs::write(format!("{path}/seen/extra.yaml"), text).unwrap();
    });
    made.0.ok("promote --control-plane cp --to dev");
    made.promote();
    made.ships();

    // Of two named `main`, one may be hidden.
    made.on("stage", |path| {
        let text = object("main", &format!("  commit: {newest}\n"), "other");
        fs::write(format!("{path}/z.yaml"), text).unwrap();
        fs::write(format!("{path}/.sourceignore"), "base-repo.yaml\n").unwrap();
    });
    made.refuses(2, "two BaseRepos are named `main`");
    let hub = made.0.hub();
    let promote = format!("promote --control-plane cp --to stage --hub {hub}");
    let (_, _, err) = made.0.ends(2, &promote);
    assert!(err.contains("two BaseRepos are named `main`"), "{err}");
}

#[test]
fn attack_the_base_in_another_file_in_a_second_document_or_behind_a_link_is_no_way_around() {
    let made = Bases::new();
    let before = made.0.at("stage");
    let base = made.0.base("stage");
    // In another file it is the same base.
    made.on("stage", |path| {
        fs::rename(
            format!("{path}/base-repo.yaml"),
            format!("{path}/other.yaml"),
        )
        .unwrap();
    });
    made.ships();
    let reset = || {
        let cp = made.0.path("cp");
        git(&cp, &["update-ref", "refs/heads/stage", &before]);
    };
    reset();
    // With another path it is another.
    made.on("stage", |path| {
        let text = fs::read_to_string(format!("{path}/base-repo.yaml")).unwrap();
        fs::remove_file(format!("{path}/base-repo.yaml")).unwrap();
        let text = text.replace("path: seen", "path: other");
        fs::write(format!("{path}/other.yaml"), text).unwrap();
    });
    made.refuses(1, "changed the path of the base from `seen` to `other`");
    reset();
    made.edit("stage", |text| {
        let again = text.replace("path: seen", "path: other");
        format!("{again}---\n{text}")
    });
    made.refuses(2, "two objects of kind BaseRepo are called `main`");
    reset();
    made.on("stage", |path| {
        fs::remove_file(format!("{path}/base-repo.yaml")).unwrap();
        symlink("../main/base-repo.yaml", format!("{path}/base-repo.yaml")).unwrap();
    });
    made.refuses(2, "base-repo.yaml");
    reset();
    // The same commit has the same content in whatever repository it is read from.
    made.ships();
    assert_eq!(made.0.base("stage"), base);
}

#[test]
fn an_environment_that_does_not_load_is_an_error_where_it_is_at_the_commit_already() {
    let made = Bases::new();
    made.on("stage", |path| {
        let other = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: BaseRepo\nmetadata: {name: gone}\nspec:\n  \
                     repo: https://git.example.org/cp\n  branch: gone\n";
        fs::write(format!("{path}/gone.yaml"), other).unwrap();
    });
    let hub = made.0.hub();
    let before = made.0.at("stage");
    let promote = format!("promote --control-plane cp --to stage --hub {hub}");
    let (_, _, err) = made.0.ends(1, &promote);
    assert!(
        err.contains("is at") && err.contains("already, and it does not load"),
        "{err}"
    );
    assert!(
        err.contains("`gone`") && err.contains("gone.yaml:"),
        "{err}"
    );
    assert_eq!(made.0.at("stage"), before);
    let (_, _, err) = made
        .0
        .ends(2, "promote --control-plane cp --from dev --to dev");
    assert!(
        err.contains("the gate of an environment does not decide about itself"),
        "{err}"
    );
}

#[test]
fn attack_a_link_in_the_place_of_an_override_is_refused_with_its_target() {
    let made = Bases::new();
    made.edit("stage", |text| text.replace("path: seen", "path: other"));
    let line = format!("bundle {PLANE} {KEYS} --out stick");
    let past = ["--override-gate", "line 3", "--override-by", "Jo"];
    let words: Vec<&str> = line.split(' ').chain(past).collect();
    assert_eq!(made.0.run(&words).0, 0);
    let folder = made.0.path("fleet/overrides");
    let kept = fs::read_dir(&folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let elsewhere = made.0.path("elsewhere.json");
    fs::rename(&kept, &elsewhere).unwrap();
    symlink(&elsewhere, &kept).unwrap();
    let name = kept.file_name().unwrap().to_str().unwrap().to_owned();
    for words in [line.split(' ').collect(), words] {
        let (code, _, err) = made.0.run(&words);
        assert_eq!(code, 3, "{err}");
        assert!(err.contains("is a symbolic link to `"), "{err}");
        assert!(
            err.contains(&name) && err.contains("elsewhere.json`"),
            "{err}"
        );
    }
    assert!(kept.is_symlink() && elsewhere.is_file());
}
