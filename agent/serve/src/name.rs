//! Names of images: a registry, a repository in it, a tag.
//!
//! What comes in: names as clients and image layouts write them. What goes out: one spelling for the names
//! that mean the same image, after the distribution specification's grammar. It resolves nothing.

use outhaul_kit::bounds::{MAX_DNS_LABEL_BYTES, MAX_IMAGE_TAG_BYTES};
use outhaul_kit::carried::DEFAULT_REGISTRY;

/// Longest name of a repository, its registry included.
const MAX_NAME: usize = 255;

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
        if !is_repository(repository) || registry.len() + 1 + repository.len() > MAX_NAME {
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
    if !port_is_good || name.len() > MAX_NAME || !name.split('.').all(label) {
        return None;
    }
    Some(match host.as_str() {
        "index.docker.io" | "registry-1.docker.io" => DEFAULT_REGISTRY.to_owned(),
        _ => host,
    })
}

/// Whether `name` follows `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(\/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*`.
pub fn is_repository(name: &str) -> bool {
    name.len() <= MAX_NAME && name.split('/').all(is_component)
}

fn is_component(part: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = part.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    if !alphanumeric(*first) || !alphanumeric(*last) {
        return false;
    }
    bytes
        .split(|b| alphanumeric(*b))
        .all(|separator| match separator {
            [] | b"." | b"_" | b"__" => true,
            many => many.iter().all(|b| *b == b'-'),
        })
}

/// Whether `tag` follows `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}`.
pub fn is_tag(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    tag.len() <= MAX_IMAGE_TAG_BYTES
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|b| word(b) || b == b'.' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_follow_the_specification_s_grammar() {
        for good in ["a", "a/b", "a.b_c__d-e---f/0", "library/nginx"] {
            assert!(is_repository(good), "{good}");
        }
        for bad in [
            "", "/", "a/", "/a", "a//b", "..", "a/../b", "A", "a___b", "a..b", "a-", "-a", "a._b",
            "a%2fb", "a\\b", "a:b", "a b", "ä",
        ] {
            assert!(!is_repository(bad), "{bad}");
        }
        assert!(is_repository(&"a".repeat(255)) && !is_repository(&"a".repeat(256)));
        assert!(ImageName::new("registry.example", &"a".repeat(240)).is_none());
    }

    #[test]
    fn tags_follow_the_specification_s_grammar() {
        assert!(is_tag("1.27") && is_tag("_x") && is_tag(&"a".repeat(128)));
        for bad in ["", ".a", "-a", "a/b", "a:b", "ä", &"a".repeat(129)] {
            assert!(!is_tag(bad), "{bad}");
        }
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
