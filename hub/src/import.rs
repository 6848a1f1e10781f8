//! Import: files and folders, such as a stick, with bundles, bills of materials, requests and reports in any mix.
//!
//! What comes in: paths. What goes out: what became of each file, and for a folder with reports the
//! acknowledgements beside them (`acks/<site>.acks`), which the site reads when the stick comes back.
//! Bundles are read before bills and requests, and requests before reports, so that one visit is enough. A file
//! that is refused is named with its reason and does not stop the rest; nothing on a stick is changed
//! but the acknowledgements. No link on it is followed, and only regular files are opened.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use outhaul_bundle::report::MAX_REPORTS_BYTES;
use outhaul_kit::durable::{self, FileError};
use outhaul_kit::failure::FailureClass;
use outhaul_kit::media::{self, Bounds, FileOrFolder, Media};
use outhaul_kit::text;
use serde::Serialize;

use crate::desired::{self, DesiredError, RecordedBundle};
use crate::enrol::Enrolled;
use crate::error::HubError;
use crate::ingest::{self, Batch, Ingested};
use crate::materials;
use crate::state::{Hub, StateError};

mod acks;
mod bills;
mod other_files;
mod refused;
mod requests;

pub use acks::{WrittenAcks, write_acks};
use acks::{refuse_place, write_acks_to};
pub use refused::RefusedFile;
use refused::{EMPTY, RefusedBytes};

/// How much of a folder is searched: a stick has few levels.
const BOUNDS: Bounds = Bounds {
    depth: 8,
    entries: 1_000_000,
    kept: 100_000,
};

/// What became of an import.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Bundles on record, new or known.
    pub bundles: Vec<RecordedBundle>,
    /// What became of each enrolment request.
    pub requests: Vec<ImportedRequest>,
    /// Bills of materials that are new.
    pub materials: u64,
    /// Bills of materials that were on record already.
    pub known_materials: u64,
    /// Reports that are new.
    pub reports: u64,
    /// Reports that were on record already.
    pub duplicates: u64,
    /// How many of these were removed since because they are old.
    pub no_longer_kept: u64,
    /// How many of these put back a signed text that was lost.
    pub restored: u64,
    /// What was refused, by file.
    pub refused: Vec<RefusedFile>,
    /// The files of these, by their bytes.
    #[serde(skip)]
    refused_bytes: Vec<RefusedBytes>,
    /// Digests of files that this import refused first: another file with the same bytes is new, too.
    #[serde(skip)]
    refused_first: BTreeSet<String>,
    /// Acknowledgement files written.
    pub acks: Vec<String>,
    /// Why acknowledgements could not be written: of each folder, or of each of its sites, in the order of the paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acks_problems: Vec<String>,
    /// Files that are none of the four kinds.
    pub ignored: u64,
}

impl Imported {
    /// Whether there was nothing to import, and nothing new was refused either.
    pub fn is_nothing(&self) -> bool {
        self.bundles.is_empty()
            && self.requests.is_empty()
            && self.refused.iter().all(|refused| refused.known)
            && self.reports + self.duplicates + self.materials + self.known_materials == 0
    }
}

/// An enrolment request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportedRequest {
    /// The site that it names.
    pub site: String,
    /// The fingerprint of its key.
    pub fingerprint: String,
    /// What became of it.
    pub result: Enrolled,
}

/// What a file is, by its name. Sticks are FAT: what writes them may turn all letters into capitals, and cut
/// the name down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Bundle,
    Materials,
    Request,
    Reports,
}

impl Sort {
    fn of(name: &Path) -> Option<Self> {
        let kinds = [
            ("outhaul", Self::Bundle),
            ("request", Self::Request),
            ("reports", Self::Reports),
        ];
        let text = name.to_string_lossy().to_ascii_lowercase();
        if materials::is_one(&text) {
            return Some(Self::Materials);
        }
        let kind = kinds
            .into_iter()
            .find(|(end, _)| media::is_named(name, end));
        kind.map(|(_, sort)| sort)
    }
}

/// Files of one folder, by their relative paths.
struct Folder {
    media: Media,
    files: Vec<PathBuf>,
}

impl Folder {
    fn of(&self, sort: Sort) -> Vec<PathBuf> {
        let files = self.files.iter();
        files
            .filter(|path| Sort::of(path) == Some(sort))
            .cloned()
            .collect()
    }

    /// The file, and its path for messages; `None` when it is gone since it was listed.
    fn open(&self, path: &Path) -> Result<Option<(File, PathBuf)>, FileError> {
        let file = self.media.open_file(path)?;
        Ok(file.map(|file| (file, self.media.path().join(path))))
    }
}

/// Imports every path; with `write_acks`, folders get their acknowledgements.
///
/// # Errors
/// [`HubError`] when a path cannot be read or the store fails. Refused content is not an error.
pub fn import(
    hub: &mut Hub,
    paths: &[PathBuf],
    write_acks: bool,
    now_ms: i64,
) -> Result<Imported, HubError> {
    refuse_unusable(paths)?;
    let mut done = Imported::default();
    for path in paths {
        let from = done.refused.len();
        let imported = import_place(hub, path, write_acks, &mut done, now_ms);
        // Together: a stick full of forgeries would keep the store busy one by one.
        refused::record(hub, &mut done, from, now_ms)?;
        imported?;
    }
    Ok(done)
}

/// Looks at every path before anything is taken in: a name that was mistyped must not leave half of them imported.
fn refuse_unusable(paths: &[PathBuf]) -> Result<(), HubError> {
    let looked = |path: &PathBuf| match FileOrFolder::open(path) {
        Err(error) => Err((error.to_string(), FailureClass::Environment)),
        Ok(FileOrFolder::Folder(_)) => Ok("a folder, can be read"),
        Ok(FileOrFolder::File(_)) if Sort::of(path).is_some() => Ok("a file, can be read"),
        Ok(FileOrFolder::File(file)) => {
            let problem = other_files::problem(path, &file);
            Err((problem, FailureClass::Usage))
        }
    };
    let found: Vec<_> = paths.iter().map(|path| (path, looked(path))).collect();
    let unusable = found.iter().filter_map(|(_, one)| one.as_ref().err());
    let Some(class) = unusable.map(|(_, class)| *class).max() else {
        return Ok(());
    };
    // With one path its own error has more to help with.
    if paths.len() == 1 {
        return Ok(());
    }
    let lines = found.iter().map(|(path, one)| {
        let text = match one {
            Ok(text) => text,
            Err((text, _)) => text.as_str(),
        };
        format!("\n  - `{}`: {text}", text::path(path))
    });
    Err(HubError::Paths {
        lines: lines.collect(),
        class,
    })
}

fn import_place(
    hub: &mut Hub,
    path: &Path,
    write_acks: bool,
    done: &mut Imported,
    now_ms: i64,
) -> Result<(), HubError> {
    let media = match FileOrFolder::open(path)? {
        FileOrFolder::File(file) => return import_file(hub, path, file, done, now_ms),
        FileOrFolder::Folder(media) => media,
    };
    let folder = search(media, done)?;
    let sites = import_found(hub, &folder, done, now_ms)?;
    if !write_acks || sites.is_empty() {
        return Ok(());
    }
    // A folder of someone is read like any other, and nothing is written into it.
    if let Err(refused) = refuse_place(&folder.media) {
        done.acks_problems.push(refused.to_string());
        return Ok(());
    }
    match write_acks_to(hub, &folder.media, Some(&sites), now_ms) {
        Ok(written) => {
            done.acks.extend(written.files);
            done.acks_problems.extend(written.failed);
        }
        // A read-only stick: the reports are in, and that is what matters.
        Err(HubError::File(error)) => done.acks_problems.push(error.to_string()),
        Err(HubError::State(error @ StateError::Clock { .. })) => {
            done.acks_problems.push(error.to_string());
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn import_file(
    hub: &mut Hub,
    path: &Path,
    file: File,
    done: &mut Imported,
    now_ms: i64,
) -> Result<(), HubError> {
    let Some(sort) = Sort::of(path) else {
        return Err(other_files::refusal(path, &file));
    };
    import_one(hub, sort, path, file, done, now_ms).map(drop)
}

/// One file; what was refused of it is noted with the digest of its bytes.
fn import_one(
    hub: &mut Hub,
    sort: Sort,
    path: &Path,
    file: File,
    done: &mut Imported,
    now_ms: i64,
) -> Result<Ingested, HubError> {
    let from = done.refused.len();
    let again = file.try_clone().map_err(durable::at("open", path))?;
    let ingested = match sort {
        Sort::Bundle => import_bundle(hub, path, file, done, now_ms).map(|()| Ingested::default()),
        Sort::Materials => {
            bills::import(hub, path, file, done, now_ms).map(|()| Ingested::default())
        }
        Sort::Request => {
            requests::import(hub, path, file, done, now_ms).map(|()| Ingested::default())
        }
        Sort::Reports => import_reports(hub, path, file, done, now_ms),
    }?;
    if let Some(bytes) = RefusedBytes::of(&done.refused, from, again, path)? {
        done.refused_bytes.push(bytes);
    }
    Ok(ingested)
}

fn import_found(
    hub: &mut Hub,
    folder: &Folder,
    done: &mut Imported,
    now_ms: i64,
) -> Result<BTreeSet<String>, HubError> {
    let order = |path: &PathBuf| match folder.open(path) {
        Ok(Some((file, _))) => desired::claimed_order(file),
        _ => u64::MAX,
    };
    let mut bundles = folder.of(Sort::Bundle);
    if bundles.len() > 1 {
        bundles.sort_by_cached_key(|path| (order(path), path.clone()));
    }
    for path in bundles {
        if let Some((file, path)) = opened(folder, &path, done) {
            import_one(hub, Sort::Bundle, &path, file, done, now_ms)?;
        }
    }
    for path in folder.of(Sort::Materials) {
        if let Some((file, path)) = opened(folder, &path, done) {
            import_one(hub, Sort::Materials, &path, file, done, now_ms)?;
        }
    }
    for path in folder.of(Sort::Request) {
        if let Some((file, path)) = opened(folder, &path, done) {
            import_one(hub, Sort::Request, &path, file, done, now_ms)?;
        }
    }
    let mut sites = BTreeSet::new();
    for path in folder.of(Sort::Reports) {
        if let Some((file, path)) = opened(folder, &path, done) {
            let ingested = import_one(hub, Sort::Reports, &path, file, done, now_ms)?;
            sites.extend(ingested.complete.into_iter().map(|complete| complete.site));
        }
    }
    Ok(sites)
}

/// An entry that cannot be used does not stop the rest.
fn opened(folder: &Folder, path: &Path, done: &mut Imported) -> Option<(File, PathBuf)> {
    folder.open(path).unwrap_or_else(|error| {
        done.refused.push(RefusedFile::unusable(&error));
        None
    })
}

fn import_bundle(
    hub: &mut Hub,
    path: &Path,
    file: File,
    done: &mut Imported,
    now_ms: i64,
) -> Result<(), HubError> {
    let fleet = hub.fleet().to_owned();
    match desired::record(&mut hub.store, file, &fleet, now_ms) {
        Ok(recorded) => done.bundles.push(recorded),
        Err(DesiredError::Store(error)) => return Err(error.into()),
        Err(error) if error.is_environment() => {
            let file = text::path(path);
            return Err(HubError::Bundle {
                file,
                source: Box::new(error),
            });
        }
        Err(error) => {
            let (rule, reason) = (error.rule(), error.to_string());
            refuse(done, path, rule, reason);
        }
    }
    Ok(())
}

fn import_reports(
    hub: &mut Hub,
    path: &Path,
    file: File,
    done: &mut Imported,
    now_ms: i64,
) -> Result<Ingested, HubError> {
    let size = file.metadata().map_err(durable::at("look at", path))?.len();
    if size == 0 {
        let reason = "it is empty: the stick was full, or was pulled out while it was written; the site still has \
                      the reports, export them again";
        let refused = RefusedFile::whole(path, EMPTY, reason.to_owned(), false);
        done.refused.push(refused);
        return Ok(Ingested::default());
    }
    if size > MAX_REPORTS_BYTES {
        let reason = format!(
            "it has {size} bytes, a file of reports {MAX_REPORTS_BYTES} at most; nothing of it was read"
        );
        refuse(done, path, "too-large", reason);
        return Ok(Ingested::default());
    }
    let via: String = text::file_name(path).chars().take(200).collect();
    let fleet = hub.fleet().to_owned();
    let batch = Batch {
        fleet: &fleet,
        via: &via,
        received_ms: now_ms,
    };
    let ingested = ingest::ingest_unrecorded(
        &mut hub.store,
        BufReader::new(file.take(MAX_REPORTS_BYTES)),
        &batch,
    )?;
    done.reports += ingested.accepted;
    done.duplicates += ingested.duplicates;
    done.no_longer_kept += ingested.no_longer_kept;
    done.restored += ingested.restored;
    let lines = ingested.refused_groups.iter().map(|group| RefusedFile {
        file: text::path(path),
        line: Some(group.first_line),
        lines: Some(group.lines),
        last_line: Some(group.last_line),
        site: group.site.clone(),
        rule: group.rule.to_string(),
        reason: group.reason.clone(),
        known: false,
        is_trust: group.rule != "unknown-site",
    });
    done.refused.extend(lines);
    Ok(ingested)
}

fn refuse(done: &mut Imported, path: &Path, rule: &str, reason: String) {
    // A bound was met; nobody lied.
    let is_trust = rule != "too-many";
    done.refused
        .push(RefusedFile::whole(path, rule, reason, is_trust));
}

/// Files of the four kinds below a folder; what has such a name and is not a regular file is refused.
fn search(media: Media, done: &mut Imported) -> Result<Folder, HubError> {
    let found = media.files(BOUNDS, |name| Sort::of(Path::new(name)).is_some())?;
    if found.incomplete {
        return Err(HubError::Usage {
            problem: format!(
                "more than {} files or {} entries below `{}`",
                BOUNDS.kept,
                BOUNDS.entries,
                text::path(media.path())
            ),
            help: "import the folders one by one".into(),
        });
    }
    done.ignored += found.ignored as u64;
    done.refused
        .extend(found.unusable.iter().map(RefusedFile::unusable));
    Ok(Folder {
        media,
        files: found.files,
    })
}
