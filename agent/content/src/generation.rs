//! One generation on disk: `generations/<number>/{index.json, metadata/…, assignments/<name>/…,
//! payload/<name>/…}`, what the site serves: `images/` and `repositories/`, and `marks/` of files that were read.
//!
//! What comes in: an index and verified blobs. What goes out: a folder that is there whole and durable,
//! or not at all (unpacked under another name, synced, renamed). Paths come from the index, whose types
//! let none leave its folder; contents are checked again while they are unpacked and before they are
//! applied, because a disk may lie.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use outhaul_bundle::index::{Assignment, Blob, Content, Encoding};
use outhaul_bundle::name::Name;
use outhaul_bundle::{Digest, Index, Limits};
use outhaul_reconcilers::Desired;
use outhaul_reconcilers::marks::{Marks, Stamp};
use outhaul_serve::catalog;

use crate::blobs::{Blobs, digest_of};
pub use crate::content_error::GenerationError;
use crate::cut;
use crate::durable::{self, FileError, at};
use crate::secrets::Secrets;
use crate::serving;
use crate::state_folder::StateFolder;

mod sharing;
mod twins;

/// Largest buffer of a file that is unpacked, in bytes.
const MAX_BUFFER: u64 = 256 * 1024;

/// An empty file in a generation; all that was read and found right is older than it.
pub const CHECKED: &str = "checked";

/// The folder of a generation for marks of its files and of what was applied of it.
pub fn marks(state_folder: &StateFolder, number: u64) -> PathBuf {
    state_folder.generation(number).join("marks")
}

/// Reads every file of an assignment again and compares it with the index.
///
/// # Errors
/// [`GenerationError`] of what it reads or writes.
pub fn check(desired: &Desired) -> Result<(), GenerationError> {
    check_by(desired, &mut Marks::none())
}

/// The same, without reading what is as `marks` say.
///
/// # Errors
/// As [`check`].
pub fn check_by(desired: &Desired, marks: &mut Marks) -> Result<(), GenerationError> {
    for (file, path, shown) in desired.files() {
        let expected = &file.content;
        let found = match matches(&path, &mark_of(desired, &shown), expected, marks) {
            Ok(None) => continue,
            Ok(Some(digest)) => digest.to_string(),
            Err(error) => error.to_string(),
        };
        return Err(GenerationError::Changed {
            path: shown,
            expected: file.content,
            found,
        });
    }
    Ok(())
}

/// The name of a file's mark: its place in the generation. `shown` is its name in messages.
fn mark_of(desired: &Desired, shown: &str) -> String {
    let name = desired.assignment.name.as_str();
    let below = shown.strip_prefix(name).unwrap_or(shown);
    match below.strip_prefix("/payload") {
        Some(payload) => format!("payload/{name}{payload}"),
        None => format!("assignments/{name}{below}"),
    }
}

/// Compares the file at `path` with a digest, by its mark or by reading it; returns another digest that it has.
///
/// # Errors
/// That it cannot be read.
pub fn matches(
    path: &Path,
    mark: &str,
    expected: &Digest,
    marks: &mut Marks,
) -> io::Result<Option<Digest>> {
    // Before it is read: what changes meanwhile has another stamp.
    let stamp = Stamp::of(&std::fs::symlink_metadata(path)?);
    if marks.knows(mark, expected, &stamp) {
        return Ok(None);
    }
    let found = digest_of(path)?;
    if found != *expected {
        return Ok(Some(found));
    }
    marks.record(mark, expected, &stamp);
    Ok(None)
}

/// Where the agent that a bundle brings lies in a generation.
pub const AGENT: &str = "agent/outhaul-agent";

/// The agent that a bundle brings for this machine.
pub fn own_agent(index: &Index) -> Option<Content> {
    let programs = &index.agent.as_ref()?.programs;
    programs.get(std::env::consts::ARCH).copied()
}

/// Writes down that every file of a generation's `folder` is whole now.
///
/// # Errors
/// [`FileError`]
pub fn mark(folder: &Path) -> Result<(), FileError> {
    durable::write(&folder.join(CHECKED), b"", 0o600)
}

/// The generations on disk by their numbers. Entries with other names, such as `lost+found`, are not the agent's.
///
/// # Errors
/// [`FileError`]
pub fn on_disk(state_folder: &StateFolder) -> Result<Vec<(u64, PathBuf)>, FileError> {
    let number = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let number: u64 = name.parse().ok()?;
        (number.to_string() == name).then_some((number, path))
    };
    let all = durable::list(&state_folder.generations())?.into_iter();
    Ok(all.filter_map(number).collect())
}

/// Removes what lies in the place of a generation: a folder, or what someone put there.
///
/// # Errors
/// [`FileError`]
pub fn remove(path: &Path) -> Result<(), FileError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.is_dir() => durable::remove_file(path),
        _ => durable::remove_tree(path),
    }
}

/// The assignments of a generation on `site`, in the index's order.
pub fn desired(state_folder: &StateFolder, index: &Index, site: &Name) -> Vec<Desired> {
    let folder = state_folder.generation(index.number);
    let one = |assignment: &Assignment| Desired {
        generation: index.number,
        fleet: index.fleet.clone(),
        environment: index.stream.environment.clone(),
        site: site.clone(),
        drift: index.reconciler.drift,
        assignment: assignment.clone(),
        rendered: folder.join("assignments").join(assignment.name.as_str()),
        payload: folder.join("payload").join(assignment.name.as_str()),
        site_values: BTreeMap::new(),
    };
    let mut all: Vec<Desired> = index.assignments.iter().map(one).collect();
    all.sort_by_key(|desired| desired.assignment.bootstrap.is_none());
    all
}

/// Reads the index that a generation kept; `expected` is the digest that was accepted.
///
/// # Errors
/// [`GenerationError`] of what it reads or writes.
pub fn read_index(
    state_folder: &StateFolder,
    number: u64,
    expected: &Digest,
    limits: &Limits,
) -> Result<Index, GenerationError> {
    let bytes = durable::read(
        &state_folder.generation(number).join("index.json"),
        limits.max_index_bytes,
    )?;
    let wrong = |problem: String| GenerationError::Index { number, problem };
    if Digest::of(&bytes) != *expected {
        return Err(wrong("it is not the one that was accepted".into()));
    }
    Index::from_bytes(&bytes, limits).map_err(|error| wrong(error.to_string()))
}

/// Bytes that the unpacked files of `index` take. What is served as it was carried takes none: it is a link to
/// the blob.
pub fn unpacked_bytes(index: &Index) -> u64 {
    let linked: BTreeSet<&Content> = index
        .blobs
        .iter()
        .filter(|blob| is_whole(blob))
        .flat_map(|blob| &blob.contents)
        .collect();
    let served: BTreeSet<&Content> = index.served.contents().collect();
    let files = index
        .files()
        .map(|file| file.size)
        .chain(own_agent(index).map(|agent| agent.size));
    let served = served.difference(&linked).map(|content| content.size);
    files.chain(served).fold(0, u64::saturating_add)
}

/// Whether the bytes of a blob are those of its content.
fn is_whole(blob: &Blob) -> bool {
    blob.encoding == Encoding::Identity && blob.sealed.is_none()
}

/// Unpacks a generation: afterwards `generations/<number>` is whole and durable. `metadata` is what accounts
/// for it, kept for the apply helper, which verifies it again.
///
/// # Errors
/// [`GenerationError`] of what it reads or writes.
pub fn unpack(
    state_folder: &StateFolder,
    blobs: &Blobs,
    index: &Index,
    index_bytes: &[u8],
    metadata: &BTreeMap<String, Vec<u8>>,
    limits: &Limits,
) -> Result<(), GenerationError> {
    let to = state_folder.generation(index.number);
    let folder = to.with_extension("new");
    durable::remove_tree(&folder)?;
    // A bundle without assignments is a generation, too.
    durable::make_folder(&folder)?;
    for assignment in &index.assignments {
        for kind in ["assignments", "payload"] {
            durable::make_folder(&folder.join(kind).join(assignment.name.as_str()))?;
        }
    }
    write_contents(&folder, blobs, index, &places(index), limits)?;
    durable::write(&folder.join("index.json"), index_bytes, 0o600)?;
    for (name, bytes) in descriptions(&folder, index)? {
        durable::write(&folder.join(name), &bytes, 0o644)?;
    }
    if !metadata.is_empty() {
        durable::make_folder(&folder.join("metadata"))?;
    }
    for (name, bytes) in metadata {
        durable::write(&folder.join("metadata").join(name), bytes, 0o600)?;
    }
    // Last: all that lies in the folder is older.
    mark(&folder)?;
    durable::sync_file_system(&folder)?;
    cut::here("generation-written");
    durable::remove_tree(&to)?;
    durable::rename(&folder, &to)?;
    cut::here("generation-renamed");
    Ok(())
}

/// The files that say what else of a generation is served, by their paths in it; `folder` has its payloads.
///
/// # Errors
/// [`GenerationError`] of what it reads or writes.
pub fn descriptions(
    folder: &Path,
    index: &Index,
) -> Result<Vec<(PathBuf, Vec<u8>)>, GenerationError> {
    let mut files = serving::layout(&index.served);
    if let Some(description) = serving::describe(folder, index) {
        let bytes = serde_json::to_vec(&description).map_err(|error| GenerationError::Index {
            number: index.number,
            problem: error.to_string(),
        })?;
        files.push((catalog::FILE.into(), bytes));
    }
    Ok(files)
}

/// Where a content lies in a generation.
#[derive(Debug, Clone)]
pub struct StoredContent {
    /// The content.
    pub content: Content,
    /// Its path in the generation's folder.
    pub path: PathBuf,
    /// Whether it can be run.
    pub executable: bool,
    /// Whether it is served, and no file of an assignment: it may be a link to the blob, and what is applied
    /// never is.
    pub served: bool,
}

/// Where every content of `index` lies in its generation.
pub fn places(index: &Index) -> Vec<StoredContent> {
    let served = serving::paths(&index.served).into_iter();
    let mut places: Vec<StoredContent> = served
        .map(|(content, path)| StoredContent {
            content,
            path,
            executable: false,
            served: true,
        })
        .collect();
    if let Some(content) = own_agent(index) {
        places.push(StoredContent {
            content,
            path: AGENT.into(),
            executable: true,
            served: false,
        });
    }
    for assignment in &index.assignments {
        let name = assignment.name.as_str();
        let kinds = [
            ("assignments", &assignment.files),
            ("payload", &assignment.payload),
        ];
        for (kind, files) in kinds {
            let below = Path::new(kind).join(name);
            places.extend(files.iter().map(|file| StoredContent {
                content: Content {
                    digest: file.content,
                    size: file.size,
                },
                path: below.join(file.path.as_str()),
                executable: file.executable,
                served: false,
            }));
        }
    }
    places
}

/// Writes the contents of `places` below `folder`, from the stored blobs of `index`.
///
/// # Errors
/// [`GenerationError`] of what it reads or writes.
pub fn write_contents(
    folder: &Path,
    blobs: &Blobs,
    index: &Index,
    places: &[StoredContent],
    limits: &Limits,
) -> Result<(), GenerationError> {
    let mut wanted: BTreeMap<Content, Vec<(PathBuf, bool)>> = BTreeMap::new();
    let mut served = BTreeMap::new();
    for place in places {
        let path = folder.join(&place.path);
        let paths = wanted.entry(place.content).or_default();
        match place.served {
            // First: it may be a link.
            true => {
                paths.insert(0, (path.clone(), false));
                served.insert(place.content, path);
            }
            false => paths.push((path, place.executable)),
        }
    }
    let is_sealed = |blob: &Blob| blob.sealed.is_some();
    let secrets = if index.blobs.iter().any(is_sealed) {
        Secrets::load(blobs.identities())?
    } else {
        Secrets::default()
    };
    for blob in &index.blobs {
        if let [content] = blob.contents.as_slice()
            && is_whole(blob)
            && let Some(path) = served.get(content)
        {
            if let Some(archive) = blobs.twin(blob) {
                twins::place(folder, blobs, &blob.digest, &archive)?;
                wanted.remove(content);
                continue;
            }
            link_or_copy(&blobs.path(&blob.digest), path)?;
            copy_others(&wanted.remove(content).unwrap_or_default())?;
            continue;
        }
        // What only other sites need is carried, and left alone.
        if !blob
            .contents
            .iter()
            .any(|content| wanted.contains_key(content))
        {
            continue;
        }
        if let [content] = blob.contents.as_slice()
            && is_whole(blob)
            && let Some(first) = wanted.get(content).and_then(|paths| paths.first())
            && sharing::share(&blobs.path(&blob.digest), content, first)?
        {
            copy_others(&wanted.remove(content).unwrap_or_default())?;
            continue;
        }
        let stored = blobs.open(blob)?;
        stored.decode(blob, limits, &secrets, &mut |content| {
            let Some((path, executable)) = wanted.get(content).and_then(|paths| paths.first())
            else {
                return Ok(None);
            };
            let file = create(path, *executable).map_err(|error| error.source)?;
            // In few pieces: what is small has a small buffer.
            let buffer = usize::try_from(content.size.clamp(1, MAX_BUFFER)).unwrap_or(1);
            Ok(Some(
                Box::new(BufWriter::with_capacity(buffer, file)) as Box<dyn Write>
            ))
        })?;
        for content in &blob.contents {
            copy_others(&wanted.remove(content).unwrap_or_default())?;
        }
    }
    match wanted.into_iter().next() {
        Some((content, paths)) => Err(GenerationError::Lacking {
            content: content.digest,
            path: paths
                .first()
                .map_or_else(String::new, |(path, _)| path.display().to_string()),
        }),
        None => Ok(()),
    }
}

/// Gives a verified blob a second name, so that one copy is kept; copies it where that cannot be.
fn link_or_copy(blob: &Path, path: &Path) -> Result<(), FileError> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(at("create", parent))?;
    }
    // What is there may be a link to a blob: it is replaced, and never written to.
    durable::remove_file(path)?;
    if std::fs::hard_link(blob, path).is_err() {
        let mut from = durable::open(blob)?;
        let mut to = create(path, false)?;
        sharing::share_or_copy(&mut from, &mut to).map_err(at("write", path))?;
    }
    // As every other file of a generation.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644))
        .map_err(at("create", path))
}

/// The same content under its other names.
fn copy_others(paths: &[(PathBuf, bool)]) -> Result<(), GenerationError> {
    let Some(((first, _), others)) = paths.split_first() else {
        return Ok(());
    };
    for (path, executable) in others {
        let mut to = create(path, *executable)?;
        let mut from = durable::open(first)?;
        sharing::share_or_copy(&mut from, &mut to).map_err(at("write", path))?;
    }
    Ok(())
}

fn create(path: &Path, executable: bool) -> Result<File, FileError> {
    if let Some(parent) = path.parent() {
        // Durable with everything else by one sync of the file system.
        std::fs::create_dir_all(parent).map_err(at("create", parent))?;
    }
    // Writing to a link that is there would write to the blob that it is a link to.
    durable::remove_file(path)?;
    let mode = if executable { 0o755 } else { 0o644 };
    let file = durable::create(path, mode)?;
    file.set_permissions(std::fs::Permissions::from_mode(mode))
        .map_err(at("create", path))?;
    Ok(file)
}
