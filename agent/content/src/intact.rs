//! Whether what a generation keeps on disk is still what its bundle brought, and putting back what is not.
//!
//! What comes in: an index and the generation's folder. What goes out: every file that is missing or damaged, with
//! what needs it, and after [`put_back`] the same files again, from the stored blobs, which are compared with
//! their digests first. It writes nothing outside of the generation's folder and asks for nothing from
//! outside: a content that is damaged in both places is for an import of the same bundle.

use std::collections::BTreeSet;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use outhaul_bundle::index::{Blob, Content};
use outhaul_bundle::{Digest, Index, Limits};
use outhaul_reconcilers::marks::{Marks, Stamp};
use outhaul_serve::catalog;

use crate::blobs::{Blobs, twins};
use crate::content_error::GenerationError;
use crate::durable::{self, FileError, at};
use crate::generation::{self, StoredContent};
use crate::serving;
use crate::state_folder::StateFolder;

/// How many files are named.
const MAX_NAMED: usize = 5;

/// Later than any file was written, in seconds since 1970.
const LATE_S: u64 = 1 << 40;

/// The marks of what a generation keeps.
pub const CONTENTS: &str = "contents";

/// How closely to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Reads what changed since it was last read; of the rest, it sees what is missing or of another size.
    Changed,
    /// Reads every byte.
    Every,
}

/// One file that is not as it should be.
#[derive(Debug)]
pub struct Damage {
    /// Its path in the generation.
    path: PathBuf,
    /// What should be there; `None` for a file that is made on site.
    place: Option<StoredContent>,
    /// What needs it, for people.
    user: Option<String>,
    /// What is wrong.
    problem: String,
}

impl Damage {
    /// Whether it is served, and no file of an assignment.
    pub fn is_served(&self) -> bool {
        self.place.as_ref().is_none_or(|place| place.served)
    }
}

/// When all of a generation was last found whole; `None` when that is unknown.
pub fn checked(state_folder: &StateFolder, number: u64) -> Option<SystemTime> {
    let meta = std::fs::metadata(state_folder.generation(number).join(generation::CHECKED)).ok()?;
    meta.modified().ok()
}

/// Every file of a generation that is missing or damaged. Nothing is written.
pub fn damages(state_folder: &StateFolder, index: &Index, look: Look) -> Vec<Damage> {
    let marks = generation::marks(state_folder, index.number);
    let mut marks = match look {
        Look::Changed => Marks::to_read(&marks, CONTENTS),
        Look::Every => Marks::none(),
    };
    damages_by(state_folder, index, look, &mut marks)
}

/// The same, and keeps what was found right for the next look.
pub fn damages_kept(state_folder: &StateFolder, index: &Index, look: Look) -> Vec<Damage> {
    let marks = generation::marks(state_folder, index.number);
    let full_read = match look {
        Look::Changed => Duration::MAX,
        Look::Every => Duration::ZERO,
    };
    let mut marks = Marks::open(&marks, CONTENTS, full_read);
    let found = damages_by(state_folder, index, look, &mut marks);
    marks.keep();
    found
}

fn late() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(LATE_S)
}

fn damages_by(
    state_folder: &StateFolder,
    index: &Index,
    look: Look,
    marks: &mut Marks,
) -> Vec<Damage> {
    let folder = state_folder.generation(index.number);
    let since = match look {
        // Where it is unknown, the next look on a schedule reads all of it.
        Look::Changed => Some(checked(state_folder, index.number).unwrap_or_else(late)),
        Look::Every => None,
    };
    let mut all: Vec<Damage> = generation::places(index)
        .into_iter()
        .filter_map(|place| {
            let problem = match twin_of(&folder, &place) {
                Some(archive) => problem_of(&folder, &archive, since, marks)?,
                None => problem_of(&folder, &place, since, marks)?,
            };
            let user = match place.served {
                true => crate::serving::user_of(&index.served, &place.content),
                false => None,
            };
            Some(Damage {
                path: place.path.clone(),
                place: Some(place),
                user,
                problem,
            })
        })
        .collect();
    // What is made on site has no digest: it is there, and can be read, or is made again.
    for (path, _) in generation::descriptions(&folder, index).unwrap_or_default() {
        let file = durable::open_file(&folder.join(&path));
        let is_good = file.is_ok_and(|file| {
            serde_json::from_reader::<_, serde_json::Value>(BufReader::new(file)).is_ok()
        });
        if !is_good {
            all.push(Damage {
                path,
                place: None,
                user: None,
                problem: "it is missing or damaged".to_owned(),
            });
        }
    }
    all
}

/// What lies in the place of a layer that came as a twin.
fn twin_of(folder: &Path, place: &StoredContent) -> Option<StoredContent> {
    let stated = folder.join(serving::twin_path(&place.content.digest));
    let content = place.served.then(|| twins::stated(&stated)).flatten()?;
    Some(StoredContent {
        content,
        path: serving::archive_path(&content.digest),
        ..place.clone()
    })
}

fn problem_of(
    folder: &Path,
    place: &StoredContent,
    since: Option<SystemTime>,
    marks: &mut Marks,
) -> Option<String> {
    let (path, content) = (folder.join(&place.path), &place.content);
    let meta = match std::fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Some("it is missing".to_owned());
        }
        Err(error) => return Some(error.to_string()),
        Ok(meta) => meta,
    };
    if !meta.is_file() {
        return Some("it is not a file".to_owned());
    }
    if meta.len() != content.size {
        let (there, size) = (meta.len(), content.size);
        return Some(format!("it has {there} bytes and not {size}"));
    }
    let (mark, stamp) = (place.path.to_string_lossy(), Stamp::of(&meta));
    // It was read, or written, before all of the generation was found whole, and nothing of it changed since.
    if since.is_some_and(|since| stamp.is_older_than(since)) {
        if since < Some(late()) {
            marks.record(&mark, &content.digest, &stamp);
        }
        return None;
    }
    match generation::matches(&path, &mark, &content.digest, marks) {
        Ok(None) => None,
        Ok(Some(_)) => Some("its bytes were changed".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

/// The files that are missing or damaged, in a sentence.
pub fn sentence(number: u64, damages: &[Damage]) -> String {
    let named = damages.iter().take(MAX_NAMED).map(|damage| {
        let user = damage.user.as_ref();
        let user = user.map_or_else(String::new, |user| format!(" of {user}"));
        format!("`{}`{user}: {}", damage.path.display(), damage.problem)
    });
    let mut named: Vec<String> = named.collect();
    let more = damages.len().saturating_sub(MAX_NAMED);
    if more > 0 {
        named.push(format!("{more} more"));
    }
    let count = match damages.len() {
        1 => "a stored file".to_owned(),
        many => format!("{many} stored files"),
    };
    format!(
        "{count} of bundle {number} missing or damaged: {}",
        named.join("; ")
    )
}

/// The blobs of `index` that hold what is damaged.
fn needed<'i>(index: &'i Index, damages: &[Damage]) -> impl Iterator<Item = &'i Blob> {
    let places = damages.iter().filter_map(|damage| damage.place.as_ref());
    let contents: BTreeSet<Content> = places.map(|place| place.content).collect();
    let has = move |blob: &&Blob| blob.contents.iter().any(|one| contents.contains(one));
    index.blobs.iter().filter(has)
}

/// Whether the stored blobs have all that is damaged.
pub fn can_be_put_back(state_folder: &StateFolder, index: &Index, damages: &[Damage]) -> bool {
    let blobs = Blobs::new(state_folder);
    let Ok(wrong) = blobs.wrong_twins(index) else {
        return false;
    };
    let wrong: BTreeSet<Digest> = wrong.into_iter().map(|twin| twin.layer).collect();
    needed(index, damages).all(|blob| !wrong.contains(&blob.digest) && blobs.is_whole(blob))
}

/// Puts back what is damaged, from the stored blobs.
///
/// # Errors
/// [`GenerationError::Lost`] when a blob is damaged, too; nothing was changed then.
pub fn put_back(
    state_folder: &StateFolder,
    index: &Index,
    limits: &Limits,
    damages: &[Damage],
) -> Result<(), GenerationError> {
    if !can_be_put_back(state_folder, index, damages) {
        let number = index.number;
        let what = sentence(number, damages);
        return Err(GenerationError::Lost { number, what });
    }
    let to = state_folder.generation(index.number);
    // Beside the generation: what is damaged may be a link to the blob, and is replaced, never written to.
    let folder = to.with_extension("put-back");
    durable::remove_tree(&folder)?;
    durable::make_folder(&folder)?;
    let places = damages.iter().filter_map(|damage| damage.place.clone());
    let places: Vec<StoredContent> = places.collect();
    generation::write_contents(&folder, &Blobs::new(state_folder), index, &places, limits)?;
    durable::sync_file_system(&folder)?;
    for place in &places {
        if let Some(archive) = twin_of(&folder, place) {
            let path = &archive.path;
            if folder.join(path).exists() {
                replace(&folder.join(path), &to.join(path))?;
            }
            let stated = serving::twin_path(&place.content.digest);
            replace(&folder.join(&stated), &to.join(&stated))?;
            continue;
        }
        replace(&folder.join(&place.path), &to.join(&place.path))?;
        if place.served {
            // The layer itself is here now: nothing is in its place any more.
            durable::remove_file(&to.join(serving::twin_path(&place.content.digest)))?;
        }
    }
    for (path, bytes) in generation::descriptions(&to, index)? {
        // By its catalog the mirror sees that it has to read all of it again.
        let is_read_again =
            path == Path::new(catalog::FILE) && damages.iter().any(Damage::is_served);
        if is_read_again || damages.iter().any(|damage| damage.path == path) {
            let path = to.join(path);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(at("create", parent))?;
            }
            durable::write(&path, &bytes, 0o644)?;
        }
    }
    durable::sync_file_system(&to)?;
    Ok(durable::remove_tree(&folder)?)
}

fn replace(from: &Path, to: &Path) -> Result<(), FileError> {
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent).map_err(at("create", parent))?;
    }
    if to.is_dir() {
        durable::remove_tree(to)?;
    }
    std::fs::rename(from, to).map_err(at("rename to", to))
}
