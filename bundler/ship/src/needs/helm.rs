//! Artifacts and charts in registries, as Flux is told to fetch them.
//!
//! What comes in: the documents of several files. What goes out: for each `OCIRepository`, and for each chart of a
//! `HelmRelease` whose `HelmRepository` is a registry, the artifact with the tag or digest that is asked for. A range
//! of versions names no single artifact: then the source itself is the need. It asks nobody.

use std::sync::Arc;

use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_control::yaml::Node;

use super::{Need, text};

const SCHEME: &str = "oci://";

/// Charts, and where charts come from, of several documents.
#[derive(Debug, Clone, Default)]
pub struct Helm {
    repositories: Vec<ChartRepository>,
    charts: Vec<Chart>,
}

/// A namespace and a name.
type Id = (Option<String>, String);

#[derive(Debug, Clone)]
struct ChartRepository {
    id: Id,
    url: String,
    at: Location,
}

#[derive(Debug, Clone)]
struct Chart {
    from: Id,
    name: String,
    version: Option<String>,
}

impl Helm {
    /// Adds what a document says of charts.
    pub(super) fn add(&mut self, file: &Arc<SourceFile>, document: &Node) {
        let group = text(document, "apiVersion").and_then(|version| version.split('/').next());
        let Some(spec) = document.field("spec") else {
            return;
        };
        let meta = |key: &str| document.field("metadata").and_then(|node| text(node, key));
        let namespace = meta("namespace").map(str::to_owned);
        match (group, text(document, "kind")) {
            (Some("source.toolkit.fluxcd.io"), Some("HelmRepository")) if is_oci(spec) => {
                let (Some(name), Some(url)) = (meta("name"), spec.field("url")) else {
                    return;
                };
                self.repositories.push(ChartRepository {
                    id: (namespace, name.to_owned()),
                    url: url.as_str().unwrap_or_default().to_owned(),
                    at: Location::new(file, url.span.clone()),
                });
            }
            (Some("helm.toolkit.fluxcd.io"), Some("HelmRelease")) => {
                let chart = spec.field("chart").and_then(|chart| chart.field("spec"));
                let source = chart.and_then(|chart| chart.field("sourceRef"));
                let (Some(chart), Some(source)) = (chart, source) else {
                    return;
                };
                let (Some("HelmRepository"), Some(from)) =
                    (text(source, "kind"), text(source, "name"))
                else {
                    return;
                };
                let other = text(source, "namespace").map(str::to_owned);
                self.charts.push(Chart {
                    from: (other.or(namespace), from.to_owned()),
                    name: text(chart, "chart").unwrap_or_default().to_owned(),
                    version: text(chart, "version").map(str::to_owned),
                });
            }
            _ => {}
        }
    }

    /// Adds those of another file.
    pub(super) fn append(&mut self, other: Self) {
        self.repositories.extend(other.repositories);
        self.charts.extend(other.charts);
    }

    /// The charts, or the repository itself where one of its charts has no single version, or none is asked for.
    pub(super) fn needs(self) -> Vec<(Need, Location)> {
        let mut found = Vec::new();
        for repository in self.repositories {
            let ChartRepository { id, url, at } = repository;
            let charts: Vec<&Chart> = self.charts.iter().filter(|one| one.from == id).collect();
            let named: Option<Vec<String>> = charts.iter().map(|one| one.artifact(&url)).collect();
            match named.filter(|named| !named.is_empty()) {
                None => found.push((Need::Source(url), at)),
                Some(named) => found.extend(named.into_iter().map(|name| {
                    let url = url.clone();
                    (Need::Artifact { url, name }, at.clone())
                })),
            }
        }
        found
    }
}

impl Chart {
    /// Its name in the registry; `None` where its version is a range.
    fn artifact(&self, url: &str) -> Option<String> {
        let base = url.strip_prefix(SCHEME)?.trim_end_matches('/');
        let version = self
            .version
            .as_deref()
            .filter(|version| is_exact(version))?;
        // A tag has no `+`: Helm writes `_` in its place.
        let tag = version.replace('+', "_");
        Some(format!("{base}/{}:{tag}", self.name))
    }
}

/// Whether a version is one and no range.
fn is_exact(version: &str) -> bool {
    let rest = version.strip_prefix('v').unwrap_or(version);
    let numbers = rest.split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<&str> = numbers.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(is_number)
}

/// Whether charts are fetched from a registry.
pub(super) fn is_oci(spec: &Node) -> bool {
    text(spec, "url").is_some_and(|url| url.starts_with(SCHEME))
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
    Some((Need::Artifact { url, name }, location))
}
