//! 5a. COLLECT: what a reconciler needs on site and could not otherwise reach.
//!
//! What comes in: the `manifests` of each assignment: a repository, a branch, a path. What goes out:
//! that folder's files, in a spool, pinned to one commit; or, where a rendered file has Flux, Argo CD or Fleet
//! to fetch that repository, its commit as a pack that the site serves. A symbolic link, a submodule or a file of Git LFS
//! cannot travel and is an error, because a payload with a hole would fail on site, where nobody can fix it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use outhaul_bundle::Digest;
use outhaul_bundle::index::{Content, File, Served, Source};
use outhaul_bundle::name::RelativePath;

use crate::assemble::Spool;
use outhaul_attest::images::KnownLayers;
use outhaul_control::diagnostic::Location;
use outhaul_control::model::{Charts, ImageField, Images};
use outhaul_files::list;
use outhaul_git::source::git::Packed;
use outhaul_git::source::{
    self, Cache, GitReference, OpenedSource, SourceError, SourceMap, TreeLimits,
};
use outhaul_pins::Lock;
use outhaul_plane::delivery::Delivery;
use outhaul_plane::delivery::storage::OCI;
use outhaul_plane::render::RenderedAssignment;
use outhaul_signer::fleet::StatementSigner;

use images::OtherKey;
use places::Clash;
use served::{Ref, RepositoryReference, Serving};

mod charts;
mod error;
mod files;
mod image_source;
mod images;
mod places;
mod served;
mod signatures;

pub use charts::unnamed;
pub use error::{CollectError, ImageError, finding};
pub use image_source::{ChartAsked, CollectedImage, Earlier, ImageSource};
pub use signatures::signers;

pub use outhaul_bundle::index::KEPT;

/// How much of a payload an index lists.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// Files.
    pub files: u64,
    /// Bytes of their paths.
    pub path_bytes: u64,
}

/// What was collected.
#[derive(Debug, Default)]
pub struct Payloads {
    /// Files by assignment name; their contents are in the spool.
    pub files: BTreeMap<String, Vec<File>>,
    /// What the site serves; its contents are in the spool, too.
    pub served: Served,
    /// The repositories, each at the commit that was read, sorted.
    pub sources: Vec<Source>,
    /// The assignments that need an image, by its whole name.
    pub image_users: BTreeMap<String, BTreeSet<String>>,
    /// The commit that each assignment's payload is from, by assignment name.
    pub commits: BTreeMap<String, String>,
}

/// Which repository, at which branch, pinned to which commit.
type Key = (String, Option<String>, Option<String>);

/// Opens each repository and branch once, so that all assignments of one bundle, and all bundles of one
/// run, see the same commit; but an assignment with a pin is read at its commit there.
#[derive(Debug)]
pub struct Collector<'a> {
    sources: &'a SourceMap,
    cache: &'a Cache,
    opened: BTreeMap<Key, Result<(OpenedSource, String), Arc<SourceError>>>,
    /// Repositories that rendered files name besides the workloads' own.
    others: BTreeMap<OtherKey, Result<(OpenedSource, Ref), Arc<SourceError>>>,
    /// Who brings images, and those that are here, by their whole names and chosen platforms.
    images: Option<&'a dyn ImageSource>,
    /// Who brings the files that workloads list.
    files: Option<&'a dyn ImageSource>,
    brought: BTreeMap<(String, BTreeSet<String>), Result<CollectedImage, ImageError>>,
    lock: Lock,
    /// Who has what was shipped last.
    earlier: Option<&'a dyn Earlier>,
    /// What of other repositories, by URL and commit, is not in them.
    holes: BTreeMap<(String, String), Result<Packed, Arc<SourceError>>>,
    /// Whether images and other repositories of what is looked at now travel.
    carries: bool,
    /// Whether charts are rendered.
    renders: bool,
    /// Which images must be signed.
    signatures: signatures::Signatures,
    /// For which platforms images travel, and what some of them do not have.
    platforms: images::ChosenPlatforms,
    /// Fields of custom resources that hold images.
    image_fields: Vec<ImageField>,
    /// Of which charts it is not known which images they need, and where they are written.
    uncertain: BTreeMap<String, Option<Location>>,
    /// What signs apt repositories; an estimate has none.
    signer: Option<Arc<StatementSigner>>,
    layers: Option<KnownLayers>,
    /// Where contents lie that are read there and not copied.
    lent: RefCell<BTreeMap<Digest, PathBuf>>,
}

impl<'a> Collector<'a> {
    /// One that has opened nothing yet.
    pub fn new(sources: &'a SourceMap, cache: &'a Cache) -> Self {
        Self {
            sources,
            cache,
            opened: BTreeMap::new(),
            others: BTreeMap::new(),
            images: None,
            files: None,
            brought: BTreeMap::new(),
            lock: Lock::default(),
            earlier: None,
            holes: BTreeMap::new(),
            carries: false,
            renders: false,
            signatures: signatures::Signatures::default(),
            platforms: images::ChosenPlatforms::default(),
            image_fields: Vec::new(),
            uncertain: BTreeMap::new(),
            signer: None,
            layers: None,
            lent: RefCell::default(),
        }
    }

    /// Has a content read where it lies.
    fn lend(&self, content: Content, path: PathBuf, spool: &mut Spool) {
        self.lent.borrow_mut().insert(content.digest, path.clone());
        spool.lend(content, path);
    }

    /// Every content that was read where it lies, and the image that it is of, where it is of one.
    pub(crate) fn read_where_they_lie(&self) -> Vec<(Digest, PathBuf, Option<&str>)> {
        let image_of = |digest: &Digest| {
            let mut images = self.brought.iter();
            let is_of = |content: &Content| content.digest == *digest;
            let found = images.find(|(_, brought)| {
                let brought = brought.as_ref().ok();
                brought.is_some_and(|one| is_of(&one.manifest) || one.blobs.iter().any(is_of))
            });
            found.map(|((name, _), _)| name.as_str())
        };
        let lent = self.lent.borrow();
        let all = lent
            .iter()
            .map(|(digest, path)| (*digest, path.clone(), image_of(digest)));
        all.collect()
    }

    /// The same, with who brings images, and what is pinned already.
    #[must_use]
    pub fn with_images(mut self, images: Option<&'a dyn ImageSource>, lock: Lock) -> Self {
        (self.images, self.files, self.lock) = (images, images, lock);
        self
    }

    /// The same, with who brings the files that workloads list, and no image.
    #[must_use]
    pub fn with_files(mut self, files: &'a dyn ImageSource) -> Self {
        self.files = Some(files);
        self
    }

    /// The same, with who has what was shipped last.
    #[must_use]
    pub fn with_earlier(mut self, earlier: &'a dyn Earlier) -> Self {
        self.earlier = Some(earlier);
        self
    }

    /// Says what policies want of what is collected from now on: whether images and other repositories travel and for which
    /// platforms, whether charts are rendered, and which images must be signed.
    pub fn carry(&mut self, delivery: &Delivery) {
        let images = delivery.images.as_ref().map(|images| images.value);
        self.carries = images == Some(Images::Carry);
        let charts = delivery.charts.as_ref().map(|charts| charts.value);
        self.renders = charts == Some(Charts::Render);
        self.image_fields = delivery.image_fields().to_vec();
        self.signatures.follow(delivery.image_signatures.as_ref());
        self.platforms.follow(delivery.platforms.as_ref());
    }

    /// Gives it what signs the apt repositories of what is collected from now on.
    pub fn sign_with(&mut self, signer: Arc<StatementSigner>) {
        self.signer = Some(signer);
    }

    /// What is known of the layers of images, kept beside them.
    pub fn layers(&mut self) -> &mut KnownLayers {
        let images = self.images.map(ImageSource::folder);
        self.layers
            .get_or_insert_with(|| KnownLayers::beside(images))
    }

    /// What is pinned by now.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Whether the payload of one assignment can travel whole, and how much it has to be listed. Nothing is kept.
    ///
    /// # Errors
    /// [`CollectError`] when it cannot.
    pub fn look(
        &mut self,
        name: &str,
        assignment: &RenderedAssignment,
        pin: Option<&String>,
    ) -> Result<Listed, CollectError> {
        let Some(source) = self.open(name, assignment, pin)? else {
            return Ok(Listed::default());
        };
        let folder = folder(assignment);
        let names = source
            .0
            .names(folder, &TreeLimits::PAYLOAD)
            .map_err(|source| failed(name, source))?;
        no_links(name, names.skipped)?;
        if let Some(path) = names.pointers.into_iter().next() {
            return Err(pointer(name, path));
        }
        let mut paths = names.files;
        if pin.is_none() && paths.iter().all(|path| path.starts_with(".git/")) {
            return Err(CollectError::Empty {
                assignment: name.to_owned(),
                folder: folder.to_owned(),
                url: source.0.url.clone(),
            });
        }
        paths
            .iter()
            .try_for_each(|path| relative(name, path).map(drop))?;
        let named = || name.to_owned();
        let source = source.0.clone();
        let listed = match paths.iter().any(|path| path == list::FILE) {
            false => None,
            true => files::read_list(name, assignment, &source)?,
        };
        if let Some(listed) = listed {
            self.permits_listed(name, &listed)?;
            if listed.list.has_files() && is_served_whole(assignment, &source) {
                return Err(CollectError::Unlisted {
                    assignment: named(),
                });
            }
            files::fits(name, &listed, &paths)?;
            paths.extend(files::paths_of(&listed));
        }
        match places::clash(assignment, &paths) {
            None => Ok(Listed {
                files: paths.len() as u64,
                path_bytes: paths.iter().map(|path| path.len() as u64).sum(),
            }),
            Some(Clash::Rendered(path)) => Err(CollectError::Collision {
                assignment: named(),
                path,
            }),
            Some(Clash::Alike(first, second)) => Err(CollectError::Alike {
                assignment: named(),
                first,
                second,
            }),
        }
    }

    /// Collects the payloads of `assignments` into `spool`.
    ///
    /// # Errors
    /// [`CollectError`] for the first payload that cannot travel whole.
    pub fn collect(
        &mut self,
        assignments: &BTreeMap<String, Arc<RenderedAssignment>>,
        pins: &BTreeMap<String, String>,
        spool: &mut Spool,
    ) -> Result<Payloads, CollectError> {
        let mut payloads = Payloads::default();
        let mut serving = Serving::default();
        // What is kept comes last: a commit that a sound one was read at stays.
        let (kept, sound): (Vec<_>, Vec<_>) = assignments
            .iter()
            .partition(|(name, _)| pins.contains_key(*name));
        let all: Vec<_> = sound.into_iter().chain(kept).collect();
        for &(name, assignment) in &all {
            let Some((source, named)) = self.open(name, assignment, pins.get(name))? else {
                continue;
            };
            payloads.sources.push(Source {
                name: named.clone(),
                repo: source.url.clone(),
                commit: source.commit.clone(),
            });
            payloads.commits.insert(name.clone(), source.commit.clone());
            if serve_own(name, assignment, source, &mut serving) {
                continue;
            }
            let mut files = Vec::new();
            // One file after another: together they may be larger than the memory.
            let links = source.each_streamed::<CollectError>(
                folder(assignment),
                &|path| !path.starts_with(".git/"),
                &TreeLimits::PAYLOAD,
                &mut |file| {
                    let path = relative(name, &file.path)?;
                    let read = |error| {
                        let path = std::path::PathBuf::from(path.as_str());
                        CollectError::Unread(SourceError::Unreadable { path, error })
                    };
                    let opening = source::opening(file.content).map_err(read)?;
                    if source::is_pointer(&opening) {
                        return Err(pointer(name, file.path));
                    }
                    let (content, size) =
                        spool.add_from(&mut opening.as_slice().chain(file.content))?;
                    files.push(File {
                        path,
                        content,
                        size,
                        executable: file.executable,
                    });
                    Ok(())
                },
            );
            let links = links.map_err(|error| match error {
                CollectError::Unread(source) => failed(name, source),
                other => other,
            })?;
            no_links(name, links)?;
            let listed = match files.iter().any(|file| file.path.as_str() == list::FILE) {
                false => None,
                true => files::read_list(name, assignment, source)?,
            };
            if let Some(listed) = listed {
                self.add_listed(name, &listed, &mut files, spool)?;
            }
            payloads.files.insert(name.clone(), files);
        }
        for (name, assignment) in all {
            let to = (&mut serving, &mut payloads, &mut *spool);
            self.serve_others(name, assignment, pins.get(name), to)?;
        }
        payloads.served.repositories = serving.pack(spool)?;
        payloads.sources.sort();
        payloads.sources.dedup();
        Ok(payloads)
    }

    /// The source of one assignment's payload, and what the snapshot calls it; `None` when it has none.
    fn open(
        &mut self,
        name: &str,
        assignment: &RenderedAssignment,
        pin: Option<&String>,
    ) -> Result<Option<&(OpenedSource, String)>, CollectError> {
        let manifests = &assignment.manifests;
        let Some(repo) = manifests.get("repo").filter(|repo| !repo.is_empty()) else {
            return Ok(None);
        };
        let storage = manifests.get("storage").filter(|storage| *storage != "git");
        if storage.is_some_and(|storage| storage == OCI) {
            // Whether the sites have it themselves was decided before: see `delivery::storage`.
            return Ok(None);
        }
        if let Some(storage) = storage.filter(|storage| !storage.is_empty()) {
            let (assignment, storage) = (name.to_owned(), storage.clone());
            return Err(CollectError::Storage {
                assignment,
                storage,
            });
        }
        let branch = manifests
            .get("branch")
            .filter(|branch| !branch.is_empty())
            .cloned();
        let key = (source::normal_url(repo), branch.clone(), pin.cloned());
        let (sources, cache) = (self.sources, self.cache);
        let found = self.opened.entry(key).or_insert_with(|| {
            let reference = branch
                .clone()
                .map_or(GitReference::Head, GitReference::Branch);
            let named = match pin {
                None => format!("manifests:{}", branch.as_deref().unwrap_or("HEAD")),
                Some(_) => format!("{KEPT}{name}"),
            };
            let reference = match pin {
                None => sources.pinned(&named, repo, reference),
                // A folder cannot be brought back: it is read as it is, and must be as it was.
                Some(pin) if pin.starts_with("sha256:") => reference,
                Some(pin) => GitReference::Commit {
                    id: pin.clone(),
                    near: branch.clone(),
                },
            };
            let opened = source::open(repo, &reference, sources, cache).map_err(Arc::new)?;
            Ok((opened, named))
        });
        match found {
            Err(source) => Err(CollectError::Source {
                assignment: name.to_owned(),
                source: Arc::clone(source),
            }),
            Ok((opened, _)) if pin.is_some_and(|pin| *pin != opened.commit) => {
                Err(CollectError::Gone {
                    assignment: name.to_owned(),
                })
            }
            Ok(found) => Ok(Some(found)),
        }
    }
}

/// Serves an assignment's own repository to the reconciler that is asked to fetch it. Then no file of it travels
/// besides: the content is in the pack.
fn serve_own(
    name: &str,
    assignment: &RenderedAssignment,
    opened: &OpenedSource,
    serving: &mut Serving,
) -> bool {
    // Of a plain folder there is no commit that could be fetched.
    if opened.repository_folder().is_none() {
        return false;
    }
    let branch = assignment.manifests.get("branch").map(String::as_str);
    let branch = branch.filter(|branch| !branch.is_empty());
    let own = |asked: &RepositoryReference| asked.is(&opened.url) && asked.is_at(branch, opened);
    let mut is_served = false;
    for asked in served::asked(assignment).into_iter().filter(own) {
        let at = asked.references().into_iter().next();
        let at = at.map_or(Ref::Default, |(_, at)| at);
        serving.add(name, &asked.url, at, opened, false);
        is_served = true;
    }
    is_served
}

/// Whether its own repository travels as a pack, and no file of it besides.
fn is_served_whole(assignment: &RenderedAssignment, opened: &OpenedSource) -> bool {
    let mut serving = Serving::default();
    serve_own("", assignment, opened, &mut serving)
}

fn failed(assignment: &str, source: SourceError) -> CollectError {
    CollectError::Source {
        assignment: assignment.to_owned(),
        source: Arc::new(source),
    }
}

/// The folder of an assignment's manifests in their repository.
fn folder(assignment: &RenderedAssignment) -> &str {
    assignment.manifests.get("path").map_or(".", String::as_str)
}

fn relative(assignment: &str, path: &str) -> Result<RelativePath, CollectError> {
    path.parse().map_err(|source| CollectError::Path {
        assignment: assignment.to_owned(),
        source,
    })
}

fn no_links(assignment: &str, links: Vec<String>) -> Result<(), CollectError> {
    match links.into_iter().next() {
        None => Ok(()),
        Some(path) => Err(CollectError::Link {
            assignment: assignment.to_owned(),
            path,
        }),
    }
}

fn pointer(assignment: &str, path: String) -> CollectError {
    CollectError::Pointer {
        assignment: assignment.to_owned(),
        path,
    }
}
