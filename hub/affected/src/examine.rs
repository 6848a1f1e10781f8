//! What an advisory means for one bundle.
//!
//! What comes in: the advisory, the statements about exploitability, and the components of the bundle and of its images that may be
//! meant. What goes out: a [`Finding`]: what is affected, what a statement clears and which, and what is not known. "Not
//! affected" is only what has neither a hit nor anything unknown.

use std::collections::BTreeSet;

use outhaul_vex::{Statement, Status};
use serde::{Deserialize, Serialize};

use crate::advisory::{Advisory, Subject};
use crate::materials::{CarriedImage, Component, ComponentKind};
use crate::stated::{self, About, KnownComponent};
use crate::vulnerability::Vulnerability;

/// A statement, and where it comes from.
#[derive(Debug, Clone, Copy)]
pub struct Stated<'a> {
    /// The statement.
    pub statement: &'a Statement,
    /// Whether the bundle carries it; otherwise someone imported it.
    pub is_carried: bool,
}

/// A component of a bundle, and where it is.
#[derive(Debug, Clone, Copy)]
pub struct LocatedComponent<'a> {
    /// The component.
    pub component: &'a Component,
    /// The image that it is in; `None` for what the bundle carries itself.
    pub image: Option<&'a CarriedImage>,
}

/// Something that an advisory is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hit {
    /// The package or image, with its version.
    pub component: String,
    /// The source that it was built from, with its version, where that has another name.
    pub source: Option<String>,
    /// The image that it is in.
    pub image: Option<String>,
    /// The assignments that bring it, as far as that is known.
    pub assignments: BTreeSet<String>,
    /// The version that is not affected any more, of the source where there is one.
    pub fixed_in: Option<String>,
    /// What a statement says that clears nothing: `affected` or `under_investigation`, or `fixed` of a package without its version.
    pub stated: Option<String>,
}

/// A hit that a statement clears.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cleared {
    /// What it is about.
    pub hit: Hit,
    /// `not_affected` or `fixed`.
    pub status: String,
    /// Why.
    pub reason: String,
    /// Who says so.
    pub author: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Whether the bundle carries the statement.
    pub is_carried: bool,
}

/// What an advisory means for a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finding {
    /// What is affected.
    pub hits: BTreeSet<Hit>,
    /// What statements clear.
    pub cleared: BTreeSet<Cleared>,
    /// Why it is not known whether anything else is affected.
    pub unknown: BTreeSet<String>,
}

/// Works it out, for a question by the name `asked`: the advisory's own, or one that it has elsewhere.
pub fn examine(
    (advisory, asked): (&Advisory, &str),
    statements: &[Stated<'_>],
    found: &[LocatedComponent<'_>],
    unknown: &BTreeSet<String>,
) -> Finding {
    let vulnerabilities = advisory.vulnerabilities(asked);
    let mut finding = Finding::default();
    if !advisory.withdrawn {
        finding.unknown.extend(unknown.iter().cloned());
        let not_compared = advisory.not_compared().into_iter();
        finding.unknown.extend(not_compared.map(str::to_owned));
    }
    for one in found {
        let (mut hit, is_compared) = match advised(advisory, one.component) {
            Advised::NotAffected => continue,
            Advised::Affected { fixed_in } => (hit(*one, fixed_in), true),
            Advised::NothingSaid => (hit(*one, None), false),
        };
        // Of each vulnerability the newest statement; all of them must clear it.
        let newest: Vec<Option<(Stated<'_>, About)>> = vulnerabilities
            .iter()
            .map(|names| newest(statements, names, *one))
            .collect();
        // What the advisory lists as affected is fixed where that very version is named only.
        let clears = |one: Option<(Stated<'_>, About)>| {
            one.is_some_and(|(one, about)| match one.statement.status {
                Status::Fixed => about == About::Exactly || !is_compared,
                status => status.clears(),
            })
        };
        let open = newest.iter().copied().find(|one| !clears(*one));
        let open = open.map(|one| one.map(|(one, _)| one));
        match (open, newest.first().copied().flatten().map(|(one, _)| one)) {
            (None, Some(stated)) => {
                let statement = stated.statement;
                finding.cleared.insert(Cleared {
                    hit,
                    status: statement.status.as_str().to_owned(),
                    reason: statement.reason.clone(),
                    author: statement.author.clone(),
                    at_ms: statement.at_ms,
                    is_carried: stated.is_carried,
                });
            }
            (None | Some(None), _) if !is_compared => {
                finding.unknown.insert(no_statement(&hit, one.component));
            }
            (open, _) => {
                let stated = open.flatten();
                hit.stated = stated.map(|one| one.statement.status.as_str().to_owned());
                finding.hits.insert(hit);
            }
        }
    }
    finding
}

/// The newest statement about one vulnerability of a component; of the same time the one that clears nothing.
fn newest<'s>(
    statements: &[Stated<'s>],
    vulnerability: &Vulnerability<'_>,
    found: LocatedComponent<'_>,
) -> Option<(Stated<'s>, About)> {
    let about = statements.iter().copied().filter_map(|one| {
        let is_of = vulnerability.is_named_by(&one.statement.vulnerabilities);
        Some((one, is_of.then(|| about(one.statement, found))??))
    });
    about.max_by_key(|(one, about)| {
        let clears = one.statement.status.clears();
        (one.statement.at_ms, !clears, *about)
    })
}

/// What an advisory says of a component.
enum Advised {
    Affected {
        fixed_in: Option<String>,
    },
    NotAffected,
    /// It is about a package of this name, and says nothing of this distribution or release.
    NothingSaid,
}

fn advised(advisory: &Advisory, component: &Component) -> Advised {
    let is_image = |kind| kind == ComponentKind::Image;
    // By its source, as distributions publish; and by its own name, should someone else write one.
    let version_of = |subject: &Subject| match subject.name.as_str() {
        name if name == component.advised_name() => Some(component.advised_version()),
        name if name == component.name => Some(component.version.as_str()),
        _ => None,
    };
    let named = advisory.subjects.iter().filter_map(|subject| {
        let version = version_of(subject)?;
        (is_image(subject.kind) == is_image(component.kind)).then_some((subject, version))
    });
    let named: Vec<(&Subject, &str)> = named.collect();
    if advisory.withdrawn || named.is_empty() {
        return Advised::NotAffected;
    }
    let mut covering = named
        .iter()
        .filter(|(subject, _)| {
            subject.kind == component.kind && subject.distribution.covers(&component.distribution)
        })
        .peekable();
    if covering.peek().is_none() {
        return Advised::NothingSaid;
    }
    let own = component.version.as_str();
    match covering.find(|(subject, version)| subject.affects(version) || subject.affects(own)) {
        None => Advised::NotAffected,
        Some((subject, version)) => Advised::Affected {
            fixed_in: subject.fixed_in(version).map(str::to_owned),
        },
    }
}

fn no_statement(hit: &Hit, component: &Component) -> String {
    let distribution = &component.distribution;
    let of = match (distribution.id.as_str(), distribution.release.as_str()) {
        ("", _) => "an unknown distribution".to_owned(),
        (id, release) => format!("{id} {release}").trim_end().to_owned(),
    };
    let within = hit.image.as_ref();
    let within = within.map_or(String::new(), |image| format!(" in image `{image}`"));
    format!(
        "`{}` of {of}{within}: the advisory does not cover that release",
        hit.component
    )
}

fn hit(found: LocatedComponent<'_>, fixed_in: Option<String>) -> Hit {
    let component = found.component;
    let mut assignments = component.assignments.clone();
    if let Some(image) = found.image {
        assignments.extend(image.assignments.iter().cloned());
    }
    let source = component.source.as_ref();
    let source = source
        .filter(|(name, version)| *name != component.name || *version != component.version)
        .map(|(name, version)| format!("{name} {version}"));
    Hit {
        component: format!("{} {}", component.name, component.version),
        source,
        image: found.image.map(|image| image.name.clone()),
        assignments,
        fixed_in,
        stated: None,
    }
}

fn about(statement: &Statement, found: LocatedComponent<'_>) -> Option<About> {
    let component = found.component;
    // A package without a package URL is of a distribution that nobody knows: its bare name may be another one's.
    let known = match component.kind {
        ComponentKind::Image => {
            known_image(&component.image_name(), &component.purl, component.digest())
        }
        _ => KnownComponent {
            names: vec![component.purl.clone()],
            sha256: None,
        },
    };
    let image = found
        .image
        .map(|image| known_image(&image.name, &image.purl, image.digest()));
    stated::about(statement, &known, &image.unwrap_or_default())
}

/// What a bill says of an image.
fn known_image(name: &str, purl: &str, digest: Option<&str>) -> KnownComponent {
    let mut names = vec![name.to_owned(), purl.to_owned()];
    // One that is asked for by its tag has the digest beside its package URL.
    if let Some(digest) = digest {
        let (path, query) = purl.split_once('?').unwrap_or((purl, ""));
        let path = path.split_once('@').map_or(path, |(path, _)| path);
        names.push(format!("{path}@sha256:{digest}?{query}"));
    }
    KnownComponent {
        names,
        sha256: digest.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests;
