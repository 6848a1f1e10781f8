//! What is not available any more, out of the bundles that the streams of an environment shipped last.
//!
//! What comes in: the fleet's kept bundles. What goes out: what images and refs were in them, the contents of such an
//! image, and a repository with such a commit, in a temporary folder. Of a sealed bundle nothing can be read here; then
//! there is nothing.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::index::served::{Image, Repository};
use outhaul_git::source::git::Repository as Local;
use outhaul_git::source::normal_url;
use outhaul_signer::fleet::Fleet;

use super::carried::LastPayloads;
use crate::collect::Earlier;

/// The bundles that are kept of an environment's streams, opened when something is asked of them.
pub(super) struct EarlierBundles<'a> {
    fleet: &'a Fleet,
    roles: Vec<String>,
    opened: OnceCell<Vec<LastPayloads>>,
    folder: OnceCell<Option<tempfile::TempDir>>,
}

impl std::fmt::Debug for EarlierBundles<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EarlierBundles")
            .field("roles", &self.roles)
            .finish_non_exhaustive()
    }
}

impl<'a> EarlierBundles<'a> {
    pub(super) fn of(fleet: &'a Fleet, roles: Vec<String>) -> Self {
        Self {
            fleet,
            roles,
            opened: OnceCell::new(),
            folder: OnceCell::new(),
        }
    }

    fn bundles(&self) -> &[LastPayloads] {
        self.opened.get_or_init(|| {
            let roles = self.roles.iter();
            roles
                .filter_map(|role| LastPayloads::open(self.fleet, role))
                .collect()
        })
    }

    fn folder(&self) -> Option<&Path> {
        let folder = self.folder.get_or_init(|| tempfile::tempdir().ok());
        folder.as_ref().map(tempfile::TempDir::path)
    }

    fn image_in(bundle: &LastPayloads, manifest: Digest) -> Option<&Image> {
        let mut images = bundle.index().served.images.iter();
        images.find(|image| image.manifest.digest == manifest)
    }

    fn repository_in<'b>(
        bundle: &'b LastPayloads,
        url: &str,
        commit: &str,
    ) -> Option<&'b Repository> {
        let mut all = bundle.index().served.repositories.iter();
        all.find(|one| {
            normal_url(&one.url) == normal_url(url) && one.refs.values().any(|id| id == commit)
        })
    }
}

impl Earlier for EarlierBundles<'_> {
    fn image(&self, name: &str) -> Option<Digest> {
        let images = |bundle: &LastPayloads| {
            let mut images = bundle.index().served.images.iter();
            let found = images.find(|image| image.name == name);
            found.map(|image| image.manifest.digest)
        };
        self.bundles().iter().find_map(images)
    }

    fn commit(&self, url: &str, reference: &str) -> Option<String> {
        // The snapshot calls other repositories by their refs, and a workload's own by `manifests:`.
        let commit = |bundle: &LastPayloads| {
            let mut sources = bundle.index().snapshot.workloads.iter();
            let found = sources
                .find(|one| one.name == reference && normal_url(&one.repo) == normal_url(url));
            found.map(|one| one.commit.clone())
        };
        self.bundles().iter().find_map(commit)
    }

    fn bring_image(&self, manifest: Digest, folder: &Path) -> bool {
        self.bundles().iter().any(|bundle| {
            let Some(image) = Self::image_in(bundle, manifest) else {
                return false;
            };
            let contents = std::iter::once(&image.manifest).chain(&image.blobs);
            let wanted: BTreeSet<Digest> = contents.map(|content| content.digest).collect();
            let brought = keep(bundle, wanted, folder);
            if let Err(error) = &brought {
                tracing::debug!(%error, "not out of the bundle that was shipped last");
            }
            brought.is_ok_and(|whole| whole)
        })
    }

    fn repository(&self, url: &str, commit: &str) -> Option<PathBuf> {
        self.bundles().iter().find_map(|bundle| {
            let served = Self::repository_in(bundle, url, commit)?;
            let folder = self.folder()?.join(served.pack.digest.hex());
            if folder.join("HEAD").is_file() {
                return Some(folder);
            }
            let wanted = BTreeSet::from([served.pack.digest]);
            let mut found = bundle.extract(wanted).ok()?;
            let mut pack = found.remove(&served.pack.digest)?;
            pack.rewind().ok()?;
            let made = Local::of_pack(&folder, &mut pack, &served.shallow);
            if let Err(error) = &made {
                tracing::debug!(%error, "not out of the bundle that was shipped last");
                let _ = std::fs::remove_dir_all(&folder);
            }
            made.is_ok().then_some(folder)
        })
    }
}

/// Puts contents into `folder`, each under its digest and whole; whether all of them are there.
fn keep(bundle: &LastPayloads, wanted: BTreeSet<Digest>, folder: &Path) -> io::Result<bool> {
    let count = wanted.len();
    let found = bundle.extract(wanted)?;
    let whole = found.len() == count;
    std::fs::create_dir_all(folder)?;
    for (digest, mut file) in found {
        file.rewind()?;
        let mut to = tempfile::NamedTempFile::new_in(folder)?;
        io::copy(&mut file, to.as_file_mut())?;
        to.as_file().sync_all()?;
        to.persist(folder.join(digest.hex()))
            .map_err(|error| error.error)?;
    }
    Ok(whole)
}
