//! Advisories, as osv.dev and the distributions publish them (OSV schema 1).
//!
//! What comes in: JSON that nobody has looked at. What goes out: an [`Advisory`]: its names, and what it is about: packages with
//! the versions that are affected. Fields that are not needed are not looked at. What cannot be compared (ranges of
//! commits, packages of languages) is kept as such, because "not affected" must never follow from it.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::Deserialize;

use crate::materials::ComponentKind;
use crate::purl::Purl;
use crate::release::Distribution;
use crate::shown::shown;
use crate::version::{self, begins_with_a_digit, is_version};
use crate::vulnerability::Vulnerability;

/// Largest advisory, and largest statement about one, in bytes.
pub const MAX_ADVISORY_BYTES: usize = outhaul_vex::MAX_BYTES;
/// Longest name of an advisory, in bytes.
pub const MAX_ADVISORY_NAME_BYTES: usize = 128;
/// How much of a summary is kept, in characters.
const MAX_SUMMARY: usize = 300;

/// An advisory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advisory {
    /// Its name: `DSA-5532-1`, `CVE-2023-5363` …
    pub id: String,
    /// The names that it has elsewhere, sorted.
    pub aliases: BTreeSet<String>,
    /// The vulnerabilities that it is about, where it is one of a distribution about several.
    pub upstream: BTreeSet<String>,
    /// What it is about, in a sentence; may be empty.
    pub summary: String,
    /// When it was changed last, as it is written.
    pub modified: String,
    /// Whether it was withdrawn.
    pub withdrawn: bool,
    /// When, in milliseconds since 1970.
    pub withdrawn_ms: Option<i64>,
    /// What it is about, as far as that can be compared.
    pub subjects: Vec<Subject>,
    /// What it is about and is in no bill of materials: each with the reason.
    unlisted: BTreeSet<String>,
    /// Packages of which it names commits only: each as a reason.
    commits: BTreeSet<String>,
    /// What of it matches nothing here, or not as it is written.
    unmatched: BTreeSet<Unmatched>,
}

/// A product that can match nothing, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unmatched {
    /// The product as the document names it; empty where it names none.
    pub product: String,
    /// Why.
    pub why: String,
}

/// A package that an advisory is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Which package manager, or an image.
    pub kind: ComponentKind,
    /// Which distribution.
    pub distribution: Distribution,
    /// Its name: of the source that packages are built from, or of the image.
    pub name: String,
    spans: Vec<Span>,
    versions: BTreeSet<String>,
}

/// Versions from one on, up to another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Span {
    /// `0` for all.
    from: String,
    /// The first that is not affected any more.
    fixed: Option<String>,
    /// The last that is affected.
    last: Option<String>,
}

/// Why an advisory cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdvisoryError {
    /// It has no usable name.
    #[error("its `id` is not a name of 1 to {MAX_ADVISORY_NAME_BYTES} visible characters")]
    Name,
    /// Not JSON of this form.
    #[error("it is not an advisory in the form of OSV: {0}")]
    Json(#[from] serde_json::Error),
    /// Larger than any real one.
    #[error("it has {0} bytes, the limit is {MAX_ADVISORY_BYTES}")]
    TooLarge(usize),
}

#[derive(Deserialize)]
struct Document {
    id: String,
    modified: String,
    #[serde(default)]
    withdrawn: Option<String>,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    upstream: Vec<String>,
    #[serde(default)]
    summary: String,
    #[serde(default)]
    details: String,
    #[serde(default)]
    affected: Vec<Affected>,
}

#[derive(Deserialize)]
struct Affected {
    package: Option<Package>,
    #[serde(default)]
    ranges: Vec<Range>,
    #[serde(default)]
    versions: Vec<String>,
}

#[derive(Deserialize)]
struct Package {
    #[serde(default)]
    ecosystem: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    purl: String,
}

#[derive(Deserialize)]
struct Range {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    introduced: Option<String>,
    fixed: Option<String>,
    last_affected: Option<String>,
}

impl Advisory {
    /// Reads one.
    ///
    /// # Errors
    /// [`AdvisoryError`]
    pub fn read(bytes: &[u8]) -> Result<Self, AdvisoryError> {
        if bytes.len() > MAX_ADVISORY_BYTES {
            return Err(AdvisoryError::TooLarge(bytes.len()));
        }
        // Some editors write a mark before the text.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let document: Document = serde_json::from_slice(bytes)?;
        if !is_name(&document.id) {
            return Err(AdvisoryError::Name);
        }
        // A date, and nothing else, takes it back.
        let withdrawn = document.withdrawn.and_then(|at| at.parse().ok());
        let withdrawn_ms = withdrawn.map(jiff::Timestamp::as_millisecond);
        let mut advisory = Self {
            aliases: others(document.aliases, &document.id),
            upstream: others(document.upstream, &document.id),
            id: document.id,
            summary: sentence(&document.summary, &document.details),
            modified: document.modified.chars().take(64).collect(),
            withdrawn: withdrawn_ms.is_some(),
            withdrawn_ms,
            subjects: Vec::new(),
            unlisted: BTreeSet::new(),
            commits: BTreeSet::new(),
            unmatched: BTreeSet::new(),
        };
        for affected in document.affected {
            advisory.add(affected);
        }
        if advisory.subjects.is_empty() && advisory.not_compared().is_empty() {
            advisory.unlist("", "it names no package".to_owned());
        }
        Ok(advisory)
    }

    /// When it was changed last, in milliseconds since 1970; `None` when that cannot be read.
    pub fn modified_ms(&self) -> Option<i64> {
        let modified: Result<jiff::Timestamp, _> = self.modified.parse();
        modified.ok().map(jiff::Timestamp::as_millisecond)
    }

    /// The vulnerabilities of which all must be cleared, each with the names that statements may use for it, when it is asked for by
    /// `asked`: that one alone, where it is about several and one of them is asked for.
    pub(crate) fn vulnerabilities<'a>(&'a self, asked: &'a str) -> Vec<Vulnerability<'a>> {
        let mut own = BTreeSet::from([self.id.as_str(), asked]);
        own.extend(self.aliases.iter().map(String::as_str));
        if self.upstream.contains(asked) {
            let (names, whole) = (BTreeSet::from([asked]), BTreeSet::new());
            return vec![Vulnerability { names, whole }];
        }
        if self.upstream.is_empty() {
            let (names, whole) = (own, BTreeSet::new());
            return vec![Vulnerability { names, whole }];
        }
        let each = self.upstream.iter().map(|one| Vulnerability {
            names: BTreeSet::from([one.as_str()]),
            whole: own.clone(),
        });
        each.collect()
    }

    /// Every name by which it is asked for, and that statements may use.
    pub fn names(&self) -> BTreeSet<&str> {
        let names = self.aliases.iter().chain(&self.upstream);
        let names = names.map(String::as_str);
        names.chain([self.id.as_str()]).collect()
    }

    /// What it is about and cannot be compared: each with the reason. Commits do not matter where it, or another one about the same, names
    /// packages by their versions.
    pub fn not_compared(&self) -> BTreeSet<&str> {
        let commits = self.commits.iter().filter(|_| self.subjects.is_empty());
        let all = self.unlisted.iter().chain(commits);
        all.map(String::as_str).collect()
    }

    /// Adds what another one says about the same.
    pub fn join(&mut self, other: &Self) {
        self.aliases.extend(other.aliases.iter().cloned());
        self.upstream.extend(other.upstream.iter().cloned());
        self.aliases.insert(other.id.clone());
        self.aliases.remove(&self.id);
        if other.withdrawn {
            return;
        }
        if self.withdrawn {
            self.withdrawn = false;
            self.subjects.clear();
            self.unlisted.clear();
            self.commits.clear();
        }
        self.subjects.extend(other.subjects.iter().cloned());
        self.unlisted.extend(other.unlisted.iter().cloned());
        self.commits.extend(other.commits.iter().cloned());
    }

    fn add(&mut self, affected: Affected) {
        let Some(package) = affected.package else {
            let why = "ranges of commits without a package are not compared";
            self.commits.insert(why.to_owned());
            self.unmatch("", why.to_owned());
            return;
        };
        let Some((kind, distribution, name)) = package.subject() else {
            let (of, product) = match package.ecosystem.as_str() {
                "" => (&*package.purl, &*package.purl),
                ecosystem => (ecosystem, &*package.name),
            };
            let why = format!(
                "packages of `{}` are in no bill of materials here",
                shown(of, MAX_ADVISORY_NAME_BYTES)
            );
            self.unlist(product, why);
            return;
        };
        if !distribution.release.is_empty() && !begins_with_a_digit(&distribution.release) {
            let release = shown(&distribution.release, MAX_ADVISORY_NAME_BYTES);
            let why = format!(
                "no package is known to be of release `{release}`: releases are compared by number"
            );
            self.unmatch(&name, why);
        }
        let bounds = affected.ranges.iter().flat_map(|range| &range.events);
        let bounds = bounds.flat_map(|one| [&one.introduced, &one.fixed, &one.last_affected]);
        let odd: Vec<String> = bounds
            .flatten()
            .filter(|text| !is_version(kind, text))
            .map(|text| shown(text, MAX_ADVISORY_NAME_BYTES))
            .collect();
        for text in odd {
            let why = format!("`{text}` is not a valid version, so it bounds nothing");
            self.unmatch(&name, why);
        }
        // An image's tag may be any word.
        let is_named = |text: &String| kind == ComponentKind::Image || is_version(kind, text);
        let (versions, odd): (BTreeSet<_>, BTreeSet<_>) =
            affected.versions.into_iter().partition(is_named);
        for text in odd {
            let (text, of) = (
                shown(&text, MAX_ADVISORY_NAME_BYTES),
                shown(&name, MAX_ADVISORY_NAME_BYTES),
            );
            let why = format!("`{text}` of `{of}` is not a valid version");
            self.unlist(&name, why);
        }
        let mut subject = Subject {
            kind,
            distribution,
            name,
            spans: Vec::new(),
            versions,
        };
        for range in affected.ranges {
            match range.kind.as_str() {
                "ECOSYSTEM" | "SEMVER" => subject.spans.extend(spans(kind, range.events)),
                "GIT" if !subject.versions.is_empty() => {}
                "GIT" => {
                    let name = shown(&subject.name, MAX_ADVISORY_NAME_BYTES);
                    let why = format!("ranges of commits of `{name}` are not compared");
                    self.unmatch(&subject.name, why.clone());
                    self.commits.insert(why);
                }
                other => {
                    let (other, name) = (
                        shown(other, MAX_ADVISORY_NAME_BYTES),
                        shown(&subject.name, MAX_ADVISORY_NAME_BYTES),
                    );
                    let why = format!("ranges of type `{other}` of `{name}` are not compared");
                    self.unlist(&subject.name, why);
                }
            }
        }
        if !subject.spans.is_empty() || !subject.versions.is_empty() {
            self.subjects.push(subject);
        } else if kind == ComponentKind::Image {
            // Without versions: every one.
            subject.spans.push(Span {
                from: "0".to_owned(),
                ..Span::default()
            });
            self.subjects.push(subject);
        } else if !self.commits.iter().any(|why| why.contains(&subject.name)) {
            let why = format!(
                "it names no versions of `{}`",
                shown(&subject.name, MAX_ADVISORY_NAME_BYTES)
            );
            self.unlist(&subject.name, why);
        }
    }

    /// What no bill lists: of each site it is unknown whether it is affected.
    fn unlist(&mut self, product: &str, why: String) {
        self.unmatch(product, why.clone());
        self.unlisted.insert(why);
    }

    fn unmatch(&mut self, product: &str, why: String) {
        let product = shown(product, MAX_ADVISORY_NAME_BYTES);
        self.unmatched.insert(Unmatched { product, why });
    }

    /// What of it matches nothing that a bill of materials can have, or not as it is written.
    pub fn unmatched(&self) -> &BTreeSet<Unmatched> {
        &self.unmatched
    }
}

impl Package {
    fn subject(&self) -> Option<(ComponentKind, Distribution, String)> {
        let (ecosystem, release) = match self.ecosystem.split_once(':') {
            Some((ecosystem, release)) => (ecosystem, release),
            None => (self.ecosystem.as_str(), ""),
        };
        let id = ecosystem.to_ascii_lowercase();
        let kind = match id.as_str() {
            "debian" | "ubuntu" | "echo" => ComponentKind::Deb,
            "alpine" | "wolfi" | "chainguard" | "minimos" => ComponentKind::Apk,
            _ => {
                let purl = Purl::parse(&self.purl)?;
                let is_image = matches!(purl.kind.as_str(), "oci" | "docker");
                let name = match (is_image, purl.qualifiers.get("repository_url")) {
                    (false, _) => return None,
                    (true, Some(url)) => url.clone(),
                    (true, None) if purl.namespace.is_empty() => purl.name,
                    (true, None) => format!("{}/{}", purl.namespace, purl.name),
                };
                return Some((ComponentKind::Image, Distribution::default(), name));
            }
        };
        // `Ubuntu:Pro:22.04:LTS`, `Alpine:v3.19`
        let numbered = release
            .split(':')
            .find(|part| part.contains(|c: char| c.is_ascii_digit()));
        let distribution = Distribution {
            id,
            // One by another name (`bullseye`) is a release, too: none that a package is known to be of.
            release: match numbered {
                Some(numbered) => numbered.trim_start_matches('v').to_owned(),
                None => release.to_ascii_lowercase(),
            },
        };
        // Distributions write names of packages in small letters.
        let name = self.name.to_ascii_lowercase();
        (!name.is_empty()).then_some((kind, distribution, name))
    }
}

impl Subject {
    /// Whether this version of it is affected.
    pub fn affects(&self, version: &str) -> bool {
        let order = |a: &str, b: &str| match self.kind {
            ComponentKind::Deb => version::deb(a, b),
            ComponentKind::Apk => version::apk(a, b),
            // Tags have no order.
            ComponentKind::Image => a.cmp(b),
        };
        let is_in = |span: &Span| {
            let is_after = span.from == "0" || order(version, &span.from) != Ordering::Less;
            let is_fixed = span.fixed.as_deref();
            let is_fixed = is_fixed.is_some_and(|fixed| order(version, fixed) != Ordering::Less);
            let is_past = span.last.as_deref();
            let is_past = is_past.is_some_and(|last| order(version, last) == Ordering::Greater);
            is_after && !is_fixed && !is_past
        };
        let mut versions = self.versions.iter();
        versions.any(|one| order(one, version) == Ordering::Equal) || self.spans.iter().any(is_in)
    }

    /// In which version it is fixed, by the span that `version` lies in.
    pub fn fixed_in(&self, version: &str) -> Option<&str> {
        let order = |a: &str, b: &str| match self.kind {
            ComponentKind::Deb => version::deb(a, b),
            ComponentKind::Apk => version::apk(a, b),
            ComponentKind::Image => a.cmp(b),
        };
        let fixes = self.spans.iter().filter_map(|span| span.fixed.as_deref());
        let later = fixes.filter(|fixed| order(version, fixed) == Ordering::Less);
        later.min_by(|a, b| order(a, b))
    }
}

/// Events in the order in which they are written: each `introduced` begins a span.
fn spans(kind: ComponentKind, events: Vec<Event>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for event in events {
        // What is no version bounds nothing.
        let event = Event {
            introduced: event.introduced.map(|from| match is_version(kind, &from) {
                true => from,
                false => "0".to_owned(),
            }),
            fixed: event.fixed.filter(|text| is_version(kind, text)),
            last_affected: event.last_affected.filter(|text| is_version(kind, text)),
        };
        if let Some(from) = event.introduced {
            spans.push(Span {
                from,
                ..Span::default()
            });
        }
        // One that ends before one begins: from the first version on.
        if (event.fixed.is_some() || event.last_affected.is_some()) && spans.is_empty() {
            spans.push(Span {
                from: "0".to_owned(),
                ..Span::default()
            });
        }
        if let Some(open) = spans.last_mut() {
            open.fixed = event.fixed.or(open.fixed.take());
            open.last = event.last_affected.or(open.last.take());
        }
    }
    spans
}

/// The names among `all` that are usable, and not its own.
fn others(all: Vec<String>, own: &str) -> BTreeSet<String> {
    let all = all.into_iter();
    all.filter(|name| is_name(name) && name != own).collect()
}

fn is_name(text: &str) -> bool {
    (1..=MAX_ADVISORY_NAME_BYTES).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The summary, or the first line of what follows it.
fn sentence(summary: &str, details: &str) -> String {
    let text = match summary.trim() {
        "" => details.trim().lines().next().unwrap_or_default(),
        summary => summary,
    };
    let text = text.chars().filter(|c| !c.is_control());
    text.take(MAX_SUMMARY).collect()
}

#[cfg(test)]
mod tests;
