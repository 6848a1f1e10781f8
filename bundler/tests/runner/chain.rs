//! `outhaul serve` with pull requests and a promotion chain, across restarts.
//!
//! What comes in: a control plane in git with two environments, `FakeGitHub` and `FakeHub` (neither is
//! the real thing), and a platform repository with both branches. Every round is a new process. What must
//! come out: one pull request per environment, updated in place; one commit per promotion, and none
//! while the gate is closed; and the same again when a round was cut off or its memory is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

use super::forges::fake::{Pulls, TOKEN, fake_git_hub, serve};
use super::promotion::fake_hub;
use super::repositories::{commit, git, on_branch};
use super::serve::Centre;

/// The line of every template that the tests change.
const LINE: &str = "purpose: {{ Labels.purpose }}";

struct Chain {
    centre: Centre,
    pulls: Pulls,
    open: Arc<Mutex<Vec<&'static str>>>,
}

impl Chain {
    fn new() -> Self {
        let centre = Centre::new();
        let policy = "apiVersion: outhaul.dev/v1alpha1\nkind: PromotionPolicy\nmetadata:\n  name: to-stage\nspec:\n  \
                      from: dev\n  to: stage\n";
        let environments = centre.path("plane/.environments");
        fs::write(environments.join("promotion.yaml"), policy).unwrap();
        commit(&centre.path("plane"), "the chain");
        // A forge makes no pull request into a branch that is not there.
        let first = centre.path("first");
        fs::create_dir(&first).unwrap();
        git(&first, &["init", "--quiet"]);
        commit(&first, "empty");
        let there = centre.path("platform.git");
        for branch in ["dev", "stage"] {
            let to = format!("HEAD:refs/heads/{branch}");
            git(&first, &["push", "--quiet", there.to_str().unwrap(), &to]);
        }
        let (api, pulls) = serve(fake_git_hub);
        let (open, asked) = (Arc::default(), Arc::default());
        let hub = fake_hub(Arc::clone(&open), asked, centre.path("plane"));
        let mut text = format!(
            "state = \"state\"\ncontrol_plane = \"plane\"\nsources = [\"https://git.example.org/app=app\", \
             \"https://git.example.org/plane=plane\", \"https://git.example.org/manifests=manifests\"]\n\
             [promote]\nhub = \"{hub}\"\nfirst = \"dev\"\n"
        );
        for name in ["dev", "stage"] {
            text += &format!(
                "[[environment]]\nname = \"{name}\"\n[environment.git]\nto = \"platform.git\"\npull_request = true\n\
                 forge = \"github\"\napi = \"{api}\"\nproject = \"team/platform\"\ntoken_file = \"token\"\n"
            );
        }
        centre.fixture.write("serve.toml", &text);
        let chain = Self {
            centre,
            pulls,
            open,
        };
        chain.token(TOKEN);
        chain
    }

    fn token(&self, token: &str) {
        self.centre.fixture.write("token", token);
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(self.centre.path("token"), private).unwrap();
    }

    /// One round of a new process, which must end well.
    #[track_caller]
    fn round(&self) -> String {
        let (code, said) = self.centre.once();
        assert_eq!(code, 0, "{said}");
        said
    }

    /// A change of what is promoted.
    fn change(&self, from: &str, to: &str) -> String {
        on_branch(&self.centre.path("plane"), "main", |copy| {
            let path = copy.join("templates.yaml");
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{text}");
            fs::write(path, text.replace(from, to)).unwrap();
        })
    }

    fn base(&self, environment: &str) -> String {
        let file = format!("{environment}:base-repo.yaml");
        let text = git(&self.centre.path("plane"), &["show", &file]);
        text.split("commit: ").nth(1).unwrap().trim().to_owned()
    }

    fn commits(&self, environment: &str) -> usize {
        let count = ["rev-list", "--count", environment];
        git(&self.centre.path("plane"), &count).parse().unwrap()
    }

    /// What the pull request of an environment proposes.
    fn proposed(&self, environment: &str) -> String {
        let file =
            format!("outhaul/{environment}/{environment}:drone/hello-{environment}/namespace.yaml");
        git(&self.centre.path("platform.git"), &["show", &file])
    }

    /// Number, base and whether it is open, of every pull request that ever was.
    fn requests(&self) -> Vec<(u64, String, bool)> {
        let pulls = self.pulls.lock().unwrap();
        let all = pulls.iter();
        all.map(|pull| (pull.number, pull.base.clone(), pull.open))
            .collect()
    }
}

/// Commits and digests differ from run to run.
fn without_commits(text: &str) -> String {
    let hex = |c: char| c.is_ascii_hexdigit();
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(hex) {
        let run = &rest[start..];
        let length = run.find(|c| !hex(c)).unwrap_or(run.len());
        out += &rest[..start];
        out += match length {
            8 | 12 | 40 | 64 => "<digest>",
            _ => &run[..length],
        };
        rest = &run[length..];
    }
    out + rest
}

fn two() -> Vec<(u64, String, bool)> {
    vec![(1, "dev".into(), true), (2, "stage".into(), true)]
}

#[test]
fn pull_requests_follow_promotions_and_a_restart_makes_neither_twice() {
    let chain = Chain::new();
    let said = chain.round();
    assert!(
        said.contains("dev: branch `dev`: pull request #1 opened"),
        "{said}"
    );
    assert!(
        said.contains("stage: branch `stage`: pull request #2 opened"),
        "{said}"
    );
    // The first environment follows `main`, which has the policy now.
    let commits = (chain.commits("dev"), chain.commits("stage"));
    assert_eq!(
        chain.base("dev"),
        git(&chain.centre.path("plane"), &["rev-parse", "main"])
    );
    assert_eq!(chain.requests(), two());

    // A change: `dev` moves in the same round, `stage` waits for its gate.
    let second = chain.change(LINE, "purposes: {{ Labels.purpose }}");
    let said = chain.round();
    assert!(said.contains("promotion: `dev` moved to"), "{said}");
    assert!(
        said.contains("dev: branch `dev`: pull request #1 updated"),
        "{said}"
    );
    assert!(said.contains("the gate of `dev` is closed"), "{said}");
    assert_eq!(chain.base("dev"), second);
    assert_ne!(chain.base("stage"), second);
    assert!(chain.proposed("dev").contains("purposes:"));
    assert!(!chain.proposed("stage").contains("purposes:"));
    let moved = (commits.0 + 1, commits.1);
    assert_eq!((chain.commits("dev"), chain.commits("stage")), moved);

    // A restart, and one that has lost its memory.
    for lost in [false, true] {
        if lost {
            fs::remove_file(chain.centre.path("state/serve.json")).unwrap();
        }
        let said = chain.round();
        assert!(!said.contains("moved to"), "{said}");
        assert!(
            !said.contains("opened") && !said.contains("updated"),
            "{said}"
        );
        assert_eq!((chain.commits("dev"), chain.commits("stage")), moved);
        assert_eq!(chain.requests(), two());
    }

    // The gate opens: one commit on `stage`, and its pull request says that it is a promotion.
    chain.open.lock().unwrap().push("dev");
    let said = chain.round();
    assert!(said.contains("promotion: `stage` moved to"), "{said}");
    assert!(
        said.contains("stage: branch `stage`: pull request #2 updated"),
        "{said}"
    );
    assert_eq!(chain.base("stage"), second);
    assert!(chain.proposed("stage").contains("purposes:"));
    let moved = (moved.0, moved.1 + 1);
    assert_eq!((chain.commits("dev"), chain.commits("stage")), moved);
    let said = chain.round();
    assert!(
        !said.contains("moved to") && !said.contains("pull request"),
        "{said}"
    );
    assert_eq!((chain.commits("dev"), chain.commits("stage")), moved);
    assert_eq!(chain.requests(), two());
}

#[test]
fn a_pull_request_reports_what_changes_and_why_as_long_as_the_commits_can_be_had() {
    let chain = Chain::new();
    chain.round();
    // People merge it.
    let platform = chain.centre.path("platform.git");
    let merged = ["update-ref", "refs/heads/dev", "refs/heads/outhaul/dev/dev"];
    git(&platform, &merged);
    chain.pulls.lock().unwrap()[0].open = false;
    chain
        .centre
        .edit("dev", "config.yaml", "East US", "Far East");
    chain.round();
    let body = |number: usize| chain.pulls.lock().unwrap()[number - 1].body.clone();
    insta::assert_snapshot!(without_commits(&body(3)));

    // The workload lies in a plain folder, which nobody can take back to what it was.
    chain.centre.fixture.edit(
        "app/workload.yaml",
        "purpose: test",
        "purpose: test\n        tier: low",
    );
    chain.round();
    let text = body(3);
    let said = "is not shown: not all of its sources can be read as they were.";
    assert!(
        text.contains("| `drone` | 0 | ") && text.contains(said),
        "{text}"
    );
}

#[test]
fn a_round_cut_off_between_promotion_and_pull_request_is_finished_by_the_next() {
    let chain = Chain::new();
    chain.round();
    let commits = chain.commits("dev");
    let second = chain.change(LINE, "purposes: {{ Labels.purpose }}");
    // The forge refuses: the promotion is done, the pull request is not.
    chain.token("wrong");
    let (code, said) = chain.centre.once();
    assert_ne!(code, 0, "{said}");
    assert!(said.contains("promotion: `dev` moved to"), "{said}");
    assert_eq!(chain.base("dev"), second);
    assert!(!chain.pulls.lock().unwrap()[0].body.contains(&second));

    chain.token(TOKEN);
    let said = chain.round();
    assert!(!said.contains("moved to"), "{said}");
    assert!(
        said.contains("dev: branch `dev`: pull request #1 updated"),
        "{said}"
    );
    assert!(chain.pulls.lock().unwrap()[0].body.contains(&second));
    assert!(chain.proposed("dev").contains("purposes:"));
    assert_eq!(chain.commits("dev"), commits + 1);
    assert_eq!(chain.requests(), two());
}
