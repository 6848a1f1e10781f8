//! Publishing to real git repositories on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use outhaul_bundle::index::{Snapshot, Source};
use proptest::prelude::*;

use super::plan::PlanError;
use super::*;
use outhaul_git::program::Git;
use outhaul_record::record::Record;

mod lost;
mod older;

struct BranchFixture {
    folder: tempfile::TempDir,
}

fn source(name: &str, commit: char) -> Source {
    Source {
        name: name.into(),
        repo: format!("https://git.example/{name}"),
        commit: commit.to_string().repeat(40),
    }
}

fn snapshot(commit: char) -> Snapshot {
    outhaul_bundle::index::Snapshot::of(source("dev", commit), source("main", 'b'), Vec::new())
}

fn tree(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    let files = files.iter();
    files
        .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
        .collect()
}

/// What one run publishes.
struct Run {
    environment: &'static str,
    tree: BTreeMap<String, Vec<u8>>,
    failures: BTreeMap<AssignmentId, Diagnostics>,
    undecided: BTreeMap<AssignmentId, Diagnostics>,
    snapshot: Snapshot,
    control_plane: ControlPlane,
    adopt: bool,
}

fn run(files: &[(&str, &str)]) -> Run {
    Run {
        environment: "dev",
        tree: tree(files),
        failures: BTreeMap::new(),
        undecided: BTreeMap::new(),
        snapshot: snapshot('a'),
        control_plane: ControlPlane::default(),
        adopt: false,
    }
}

impl Run {
    fn desired(&self) -> Desired<'_> {
        Desired {
            environment: self.environment,
            tree: &self.tree,
            snapshot: &self.snapshot,
            promoted: None,
            failures: &self.failures,
            undecided: &self.undecided,
            control_plane: &self.control_plane,
            adopt: self.adopt,
            overridden: None,
        }
    }

    fn without(mut self, cluster_type: &str, target: &str) -> Self {
        let id = AssignmentId {
            cluster_type: cluster_type.into(),
            target: target.into(),
        };
        self.tree
            .retain(|path, _| !path.starts_with(&id.to_string()));
        self.failures.insert(id, Diagnostics::new());
        self
    }
}

impl BranchFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let git = Git::at(folder.path());
        git.text(&["init", "--quiet", "--bare", "platform.git"])
            .unwrap();
        Self { folder }
    }

    fn url(&self) -> PathBuf {
        self.folder.path().join("platform.git")
    }

    fn repository(&self, path: &str) -> PlatformRepository {
        let target = BranchTarget {
            url: self.url().to_str().unwrap().to_owned(),
            branch: "dev".to_owned(),
            path: path.to_owned(),
        };
        let cache = Cache::at(self.folder.path().join("cache"));
        PlatformRepository::open(target, &cache, None).unwrap()
    }

    fn publish(&self, run: &Run) -> Result<PublishedBranch, PublishError> {
        self.repository("").publish(&run.desired())
    }

    fn git(&self, arguments: &[&str]) -> String {
        Git::at(&self.url()).text(arguments).unwrap()
    }

    fn files(&self) -> Vec<String> {
        let listing = self.git(&["ls-tree", "-r", "--name-only", "dev"]);
        listing.lines().map(str::to_owned).collect()
    }

    fn count(&self) -> String {
        self.git(&["rev-list", "--count", "dev"])
    }

    /// Someone else commits to `branch`: content, or `None` to remove.
    fn someone(&self, branch: &str, edits: &[(&str, Option<&str>)]) -> String {
        let (repository, git) = (self.repository(""), Git::at(&self.url()));
        let edits = edits.iter().map(|(path, text)| {
            let bytes = text.map(|text| text.as_bytes().to_vec());
            ((*path).to_owned(), bytes)
        });
        let tip = repository.store.fetch(branch).unwrap();
        let made = repository
            .store
            .commit(tip.as_deref(), &edits.collect(), "by hand\n")
            .unwrap();
        repository
            .store
            .push(branch, tip.as_deref(), &made)
            .unwrap();
        git.text(&["rev-parse", branch]).unwrap()
    }
}

const FILES: [(&str, &str); 4] = [
    ("drone/README.md", "x"),
    ("drone/app/namespace.yaml", "a: 1\n"),
    ("drone/app/reconciler.yaml", "b: 1\n"),
    ("large/README.md", "x"),
];

#[test]
fn an_empty_repository_gets_the_tree_and_its_record_in_one_commit_and_then_nothing_more() {
    let fixture = BranchFixture::new();
    let first = fixture.publish(&run(&FILES)).unwrap();
    assert!(first.changed);
    assert_eq!(
        fixture.files(),
        [
            ".outhaul/platform.json",
            "drone/README.md",
            "drone/app/namespace.yaml",
            "drone/app/reconciler.yaml",
            "large/README.md"
        ]
    );
    insta::assert_snapshot!(
        "message",
        fixture.git(&["log", "-1", "--format=%an%n%B", "dev"])
    );
    let mut again = run(&FILES);
    again.snapshot = snapshot('c');
    let second = fixture.publish(&again).unwrap();
    assert!(!second.changed, "other commits, same files: {second:?}");
    assert_eq!(second.commit, first.commit);
    assert_eq!(fixture.count(), "1");
}

#[test]
fn what_others_put_there_stays_and_what_is_no_longer_rendered_goes() {
    let fixture = BranchFixture::new();
    let others = [
        ("README.md", Some("ours")),
        (".github/workflows/ci.yaml", Some("on: push")),
        ("docs/drone.md", Some("text")),
    ];
    fixture.someone("dev", &others);
    fixture.publish(&run(&FILES)).unwrap();
    fixture.someone("dev", &[("drone/app/notes.md", Some("mine"))]);
    let mut less = FILES.to_vec();
    less.retain(|(path, _)| !path.ends_with("reconciler.yaml"));
    less.push(("large/app/namespace.yaml", "new"));
    let done = fixture.publish(&run(&less)).unwrap();
    assert_eq!(done.plan.removed.len(), 1);
    let files = fixture.files();
    for kept in [
        "README.md",
        "docs/drone.md",
        "drone/app/notes.md",
        ".github/workflows/ci.yaml",
    ] {
        assert!(files.iter().any(|path| path == kept), "{files:?}");
    }
    assert!(!files.contains(&"drone/app/reconciler.yaml".to_owned()));
}

#[test]
fn a_file_changed_by_hand_is_rendered_again_and_said() {
    let fixture = BranchFixture::new();
    fixture.publish(&run(&FILES)).unwrap();
    let edits = [
        ("drone/app/namespace.yaml", Some("a: by hand")),
        ("large/README.md", None),
    ];
    fixture.someone("dev", &edits);
    let done = fixture.publish(&run(&FILES)).unwrap();
    let by_hand: Vec<_> = done.plan.by_hand.iter().collect();
    assert_eq!(by_hand, ["drone/app/namespace.yaml", "large/README.md"]);
    assert_eq!(
        fixture.git(&["show", "dev:drone/app/namespace.yaml"]),
        "a: 1"
    );
    let message = fixture.git(&["log", "-1", "--format=%B", "dev"]);
    assert!(message.contains("Changed by hand"), "{message}");
}

#[test]
fn a_foreign_file_in_the_way_is_refused_also_as_a_folder_or_below_one() {
    for taken in [
        "drone/app/namespace.yaml",
        "drone",
        "large/README.md/deeper",
    ] {
        let fixture = BranchFixture::new();
        let before = fixture.someone("dev", &[(taken, Some("theirs"))]);
        let error = fixture.publish(&run(&FILES)).unwrap_err();
        assert!(
            matches!(&error, PublishError::Plan(PlanError::Foreign { path, .. }) if path == taken),
            "{taken}: {error:?}"
        );
        assert_eq!(fixture.git(&["rev-parse", "dev"]), before);
    }
}

#[test]
fn what_kalypso_wrote_is_taken_over_when_asked_and_a_readme_of_people_never() {
    let fixture = BranchFixture::new();
    let kalypsos = [
        ("drone/README.md", Some(outhaul_plane::render::README)),
        ("drone/app/namespace.yaml", Some("old")),
        ("gone/README.md", Some(outhaul_plane::render::README)),
        ("docs/README.md", Some("How to")),
    ];
    fixture.someone("dev", &kalypsos);
    assert!(fixture.publish(&run(&FILES)).is_err());
    let mut adopting = run(&FILES);
    adopting.adopt = true;
    let done = fixture.publish(&adopting).unwrap();
    assert_eq!(
        done.plan.removed.iter().collect::<Vec<_>>(),
        ["gone/README.md"]
    );
    assert!(fixture.files().contains(&"docs/README.md".to_owned()));
    assert!(!fixture.publish(&run(&FILES)).unwrap().changed);
}

#[test]
fn a_broken_assignment_stays_as_the_branch_has_it() {
    let fixture = BranchFixture::new();
    fixture.publish(&run(&FILES)).unwrap();
    let mut files = FILES.to_vec();
    files.push(("large/other/namespace.yaml", "c: 1\n"));
    let broken = run(&files).without("drone", "app");
    let done = fixture.publish(&broken).unwrap();
    assert_eq!(done.plan.isolation.kept.len(), 1);
    assert_eq!(
        fixture.git(&["show", "dev:drone/app/namespace.yaml"]),
        "a: 1"
    );
    assert!(
        fixture
            .git(&["log", "-1", "--format=%B", "dev"])
            .contains("cannot be rendered")
    );
    assert!(
        !fixture.publish(&broken).unwrap().changed,
        "nothing done twice"
    );
    let healed = fixture.publish(&run(&files)).unwrap();
    assert!(healed.changed, "the record no longer says it is kept");
    assert!(
        !fixture
            .git(&["show", "dev:.outhaul/platform.json"])
            .contains("kept")
    );
}

#[test]
fn everything_broken_or_everything_gone_stops() {
    let fixture = BranchFixture::new();
    let broken = run(&FILES).without("drone", "app");
    let error = fixture.publish(&broken).unwrap_err();
    assert!(matches!(error, PublishError::Plan(PlanError::AllBroken)));
    fixture.publish(&run(&FILES)).unwrap();
    let error = fixture.publish(&run(&[])).unwrap_err();
    assert!(
        matches!(error, PublishError::Plan(PlanError::Removal(_))),
        "{error:?}"
    );
    assert_eq!(fixture.count(), "1");
}

#[test]
fn a_path_of_its_own_leaves_the_rest_of_the_branch_alone() {
    let fixture = BranchFixture::new();
    fixture.publish(&run(&FILES)).unwrap();
    let below = fixture.repository("./clusters//stage/");
    let mut stage = run(&FILES);
    stage.environment = "stage";
    assert!(below.publish(&stage.desired()).unwrap().changed);
    assert!(!fixture.publish(&run(&FILES)).unwrap().changed);
    assert!(
        fixture
            .files()
            .contains(&"clusters/stage/.outhaul/platform.json".to_owned())
    );
    let clash = fixture.publish(&stage).unwrap_err();
    assert!(matches!(
        clash,
        PublishError::Plan(PlanError::OtherEnvironment { .. })
    ));
    let record = fixture.someone(
        "dev",
        &[("clusters/stage/.outhaul/platform.json", Some("{"))],
    );
    let error = below.publish(&stage.desired()).unwrap_err();
    assert!(matches!(
        error,
        PublishError::Plan(PlanError::Record { .. })
    ));
    assert_eq!(fixture.git(&["rev-parse", "dev"]), record);
}

#[test]
fn a_push_never_goes_over_what_was_not_read() {
    let fixture = BranchFixture::new();
    let repository = fixture.repository("");
    fixture.publish(&run(&FILES)).unwrap();
    let store = &repository.store;
    let read = store.fetch("dev").unwrap();
    let theirs = fixture.someone("dev", &[("theirs.md", Some("x"))]);
    let edits = BTreeMap::from([("a".to_owned(), Some(b"1".to_vec()))]);
    let made = store.commit(read.as_deref(), &edits, "late\n").unwrap();
    let error = store.push("dev", read.as_deref(), &made).unwrap_err();
    assert!(was_overtaken(&error.message), "{error}");
    let root = store.commit(None, &edits, "as if new\n").unwrap();
    let error = store.push("dev", None, &root).unwrap_err();
    assert!(was_overtaken(&error.message), "{error}");
    assert_eq!(fixture.git(&["rev-parse", "dev"]), theirs);
    // The next run reads it again.
    let mut more = FILES.to_vec();
    more.push(("large/app/namespace.yaml", "new"));
    assert!(fixture.publish(&run(&more)).unwrap().changed);
    assert_eq!(fixture.count(), "3");
}

#[test]
fn a_checked_out_branch_and_a_server_that_says_no_are_explained() {
    let fixture = BranchFixture::new();
    fixture.publish(&run(&FILES)).unwrap();
    let hook = fixture.url().join("hooks/pre-receive");
    std::fs::write(&hook, "#!/bin/sh\necho protected >&2\nexit 1\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&hook, executable).unwrap();
    let mut more = FILES.to_vec();
    more.push(("large/app/namespace.yaml", "new"));
    let error = fixture.publish(&run(&more)).unwrap_err();
    assert!(
        matches!(&error, PublishError::Refused { message, .. } if message.contains("protected")),
        "{error:?}"
    );
    let copy = fixture.folder.path().join("copy");
    Git::at(fixture.folder.path())
        .text(&[
            "clone",
            "--quiet",
            "--branch",
            "dev",
            "platform.git",
            "copy",
        ])
        .unwrap();
    let target = BranchTarget {
        url: copy.to_str().unwrap().to_owned(),
        branch: "dev".into(),
        path: String::new(),
    };
    let cache = Cache::at(fixture.folder.path().join("cache"));
    let repository = PlatformRepository::open(target, &cache, None).unwrap();
    let error = repository.publish(&run(&more).desired()).unwrap_err();
    assert!(
        matches!(error, PublishError::CheckedOut { .. }),
        "{error:?}"
    );
}

/// A branch without a repository: nothing is pushed.
struct InMemory<'a> {
    desired: &'a Desired<'a>,
    there: Option<plan::BranchFiles>,
}

impl Destination for InMemory<'_> {
    type Shipped = OnRecord;
    type Done = CommitChanges;
    type Error = PlanError;

    fn wanted(&self) -> DesiredContent<'_> {
        self.desired.wanted()
    }

    fn read(&mut self) -> Result<OnRecord, PlanError> {
        OnRecord::of("", self.there.take().unwrap(), self.desired)
    }

    fn all_broken(&self) -> Option<PlanError> {
        Some(PlanError::AllBroken)
    }

    fn commit(
        &mut self,
        on_record: OnRecord,
        plan: Plan<()>,
    ) -> Result<Committed<CommitChanges, PlanError>, PlanError> {
        plan::changes("", &on_record, self.desired, plan.isolation).map(Committed::Done)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever is there, a plan never touches a file that is neither in the record nor in the tree.
    #[test]
    fn foreign_files_are_in_no_plan(
        ours in proptest::collection::btree_set("[a-c]/[a-c]/[x-z]", 0..8),
        new in proptest::collection::btree_set("[a-c]/[a-c]/[x-z]", 1..8),
        others in proptest::collection::btree_set("[a-c]/[a-c]/[x-z]", 0..8),
    ) {
        let run = Run {
            tree: new.iter().map(|path| (path.clone(), b"new".to_vec())).collect(),
            ..run(&[])
        };
        let digest = outhaul_bundle::Digest::of(b"old");
        let files = ours.iter().map(|path| (path.clone(), digest)).collect();
        let mut record = Record::new("dev", &run.snapshot, None, BTreeMap::new());
        record.files = files;
        let there = plan::BranchFiles {
            record: Some(record.bytes().unwrap()),
            files: ours.iter().map(|path| (path.clone(), b"old".to_vec())).collect(),
            others: others.difference(&ours).cloned().collect(),
            ..plan::BranchFiles::default()
        };
        let foreign = there.others.clone();
        match destination::ship(InMemory { desired: &run.desired(), there: Some(there) }) {
            Ok(plan) => {
                for path in plan.edits.keys() {
                    prop_assert!(!foreign.contains(path), "{path}");
                }
                let all: BTreeSet<_> = ours.union(&new).cloned().collect();
                prop_assert!(plan.edits.keys().all(|path| all.contains(path) || path == RECORD_PATH));
            }
            Err(PlanError::Foreign { .. }) => prop_assert!(!foreign.is_disjoint(&new)),
            Err(PlanError::Removal(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
}
