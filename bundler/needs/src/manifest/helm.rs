//! Charts, as Flux and Argo CD fetch them: from registries and from chart repositories.
//!
//! What comes in: the documents of several files. What goes out: for each `OCIRepository`, `HelmChart` and `HelmRelease`
//! the artifact or the chart that it asks for, with the values that a release gives it; for what no file here
//! describes, a need that names it. A range of versions in a registry names no single artifact: then the source itself is the
//! need. It asks nobody.

use outhaul_kit::carried::is_single_version;
use outhaul_kit::image_name::is_tag;
use outhaul_kit::url::UrlParts;
use std::sync::Arc;

use outhaul_bundle::Digest;
use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_control::yaml::{Node, YamlValue};
use serde_json::Value as Json;

use super::{Need, text};
use crate::values::{json, merged};

mod argocd;

pub(super) use argocd::is_chart as is_argocd_chart;

const SCHEME: &str = "oci://";

/// What a release gives to its chart.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// Its namespace, where one is written.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its own values, as JSON; empty for none.
    pub values: String,
    /// Whether the tests of the chart are run.
    pub tests: bool,
    /// What else decides about what is installed, and is not read here: `valuesFrom`, `postRenderers`.
    pub elsewhere: Vec<String>,
}

/// Charts, and where charts come from, of several documents.
#[derive(Debug, Clone, Default)]
pub struct Helm {
    repositories: Vec<ChartRepository>,
    artifacts: Vec<Artifact>,
    releases: Vec<HelmObject>,
    /// Charts of Argo CD, which name their repository themselves.
    direct: Vec<(Need, Location)>,
}

/// A namespace and a name.
type Id = (Option<String>, String);

#[derive(Debug, Clone)]
struct ChartRepository {
    id: Id,
    url: String,
    at: Location,
}

/// An `OCIRepository` with one artifact.
#[derive(Debug, Clone)]
struct Artifact {
    id: Id,
    url: String,
    name: String,
    at: Location,
}

/// A `HelmRelease` or a `HelmChart`, or a patch of one.
#[derive(Debug, Clone)]
struct HelmObject {
    is_chart: bool,
    id: Id,
    /// Kind and id of where its chart is from.
    from: Option<(String, Id)>,
    chart: Option<String>,
    version: Option<String>,
    values: Option<Json>,
    tests: bool,
    elsewhere: Vec<String>,
    at: Location,
}

impl Helm {
    /// Adds what a document has of charts.
    pub(crate) fn add(&mut self, file: &Arc<SourceFile>, document: &Node) {
        if let Some(YamlValue::Sequence(items)) = document.field("items").map(|node| &node.value)
            && text(document, "kind").is_some_and(|kind| kind.ends_with("List"))
        {
            for item in items {
                self.add(file, item);
            }
            return;
        }
        let group = text(document, "apiVersion").and_then(|version| version.split('/').next());
        let Some(spec) = document.field("spec") else {
            return;
        };
        let meta = |key: &str| document.field("metadata").and_then(|node| text(node, key));
        let id = (
            meta("namespace").map(str::to_owned),
            meta("name").unwrap_or_default().to_owned(),
        );
        match (group, text(document, "kind")) {
            (Some("argoproj.io"), _) => self.direct.extend(argocd::charts(file, spec, &id)),
            (Some("source.toolkit.fluxcd.io"), Some("HelmRepository")) => {
                let Some(url) = spec.field("url") else { return };
                self.repositories.push(ChartRepository {
                    id,
                    url: url.as_str().unwrap_or_default().to_owned(),
                    at: Location::new(file, url.span.clone()),
                });
            }
            (Some("source.toolkit.fluxcd.io"), Some("OCIRepository")) => {
                if let Some((Need::Artifact { url, name, .. }, at)) = artifact(file, spec) {
                    self.artifacts.push(Artifact { id, url, name, at });
                }
            }
            (Some("source.toolkit.fluxcd.io"), Some("HelmChart")) => {
                self.releases.push(HelmObject {
                    is_chart: true,
                    from: reference(spec.field("sourceRef"), id.0.as_ref()),
                    chart: text(spec, "chart").map(str::to_owned),
                    version: text(spec, "version").map(str::to_owned),
                    values: None,
                    tests: false,
                    elsewhere: Vec::new(),
                    at: place(file, document, spec, "chart"),
                    id,
                });
            }
            (Some("helm.toolkit.fluxcd.io"), Some("HelmRelease")) => {
                let chart = spec.field("chart").and_then(|chart| chart.field("spec"));
                let own = |key: &str| chart.and_then(|chart| text(chart, key)).map(str::to_owned);
                let source = chart.and_then(|chart| chart.field("sourceRef"));
                let from = reference(source, id.0.as_ref());
                self.releases.push(HelmObject {
                    is_chart: false,
                    from: from.or_else(|| reference(spec.field("chartRef"), id.0.as_ref())),
                    chart: own("chart"),
                    version: own("version"),
                    values: spec.field("values").map(json),
                    tests: spec
                        .field("test")
                        .and_then(|test| test.field("enable"))
                        .is_some_and(|on| on.value == YamlValue::Bool(true)),
                    elsewhere: elsewhere(spec),
                    at: place(file, document, chart.unwrap_or(spec), "chart"),
                    id,
                });
            }
            _ => {}
        }
    }

    /// Adds those of another file.
    pub fn append(&mut self, other: Self) {
        self.repositories.extend(other.repositories);
        self.artifacts.extend(other.artifacts);
        self.releases.extend(other.releases);
        self.direct.extend(other.direct);
    }

    /// What all of them ask for, each once.
    pub fn needs(self) -> Vec<(Need, Location)> {
        let mut found = self.direct.clone();
        for asked in self.whole() {
            self.need(&asked, &mut found);
        }
        for repository in &self.repositories {
            let is_asked = |asked: &HelmObject| {
                let from = asked.from.as_ref();
                from.is_some_and(|(kind, id)| {
                    kind == "HelmRepository" && is_same(id, &repository.id)
                })
            };
            // One that nothing here asks for a chart: what does is not known.
            if !self.releases.iter().any(is_asked) {
                let need = Need::Source(repository.url.clone());
                found.push((need, repository.at.clone()));
            }
        }
        let mut once: Vec<(Need, Location)> = Vec::new();
        for (need, at) in found {
            if !once.iter().any(|(other, _)| *other == need) {
                once.push((need, at));
            }
        }
        once
    }

    /// What is asked for, also as patches change it: which of them is applied is not certain, and both are there.
    fn whole(&self) -> Vec<HelmObject> {
        let mut all = Vec::new();
        for asked in self.releases.iter().filter(|one| one.from.is_some()) {
            all.push(asked.clone());
            let patches = self.releases.iter().filter(|one| {
                let changes = one.chart.is_some() || one.version.is_some() || one.values.is_some();
                one.from.is_none()
                    && changes
                    && one.is_chart == asked.is_chart
                    && is_same(&one.id, &asked.id)
            });
            for patch in patches {
                let mut values = asked.values.clone();
                if let Some(more) = &patch.values {
                    values = Some(merged(values.unwrap_or_default(), more));
                }
                all.push(HelmObject {
                    chart: patch.chart.clone().or_else(|| asked.chart.clone()),
                    version: patch.version.clone().or_else(|| asked.version.clone()),
                    values,
                    elsewhere: [&asked.elsewhere[..], &patch.elsewhere[..]].concat(),
                    at: patch.at.clone(),
                    ..asked.clone()
                });
            }
        }
        all
    }

    fn need(&self, asked: &HelmObject, found: &mut Vec<(Need, Location)>) {
        let Some((kind, from)) = &asked.from else {
            return;
        };
        let release = (!asked.is_chart).then(|| Release {
            namespace: asked.id.0.clone(),
            name: asked.id.1.clone(),
            values: asked
                .values
                .as_ref()
                .map_or_else(String::new, Json::to_string),
            tests: asked.tests,
            elsewhere: asked.elsewhere.clone(),
        });
        let unknown = |message: String| (Need::Unknown(message), asked.at.clone());
        let chart = asked.chart.clone().unwrap_or_default();
        match kind.as_str() {
            "HelmRepository" => {
                let repository = self.repositories.iter().find(|one| is_same(&one.id, from));
                match repository {
                    None => found.push(unknown(format!(
                        "the chart `{chart}` is of the HelmRepository `{}`, which no file here describes",
                        shown(from)
                    ))),
                    Some(one) if one.url.starts_with(SCHEME) => {
                        let name = oci(&one.url, &chart, asked.version.as_deref());
                        let need = match name {
                            None => (Need::Source(one.url.clone()), one.at.clone()),
                            Some(name) => {
                                let url = one.url.clone();
                                (Need::Artifact { url, name, release }, one.at.clone())
                            }
                        };
                        found.push(need);
                    }
                    Some(one) => {
                        let version = asked.version.clone().unwrap_or_default();
                        let need = of_repository(&one.url, chart, version, release);
                        found.push((need, asked.at.clone()));
                    }
                }
            }
            "OCIRepository" => match self.artifacts.iter().find(|one| is_same(&one.id, from)) {
                None => found.push(unknown(format!(
                    "its chart is of the OCIRepository `{}`, which no file here describes with one version",
                    shown(from)
                ))),
                Some(one) => found.push((
                    Need::Artifact {
                        url: one.url.clone(),
                        name: one.name.clone(),
                        release,
                    },
                    one.at.clone(),
                )),
            },
            "HelmChart" => {
                let charts = self.releases.iter();
                let mut charts = charts.filter(|one| one.is_chart && one.from.is_some());
                match charts.find(|one| is_same(&one.id, from)) {
                    None => found.push(unknown(format!(
                        "its chart is the HelmChart `{}`, which no file here describes",
                        shown(from)
                    ))),
                    Some(one) => self.need(
                        &HelmObject {
                            is_chart: false,
                            id: asked.id.clone(),
                            values: asked.values.clone(),
                            tests: asked.tests,
                            elsewhere: asked.elsewhere.clone(),
                            ..one.clone()
                        },
                        found,
                    ),
                }
            }
            // The chart itself is a folder of what that source brings.
            _ => found.push(unknown(format!(
                "the chart `{chart}` is a folder of the {kind} `{}`: which images it needs is not determined",
                shown(from)
            ))),
        }
    }
}

/// A chart of a chart repository.
fn of_repository(url: &str, chart: String, version: String, release: Option<Release>) -> Need {
    Need::Chart {
        name: chart_name(url, &chart, &version),
        url: url.to_owned(),
        chart,
        version,
        release,
    }
}

/// Whether two names mean one object: a namespace that is not written may be any.
fn is_same(one: &Id, other: &Id) -> bool {
    one.1 == other.1 && (one.0.is_none() || other.0.is_none() || one.0 == other.0)
}

fn shown((namespace, name): &Id) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.clone(),
    }
}

fn reference(node: Option<&Node>, namespace: Option<&String>) -> Option<(String, Id)> {
    let node = node?;
    let other = text(node, "namespace").map(str::to_owned);
    let id = (
        other.or_else(|| namespace.cloned()),
        text(node, "name")?.to_owned(),
    );
    Some((text(node, "kind")?.to_owned(), id))
}

fn place(file: &Arc<SourceFile>, document: &Node, spec: &Node, key: &str) -> Location {
    let node = spec.field(key).unwrap_or(document);
    Location::new(file, node.span.clone())
}

/// What besides its own values decides about a release.
fn elsewhere(spec: &Node) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(YamlValue::Sequence(items)) = spec.field("valuesFrom").map(|node| &node.value) {
        for item in items {
            let of = |key: &str| text(item, key).unwrap_or_default();
            all.push(format!("values of the {} `{}`", of("kind"), of("name")));
        }
    }
    if spec.field("postRenderers").is_some() {
        all.push("`postRenderers`".to_owned());
    }
    all
}

/// The name of a chart in a registry; `None` where its version is a range.
fn oci(url: &str, chart: &str, version: Option<&str>) -> Option<String> {
    let base = url.strip_prefix(SCHEME)?.trim_end_matches('/');
    let version = version.filter(|version| is_single_version(version))?;
    // A tag has no `+`: Helm writes `_` in its place.
    let tag = version.replace('+', "_");
    Some(format!("{base}/{chart}:{tag}"))
}

/// The name under which a chart of a chart repository travels: `HOST/PATH/index.yaml/NAME:VERSION`, of parts that a
/// registry takes.
pub(crate) fn chart_name(url: &str, chart: &str, version: &str) -> String {
    let (host, path) = match UrlParts::of(url) {
        Some(parts) => (parts.authority, parts.path()),
        None => url.split_once('/').unwrap_or((url, "")),
    };
    // The registry of a name has a dot or a port.
    let host = match host.contains(['.', ':']) || host == "localhost" {
        true => host.to_ascii_lowercase(),
        false => format!("{}:443", host.to_ascii_lowercase()),
    };
    let path = path.split('/').filter(|part| !part.is_empty());
    let parts: Vec<String> = path.chain(["index.yaml", chart]).map(component).collect();
    let tag = version.replace('+', "_");
    let tag = match is_tag(&tag) {
        true => tag,
        false => short(version),
    };
    format!("{host}/{}:{tag}", parts.join("/"))
}

/// A part of a repository's name: itself where a registry takes it, else what of it can be kept and its digest.
fn component(part: &str) -> String {
    let separators = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_good =
        |one: &[u8]| matches!(one, [] | b"." | b"_" | b"__") || one.iter().all(|b| *b == b'-');
    let ends = |b: Option<&u8>| b.is_some_and(|b| separators(*b));
    let bytes = part.as_bytes();
    if ends(bytes.first()) && ends(bytes.last()) && bytes.split(|b| separators(*b)).all(is_good) {
        return part.to_owned();
    }
    let kept: String = part
        .chars()
        .map(|c| c.to_ascii_lowercase())
        .filter(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        .take(40)
        .collect();
    format!("{kept}x{}", short(part))
}

fn short(text: &str) -> String {
    Digest::of(text.as_bytes()).hex().chars().take(12).collect()
}

/// What a source of an `Application` fetches from a registry, where it names one version: a digest or a tag.
pub(super) fn argocd_artifact(url: &str, source: &Node) -> Option<Need> {
    let base = url.strip_prefix(SCHEME)?;
    let revision = text(source, "targetRevision")?;
    let name = match revision.starts_with("sha256:") {
        true => format!("{base}@{revision}"),
        false if revision != "HEAD" && is_tag(revision) => format!("{base}:{revision}"),
        false => return None,
    };
    Some(Need::Artifact {
        url: url.to_owned(),
        name,
        release: None,
    })
}

/// What an `OCIRepository` fetches.
pub(super) fn artifact(file: &Arc<SourceFile>, spec: &Node) -> Option<(Need, Location)> {
    let at = spec.field("url")?;
    let url = at.as_str()?.to_owned();
    let location = Location::new(file, at.span.clone());
    let reference = spec.field("ref");
    let own = |key: &str| reference.and_then(|reference| text(reference, key));
    let Some(base) = url.strip_prefix(SCHEME) else {
        return Some((Need::Source(url), location));
    };
    let name = match (own("digest"), own("semver"), own("tag")) {
        (Some(digest), ..) => format!("{base}@{digest}"),
        (None, Some(_), _) => return Some((Need::Source(url), location)),
        (None, None, tag) => format!("{base}:{}", tag.unwrap_or("latest")),
    };
    let release = None;
    Some((Need::Artifact { url, name, release }, location))
}
