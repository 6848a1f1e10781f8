//! Offline: images and sources that no bundle brings, and images that do travel and that a site would ask for nevertheless.
//!
//! What comes in: a platform. What goes out: a finding for each image and each source of a reconciler
//! that is named in rendered files or in a workload's manifests and does not travel: a warning where
//! bundles are how the platform gets there, a note where no delivery policy says so, nothing where git
//! does it; an error for each chart or image that would travel and whose name no bundle can bring; a note for each
//! image that a container asks the registry for at each start; and what a working copy of manifests has that is not
//! committed. It reads repositories that can be had and changes nothing; one that cannot be read is not its business.

mod findings;
mod lists;
mod place;
mod pulled;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use outhaul_control::diagnostic::{Diagnostics, Location};
use outhaul_control::model::{ClusterType, ImageField, Images, ReconcilerKind, Transport};
use outhaul_git::source::normal_url;
use outhaul_kit::carried::is_single_version;
use outhaul_load::manifests;
use outhaul_load::pipeline::Platform;
use outhaul_needs::kustomize::{self, Build, Followed, Gap, Means};
use outhaul_needs::{ListOfFiles, Need, Needs as OfFile, Possible, shown_image, without_charts};
use outhaul_plane::delivery::storage::OCI;
use outhaul_plane::delivery::{self, Delivery};
use outhaul_plane::render::{RenderedAssignment, RenderedClusterType};

use self::findings::{badly_asked, badly_named, findings, gap_finding};
use self::place::written;
use self::pulled::PulledImages;
use crate::possible::{LooksLikeImages, whole};
use crate::unread::NotRead;

/// A need, where it is written, and the cluster types whose sites have it.
type Needs = BTreeMap<(Need, String), (Option<Location>, BTreeSet<String>, bool)>;

/// What the sites of `platform` cannot reach without a network when bundles of `cluster_types` are made; none for all.
pub fn unreachable(platform: &Platform, cluster_types: &[String]) -> Diagnostics {
    looked_at(platform, Some(cluster_types)).findings
}

/// What was found, and what nothing here can ask.
#[derive(Debug, Default)]
pub(crate) struct LookedAt {
    pub(crate) findings: Diagnostics,
    /// Images that the sites' own registries must have.
    pub(crate) trusted: BTreeSet<String>,
    /// Images that would travel: whether they can be had was not asked.
    pub(crate) carried: BTreeSet<String>,
}

/// The same, with the images that were not asked for. When bundles are being made, `bundled` names their cluster types, none for all, and
/// images that would travel were verified already.
pub(crate) fn looked_at(platform: &Platform, bundled: Option<&[String]>) -> LookedAt {
    let mut look = Look::new(platform, bundled);
    for (name, group) in &platform.rendering.cluster_types {
        look.group(name, group);
    }
    look.found()
}

/// A cluster type's sites, and what is decided for them.
struct Sites<'a> {
    name: &'a str,
    cluster_type: &'a ClusterType,
    delivery: Delivery,
    kind: ReconcilerKind,
    /// Whether it is known that bundles are how the platform gets there.
    is_certain: bool,
}

/// One look at all assignments.
struct Look<'a> {
    platform: &'a Platform,
    bundled: Option<&'a [String]>,
    needs: Needs,
    /// Of a workload's manifests, each once, whatever number of assignments has them.
    read: BTreeMap<Payload, Rc<OfPayload>>,
    travelling: BTreeMap<(String, Option<Asked>), Option<Location>>,
    trusted: BTreeSet<String>,
    gaps: Vec<(Gap, bool)>,
    unread: NotRead,
    possible: LooksLikeImages,
    /// Images that travel and are asked for at each start.
    always: PulledImages,
    all: Diagnostics,
}

impl<'a> Look<'a> {
    fn new(platform: &'a Platform, bundled: Option<&'a [String]>) -> Self {
        Self {
            platform,
            bundled,
            needs: Needs::new(),
            read: BTreeMap::new(),
            travelling: BTreeMap::new(),
            trusted: BTreeSet::new(),
            gaps: Vec::new(),
            unread: NotRead::default(),
            possible: LooksLikeImages::default(),
            always: PulledImages::default(),
            all: Diagnostics::new(),
        }
    }

    /// Looks at all assignments of a cluster type, unless they reach their sites over a network, or no bundle is made for it.
    fn group(&mut self, name: &str, group: &RenderedClusterType) {
        let plane = &self.platform.control_plane;
        let Some(cluster_type) = plane.cluster_types.get(name) else {
            return;
        };
        let delivery = delivery::of(plane, cluster_type).unwrap_or_default();
        let transport = delivery.transport.as_ref().map(|transport| transport.value);
        let other = |names: &[String]| !names.is_empty() && !names.iter().any(|one| one == name);
        if let Some(fields) = &delivery.image_fields {
            let by_git = transport == Some(Transport::Git);
            self.possible.note_policy(&fields.location, name, by_git);
        }
        if transport == Some(Transport::Git) || self.bundled.is_some_and(other) {
            return;
        }
        let sites = Sites {
            name,
            cluster_type,
            kind: self.platform.reconciler_kind(&group.reconciler),
            is_certain: transport.is_some() || self.bundled.is_some(),
            delivery,
        };
        for (target, assignment) in &group.assignments {
            self.assignment(&sites, target, assignment);
        }
    }

    /// Looks at the rendered files of an assignment, and at the manifests that its workload holds.
    fn assignment(&mut self, sites: &Sites<'_>, target: &str, assignment: &RenderedAssignment) {
        let payload = self.of_payload(sites, assignment);
        let rendered: Vec<_> = assignment
            .files
            .iter()
            .map(|(file, bytes)| OfFile::with(file, bytes, sites.delivery.image_fields()))
            .collect();
        let alike = self.alike(sites, &rendered, &payload.followed);
        let rendered_kinds = rendered.iter().flat_map(|one| one.kinds.clone());
        let kinds: Vec<_> = rendered_kinds
            .chain(payload.followed.kinds.clone())
            .collect();
        let is_read = rendered.iter().all(|one| one.unread.is_none())
            && payload.followed.gaps.is_empty()
            && payload.followed.unread().next().is_none();
        let named_so = rendered.iter().filter_map(|one| one.unread.clone());
        // With what is wrong with its objects that is said already.
        if carries(&sites.delivery) || !manifests::applies_objects(&sites.kind) {
            // One mistake is one finding: what its reconciler does not read is said as that.
            let gaps = payload.followed.gaps.iter();
            let broken = gaps.filter(|gap| gap.means == Means::Broken);
            let broken: BTreeSet<String> = broken.map(|gap| gap.at.to_string()).collect();
            let all = named_so.chain(payload.followed.unread());
            let all = all.filter(|unread| !broken.contains(&unread.at.to_string()));
            self.unread.note(all, carries(&sites.delivery));
        }
        if carries(&sites.delivery) {
            self.pulled(sites, (target, assignment), &rendered);
            for (image, at) in &payload.followed.always {
                self.always.in_manifests(image, at);
            }
        }
        let (rendered, mut helm) = without_charts(rendered);
        helm.append(payload.followed.helm.clone());
        // Of a chart, its release and its repository, each may be in either.
        let is_own = |at: &Location| !assignment.files.contains_key(&at.file.name);
        let (own, charts): (Vec<_>, Vec<_>) =
            helm.needs().into_iter().partition(|(_, at)| is_own(at));
        let is_all = is_read && own.is_empty() && charts.is_empty();
        let fields = sites.delivery.image_fields();
        self.possible
            .note_configured(fields, kinds.into_iter(), is_all);
        let mut known = BTreeSet::new();
        for (need, at) in rendered.into_iter().chain(charts) {
            let place = written(self.platform, sites.cluster_type, &need);
            let shown = place
                .as_ref()
                .map_or(at.file.name.clone(), Location::to_string);
            known.extend(whole_of(&need));
            let carried = carries(&sites.delivery);
            if reachable(
                &need,
                assignment,
                &sites.delivery,
                carried,
                payload.is_plain,
            ) {
                self.travels(sites, need, place);
            } else {
                self.needed(sites, (need, shown), place);
            }
        }
        let followed = payload.followed.needs.iter();
        for (need, at) in followed.chain(&own).chain(&payload.listed) {
            known.extend(whole_of(need));
            // Of what a workload's own manifests name, only images are brought.
            let is_repository = matches!(need, Need::Repository(..));
            let carried = !is_repository && carries(&sites.delivery);
            if reachable(need, assignment, &sites.delivery, carried, payload.is_plain) {
                self.travels(sites, need.clone(), Some(at.clone()));
            } else {
                let place = (need.clone(), at.to_string());
                self.needed(sites, place, Some(at.clone()));
            }
        }
        // Where the sites have a registry, it has to have them as it has all others.
        if !has_registry(&sites.delivery) {
            let carries = carries(&sites.delivery);
            self.possible
                .note(sites.name, &known, carries, alike.into_iter());
        }
        let is_built =
            assignment.bootstrap.is_none() && manifests::builds_kustomizations(&sites.kind);
        let reported = payload.followed.gaps.iter();
        for gap in reported.filter(|gap| is_reported(gap, is_built, &sites.delivery)) {
            add_gap(gap, sites.is_certain, &mut self.gaps);
        }
    }

    /// Notes what the rendered files of an assignment, and those that some of its sites get in their place, ask for at each start.
    fn pulled(
        &mut self,
        sites: &Sites<'_>,
        (target, assignment): (&str, &RenderedAssignment),
        rendered: &[OfFile],
    ) {
        let files = assignment.overlays.iter().flat_map(|one| &one.files);
        let overlays: Vec<_> = files
            .map(|(file, bytes)| OfFile::with(file, bytes, &[]))
            .collect();
        let all = rendered.iter().chain(&overlays).flat_map(|one| &one.always);
        for (image, _) in all {
            let at = written(
                self.platform,
                sites.cluster_type,
                &Need::Image(image.clone()),
            );
            self.always.in_rendered(image, at, (sites.name, target));
        }
    }

    /// What an assignment's workload holds, read once.
    fn of_payload(&mut self, sites: &Sites<'_>, assignment: &RenderedAssignment) -> Rc<OfPayload> {
        let key = |key: &str| assignment.manifests.get(key).cloned().unwrap_or_default();
        let builds = kustomize::builds(assignment.files.iter());
        let fields = sites.delivery.image_fields();
        let fields_at = sites.delivery.image_fields.as_ref();
        let payload: Payload = (
            (key("repo"), key("branch"), key("path")),
            kustomize::alike(&builds),
            fields_at.map(|said| said.location.to_string()),
        );
        let (platform, all) = (self.platform, &mut self.all);
        let found = self
            .read
            .entry(payload)
            .or_insert_with_key(|(payload, ..)| {
                Rc::new(of_payload(
                    platform,
                    assignment,
                    payload,
                    (&builds, fields),
                    all,
                ))
            });
        Rc::clone(found)
    }

    /// What looks like an image and is not known to be one, with its place, and which configured fields were seen.
    fn alike(
        &mut self,
        sites: &Sites<'_>,
        rendered: &[OfFile],
        followed: &Followed,
    ) -> Vec<(Possible, Option<Location>)> {
        let fields = sites.delivery.image_fields();
        let mut alike = Vec::new();
        for one in rendered {
            self.possible.note_fields(fields, &one.fields);
            alike.extend(one.possible.iter().map(|one| {
                let need = Need::Image(one.image.clone());
                (
                    one.clone(),
                    written(self.platform, sites.cluster_type, &need),
                )
            }));
        }
        self.possible.note_fields(fields, &followed.fields);
        alike.extend(followed.possible.iter().map(|one| (one.clone(), None)));
        alike
    }

    /// Notes what travels, or is in a registry of the sites.
    fn travels(&mut self, sites: &Sites<'_>, need: Need, at: Option<Location>) {
        let Some((image, asked)) = as_image(need) else {
            return;
        };
        match carries(&sites.delivery) {
            true => {
                self.travelling.entry((image, asked)).or_insert(at);
            }
            false => {
                self.trusted.insert(image);
            }
        }
    }

    /// Notes what no bundle brings.
    fn needed(&mut self, sites: &Sites<'_>, need: (Need, String), at: Option<Location>) {
        let entry = self.needs.entry(need);
        let (_, types, certain) = entry.or_insert((at, BTreeSet::new(), false));
        types.insert(sites.name.to_owned());
        *certain |= sites.is_certain;
    }

    fn found(self) -> LookedAt {
        let mut all = self.all;
        findings(self.needs, &mut all);
        all.append(self.possible.findings());
        all.extend(self.always.findings());
        all.extend(self.unread.findings(self.bundled.is_some()));
        all.extend(self.gaps.iter().map(gap_finding));
        // One that cannot be asked for is a finding.
        let is_asked =
            |asked: &Option<Asked>| asked.as_ref().is_none_or(|one| is_single_version(&one.2));
        let names = self.travelling.keys().filter(|(_, asked)| is_asked(asked));
        let carried = names.map(|(image, _)| shown_image(image)).collect();
        if self.bundled.is_none() {
            for ((image, asked), at) in &self.travelling {
                all.extend(match asked {
                    None => badly_named(self.platform, image, at.as_ref()),
                    Some(asked) => badly_asked(self.platform, asked, at.as_ref()),
                });
            }
        }
        // Several payloads may lie in one working copy.
        all.sort();
        LookedAt {
            findings: all,
            trusted: self.trusted,
            carried,
        }
    }
}

/// The whole name of an image.
fn whole_of(need: &Need) -> Option<String> {
    match need {
        Need::Image(image) => Some(whole(image)),
        _ => None,
    }
}

/// A chart of a chart repository: its URL, its name, its version as it is written.
type Asked = (String, String, String);

/// The name under which a need travels as an image does, and the chart that it is.
fn as_image(need: Need) -> Option<(String, Option<Asked>)> {
    match need {
        Need::Image(name) | Need::Artifact { name, .. } => Some((name, None)),
        Need::Chart {
            url,
            chart,
            version,
            name,
            ..
        } => Some((name, Some((url, chart, version)))),
        Need::Repository(..) | Need::Source(_) | Need::Unknown(_) => None,
    }
}

/// Whether what could not be followed is said here.
fn is_reported(gap: &Gap, is_built: bool, delivery: &Delivery) -> bool {
    match gap.means {
        // That is an error, and said with what else is wrong with manifests.
        Means::Broken => !is_built,
        Means::Unreachable | Means::Nothing => true,
        Means::Images | Means::Templates => carries(delivery),
        // With those of rendered files.
        Means::Unread => false,
    }
}

/// Keeps what could not be followed, once, with whether it is certain for any cluster type.
fn add_gap(gap: &Gap, is_certain: bool, gaps: &mut Vec<(Gap, bool)>) {
    match gaps.iter_mut().find(|(other, _)| other == gap) {
        Some((_, certain)) => *certain |= is_certain,
        None => gaps.push((gap.clone(), is_certain)),
    }
}

/// Whether it is on site without a network: what the bundle carries is served there under its own name.
fn reachable(
    need: &Need,
    assignment: &RenderedAssignment,
    delivery: &Delivery,
    carries: bool,
    is_plain: bool,
) -> bool {
    let has_registry = has_registry(delivery);
    match need {
        Need::Image(_) | Need::Artifact { .. } | Need::Chart { .. } => has_registry || carries,
        Need::Unknown(_) => has_registry,
        Need::Repository(url, _) | Need::Source(url) => {
            let storage = assignment.manifests.get("storage").map(String::as_str);
            let own = assignment.manifests.get("repo");
            let own = own.is_some_and(|repo| normal_url(repo) == normal_url(url));
            // Of a plain folder there is no commit that a site could fetch.
            if own && is_plain {
                return false;
            }
            if carries && matches!(need, Need::Repository(..)) {
                return true;
            }
            let oci = storage == Some(OCI) || url.starts_with("oci://");
            match oci {
                true => has_registry,
                false => own || url.contains(".svc"),
            }
        }
    }
}

/// Whether a policy says that the sites have images themselves.
fn has_registry(delivery: &Delivery) -> bool {
    let images = delivery.images.as_ref();
    images.is_some_and(|images| images.value == Images::Reference)
}

/// Whether a policy says that images and repositories travel.
fn carries(delivery: &Delivery) -> bool {
    let images = delivery.images.as_ref();
    images.is_some_and(|images| images.value == Images::Carry)
}

/// Repository, branch and path, what rendered files add to what is built there, and where the fields of images are configured.
type Payload = ((String, String, String), Vec<String>, Option<String>);

/// What the manifests of a workload name.
#[derive(Debug, Default)]
struct OfPayload {
    followed: Followed,
    /// The images that it lists besides.
    listed: Vec<(Need, Location)>,
    /// Whether their repository is mapped to a plain folder.
    is_plain: bool,
}

/// What the manifests of a workload name; nothing when they cannot be read.
fn of_payload(
    platform: &Platform,
    assignment: &RenderedAssignment,
    (repo, branch, path): &(String, String, String),
    (builds, fields): (&[Build], &[ImageField]),
    all: &mut Diagnostics,
) -> OfPayload {
    let storage = assignment
        .manifests
        .get("storage")
        .map_or("git", String::as_str);
    if repo.is_empty() || !matches!(storage, "" | "git") {
        return OfPayload::default();
    }
    match manifests::open(platform, repo, branch) {
        Ok((reference, opened)) => {
            all.extend(outhaul_load::uncommitted(
                [(&reference, &opened)].into_iter(),
            ));
            all.extend(lists::unread(platform, &opened, (repo, path)));
            OfPayload {
                followed: kustomize::follow(&opened, path, builds, fields).unwrap_or_default(),
                // What is wrong with a list is said where payloads are looked at.
                listed: ListOfFiles::read(&opened, path)
                    .ok()
                    .flatten()
                    .map_or_else(Vec::new, |listed| listed.images()),
                is_plain: opened.repository_folder().is_none(),
            }
        }
        Err(_) => OfPayload::default(),
    }
}
