//! Package URLs, as far as they are compared.
//!
//! What comes in: a text such as `pkg:deb/debian/openssl@3.0.11-1?arch=amd64&distro=debian-12`. What goes out: its parts,
//! decoded. The form is that of the package URL specification; what does not have it is `None`. A statement is held to more of it than
//! a bill of materials: what it leaves out may be anything, so what is there and cannot be read must not count as left out.

use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::percent_decode_str;

/// The longest that is read, in bytes.
const MAX_BYTES: usize = 4096;

/// A package URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Purl {
    /// `deb`, `apk`, `oci`, `npm` …
    pub(crate) kind: String,
    /// Who distributes it; empty when it is not written.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// Its version; empty for all of them.
    pub(crate) version: String,
    /// What stands after `?`.
    pub(crate) qualifiers: BTreeMap<String, String>,
}

/// Why a package URL of a statement means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Odd {
    /// It is none at all.
    NoPurl,
    /// It is none that can be compared; why.
    Unusable(&'static str),
}

impl Purl {
    /// One of a statement.
    pub(crate) fn stated(text: &str) -> Result<Self, Odd> {
        if !text.starts_with("pkg:") {
            return Err(Odd::NoPurl);
        }
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let is_whole = |pair: &str| {
            let pair = pair.split_once('=');
            pair.is_some_and(|(name, value)| !name.is_empty() && !value.is_empty())
        };
        let why = if text.contains('#') {
            "a part of a package (`#…`) is in no bill of materials here"
        } else if path.ends_with('/') || path.contains("/@") {
            "the name after the last `/` is missing"
        } else if path.ends_with('@') {
            "the version after `@` is missing"
        } else if !query.is_empty() && !query.split('&').all(is_whole) {
            "what stands after `?` is not of the form `name=value`"
        } else if has_twice(query) {
            "a name after `?` stands there twice"
        } else if let Some(found) = Self::parse(text) {
            return Ok(found);
        } else {
            "it is not a valid package URL: a part is missing, or what follows a `%` is not a character"
        };
        Err(Odd::Unusable(why))
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text
            .strip_prefix("pkg:")
            .filter(|text| text.len() <= MAX_BYTES)?;
        let text = text.trim_start_matches('/');
        let text = text.split_once('#').map_or(text, |(before, _)| before);
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let (path, version) = text.rsplit_once('@').unwrap_or((text, ""));
        let (kind, path) = path.split_once('/').filter(|(kind, _)| !kind.is_empty())?;
        let (namespace, name) = path
            .trim_matches('/')
            .rsplit_once('/')
            .unwrap_or(("", path));
        if has_twice(query) {
            return None;
        }
        let qualifiers = query.split('&').filter_map(|pair| pair.split_once('='));
        let qualifiers =
            qualifiers.map(|(name, value)| Some((name.to_ascii_lowercase(), decoded(value)?)));
        let qualifiers = qualifiers.collect::<Option<_>>()?;
        let kind = kind.to_ascii_lowercase();
        let (mut namespace, mut name) = (decoded(namespace)?, decoded(name.trim_matches('/'))?);
        // Of these the specification has small letters.
        if ["apk", "deb", "oci"].contains(&kind.as_str()) {
            namespace.make_ascii_lowercase();
            name.make_ascii_lowercase();
        }
        let version = decoded(version)?;
        (!name.is_empty()).then_some(Self {
            kind,
            namespace,
            name,
            version,
            qualifiers,
        })
    }

    /// Whether this one and another may mean the same, as what is left out may be any.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        let is_same = |a: &str, b: &str| a.is_empty() || b.is_empty() || a == b;
        let mut qualifiers = self.qualifiers.iter();
        self.kind == other.kind
            && self.name == other.name
            && is_same(&self.namespace, &other.namespace)
            && is_same(&self.version, &other.version)
            && qualifiers.all(|(name, value)| {
                other
                    .qualifiers
                    .get(name)
                    .is_none_or(|found| found == value)
            })
    }

    /// Whether this one, as a statement has it, means the other: the same package; a version and qualifiers that it leaves out
    /// may be any.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let is_same = |a: &str, b: &str| a.is_empty() || a == b;
        let mut qualifiers = self.qualifiers.iter();
        self.kind == other.kind
            && self.name == other.name
            && is_same(&self.namespace, &other.namespace)
            && is_same(&self.version, &other.version)
            && qualifiers.all(|(name, value)| other.qualifiers.get(name) == Some(value))
    }
}

/// Whether a qualifier stands there twice: which of the two counts nobody can know.
fn has_twice(query: &str) -> bool {
    let names = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut seen = BTreeSet::new();
    names
        .into_iter()
        .any(|(name, _)| !seen.insert(name.to_ascii_lowercase()))
}

/// `None` where a `%` stands for nothing.
fn decoded(text: &str) -> Option<String> {
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let is_escape = |rest: &str| is_hex(rest.as_bytes().first()) && is_hex(rest.as_bytes().get(1));
    let whole = text.split('%').skip(1).all(is_escape);
    let decoded = percent_decode_str(text).decode_utf8().ok();
    decoded.filter(|_| whole).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_decoded() {
        let purl =
            Purl::parse("pkg:deb/debian/libx@1%3A2%2Bdfsg?arch=amd64&distro=debian-12").unwrap();
        assert_eq!(
            (purl.kind.as_str(), purl.namespace.as_str()),
            ("deb", "debian")
        );
        assert_eq!(
            (purl.name.as_str(), purl.version.as_str()),
            ("libx", "1:2+dfsg")
        );
        assert_eq!(purl.qualifiers["distro"], "debian-12");
        assert_eq!(Purl::parse("libx"), None);
        assert_eq!(Purl::parse("pkg:deb"), None);
    }

    #[test]
    fn attack_what_cannot_be_read_of_a_stated_one_is_not_left_out() {
        for (text, why) in [
            ("pkg:deb/debian/", "the name"),
            ("pkg:deb/debian/@3.0", "the name"),
            ("pkg:deb/debian/openssl@", "the version"),
            ("pkg:deb/debian/openssl?distro", "after `?`"),
            ("pkg:deb/debian/openssl?distro=", "after `?`"),
            (
                "pkg:deb/debian/openssl?distro=debian-11&Distro=debian-12",
                "twice",
            ),
            ("pkg:deb/debian/openssl#libssl", "a part"),
            ("pkg:deb/debian/open%zzssl", "follows a `%`"),
            ("pkg:deb/debian/openssl@3%", "follows a `%`"),
            ("pkg:deb/debian/openssl@%ff", "follows a `%`"),
            ("pkg:deb", "a part is missing"),
            ("pkg:/deb", "a part is missing"),
        ] {
            match Purl::stated(text) {
                Err(Odd::Unusable(found)) => assert!(found.contains(why), "{text}: {found}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert_eq!(Purl::stated("openssl"), Err(Odd::NoPurl));
        let large = Purl::stated("pkg:deb/Debian/OpenSSL@3.0?distro=debian-12").unwrap();
        let found = Purl::parse("pkg:deb/debian/openssl@3.0?arch=amd64&distro=debian-12").unwrap();
        assert!(large.covers(&found));
    }

    #[test]
    fn what_is_left_out_may_be_any() {
        let whole =
            Purl::parse("pkg:oci/nginx@sha256%3Aab?repository_url=docker.io%2Fnginx").unwrap();
        for (text, covers) in [
            ("pkg:oci/nginx", true),
            ("pkg:oci/nginx@sha256:ab", true),
            ("pkg:oci/nginx@sha256:cd", false),
            ("pkg:oci/nginx?repository_url=docker.io%2Fnginx", true),
            ("pkg:oci/nginx?repository_url=elsewhere", false),
            ("pkg:docker/nginx", false),
        ] {
            assert_eq!(Purl::parse(text).unwrap().covers(&whole), covers, "{text}");
        }
    }
}
