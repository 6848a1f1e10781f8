//! The platforms for which images are wanted, and whether one is among them.
//!
//! What comes in: texts such as `linux/arm64` or `linux/arm/v7`, and what a manifest or config says of itself. What goes out: yes or
//! no. A variant that is not named is any; `arm64` is `arm64/v8`. It asks nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;

/// What a descriptor's annotation names that is about another manifest of its index.
const REFERENCE: &str = "vnd.docker.reference.digest";

/// Platforms that are wanted; none named: all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Platforms(BTreeSet<String>);

/// A platform, as an index or a config has it.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Platform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    variant: String,
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        match self.variant.as_str() {
            "" => Ok(()),
            variant => write!(f, "/{variant}"),
        }
    }
}

impl Platform {
    /// Whether it names one: attestations beside an image are for `unknown/unknown`.
    pub(crate) fn is_named(&self) -> bool {
        !matches!(self.os.as_str(), "" | "unknown")
    }

    fn is(&self, wanted: &str) -> bool {
        let mut parts = wanted.split('/');
        let (os, architecture) = (parts.next(), parts.next());
        let own = match (self.architecture.as_str(), self.variant.as_str()) {
            ("arm64", "") => "v8",
            (_, variant) => variant,
        };
        os == Some(&*self.os)
            && architecture == Some(&*self.architecture)
            && parts.next().is_none_or(|variant| variant == own)
    }
}

/// What an index has, as far as it is wanted.
pub(crate) struct PlatformSelection<'a> {
    /// What is wanted, in the order of the index.
    pub(crate) kept: Vec<&'a Descriptor>,
    /// The platforms of the index.
    pub(crate) has: BTreeSet<String>,
    /// Wanted platforms that it does not have.
    pub(crate) lacks: Vec<String>,
}

/// What a manifest or an index names: the parts of an image, or the manifests of an index.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    pub(crate) platform: Option<Platform>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Platforms {
    /// Those of `texts`; all when there are none.
    pub fn of(texts: &BTreeSet<String>) -> Self {
        Self(texts.clone())
    }

    /// Whether all are wanted.
    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this one is wanted.
    pub(crate) fn has(&self, platform: &Platform) -> bool {
        self.is_all() || self.0.iter().any(|wanted| platform.is(wanted))
    }

    /// What is wanted of the manifests of an index: those for a platform, what is about them, and what says of no platform.
    pub(crate) fn of_index<'a>(&self, children: &'a [Descriptor]) -> PlatformSelection<'a> {
        let named = |child: &&Descriptor| child.platform.clone().filter(Platform::is_named);
        let has: Vec<Platform> = children.iter().filter_map(|child| named(&child)).collect();
        let wanted = |child: &&Descriptor| named(child).is_none_or(|platform| self.has(&platform));
        let kept: Vec<&Descriptor> = children.iter().filter(wanted).collect();
        let digests: BTreeSet<&str> = kept.iter().map(|child| child.digest.as_str()).collect();
        let about = |child: &&Descriptor| match child.annotations.get(REFERENCE) {
            Some(subject) if named(child).is_none() => digests.contains(subject.as_str()),
            _ => true,
        };
        let lacks = self
            .0
            .iter()
            .filter(|wanted| !has.iter().any(|one| one.is(wanted)));
        PlatformSelection {
            lacks: match has.is_empty() {
                true => Vec::new(),
                false => lacks.cloned().collect(),
            },
            kept: kept.iter().copied().filter(about).collect(),
            has: has.iter().map(ToString::to_string).collect(),
        }
    }
}

impl fmt::Display for Platforms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(&self.0))
    }
}

/// Names in a sentence.
pub(crate) fn quoted<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(os: &str, architecture: &str, variant: &str) -> Platform {
        Platform {
            os: os.to_owned(),
            architecture: architecture.to_owned(),
            variant: variant.to_owned(),
        }
    }

    #[test]
    fn a_variant_that_is_not_named_is_any() {
        let wanted =
            |texts: &[&str]| Platforms(texts.iter().map(|text| (*text).to_owned()).collect());
        for (texts, one, expected) in [
            (&[][..], platform("linux", "arm", "v7"), true),
            (&["linux/arm"], platform("linux", "arm", "v7"), true),
            (&["linux/arm/v7"], platform("linux", "arm", "v7"), true),
            (&["linux/arm/v7"], platform("linux", "arm", "v6"), false),
            (&["linux/arm/v7"], platform("linux", "arm", ""), false),
            (&["linux/arm64/v8"], platform("linux", "arm64", ""), true),
            (&["linux/arm64"], platform("linux", "arm64", "v8"), true),
            (&["linux/amd64"], platform("windows", "amd64", ""), false),
            (
                &["linux/386", "linux/amd64"],
                platform("linux", "amd64", "v3"),
                true,
            ),
        ] {
            assert_eq!(wanted(texts).has(&one), expected, "{texts:?} {one}");
        }
    }
}
