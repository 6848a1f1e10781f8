//! Whether what a cluster is given can be applied: looked at before it is signed, while its author is near.
//!
//! What comes in: a rendered assignment, its cluster type's reconciler, and the workload's manifests as they are in
//! their repository. What goes out: what is wrong with them, at file and line. Only reconcilers that apply Kubernetes
//! objects are looked at; what a repository does not show, because it cannot be read now, is not its business.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::pipeline::Platform;
use outhaul_bundle::{fleet, zarf};
use outhaul_control::Diagnostics;
use outhaul_control::diagnostic::{Diagnostic, SourceFile};
use outhaul_control::model::ReconcilerKind;
use outhaul_git::source::{self, GitReference, OpenedSource, SourceError, TreeLimits};
use outhaul_plane::fleet_bundles;
use outhaul_plane::manifests;
use outhaul_plane::packages;
use outhaul_plane::playbooks;
use outhaul_plane::render::RenderedAssignment;

use outhaul_needs::kustomize::{self, Gap, Means};
use outhaul_needs::secrets;

/// Repository, branch and path of a workload's manifests.
type ManifestsAddress = (String, String, String);

/// Reads each workload's manifests once.
#[derive(Debug)]
pub struct Manifests<'a> {
    platform: &'a Platform,
    read: BTreeMap<ManifestsAddress, Vec<Arc<SourceFile>>>,
    /// What of their kustomizations cannot be followed, by what rendered files add.
    followed: BTreeMap<(ManifestsAddress, Vec<String>), Vec<Gap>>,
}

impl<'a> Manifests<'a> {
    /// One that has read nothing yet.
    pub fn new(platform: &'a Platform) -> Self {
        Self {
            platform,
            read: BTreeMap::new(),
            followed: BTreeMap::new(),
        }
    }

    /// What is wrong with the objects of the assignment of `target` on `cluster_type`.
    pub fn problems(
        &mut self,
        cluster_type: &str,
        target: &str,
        rendered: &RenderedAssignment,
    ) -> Diagnostics {
        let group = self.platform.rendering.cluster_types.get(cluster_type);
        let reconciler = group.map_or("", |group| group.reconciler.as_str());
        let kind = match &rendered.bootstrap {
            Some(_) => ReconcilerKind::Kubernetes,
            None => self.platform.reconciler_kind(reconciler),
        };
        let mut broken = Diagnostics::new();
        if builds_kustomizations(&kind) {
            for gap in self.gaps(rendered) {
                if gap.means == Means::Broken {
                    broken.push(gap.finding(Diagnostic::error));
                }
            }
        }
        if kind == ReconcilerKind::Ansible
            && let Some(finding) = self.missing_playbook(target, rendered)
        {
            broken.push(finding);
        }
        if kind == ReconcilerKind::Fleet {
            let files = texts(cluster_type, target, rendered);
            if let Some(finding) = self.not_handed_on(target, rendered, &files) {
                broken.push(finding);
            }
        }
        let objects = [
            ReconcilerKind::Kubernetes,
            ReconcilerKind::Flux,
            ReconcilerKind::Zarf,
        ];
        if !objects.contains(&kind) {
            return broken;
        }
        let mut files = texts(cluster_type, target, rendered);
        if kind == ReconcilerKind::Zarf {
            broken.append(packages::problems(
                target,
                &files,
                self.ready_made(rendered).map(|there| there.len()),
            ));
            return broken;
        }
        let payload = self.payload(rendered);
        if kind == ReconcilerKind::Kubernetes {
            // The agent applies them together.
            files.extend(payload.iter().cloned());
            return manifests::objects(&files);
        }
        let mut findings = manifests::objects(&files);
        findings.append(broken);
        let is = |file: &Arc<SourceFile>, names: &[&str]| {
            let name = file.name.rsplit(['/', ':']).next().unwrap_or_default();
            names.contains(&name)
        };
        let charts: Vec<&str> = payload
            .iter()
            .filter(|file| is(file, &["Chart.yaml"]))
            .filter_map(|file| file.name.strip_suffix("Chart.yaml"))
            .collect();
        // A chart's templates are not YAML before Helm has filled them in.
        let in_chart = |file: &Arc<SourceFile>| charts.iter().any(|c| file.name.starts_with(c));
        let plain: Vec<_> = payload
            .iter()
            .filter(|file| !in_chart(file))
            .cloned()
            .collect();
        let kustomized = |file| is(file, &["kustomization.yaml", "kustomization.yml"]);
        // With a kustomization, some of the files are patches and values; without one Flux takes all as objects.
        findings.append(match plain.iter().any(kustomized) || !charts.is_empty() {
            true => manifests::syntax(&plain),
            false => manifests::objects(&plain),
        });
        findings
    }

    /// What of the kustomizations cannot be followed; nothing when they cannot be read.
    fn gaps(&mut self, rendered: &RenderedAssignment) -> &[Gap] {
        let key = |key: &str| rendered.manifests.get(key).cloned().unwrap_or_default();
        let place = (key("repo"), key("branch"), key("path"));
        let is_git = !place.0.is_empty() && matches!(key("storage").as_str(), "" | "git");
        let builds = kustomize::builds(rendered.files.iter());
        let platform = self.platform;
        let entry = self.followed.entry((place, kustomize::alike(&builds)));
        entry.or_insert_with_key(|((repo, branch, path), _)| {
            if !is_git {
                return Vec::new();
            }
            let followed = open(platform, repo, branch)
                .and_then(|(_, opened)| kustomize::follow(&opened, path, &builds, &[]));
            followed.map(|found| found.gaps).unwrap_or_default()
        })
    }

    /// A playbook that rendered files run and the workload's manifests do not have; `None` as well when those cannot
    /// be read now.
    fn missing_playbook(&self, target: &str, rendered: &RenderedAssignment) -> Option<Diagnostic> {
        let key = |key: &str| rendered.manifests.get(key).map_or("", String::as_str);
        let (repo, path) = (key("repo"), key("path"));
        if repo.is_empty() || !matches!(key("storage"), "" | "git") {
            return None;
        }
        let imported = playbooks::imported(&rendered.files);
        if imported.is_empty() {
            return None;
        }
        let (_, opened) = open(self.platform, repo, key("branch")).ok()?;
        let there = opened.names(path, &TreeLimits::PAYLOAD).ok()?.files;
        let missing = imported.into_iter().find(|path| !there.contains(path))?;
        let folder = if path.is_empty() { "." } else { path };
        let message = format!(
            "`{target}` runs the playbook `{missing}` of its manifests, and `{folder}` of `{repo}` does not have it"
        );
        let at = self.platform.control_plane.targets.get(target);
        let at = at.map(|target| target.storage_at.as_ref().unwrap_or(&target.location));
        Some(playbooks::missing(message).at_any(at))
    }

    /// Files of the workload that no agent can put into the `Bundle` of Rancher Fleet which it is rendered to; `None` as well when they
    /// cannot be read now.
    fn not_handed_on(
        &self,
        target: &str,
        rendered: &RenderedAssignment,
        files: &[Arc<SourceFile>],
    ) -> Option<Diagnostic> {
        let key = |key: &str| rendered.manifests.get(key).map_or("", String::as_str);
        let (repo, path) = (key("repo"), key("path"));
        if repo.is_empty() || !matches!(key("storage"), "" | "git") {
            return None;
        }
        let bundle = fleet_bundles::open(files)?;
        let (_, opened) = open(self.platform, repo, key("branch")).ok()?;
        let there = opened.names(path, &TreeLimits::PAYLOAD).ok()?.files;
        let options = there.iter().find(|path| fleet::is_options(path));
        let limits = TreeLimits {
            max_file_bytes: fleet::MAX_RESOURCES_BYTES,
            max_total_bytes: fleet::MAX_RESOURCES_BYTES,
            ..TreeLimits::PAYLOAD
        };
        let finding = match options {
            Some(path) => fleet_bundles::options(target, path),
            None => match opened.tree(path, &|_| true, &limits) {
                Err(SourceError::TooLarge { .. }) => fleet_bundles::too_large(target),
                _ => return None,
            },
        };
        let at = self.platform.control_plane.targets.get(target);
        let at = at.map_or(&bundle, |target| {
            target.storage_at.as_ref().unwrap_or(&target.location)
        });
        Some(
            finding
                .at(at)
                .related(&bundle, "this `Bundle` gets its files"),
        )
    }

    /// The packages among the manifests, by their paths; `None` when they cannot be read now.
    fn ready_made(&self, rendered: &RenderedAssignment) -> Option<Vec<String>> {
        let key = |key: &str| rendered.manifests.get(key).map_or("", String::as_str);
        let (repo, path) = (key("repo"), key("path"));
        if repo.is_empty() {
            return Some(Vec::new());
        }
        if !matches!(key("storage"), "" | "git") {
            return None;
        }
        let (_, opened) = open(self.platform, repo, key("branch")).ok()?;
        let mut there = opened.names(path, &TreeLimits::PAYLOAD).ok()?.files;
        there.retain(|path| zarf::is_package_file(path));
        Some(there)
    }

    /// What a bundle for `cluster_types`, or for all, is warned of besides.
    pub fn noted(&mut self, cluster_types: &[String]) -> Diagnostics {
        let mut findings = self.same_packages();
        findings.append(self.secrets(cluster_types));
        findings
    }

    /// Packages of one name that several assignments of one site have.
    fn same_packages(&self) -> Diagnostics {
        let mut findings = Diagnostics::new();
        for (cluster_type, group) in &self.platform.rendering.cluster_types {
            if self.platform.reconciler_kind(&group.reconciler) != ReconcilerKind::Zarf {
                continue;
            }
            let mut all = Vec::new();
            for (target, rendered) in &group.assignments {
                let Some(declared) = self.platform.control_plane.targets.get(target) else {
                    continue;
                };
                if rendered.bootstrap.is_some() {
                    continue;
                }
                let files = texts(cluster_type, target, rendered);
                let names = packages::names(&files).into_iter().map(|(name, _)| name);
                let ready_made = self.ready_made(rendered).unwrap_or_default();
                let ready_made = ready_made
                    .iter()
                    .filter_map(|path| zarf::name_in_file(path));
                let mut seen = BTreeSet::new();
                for name in names.chain(ready_made.map(str::to_owned)) {
                    if seen.insert(name.clone()) {
                        all.push(packages::Package {
                            target,
                            name,
                            sites: rendered.sites.as_ref(),
                            at: declared.location.clone(),
                        });
                    }
                }
            }
            findings.append(packages::same_names(cluster_type, &all));
        }
        findings
    }

    /// What looks like a secret in the manifests of the workloads on `cluster_types`, or on all: it travels as it is.
    fn secrets(&mut self, cluster_types: &[String]) -> Diagnostics {
        let platform = self.platform;
        let mut findings = Diagnostics::new();
        let mut seen = BTreeSet::new();
        for (name, group) in &platform.rendering.cluster_types {
            if !cluster_types.is_empty() && !cluster_types.contains(name) {
                continue;
            }
            for rendered in group.assignments.values() {
                let of = |key: &str| rendered.manifests.get(key);
                if seen.insert([of("repo"), of("branch"), of("path"), of("storage")]) {
                    findings.append(secrets::in_clear(self.payload(rendered)));
                }
            }
        }
        findings.sort();
        findings
    }

    /// Whether a rendered file or a workload's manifests name the repository `url`.
    pub fn name(&mut self, url: &str) -> bool {
        let platform = self.platform;
        let groups = platform.rendering.cluster_types.values();
        let mut all = groups.flat_map(|group| group.assignments.values());
        all.any(|rendered| {
            let mut files = rendered.files.values();
            files.any(|bytes| is_named(&String::from_utf8_lossy(bytes), url))
                || (self.payload(rendered).iter()).any(|file| is_named(&file.text, url))
        })
    }

    fn payload(&mut self, rendered: &RenderedAssignment) -> &[Arc<SourceFile>] {
        let key = |key: &str| rendered.manifests.get(key).cloned().unwrap_or_default();
        let place = (key("repo"), key("branch"), key("path"));
        let storage = rendered.manifests.get("storage").map_or("", String::as_str);
        let platform = self.platform;
        self.read
            .entry(place)
            .or_insert_with_key(|(repo, branch, path)| {
                let is_git = !repo.is_empty() && matches!(storage, "" | "git");
                let read = || files(platform, repo, branch, path);
                match is_git {
                    true => read().unwrap_or_default(),
                    false => Vec::new(),
                }
            })
    }
}

/// The rendered YAML of an assignment, each file under its name for messages.
fn texts(cluster_type: &str, target: &str, rendered: &RenderedAssignment) -> Vec<Arc<SourceFile>> {
    let text = |(name, bytes): (&String, &Vec<u8>)| {
        let name = format!("rendered {cluster_type}/{target}/{name}");
        let text = String::from_utf8_lossy(bytes).into_owned();
        Arc::new(SourceFile { name, text })
    };
    let files = rendered.files.iter().filter(|(name, _)| is_yaml(name));
    files.map(text).collect()
}

/// Whether `url` stands in `text`, and not only as the beginning of another one.
fn is_named(text: &str, url: &str) -> bool {
    let mut found = text.match_indices(url);
    found.any(|(at, _)| {
        let rest = text.get(at + url.len()..).unwrap_or_default();
        let rest = rest.strip_prefix(".git").unwrap_or(rest);
        let rest = rest.trim_start_matches('/');
        !rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
    })
}

fn is_yaml(path: &str) -> bool {
    path.ends_with(".yaml") || path.ends_with(".yml")
}

/// Whether a reconciler applies the files of its manifests as Kubernetes objects.
pub fn applies_objects(kind: &ReconcilerKind) -> bool {
    matches!(kind, ReconcilerKind::Kubernetes | ReconcilerKind::Flux)
}

/// Whether a reconciler builds kustomizations by itself.
pub fn builds_kustomizations(kind: &ReconcilerKind) -> bool {
    matches!(
        kind,
        ReconcilerKind::ArgoCd | ReconcilerKind::Fleet | ReconcilerKind::Flux
    )
}

/// Opens `branch` of `repo`.
///
/// # Errors
/// [`SourceError`] when it cannot be had.
pub fn open(
    platform: &Platform,
    repo: &str,
    branch: &str,
) -> Result<(GitReference, OpenedSource), SourceError> {
    let reference = match branch {
        "" => GitReference::Head,
        branch => GitReference::Branch(branch.to_owned()),
    };
    let opened = source::open(repo, &reference, &platform.sources, &platform.cache)?;
    Ok((reference, opened))
}

/// The YAML below `path` of `branch` of `repo`, each file under its name for messages.
///
/// # Errors
/// [`SourceError`] when it cannot be read.
fn files(
    platform: &Platform,
    repo: &str,
    branch: &str,
    path: &str,
) -> Result<Vec<Arc<SourceFile>>, SourceError> {
    let (_, opened) = open(platform, repo, branch)?;
    let folder = source::normal_path(path)?;
    let tree = opened.tree(&folder, &is_yaml, &TreeLimits::YAML)?;
    let files = tree.files.into_iter().map(|file| {
        let below = match folder.as_str() {
            "" => file.path.clone(),
            folder => format!("{folder}/{}", file.path),
        };
        let name = opened.file_name(&below);
        let text = String::from_utf8_lossy(&file.bytes).into_owned();
        Arc::new(SourceFile { name, text })
    });
    Ok(files.collect())
}
