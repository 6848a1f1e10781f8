//! Offline: images and sources that no bundle brings.
//!
//! What comes in: a platform. What goes out: a finding for each image and each source of a reconciler
//! that is named in rendered files or in a workload's manifests and does not travel: a warning where
//! bundles are how the platform gets there, a note where no delivery policy says so, nothing where git
//! does it; and what a working copy of manifests has that is not committed. It reads repositories that can be had and changes nothing; one that cannot be read is not
//! its business.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location};
use outhaul_control::model::{ClusterType, ImageField, Images, Transport};
use outhaul_git::source::normal_url;
use outhaul_kit::carried::is_single_version;
use outhaul_kit::url_secrets::without_secrets;
use outhaul_load::manifests;
use outhaul_load::pipeline::Platform;
use outhaul_needs::kustomize::{self, Build, Followed, Gap, Means};
use outhaul_needs::{ListOfFiles, Need, Needs as OfFile, shown_image, without_charts};
use outhaul_plane::delivery::storage::OCI;
use outhaul_plane::delivery::{self, Delivery};
use outhaul_plane::render::RenderedAssignment;
use outhaul_registry::ImageReference;
use outhaul_ship::collect::{ChartAsked, unnamed};

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
#[expect(
    clippy::too_many_lines,
    reason = "one pass over all assignments, whose results depend on one another"
)]
pub(crate) fn looked_at(platform: &Platform, bundled: Option<&[String]>) -> LookedAt {
    let mut trusted = BTreeSet::new();
    let mut travelling: BTreeMap<(String, Option<Asked>), Option<Location>> = BTreeMap::new();
    let plane = &platform.control_plane;
    let mut needs = Needs::new();
    let mut read: BTreeMap<Payload, OfPayload> = BTreeMap::new();
    let mut gaps: Vec<(Gap, bool)> = Vec::new();
    let mut unread = NotRead::default();
    let mut possible = LooksLikeImages::default();
    let mut all = Diagnostics::new();
    for (name, group) in &platform.rendering.cluster_types {
        let Some(cluster_type) = plane.cluster_types.get(name) else {
            continue;
        };
        let delivery = delivery::of(plane, cluster_type).unwrap_or_default();
        let transport = delivery.transport.as_ref().map(|transport| transport.value);
        let other = |names: &[String]| !names.is_empty() && !names.contains(name);
        if transport == Some(Transport::Git) || bundled.is_some_and(other) {
            continue;
        }
        for assignment in group.assignments.values() {
            let key = |key: &str| assignment.manifests.get(key).cloned().unwrap_or_default();
            let builds = kustomize::builds(assignment.files.iter());
            let payload = (key("repo"), key("branch"), key("path"));
            let fields = delivery.image_fields();
            let fields_at = delivery.image_fields.as_ref();
            let fields_at = fields_at.map(|said| said.location.to_string());
            let payload: Payload = (payload, kustomize::alike(&builds), fields_at);
            let found = read.entry(payload).or_insert_with_key(|(payload, ..)| {
                of_payload(platform, assignment, payload, (&builds, fields), &mut all)
            });
            let mut known = BTreeSet::new();
            let mut add = |need: Need, place: String, at: Option<Location>, rendered: bool| {
                if let Need::Image(image) = &need {
                    known.insert(whole(image));
                }
                // Of what a workload's own manifests name, only images are brought.
                let fetched = matches!(need, Need::Repository(..)) && !rendered;
                let carried = !fetched && carries(&delivery);
                if reachable(&need, assignment, &delivery, carried, found.is_plain) {
                    if let Some((image, asked)) = as_image(need) {
                        if carries(&delivery) {
                            travelling.entry((image, asked)).or_insert(at);
                        } else {
                            trusted.insert(image);
                        }
                    }
                    return;
                }
                let entry = needs.entry((need, place));
                let (_, types, certain) = entry.or_insert((at, BTreeSet::new(), false));
                types.insert(name.clone());
                *certain |= transport.is_some() || bundled.is_some();
            };
            let rendered = assignment.files.iter();
            let rendered: Vec<_> = rendered
                .map(|(file, bytes)| OfFile::with(file, bytes, fields))
                .collect();
            let mut alike = Vec::new();
            for one in &rendered {
                possible.note_fields(fields, &one.fields);
                alike.extend(one.possible.iter().map(|one| {
                    let need = Need::Image(one.image.clone());
                    (one.clone(), written(platform, cluster_type, &need))
                }));
            }
            possible.note_fields(fields, &found.followed.fields);
            let own = found.followed.possible.iter();
            alike.extend(own.map(|one| (one.clone(), None)));
            let named_so = rendered.iter().filter_map(|one| one.unread.clone());
            let kind = platform.reconciler_kind(&group.reconciler);
            // With what is wrong with its objects that is said already.
            if carries(&delivery) || !manifests::applies_objects(&kind) {
                let all = named_so.chain(found.followed.unread());
                unread.note(all, carries(&delivery));
            }
            let (rendered, mut helm) = without_charts(rendered);
            helm.append(found.followed.helm.clone());
            // Of a chart, its release and its repository, each may be in either.
            let is_own = |at: &Location| !assignment.files.contains_key(&at.file.name);
            let (own, charts) = helm.needs().into_iter().partition(|(_, at)| is_own(at));
            let own: Vec<_> = own;
            let charts: Vec<_> = charts;
            for (need, at) in rendered.into_iter().chain(charts) {
                let place = written(platform, cluster_type, &need);
                let shown = place
                    .as_ref()
                    .map_or(at.file.name.clone(), Location::to_string);
                add(need, shown, place, true);
            }
            for (need, at) in found.followed.needs.iter().chain(&own).chain(&found.listed) {
                add(need.clone(), at.to_string(), Some(at.clone()), false);
            }
            // Where the sites have a registry, it has to have them as it has all others.
            if !has_registry(&delivery) {
                possible.note(name, &known, carries(&delivery), alike.into_iter());
            }
            let is_built =
                assignment.bootstrap.is_none() && manifests::builds_kustomizations(&kind);
            let is_certain = transport.is_some() || bundled.is_some();
            let reported = found.followed.gaps.iter();
            for gap in reported.filter(|gap| is_reported(gap, is_built, &delivery)) {
                add_gap(gap, is_certain, &mut gaps);
            }
        }
    }
    findings(needs, &mut all);
    all.append(possible.findings());
    all.extend(unread.findings(bundled.is_some()));
    all.extend(gaps.iter().map(gap_finding));
    // One that cannot be asked for is a finding.
    let is_asked =
        |asked: &Option<Asked>| asked.as_ref().is_none_or(|one| is_single_version(&one.2));
    let names = travelling.keys().filter(|(_, asked)| is_asked(asked));
    let names = names.map(|(image, _)| shown_image(image)).collect();
    if bundled.is_none() {
        for ((image, asked), at) in &travelling {
            all.extend(match asked {
                None => badly_named(platform, image, at.as_ref()),
                Some(asked) => badly_asked(platform, asked, at.as_ref()),
            });
        }
    }
    // Several payloads may lie in one working copy.
    all.sort();
    LookedAt {
        findings: all,
        trusted,
        carried: names,
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

/// What is wrong with a chart that would travel, as far as that needs no network.
fn badly_asked(
    platform: &Platform,
    (url, chart, version): &Asked,
    at: Option<&Location>,
) -> Option<Diagnostic> {
    let asked = ChartAsked {
        url,
        chart,
        version,
    };
    let (problem, help) = match (unnamed(asked), platform.sources.permitted(url)) {
        (Some(error), _) => (error.message, error.help.unwrap_or_default()),
        (None, Err(error)) => (error.to_string(), error.help()),
        (None, Ok(_)) if !is_single_version(version) => (
            format!("`{version}` is not one version, and a bundle contains one"),
            "write one version in `spec.chart.spec.version`, such as `1.2.3`; `outhaul bundle --estimate` names those \
             that there are"
                .to_owned(),
        ),
        (None, Ok(_)) => return None,
    };
    let message = format!(
        "no bundle can bring the chart `{chart}` of `{}`: {problem}",
        without_secrets(url)
    );
    let finding = Diagnostic::error("not-collected", message);
    let finding = match at {
        Some(at) => finding.at(at),
        None => finding,
    };
    Some(finding.help(help))
}

/// What is wrong with the name of an image that would travel, as far as that needs no network.
fn badly_named(platform: &Platform, image: &str, at: Option<&Location>) -> Option<Diagnostic> {
    let problem = match image.parse::<ImageReference>() {
        Err(error) => (
            error.to_string(),
            "write it as a container runtime takes it".to_owned(),
        ),
        Ok(reference) => {
            let url = format!("https://{}/", reference.registry);
            let error = platform.sources.permitted(&url).err()?;
            (format!("`{}`: {error}", shown_image(image)), error.help())
        }
    };
    let (message, help) = problem;
    let finding = Diagnostic::error(
        "not-collected",
        format!("no bundle can bring an image: {message}"),
    );
    let finding = match at {
        Some(at) => finding.at(at),
        None => finding,
    };
    Some(finding.help(&help))
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

fn gap_finding((gap, is_certain): &(Gap, bool)) -> Diagnostic {
    match is_certain {
        true => gap.finding(Diagnostic::warning),
        false => gap.finding(Diagnostic::note),
    }
}

fn findings(needs: Needs, all: &mut Diagnostics) {
    for ((need, _), (at, types, certain)) in needs {
        let types: Vec<String> = types.iter().map(|name| format!("`{name}`")).collect();
        let types = types.join(", ");
        let (code, what, help) = match &need {
            Need::Image(image) => (
                "image-not-carried",
                format!(
                    "no bundle brings the image `{}` to the sites of {types}",
                    shown_image(image)
                ),
                "write `images: carry` in a delivery policy, and bundles bring it; `images: reference` where the sites have a \
                 registry with it; `delivery: git` where they have a network",
            ),
            Need::Source(url) => (
                "source-not-carried",
                format!("no bundle brings `{url}` to the sites of {types}"),
                match url.starts_with("oci://") {
                    true => {
                        "charts and OCI artifacts travel where an object names one version of them: name one; where the \
                             sites have a registry with it, write `images: reference` in a delivery policy; else commit what it makes (`helm template`) to \
                             the workload's manifests; `delivery: git` where the sites have a network"
                    }
                    false => {
                        "buckets do not travel, and of a chart repository those charts that a `HelmRelease` asks for with one \
                              version: name one; or commit what the chart makes (`helm template`) to the \
                              workload's manifests, or let sites reach it at an address inside the cluster (`.svc`); \
                              `delivery: git` where they have a network"
                    }
                },
            ),
            Need::Chart { url, chart, .. } => (
                "source-not-carried",
                format!(
                    "no bundle brings the chart `{chart}` of `{}` to the sites of {types}",
                    without_secrets(url)
                ),
                "write `images: carry` in a delivery policy, and bundles bring it with its images; `images: reference` where the \
                 sites reach that repository; `delivery: git` where they have a network",
            ),
            Need::Unknown(what) => (
                "source-not-carried",
                format!(
                    "whether a bundle brings everything to the sites of {types} is not known: {what}"
                ),
                "put what it names into the same manifests, or what the chart makes (`helm template`); `delivery: git` \
                 where the sites have a network",
            ),
            Need::Repository(url, _) | Need::Artifact { url, .. } => (
                "source-not-carried",
                format!("no bundle brings `{url}` to the sites of {types}"),
                "name it as the `manifests` of a deployment target, in a clone and not as a plain folder, so that \
                 it travels; or write `delivery: git` in a delivery policy where the sites have a network",
            ),
        };
        let mut finding = match certain {
            true => Diagnostic::warning(code, what),
            false => Diagnostic::note(code, what),
        };
        if let Some(at) = &at {
            finding = finding.at(at);
        }
        all.push(finding.help(help));
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

/// Where a template writes it, when it is there as it is.
fn written(platform: &Platform, cluster_type: &ClusterType, need: &Need) -> Option<Location> {
    let text = need.text();
    let names = [
        Some(&cluster_type.reconciler),
        Some(&cluster_type.namespace_service),
        cluster_type.config_type.as_ref(),
    ];
    let templates = names.into_iter().flatten();
    let templates = templates.filter_map(|name| platform.control_plane.templates.get(&name.value));
    for manifest in templates.flat_map(|template| &template.manifests) {
        let file = &manifest.location.file;
        let within = file.text.get(manifest.location.span.clone())?;
        if let Some(at) = within.find(text) {
            let start = manifest.location.span.start + at;
            return Some(Location::new(file, start..start + text.len()));
        }
    }
    Some(cluster_type.reconciler.location.clone())
}
