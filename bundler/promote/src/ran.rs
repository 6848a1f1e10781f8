//! Whether the sites that confirm a commit ran the content of it that is promoted: a base is a repository, a commit and a path there.
//!
//! What comes in: a hub's decision, whose evidence names for each site the commit of the environment's own branch that its bundle was made
//! from, that environment, and the one that is moved. What goes out: nothing when the base at each of these commits is in the same place as
//! that of the environment that is moved; else a refusal that names the site, the bundle and both places. The branch as it is now
//! proves nothing: whoever may push to it changes it after the sites confirmed. What cannot be read was not run. It moves nothing.

use std::collections::BTreeMap;

use outhaul_bundle::hub_api::{Evidence, SiteStatus};
use outhaul_git::source::{self, GitReference};
use outhaul_kit::commit_id::is_commit_id;
use outhaul_kit::text::printable;

use super::error_text::error_chain;
use super::lineage::shown;
use super::order::ChainPlace;
use super::{Chain, Decision, Link, PromoteError, moved};
use outhaul_control::model::BaseRepo;

/// Where the content of a base is, but for its commit.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// In one spelling.
    repository: String,
    path: String,
}

impl Place {
    fn of(base: &BaseRepo) -> Self {
        Self {
            repository: source::normal_url(&base.at.repo.value),
            path: moved::path_of(base),
        }
    }
}

/// The base of an environment at a commit of its branch, or why it is not known.
type PlaceThen = Result<Place, String>;

/// A step whose gate is open.
struct OpenStep<'a> {
    link: &'a Link,
    from: &'a str,
    /// The base commit that the gate decided about.
    commit: &'a str,
    own: Place,
    /// Another path than that of the environment before was let in past its gate.
    is_other_path: bool,
    /// So was another repository.
    is_other_repository: bool,
}

impl Chain<'_> {
    /// Refuses content that no site which confirms has run. `other_path` where the path of `link` is on record as another one than that
    /// of `from`. Returns the repository of the base where that is on record as another one.
    ///
    /// # Errors
    /// [`PromoteError::NotRun`], [`PromoteError::PlaceUnknown`], or [`PromoteError`] when a branch cannot be read.
    pub(super) fn refuse_not_run(
        &self,
        link: &Link,
        (from, decision): (&str, &Decision),
        other_path: Option<&str>,
    ) -> Result<Option<String>, PromoteError> {
        let own = Place::of(&link.base);
        let theirs = Place::of(&self.link(from)?.base);
        // As with paths: where both have one repository, nothing is let in any more.
        let pinned = link.base.commit.as_ref();
        let recorded = match pinned.filter(|_| theirs.repository != own.repository) {
            Some(commit) => {
                let lineage = self.lineage(link, &commit.value)?;
                let repository = lineage.promotion.ok().and(lineage.other_repository);
                repository.filter(|repository| *repository == own.repository)
            }
            None => None,
        };
        let step = OpenStep {
            link,
            from,
            commit: &decision.commit,
            own,
            is_other_path: other_path.is_some(),
            is_other_repository: recorded.is_some(),
        };
        let mut known = BTreeMap::new();
        let evidence = decision.evidence.iter();
        let reports: BTreeMap<&str, &Evidence> =
            evidence.map(|one| (one.site.as_str(), one)).collect();
        for site in &decision.sites {
            if site.standing != SiteStatus::Confirmed {
                continue;
            }
            let Some(report) = reports.get(site.site.as_str()) else {
                let why = "the hub names no report of it".to_owned();
                return Err(step.unknown(&site.site, site.bundle, why));
            };
            self.refuse_not_run_by(&step, report, &mut known)?;
        }
        Ok(recorded)
    }

    fn refuse_not_run_by(
        &self,
        step: &OpenStep<'_>,
        report: &Evidence,
        known: &mut BTreeMap<String, PlaceThen>,
    ) -> Result<(), PromoteError> {
        let Some(commit) = report.environment_commit.as_deref() else {
            let why = format!(
                "the hub names no commit of the branch of `{}` for it: an older hub names none, and neither does one that has no report of the \
                 commit that the cluster shows",
                step.from
            );
            return Err(step.unknown(&report.site, Some(report.bundle), why));
        };
        self.know(step.from, commit, known)?;
        match &known[commit] {
            Err(why) => return Err(step.unknown(&report.site, Some(report.bundle), why.clone())),
            Ok(ran) if !step.allows(ran) => return Err(step.other(report, commit, ran)),
            Ok(_) => {}
        }
        // It runs a later commit of the base: the one that is promoted came with an earlier bundle, in the same place.
        let mut last = None;
        for commit in &report.passed {
            self.know(step.from, commit, known)?;
            match &known[commit] {
                Ok(ran) if step.allows(ran) => return Ok(()),
                found => last = Some((commit, found)),
            }
        }
        match last {
            None if report.base_commit.as_deref() == Some(step.commit) => Ok(()),
            None => Err(step.unknown(&report.site, Some(report.bundle), step.no_passed(report))),
            Some((commit, Ok(ran))) => Err(step.other(report, commit, ran)),
            Some((_, Err(why))) => {
                Err(step.unknown(&report.site, Some(report.bundle), why.clone()))
            }
        }
    }

    /// Finds out where the base of `environment` was at a commit of its branch.
    fn know(
        &self,
        environment: &str,
        commit: &str,
        known: &mut BTreeMap<String, PlaceThen>,
    ) -> Result<(), PromoteError> {
        if !known.contains_key(commit) {
            let place = self.place_at(environment, commit)?;
            known.insert(commit.to_owned(), place);
        }
        Ok(())
    }

    fn place_at(&self, environment: &str, commit: &str) -> Result<PlaceThen, PromoteError> {
        let shown = printable(commit);
        if !is_commit_id(commit) {
            return Ok(Err(format!(
                "it was made from `{shown}`, which is not a commit but a folder"
            )));
        }
        let at = &self.environment(environment)?.control_plane;
        let reference = GitReference::Commit {
            id: commit.to_owned(),
            near: Some(at.branch.clone()),
        };
        let sources = self.environment_sources(&at.repo.value);
        let base = source::open(&at.repo.value, &reference, &sources, self.cache)
            .map_err(PromoteError::from)
            .and_then(|opened| moved::base_file(&opened, &at.path));
        Ok(match base {
            Ok(Some(file)) => Ok(Place::of(&file.base)),
            Ok(None) => Err(format!(
                "`{environment}` has no BaseRepo `main` at {commit:.12}, which it was made from"
            )),
            Err(error) => Err(format!(
                "commit {commit:.12} of `{environment}`, which it was made from, cannot be read: {}",
                error_chain(&error)
            )),
        })
    }

    /// The repository of the base of `link`, where that of an environment before it is another one.
    pub(super) fn other_repository(&self, link: &Link) -> Option<String> {
        let ChainPlace::After(names, _) = self.before(&link.environment.name) else {
            return None;
        };
        let own = Place::of(&link.base).repository;
        let others = names.iter().filter_map(|name| self.link(name).ok());
        let mut others = others.map(|other| Place::of(&other.base).repository);
        others.any(|other| other != own).then_some(own)
    }
}

impl OpenStep<'_> {
    fn allows(&self, ran: &Place) -> bool {
        (self.is_other_path || ran.path == self.own.path)
            && (self.is_other_repository || ran.repository == self.own.repository)
    }

    fn other(&self, report: &Evidence, commit: &str, ran: &Place) -> PromoteError {
        let (ran, own) = match ran.repository == self.own.repository {
            true => (
                format!("path `{}`", printable(shown(&ran.path))),
                format!("path `{}`", printable(shown(&self.own.path))),
            ),
            false => (in_repository(ran), in_repository(&self.own)),
        };
        PromoteError::NotRun {
            environment: self.link.environment.name.clone(),
            from: self.from.to_owned(),
            site: printable(&report.site).into(),
            bundle: report.bundle,
            ran: format!("{ran} (`{}` at {commit:.12})", self.from).into(),
            own: format!("{own} ({})", self.link.base.location.file_line()).into(),
        }
    }

    /// Why a report that names no bundle of the commit proves nothing about it.
    fn no_passed(&self, report: &Evidence) -> String {
        match &report.base_commit {
            None => "the hub does not say which base commit that has".to_owned(),
            Some(base) => format!(
                "it has base commit {:.12}, and the hub names no bundle of {:.12} that the site had before",
                printable(base),
                self.commit
            ),
        }
    }

    fn unknown(&self, site: &str, bundle: Option<u64>, why: String) -> PromoteError {
        PromoteError::PlaceUnknown {
            environment: self.link.environment.name.clone(),
            from: self.from.to_owned(),
            site: printable(site).into(),
            bundle: match bundle {
                Some(number) => format!("bundle {number}").into(),
                None => "a bundle that it does not name".into(),
            },
            why: why.into(),
        }
    }
}

fn in_repository(place: &Place) -> String {
    format!(
        "path `{}` of `{}`",
        printable(shown(&place.path)),
        printable(&place.repository)
    )
}
