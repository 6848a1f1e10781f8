//! Loader: opens every source that an environment depends on, and reads the objects in it.
//!
//! What comes in: a [`LoadRequest`]. What goes out: objects, each with who brought it, and the commits
//! that were read. Base repositories and workload registrations lead to further sources; each
//! repository and branch is opened once, so that all of them see the same commit. Findings are
//! collected; one source that cannot be read does not keep the others from being checked.

use outhaul_git::source::FILES_PER_JOB;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use outhaul_bundle::index::{Snapshot, Source};
use rayon::prelude::*;

use super::unread::is_yaml;
use super::{ENVIRONMENTS, LoadRequest, MAIN, Origin, unread};
use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location, SourceFile};
use outhaul_control::kinds::foreign::OF_CONTROL_PLANES;
use outhaul_control::kinds::{self, Object};
use outhaul_control::model::{
    BaseRepo, RepositoryPath, UnreadableRegistration, WorkloadRegistration,
};
use outhaul_control::{FoundObject, ObjectOrigin, RawObjects};
use outhaul_git::source::{
    self, GitReference, OpenedSource, SourceError, SourceMap, TreeFile, TreeLimits, normal_path,
    normal_url,
};

mod files;
mod listed;

use files::{is_nearly_yaml, may_be_meant, source_of, sourceignore, text_file};

/// As whose commit a pin without a URL says what to promote instead.
pub const PROMOTED: &str = ".promoted";

enum Next {
    Base(BaseRepo),
    Registration(WorkloadRegistration),
}

pub(super) struct Loader<'a> {
    request: &'a LoadRequest,
    read_file: fn(&Arc<SourceFile>, &mut Diagnostics) -> Vec<Object>,
    sources: SourceMap,
    everything: RawObjects,
    findings: Diagnostics,
    opened: BTreeMap<(String, GitReference), OpenedSource>,
    /// Where the environments are listed.
    listed: Option<(GitReference, OpenedSource)>,
    queue: VecDeque<Next>,
    seen: BTreeSet<(&'static str, String)>,
    /// Files of environments and bases that were read: one may be reached in several ways.
    files: BTreeSet<String>,
    environment: Option<Source>,
    base: Option<Source>,
    workloads: Vec<Source>,
}

impl<'a> Loader<'a> {
    pub fn new(request: &'a LoadRequest) -> Self {
        Self {
            request,
            read_file: kinds::read_file,
            sources: request.sources.clone(),
            everything: RawObjects::default(),
            findings: Diagnostics::new(),
            opened: BTreeMap::new(),
            listed: None,
            queue: VecDeque::new(),
            seen: BTreeSet::new(),
            files: BTreeSet::new(),
            environment: None,
            base: None,
            workloads: Vec::new(),
        }
    }

    /// The same, but plain sites are skipped.
    pub fn without_sites(request: &'a LoadRequest) -> Self {
        Self {
            read_file: kinds::read_file_without_sites,
            ..Self::new(request)
        }
    }

    pub fn finish(mut self) -> (RawObjects, Option<Snapshot>, Diagnostics) {
        let name = self.request.environment.clone();
        let listed = self.listed.iter();
        let listed = listed.map(|(reference, opened)| (reference, opened));
        let used = self.opened.iter();
        let used = used.map(|((_, reference), opened)| (reference, opened));
        let used = used.chain(listed);
        self.findings.extend(unread::uncommitted(used));
        let base = self.base.unwrap_or_else(|| Source {
            name: MAIN.into(),
            repo: String::new(),
            commit: String::new(),
        });
        let made = self.environment.map(|mut environment| {
            environment.name = name;
            Snapshot::of(environment, base, self.workloads)
        });
        (self.everything, made, self.findings)
    }

    pub fn run(&mut self) {
        match &self.request.from {
            Origin::Folders {
                environment_dir,
                base_dir,
                base_commit,
            } => {
                self.folders(environment_dir, base_dir.as_deref(), base_commit.as_deref());
            }
            Origin::Repository { url, branch } => self.repository(url, branch.as_deref()),
        }
        while let Some(next) = self.queue.pop_front() {
            match next {
                Next::Base(base) => self.base_repo(&base),
                Next::Registration(registration) => self.registration(&registration),
            }
        }
    }

    fn folders(&mut self, environment: &Path, base: Option<&Path>, commit: Option<&str>) {
        let opened = match source::open_plain(environment, "", None) {
            Ok(opened) => opened,
            Err(error) => return self.unreadable(&error, None),
        };
        self.environment = Some(source_of("", &opened));
        self.read(&opened, ".", &ObjectOrigin::Environment, None);
        let Some(dir) = base else { return };
        // The folder takes the place of the base repository `main`, which still says where in it to look.
        let declared = self
            .queue
            .iter()
            .position(|next| matches!(next, Next::Base(b) if b.name == MAIN));
        let declared = declared.and_then(|at| self.queue.remove(at));
        let declared = match declared {
            Some(Next::Base(base)) => Some(base),
            _ => None,
        };
        self.seen.insert(("BaseRepo", MAIN.into()));
        let pin = declared
            .as_ref()
            .and_then(|base| base.commit.as_ref())
            .map(|c| c.value.clone());
        let commit = commit.map(str::to_owned).or(pin);
        let url = declared
            .as_ref()
            .map_or("", |base| base.at.repo.value.as_str());
        let path = declared.as_ref().map_or(".", |base| base.at.path.as_str());
        match source::open_plain(dir, url, commit.as_deref()) {
            Ok(opened) => {
                self.everything.promoted_commit = commit;
                self.base = Some(source_of(MAIN, &opened));
                self.read(
                    &opened,
                    path,
                    &ObjectOrigin::Base,
                    declared.as_ref().map(|b| &b.at.path_at),
                );
            }
            Err(error) => self.unreadable(&error, None),
        }
    }

    fn repository(&mut self, url: &str, branch: Option<&str>) {
        let Some(opened) = self.open_environments(url, branch) else {
            return;
        };
        let Some(environment) = self.find_environment(&opened) else {
            return;
        };
        let at = &environment.control_plane;
        // A local control plane takes the place of the URL that its environments name.
        if let Some(dir) = source::local_folder(url) {
            self.sources.insert_default(&at.repo.value, dir);
        }
        let reference = GitReference::Branch(at.branch.clone());
        let name = &self.request.environment;
        let reference = self.sources.pinned(name, &at.repo.value, reference);
        let Some(opened) = self.open(at, reference, &at.branch_at) else {
            return;
        };
        self.environment = Some(source_of("", &opened));
        self.read(
            &opened,
            &at.path,
            &ObjectOrigin::Environment,
            Some(&at.path_at),
        );
    }

    fn open_environments(&mut self, url: &str, branch: Option<&str>) -> Option<OpenedSource> {
        self.sources.insert_given(url);
        let open = |reference: &GitReference| {
            source::open_given(url, reference, &self.sources, &self.request.cache)
        };
        let reference = GitReference::Branch(branch.unwrap_or(MAIN).into());
        let mut reference = self.sources.pinned(ENVIRONMENTS, "", reference);
        let mut opened = open(&reference);
        // Not every repository calls it `main`.
        if branch.is_none() && matches!(opened, Err(SourceError::NoSuchReference { .. })) {
            reference = GitReference::Head;
            opened = open(&reference);
        }
        match opened {
            Ok(opened) => {
                self.listed = Some((reference, opened.clone()));
                Some(opened)
            }
            Err(error) => {
                self.unreadable(&error, None);
                None
            }
        }
    }

    fn base_repo(&mut self, base: &BaseRepo) {
        let near = Some(base.at.branch.clone());
        let reference = match &base.commit {
            Some(commit) => GitReference::Commit {
                id: commit.value.clone(),
                near,
            },
            None => GitReference::Branch(base.at.branch.clone()),
        };
        let name = match base.name.as_str() {
            MAIN => MAIN.to_owned(),
            other => format!("base/{other}"),
        };
        let reference = if base.name == MAIN {
            self.sources.pinned(PROMOTED, "", reference)
        } else {
            reference
        };
        let reference = self.sources.pinned(&name, &base.at.repo.value, reference);
        if matches!(reference, GitReference::Branch(_)) {
            self.findings.push(unread::unpinned(base));
        }
        let at = base
            .commit
            .as_ref()
            .map_or(&base.at.branch_at, |commit| &commit.location);
        let Some(opened) = self.open(&base.at, reference, at) else {
            return;
        };
        if base.name == MAIN {
            self.everything.promoted_commit = base.commit.as_ref().map(|c| c.value.clone());
            self.base = Some(source_of(MAIN, &opened));
        } else {
            self.workloads
                .push(source_of(&format!("base/{}", base.name), &opened));
        }
        let at = Some(&base.at.path_at);
        self.read(&opened, &base.at.path, &ObjectOrigin::Base, at);
    }

    /// Reads a team's repository. A mistake in it is that team's: nothing of it is used then, and
    /// everything else is read on.
    fn registration(&mut self, registration: &WorkloadRegistration) {
        let before = std::mem::take(&mut self.findings);
        let (objects, workloads) = (self.everything.objects.len(), self.workloads.len());
        self.read_registration(registration);
        let found = std::mem::replace(&mut self.findings, before);
        if !found.has_errors() {
            self.findings.append(found);
            return;
        }
        self.everything.objects.truncate(objects);
        self.workloads.truncate(workloads);
        let workspace = registration.workspace.clone();
        let lost = UnreadableRegistration {
            workspace,
            findings: found,
        };
        self.everything.lost.insert(registration.name.clone(), lost);
    }

    fn read_registration(&mut self, registration: &WorkloadRegistration) {
        let at = &registration.workload;
        let reference = GitReference::Branch(at.branch.clone());
        let reference = self
            .sources
            .pinned(&registration.name, &at.repo.value, reference);
        let Some(opened) = self.open(at, reference, &at.branch_at) else {
            return;
        };
        self.workloads.push(source_of(&registration.name, &opened));
        let by = ObjectOrigin::Registration {
            name: registration.name.clone(),
            workspace: registration.workspace.clone(),
        };
        self.read(&opened, &at.path, &by, Some(&at.path_at));
    }

    /// Opens a repository, which the control plane names at `place` and whose `reference` is written at
    /// `reference_at`.
    fn open(
        &mut self,
        place: &RepositoryPath,
        reference: GitReference,
        reference_at: &Location,
    ) -> Option<OpenedSource> {
        let url = &place.repo.value;
        let key = (normal_url(url), reference);
        if let Some(opened) = self.opened.get(&key) {
            return Some(opened.clone());
        }
        match source::open(url, &key.1, &self.sources, &self.request.cache) {
            Ok(opened) => {
                self.opened.insert(key, opened.clone());
                Some(opened)
            }
            Err(error) => {
                let at = match error {
                    SourceError::NoSuchReference { .. } | SourceError::DamagedCommit { .. } => {
                        reference_at
                    }
                    _ => &place.repo.location,
                };
                self.unreadable(&error, Some(at));
                None
            }
        }
    }

    /// Reads every object below `path`.
    fn read(
        &mut self,
        opened: &OpenedSource,
        path: &str,
        by: &ObjectOrigin,
        at: Option<&Location>,
    ) {
        let of_a_team = matches!(by, ObjectOrigin::Registration { .. });
        let files = normal_path(path).and_then(|path| {
            let (ignore, bad_lines) = sourceignore(opened)?;
            let full = |below: &str| {
                if path.is_empty() {
                    below.into()
                } else {
                    format!("{path}/{below}")
                }
            };
            let nearly = RefCell::new(Vec::new());
            let others = RefCell::new(BTreeSet::new());
            let wanted = |below: &str| {
                if !of_a_team && may_be_meant(below) && !ignore.ignores(&full(below)) {
                    others.borrow_mut().insert(below.to_owned());
                }
                if is_nearly_yaml(below) && !ignore.ignores(&full(below)) {
                    nearly.borrow_mut().push(full(below));
                }
                is_yaml(below) && !ignore.ignores(&full(below))
            };
            let tree = opened.tree(&path, &wanted, &TreeLimits::YAML)?;
            let links = tree.skipped.iter().map(|below| full(below));
            let links: Vec<_> = links.filter(|path| !ignore.ignores(path)).collect();
            let named = |file: TreeFile| (full(&file.path), file);
            let files: Vec<_> = tree.files.into_iter().map(named).collect();
            let mut unread = unread::of_our_kinds(opened, &path, others.into_inner(), &full);
            if *by == ObjectOrigin::Environment {
                unread.extend(unread::beside_the_list(opened, &path, &full));
            }
            Ok((files, links, nearly.into_inner(), (bad_lines, unread)))
        });
        let (mut files, links, nearly, (bad_lines, unread)) = match files {
            Ok(read) => read,
            Err(error) => return self.unreadable(&error, at),
        };
        self.findings.extend(bad_lines);
        self.findings.extend(unread);
        let nearly = nearly.iter().map(|path| opened.file_name(path));
        self.findings
            .extend(nearly.map(|name| files::other_ending(&name)));
        self.findings
            .extend(unread::links(opened, &links, of_a_team));
        if !of_a_team {
            let seen = &mut self.files;
            files.retain(|(path, _)| seen.insert(opened.identity(path)));
        }
        let read_file = self.read_file;
        let read: Vec<_> = files
            .into_par_iter()
            .with_min_len(FILES_PER_JOB)
            .map(|(path, file)| {
                let mut findings = Diagnostics::new();
                let objects = match text_file(opened.file_name(&path), file) {
                    Ok(file) => read_file(&file, &mut findings),
                    Err(finding) => {
                        findings.push(*finding);
                        Vec::new()
                    }
                };
                (objects, findings)
            })
            .collect();
        for (objects, findings) in read {
            let counts =
                |finding: &Diagnostic| !of_a_team || !OF_CONTROL_PLANES.contains(&finding.code);
            self.findings.extend(findings.into_iter().filter(counts));
            for object in objects {
                self.found(object, by.clone());
            }
        }
    }

    fn found(&mut self, object: Object, by: ObjectOrigin) {
        if matches!(by, ObjectOrigin::Registration { .. }) && !matches!(object, Object::Workload(_))
        {
            let message = format!(
                "{} `{}` is ignored: a team's repository brings workloads only",
                object.kind(),
                object.name()
            );
            let finding = Diagnostic::warning("not-a-workload", message).at(object.location());
            self.findings
                .push(finding.help("move it to the control plane, whose owners decide on it"));
            return;
        }
        match &object {
            Object::BaseRepo(base) if self.seen.insert(("BaseRepo", base.name.clone())) => {
                self.queue.push_back(Next::Base(base.clone()));
            }
            Object::Registration(registration)
                if self
                    .seen
                    .insert(("WorkloadRegistration", registration.name.clone())) =>
            {
                self.queue
                    .push_back(Next::Registration(registration.clone()));
            }
            _ => {}
        }
        self.everything.objects.push(FoundObject { object, by });
    }

    fn unreadable(&mut self, error: &SourceError, at: Option<&Location>) {
        let finding = files::unreadable(error, at, &self.sources);
        self.findings.push(finding);
    }
}
