//! Chart repositories: an `index.yaml` and archives, made of the charts that a generation has.
//!
//! What comes in: the manifests of a generation; a chart of a chart repository has the address that it is from in its
//! annotations. What goes out: for each repository its index, the same bytes at every start, and where each archive
//! lies. The index has relative addresses, so that it is right under the original name and behind the mirror's own. It
//! lists nothing that is not there.

use outhaul_kit::url::UrlParts;
use std::collections::BTreeMap;
use std::path::PathBuf;

use outhaul_kit::carried::{CHART_PATH, CHART_REPOSITORY};
use serde_json::{Map, Value, json};

use crate::digest::Digest;
use crate::layout::{ChartParts, Manifest, Repositories, Stored, blob_path};
use crate::name::{self, ImageName};

/// Largest config of a chart in bytes.
const MAX_CONFIG: u64 = 64 << 10;
/// The file that a repository is known by.
const INDEX: &str = "index.yaml";
/// Longest address.
const MAX_ADDRESS: usize = 1024;

/// One chart repository.
#[derive(Debug, Clone, Default)]
pub struct ChartRepository {
    /// Its index.
    pub index: Vec<u8>,
    /// Its archives by their paths in it.
    pub archives: BTreeMap<String, (Digest, Stored)>,
}

/// Something of a chart repository.
#[derive(Debug)]
pub enum ChartFile<'c> {
    /// Its index.
    Index(&'c [u8]),
    /// An archive.
    Archive(&'c Digest, &'c Stored),
}

/// Chart repositories by host and path: `charts.example/stable`.
#[derive(Debug, Clone, Default)]
pub struct ChartRepositories(BTreeMap<String, ChartRepository>);

impl ChartRepositories {
    /// Those that `images` have, and what cannot be served of them.
    pub fn of(images: &Repositories) -> (Self, Vec<String>) {
        let mut all = BTreeMap::<String, (ChartRepository, Entries)>::new();
        let mut problems = Vec::new();
        for (image, repository) in images {
            for manifest in repository.manifests.values() {
                let Some(parts) = manifest.chart else {
                    continue;
                };
                if let Err(problem) = add(image, manifest, parts, &mut all) {
                    problems.push(format!("`{image}`: {problem}"));
                }
            }
        }
        let made = all.into_iter().map(|(address, (mut repository, entries))| {
            let index = json!({ "apiVersion": "v1", "entries": entries });
            repository.index = index.to_string().into_bytes();
            (address, repository)
        });
        (Self(made.collect()), problems)
    }

    /// Each with its address, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &ChartRepository)> {
        self.0.iter()
    }

    /// The addresses of all of them, sorted.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// What a path means, on the host that the request was sent to or with the host before it.
    pub fn find(&self, path: &str, host: Option<&str>) -> Option<ChartFile<'_>> {
        let hosts = host.into_iter().flat_map(|host| {
            let bare = host.rsplit_once(':').map_or(host, |(bare, _)| bare);
            [host, bare]
        });
        let mut on_host = hosts.filter_map(|host| {
            let host = name::normal_registry(host)?;
            self.at(&format!("{host}/{path}"))
        });
        on_host.next().or_else(|| {
            let (host, rest) = path.split_once('/')?;
            let host = name::normal_registry(host)?;
            self.at(&format!("{host}/{rest}"))
        })
    }

    fn at(&self, address: &str) -> Option<ChartFile<'_>> {
        let ends = address.match_indices('/').map(|(at, _)| at);
        for end in ends.collect::<Vec<_>>().into_iter().rev() {
            let Some(repository) = self.0.get(&address[..end]) else {
                continue;
            };
            let path = &address[end + 1..];
            if path == INDEX {
                return Some(ChartFile::Index(&repository.index));
            }
            if let Some((digest, stored)) = repository.archives.get(path) {
                return Some(ChartFile::Archive(digest, stored));
            }
        }
        None
    }
}

/// What an index lists, by the charts' names.
type Entries = BTreeMap<String, Vec<Value>>;

fn add(
    image: &ImageName,
    manifest: &Manifest,
    parts: ChartParts,
    all: &mut BTreeMap<String, (ChartRepository, Entries)>,
) -> Result<(), String> {
    let annotation = |key: &str| {
        let annotations = manifest.annotations.as_ref()?;
        annotations.get(key)?.as_str()
    };
    // A chart that was pushed to a registry is from no chart repository.
    let (Some(url), Some(path)) = (annotation(CHART_REPOSITORY), annotation(CHART_PATH)) else {
        return Ok(());
    };
    let address = address(url).ok_or("it is not from a chart repository's address")?;
    // What another registry has may claim anything: a chart is of its repository's host, under a name that has its index.
    let host = address.split('/').next().unwrap_or_default();
    let own = image.registry.strip_suffix(":443");
    let own = own.or_else(|| image.registry.strip_suffix(":80"));
    let is_own = own.unwrap_or(&image.registry) == host;
    let mut parts_of_name = image.repository.rsplit('/').skip(1);
    if !is_own || parts_of_name.next() != Some(INDEX) {
        return Err(format!(
            "it claims to be from `{address}`, where it was not fetched"
        ));
    }
    if !is_path(path) || !path.ends_with(".tgz") {
        return Err("the path of its archive is not valid".to_owned());
    }
    let layout = &manifest.stored.layout;
    let config: PathBuf = blob_path(&parts.config);
    let config = layout.read(&config, MAX_CONFIG);
    let config = config.map_err(|error| error.to_string())?;
    let config = config.ok_or("its config is missing")?;
    if Digest::of(&config) != parts.config {
        return Err("the stored bytes of its config do not match the digest".to_owned());
    }
    let config: Map<String, Value> =
        serde_json::from_slice(&config).map_err(|error| format!("its config: {error}"))?;
    let text = |key: &str| config.get(key).and_then(Value::as_str);
    let name = text("name").filter(|name| !name.is_empty());
    let name = name.ok_or("its config has no name")?.to_owned();
    if text("version").is_none_or(str::is_empty) {
        return Err("its config has no version".to_owned());
    }
    let (repository, entries) = all.entry(address).or_default();
    let stored = Stored {
        layout: std::sync::Arc::clone(layout),
        path: blob_path(&parts.archive),
        size: manifest.archive_size,
    };
    let before = repository.archives.get(path);
    if before.is_some_and(|(digest, _)| *digest != parts.archive) {
        return Err(format!(
            "`{path}` of its repository is also another archive"
        ));
    }
    if before.is_some() {
        return Ok(());
    }
    repository
        .archives
        .insert(path.to_owned(), (parts.archive, stored));
    let mut entry = config.clone();
    entry.insert("digest".to_owned(), parts.archive.hex().into());
    entry.insert("urls".to_owned(), json!([path]));
    let versions = entries.entry(name).or_default();
    versions.push(entry.into());
    versions.sort_by_key(|one| one["version"].as_str().map(str::to_owned));
    Ok(())
}

/// Host and path of a URL in one spelling.
fn address(url: &str) -> Option<String> {
    let parts = UrlParts::of(url).filter(|parts| parts.is_web() && parts.user.is_none())?;
    let usual = match parts.is("https") {
        true => ":443",
        false => ":80",
    };
    let host = parts.authority;
    let host = name::normal_registry(host.strip_suffix(usual).unwrap_or(host))?;
    let path = parts.rest.strip_prefix('/').unwrap_or(parts.rest);
    let path = path.trim_end_matches('/');
    match path.is_empty() {
        true => Some(host),
        false => is_path(path).then(|| format!("{host}/{path}")),
    }
}

/// Whether a text is a path that a request can have and that leaves nothing.
pub fn is_path(path: &str) -> bool {
    let part = |part: &str| {
        let good = |c: char| !c.is_control() && !"\\?#%".contains(c);
        !matches!(part, "" | "." | "..") && part.chars().all(good)
    };
    path.len() <= MAX_ADDRESS && path.split('/').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_repository_has_one_address() {
        for (url, expected) in [
            ("https://charts.example", Some("charts.example")),
            (
                "https://Charts.example:443/Stable/",
                Some("charts.example/Stable"),
            ),
            (
                "http://charts.example:8080/a/b",
                Some("charts.example:8080/a/b"),
            ),
            ("http://charts.example:80/a", Some("charts.example/a")),
            ("oci://charts.example/a", None),
            ("https://charts.example/../a", None),
            ("https://a b/", None),
        ] {
            assert_eq!(address(url).as_deref(), expected, "{url}");
        }
    }
}
