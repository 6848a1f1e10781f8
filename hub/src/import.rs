//! Import: files and folders, such as a stick, with bundles, requests and reports in any mix.
//!
//! What comes in: paths. What goes out: what became of each file, and for a folder with reports the
//! acknowledgements beside them (`acks/<site>.acks`), which the site reads when the stick comes back.
//! Bundles are read before requests and requests before reports, so that one visit is enough. A file
//! that is refused is named with its reason and does not stop the rest; nothing on a stick is changed
//! but the acknowledgements.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use outhaul_signer::durable::{self, FileError};
use outhaul_signer::envelope::MAX_ENVELOPE_BYTES;
use serde::Serialize;

use crate::desired::{self, DesiredError, Recorded};
use crate::enrol::{self, EnrolError, Enrolled};
use crate::error::HubError;
use crate::ingest::{self, Batch, Complete, Ingested};
use crate::state::Hub;
use crate::store::{Origin, Refusal, StoreError};

/// How deep a folder is searched: a stick has few levels.
const MAX_DEPTH: usize = 8;
/// Most files looked at.
const MAX_FILES: usize = 100_000;

/// What became of an import.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Bundles on record, new or known.
    pub bundles: Vec<Recorded>,
    /// What became of each enrolment request.
    pub requests: Vec<Requested>,
    /// Reports that are new.
    pub reports: u64,
    /// Reports that were on record already.
    pub duplicates: u64,
    /// What was refused, by file.
    pub refused: Vec<RefusedFile>,
    /// Acknowledgement files written.
    pub acks: Vec<String>,
    /// Why acknowledgements could not be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acks_problem: Option<String>,
    /// Files that are none of the three kinds.
    pub ignored: u64,
}

/// An enrolment request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Requested {
    /// The site that it names.
    pub site: String,
    /// The fingerprint of its key.
    pub fingerprint: String,
    /// What became of it.
    pub result: Enrolled,
}

/// A file, or a line of one, that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedFile {
    /// The file.
    pub file: String,
    /// The line, for reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The rule.
    pub rule: String,
    /// What was expected and found.
    pub reason: String,
    /// Whether it is a matter of trust.
    #[serde(skip)]
    pub is_trust: bool,
}

#[derive(Debug, Default)]
struct Found {
    bundles: Vec<PathBuf>,
    requests: Vec<PathBuf>,
    reports: Vec<PathBuf>,
    ignored: u64,
}

/// Imports every path; with `write_acks`, folders get their acknowledgements.
///
/// # Errors
/// [`HubError`] when a path cannot be read or the store fails. Refused content is no error.
pub fn import(
    hub: &mut Hub,
    paths: &[PathBuf],
    write_acks: bool,
    now_ms: i64,
) -> Result<Imported, HubError> {
    let mut done = Imported::default();
    for path in paths {
        let mut found = Found::default();
        let is_folder = fs::metadata(path).map_err(read_error(path))?.is_dir();
        if is_folder {
            search(path, 0, &mut found)?;
        } else {
            sort_in(path, &mut found);
        }
        if !is_folder && found.ignored > 0 {
            return Err(HubError::Usage {
                problem: format!("`{}` is no bundle, request or report file", path.display()),
                help: "expected `*.outhaul`, `*.request` or `*.reports`, or a folder with some"
                    .into(),
            });
        }
        done.ignored += found.ignored;
        let sites = import_found(hub, found, &mut done, now_ms)?;
        if is_folder && write_acks && !sites.is_empty() {
            match self::write_acks(hub, path, Some(&sites), now_ms) {
                Ok(files) => done.acks.extend(files),
                // A read-only stick: the reports are in, and that is what matters.
                Err(HubError::File(error)) => {
                    done.acks_problem = Some(crate::error::chain(&error));
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(done)
}

/// Writes `acks/<site>.acks` below `folder`, for `only` these sites or for all. Returns the files.
///
/// # Errors
/// [`HubError::File`] when the folder cannot be written.
pub fn write_acks(
    hub: &mut Hub,
    folder: &Path,
    only: Option<&BTreeSet<String>>,
    now_ms: i64,
) -> Result<Vec<String>, HubError> {
    let chains = hub.store.read(|session| session.acknowledged())?;
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for (site, epoch, number) in chains {
        if only.is_some_and(|only| !only.contains(&site)) {
            continue;
        }
        let complete = Complete {
            site,
            epoch,
            number,
        };
        let line = hub.acknowledge(&complete, now_ms)?.to_json();
        let bytes = files.entry(complete.site).or_default();
        bytes.extend_from_slice(line.trim_ascii());
        bytes.push(b'\n');
    }
    let folder = folder.join("acks");
    if !files.is_empty() {
        durable::create_folder(&folder)?;
    }
    let mut written = Vec::new();
    for (site, bytes) in files {
        let path = folder.join(format!("{site}.acks"));
        durable::write(&path, &bytes, durable::PUBLIC_MODE)?;
        written.push(path.display().to_string());
    }
    Ok(written)
}

fn import_found(
    hub: &mut Hub,
    mut found: Found,
    done: &mut Imported,
    now_ms: i64,
) -> Result<BTreeSet<String>, HubError> {
    let order = |path: &PathBuf| File::open(path).map_or(u64::MAX, desired::claimed_order);
    if found.bundles.len() > 1 {
        found
            .bundles
            .sort_by_cached_key(|path| (order(path), path.clone()));
    }
    for path in &found.bundles {
        import_bundle(hub, path, done, now_ms)?;
    }
    for path in &found.requests {
        import_request(hub, path, done, now_ms)?;
    }
    let mut sites = BTreeSet::new();
    for path in &found.reports {
        let ingested = import_reports(hub, path, done, now_ms)?;
        sites.extend(ingested.complete.into_iter().map(|complete| complete.site));
    }
    Ok(sites)
}

fn import_bundle(
    hub: &mut Hub,
    path: &Path,
    done: &mut Imported,
    now_ms: i64,
) -> Result<(), HubError> {
    let file = File::open(path).map_err(read_error(path))?;
    let fleet = hub.fleet().to_owned();
    match desired::record(&mut hub.store, file, &fleet, now_ms) {
        Ok(recorded) => done.bundles.push(recorded),
        Err(DesiredError::Store(error)) => return Err(error.into()),
        Err(error) if error.is_environment() => {
            let file = path.display().to_string();
            return Err(HubError::Bundle {
                file,
                source: Box::new(error),
            });
        }
        Err(error) => {
            let (rule, reason) = (error.rule(), error.to_string());
            refuse(hub, done, (path, None), rule, reason, now_ms)?;
        }
    }
    Ok(())
}

fn import_request(
    hub: &mut Hub,
    path: &Path,
    done: &mut Imported,
    now_ms: i64,
) -> Result<(), HubError> {
    let bytes = durable::read(path, MAX_ENVELOPE_BYTES as u64)?;
    let outcome = enrol::check(&bytes, hub.fleet()).and_then(|checked| {
        let result = hub
            .store
            .write(|session| enrol::receive(session, &checked, Origin::FILE, now_ms))?;
        Ok(Requested {
            site: checked.request.site.to_string(),
            fingerprint: checked.key.id(),
            result,
        })
    });
    match outcome {
        Ok(requested) => done.requests.push(requested),
        Err(EnrolError::Store(error)) => return Err(error.into()),
        Err(error) => {
            let (rule, reason) = (error.rule(), crate::error::chain(&error));
            refuse(hub, done, (path, None), rule, reason, now_ms)?;
        }
    }
    Ok(())
}

fn import_reports(
    hub: &mut Hub,
    path: &Path,
    done: &mut Imported,
    now_ms: i64,
) -> Result<Ingested, HubError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let via: String = name.chars().filter(|c| !c.is_control()).take(200).collect();
    let file = File::open(path).map_err(read_error(path))?;
    let fleet = hub.fleet().to_owned();
    let batch = Batch {
        fleet: &fleet,
        via: &via,
        received_ms: now_ms,
    };
    let ingested = ingest::ingest(&mut hub.store, BufReader::new(file), &batch)?;
    done.reports += ingested.accepted;
    done.duplicates += ingested.duplicates;
    let lines = ingested.refused.iter().map(|line| RefusedFile {
        file: path.display().to_string(),
        line: Some(line.line),
        rule: line.rule.to_owned(),
        reason: line.reason.clone(),
        is_trust: line.rule != "unknown-site",
    });
    done.refused.extend(lines);
    Ok(ingested)
}

fn refuse(
    hub: &mut Hub,
    done: &mut Imported,
    (path, line): (&Path, Option<u64>),
    rule: &str,
    reason: String,
    now_ms: i64,
) -> Result<(), HubError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    hub.store
        .write(|session| {
            session.add_refusal(&Refusal {
                at_ms: now_ms,
                source: name.into_owned(),
                site: None,
                rule: rule.to_owned(),
                message: reason.clone(),
            })
        })
        .map_err(|error: StoreError| HubError::from(error))?;
    let file = path.display().to_string();
    done.refused.push(RefusedFile {
        file,
        line,
        rule: rule.to_owned(),
        reason,
        is_trust: true,
    });
    Ok(())
}

fn search(folder: &Path, depth: usize, found: &mut Found) -> Result<(), HubError> {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .and_then(Iterator::collect::<io::Result<Vec<_>>>)
        .map_err(read_error(folder))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let kind = entry.file_type().map_err(read_error(&path))?;
        // Links are not followed: a stick must not point into this machine.
        if kind.is_dir() && depth < MAX_DEPTH {
            search(&path, depth + 1, found)?;
        } else if kind.is_file() {
            let seen = found.bundles.len() + found.requests.len() + found.reports.len();
            if seen >= MAX_FILES {
                return Err(HubError::Usage {
                    problem: format!("more than {MAX_FILES} files below `{}`", folder.display()),
                    help: "import the folders one by one".into(),
                });
            }
            sort_in(&path, found);
        }
    }
    Ok(())
}

fn sort_in(path: &Path, found: &mut Found) {
    let hidden = path
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with('.'));
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("outhaul") if !hidden => found.bundles.push(path.to_owned()),
        Some("request") if !hidden => found.requests.push(path.to_owned()),
        Some("reports") if !hidden => found.reports.push(path.to_owned()),
        _ => found.ignored += 1,
    }
}

fn read_error(path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_owned();
    move |source| FileError {
        doing: "read",
        path,
        source,
    }
}
