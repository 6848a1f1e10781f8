//! A pull request instead of a push: the same commit, on a separate branch.
//!
//! What comes in: what is desired, and a [`Forge`]. What goes out: one branch per environment and base,
//! always under the same name, and one open pull request from it, updated at every run. A branch to
//! which someone else committed is left alone; so is every pull request but our own. When the base
//! holds what is desired, our own pull request is closed and its branch removed.

use std::error::Error;

use outhaul_bundle::index::Snapshot;

use super::forge::{Draft, Forge, PullRequest};
use super::message::{self, ENVIRONMENT_TRAILER};
use super::plan::{self, CommitChanges, OnRecord, PlanError};
use super::{ATTEMPTS, Desired, PlatformRepository, PublishError};
use crate::destination::{self, Committed, Destination};
use outhaul_diff::Difference;
use outhaul_git::branch::was_overtaken;
use outhaul_git::store::StoreError;
use outhaul_record::guard::Removal;
use outhaul_record::plan::{DesiredContent, Plan};

/// The label of a pull request that moves the promoted commit, as Kalypso's pipelines expect it.
pub const PROMOTED_LABEL: &str = "promoted";

/// Why there is no pull request.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError<E: Error + 'static> {
    /// The forge said no.
    #[error("the commit is on `{branch}`, but its pull request is not as it should be")]
    Forge {
        /// The branch.
        branch: String,
        /// Why.
        source: E,
    },
    /// A pull request goes into a branch that exists.
    #[error(
        "`{url}` has no branch `{branch}` that a pull request could go into\nhelp: make it on the \
         forge, or run once without `--pull-request` (for `outhaul serve`: `pull_request = false`), which makes it"
    )]
    NoBase {
        /// The repository.
        url: String,
        /// The branch.
        branch: String,
    },
    /// The commit was not made.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposed {
    /// The branch of the pull request.
    pub branch: String,
    /// What it changes in the base.
    pub plan: CommitChanges,
    /// Its commit; `None` when there is nothing to propose.
    pub commit: Option<String>,
    /// The pull request; with nothing to propose, the one that was closed.
    pub pull_request: Option<PullRequest>,
    /// What was done to it.
    pub done: ProposalAction,
}

/// A commit on the branch of a pull request.
struct ProposedCommit {
    branch: String,
    commit: String,
    /// Whether it was not there before.
    moved: bool,
    plan: CommitChanges,
}

/// What was done to a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProposalAction {
    /// Closed: the base holds what it proposed.
    Closed,
    /// Nothing: there was none, or it is as it should be.
    Nothing,
    /// Opened.
    Opened,
    /// Its commit, title, text or label changed.
    Updated,
}

/// The branch that pull requests of `environment` into `base` come from.
pub fn branch_name(environment: &str, base: &str) -> String {
    format!("outhaul/{environment}/{base}")
}

impl<E: Error + 'static> From<StoreError> for ProposeError<E> {
    fn from(error: StoreError) -> Self {
        Self::Publish(error.into())
    }
}

impl PlatformRepository {
    /// Proposes `desired` for the target's branch. `since` states what it changes of what an older
    /// snapshot gave, or why that cannot be known; see `outhaul_load::since`.
    ///
    /// # Errors
    /// [`ProposeError`]; the target's branch is never changed.
    pub fn propose<E: Error + 'static>(
        &self,
        desired: &Desired<'_>,
        forge: &dyn Forge<Error = E>,
        since: &dyn Fn(&Snapshot) -> Result<Difference, String>,
    ) -> Result<Proposed, ProposeError<E>> {
        let branch = branch_name(desired.environment, &self.target.branch);
        self.store.check_branch(&branch)?;
        destination::ship(Proposal {
            repository: self,
            desired,
            forge,
            since,
            branch,
            tip: String::new(),
        })
    }

    /// The newest commit of our branch, which must be ours.
    fn own_tip(&self, branch: &str, environment: &str) -> Result<Option<String>, PublishError> {
        let Some(commit) = self.store.fetch(branch)? else {
            return Ok(None);
        };
        let ours = format!("{ENVIRONMENT_TRAILER}: {environment}");
        if self.store.raw(&commit)?.lines().any(|line| line == ours) {
            return Ok(Some(commit));
        }
        Err(PublishError::Taken {
            url: self.target.url.clone(),
            branch: branch.to_owned(),
            commit,
        })
    }

    /// Whether two commits have the same parent, content and message: only who and when differ.
    fn same(&self, a: &str, b: &str) -> Result<bool, PublishError> {
        let what = |commit| -> Result<Vec<String>, PublishError> {
            let raw = self.store.raw(commit)?;
            let who = |line: &&str| !line.starts_with("author ") && !line.starts_with("committer ");
            Ok(raw.lines().filter(who).map(str::to_owned).collect())
        };
        Ok(what(a)? == what(b)?)
    }

    fn ask<E: Error + 'static>(
        &self,
        made: ProposedCommit,
        title: &str,
        body: &str,
        forge: &dyn Forge<Error = E>,
    ) -> Result<Proposed, ProposeError<E>> {
        let ProposedCommit {
            branch,
            commit,
            moved,
            plan,
        } = made;
        let failed = |source| ProposeError::Forge {
            branch: branch.clone(),
            source,
        };
        let base = &self.target.branch;
        let draft = Draft {
            head: &branch,
            base,
            title,
            body,
        };
        let (found, mut done) = match forge.find(&branch, base).map_err(failed)? {
            None => (forge.open(&draft).map_err(failed)?, ProposalAction::Opened),
            Some(found) if found.title == draft.title && same_text(&found.body, draft.body) => {
                let done = if moved {
                    ProposalAction::Updated
                } else {
                    ProposalAction::Nothing
                };
                (found, done)
            }
            Some(found) => {
                let updated = forge.update(found.number, &draft).map_err(failed)?;
                (updated, ProposalAction::Updated)
            }
        };
        if found.labels.contains(PROMOTED_LABEL) != plan.promoted {
            forge
                .label(found.number, PROMOTED_LABEL, plan.promoted)
                .map_err(failed)?;
            if done == ProposalAction::Nothing {
                done = ProposalAction::Updated;
            }
        }
        Ok(Proposed {
            branch,
            plan,
            commit: Some(commit),
            pull_request: Some(found),
            done,
        })
    }

    /// The base holds everything: closes our own pull request, if one is open.
    fn withdraw<E: Error + 'static>(
        &self,
        branch: String,
        old: Option<&str>,
        plan: CommitChanges,
        forge: &dyn Forge<Error = E>,
    ) -> Result<Proposed, ProposeError<E>> {
        let failed = |source| ProposeError::Forge {
            branch: branch.clone(),
            source,
        };
        let mut done = ProposalAction::Nothing;
        let mut closed = None;
        if let Some(old) = old {
            closed = forge.find(&branch, &self.target.branch).map_err(failed)?;
            if let Some(open) = &closed {
                forge.close(open.number).map_err(failed)?;
                done = ProposalAction::Closed;
            }
            // Someone else may have removed it, as forges do after a merge.
            if let Err(error) = self.store.remove(&branch, old) {
                tracing::debug!(branch, %error, "the branch is not removed");
            }
        }
        Ok(Proposed {
            branch,
            plan,
            commit: None,
            pull_request: closed,
            done,
        })
    }
}

/// A pull request from our own branch.
struct Proposal<'a, E> {
    repository: &'a PlatformRepository,
    desired: &'a Desired<'a>,
    forge: &'a dyn Forge<Error = E>,
    since: &'a dyn Fn(&Snapshot) -> Result<Difference, String>,
    branch: String,
    /// The newest commit of the branch that it goes into, when that was read.
    tip: String,
}

impl<E: Error + 'static> Destination for Proposal<'_, E> {
    type Shipped = OnRecord;
    type Done = Proposed;
    type Error = ProposeError<E>;

    const ATTEMPTS: usize = ATTEMPTS;

    fn wanted(&self) -> DesiredContent<'_> {
        self.desired.wanted()
    }

    fn read(&mut self) -> Result<OnRecord, ProposeError<E>> {
        let PlatformRepository { target, store } = self.repository;
        let Some(tip) = store.fetch(&target.branch)? else {
            return Err(ProposeError::NoBase {
                url: target.url.clone(),
                branch: target.branch.clone(),
            });
        };
        self.tip = tip;
        Ok(self.repository.on_record(Some(&self.tip), self.desired)?)
    }

    fn all_broken(&self) -> Option<ProposeError<E>> {
        Some(PublishError::from(PlanError::AllBroken).into())
    }

    fn commit(
        &mut self,
        on_record: OnRecord,
        plan: Plan<()>,
    ) -> Result<Committed<Proposed, ProposeError<E>>, ProposeError<E>> {
        let Self {
            repository,
            desired,
            forge,
            since,
            branch,
            tip,
        } = self;
        let PlatformRepository { target, store } = repository;
        let plan = plan::changes(&target.path, &on_record, desired, plan.isolation)
            .map_err(PublishError::from)?;
        let branch = branch.clone();
        let old = repository.own_tip(&branch, desired.environment)?;
        if plan.is_empty() {
            let done = repository.withdraw(branch, old.as_deref(), plan, *forge)?;
            return Ok(Committed::Done(done));
        }
        let text = message::commit(desired, &plan);
        let made = store.commit(Some(tip), &plan.edits, &text)?;
        let pushed = match &old {
            Some(old) if repository.same(old, &made)? => Ok(old.clone()),
            _ => store.push(&branch, old.as_deref(), &made).map(|()| made),
        };
        match pushed {
            Ok(commit) => {
                let moved = old.as_ref() != Some(&commit);
                let change = match &plan.before {
                    Some(before) => since(before),
                    // Everything is new.
                    None => Err(String::new()),
                };
                let text = message::body(desired, &plan, &change);
                let title = message::title(desired, &plan);
                let made = ProposedCommit {
                    branch,
                    commit,
                    moved,
                    plan,
                };
                let done = repository.ask(made, &title, &text, *forge)?;
                Ok(Committed::Done(done))
            }
            Err(error) if was_overtaken(&error.message) => {
                tracing::info!(branch, "someone else pushed meanwhile; reading it again");
                Ok(Committed::Overtaken(repository.moved(&branch).into()))
            }
            Err(error) => Err(repository.refused(&branch, error).into()),
        }
    }
}

impl<E: Error + 'static> From<Removal> for ProposeError<E> {
    fn from(removal: Removal) -> Self {
        PublishError::from(removal).into()
    }
}

/// Forges change line ends and the last one.
fn same_text(a: &str, b: &str) -> bool {
    a.replace("\r\n", "\n").trim_end() == b.trim_end()
}
