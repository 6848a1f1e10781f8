//! Which commit of an environment's branch brought its base to where it is, and whether a promotion did.
//!
//! What comes in: the branch, opened at a commit, and the base that it has there. What goes out: the [`Passage`] of the promotion, or
//! the commit that moved the base otherwise and why that is no promotion. The branch is followed back only to where the
//! base was another one: what was promoted before that is not what brought the base here, so that no commit but a promotion
//! moves an environment back to what it once was. It asks no hub and moves nothing.

use outhaul_git::source::{OpenedSource, RecordedCommit};

use super::moved::{self, BaseState};
use super::record::{self, MessageReading, Passage};
use super::{Chain, Link, PromoteError};

/// Commits of an environment's branch that are looked at.
const MAX_COMMITS: usize = 5_000;
/// Merges and renamed files that are followed.
const MAX_TURNS: usize = 50;

/// How a base came to where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    /// The promotion that brought it there.
    pub passage: Option<Passage>,
    /// The commit of the branch that moved it there.
    pub moved_by: String,
    /// Where it was before that; `None` where there was none, or history does not show it.
    pub before: Option<String>,
    /// Without a promotion: why what moved it there is none, as the rest of a sentence about a commit.
    pub problem: Option<String>,
}

/// The environment whose branch is looked at.
#[derive(Clone, Copy)]
pub(super) struct Branch<'a> {
    pub environment: &'a str,
    /// Where its content is in the repository.
    pub root: &'a str,
    /// Whether the gate of an environment decides about it.
    pub may_come: &'a dyn Fn(&str) -> bool,
}

/// The commit that moved a base.
struct Mover {
    made: RecordedCommit,
    before: Option<String>,
}

impl Branch<'_> {
    /// How the base came to be `commit`, where the branch is `opened`.
    ///
    /// # Errors
    /// [`PromoteError`] when the history cannot be read.
    pub(super) fn lineage(
        &self,
        opened: &OpenedSource,
        commit: &str,
    ) -> Result<Lineage, PromoteError> {
        let mut at = opened.clone();
        let mut first: Option<Lineage> = None;
        for _ in 0..MAX_TURNS {
            let Some(mover) = self.mover(&at, commit)? else {
                break;
            };
            let after = mover.made.parents.first().map(String::as_str);
            let mut problem = None;
            for made in at.recorded("^Promote ", after, MAX_COMMITS)? {
                match self.promoted(&at, &made, commit)? {
                    Ok(passage) => {
                        return Ok(Lineage {
                            passage: Some(passage),
                            moved_by: mover.made.id,
                            before: mover.before,
                            problem: None,
                        });
                    }
                    Err(Some(why)) if problem.is_none() => {
                        problem = Some(format!("commit {:.12} is not a promotion: {why}", made.id));
                    }
                    Err(_) => {}
                }
            }
            let side = self.merged(&at, &mover, commit)?;
            let problem = match problem {
                Some(problem) => problem,
                None => self.unpromoted(&at, &mover, commit)?,
            };
            // The newest is the one that a person looks for.
            first.get_or_insert(Lineage {
                passage: None,
                moved_by: mover.made.id,
                before: mover.before,
                problem: Some(problem),
            });
            match side {
                Some(side) => at = at.at_commit(&side),
                None => break,
            }
        }
        Ok(first.unwrap_or_else(|| Lineage {
            passage: None,
            moved_by: opened.commit.clone(),
            before: None,
            problem: Some("which commit of the branch moved it there is not known".to_owned()),
        }))
    }

    /// What makes `made` no promotion: nothing that it says, or why what it says does not count.
    fn promoted(
        &self,
        at: &OpenedSource,
        made: &RecordedCommit,
        commit: &str,
    ) -> Result<Result<Passage, Option<String>>, PromoteError> {
        let passage = match record::read(&made.message, self.environment, commit) {
            MessageReading::OfOther => return Ok(Err(None)),
            MessageReading::Unsound(why) => return Ok(Err(Some(why))),
            MessageReading::Sound(passage) => passage,
        };
        if let Passage::Gate(from) = &passage
            && !(self.may_come)(from)
        {
            return Ok(Err(Some(format!(
                "it names the gate of `{from}`, which is not the one before `{}`",
                self.environment
            ))));
        }
        let besides = moved::besides_move(at, self.root, made, commit)?;
        Ok(match besides {
            Some(why) => Err(Some(why)),
            None => Ok(passage),
        })
    }

    /// What is missing where nothing since the move begins as a promotion.
    fn unpromoted(
        &self,
        at: &OpenedSource,
        mover: &Mover,
        commit: &str,
    ) -> Result<String, PromoteError> {
        let id = &mover.made.id;
        let Some(before) = &mover.before else {
            return Ok(format!(
                "commit {id:.12} put it there, and no commit of the base is recorded before that"
            ));
        };
        let subject = record::subject(self.environment, commit);
        let text = format!(
            "commit {id:.12} moved it there from {before:.12}, and its message does not begin with `{subject}`"
        );
        let recorded = at.recorded("^Promote ", None, MAX_COMMITS)?;
        let earlier = recorded.iter().find(|made| {
            let reading = record::read(&made.message, self.environment, commit);
            matches!(reading, MessageReading::Sound(_))
        });
        Ok(match earlier {
            Some(made) => format!(
                "{text}; commit {:.12}, which promoted it, came before the base was at {before:.12}, and does not count for a way back",
                made.id
            ),
            None => text,
        })
    }

    /// The newest commit on the line of `at` before which the base was not `commit`; `None` where the base is not read there.
    fn mover(&self, at: &OpenedSource, commit: &str) -> Result<Option<Mover>, PromoteError> {
        let mut at = at.clone();
        let mut unread: Option<RecordedCommit> = None;
        'files: for _ in 0..MAX_TURNS {
            let BaseState::At(file) = moved::read(moved::base_file(&at, self.root))? else {
                return Ok(None);
            };
            for made in at.changes_of(&file.path, MAX_COMMITS)? {
                let newest = |unread: Option<RecordedCommit>| unread.unwrap_or(made.clone());
                let Some(parent) = made.parents.first() else {
                    let made = newest(unread);
                    return Ok(Some(Mover { made, before: None }));
                };
                let earlier = at.at_commit(parent);
                let mut state = moved::read(moved::base_in(&earlier, self.root, &file.path))?;
                let is_elsewhere = matches!(state, BaseState::Missing);
                if is_elsewhere {
                    state = moved::read(moved::base_file(&earlier, self.root))?;
                }
                match state {
                    // What no program could load was no base that anything was shipped from.
                    BaseState::Unreadable => unread = Some(newest(unread)),
                    BaseState::At(base) if base.pinned() == Some(commit) => {
                        unread = None;
                        if is_elsewhere {
                            at = earlier;
                            continue 'files;
                        }
                    }
                    BaseState::At(base) => {
                        let before = base.pinned().map(str::to_owned);
                        let made = newest(unread);
                        return Ok(Some(Mover { made, before }));
                    }
                    BaseState::Missing => {
                        let made = newest(unread);
                        return Ok(Some(Mover { made, before: None }));
                    }
                }
            }
            // Before that nothing was read: the oldest that is known stands for the move.
            return Ok(unread.map(|made| Mover { made, before: None }));
        }
        Ok(None)
    }

    /// Of a merge, the merged branch that brought the base to `commit`, where the branch that it was merged into had not moved its own
    /// since the two parted. A branch that is behind brings nothing: its base is older.
    fn merged(
        &self,
        at: &OpenedSource,
        mover: &Mover,
        commit: &str,
    ) -> Result<Option<String>, PromoteError> {
        let Some((into, sides)) = mover.made.parents.split_first() else {
            return Ok(None);
        };
        let pinned = |id: &str| -> Result<Option<String>, PromoteError> {
            let base = moved::read(moved::base_file(&at.at_commit(id), self.root))?;
            Ok(match base {
                BaseState::At(base) => base.pinned().map(str::to_owned),
                BaseState::Missing | BaseState::Unreadable => None,
            })
        };
        for side in sides {
            if pinned(side)?.as_deref() != Some(commit) {
                continue;
            }
            let Some(parted) = at.common_ancestor(into, side)? else {
                continue;
            };
            if pinned(&parted)? == pinned(into)? {
                return Ok(Some(side.clone()));
            }
        }
        Ok(None)
    }
}

impl Chain<'_> {
    /// How the base of `link` came to be `commit`.
    ///
    /// # Errors
    /// [`PromoteError`] when the history cannot be read.
    pub fn lineage(&self, link: &Link, commit: &str) -> Result<Lineage, PromoteError> {
        let environment = &link.environment.name;
        let branch = Branch {
            environment,
            root: &link.environment.control_plane.path,
            may_come: &|from| self.may_come(from, environment),
        };
        branch.lineage(&link.opened, commit)
    }
}
