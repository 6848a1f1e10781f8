//! The platform at chosen commits, and what one site gets of it.
//!
//! What comes in: where the control plane lies, and commits. What goes out: rendered platforms, each kept for as long as the answer is
//! worked out, and for each assignment a fingerprint of everything that the site would get. Of two states with the same fingerprints
//! the site could not tell which it has.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::rc::Rc;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Snapshot;
use outhaul_git::source::{self, GitReference};
use outhaul_kit::console::progress::Meter;
use outhaul_load::LoadRequest;
use outhaul_load::pipeline::{self, Platform};
use outhaul_plane::compose::Mode;
use outhaul_plane::render::RenderCache;
use outhaul_plane::schedule::AssignmentId;

use crate::BlameRequest;

/// What a site gets of each assignment of its cluster type. Of what is broken it is the complaint.
pub(crate) type Fingerprints = BTreeMap<String, Digest>;

/// The platform as it is rendered from commits.
pub(crate) struct RenderedStates<'r> {
    load: &'r LoadRequest,
    mode: Mode,
    site: &'r str,
    cluster_type: &'r str,
    progress: &'r Meter,
    known: BTreeMap<u64, Rc<RenderedState>>,
}

/// The platform at some commits.
pub(crate) struct RenderedState {
    /// Why it cannot be read, or what it is.
    pub platform: Result<Platform, String>,
    /// What the site gets.
    pub fingerprints: Fingerprints,
}

impl<'r> RenderedStates<'r> {
    pub(crate) fn new(request: &BlameRequest<'r>) -> Self {
        Self {
            load: request.load,
            mode: request.mode,
            site: request.site,
            cluster_type: request.cluster_type,
            progress: request.progress,
            known: BTreeMap::new(),
        }
    }

    /// The platform at the commits that `snapshot` names.
    pub(crate) fn at(&mut self, snapshot: &Snapshot) -> Rc<RenderedState> {
        let mut hasher = DefaultHasher::new();
        for source in sources(snapshot) {
            (&source.name, &source.repo, &source.commit).hash(&mut hasher);
        }
        let key = hasher.finish();
        if let Some(known) = self.known.get(&key) {
            return Rc::clone(known);
        }
        let platform = pipeline::run(self.load, self.mode, Some(snapshot), RenderCache::None);
        self.progress.add(1);
        let platform = platform.map_err(|findings| {
            let first = findings.iter().next();
            first.map_or_else(String::new, |finding| finding.message.clone())
        });
        let fingerprints = match &platform {
            Ok(platform) => self.fingerprints(platform, snapshot),
            Err(_) => Fingerprints::new(),
        };
        let state = Rc::new(RenderedState {
            platform,
            fingerprints,
        });
        self.known.insert(key, Rc::clone(&state));
        state
    }

    fn fingerprints(&self, platform: &Platform, snapshot: &Snapshot) -> Fingerprints {
        let mut found = Fingerprints::new();
        if let Some(group) = platform.rendering.cluster_types.get(self.cluster_type) {
            for (target, rendered) in &group.assignments {
                let sites = rendered.sites.as_ref();
                if sites.is_some_and(|sites| !sites.contains(self.site)) {
                    continue;
                }
                let mut text = rendered.config_version.to_string();
                let overlay = rendered
                    .overlays
                    .iter()
                    .find(|overlay| overlay.sites.contains(self.site));
                if let Some(overlay) = overlay {
                    text = overlay.config_version.to_string();
                }
                let own = overlay.map(|overlay| &overlay.files);
                for (name, bytes) in &rendered.files {
                    let bytes = own.and_then(|own| own.get(name)).unwrap_or(bytes);
                    text.push_str(&format!("\n{name} {}", Digest::of(bytes)));
                }
                for (name, bytes) in own.into_iter().flatten() {
                    if !rendered.files.contains_key(name) {
                        text.push_str(&format!("\n{name} {}", Digest::of(bytes)));
                    }
                }
                // Which values the site may set itself is part of what it gets.
                text.push_str(&format!("\n{:?}", rendered.site_values));
                text.push_str(&payload(platform, snapshot, &rendered.manifests));
                found.insert(target.clone(), Digest::of(text.as_bytes()));
            }
        }
        let is_ours = |id: &&AssignmentId| id.cluster_type == self.cluster_type;
        for id in platform.rendering.failures.keys().filter(is_ours) {
            let why = platform.broken_of([id]).render(false);
            found.insert(id.target.clone(), Digest::of(why.as_bytes()));
        }
        found
    }
}

/// Every source of a snapshot.
pub(crate) fn sources(snapshot: &Snapshot) -> impl Iterator<Item = &outhaul_bundle::index::Source> {
    [&snapshot.environment, &snapshot.base]
        .into_iter()
        .chain(&snapshot.workloads)
}

/// What the team's own files are known by.
fn payload(
    platform: &Platform,
    snapshot: &Snapshot,
    manifests: &BTreeMap<String, String>,
) -> String {
    let field = |name: &str| manifests.get(name).map_or("", String::as_str);
    let (repo, path) = (field("repo"), field("path"));
    if repo.is_empty() {
        return String::new();
    }
    let branch = Some(field("branch")).filter(|branch| !branch.is_empty());
    let named = format!("manifests:{}", branch.unwrap_or("HEAD"));
    let same_repo = |one: &&outhaul_bundle::index::Source| {
        source::normal_url(&one.repo) == source::normal_url(repo)
    };
    let pinned = snapshot
        .workloads
        .iter()
        .filter(same_repo)
        .find(|one| one.name == named);
    let Some(pinned) = pinned else {
        return String::new();
    };
    let reference = GitReference::Commit {
        id: pinned.commit.clone(),
        near: branch.map(str::to_owned),
    };
    let opened = source::open(repo, &reference, &platform.sources, &platform.cache);
    let id = opened.and_then(|opened| opened.content_id(path));
    match id {
        Ok(Some(id)) => format!("\npayload {id}"),
        // A folder, or nothing there: the commit stands for it.
        _ => format!("\npayload {}", pinned.commit),
    }
}
