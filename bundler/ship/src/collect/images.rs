//! Images and repositories that an assignment needs besides its own, where a policy says that they travel.
//!
//! What comes in: the files of an assignment, rendered and its own, the lock, and someone who brings an image
//! into a folder here. What goes out: which images and which commits of which repositories the site serves. A
//! tag is what the lock says; what the lock does not know is asked for, and pinned. It speaks to no registry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_bundle::Digest;
use outhaul_bundle::index::served::Image;
use outhaul_control::diagnostic::{Diagnostic, Location};
use outhaul_git::source::{self, GitReference, OpenedSource, SourceError, TreeLimits, normal_url};
use outhaul_plane::delivery::Sourced;
use outhaul_plane::render::RenderedAssignment;

use super::files::read_list;
use super::served::{self, Ref, RepositoryReference, Serving};
use super::{CollectError, CollectedImage, Collector, ImageError, Payloads, folder};
use crate::assemble::Spool;
use outhaul_bundle::index::Source;
use outhaul_needs::kustomize::{self, Build, Followed};
use outhaul_needs::{ListOfFiles, Need, Needs, Revision, Unread, shown_image, without_charts};

/// An opened repository: its URL and the ref that was asked for.
pub(super) type OtherKey = (String, RepositoryReference);

impl Collector<'_> {
    /// Whether what an assignment needs besides its own repository can be had; it is brought here.
    ///
    /// # Errors
    /// [`CollectError`] of the first that cannot.
    pub fn look_served(
        &mut self,
        name: &str,
        assignment: &RenderedAssignment,
        pin: Option<&String>,
    ) -> Result<(), CollectError> {
        for asked in self.others(name, assignment, pin)? {
            let (opened, ..) = self.other(name, &asked)?;
            self.is_whole(name, &asked.url, &opened)?;
        }
        self.needed(name, assignment, pin)?;
        let Some((opened, _)) = self.open(name, assignment, pin)?.cloned() else {
            return Ok(());
        };
        match read_list(name, assignment, &opened)? {
            Some(listed) => self.bring_listed(name, &listed, (&opened, folder(assignment))),
            None => Ok(()),
        }
    }

    /// Whether an artifact of the repository `repo` is among what an assignment's objects fetch; `true` when none is asked for.
    ///
    /// # Errors
    /// As [`Self::look_served`].
    pub fn fetches(
        &mut self,
        name: &str,
        assignment: &RenderedAssignment,
        repo: Option<&str>,
    ) -> Result<bool, CollectError> {
        let Some(repo) = repo else { return Ok(true) };
        // By its whole name, as what is brought is known.
        let tagged = format!("{repo}:0");
        let whole = self
            .images
            .and_then(|source| source.whole_name(&tagged).ok());
        let whole = whole.as_deref().and_then(|whole| whole.strip_suffix(":0"));
        let repo = whole.unwrap_or(repo).to_owned();
        let needed = self.needed(name, assignment, None)?;
        Ok(needed.iter().any(|(whole, _)| {
            let rest = whole.strip_prefix(&*repo);
            rest.is_some_and(|rest| rest.starts_with([':', '@']))
        }))
    }

    /// Adds all of that to what is served.
    pub(super) fn serve_others(
        &mut self,
        name: &str,
        assignment: &RenderedAssignment,
        pin: Option<&String>,
        (serving, payloads, spool): (&mut Serving, &mut Payloads, &mut Spool),
    ) -> Result<(), CollectError> {
        for asked in self.others(name, assignment, pin)? {
            let (opened, at, named) = self.other(name, &asked)?;
            self.lock.carries_commit(&asked.url, &named);
            payloads.sources.push(Source {
                name: named,
                repo: opened.url.clone(),
                commit: opened.commit.clone(),
            });
            serving.add(name, &asked.url, at, &opened, true);
        }
        for (whole, brought) in self.needed(name, assignment, pin)? {
            self.lock.carries_image(&whole);
            let users = payloads.image_users.entry(whole.clone()).or_default();
            users.insert(name.to_owned());
            let images = &mut payloads.served.images;
            if images.iter().any(|one| one.name == whole) {
                continue;
            }
            for content in std::iter::once(&brought.manifest).chain(&brought.blobs) {
                self.lend(*content, brought.folder.join(content.digest.hex()), spool);
            }
            images.push(Image {
                name: whole,
                media_type: brought.media_type,
                manifest: brought.manifest,
                blobs: brought.blobs,
            });
            images.sort();
        }
        Ok(())
    }

    /// The repositories that rendered files name, but for its own at the commit that was read.
    fn others(
        &mut self,
        name: &str,
        assignment: &RenderedAssignment,
        pin: Option<&String>,
    ) -> Result<Vec<RepositoryReference>, CollectError> {
        let asked = served::asked(assignment);
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let carries = self.carries;
        let branch = assignment.manifests.get("branch").map(String::as_str);
        let branch = branch.filter(|branch| !branch.is_empty());
        let own = self.open(name, assignment, pin)?.map(|(opened, _)| opened);
        let is_served = |asked: &RepositoryReference| {
            let Some(own) = own.filter(|own| asked.is(&own.url)) else {
                return !carries;
            };
            // A plain folder has no commit; nor has what a site has under its own name.
            own.repository_folder().is_none() || asked.is_at(branch, own)
        };
        let in_cluster = |asked: &RepositoryReference| asked.url.contains(".svc");
        let asked = asked.into_iter();
        Ok(asked
            .filter(|asked| !is_served(asked) && !in_cluster(asked))
            .collect())
    }

    /// A repository at the commit that is carried, the ref that it is, and what the snapshot calls it.
    fn other(
        &mut self,
        name: &str,
        asked: &RepositoryReference,
    ) -> Result<(OpenedSource, Ref, String), CollectError> {
        let references = asked.references();
        if let Revision::Other(revision) = &asked.revision {
            return Err(CollectError::Revision {
                assignment: name.to_owned(),
                url: asked.url.clone(),
                revision: revision.clone(),
            });
        }
        let key = (normal_url(&asked.url), asked.clone());
        if let Some(found) = self.others.get(&key) {
            let found = found.clone();
            let (opened, at) = found.map_err(|source| self.not_had(name, asked, source))?;
            return Ok((opened, at.clone(), named(&at)));
        }
        let mut last = None;
        for (reference, at) in references {
            let called = named(&at);
            let pinned = self.sources.pinned(&called, &asked.url, reference.clone());
            // Its entry may be lost: then what was shipped counts.
            if !self.lock.knows_commit(&asked.url, &called)
                && let Some(id) = self.earlier.and_then(|one| one.commit(&asked.url, &called))
            {
                self.lock.was_commit(&asked.url, &called, &id);
            }
            let locked = self.lock.commit(&asked.url, &called).map(str::to_owned);
            let reference = match (pinned == reference, locked, reference) {
                (true, Some(id), GitReference::Branch(near)) => GitReference::Commit {
                    id,
                    near: Some(near),
                },
                (true, Some(id), GitReference::Head | GitReference::Tag(_)) => {
                    GitReference::Commit { id, near: None }
                }
                _ => pinned,
            };
            let opened = source::open(&asked.url, &reference, self.sources, self.cache);
            let opened = opened.or_else(|error| match &reference {
                GitReference::Commit { id, .. } => self.as_shipped(&asked.url, id).ok_or(error),
                _ => Err(error),
            });
            match opened {
                Ok(opened) => {
                    // What names its commit itself is pinned already.
                    if !matches!(at, Ref::Commit(..)) {
                        self.lock.pin_commit(&asked.url, &called, &opened.commit);
                    }
                    self.others.insert(key, Ok((opened.clone(), at.clone())));
                    return Ok((opened, at, called));
                }
                Err(error) => last = Some(Arc::new(error)),
            }
        }
        let source = last.unwrap_or_else(|| {
            Arc::new(source::SourceError::NoSuchReference {
                url: asked.url.clone(),
                reference: GitReference::Head,
                known: Vec::new(),
            })
        });
        self.others.insert(key, Err(Arc::clone(&source)));
        Err(self.not_had(name, asked, source))
    }

    /// Why a repository cannot be had, with what it is pinned to.
    fn not_had(
        &self,
        name: &str,
        asked: &RepositoryReference,
        source: Arc<SourceError>,
    ) -> CollectError {
        let refs = asked.references().into_iter().map(|(_, at)| named(&at));
        let pinned = refs
            .into_iter()
            .find(|called| self.lock.commit(&asked.url, called).is_some());
        let assignment = name.to_owned();
        match pinned {
            None => CollectError::Source { assignment, source },
            Some(reference) => CollectError::Pinned {
                assignment,
                url: asked.url.clone(),
                reference,
                source,
            },
        }
    }

    /// A commit as it was shipped last.
    fn as_shipped(&self, url: &str, commit: &str) -> Option<OpenedSource> {
        let folder = self.earlier?.repository(url, commit)?;
        let reference = GitReference::Commit {
            id: commit.to_owned(),
            near: None,
        };
        source::open_folder(&folder, url, &reference).ok()
    }

    /// Refuses a repository whose files are not all in it: known before anything is packed.
    fn is_whole(
        &mut self,
        name: &str,
        url: &str,
        opened: &OpenedSource,
    ) -> Result<(), CollectError> {
        let key = (normal_url(url), opened.commit.clone());
        let found = self.holes.entry(key).or_insert_with(|| {
            let packed = opened.pack(&TreeLimits::PAYLOAD, &mut std::io::sink());
            packed.map(Option::unwrap_or_default).map_err(Arc::new)
        });
        if opened.repository_folder().is_none() {
            return Err(CollectError::Commitless {
                assignment: name.to_owned(),
                url: url.to_owned(),
            });
        }
        match found {
            Ok(packed) => served::no_holes(name, url, packed),
            Err(source) => Err(CollectError::Source {
                assignment: name.to_owned(),
                source: Arc::clone(source),
            }),
        }
    }

    /// What an assignment's files name, each with the place in its own manifests; none where by no policy it
    /// travels.
    pub(super) fn named_by(
        &mut self,
        name: &str,
        assignment: &RenderedAssignment,
        pin: Option<&String>,
    ) -> Result<BTreeMap<Need, Option<Location>>, CollectError> {
        if !self.carries || self.images.is_none() {
            return Ok(BTreeMap::new());
        }
        let overlays = assignment.overlays.iter().flat_map(|one| &one.files);
        let files = assignment.files.iter().chain(overlays);
        let builds = kustomize::builds(files.clone());
        let fields = self.image_fields.clone();
        let fields = fields.as_slice();
        let read = |(name, bytes): (&String, &Vec<u8>)| Needs::with(name, bytes, fields);
        let rendered: Vec<_> = files.map(read).collect();
        if let Some(unread) = rendered.iter().find_map(|needs| needs.unread.clone()) {
            return Err(not_read(name, unread));
        }
        let whole = |followed: Followed| {
            let unread = followed.unread().next();
            unread.map_or(Ok(followed), |unread| Err(not_read(name, unread)))
        };
        let (rendered, mut helm) = without_charts(rendered);
        let mut all: Vec<_> = rendered.into_iter().map(|(need, _)| (need, None)).collect();
        let failed = |source| super::failed(name, source);
        let placed = |(need, at)| (need, Some(at));
        if let Some((opened, _)) = self.open(name, assignment, pin)? {
            let followed = kustomize::follow(opened, folder(assignment), &builds, fields);
            let followed = whole(followed.map_err(failed)?)?;
            let listed = read_list(name, assignment, opened)?;
            all.extend(listed.iter().flat_map(ListOfFiles::images).map(placed));
            all.extend(followed.needs.into_iter().map(placed));
            helm.append(followed.helm);
        }
        for asked in self.others(name, assignment, pin)? {
            let is_its = |build: &&Build| build.url.as_deref().is_some_and(|url| asked.is(url));
            for build in builds.iter().filter(is_its) {
                let (opened, ..) = self.other(name, &asked)?;
                let path = build.path.as_deref().unwrap_or(".");
                let followed =
                    kustomize::follow(&opened, path, std::slice::from_ref(build), fields);
                let followed = whole(followed.map_err(failed)?)?;
                all.extend(followed.needs.into_iter().map(placed));
                helm.append(followed.helm);
            }
        }
        all.extend(helm.needs().into_iter().map(placed));
        let mut needs = BTreeMap::new();
        for (need, at) in all {
            let known = needs.entry(need).or_insert(None);
            *known = known.take().or(at);
        }
        Ok(needs)
    }

    /// An image, brought here and pinned, under its whole name.
    pub(super) fn brought(
        &mut self,
        name: &str,
        image: &str,
        at: Option<&Location>,
    ) -> Result<Option<(String, CollectedImage)>, CollectError> {
        let Some(source) = self.images else {
            return Ok(None);
        };
        let whole = source.whole_name(image);
        let whole = whole.map_err(|error| not_brought(name, image, at, false, error))?;
        let registry = whole.split('/').next().unwrap_or_default();
        // A team's manifest does not make the centre ask a host that it may not ask.
        let url = format!("https://{registry}/");
        let permitted = self.permitted(&url);
        permitted.map_err(|error| not_brought(name, image, at, false, error))?;
        let (bring, platforms) = (whole.clone(), self.platforms.names());
        let brought = self.pinned(name, (image, whole), at, &|known| {
            source.bring(&bring, known, &platforms)
        })?;
        if let Some((whole, brought)) = &brought {
            self.platforms.note(whole, &brought.lacks);
        }
        Ok(brought)
    }

    /// That a host may be asked.
    pub(super) fn permitted(&self, url: &str) -> Result<(), ImageError> {
        let permitted = self.sources.permitted(url).map(drop);
        permitted.map_err(|error| ImageError {
            message: error.to_string(),
            is_environment: false,
            help: Some(error.server_help()),
        })
    }

    /// What `bring` brings for what is pinned for `whole`, and pins it.
    pub(super) fn pinned(
        &mut self,
        name: &str,
        (shown, whole): (&str, String),
        at: Option<&Location>,
        bring: &dyn Fn(Option<Digest>) -> Result<CollectedImage, ImageError>,
    ) -> Result<Option<(String, CollectedImage)>, CollectError> {
        let Some(source) = self.images else {
            return Ok(None);
        };
        let by_digest = whole.rsplit_once('@');
        let by_digest = by_digest.and_then(|(_, digest)| digest.parse::<Digest>().ok());
        // Its entry may be lost: then what was shipped counts.
        if by_digest.is_none()
            && !self.lock.knows_image(&whole)
            && let Some(digest) = self.earlier.and_then(|one| one.image(&whole))
        {
            self.lock.was_image(&whole, digest);
        }
        let known = self.lock.image(&whole);
        let earlier = self.earlier;
        let brought = self.brought.entry((whole.clone(), self.platforms.names()));
        let brought = brought.or_insert_with(|| {
            let first = bring(known);
            match (&first, by_digest.or(known), earlier) {
                (Err(_), Some(digest), Some(earlier))
                    if earlier.bring_image(digest, source.folder()) =>
                {
                    bring(known)
                }
                _ => first,
            }
        });
        let brought = brought.clone();
        let brought =
            brought.map_err(|error| not_brought(name, shown, at, known.is_some(), error))?;
        if !whole.contains('@') {
            self.lock.pin_image(&whole, brought.manifest.digest);
        }
        Ok(Some((whole, brought)))
    }
}

/// For which platforms the images travel that are collected now, and which of them some images do not have.
#[derive(Debug, Default)]
pub(super) struct ChosenPlatforms {
    said: Option<Sourced<BTreeSet<String>>>,
    missing: BTreeSet<(String, Vec<String>, String)>,
}

impl ChosenPlatforms {
    pub(super) fn follow(&mut self, said: Option<&Sourced<BTreeSet<String>>>) {
        self.said = said.cloned();
    }

    /// Their names; none: all travel.
    fn names(&self) -> BTreeSet<String> {
        let said = self.said.as_ref();
        said.map(|said| said.value.clone()).unwrap_or_default()
    }

    fn note(&mut self, image: &str, lacks: &[String]) {
        if let Some(said) = self.said.as_ref().filter(|_| !lacks.is_empty()) {
            let missing = (image.to_owned(), lacks.to_vec(), said.by());
            self.missing.insert(missing);
        }
    }

    /// Images that have only some of the platforms that a policy names.
    pub(super) fn missing(&self) -> impl Iterator<Item = Diagnostic> {
        self.missing.iter().map(|(image, lacks, policy)| {
            let lacks: Vec<String> = lacks.iter().map(|name| format!("`{name}`")).collect();
            let message = format!(
                "image `{image}` has no {}, which {policy} names; its other platforms travel",
                lacks.join(", ")
            );
            Diagnostic::warning("platform-missing", message).help(
                "where nodes of that platform run it, use an image that has it; or narrow `platforms` for these cluster types",
            )
        })
    }
}

fn not_read(assignment: &str, unread: Unread) -> CollectError {
    CollectError::NotRead {
        assignment: assignment.to_owned(),
        unread: Box::new(unread),
    }
}

/// Why something that travels as an image cannot be had.
pub(super) fn not_brought(
    assignment: &str,
    image: &str,
    at: Option<&Location>,
    pinned: bool,
    error: ImageError,
) -> CollectError {
    CollectError::Image {
        assignment: assignment.to_owned(),
        what: match image.contains("://") {
            true => format!("chart `{image}`"),
            false => format!("image `{}`", shown_image(image)),
        },
        at: at.cloned().map(Box::new),
        pinned,
        error,
    }
}

/// What the snapshot and the lock call a ref.
fn named(at: &Ref) -> String {
    match at {
        Ref::Default => "HEAD".to_owned(),
        Ref::Named(name) => name.clone(),
        Ref::Commit(id, _) => id.clone(),
    }
}
