//! Pull requests, from a real git repository, on each forge.
//!
//! What comes in: `FakeGitHub` and `FakeGitLab` (see `forges/fake.rs`), and a real Gitea where the
//! variable `OUTHAUL_GITEA` names its program (`.ci/programs/build gitea` builds it; CI must have it). What must come
//! out, on all three: one pull request per environment and base, updated in place, never a second one,
//! and nobody else's is touched.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use outhaul_bundle::index::{Snapshot, Source};
use outhaul_control::ControlPlane;
use outhaul_git::program::Credential;
use outhaul_git::source::Cache;
use outhaul_remote::forge::{Access, ForgeError, ForgeKind, connect};
use outhaul_ship::branch::forge::{Draft, Forge};
use outhaul_ship::branch::proposal::{ProposalAction, ProposeError, Proposed};
use outhaul_ship::branch::{BranchTarget, Desired, PlatformRepository, PublishError};

use super::cli::PlaneFixture;
use super::repositories::git;

pub mod fake;
mod gitea;

use fake::{TOKEN, fake_git_hub, fake_git_lab};

/// A platform repository that can be pushed to, and the forge that it is on.
struct ForgeFixture {
    folder: tempfile::TempDir,
    url: String,
    /// For the tests' own git, which has no credential but what is in a URL.
    clone_url: String,
    credential: Option<Credential>,
    forge: Box<dyn Forge<Error = ForgeError>>,
}

impl ForgeFixture {
    fn local(kind: ForgeKind, api: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        git(
            folder.path(),
            &["init", "--quiet", "--bare", "platform.git"],
        );
        let url = folder
            .path()
            .join("platform.git")
            .to_str()
            .unwrap()
            .to_owned();
        Self {
            forge: forge(kind, api, TOKEN),
            credential: None,
            folder,
            clone_url: url.clone(),
            url,
        }
    }

    fn repository(&self) -> PlatformRepository {
        let target = BranchTarget {
            url: self.url.clone(),
            branch: "dev".into(),
            path: String::new(),
        };
        let cache = Cache::at(self.folder.path().join("cache"));
        PlatformRepository::open(target, &cache, self.credential.clone()).unwrap()
    }

    fn with<T>(
        &self,
        files: &[(&str, &str)],
        then: impl FnOnce(&PlatformRepository, &Desired<'_>) -> T,
    ) -> T {
        let of = |name: &str| Source {
            name: name.into(),
            repo: String::new(),
            commit: "a".repeat(40),
        };
        let tree = files
            .iter()
            .map(|(path, text)| ((*path).into(), text.as_bytes().to_vec()));
        let desired = Desired {
            environment: "dev",
            tree: &tree.collect(),
            snapshot: &Snapshot::of(of("dev"), of("main"), Vec::new()),
            promoted: None,
            failures: &BTreeMap::new(),
            undecided: &BTreeMap::new(),
            control_plane: &ControlPlane::default(),
            adopt: false,
            overridden: None,
        };
        then(&self.repository(), &desired)
    }

    fn publish(&self, files: &[(&str, &str)]) -> bool {
        self.with(files, |repository, desired| {
            repository.publish(desired).unwrap().changed
        })
    }

    fn propose(&self, files: &[(&str, &str)]) -> Result<Proposed, ProposeError<ForgeError>> {
        self.with(files, |repository, desired| {
            let since = |_: &_| Err("a test has no control plane".to_owned());
            repository.propose(desired, self.forge.as_ref(), &since)
        })
    }
}

fn forge(kind: ForgeKind, api: &str, token: &str) -> Box<dyn Forge<Error = ForgeError>> {
    let access = Access {
        kind,
        repository: "https://git.example/other/name",
        api: Some(api),
        project: Some("team/platform"),
        token: token.to_owned().into(),
        authority: None,
    };
    connect(access).unwrap()
}

const MARKER: &str = ".github/tracking/Promoted_Commit_Id";
const BRANCH: &str = "outhaul/dev/dev";

/// What must hold on every forge. `check` is given the number of the open pull request, its title and
/// its labels as the forge has them after each step.
fn one_pull_request_and_no_other(place: &ForgeFixture, copy: &Path) {
    let files = |n: &'static str| [("drone/app/namespace.yaml", n), (MARKER, "1111")];
    assert!(matches!(
        place.propose(&files("0")).unwrap_err(),
        ProposeError::NoBase { .. }
    ));
    assert!(place.publish(&files("0")));

    let nothing = place.propose(&files("0")).unwrap();
    assert_eq!(
        (nothing.done, nothing.pull_request),
        (ProposalAction::Nothing, None)
    );

    let opened = place.propose(&files("1")).unwrap();
    assert_eq!(
        (opened.done, opened.branch.as_str()),
        (ProposalAction::Opened, BRANCH)
    );
    let number = opened.pull_request.unwrap().number;
    let found = || place.forge.find(BRANCH, "dev").unwrap();
    let open = found().unwrap();
    assert_eq!((open.number, open.labels.len()), (number, 0));
    assert_eq!(open.title, "Render dev: 1 file on 1 cluster type");
    assert!(
        open.body.contains("| `drone` | 0 | 1 | 0 |"),
        "{}",
        open.body
    );

    let again = place.propose(&files("1")).unwrap();
    assert_eq!(
        (again.done, &again.commit),
        (ProposalAction::Nothing, &opened.commit)
    );

    let promoted = [("drone/app/namespace.yaml", "2"), (MARKER, "2222")];
    let updated = place.propose(&promoted).unwrap();
    assert_eq!(updated.done, ProposalAction::Updated);
    assert_ne!(updated.commit, opened.commit);
    let open = found().unwrap();
    assert_eq!(open.number, number, "updated, not a second one");
    assert!(open.labels.contains("promoted"), "{:?}", open.labels);

    place.propose(&files("3")).unwrap();
    let open = found().unwrap();
    assert_eq!(
        (open.number, open.labels.len()),
        (number, 0),
        "nothing is promoted any more"
    );

    // Someone else's pull request, and then our own content on the base.
    git(
        copy,
        &["clone", "--quiet", "--branch", "dev", &place.clone_url, "."],
    );
    std::fs::write(copy.join("theirs.md"), "x").unwrap();
    git(copy, &["checkout", "--quiet", "-b", "theirs"]);
    git(copy, &["add", "."]);
    git(copy, &["commit", "--quiet", "-m", "theirs"]);
    git(copy, &["push", "--quiet", "origin", "theirs"]);
    let theirs = Draft {
        head: "theirs",
        base: "dev",
        title: "Theirs",
        body: "x",
    };
    let theirs = place.forge.open(&theirs).unwrap().number;
    assert!(place.publish(&files("3")));
    let closed = place.propose(&files("3")).unwrap();
    assert_eq!(closed.done, ProposalAction::Closed);
    assert!(found().is_none());
    let open = place.forge.find("theirs", "dev").unwrap().unwrap();
    assert_eq!(open.number, theirs, "nobody else's is touched");
    let branches = git(copy, &["ls-remote", "--heads", "origin"]);
    assert!(!branches.contains(BRANCH), "{branches}");

    // A commit of someone else on our branch is not pushed over.
    place.propose(&files("4")).unwrap();
    git(copy, &["fetch", "--quiet", "origin", BRANCH]);
    git(copy, &["checkout", "--quiet", "-b", "fix", "FETCH_HEAD"]);
    git(
        copy,
        &["commit", "--quiet", "--allow-empty", "-m", "a fix by hand"],
    );
    let fix = git(copy, &["rev-parse", "HEAD"]);
    git(
        copy,
        &["push", "--quiet", "origin", &format!("fix:{BRANCH}")],
    );
    let taken = place.propose(&files("5")).unwrap_err();
    assert!(
        matches!(&taken, ProposeError::Publish(PublishError::Taken { commit, .. }) if *commit == fix),
        "{taken:?}"
    );
}

#[test]
fn on_fake_git_hub() {
    let (api, pulls) = fake::serve(fake_git_hub);
    let place = ForgeFixture::local(ForgeKind::GitHub, &api);
    let copy = tempfile::tempdir().unwrap();
    one_pull_request_and_no_other(&place, copy.path());
    assert_eq!(pulls.lock().unwrap().len(), 3);
}

#[test]
fn on_fake_git_lab() {
    let (api, pulls) = fake::serve(fake_git_lab);
    let place = ForgeFixture::local(ForgeKind::GitLab, &api);
    let copy = tempfile::tempdir().unwrap();
    one_pull_request_and_no_other(&place, copy.path());
    assert_eq!(pulls.lock().unwrap().len(), 3);
}

#[test]
fn a_commit_of_somebody_else_on_our_branch_is_left_alone() {
    let (api, pulls) = fake::serve(fake_git_hub);
    let fixture = PlaneFixture::new();
    let at = fixture.folder.path();
    git(at, &["init", "--quiet", "--bare", "platform.git"]);
    fixture.write("token", TOKEN);
    fs::set_permissions(at.join("token"), fs::Permissions::from_mode(0o600)).unwrap();
    let publish = ["publish", "git", "--to", "platform.git", "--branch", "dev"];
    let seen = fixture.run(&publish);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    let project = ["--project", "team/platform", "--token-file", "token"];
    let forge = ["--pull-request", "--forge", "github", "--api", &api];
    let propose = || fixture.run(&[&publish[..], &forge, &project].concat());
    fixture.edit("dev/config.yaml", "East US", "Far East");
    let seen = propose();
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert_eq!(pulls.lock().unwrap().len(), 1);

    git(
        at,
        &[
            "clone",
            "--quiet",
            "--branch",
            BRANCH,
            "platform.git",
            "copy",
        ],
    );
    let copy = at.join("copy");
    let fix = ["commit", "--quiet", "--allow-empty", "-m", "a fix by hand"];
    git(&copy, &fix);
    git(&copy, &["push", "--quiet", "origin", BRANCH]);
    fixture.edit("dev/config.yaml", "Far East", "West");
    let seen = propose();
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(
        seen.contains(&git(&copy, &["rev-parse", "HEAD"])) && seen.contains("it was left alone"),
        "{seen}"
    );
    assert_eq!(
        git(&at.join("platform.git"), &["rev-parse", BRANCH]),
        git(&copy, &["rev-parse", "HEAD"])
    );
}

#[test]
fn on_a_real_gitea() {
    let Some(program) = gitea::program() else {
        return;
    };
    let (place, _server) = gitea::place(&program);
    let copy = tempfile::tempdir().unwrap();
    one_pull_request_and_no_other(&place, copy.path());
}

#[test]
fn a_refused_token_is_distinguished_from_a_refused_request_and_never_shown() {
    let (api, _) = fake::serve(fake_git_hub);
    let wrong = forge(ForgeKind::GitHub, &api, "wrong-secret");
    let error = wrong.find("a", "b").unwrap_err();
    assert!(
        matches!(error, ForgeError::Token { status: 401, .. }),
        "{error:?}"
    );
    assert!(!format!("{error} {error:?}").contains("wrong-secret"));
    let right = forge(ForgeKind::GitHub, &api, TOKEN);
    assert!(
        matches!(right.close(99), Err(ForgeError::Http(_))),
        "there is no such pull request"
    );
}

/// Where a program of CI lies.
fn from_environment(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.exists())
}
