//! Images of registries, for what ships: the one place where the program knows both.
//!
//! What comes in: an image's name as a manifest has it, and the digest that it was. What goes out: the image in
//! the cache. Credentials are those of `docker login` and `podman login`; a private authority is `SSL_CERT_FILE`, or named for one host. The
//! files of both are read when a command begins, so that a mistyped one is no image's fault.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_cosign as cosign;
use outhaul_git::source;
use outhaul_kit::bounds::MAX_CHART_ARCHIVE_BYTES;
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::text::chain;
use outhaul_kit::url::UrlParts;
use outhaul_needs::Release;
use outhaul_registry::chart::archive_of;
use outhaul_registry::reference::ReferenceError;
use outhaul_registry::signatures::signatures;
use outhaul_registry::{
    ChartReference, Credentials, Hosts, ImageCache, ImageReference, Platforms, Pulled,
    RegistryClient, RegistryError, RegistryHosts, look, look_file, pull, pull_chart, pull_file,
    pull_small,
};
use outhaul_ship::collect::{ChartAsked, CollectedImage, ImageError, ImageSource};

use crate::helm;

/// A file of the user's environment by which registries are asked, and which cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AccessError(String);

impl Classified for AccessError {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }
}

/// A client with the user's own credentials and authorities.
#[derive(Debug)]
pub struct UserClient {
    /// Without the authorities of the system only what is on this machine can be asked: who asks nobody needs none.
    client: Result<RegistryClient, ImageError>,
    hosts: RegistryHosts,
}

impl UserClient {
    /// A client which asks mirrors first, and knows some hosts by an authority of their own.
    ///
    /// # Errors
    /// [`AccessError`] for credentials or an `SSL_CERT_FILE` that are there and cannot be used.
    pub fn open(hosts: RegistryHosts) -> Result<Self, AccessError> {
        let credentials = Credentials::read(&credential_files());
        let credentials = credentials.map_err(|error| AccessError(chain(&error)))?;
        let authority = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
        let client = RegistryClient::new(credentials, authority.as_deref())
            .and_then(|client| client.with_hosts(hosts.clone()));
        let client = match client {
            Err(error) if authority.is_some() => {
                return Err(AccessError(format!("`SSL_CERT_FILE`: {}", chain(&error))));
            }
            client => client.map_err(failed),
        };
        Ok(Self { client, hosts })
    }

    /// What asks registries.
    ///
    /// # Errors
    /// Why none can be asked.
    pub fn client(&self) -> Result<&RegistryClient, ImageError> {
        self.client.as_ref().map_err(Clone::clone)
    }
}

/// The registries that the user of this program can ask.
#[derive(Debug)]
pub struct Registries {
    user: UserClient,
    cache: ImageCache,
    folder: PathBuf,
    /// Whether layers are only counted.
    only_looks: bool,
    /// Where the registries and servers answer of which something was wanted, also where the cache had it.
    wanted: Mutex<BTreeSet<String>>,
}

impl Registries {
    /// Those that `user` can ask; images are kept beside the repositories of `cache`.
    pub fn of(user: UserClient, cache: &source::Cache) -> Self {
        let folder = cache.images();
        Self {
            user,
            cache: ImageCache::at(&folder),
            folder: folder.join("sha256"),
            only_looks: false,
            wanted: Mutex::default(),
        }
    }

    /// The same, which follows a server to the hosts that who runs the program opened, though they are this machine or its link.
    #[must_use]
    pub fn allowing(mut self, sources: &source::SourceMap) -> Self {
        let client = self.user.client;
        self.user.client = client.map(|client| client.allowing(sources.allowed_hosts()));
        self
    }

    /// The same, which brings the manifests of an image and counts its layers.
    #[must_use]
    pub fn only_looks(mut self) -> Self {
        self.only_looks = true;
        self
    }

    /// The mirrors and authorities that were named and of whose hosts nothing was wanted, in one sentence; `None` where each was of use. Where
    /// nothing at all was wanted of a registry, that means something only when everything that travels `was_collected`: of what is unchanged
    /// nothing is asked for.
    pub fn unused(&self, was_collected: bool) -> Option<String> {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = self.user.hosts.unused(&wanted);
        if unused.is_empty() || (wanted.is_empty() && !was_collected) {
            return None;
        }
        let hosts: Vec<_> = wanted.iter().map(|host| format!("`{host}`")).collect();
        let from = match hosts.as_slice() {
            [] => {
                "nothing that travels is from a registry or a server of charts or files".to_owned()
            }
            hosts => format!("what travels is from {}", hosts.join(", ")),
        };
        Some(format!("not used: {}; {from}", unused.join(", ")))
    }

    fn client(&self) -> Result<&RegistryClient, ImageError> {
        self.user.client()
    }

    /// The image of this name, whose registry something is wanted of.
    fn wanted(&self, name: &str) -> Result<ImageReference, ImageError> {
        let image = reference(name)?;
        self.note(image.host());
        Ok(image)
    }

    fn wanted_url(&self, url: &str) {
        let host = UrlParts::of(url).map(|parts| parts.authority.to_ascii_lowercase());
        if let Some(host) = host {
            self.note(&host);
        }
    }

    fn note(&self, host: &str) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.insert(host.to_owned());
    }
}

/// Where `docker login` and `podman login` keep what they know.
fn credential_files() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let home = variable("HOME");
    let docker = variable("DOCKER_CONFIG").or_else(|| Some(home?.join(".docker")));
    let podman = variable("XDG_RUNTIME_DIR").map(|run| run.join("containers/auth.json"));
    let files = [
        variable("REGISTRY_AUTH_FILE"),
        docker.map(|folder| folder.join("config.json")),
        podman,
    ];
    files.into_iter().flatten().collect()
}

fn reference(image: &str) -> Result<ImageReference, ImageError> {
    image.parse().map_err(|error: ReferenceError| ImageError {
        message: error.to_string(),
        is_environment: false,
        help: Some("write the image's name as a container runtime accepts it".to_owned()),
    })
}

impl ImageSource for Registries {
    fn whole_name(&self, image: &str) -> Result<String, ImageError> {
        Ok(reference(image)?.to_string())
    }

    fn folder(&self) -> &Path {
        &self.folder
    }

    fn bring(
        &self,
        name: &str,
        known: Option<Digest>,
        platforms: &BTreeSet<String>,
    ) -> Result<CollectedImage, ImageError> {
        let (client, image) = (self.client()?, self.wanted(name)?);
        let platforms = Platforms::of(platforms);
        let get = if self.only_looks { look } else { pull };
        let pulled = get(client, &self.cache, &image, known, &platforms).map_err(failed)?;
        // What a chart needs is known from its archive, which is small.
        if self.only_looks && archive_of(&self.cache, &pulled.manifest.digest).is_some() {
            let whole = pull(client, &self.cache, &image, known, &platforms).map_err(failed)?;
            return Ok(self.brought(whole));
        }
        Ok(self.brought(pulled))
    }

    fn signatures(&self, name: &str, digest: &Digest) -> Result<Vec<String>, ImageError> {
        let (client, image) = (self.client()?, self.wanted(name)?);
        let tags = (cosign::list_tag(digest), cosign::tag(digest));
        let tags = (tags.0.as_str(), tags.1.as_str());
        let found = signatures(client, &image, digest, cosign::BUNDLE, tags);
        let found = found.map_err(failed)?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    fn bring_signature(&self, name: &str) -> Result<CollectedImage, ImageError> {
        let (client, image) = (self.client()?, self.wanted(name)?);
        let pulled = pull_small(client, &self.cache, &image, None, cosign::MAX_BYTES);
        Ok(self.brought(pulled.map_err(failed)?))
    }

    fn bring_chart(
        &self,
        chart: ChartAsked<'_>,
        sources: &source::SourceMap,
        known: Option<Digest>,
    ) -> Result<CollectedImage, ImageError> {
        self.wanted_url(chart.url);
        let chart = ChartReference {
            repository: chart.url,
            name: chart.chart,
            version: chart.version,
        };
        let hosts = Hosts {
            may_ask: &|url| {
                let permitted = sources.permitted(url).map(drop);
                permitted.map_err(|error| format!("{error}; {}", error.server_help()))
            },
            is_named: &|url| sources.is_named(url),
        };
        let pulled = pull_chart(self.client()?, &self.cache, chart, &hosts, known);
        Ok(self.brought(pulled.map_err(|error| {
            let mut error = failed(error);
            error.help.get_or_insert_with(|| {
                "see that the chart's name and version are right, that its repository has it, and that it accepts your credentials \
                 (`auths` in the file of `docker login`, `REGISTRY_AUTH_FILE`)"
                    .to_owned()
            });
            error
        })?))
    }

    fn bring_file(
        &self,
        url: &str,
        sources: &source::SourceMap,
        digest: Digest,
        needed: bool,
    ) -> Result<Content, ImageError> {
        let hosts = Hosts {
            may_ask: &|url| {
                let permitted = sources.permitted(url).map(drop);
                permitted.map_err(|error| format!("{error}; {}", error.server_help()))
            },
            is_named: &|url| sources.is_named(url),
        };
        self.wanted_url(url);
        let get = match self.only_looks && !needed {
            true => look_file,
            false => pull_file,
        };
        get(self.client()?, &self.cache, url, digest, &hosts).map_err(failed)
    }

    fn rendered(&self, archive: &Path, release: &Release) -> Result<Vec<u8>, String> {
        helm::template(archive, release)
    }

    fn archive(&self, manifest: &Digest) -> Result<Option<Vec<u8>>, ImageError> {
        let Some(archive) = archive_of(&self.cache, manifest) else {
            return Ok(None);
        };
        let read = self.cache.read(&archive.digest, MAX_CHART_ARCHIVE_BYTES);
        read.map(Some).ok_or_else(|| ImageError {
            message: format!(
                "the archive of the chart ({}) is larger than {MAX_CHART_ARCHIVE_BYTES} bytes, or is not in the cache",
                archive.digest
            ),
            is_environment: false,
            help: None,
        })
    }
}

impl Registries {
    fn brought(&self, pulled: Pulled) -> CollectedImage {
        CollectedImage {
            media_type: pulled.media_type,
            manifest: pulled.manifest,
            blobs: pulled.blobs,
            folder: self.folder.clone(),
            lacks: pulled.lacks,
        }
    }
}

fn failed(error: RegistryError) -> ImageError {
    ImageError {
        message: chain(&error),
        is_environment: error.is_environment(),
        help: error.help(),
    }
}
