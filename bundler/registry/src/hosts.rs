//! Where a registry is asked: at its mirrors first, then itself; and by which authority a host is known.
//!
//! What comes in: `docker.io=registry.example:5000/dockerhub` and `registry.example:5000=ca.pem`, from who runs the program, never from a
//! control plane. What goes out: for an image the references under which its mirrors have it; the certificates of each host with an authority
//! of its own, read here, so that a mistyped file is found before anything is asked; and which of them nothing had a use for. What a mirror
//! brings is pinned and carried under the image's own name; its digest decides whether it is the image.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use outhaul_http::Authority;
use outhaul_kit::text::chain;

use outhaul_kit::url::UrlParts;

use crate::reference::ImageReference;

/// A text that is not one of both forms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}: {problem}")]
pub struct HostsError {
    text: String,
    what: &'static str,
    problem: String,
}

/// Mirrors and authorities of registries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryHosts {
    /// By the host at which a registry answers, host and path of each mirror, in the order in which they are asked.
    mirrors: BTreeMap<String, Vec<(String, String)>>,
    /// By the same host, the name under which the registry of a mirror was given.
    named: BTreeMap<String, String>,
    /// By the host at which a registry answers, under which name its authority was given, from which file, and what is in that.
    authorities: BTreeMap<String, HostAuthority>,
    /// Hosts that may be this machine although a server leads there, each with the port to which it is limited.
    allowed: BTreeSet<(String, Option<u16>)>,
}

/// The authority of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HostAuthority {
    named: String,
    file: String,
    pem: Vec<u8>,
}

impl RegistryHosts {
    /// Those of texts `REGISTRY=HOST[:PORT][/PATH]` and `HOST[:PORT]=FILE`; each file is read.
    ///
    /// # Errors
    /// [`HostsError`] for the first that is not one, and for a file that cannot be read or holds no certificate.
    pub fn read(mirrors: &[String], authorities: &[String]) -> Result<Self, HostsError> {
        let mut hosts = Self::default();
        for text in mirrors {
            let wrong = |problem: String| HostsError {
                text: text.clone(),
                what: "mirror",
                problem,
            };
            let (of, at) = text.split_once('=').ok_or_else(|| {
                wrong("write `REGISTRY=HOST/PATH`, such as `docker.io=registry.example:5000/dockerhub`".to_owned())
            })?;
            let named = of.to_owned();
            let of = host(of).map_err(wrong)?.host().to_owned();
            let at = at.trim_end_matches('/');
            let (at, path) = at.split_once('/').unwrap_or((at, ""));
            let at = host(at).map_err(wrong)?;
            let is_itself = at.host() == of;
            let at = at.registry;
            let under = format!("{at}/{path}/x").replace("//", "/");
            under
                .parse::<ImageReference>()
                .map_err(|error| wrong(error.to_string()))?;
            if is_itself {
                return Err(wrong("a registry cannot be a mirror of itself".to_owned()));
            }
            hosts.named.entry(of.clone()).or_insert(named);
            let known = hosts.mirrors.entry(of).or_default();
            let one = (at, path.to_owned());
            // One that is typed may be in the project's file, too.
            if !known.contains(&one) {
                known.push(one);
            }
        }
        for text in authorities {
            let wrong = |problem: String| HostsError {
                text: text.clone(),
                what: "certificate authority of a registry",
                problem,
            };
            let (of, file) = text
                .split_once('=')
                .filter(|(_, file)| !file.is_empty())
                .ok_or_else(|| wrong("write `HOST[:PORT]=FILE`".to_owned()))?;
            let named = of.to_owned();
            let of = host(of).map_err(wrong)?.host().to_owned();
            if hosts.authorities.contains_key(&of) {
                return Err(wrong("that host has another one already".to_owned()));
            }
            let pem = Authority::File(Path::new(file)).pem();
            let pem = pem.map_err(|error| wrong(chain(&error)))?;
            let file = file.to_owned();
            hosts
                .authorities
                .insert(of, HostAuthority { named, file, pem });
        }
        Ok(hosts)
    }

    /// At which host the registry of this name answers; `None` for a text that names none.
    pub fn host_of(registry: &str) -> Option<String> {
        host(registry).ok().map(|found| found.host().to_owned())
    }

    /// The mirrors and authorities that are of no use to who only has to do with `hosts` (where registries, chart repositories and file
    /// servers answer), as they were written.
    pub fn unused(&self, hosts: &BTreeSet<String>) -> Vec<String> {
        let mirrors = self.mirrors.iter();
        let unused = mirrors
            .clone()
            .filter(|(of, _)| !hosts.contains(*of))
            .map(|(of, _)| format!("a mirror of `{}`", self.named.get(of).unwrap_or(of)));
        let at: BTreeSet<String> = mirrors
            .filter(|(of, _)| hosts.contains(*of))
            .flat_map(|(_, at)| at)
            .filter_map(|(registry, _)| Self::host_of(registry))
            .collect();
        let authorities = self.authorities.iter();
        let authorities = authorities
            .filter(|(of, _)| !hosts.contains(*of) && !at.contains(*of))
            .map(|(_, one)| format!("the authority of `{}`", one.named));
        unused.chain(authorities).collect()
    }

    /// The same, where these hosts may be this machine or its link although a server leads there: those that who runs the program opened.
    #[must_use]
    pub fn allowing<'a>(mut self, hosts: impl Iterator<Item = (&'a str, Option<u16>)>) -> Self {
        let hosts = hosts.map(|(host, port)| (host.to_ascii_lowercase(), port));
        self.allowed.extend(hosts);
        self
    }

    /// Whether who runs the program opened the host of `url`.
    pub(crate) fn is_allowed(&self, url: &str) -> bool {
        let Some(parts) = UrlParts::of(url) else {
            return false;
        };
        let usual = if parts.is("https") { 443 } else { 80 };
        let port = parts.port().map_or(Some(usual), |port| port.parse().ok());
        let host = parts.host().to_ascii_lowercase();
        let of_port = port.is_some() && self.allowed.contains(&(host.clone(), port));
        of_port || self.allowed.contains(&(host, None))
    }

    /// Whether the image is one of a mirror.
    pub(crate) fn is_mirror(&self, image: &ImageReference) -> bool {
        let mut all = self.mirrors.values().flatten();
        all.any(|(registry, _)| *registry == image.registry)
    }

    /// The image as each mirror of its registry has it, in their order.
    pub(crate) fn mirrors_of(&self, image: &ImageReference) -> Vec<ImageReference> {
        let mirrors = self.mirrors.get(image.host()).into_iter().flatten();
        mirrors
            .map(|(registry, path)| ImageReference {
                registry: registry.clone(),
                repository: match path.as_str() {
                    "" => image.repository.clone(),
                    path => format!("{path}/{}", image.repository),
                },
                ..image.clone()
            })
            .collect()
    }

    /// The hosts with an authority of their own, each with its certificates.
    pub(crate) fn authorities(&self) -> impl Iterator<Item = (&str, Authority<'_>)> {
        let all = self.authorities.iter();
        all.map(|(host, one)| {
            let (origin, pem) = (one.file.as_str(), one.pem.as_slice());
            (host.as_str(), Authority::Pem { origin, pem })
        })
    }

    /// Both together: of what is parsed apart.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.mirrors.extend(other.mirrors);
        self.named.extend(other.named);
        self.authorities.extend(other.authorities);
        self.allowed.extend(other.allowed);
        self
    }
}

/// A reference at a registry of this name. Where it answers ([`ImageReference::host`]) is what mirrors and authorities are known by: one
/// registry may have several names.
fn host(text: &str) -> Result<ImageReference, String> {
    let read = format!("{text}/a/b").parse::<ImageReference>();
    let read = read.map_err(|_| format!("`{text}` is not a host, or has more than its port"))?;
    match read.registry == text.to_ascii_lowercase() && read.repository == "a/b" {
        true => Ok(read),
        false => Err(format!(
            "`{text}` is not the host of a registry, such as `docker.io` or `registry.example:5000`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(mirrors: &[&str], authorities: &[&str]) -> Result<RegistryHosts, String> {
        let pem = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/authority.pem");
        let own = |texts: &[&str]| -> Vec<String> {
            let texts = texts.iter();
            texts.map(|text| text.replace("ca.pem", pem)).collect()
        };
        RegistryHosts::read(&own(mirrors), &own(authorities)).map_err(|error| error.to_string())
    }

    #[test]
    fn an_image_is_asked_for_at_each_mirror_of_its_registry_in_order() {
        let hosts = parsed(
            &[
                "docker.io=registry.example:5000/dockerhub/",
                "docker.io=mirror.example",
                "ghcr.io=mirror.example/github/all",
            ],
            &[],
        )
        .unwrap();
        let at = |image: &str| -> Vec<String> {
            let places = hosts.mirrors_of(&image.parse().unwrap());
            places.iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            at("nginx:1.27"),
            [
                "registry.example:5000/dockerhub/library/nginx:1.27",
                "mirror.example/library/nginx:1.27"
            ]
        );
        assert_eq!(at("ghcr.io/a/b:1"), ["mirror.example/github/all/a/b:1"]);
        let again = ["docker.io=m.example/a", "index.docker.io=m.example/a/"];
        let again = parsed(&again, &[]).unwrap();
        let places = again.mirrors_of(&"nginx".parse().unwrap());
        assert_eq!(places.len(), 1, "one place is asked once");
        assert!(at("quay.io/a/b:1").is_empty());
        assert_eq!(
            at("index.docker.io/a/b:1"),
            [
                "registry.example:5000/dockerhub/a/b:1",
                "mirror.example/a/b:1"
            ]
        );
    }

    #[test]
    fn an_authority_of_docker_hub_is_for_the_host_that_is_asked() {
        let known = |text: &str| -> Vec<String> {
            let hosts = parsed(&[], &[text]).unwrap();
            hosts
                .authorities()
                .map(|(host, _)| host.to_owned())
                .collect()
        };
        assert_eq!(known("docker.io=ca.pem"), ["registry-1.docker.io"]);
        assert_eq!(known("index.docker.io=ca.pem"), ["registry-1.docker.io"]);
        assert_eq!(known("r.example:5000=ca.pem"), ["r.example:5000"]);
        let twice = parsed(&[], &["docker.io=ca.pem", "index.docker.io=b.pem"]).unwrap_err();
        assert!(twice.contains("another one already"), "{twice}");
    }

    #[test]
    fn what_is_no_mirror_and_no_authority_is_refused() {
        for text in [
            "docker.io",
            "docker.io=",
            "=mirror.example",
            "docker.io=https://mirror.example",
            "https://docker.io=mirror.example",
            "docker.io/library=mirror.example",
            "docker.io=mirror.example/Upper",
            "docker.io=docker.io/mirror",
            "docker.io=index.docker.io/mirror",
            "mirror=mirror.example",
        ] {
            assert!(parsed(&[text], &[]).is_err(), "{text}");
        }
        for text in ["registry.example", "registry.example=", "a/b=ca.pem"] {
            assert!(parsed(&[], &[text]).is_err(), "{text}");
        }
        let twice = parsed(&[], &["r.example=ca.pem", "r.example=b.pem"]).unwrap_err();
        assert!(twice.contains("another one already"), "{twice}");
    }

    #[test]
    fn a_file_that_is_no_authority_is_found_where_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (empty, text) = (folder.path().join("empty"), folder.path().join("text"));
        std::fs::write(&empty, "").unwrap();
        std::fs::write(&text, "not PEM\n").unwrap();
        for (file, why) in [
            (&folder.path().join("missing"), "No such file"),
            (&empty, "holds no certificate"),
            (&text, "holds no certificate"),
            (&folder.path().to_owned(), "is a folder"),
        ] {
            let typed = format!("r.example={}", file.display());
            let said = parsed(&[], &[&typed]).unwrap_err();
            assert!(said.contains(&typed) && said.contains(why), "{said}");
        }
    }

    #[test]
    fn what_nothing_has_a_use_for_is_named() {
        let mirrors = ["docker.io=mirror.example/hub", "ghcr.io=other.example"];
        let authorities = ["mirror.example=ca.pem", "other.example=ca.pem"];
        let hosts = parsed(&mirrors, &authorities).unwrap();
        let seen = BTreeSet::from(["registry-1.docker.io".to_owned()]);
        assert_eq!(
            hosts.unused(&seen),
            ["a mirror of `ghcr.io`", "the authority of `other.example`"]
        );
        let other = BTreeSet::from(["ghcr.io".to_owned()]);
        assert_eq!(
            hosts.unused(&other),
            [
                "a mirror of `docker.io`",
                "the authority of `mirror.example`"
            ]
        );
        let all = BTreeSet::from(["registry-1.docker.io".to_owned(), "ghcr.io".to_owned()]);
        assert_eq!(hosts.unused(&all), [""; 0]);
    }
}
