//! What a request asks for: its path and query, read strictly.
//!
//! What comes in: the path and the query of a request, as sent. What goes out: a [`Route`], all of whose
//! parts follow the distribution specification's grammar or that of a repository's address, or why it is not
//! one. It is pure, and nothing that it lets through can be a path that leaves a folder.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use crate::charts;
use crate::digest::{Digest, DigestError};
use crate::git::RepositoryAddress;
use crate::name::{self, is_tag};
use crate::packages;

/// Longest path and query that are read.
pub const MAX_TARGET: usize = 4096;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// `/v2/`: whether this is a registry.
    Ping,
    /// Something of a repository of images.
    Image {
        /// The name in the path.
        name: String,
        /// The registry, from `?ns=`.
        ns: Option<String>,
        /// What of it.
        what: ImageRequest,
    },
    /// `…/index.yaml` or an archive of a chart repository.
    Chart {
        /// The path, without a slash before it.
        path: String,
    },
    /// A file of an apt repository: `/apt/NAME/…`.
    Package {
        /// The repository's name.
        repository: String,
        /// The path in it.
        path: String,
    },
    /// `…/info/refs` of a git repository.
    Refs {
        /// The repository's path.
        repository: RepositoryAddress,
        /// The service that the client wants, from `?service=`.
        service: Option<String>,
    },
    /// `…/git-upload-pack` of a git repository.
    UploadPack {
        /// The repository's path.
        repository: RepositoryAddress,
    },
}

/// What of a repository of images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageRequest {
    /// A manifest by its tag.
    Tagged(String),
    /// A manifest by its digest.
    Manifest(Digest),
    /// A blob.
    Blob(Digest),
    /// The tags.
    Tags {
        /// At most so many.
        n: Option<usize>,
        /// Those after this one.
        last: Option<String>,
    },
    /// The manifests whose subject is this one.
    Referrers {
        /// The subject.
        digest: Digest,
        /// Only those of this type.
        artifact_type: Option<String>,
    },
}

/// Why a request is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// Not a path of anything that is served.
    #[error("nothing is served at this path")]
    Nothing,
    /// The path or the query is too long.
    #[error("the request's path is longer than {MAX_TARGET} bytes")]
    TooLong,
    /// Not a name of a repository.
    #[error("`{0}` is not the name of a repository")]
    Name(String),
    /// Neither a tag nor a digest.
    #[error("`{0}` is neither a tag nor a digest")]
    Reference(String),
    /// Not a digest.
    #[error("`{text}`: {problem}")]
    Digest {
        /// What was sent.
        text: String,
        /// What is wrong.
        problem: DigestError,
    },
    /// A parameter of the query.
    #[error("the parameter `{0}` of the query is not valid")]
    Parameter(&'static str),
}

/// Reads the path and the query of a request.
///
/// # Errors
/// [`RouteError`] for what is not served here.
pub fn parse(path: &str, query: &str) -> Result<Route, RouteError> {
    if path.len() + query.len() > MAX_TARGET {
        return Err(RouteError::TooLong);
    }
    let path = percent_decode_str(path)
        .decode_utf8()
        .map_err(|_| RouteError::Nothing)?;
    match path.strip_prefix("/v2") {
        Some("" | "/") => Ok(Route::Ping),
        Some(rest) if rest.starts_with('/') => image(&rest[1..], &Query::parse(query)?),
        _ => git(&path, &Query::parse(query)?),
    }
}

fn image(path: &str, query: &Query) -> Result<Route, RouteError> {
    let (rest, last) = path.rsplit_once('/').ok_or(RouteError::Nothing)?;
    let (name, kind) = rest.rsplit_once('/').ok_or(RouteError::Nothing)?;
    let digest = || {
        Digest::parse(last).map_err(|problem| RouteError::Digest {
            text: shown(last),
            problem,
        })
    };
    let checked = |what: ImageRequest| {
        if !name::is_requested(name) {
            return Err(RouteError::Name(shown(name)));
        }
        let ns = query.one("ns")?.map(str::to_owned);
        if let Some(ns) = &ns
            && name::normal_registry(ns).is_none()
        {
            return Err(RouteError::Parameter("ns"));
        }
        Ok(Route::Image {
            name: name.to_owned(),
            ns,
            what,
        })
    };
    match kind {
        "manifests" if last.contains(':') => checked(ImageRequest::Manifest(digest()?)),
        "manifests" if is_tag(last) => checked(ImageRequest::Tagged(last.to_owned())),
        "manifests" => Err(RouteError::Reference(shown(last))),
        "blobs" => checked(ImageRequest::Blob(digest()?)),
        "tags" if last == "list" => {
            let n = match query.one("n")? {
                Some(n) => Some(n.parse().map_err(|_| RouteError::Parameter("n"))?),
                None => None,
            };
            let after = query.one("last")?.map(str::to_owned);
            checked(ImageRequest::Tags { n, last: after })
        }
        "referrers" => {
            let artifact_type = query.one("artifactType")?.map(str::to_owned);
            checked(ImageRequest::Referrers {
                digest: digest()?,
                artifact_type,
            })
        }
        _ => Err(RouteError::Nothing),
    }
}

fn git(path: &str, query: &Query) -> Result<Route, RouteError> {
    let repository = |path: &str| RepositoryAddress::of_path(path).ok_or(RouteError::Nothing);
    if let Some(path) = path.strip_suffix("/info/refs") {
        return Ok(Route::Refs {
            repository: repository(path)?,
            service: query.one("service")?.map(str::to_owned),
        });
    }
    if let Some(path) = path.strip_suffix("/git-upload-pack") {
        return Ok(Route::UploadPack {
            repository: repository(path)?,
        });
    }
    let path = path.strip_prefix('/').ok_or(RouteError::Nothing)?;
    let of_packages = path.strip_prefix(packages::PREFIX);
    if let Some((repository, path)) = of_packages
        .and_then(|rest| rest.strip_prefix('/'))
        .and_then(|rest| rest.split_once('/'))
    {
        // A flat repository's address ends with `./`.
        let path = path.strip_prefix("./").unwrap_or(path);
        return match packages::is_name(repository) && packages::is_path(path) {
            true => Ok(Route::Package {
                repository: repository.to_owned(),
                path: path.to_owned(),
            }),
            false => Err(RouteError::Nothing),
        };
    }
    let is_index = path == "index.yaml" || path.ends_with("/index.yaml");
    match (is_index || path.ends_with(".tgz")) && charts::is_path(path) {
        true => Ok(Route::Chart {
            path: path.to_owned(),
        }),
        false => Err(RouteError::Nothing),
    }
}

/// What was sent, for a message: short, and without what controls a terminal.
fn shown(text: &str) -> String {
    let good = text.chars().filter(|c| !c.is_control());
    good.take(100).collect()
}

/// The parameters of a query. `+` is itself: media types have it, and no parameter here has spaces.
#[derive(Debug, Default)]
struct Query(BTreeMap<String, Vec<String>>);

impl Query {
    fn parse(query: &str) -> Result<Self, RouteError> {
        let mut parameters: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = |text: &str| {
                let text = percent_decode_str(text).decode_utf8().ok()?;
                (!text.contains(char::is_control)).then(|| text.into_owned())
            };
            let (Some(name), Some(value)) = (decoded(name), decoded(value)) else {
                return Err(RouteError::Parameter("?"));
            };
            parameters.entry(name).or_default().push(value);
        }
        Ok(Self(parameters))
    }

    /// The value of a parameter that may be given once.
    fn one(&self, name: &'static str) -> Result<Option<&str>, RouteError> {
        match self.0.get(name).map(Vec::as_slice) {
            None => Ok(None),
            Some([one]) => Ok(Some(one)),
            Some(_) => Err(RouteError::Parameter(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(path: &str, query: &str) -> ImageRequest {
        match parse(path, query).unwrap() {
            Route::Image { what, .. } => what,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_endpoints_of_the_specification_are_distinguished() {
        let digest = Digest::of(b"x");
        assert_eq!(parse("/v2/", ""), Ok(Route::Ping));
        assert_eq!(parse("/v2", ""), Ok(Route::Ping));
        assert_eq!(
            what("/v2/a/manifests/1.0", ""),
            ImageRequest::Tagged("1.0".to_owned())
        );
        assert_eq!(
            what(&format!("/v2/a/b/manifests/{digest}"), ""),
            ImageRequest::Manifest(digest)
        );
        // Some clients escape the colon.
        let escaped = digest.to_string().replace(':', "%3A");
        assert_eq!(
            what(&format!("/v2/a/blobs/{escaped}"), ""),
            ImageRequest::Blob(digest)
        );
        assert_eq!(
            what("/v2/a/tags/list", "n=3&last=x"),
            ImageRequest::Tags {
                n: Some(3),
                last: Some("x".to_owned())
            }
        );
        let types = [
            "artifactType=application/vnd.a+json",
            "artifactType=application%2Fvnd.a%2Bjson",
        ];
        for query in types {
            let artifact_type = Some("application/vnd.a+json".to_owned());
            let expected = ImageRequest::Referrers {
                digest,
                artifact_type,
            };
            assert_eq!(what(&format!("/v2/a/referrers/{digest}"), query), expected);
        }
        // A repository may be called as a part of the path is.
        let odd = parse("/v2/manifests/blobs/manifests/tags", "ns=docker.io").unwrap();
        assert_eq!(
            odd,
            Route::Image {
                name: "manifests/blobs".to_owned(),
                ns: Some("docker.io".to_owned()),
                what: ImageRequest::Tagged("tags".to_owned())
            }
        );
    }

    #[test]
    fn a_path_that_leaves_its_folder_is_not_understood() {
        for path in [
            "/v2/../etc/manifests/passwd",
            "/v2/a/../../b/manifests/x",
            "/v2/a%2f..%2f..%2fb/manifests/x",
            "/v2/a/manifests/../../x",
            "/v2/a/manifests/..",
            "/v2/a/blobs/sha256:..%2f..%2fetc%2fpasswd",
            "/v2/a/blobs/..%2f..%2fetc%2fpasswd",
            "/v2/%00/manifests/x",
            "/v2//manifests/x",
            "/../info/refs",
            "/a/../b/info/refs",
            "/a/%2e%2e/b/info/refs",
            "/a%00/info/refs",
            "/%ff/info/refs",
            "//info/refs",
            "/info/refs",
            "/a/../index.yaml",
            "/a/%2e%2e/b.tgz",
            "/a%00.tgz",
            "//index.yaml",
            "/.tgz/",
        ] {
            assert!(parse(path, "").is_err(), "{path}");
        }
        for ns in ["ns=..", "ns=a/b", "ns=a&ns=b", "ns=", "ns=%00", "ns=a:b"] {
            assert!(parse("/v2/a/manifests/x", ns).is_err(), "{ns}");
        }
        assert_eq!(parse(&"/a".repeat(3000), ""), Err(RouteError::TooLong));
    }
}
