//! `catalog.json`: what of one generation is served, and under which names.
//!
//! What comes in: the folder of a generation with this file, which the agent writes after it has verified
//! everything that the file names. What goes out: repositories of images, of charts and of git, ready to be asked. Paths
//! are relative to the folder and follow no link. A part that cannot be used is named, and the rest is served.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use outhaul_kit::media::{Marks, Media};
use serde::{Deserialize, Serialize};

use crate::charts::ChartRepositories;
use crate::digest::Digest;
use crate::error::ServeError;
use crate::git::{self, RepositoryAddress};
use crate::layout::{self, ImageRepository, Repositories};
use crate::name::{self, ImageName};
use crate::packages;

/// The format that this program reads.
pub const FORMAT: &str = "outhaul-catalog-v1";
/// The file's name.
pub const FILE: &str = "catalog.json";
const MAX_BYTES: u64 = 16 << 20;

/// `catalog.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// [`FORMAT`].
    pub format: String,
    /// OCI image layouts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layouts: Vec<LayoutEntry>,
    /// Git repositories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<git::GitEntry>,
    /// Apt repositories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<packages::AptEntry>,
    /// What could not be described, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

impl Description {
    /// One that describes nothing yet.
    pub fn empty() -> Self {
        Self {
            format: FORMAT.to_owned(),
            layouts: Vec::new(),
            repositories: Vec::new(),
            packages: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// The same, from a folder that has `prefix` below it.
    #[must_use]
    pub fn below(mut self, prefix: &Path) -> Self {
        for layout in &mut self.layouts {
            layout.folder = prefix.join(&layout.folder);
        }
        for repository in &mut self.repositories {
            repository.pack = prefix.join(&repository.pack);
        }
        let files = self
            .packages
            .iter_mut()
            .flat_map(|one| one.files.values_mut());
        for file in files {
            file.file = prefix.join(&file.file);
        }
        self
    }
}

/// One OCI image layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutEntry {
    /// Its folder, relative to the catalog.
    pub folder: PathBuf,
    /// The image that entries belong to whose name is only a tag: `docker.io/library/nginx`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// What is known of the bytes of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobCheck {
    /// They match the digest.
    Good,
    /// They do not.
    Bad,
}

/// What of one generation is served.
#[derive(Debug)]
pub struct Catalog {
    /// Of the folder's file: a catalog that is written again is read again.
    marks: Option<Marks>,
    folder: Arc<Media>,
    images: Repositories,
    charts: ChartRepositories,
    git: BTreeMap<RepositoryAddress, Arc<git::GitRepository>>,
    packages: packages::Repositories,
    problems: Vec<String>,
    /// By digest and the marks that the file had when it was read whole.
    checked: Mutex<BTreeMap<Digest, (Marks, BlobCheck)>>,
}

impl Catalog {
    /// Reads the catalog of `folder`.
    ///
    /// # Errors
    /// [`ServeError`] when the file is missing, malformed or of another format.
    pub fn load(folder: &Path) -> Result<Self, ServeError> {
        let media = Arc::new(Media::open(folder)?);
        let path = folder.join(FILE);
        let wrong = |problem: String| ServeError::Catalog {
            path: path.clone(),
            problem,
        };
        let marks = media.marks(Path::new(FILE));
        let bytes = media
            .read(Path::new(FILE), MAX_BYTES)?
            .ok_or_else(|| wrong("it is missing".to_owned()))?;
        let description: Description =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if description.format != FORMAT {
            return Err(wrong(format!("its format is not `{FORMAT}`")));
        }
        let mut problems = description.problems;
        let mut images = Repositories::new();
        for layout in &description.layouts {
            match layout_folder(&media, layout) {
                Ok((folder, default)) => {
                    problems.extend(layout::load(folder, default.as_ref(), &mut images));
                }
                Err(problem) => {
                    problems.push(format!("`{}`: {problem}", layout.folder.display()));
                }
            }
        }
        images.retain(|_, repository| !repository.manifests.is_empty());
        let (charts, unserved) = ChartRepositories::of(&images);
        problems.extend(unserved);
        let mut git = BTreeMap::new();
        for entry in &description.repositories {
            match git::GitRepository::open(&media, entry) {
                Ok((address, repository)) => {
                    if git.insert(address, Arc::new(repository)).is_some() {
                        problems.push(format!("`{}` is described twice", entry.url));
                    }
                }
                Err(problem) => problems.push(format!("`{}`: {problem}", entry.url)),
            }
        }
        let mut all_packages = packages::Repositories::new();
        for entry in &description.packages {
            match packages::Repository::open(&media, entry) {
                Ok(repository) => {
                    if all_packages
                        .insert(entry.name.clone(), repository)
                        .is_some()
                    {
                        problems.push(format!(
                            "apt repository `{}` is described twice",
                            entry.name
                        ));
                    }
                }
                Err(problem) => {
                    problems.push(format!("apt repository `{}`: {problem}", entry.name));
                }
            }
        }
        Ok(Self {
            marks,
            folder: media,
            images,
            charts,
            git,
            packages: all_packages,
            problems,
            checked: Mutex::default(),
        })
    }

    /// Whether the file is still the one that was read.
    pub(crate) fn is_current(&self) -> bool {
        // By its path: the folder may have been replaced.
        let there = Media::open(self.folder.path());
        there.is_ok_and(|there| there.marks(Path::new(FILE)) == self.marks)
    }

    /// The repositories of images.
    pub fn images(&self) -> &Repositories {
        &self.images
    }

    /// The chart repositories.
    pub fn charts(&self) -> &ChartRepositories {
        &self.charts
    }

    /// The git repositories, by address.
    pub fn git(&self) -> &BTreeMap<RepositoryAddress, Arc<git::GitRepository>> {
        &self.git
    }

    /// The apt repositories, by name.
    pub fn packages(&self) -> &packages::Repositories {
        &self.packages
    }

    /// What cannot be served, and why.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// The repository that a request means: by `?ns=`, by the host that it was sent to, or by the first part
    /// of the name.
    pub fn image(
        &self,
        name: &str,
        ns: Option<&str>,
        host: Option<&str>,
    ) -> Option<(&ImageName, &ImageRepository)> {
        if let Some(ns) = ns {
            return self.images.get_key_value(&ImageName::new(ns, name)?);
        }
        // As it was sent, and without the port that a name on the default port does not have.
        let by_host = host.and_then(|host| {
            let bare = host.rsplit_once(':').map_or(host, |(bare, _)| bare);
            [host, bare].into_iter().find_map(|host| {
                let host = name::normal_registry(host)?;
                self.images.get_key_value(&ImageName::new(&host, name)?)
            })
        });
        by_host.or_else(|| self.images.get_key_value(&ImageName::prefixed(name)?))
    }

    /// What is known of the bytes of `digest` in the file with these marks.
    pub fn checked(&self, digest: &Digest, marks: &Marks) -> Option<BlobCheck> {
        let known = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, checked) = known.get(digest)?;
        (of == marks).then_some(*checked)
    }

    /// Remembers what reading a file whole has shown.
    pub fn remember(&self, digest: Digest, marks: Marks, checked: BlobCheck) {
        let mut known = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(digest, (marks, checked));
    }
}

fn layout_folder(media: &Media, entry: &LayoutEntry) -> Result<(Media, Option<ImageName>), String> {
    let mut here = Media::open(media.path()).map_err(|error| error.to_string())?;
    for part in entry.folder.components() {
        let std::path::Component::Normal(part) = part else {
            return Err("it is not a relative path".to_owned());
        };
        let part = part.to_str().ok_or("its path is not text")?;
        let next = here.subfolder(part).map_err(|error| error.to_string())?;
        here = next.ok_or("it is missing")?;
    }
    let default = match &entry.image {
        None => None,
        Some(name) => {
            let image = ImageName::prefixed(name);
            Some(image.ok_or_else(|| format!("`{name}` is not the name of an image"))?)
        }
    };
    Ok((here, default))
}
