//! Container images that manifests ask for, found by their `image:` lines.
//!
//! What comes in: the text of a manifest. What goes out: image references, each once, with their parts.
//! It reads lines, not YAML: a manifest with a fault still names its images. A value that a template
//! has yet to fill in, or a map below `image:` as in Helm's values, is not a reference and is left out.

use std::collections::BTreeSet;

/// Longest reference in bytes.
const MAX_REFERENCE_BYTES: usize = 1024;

/// An image by its name, and the tag or digest asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttestedImage {
    /// With the registry, as the runtime would ask it: `docker.io/library/nginx`.
    pub repository: String,
    /// The tag; `latest` when neither tag nor digest is given, empty when only a digest is.
    pub tag: String,
    /// `sha256:…`, or empty.
    pub digest: String,
}

impl AttestedImage {
    /// An image from a reference.
    pub fn parse(reference: &str) -> Option<Self> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-/:@".contains(&b);
        if reference.is_empty()
            || reference.len() > MAX_REFERENCE_BYTES
            || !reference.bytes().all(allowed)
            || !reference.starts_with(|c: char| c.is_ascii_alphanumeric())
        {
            return None;
        }
        let (name, digest) = match reference.split_once('@') {
            Some((name, digest)) if digest.starts_with("sha256:") && digest.len() == 71 => {
                (name, digest)
            }
            Some(_) => return None,
            None => (reference, ""),
        };
        // A colon after the last slash begins a tag, one before it a port.
        let last = name.rfind('/').map_or(0, |at| at + 1);
        let (name, tag) = match name[last..].find(':') {
            Some(at) => (&name[..last + at], &name[last + at + 1..]),
            None => (name, if digest.is_empty() { "latest" } else { "" }),
        };
        let untagged = name.len() != reference.len() && tag.is_empty() && digest.is_empty();
        if name.is_empty() || name.ends_with('/') || untagged || tag.contains([':', '/']) {
            return None;
        }
        let (host, path) = name.split_once('/').unwrap_or(("", name));
        let registry = host.contains(['.', ':']) || host == "localhost";
        let repository = match (registry, host) {
            (true, _) => format!("{host}/{path}"),
            (false, "") => format!("docker.io/library/{path}"),
            (false, _) => format!("docker.io/{name}"),
        };
        Some(Self {
            repository,
            tag: tag.to_owned(),
            digest: digest.to_owned(),
        })
    }

    /// The repository's last part.
    pub fn name(&self) -> &str {
        self.repository
            .rsplit('/')
            .next()
            .unwrap_or(&self.repository)
    }

    /// The digest where there is one, else the tag.
    pub fn version(&self) -> &str {
        if self.digest.is_empty() {
            &self.tag
        } else {
            &self.digest
        }
    }

    /// The package URL, of type `oci`.
    pub fn purl(&self) -> String {
        let at = match self.digest.as_str() {
            "" => String::new(),
            digest => format!("@{}", digest.replace(':', "%3A")),
        };
        let repository = self.repository.replace(':', "%3A").replace('/', "%2F");
        let tag = match self.tag.as_str() {
            "" => String::new(),
            tag => format!("&tag={tag}"),
        };
        let name = self.name().to_ascii_lowercase();
        format!("pkg:oci/{name}{at}?repository_url={repository}{tag}")
    }
}

/// Every image that `manifest` asks for.
pub fn images(manifest: &str) -> BTreeSet<AttestedImage> {
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        let line = line.trim_start_matches([' ', '-']);
        let Some(value) = line
            .strip_prefix("image:")
            .or_else(|| line.strip_prefix("\"image\":"))
        else {
            continue;
        };
        let value = value.split(" #").next().unwrap_or_default();
        let value = value.trim().trim_end_matches(',').trim_matches(['"', '\'']);
        found.extend(AttestedImage::parse(value));
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn references_are_completed_as_a_runtime_would() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (reference, repository, tag, expected) in [
            ("nginx", "docker.io/library/nginx", "latest", ""),
            ("bitnami/redis:7", "docker.io/bitnami/redis", "7", ""),
            ("ghcr.io/a/b:v1.2", "ghcr.io/a/b", "v1.2", ""),
            ("localhost:5000/x", "localhost:5000/x", "latest", ""),
            (
                &format!("quay.io/a/b@{digest}"),
                "quay.io/a/b",
                "",
                digest.as_str(),
            ),
            (
                &format!("quay.io/a/b:1@{digest}"),
                "quay.io/a/b",
                "1",
                digest.as_str(),
            ),
        ] {
            let image = AttestedImage::parse(reference).unwrap();
            assert_eq!(
                (
                    image.repository.as_str(),
                    image.tag.as_str(),
                    image.digest.as_str()
                ),
                (repository, tag, expected)
            );
        }
        for bad in [
            "",
            "{{ .image }}",
            "a b",
            "a@md5:1",
            "a:",
            "x:y:z",
            "/a",
            "a/",
            "-a",
        ] {
            assert_eq!(AttestedImage::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn manifests_list_their_images_once() {
        let manifest = "spec:\n  containers:\n  - image: nginx:1.27 # pinned\n    name: a\n  \
            - name: b\n    image: \"nginx:1.27\"\n  - {}\n    image: '{{ tag }}'\n  image:\n    \
            repository: x\n\"image\": \"ghcr.io/a/b:1\",\n# image: commented:1\n";
        let found: Vec<_> = images(manifest).iter().map(AttestedImage::purl).collect();
        assert_eq!(
            found,
            [
                "pkg:oci/nginx?repository_url=docker.io%2Flibrary%2Fnginx&tag=1.27",
                "pkg:oci/b?repository_url=ghcr.io%2Fa%2Fb&tag=1",
            ]
        );
    }

    proptest! {
        #[test]
        fn foreign_text_never_panics(text in "(- |image:|[a-z0-9:/@.\"' {}é\\n]){0,60}") {
            for image in images(&text) {
                prop_assert!(image.purl().starts_with("pkg:oci/"));
            }
        }
    }
}
