//! Names of images: a registry, a repository in it, a tag.
//!
//! What comes in: names as clients and image layouts write them. What goes out: one spelling for the names
//! that mean the same image, after the distribution specification's grammar. It resolves nothing.

use outhaul_kit::bounds::MAX_DNS_LABEL_BYTES;
use outhaul_kit::carried::DEFAULT_REGISTRY;
use outhaul_kit::image_name::{MAX_IMAGE_NAME_BYTES, registry_of};
pub use outhaul_kit::image_name::{is_repository, is_tag};

/// A repository under its original name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageName {
    /// The registry's host, with a port where it has one: `docker.io`, `registry.corp:5000`.
    pub registry: String,
    /// The repository in it: `library/nginx`.
    pub repository: String,
}

impl ImageName {
    /// The repository `repository` of `registry`; `None` when one of them cannot be a name.
    pub fn new(registry: &str, repository: &str) -> Option<Self> {
        let registry = normal_registry(registry)?;
        if !is_repository(repository)
            || registry.len() + 1 + repository.len() > MAX_IMAGE_NAME_BYTES
        {
            return None;
        }
        let repository = match registry == DEFAULT_REGISTRY && !repository.contains('/') {
            true => format!("library/{repository}"),
            false => repository.to_owned(),
        };
        Some(Self {
            registry,
            repository,
        })
    }

    /// A name whose first part is its registry: `docker.io/library/nginx`. A registry with a port is written as it is,
    /// or with `_` before the port, as behind another registry's address, where no client takes a colon:
    /// `registry.corp_5000/app`.
    pub fn prefixed(name: &str) -> Option<Self> {
        let (first, rest) = name.split_once('/')?;
        let with_port = first.split_once('_').filter(|(_, port)| is_port(port));
        let with_port = with_port.map(|(host, port)| format!("{host}:{port}"));
        let first = with_port.as_deref().unwrap_or(first);
        let is_host = first.contains(['.', ':']) || first == "localhost";
        is_host.then(|| Self::new(first, rest)).flatten()
    }

    /// A whole reference, `docker.io/library/nginx:1.27@sha256:…`: the image and its tag, if any. The digest
    /// is not looked at.
    pub fn reference(text: &str) -> Option<(Self, Option<String>)> {
        let name = text.split_once('@').map_or(text, |(name, _)| name);
        let last = name.rfind('/').map_or(0, |at| at + 1);
        let (name, tag) = match name[last..].find(':') {
            Some(at) => (&name[..last + at], Some(&name[last + at + 1..])),
            None => (name, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return None;
        }
        Some((Self::prefixed(name)?, tag.map(str::to_owned)))
    }
}

impl std::fmt::Display for ImageName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)
    }
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

/// Whether `name` is one that a request may have: a repository's, or one with its registry before it.
pub fn is_requested(name: &str) -> bool {
    is_repository(name) || ImageName::prefixed(name).is_some()
}

/// One spelling of a registry's host; `None` for what cannot be one.
pub fn normal_registry(host: &str) -> Option<String> {
    let host = host.to_ascii_lowercase();
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host.as_str(), None),
    };
    let port_is_good = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let label = |label: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !label.is_empty() && label.len() <= MAX_DNS_LABEL_BYTES && label.bytes().all(inner)
    };
    if !port_is_good || name.len() > MAX_IMAGE_NAME_BYTES || !name.split('.').all(label) {
        return None;
    }
    Some(registry_of(&host).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_bounded_with_its_registry() {
        assert!(ImageName::new("registry.example", &"a".repeat(238)).is_some());
        assert!(ImageName::new("registry.example", &"a".repeat(239)).is_none());
    }

    #[test]
    fn names_that_mean_the_same_image_have_one_spelling() {
        let nginx = ImageName::new("docker.io", "library/nginx").unwrap();
        assert_eq!(
            ImageName::new("index.docker.io", "nginx"),
            Some(nginx.clone())
        );
        assert_eq!(ImageName::prefixed("docker.io/nginx"), Some(nginx.clone()));
        let tagged = ImageName::reference("docker.io/library/nginx:1.27@sha256:00");
        assert_eq!(tagged, Some((nginx, Some("1.27".to_owned()))));
        let (image, tag) = ImageName::reference("Registry.corp:5000/a/b").unwrap();
        assert_eq!(image.to_string(), "registry.corp:5000/a/b");
        assert_eq!(tag, None);
        for prefixed in ["registry.corp:5000/a/b", "registry.corp_5000/a/b"] {
            assert!(is_requested(prefixed));
            assert_eq!(
                ImageName::prefixed(prefixed),
                Some(image.clone()),
                "{prefixed}"
            );
        }
        let local = ImageName::prefixed("localhost_5000/a").unwrap();
        assert_eq!(local.to_string(), "localhost:5000/a");
        for not in [
            "registry.corp_/a",
            "registry.corp_99999/a",
            "re_5000_1/a",
            "a:b/c",
            "a.b:1:2/c",
        ] {
            assert_eq!(ImageName::prefixed(not), None, "{not}");
        }
        assert_eq!(ImageName::reference("1.27"), None);
        assert_eq!(ImageName::reference("library/nginx:1.27"), None);
        assert_eq!(ImageName::reference("docker.io/nginx:.."), None);
    }
}
