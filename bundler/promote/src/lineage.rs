//! Which commit of an environment's branch brought its base to where it is, and whether a promotion did.
//!
//! What comes in: the branch, opened at a commit, and the base that it has there. What goes out: the [`Passage`] of the promotion, or
//! the commit that moved the base otherwise and why that is no promotion. The branch is followed back only to where the
//! base was another one, by its commit or by the path there: what was promoted before that is not what brought the base here, so that
//! no commit but a promotion moves an environment back to what it once was, or to content beside what was promoted. A promotion carries the
//! path that the base has there, and counts for both: that its gate decided about that path, too, is for whoever promotes to see
//! (`promotion`), and by which policies the gate decided is for `policy`. It asks no hub and moves nothing.

use outhaul_git::source::{OpenedSource, RecordedCommit};
use outhaul_kit::text::printable;

use super::moved::{self, BasePlace, BaseState};
use super::policy::{PastGate, SiteRule};
use super::record::{self, MessageReading, Passage};
use super::{Chain, Link, MAX_COMMITS, PromoteError};

/// Merges and renamed files that are followed.
const MAX_TURNS: usize = 50;

/// How a base came to where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    /// The promotion that brought it there, or why what moved it there is none, as the rest of a sentence about a commit.
    pub promotion: Result<Passage, String>,
    /// The commit of the branch that moved it there.
    pub moved_by: String,
    /// Where it was before that; `None` where there was none, or history does not show it.
    pub before: Option<BasePlace>,
    /// The path of the base by the promotion, where the environment before had another one then.
    pub other_path: Option<String>,
    /// Its repository by the promotion, likewise.
    pub other_repository: Option<String>,
    /// Whether a commit begins as a promotion and is none.
    pub is_disputed: bool,
}

/// The environment whose branch is looked at.
#[derive(Clone, Copy)]
pub(super) struct Branch<'a> {
    pub environment: &'a str,
    /// Where its content is in the repository.
    pub root: &'a str,
    /// By which rule the gate of an environment decided about it, in the promotion that names it.
    pub gate: &'a dyn Fn(&PastGate<'_>) -> Result<Option<SiteRule>, PromoteError>,
}

/// The commit that moved a base.
struct Mover {
    made: RecordedCommit,
    before: Option<BasePlace>,
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
        let unknown = |problem: String| Lineage {
            promotion: Err(problem),
            moved_by: opened.commit.clone(),
            before: None,
            other_path: None,
            other_repository: None,
            is_disputed: false,
        };
        let there = match moved::base_file(opened, self.root)? {
            Some(base) => base.place(),
            None => return Ok(unknown("its branch has no BaseRepo `main`".to_owned())),
        };
        match there.commit.as_deref() {
            Some(pinned) if pinned == commit => {}
            Some(pinned) => {
                return Ok(unknown(format!("its branch has the base at {pinned:.12}")));
            }
            None => {
                return Ok(unknown(
                    "its base has no commit and follows a branch".to_owned(),
                ));
            }
        }
        let mut at = opened.clone();
        let mut first: Option<Lineage> = None;
        for _ in 0..MAX_TURNS {
            let Some(mover) = self.mover(&at, &there)? else {
                break;
            };
            let after = mover.made.parents.first().map(String::as_str);
            let mut problem = None;
            for made in at.recorded("^Promote ", after, MAX_COMMITS)? {
                match self.promoted(&at, &made, commit)? {
                    Ok(passage) => {
                        return Ok(Lineage {
                            promotion: Ok(passage),
                            moved_by: mover.made.id,
                            before: mover.before,
                            other_path: record::other_path(&made.message).map(str::to_owned),
                            other_repository: record::other_repository(&made.message)
                                .map(str::to_owned),
                            is_disputed: false,
                        });
                    }
                    Err(Some(why)) if problem.is_none() => {
                        problem = Some(format!("commit {:.12} is not a promotion: {why}", made.id));
                    }
                    Err(_) => {}
                }
            }
            let side = self.merged(&at, &mover, &there)?;
            let is_disputed = problem.is_some();
            let problem = match problem {
                Some(problem) => problem,
                None => self.unpromoted(&at, &mover, (commit, &there.path))?,
            };
            // The newest is the one that a person looks for.
            first.get_or_insert(Lineage {
                promotion: Err(problem),
                moved_by: mover.made.id,
                before: mover.before,
                other_path: None,
                other_repository: None,
                is_disputed,
            });
            match side {
                Some(side) => at = at.at_commit(&side),
                None => break,
            }
        }
        Ok(first.unwrap_or_else(|| {
            unknown("which commit of the branch moved it there is not known".to_owned())
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
        if let Passage::Gate(from) = &passage {
            let gate = PastGate {
                from,
                to: self.environment,
                commit,
                policies: record::policies(&made.message),
            };
            let Some(rule) = (self.gate)(&gate)? else {
                return Ok(Err(Some(format!(
                    "it names the gate of `{from}`, which is not the one before `{}`",
                    self.environment
                ))));
            };
            if let Err(problem) =
                record::sites(&made.message, commit).map_or(Ok(()), |sites| rule.check(sites))
            {
                return Ok(Err(Some(format!("its message says that {problem}"))));
            }
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
        (commit, path): (&str, &str),
    ) -> Result<String, PromoteError> {
        let id = &mover.made.id;
        let Some(before) = &mover.before else {
            if let Some(why) = at.missing_history()? {
                return Ok(format!(
                    "which commit put it there is not known: {} (`git fetch --unshallow` completes a clone)",
                    printable(&why)
                ));
            }
            return Ok(format!(
                "commit {id:.12} put it there, and no commit of the base is recorded before that"
            ));
        };
        let mut did = Vec::new();
        let moved = before.commit.as_deref() != Some(commit);
        let was = match &before.commit {
            Some(commit) => format!("at {commit:.12}"),
            None => "without a commit".to_owned(),
        };
        if moved {
            did.push(match &before.commit {
                Some(commit) => format!("moved it there from {commit:.12}"),
                None => "moved it there from no commit".to_owned(),
            });
        }
        if before.path != path {
            did.push(format!(
                "changed the path of the base from `{}` to `{}`",
                printable(shown(&before.path)),
                printable(shown(path))
            ));
        }
        let subject = record::subject(self.environment, commit);
        let text = format!(
            "commit {id:.12} {}, and its message does not begin with `{subject}`",
            did.join(" and ")
        );
        let recorded = at.recorded("^Promote ", None, MAX_COMMITS)?;
        let earlier = recorded.iter().find(|made| {
            let reading = record::read(&made.message, self.environment, commit);
            matches!(reading, MessageReading::Sound(_))
        });
        Ok(match earlier {
            Some(made) if moved => format!(
                "{text}; commit {:.12}, which promoted it, came before the base was {was}, and does not count for a way back",
                made.id
            ),
            Some(made) => format!(
                "{text}; commit {:.12}, which promoted that commit of the base, came before that, and does not count for another path",
                made.id
            ),
            None => text,
        })
    }

    /// The newest commit on the line of `at` before which the base was not `there`; `None` where the base is not read there.
    fn mover(&self, at: &OpenedSource, there: &BasePlace) -> Result<Option<Mover>, PromoteError> {
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
                    BaseState::At(base) if base.place() == *there => {
                        unread = None;
                        if is_elsewhere {
                            at = earlier;
                            continue 'files;
                        }
                    }
                    BaseState::At(base) => {
                        let before = Some(base.place());
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

    /// Of a merge, the merged branch that brought the base `there`, where the branch that it was merged into had not moved its own
    /// since the two parted. A branch that is behind brings nothing: its base is older.
    fn merged(
        &self,
        at: &OpenedSource,
        mover: &Mover,
        there: &BasePlace,
    ) -> Result<Option<String>, PromoteError> {
        let Some((into, sides)) = mover.made.parents.split_first() else {
            return Ok(None);
        };
        let place = |id: &str| -> Result<Option<BasePlace>, PromoteError> {
            let base = moved::read(moved::base_file(&at.at_commit(id), self.root))?;
            Ok(match base {
                BaseState::At(base) => Some(base.place()),
                BaseState::Missing | BaseState::Unreadable => None,
            })
        };
        for side in sides {
            if place(side)?.as_ref() != Some(there) {
                continue;
            }
            let Some(parted) = at.common_ancestor(into, side)? else {
                continue;
            };
            if place(&parted)? == place(into)? {
                return Ok(Some(side.clone()));
            }
        }
        Ok(None)
    }
}

/// A path in a repository, for a person.
pub(super) fn shown(path: &str) -> &str {
    match path {
        "" => ".",
        path => path,
    }
}

impl Chain<'_> {
    /// How the base of `link` came to be `commit`.
    ///
    /// # Errors
    /// [`PromoteError`] when the history cannot be read.
    pub fn lineage(&self, link: &Link, commit: &str) -> Result<Lineage, PromoteError> {
        self.lineage_at(link, &link.opened, commit)
    }

    fn lineage_at(
        &self,
        link: &Link,
        opened: &OpenedSource,
        commit: &str,
    ) -> Result<Lineage, PromoteError> {
        let environment = &link.environment.name;
        let branch = Branch {
            environment,
            root: &link.environment.control_plane.path,
            gate: &|gate| self.rule_then(gate),
        };
        branch.lineage(opened, commit)
    }

    /// The commit that the base of `link` was at before an ordinary commit of the branch moved it to `commit`, and that commit, where
    /// `lineage` says how it came there. Commits that changed only the path there are no move in the history of the base.
    ///
    /// # Errors
    /// [`PromoteError`] when the history cannot be read.
    pub(super) fn moved_from(
        &self,
        link: &Link,
        commit: &str,
        lineage: Lineage,
    ) -> Result<Option<(String, String)>, PromoteError> {
        let mut lineage = lineage;
        for _ in 0..MAX_TURNS {
            if lineage.promotion.is_ok() {
                return Ok(None);
            }
            match lineage.before.and_then(|before| before.commit) {
                Some(before) if before == commit => {}
                before => return Ok(before.map(|before| (before, lineage.moved_by))),
            }
            let made = link.opened.at_commit(&lineage.moved_by);
            let itself = made.recorded("", None, 1)?;
            let Some(parent) = itself.first().and_then(|made| made.parents.first()) else {
                return Ok(None);
            };
            lineage = self.lineage_at(link, &link.opened.at_commit(parent), commit)?;
        }
        Ok(None)
    }
}
