//! The name of an image: which registry, which repository, which tag or digest.
//!
//! What comes in: the text that a manifest has, `nginx:1.27` or `ghcr.io/team/app@sha256:…`. What goes out: its
//! parts, with what a container runtime adds where they are missing. It asks nobody.

use outhaul_kit::carried::DEFAULT_REGISTRY;
use outhaul_kit::image_name::{MAX_IMAGE_NAME_BYTES, is_repository, is_tag, registry_of};
use std::fmt;
use std::str::FromStr;

use outhaul_bundle::Digest;
use outhaul_kit::url::{UrlParts, is_loopback};

/// Where that registry answers.
const DEFAULT_HOST: &str = "registry-1.docker.io";
/// The longest name.
const MAX_BYTES: usize = 512;

/// An image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageReference {
    /// `docker.io`, `ghcr.io`, `registry.example:5000`.
    pub registry: String,
    /// `library/nginx`
    pub repository: String,
    /// `1.27`; `latest` where neither tag nor digest was written.
    pub tag: Option<String>,
    /// The digest.
    pub digest: Option<Digest>,
}

/// A text that is not the name of an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the name of an image: {problem}")]
pub struct ReferenceError {
    text: String,
    problem: &'static str,
}

impl ImageReference {
    /// Where its registry answers.
    pub fn host(&self) -> &str {
        match registry_of(&self.registry) {
            DEFAULT_REGISTRY => DEFAULT_HOST,
            other => other,
        }
    }

    /// Whether its registry is this machine.
    pub fn is_loopback(&self) -> bool {
        is_loopback(split(&self.registry).0)
    }

    /// Whether its registry is this machine, and `url` is the same port of this machine by another of its names.
    pub(crate) fn is_same_loopback(&self, url: &str) -> bool {
        let Some(parts) = UrlParts::of(url) else {
            return false;
        };
        let (host, port) = split(parts.authority);
        let is_usual = parts.user.is_none() && parts.is_web();
        is_usual && self.is_loopback() && is_loopback(host) && port == split(&self.registry).1
    }
}

/// A host, and its port where one is written.
fn split(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

/// Why a host and port are another spelling of a name that is written plainly.
fn odd(registry: &str) -> Option<&'static str> {
    let (host, port) = split(registry);
    if host.ends_with('.') {
        return Some("its registry ends with a dot; write it without");
    }
    let number = port.map(str::parse::<u16>);
    match (port, number) {
        (Some(port), Some(Ok(number))) if number.to_string() != port || number == 0 => {
            Some("the port of its registry is not written plainly, such as `5000`")
        }
        (Some(_), Some(Err(_))) => Some("the port of its registry is not a number up to 65535"),
        _ => None,
    }
}

/// A name as it is written, without a password before a host.
fn shown(text: &str) -> String {
    let digest = text.find("@sha256:").unwrap_or(text.len());
    let (name, digest) = text.split_at(digest);
    match name.rsplit_once('@') {
        Some((_, name)) => format!("…@{name}{digest}"),
        None => text.to_owned(),
    }
}

impl FromStr for ImageReference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let wrong = |problem| ReferenceError {
            text: shown(text)
                .chars()
                .filter(|c| !c.is_control())
                .take(120)
                .collect(),
            problem,
        };
        if text.len() > MAX_BYTES {
            return Err(wrong("it is too long"));
        }
        let (rest, digest) = match text.split_once('@') {
            None => (text, None),
            Some((rest, digest)) => {
                if !digest.starts_with("sha256:") {
                    return Err(wrong(
                        "a digest follows its `@`, and no user or password comes before it: `docker login` \
                         keeps those",
                    ));
                }
                let parsed = digest.parse::<Digest>();
                let parsed =
                    parsed.map_err(|_| wrong("its digest is not `sha256:` and 64 digits"))?;
                (rest, Some(parsed))
            }
        };
        let (name, tag) = match rest.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')) {
            Some((name, tag)) => (name, Some(tag)),
            None => (rest, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(wrong("its tag has characters that no tag has"));
        }
        let is_registry = |first: &str| first.contains(['.', ':']) || first == "localhost";
        let (registry, path) = match name.split_once('/').filter(|(first, _)| is_registry(first)) {
            Some((registry, path)) => (registry.to_ascii_lowercase(), path.to_owned()),
            None if name.contains('/') => (DEFAULT_REGISTRY.to_owned(), name.to_owned()),
            None => (DEFAULT_REGISTRY.to_owned(), format!("library/{name}")),
        };
        let path = match path.contains('/') || registry_of(&registry) != DEFAULT_REGISTRY {
            true => path,
            false => format!("library/{path}"),
        };
        if registry.len() + 1 + path.len() > MAX_IMAGE_NAME_BYTES {
            return Err(wrong("it is too long"));
        }
        if !is_repository(&path) {
            return Err(wrong(
                "a repository is of `a-z 0-9` with single `.`, one or two `_`, or `-` within, and `/` between parts",
            ));
        }
        let host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
        if !registry.chars().all(host) {
            return Err(wrong("its registry is not a host"));
        }
        // One registry has one name, so that a policy about it is about all of it.
        if let Some(problem) = odd(&registry) {
            return Err(wrong(problem));
        }
        let tag = match (tag, digest) {
            (None, None) => Some("latest".to_owned()),
            (tag, _) => tag.map(str::to_owned),
        };
        Ok(Self {
            registry,
            repository: path,
            tag,
            digest,
        })
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        // A runtime that is given both asks by the digest alone.
        match (&self.digest, &self.tag) {
            (Some(digest), _) => write!(f, "@{digest}"),
            (None, Some(tag)) => write!(f, ":{tag}"),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_as_a_runtime_does() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (text, whole) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.27", "docker.io/library/nginx:1.27"),
            ("docker.io/nginx", "docker.io/library/nginx:latest"),
            ("team/app", "docker.io/team/app:latest"),
            ("localhost/app:1", "localhost/app:1"),
            ("index.docker.io/nginx:1", "index.docker.io/library/nginx:1"),
            ("GHCR.io/team/app:v1", "ghcr.io/team/app:v1"),
            ("127.0.0.1:5000/a/b/c:x", "127.0.0.1:5000/a/b/c:x"),
        ] {
            assert_eq!(text.parse::<ImageReference>().unwrap().to_string(), whole);
        }
        let both = format!("nginx:1.27@{digest}")
            .parse::<ImageReference>()
            .unwrap();
        assert_eq!(
            both.to_string(),
            format!("docker.io/library/nginx@{digest}")
        );
        assert_eq!(both.host(), "registry-1.docker.io");
        assert!(
            "127.0.0.1:5000/a"
                .parse::<ImageReference>()
                .unwrap()
                .is_loopback()
        );
        assert!(
            !"127.0.0.1.example/a"
                .parse::<ImageReference>()
                .unwrap()
                .is_loopback()
        );
    }

    #[test]
    fn this_machine_is_the_same_by_each_of_its_names_at_one_port_only() {
        let image = |text: &str| text.parse::<ImageReference>().unwrap();
        let typed = image("127.0.0.1:5000/a");
        for (url, is_same) in [
            ("http://localhost:5000/v2/u", true),
            ("http://[::1]:5000/v2/u", true),
            ("http://127.0.0.1:5000/v2/u", true),
            ("http://localhost:5001/v2/u", false),
            ("http://localhost/v2/u", false),
            ("http://169.254.169.254:5000/v2/u", false),
            ("http://me@localhost:5000/v2/u", false),
            ("http://localhost.example:5000/v2/u", false),
        ] {
            assert_eq!(typed.is_same_loopback(url), is_same, "{url}");
        }
        assert!(!image("r.example:5000/a").is_same_loopback("http://localhost:5000/v2/u"));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in [
            "",
            "Nginx",
            "a/../b",
            "a//b",
            "a..b",
            "team/app-",
            "a___b",
            "nginx:",
            "nginx:a b",
            "nginx@sha512:00",
            "nginx@sha256:zz",
            "{{ .Values.image }}",
            "ghcr.io/a?b",
        ] {
            assert!(text.parse::<ImageReference>().is_err(), "{text}");
        }
    }
}
