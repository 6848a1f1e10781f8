//! Why nothing was promoted.
//!
//! What comes in: what was asked for and what stands against it. What goes out: the sentence for the
//! person, with what to do next. After each of these nothing was changed.

use outhaul_control::diagnostic::Diagnostics;
use outhaul_git::branch::BranchError;
use outhaul_git::source::SourceError;
use outhaul_kit::failure::{Classified, FailureClass};

use super::GateError;

/// Why nothing was promoted. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromoteError {
    /// The commit could not be made.
    #[error("environment `{environment}` stays where it is")]
    Branch {
        /// The environment.
        environment: String,
        /// Why.
        source: BranchError,
    },
    /// Each environment waits for another one.
    #[error("the promotion policies {policies} form a cycle")]
    Circle {
        /// Their names.
        policies: String,
    },
    /// At the commit the environment does not load, or breaks.
    #[error("environment `{environment}` cannot be moved to {commit}; it stays where it is")]
    Candidate {
        /// The commit.
        commit: String,
        /// The environment.
        environment: String,
        /// What is wrong there.
        findings: Diagnostics,
    },
    /// It is at the commit already, and does not load there.
    #[error("environment `{environment}` is at {commit} already, and it does not load")]
    Broken {
        /// The environment.
        environment: String,
        /// The commit.
        commit: String,
        /// What is wrong there.
        findings: Diagnostics,
    },
    /// There is no gate to go past.
    #[error(
        "`{environment}` is the first environment: no gate comes before it\nhelp: leave out `--override-gate` and \
         `--override-by`; nothing was changed"
    )]
    FirstHasNoGate {
        /// The environment.
        environment: String,
    },
    /// The step leads back along the chain.
    #[error(
        "`{from}` comes after `{environment}` in the chain: this would promote backwards; `{environment}` stays where \
         it is\nhelp: if that is meant, give `--backwards`; nothing was changed"
    )]
    FromLater {
        /// The environment.
        environment: String,
        /// The one that its commit would come from.
        from: String,
    },
    /// The hub gave no decision.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// A hook did not succeed.
    #[error(
        "hook `{hook}` failed: {problem}{recorded}; `{environment}` stays where it is\nhelp: fix what it found and promote again, or \
         go past the gate and its hooks with `--override-gate REASON --override-by NAME`, which is recorded in the commit"
    )]
    HookFailed {
        /// The environment that was to be moved.
        environment: String,
        /// The hook.
        hook: String,
        /// What it reported, or how it ended.
        problem: String,
        /// That its outcome is on record at the hub, as the rest of a sentence; empty where no check of the policy has its name.
        recorded: &'static str,
    },
    /// The program of a hook could not be started.
    #[error(
        "hook `{hook}` was not run: `{program}`: {problem}; `{environment}` stays where it is\nhelp: correct `--hook {hook}=PROGRAM` (`hooks` in \
         the `[promote]` section of the service's configuration), or have the program there and executable, and promote again; no outcome of this \
         hook was put on record"
    )]
    HookNotStarted {
        /// The environment that was to be moved.
        environment: String,
        /// The hook.
        hook: String,
        /// Its program.
        program: String,
        /// What happened.
        problem: String,
    },
    /// Programs for hooks that no policy has.
    #[error(
        "no promotion policy has a hook of a name that a program was given for: {hooks}; `{environment}` stays where it is\nhelp: {near} Leave out \
         `--hook` for what is no hook; nothing was changed"
    )]
    HookUnused {
        /// The environment that was to be moved.
        environment: String,
        /// The names.
        hooks: String,
        /// The name that may be meant, as a sentence.
        near: String,
    },
    /// The outcome of a hook that is a check of the policy is not on record at the hub.
    #[error(
        "hook `{hook}` {result}, and its outcome was not put on record at the hub, which the promotion policy asks for: {why}; `{environment}` \
         stays where it is\nhelp: {help}"
    )]
    HookNotStated {
        /// The environment that was to be moved.
        environment: String,
        /// The hook.
        hook: String,
        /// What came of it, with what it reported.
        result: Box<str>,
        /// Why not.
        why: Box<str>,
        /// What to do.
        help: &'static str,
        /// The kind of that failure.
        class: FailureClass,
    },
    /// Hooks without a program.
    #[error(
        "the promotion policy names hooks that no program was given for: {hooks}; `{environment}` stays where it is\nhelp: give \
         `--hook NAME=PROGRAM` for each, or `hooks` in the `[promote]` section of the service's configuration; a control \
         plane cannot name a program"
    )]
    HookUnknown {
        /// The environment that was to be moved.
        environment: String,
        /// Their names, with their places.
        hooks: String,
    },
    /// A gate decides, and no hub was named.
    #[error(
        "the gate of `{from}` decides whether `{environment}` moves, and no hub was named to ask; `{environment}` stays \
         where it is\nhelp: give `--hub URL`, or go past the gate with `--override-gate REASON --override-by NAME`, \
         which is recorded in the commit; nothing was changed"
    )]
    NoHub {
        /// The environment that was to be moved.
        environment: String,
        /// The environment before.
        from: String,
    },
    /// The commit is an ancestor of the one that is there.
    #[error(
        "{commit} is older than {there}, where `{environment}` is: this would promote backwards\nhelp: if that is \
         meant, give `--backwards`; nothing was changed"
    )]
    Older {
        /// The environment.
        environment: String,
        /// The commit that it is at.
        there: String,
        /// The commit that was asked for.
        commit: String,
    },
    /// A commit of the branch moved it back.
    #[error(
        "commit {made:.12} of its branch moved `{environment}` from {before} to {commit}, which does not contain it, without a gate\nhelp: if that is meant, give \
         `--backwards`, which asks the gate and puts it on record; if it is not, revert that commit; nothing was changed"
    )]
    MovedBack {
        /// The environment.
        environment: String,
        /// The commit on its branch.
        made: String,
        /// Where it was.
        before: String,
        /// Where it is.
        commit: String,
    },
    /// The commit that is there is no part of the one that was asked for.
    #[error(
        "{there}, where `{environment}` is, is not part of {commit}: this would take out what is in it, as after a branch was forced to \
         another history\nhelp: merge it; if that is meant, give `--backwards`; nothing was changed"
    )]
    Beside {
        /// The environment.
        environment: String,
        /// The commit that it is at.
        there: String,
        /// The commit that was asked for.
        commit: String,
    },
    /// Whether the commit contains the one that is there is not known: a part of the history is missing.
    #[error(
        "whether {commit} contains {there}, where `{environment}` is, is not known: the clone is shallow, and the commits between the two are \
         not in it; `{environment}` stays where it is\nhelp: complete the clone with `git fetch --unshallow` and ask again; nothing was changed"
    )]
    CutOff {
        /// The environment.
        environment: String,
        /// The commit that it is at.
        there: String,
        /// The commit that was asked for.
        commit: String,
    },
    /// The YAML does not read.
    #[error("{0}")]
    Findings(Diagnostics),
    /// No `BaseRepo` named `main`.
    #[error(
        "environment `{environment}` has no BaseRepo named `main`, so nothing can be promoted into it"
    )]
    NoBase {
        /// The environment.
        environment: String,
    },
    /// What was given names no commit.
    #[error(
        "`{text}` names no commit of `{repo}`: {why}\nhelp: give a full id, or the name of a branch or tag of that \
         repository; nothing was changed"
    )]
    NoCommit {
        /// What was given.
        text: String,
        /// The base's repository.
        repo: String,
        /// Why not.
        why: &'static str,
    },
    /// No such environment.
    #[error("there is no environment `{environment}`; there are {known}{}", near.as_ref().map(|near| format!("\nhelp: did you mean `{near}`?")).unwrap_or_default())]
    NoEnvironment {
        /// What was asked for.
        environment: String,
        /// What there is.
        known: String,
        /// The one that may be meant.
        near: Option<String>,
    },
    /// The chain allows the step from other environments only.
    #[error(
        "environment `{environment}` may only be promoted from {allowed} ({at})\nhelp: \
         give `--from`, so that its gate decides; nothing was changed"
    )]
    NotFromThere {
        /// The environment.
        environment: String,
        /// From where it may be entered.
        allowed: String,
        /// What says so.
        at: String,
    },
    /// What was given is not in a clone that has only a part of the history.
    #[error(
        "`{text}` names no commit of the clone of `{repo}` that is here, which is shallow: older commits are not in it\nhelp: complete it with \
         `git fetch --unshallow`, or give a full id, branch or tag that it has; nothing was changed"
    )]
    NotInShallow {
        /// What was given.
        text: String,
        /// The base's repository.
        repo: String,
    },
    /// Its own gate was named.
    #[error(
        "`--from` and `--to` are both `{environment}`: the gate of an environment does not decide about itself\nhelp: name the environment \
         before it as `--from`, or leave `--from` out; nothing was changed"
    )]
    FromItself {
        /// The environment.
        environment: String,
    },
    /// Something is before it, and it was to be moved without a gate.
    #[error(
        "environment `{environment}` is not the first of the chain: {allowed} comes before it ({at}), and only the \
         first follows its base branch without a gate; it stays where it is"
    )]
    NotFirst {
        /// The environment.
        environment: String,
        /// What is before it.
        allowed: String,
        /// What says so.
        at: String,
    },
    /// Nothing says where it is in the chain.
    #[error(
        "no policy and no label names the environment before `{environment}`, so no gate can be checked\nhelp: name it in a \
         PromotionPolicy, or in the label `outhaul.dev/after` of the Environment, in `.environments/`; nothing was changed"
    )]
    NoOrder {
        /// The environment.
        environment: String,
    },
    /// The environment before has no pinned commit.
    #[error(
        "environment `{environment}` follows a branch, not a commit, so there is nothing to promote\nhelp: \
         pin it first: `outhaul promote --to {environment} --commit SHA`"
    )]
    NotPinned {
        /// The environment.
        environment: String,
    },
    /// Which base is meant cannot be known.
    #[error(
        "two BaseRepos are named `main`, at {first} and {second}, and which of them is promoted cannot be known\nhelp: keep one of \
         them; one in a file that `.sourceignore` lists counts, too"
    )]
    SeveralBases {
        /// Where one is written.
        first: String,
        /// Where another one is written.
        second: String,
    },
    /// The repository cannot be read.
    #[error("the control plane cannot be read")]
    Source(#[from] SourceError),
    /// Another environment lies in the same place.
    #[error(
        "environments `{environment}` and `{other}` are on one branch, `{branch}` ({at}, {other_at}): what is promoted \
         into one is promoted into both; `{environment}` stays where it is\nhelp: give each environment its own branch \
         or path in `.environments/`; `outhaul check` names all that share one"
    )]
    Shared {
        /// The environment that was to be moved.
        environment: String,
        /// The one that shares its place.
        other: String,
        /// Their branch.
        branch: String,
        /// Where it is written.
        at: String,
        /// Where it is written for the other.
        other_at: String,
    },
    /// The base has a path that the sites of the environment before do not run, and no promotion brought it.
    #[error(
        "the base of `{environment}` has the path `{path}` ({at}), where that of `{from}` has `{their_path}`, and no promotion brought that \
         path: the gate of `{from}` says nothing about what is there; `{environment}` stays where it is\nhelp: set the path to \
         `{their_path}`; if another path is meant, promote it once with `outhaul promote --to {environment} --override-gate REASON --override-by NAME`, which is recorded in \
         the commit, and later promotions keep it; nothing was changed"
    )]
    UnseenPath {
        /// The environment that was to be moved.
        environment: String,
        /// The environment whose gate decides.
        from: String,
        /// The path of its base.
        path: Box<str>,
        /// That of the environment before.
        their_path: Box<str>,
        /// Where the base is written.
        at: Box<str>,
    },
    /// What a site ran has the commit, and other content of it.
    #[error(
        "site `{site}` of `{from}` confirms the commit with bundle {bundle}, which was made from {ran} of it; `{environment}` has {own}, which that \
         site did not run; `{environment}` stays where it is\nhelp: make a bundle of `{from}` as it is now, have its sites confirm it, and ask again; \
         or go past the gate with `--override-gate REASON --override-by NAME`, which is recorded in the commit; nothing was changed"
    )]
    NotRun {
        /// The environment that was to be moved.
        environment: String,
        /// The environment whose gate decides.
        from: String,
        /// The site.
        site: Box<str>,
        /// The bundle that it runs.
        bundle: u64,
        /// What that was made from.
        ran: Box<str>,
        /// What would be promoted.
        own: Box<str>,
    },
    /// Which content of the commit a site ran is not known.
    #[error(
        "site `{site}` of `{from}` confirms the commit with {bundle}, and which path of the base that was made from is not known: {why}; \
         `{environment}` stays where it is\nhelp: make a bundle of `{from}` as it is now, have its sites confirm it, and ask again; or go past the \
         gate with `--override-gate REASON --override-by NAME`, which is recorded in the commit; nothing was changed"
    )]
    PlaceUnknown {
        /// The environment that was to be moved.
        environment: String,
        /// The environment whose gate decides.
        from: String,
        /// The site.
        site: Box<str>,
        /// The bundle that it runs, in words.
        bundle: Box<str>,
        /// Why not.
        why: Box<str>,
    },
    /// A gate decided about it once, and the chain has none before it now.
    #[error(
        "`{environment}` is the first environment now, and commit {made:.12} of its branch records that it was promoted {how}: it is not moved \
         without that gate; `{environment}` stays where it is\nhelp: put the environment before it back into `.environments/`, or go past the gate \
         with `--override-gate REASON --override-by NAME`, which is recorded in the commit; nothing was changed"
    )]
    GateGone {
        /// The environment that was to be moved.
        environment: String,
        /// The promotion on its branch.
        made: String,
        /// Through which gate.
        how: Box<str>,
    },
    /// Whether a gate decided about it once is not known: a part of its history is missing.
    #[error(
        "`{environment}` is the first environment now, and whether it was promoted through a gate before is not known: {why}; `{environment}` \
         stays where it is\nhelp: try again where its whole branch can be fetched, or give a whole clone with `--source URL=DIR` (`git fetch \
         --unshallow` completes one); nothing was changed"
    )]
    FormerUnknown {
        /// The environment that was to be moved.
        environment: String,
        /// Why not.
        why: Box<str>,
    },
    /// The line could not be changed safely.
    #[error(
        "`{file}`: cannot change `spec.commit` without touching anything else\nhelp: write the BaseRepo in block style, in a separate file"
    )]
    Shape {
        /// The file.
        file: String,
    },
}

impl Classified for PromoteError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Source(source) if source.is_input() => FailureClass::Usage,
            Self::Source(_)
            | Self::FormerUnknown { .. }
            | Self::CutOff { .. }
            | Self::NotInShallow { .. }
            | Self::Branch {
                source: BranchError::Git { .. },
                ..
            } => FailureClass::Environment,
            Self::Gate(error) => error.class(),
            Self::HookNotStated { class, .. } => *class,
            Self::NotFromThere { .. }
            | Self::NotFirst { .. }
            | Self::NoOrder { .. }
            | Self::NoHub { .. }
            | Self::HookFailed { .. }
            | Self::FromLater { .. }
            | Self::Older { .. }
            | Self::Beside { .. }
            | Self::MovedBack { .. }
            | Self::UnseenPath { .. }
            | Self::NotRun { .. }
            | Self::PlaceUnknown { .. }
            | Self::GateGone { .. }
            | Self::Branch {
                source: BranchError::Moved { .. },
                ..
            } => FailureClass::Refused,
            Self::Candidate { findings, .. } | Self::Broken { findings, .. } => {
                findings.verdict(false).unwrap_or(FailureClass::Refused)
            }
            _ => FailureClass::Usage,
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            Self::Candidate { .. } => Some(
                "fix it and promote the commit that fixes it; a repository that this machine cannot reach is \
                 mapped with `--source URL=DIR`"
                    .to_owned(),
            ),
            Self::Broken { environment, .. } => Some(format!(
                "fix it on the branch of `{environment}`, or promote a commit that fixes it; nothing is shipped of it until then"
            )),
            Self::Source(source) => Some(source.help()),
            _ => None,
        }
    }
}
