//! The commits between two reports that change what the site got.
//!
//! What comes in: a fault with the commits of both reports. What goes out: those commits that change the assignments in question, with
//! what they change, and what the site did by itself. A range of commits whose ends give the site the same is not looked
//! into: whatever happened in it was taken back.

use std::collections::BTreeSet;

use outhaul_bundle::hub_api::{FaultDetail, FaultKind, SiteLook};
use outhaul_bundle::index::{Snapshot, Source};
use outhaul_git::source::{CommitSummary, OpenedSource};
use outhaul_load::pipeline::Platform;

use crate::change::{changes_of, open_at};
use crate::moved::{SourceMove, moved};
use crate::rank::Candidate;
use crate::states::{Fingerprints, RenderedState, RenderedStates, sources};
use crate::{BlameError, BlameRequest};

/// Most commits of one source that are looked at.
const MOST_COMMITS: usize = 500;

/// What was found.
#[derive(Default)]
pub(crate) struct Walk {
    pub assignments: Vec<String>,
    pub candidates: Vec<Candidate>,
    pub commits: Vec<(String, usize)>,
    pub incomplete: Option<String>,
    pub notes: Vec<String>,
}

pub(crate) fn walk(request: &BlameRequest<'_>) -> Walk {
    let fault = request.fault;
    let mut found = Walk {
        assignments: fault.assignments.clone(),
        ..Walk::default()
    };
    // A site that went back to an older bundle by itself, or by a person's word, followed no commit. One that was moved to another
    // stream meanwhile has other numbers.
    let is_moved = fault.acts.iter().any(|act| act.kind == "order");
    let went_back =
        (fault.good.as_ref()).filter(|good| good.bundle > fault.bad.bundle && !is_moved);
    if let Some(good) = went_back {
        found.notes.push(format!(
            "the site went back from bundle {} to bundle {}: no commit is between them",
            good.bundle, fault.bad.bundle
        ));
    } else if let Some(good) = &fault.good
        && good.snapshot.digest != fault.bad.snapshot.digest
    {
        // What was kept was rendered from older commits than its bundle names.
        let from = fault.good_rendered.as_ref().unwrap_or(good);
        if let Err(error) = commits(request, from, &mut found) {
            found.incomplete = Some(error.to_string());
        }
    }
    let is_of_commits = !found.candidates.is_empty() || found.incomplete.is_some();
    if let Some(good) = &fault.good
        && good.bundle < fault.bad.bundle
        && !is_of_commits
    {
        let content = Candidate::content(good.bundle, fault.bad.bundle);
        found.candidates.push(content);
    }
    // What a person holds at another bundle's content differs from the bundle, and nobody changed it.
    let is_held = |detail: &FaultDetail| detail.held && detail.steps.is_empty();
    let details = &fault.bad.details;
    if fault.kind == FaultKind::Drifted && (details.is_empty() || !details.iter().all(is_held)) {
        found.candidates.push(Candidate::drift());
    }
    for act in &fault.acts {
        let is_meant = act.assignment.as_ref().is_none_or(|assignment| {
            found.assignments.is_empty() || found.assignments.contains(assignment)
        });
        // Consent, and its absence, change nothing that runs; leaving a bundle explains one that was well, and one that is
        // tried again.
        let is_left = (fault.good.as_ref()).is_some_and(|good| good.bundle >= fault.bad.bundle);
        let changes_something = match act.kind.as_str() {
            "decision" => false,
            "rollback" => is_left,
            _ => true,
        };
        if is_meant && changes_something {
            let text = format!("{} (report {}, {})", act.text, act.report, act.at);
            found.candidates.push(match act.kind.as_str() {
                "rollback" => Candidate::rollback(text),
                _ => Candidate::act(text),
            });
        }
    }
    found
}

fn commits(
    request: &BlameRequest<'_>,
    good: &SiteLook,
    found: &mut Walk,
) -> Result<(), BlameError> {
    let bad = &request.fault.bad;
    let mut states = RenderedStates::new(request);
    let (before, after) = (states.at(&good.snapshot), states.at(&bad.snapshot));
    for (state, look) in [(&before, good), (&after, bad)] {
        let why = match &state.platform {
            Err(why) => Some(why.clone()),
            Ok(platform) => {
                read_otherwise(platform, &look.snapshot).or_else(|| lost(platform, &look.snapshot))
            }
        };
        if let Some(why) = why {
            let bundle = look.bundle;
            return Err(BlameError::Gone { bundle, why });
        }
    }
    let meant = in_question(request, &before.fingerprints, &after.fingerprints);
    if found.assignments.is_empty() {
        found.assignments = meant.iter().cloned().collect();
    }
    if meant.is_empty() {
        found.notes.push(
            "the commits between the two reports change nothing that this site gets".to_owned(),
        );
        return Ok(());
    }
    let platform = after.platform.as_ref().map_err(|why| BlameError::Gone {
        bundle: bad.bundle,
        why: why.clone(),
    })?;
    for moved in moved(&good.snapshot, &bad.snapshot, platform, &mut found.notes) {
        let opened = open(platform, &moved)?;
        let mut commits = opened
            .since(&moved.from, MOST_COMMITS + 1)
            .map_err(|source| BlameError::Source {
                repo: moved.repo.clone(),
                source,
            })?;
        if commits.len() > MOST_COMMITS {
            commits.truncate(MOST_COMMITS);
            // What came before them counts as one step with the oldest of them.
            found.notes.push(format!(
                "only the newest {MOST_COMMITS} commits of `{}` were searched",
                moved.title()
            ));
        }
        commits.reverse();
        found.commits.push((moved.title(), commits.len()));
        if commits.is_empty() {
            // Set back to an older commit, or to one of another history: what that changed is no commit of its own.
            let short = |id: &str| id.get(..12).unwrap_or(id).to_owned();
            found.incomplete.get_or_insert(format!(
                "`{}` went from {} to {}, to which no commit leads: it was set back, or its branch was rewritten; what lies \
                 between is not compared",
                moved.title(),
                short(&moved.from),
                short(&moved.to)
            ));
            continue;
        }
        // Alone on top of what was well; where that shows nothing, last on top of all the others.
        let mut steps = Steps::new(
            &mut states,
            &meant,
            &moved,
            &commits,
            (&good.snapshot, &bad.snapshot),
        );
        let mut places = steps.changing();
        if places.is_empty() {
            steps.on_top_of(&bad.snapshot);
            places = steps.changing();
        }
        for place in places {
            let (older, newer) = (steps.state(place), steps.state(place + 1));
            let cause = changes_of(
                request,
                &meant,
                &moved,
                &commits[place],
                (&older, &newer),
                platform,
            )?;
            found.candidates.push(Candidate::commit(cause));
        }
    }
    Ok(())
}

/// Why the platform is less than what a report names: a team's repository that was read then cannot be read now, and nothing of it would
/// be compared.
fn lost(platform: &Platform, reported: &Snapshot) -> Option<String> {
    let lost = &platform.control_plane.lost;
    let named = sources(reported).find(|source| lost.contains_key(&source.name))?;
    let findings = platform.control_plane.lost_findings();
    let why = findings.iter().next();
    let why = why.map_or_else(String::new, |finding| format!(": {}", finding.message));
    Some(format!(
        "`{}` ({}) cannot be read{why}",
        named.name, named.repo
    ))
}

/// Why the platform is not what a report names: a plain folder is read as it is, whatever commit is asked for.
fn read_otherwise(platform: &Platform, reported: &Snapshot) -> Option<String> {
    let found = sources(&platform.rendering.snapshot).find(|read| {
        let same = |one: &&Source| one.name == read.name && one.repo == read.repo;
        let named = sources(reported).find(same);
        named.is_none_or(|named| named.commit != read.commit)
    })?;
    let is_folder = found.commit.is_empty() || found.commit.starts_with("sha256:");
    Some(match is_folder {
        true => format!(
            "`{}` is read from a plain folder, which has no older commits",
            found.name
        ),
        false => format!(
            "`{}` ({}) is not among the sources that the site reports at commit {}",
            found.name, found.repo, found.commit
        ),
    })
}

/// The assignments that the site names, or else those that it got otherwise than before.
fn in_question(
    request: &BlameRequest<'_>,
    before: &Fingerprints,
    after: &Fingerprints,
) -> BTreeSet<String> {
    let named = &request.fault.assignments;
    let all: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differs = |name: &&&String| before.get(**name) != after.get(**name);
    let is_named = |name: &&&String| named.is_empty() || named.contains(**name);
    let found = all.iter().filter(differs).filter(is_named);
    found.map(|name| (*name).clone()).collect()
}

fn open(platform: &Platform, moved: &SourceMove) -> Result<OpenedSource, BlameError> {
    open_at(platform, &moved.repo, &moved.to)
}

/// The states that one source goes through, all others staying where they are.
struct Steps<'s, 'r> {
    states: &'s mut RenderedStates<'r>,
    meant: &'s BTreeSet<String>,
    moved: &'s SourceMove,
    commits: &'s [CommitSummary],
    others: Snapshot,
    bad: &'s Snapshot,
}

impl<'s, 'r> Steps<'s, 'r> {
    fn new(
        states: &'s mut RenderedStates<'r>,
        meant: &'s BTreeSet<String>,
        moved: &'s SourceMove,
        commits: &'s [CommitSummary],
        (good, bad): (&Snapshot, &'s Snapshot),
    ) -> Self {
        Self {
            states,
            meant,
            moved,
            commits,
            others: good.clone(),
            bad,
        }
    }

    fn on_top_of(&mut self, others: &Snapshot) {
        self.others = others.clone();
    }

    /// The state before commit `place`; the one of the last commit is at the end.
    fn state(&mut self, place: usize) -> std::rc::Rc<RenderedState> {
        let commit = match place {
            0 => self.moved.from.clone(),
            place => self.commits[place - 1].id.clone(),
        };
        let mut snapshot = self.others.clone();
        // What the older one does not have yet is as in the newer one, not as it is today.
        for new in &self.bad.workloads {
            let known = |one: &Source| one.name == new.name && one.repo == new.repo;
            if !snapshot.workloads.iter().any(known) {
                snapshot.workloads.push(new.clone());
            }
        }
        let Snapshot {
            environment,
            base,
            workloads,
            ..
        } = &mut snapshot;
        for one in [environment, base].into_iter().chain(workloads) {
            if self.moved.is_source(one) {
                one.commit.clone_from(&commit);
            }
        }
        self.states.at(&snapshot)
    }

    fn print(&mut self, place: usize) -> Option<Vec<Option<outhaul_bundle::Digest>>> {
        let state = self.state(place);
        state.platform.is_ok().then(|| {
            let print = |name: &String| state.fingerprints.get(name).copied();
            self.meant.iter().map(print).collect()
        })
    }

    /// The commits after which the site gets something else, the oldest first.
    fn changing(&mut self) -> Vec<usize> {
        let mut found = Vec::new();
        let mut open = vec![(0, self.commits.len())];
        while let Some((from, to)) = open.pop() {
            if from == to || self.print(from) == self.print(to) {
                continue;
            }
            if to == from + 1 {
                found.push(from);
                continue;
            }
            let middle = usize::midpoint(from, to);
            open.extend([(from, middle), (middle, to)]);
        }
        found.sort_unstable();
        self.without_detours(found)
    }

    /// The same without commits that later ones took back: after them the site would get what it got before them.
    fn without_detours(&mut self, changing: Vec<usize>) -> Vec<usize> {
        let mut seen = vec![self.print(0)];
        let mut kept: Vec<usize> = Vec::new();
        for place in changing {
            let after = self.print(place + 1);
            match seen.iter().position(|before| *before == after) {
                Some(back) => {
                    kept.truncate(back);
                    seen.truncate(back + 1);
                }
                None => {
                    kept.push(place);
                    seen.push(after);
                }
            }
        }
        kept
    }
}
