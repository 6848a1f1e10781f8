//! Package URLs, as far as they are compared.
//!
//! What comes in: a text such as `pkg:deb/debian/openssl@3.0.11-1?arch=amd64&distro=debian-12`. What goes out: its parts,
//! decoded. The form is that of the package URL specification; what does not have it is `None`.

use std::collections::BTreeMap;

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

impl Purl {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text
            .strip_prefix("pkg:")
            .filter(|text| text.len() <= MAX_BYTES)?;
        let text = text.trim_start_matches('/');
        let text = text.split_once('#').map_or(text, |(before, _)| before);
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let (path, version) = text.rsplit_once('@').unwrap_or((text, ""));
        let (kind, path) = path.split_once('/')?;
        let (namespace, name) = path
            .trim_matches('/')
            .rsplit_once('/')
            .unwrap_or(("", path));
        let qualifiers = query.split('&').filter_map(|pair| pair.split_once('='));
        let qualifiers =
            qualifiers.map(|(name, value)| (name.to_ascii_lowercase(), decoded(value)));
        let name = decoded(name.trim_matches('/'));
        (!name.is_empty()).then(|| Self {
            kind: kind.to_ascii_lowercase(),
            namespace: decoded(namespace),
            version: decoded(version),
            qualifiers: qualifiers.collect(),
            name,
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

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
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
