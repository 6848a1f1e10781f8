//! The commits between two reports that change what the site got.
//!
//! What comes in: a fault with the commits of both reports. What goes out: those commits that change the assignments in question, with
//! what they change, and what the site did by itself. A range of commits whose ends give the site the same is not looked
//! into: whatever happened in it was taken back.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::hub_api::{FaultKind, SiteLook};
use outhaul_bundle::index::{Snapshot, Source};
use outhaul_git::source::{self, CommitSummary, GitReference, Opened};
use outhaul_load::pipeline::Platform;
use outhaul_load::sides::side;
use outhaul_plane::diff;

use crate::cause::CommitCause;
use crate::rank::Candidate;
use crate::states::{Fingerprints, State, States, sources};
use crate::{BlameError, BlameRequest};

/// Most commits of one source that are looked at.
const MOST_COMMITS: usize = 500;
/// What a snapshot calls an assignment that stayed as an older snapshot had it.
const KEPT: &str = "kept:";

/// What was found.
#[derive(Default)]
pub(crate) struct Found {
    pub assignments: Vec<String>,
    pub candidates: Vec<Candidate>,
    pub commits: Vec<(String, usize)>,
    pub notes: Vec<String>,
}

/// Sources that went from one commit to another together: the same repository, read for several things.
struct Moved {
    repo: String,
    names: BTreeSet<String>,
    from: String,
    to: String,
}

pub(crate) fn walk(request: &BlameRequest<'_>) -> Result<Found, BlameError> {
    let fault = request.fault;
    let mut found = Found {
        assignments: fault.assignments.clone(),
        ..Found::default()
    };
    if let Some(good) = &fault.good
        && good.snapshot.digest != fault.bad.snapshot.digest
    {
        // What was kept was rendered from older commits than its bundle names.
        commits(
            request,
            fault.good_rendered.as_ref().unwrap_or(good),
            &mut found,
        )?;
    }
    if fault.kind == FaultKind::Drifted {
        found.candidates.push(Candidate::drift());
    }
    for act in &fault.acts {
        let is_meant = act.assignment.as_ref().is_none_or(|assignment| {
            found.assignments.is_empty() || found.assignments.contains(assignment)
        });
        // Consent, and its absence, change nothing that runs.
        let changes_something = act.kind != "decision";
        if is_meant && changes_something {
            let text = format!("{} (report {}, {})", act.text, act.report, act.at);
            found.candidates.push(Candidate::act(text));
        }
    }
    Ok(found)
}

fn commits(
    request: &BlameRequest<'_>,
    good: &SiteLook,
    found: &mut Found,
) -> Result<(), BlameError> {
    let bad = &request.fault.bad;
    let mut states = States::new(
        request.load,
        request.mode,
        request.site,
        request.cluster_type,
    );
    let (before, after) = (states.at(&good.snapshot), states.at(&bad.snapshot));
    for (state, look) in [(&before, good), (&after, bad)] {
        if let Err(why) = &state.platform {
            return Err(BlameError::Gone {
                bundle: look.bundle,
                why: why.clone(),
            });
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
    for moved in moved(&good.snapshot, &bad.snapshot, &mut found.notes) {
        let opened = open(platform, &moved)?;
        let mut commits = opened
            .since(&moved.from, MOST_COMMITS + 1)
            .map_err(|source| BlameError::Source {
                repo: moved.repo.clone(),
                source,
            })?;
        if commits.len() > MOST_COMMITS {
            commits.truncate(MOST_COMMITS);
            found.notes.push(format!(
                "only the newest {MOST_COMMITS} commits of `{}` were looked at",
                moved.title()
            ));
        }
        commits.reverse();
        found.commits.push((moved.title(), commits.len()));
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
            let cause = told(
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

fn moved(good: &Snapshot, bad: &Snapshot, notes: &mut Vec<String>) -> Vec<Moved> {
    let old: BTreeMap<(&str, &str), &Source> = sources(good)
        .map(|one| ((one.name.as_str(), one.repo.as_str()), one))
        .collect();
    let mut found: Vec<Moved> = Vec::new();
    for new in sources(bad) {
        if new.name.starts_with(KEPT) {
            continue;
        }
        let Some(old) = old.get(&(new.name.as_str(), new.repo.as_str())) else {
            notes.push(format!(
                "`{}` ({}) is new and has no commits to compare with",
                new.name, new.repo
            ));
            continue;
        };
        if old.commit == new.commit {
            continue;
        }
        if old.commit.starts_with("sha256:") || new.commit.starts_with("sha256:") {
            notes.push(format!(
                "`{}` is a plain folder: it has no commits to look at",
                new.name
            ));
            continue;
        }
        let known = found
            .iter_mut()
            .find(|one| one.repo == new.repo && one.from == old.commit && one.to == new.commit);
        match known {
            Some(known) => {
                known.names.insert(new.name.clone());
            }
            None => found.push(Moved {
                repo: new.repo.clone(),
                names: BTreeSet::from([new.name.clone()]),
                from: old.commit.clone(),
                to: new.commit.clone(),
            }),
        }
    }
    found
}

impl Moved {
    /// Its name, without what only tells for what else it is read.
    fn title(&self) -> String {
        let own = self
            .names
            .iter()
            .find(|name| !name.starts_with("manifests:"));
        own.or(self.names.first()).cloned().unwrap_or_default()
    }

    fn is_source(&self, one: &Source) -> bool {
        one.repo == self.repo && self.names.contains(&one.name)
    }
}

fn open(platform: &Platform, moved: &Moved) -> Result<Opened, BlameError> {
    open_at(platform, &moved.repo, &moved.to)
}

fn open_at(platform: &Platform, repo: &str, commit: &str) -> Result<Opened, BlameError> {
    let reference = GitReference::Commit {
        id: commit.to_owned(),
        near: None,
    };
    source::open(repo, &reference, &platform.sources, &platform.cache).map_err(|source| {
        BlameError::Source {
            repo: repo.to_owned(),
            source,
        }
    })
}

/// The states that one source goes through, all others staying where they are.
struct Steps<'s, 'r> {
    states: &'s mut States<'r>,
    meant: &'s BTreeSet<String>,
    moved: &'s Moved,
    commits: &'s [CommitSummary],
    others: Snapshot,
    bad: &'s Snapshot,
}

impl<'s, 'r> Steps<'s, 'r> {
    fn new(
        states: &'s mut States<'r>,
        meant: &'s BTreeSet<String>,
        moved: &'s Moved,
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
    fn state(&mut self, place: usize) -> std::rc::Rc<State> {
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

/// What one commit changes for the assignments in question.
fn told(
    request: &BlameRequest<'_>,
    meant: &BTreeSet<String>,
    moved: &Moved,
    commit: &CommitSummary,
    (older, newer): (&State, &State),
    platform: &Platform,
) -> Result<CommitCause, BlameError> {
    let repo = &moved.repo;
    let failed = |source| BlameError::Source {
        repo: repo.clone(),
        source,
    };
    let before = commit.before.clone().unwrap_or_else(|| moved.from.clone());
    let opened = open_at(platform, repo, &commit.id)?;
    let mut cause = CommitCause {
        id: commit.id.clone(),
        paths: opened.changed_since(&before, "").map_err(failed)?,
        before: before.clone(),
        repo: repo.clone(),
        source: moved.title(),
        names: moved.names.clone(),
        branch: branch(request, platform, moved),
        author: commit.author.clone(),
        at: commit.at.clone(),
        subject: commit.subject.clone(),
        assignments: meant
            .iter()
            .filter(|name| older.fingerprints.get(*name) != newer.fingerprints.get(*name))
            .cloned()
            .collect(),
        values: Vec::new(),
        templates: Vec::new(),
        files: Vec::new(),
        lines: Vec::new(),
    };
    let (Ok(old), Ok(new)) = (&older.platform, &newer.platform) else {
        // It cannot be rendered at all on one side: everything in it counts.
        cause.lines = opened.lines_since(&before, "").map_err(failed)?;
        return Ok(cause);
    };
    let mut difference = diff::compare(side("before", old), side("after", new));
    if let Some(change) = difference.cluster_types.remove(request.cluster_type) {
        let of_site =
            |sites: &[String]| sites.is_empty() || sites.iter().any(|site| site == request.site);
        cause.values = change.values;
        cause.values.retain(|value| {
            value
                .targets
                .iter()
                .any(|target| match target.split_once('@') {
                    Some((target, site)) => site == request.site && meant.contains(target),
                    None => meant.contains(target),
                })
        });
        cause.templates = change.templates;
        for file in change.files {
            let target = file.path.split('/').next().unwrap_or_default();
            if meant.contains(target) && of_site(&file.sites) {
                cause
                    .lines
                    .extend(file.diff.iter().filter(|line| is_change(line)).cloned());
                cause.files.push(file.path);
            }
        }
    }
    let mut places = BTreeSet::new();
    for name in meant {
        let group = new.rendering.cluster_types.get(request.cluster_type);
        let Some(rendered) = group.and_then(|group| group.assignments.get(name)) else {
            continue;
        };
        let field = |name: &str| rendered.manifests.get(name).map_or("", String::as_str);
        let is_here = source::normal_url(field("repo")) == source::normal_url(repo)
            && moved.names.iter().any(|name| {
                let branch = Some(field("branch")).filter(|branch| !branch.is_empty());
                *name == format!("manifests:{}", branch.unwrap_or("HEAD"))
            });
        if is_here {
            places.insert(field("path").to_owned());
        }
    }
    for path in places {
        cause
            .files
            .extend(opened.changed_since(&before, &path).map_err(failed)?);
        cause
            .lines
            .extend(opened.lines_since(&before, &path).map_err(failed)?);
    }
    Ok(cause)
}

fn is_change(line: &str) -> bool {
    (line.starts_with('+') && !line.starts_with("+++"))
        || (line.starts_with('-') && !line.starts_with("---"))
}

/// The branch that a source follows, as the control plane says.
fn branch(request: &BlameRequest<'_>, platform: &Platform, moved: &Moved) -> Option<String> {
    let plane = &platform.control_plane;
    if moved.names.contains(&plane.environment)
        && let Ok(environments) = outhaul_load::environments(request.load)
    {
        let own = environments
            .into_iter()
            .find(|one| one.name == plane.environment);
        if let Some(own) = own {
            return Some(own.control_plane.branch);
        }
    }
    let named = moved.names.iter().find_map(|name| {
        let of_base = plane.base_repos.get(name).map(|base| &base.at);
        let of_team = plane.registrations.get(name).map(|one| &one.workload);
        of_base.or(of_team).map(|at| at.branch.clone())
    });
    named.or_else(|| {
        let manifests = moved
            .names
            .iter()
            .find_map(|name| name.strip_prefix("manifests:"));
        manifests
            .filter(|branch| *branch != "HEAD")
            .map(str::to_owned)
    })
}
