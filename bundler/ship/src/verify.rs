//! Verify: does a bundle hold what its snapshot gives?
//!
//! What comes in: the index of a bundle that was opened ([`outhaul_attest::contents`]), what its fleet says of it, and what the same
//! commits render to now. What goes out: a list of differences, file by file, where empty means equal, and what all of it amounts to.
//! It is pure; the payloads are collected, and compared with it, in [`with_commits`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_bundle::index::{Assignment, File, Snapshot, Source};
use outhaul_bundle::name::Name;
use outhaul_bundle::{Digest, Index};

use crate::collect::{self, Payloads};
use outhaul_attest::statement_check::Statement;
use outhaul_files::apt;
use outhaul_plane::render::RenderedAssignment;

mod again;

pub use again::{CompareError, with_commits};

/// Whether all that was asked about a bundle is as it should be. Without `differences` its commits were not rendered again; where its
/// attestations are wanted, the fleet must have signed for them.
pub fn is_sound(
    statement: &Statement,
    differences: Option<&[ContentDifference]>,
    wants_attestations: bool,
) -> bool {
    let is_equal = differences.is_none_or(<[_]>::is_empty);
    is_equal && (statement.holds() || !(statement.is_wrong() || wants_attestations))
}

/// One way in which a bundle is not what its commits give.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct ContentDifference {
    /// `<assignment>/files/<path>`, `<assignment>/payload/<path>`, `<assignment>/config`, `<assignment>/site-values`,
    /// `<assignment>/sites`, `<assignment>/sites/<site>`, `<assignment>`.
    pub path: String,
    /// `changed`, `only in the bundle`, `only rendered`, `kept, but it is sound`.
    pub what: &'static str,
}

/// Which commits the bundle's snapshot `then` names that were not read `now`; those of what was kept are of another snapshot.
pub fn unread_sources(then: &Snapshot, now: &Snapshot) -> Vec<ContentDifference> {
    fn sources(snapshot: &Snapshot) -> impl Iterator<Item = &Source> {
        let both = [&snapshot.environment, &snapshot.base].into_iter();
        both.chain(&snapshot.workloads)
    }
    let then = sources(then).filter(|source| !source.name.starts_with(collect::KEPT));
    let unread = then.filter(|source| !sources(now).any(|other| other == *source));
    let difference = |source: &Source| ContentDifference {
        path: format!("commit {} of {}", source.commit, source.name),
        what: "only in the bundle",
    };
    unread.map(difference).collect()
}

/// Compares the bundle's assignments with what was rendered. Sorted; empty means equal. What the index
/// says was kept is of another snapshot and is not compared; this one must then not render to it.
pub fn differences(
    index: &Index,
    rendered: &BTreeMap<String, Arc<RenderedAssignment>>,
    payloads: &Payloads,
) -> Vec<ContentDifference> {
    let mut found = Vec::new();
    let mut tell = |path: String, what| found.push(ContentDifference { path, what });
    let carried: BTreeMap<&str, &Assignment> = index
        .assignments
        .iter()
        .map(|one| (one.name.as_str(), one))
        .collect();
    for (name, now) in rendered {
        let wanted = wanted_sites(now, &index.recipients);
        // A bundle for some sites leaves out what none of them is to have.
        let for_nobody = wanted.is_some_and(|sites| sites.is_empty());
        if !carried.contains_key(name.as_str()) && !for_nobody {
            tell(name.clone(), "only rendered");
        }
    }
    let nothing = Vec::new();
    for (name, assignment) in carried {
        if index.kept.contains_key(&assignment.name) {
            if rendered.contains_key(name) {
                tell(name.to_owned(), "kept, but it is sound");
            }
            continue;
        }
        let Some(now) = rendered.get(name) else {
            tell(name.to_owned(), "only in the bundle");
            continue;
        };
        if now.config_version != assignment.config_version {
            tell(format!("{name}/config"), "changed");
        }
        if now.site_values != assignment.site_values {
            tell(format!("{name}/site-values"), "changed");
        }
        if now.bootstrap.as_deref() != assignment.bootstrap.as_ref().map(Name::as_str) {
            tell(format!("{name}/bootstrap"), "changed");
        }
        let files = now
            .files
            .iter()
            .map(|(path, bytes)| (path.as_str(), (Digest::of(bytes), false)));
        compare(
            &assignment.files,
            files.collect(),
            &format!("{name}/files"),
            &mut tell,
        );
        let sites = assignment.sites.as_ref();
        let sites = sites.map(|sites| sites.iter().map(Name::as_str).collect::<BTreeSet<_>>());
        if sites != wanted_sites(now, &index.recipients) {
            tell(format!("{name}/sites"), "changed");
        }
        of_sites(assignment, now, &index.recipients, &mut tell);
        let payload = payloads.files.get(name).unwrap_or(&nothing).iter();
        // Who verifies has no key of the fleet; what was signed is compared without its signature.
        let release = format!("{}/{}", apt::FOLDER, apt::RELEASE);
        let has_packages = assignment
            .payload
            .iter()
            .any(|file| file.path.as_str() == release);
        let is_compared = |path: &str| !has_packages || !apt::depends_on_signer(path);
        let payload = payload.filter(|file| is_compared(file.path.as_str()));
        let carried = assignment.payload.iter();
        let carried = carried
            .filter(|file| is_compared(file.path.as_str()))
            .cloned();
        let carried: Vec<_> = carried.collect();
        let payload = payload.map(|file| (file.path.as_str(), (file.content, file.executable)));
        compare(
            &carried,
            payload.collect(),
            &format!("{name}/payload"),
            &mut tell,
        );
    }
    served(index, payloads, &mut tell);
    found.sort();
    found
}

/// Compares the repositories that the site serves. What only a kept assignment needs is of another snapshot.
fn served(index: &Index, payloads: &Payloads, tell: &mut impl FnMut(String, &'static str)) {
    let carried = &index.served.repositories;
    for one in &payloads.served.repositories {
        let path = || format!("served/{}", one.url);
        match carried.iter().find(|other| other.url == one.url) {
            None => tell(path(), "only rendered"),
            Some(other) if other != one && index.kept.is_empty() => tell(path(), "changed"),
            Some(_) => {}
        }
    }
    let now = &payloads.served.repositories;
    let gone = carried
        .iter()
        .filter(|one| now.iter().all(|other| other.url != one.url));
    if index.kept.is_empty() {
        gone.for_each(|one| tell(format!("served/{}", one.url), "only in the bundle"));
    }
}

/// The only sites that an assignment is for, of those that the bundle is for.
fn wanted_sites<'a>(
    rendered: &'a RenderedAssignment,
    recipients: &BTreeSet<Name>,
) -> Option<BTreeSet<&'a str>> {
    let names = rendered.sites.as_ref()?.iter().map(String::as_str);
    let is_for =
        |site: &&str| recipients.is_empty() || recipients.iter().any(|r| r.as_str() == *site);
    Some(names.filter(is_for).collect())
}

/// Compares what each site has of its own.
fn of_sites(
    carried: &Assignment,
    rendered: &RenderedAssignment,
    recipients: &BTreeSet<Name>,
    tell: &mut impl FnMut(String, &'static str),
) {
    let wanted =
        |site: &str| recipients.is_empty() || recipients.iter().any(|r| r.as_str() == site);
    let mut now: BTreeMap<&str, _> = BTreeMap::new();
    for overlay in &rendered.overlays {
        let files = overlay.files.iter();
        let files: Vec<_> = files
            .map(|(path, b)| (path.as_str(), Digest::of(b)))
            .collect();
        for site in overlay.sites.iter().filter(|site| wanted(site)) {
            now.insert(site, (overlay.config_version, files.clone()));
        }
    }
    for overlay in &carried.overlays {
        let files = overlay.files.iter();
        let files: Vec<_> = files
            .map(|file| (file.path.as_str(), file.content))
            .collect();
        for site in &overlay.sites {
            let path = format!("{}/sites/{site}", carried.name);
            match now.remove(site.as_str()) {
                None => tell(path, "only in the bundle"),
                Some(other) if other != (overlay.config_version, files.clone()) => {
                    tell(path, "changed");
                }
                Some(_) => {}
            }
        }
    }
    for site in now.into_keys() {
        tell(format!("{}/sites/{site}", carried.name), "only rendered");
    }
}

fn compare(
    carried: &[File],
    mut rendered: BTreeMap<&str, (Digest, bool)>,
    folder: &str,
    tell: &mut impl FnMut(String, &'static str),
) {
    for file in carried {
        let path = format!("{folder}/{}", file.path);
        match rendered.remove(file.path.as_str()) {
            Some(now) if now == (file.content, file.executable) => {}
            Some(_) => tell(path, "changed"),
            None => tell(path, "only in the bundle"),
        }
    }
    for path in rendered.keys() {
        tell(format!("{folder}/{path}"), "only rendered");
    }
}

#[cfg(test)]
mod tests;
