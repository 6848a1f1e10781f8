//! An assignment with the site's values: its rendered files in a folder of their own, one of them with other lines.
//!
//! What comes in: an assignment whose verified files lie in its generation, and values that its declaration allows. What
//! goes out: the same assignment as reconcilers get it: the digest of the changed file, and a folder that holds all of the
//! rendered files. The folder lies below the generation and goes with it; its name is made of what it holds, so
//! that a half-written one is never taken for a whole one. What the bundle brought is not touched.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::index::site_values::ValueError;
use outhaul_kit::durable::{self, FileError};
use outhaul_reconcilers::Desired;

/// Largest rendered file, in bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Most kept sets of values of one assignment that are looked at; one is in use.
const MAX_KEPT: usize = 16;

/// Why the values cannot be put into the file.
#[derive(Debug)]
pub enum PutError {
    /// The bundle does not allow one: the assignment's fault, or the asker's.
    Value(ValueError),
    /// The disk.
    File(FileError),
}

impl From<FileError> for PutError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl From<ValueError> for PutError {
    fn from(error: ValueError) -> Self {
        Self::Value(error)
    }
}

/// `desired` with `values` in its file; unchanged when there is nothing to change.
///
/// # Errors
/// [`PutError`]; nothing of the bundle was changed then.
pub fn with_values(
    desired: &Desired,
    values: &BTreeMap<String, String>,
) -> Result<Desired, PutError> {
    let Some((mut own, name, text)) = changed(desired, values)? else {
        return Ok(desired.clone());
    };
    let folder = folder(&own);
    if !is_whole(&own, &folder) {
        write(desired, &folder, (name, text.as_bytes()))?;
    }
    own.rendered = folder;
    Ok(own)
}

/// `desired` with each set of values that was put into its file here and is kept whole. Which of them was in use last, nothing of it
/// says. What cannot be read says nothing.
pub fn kept(desired: &Desired) -> Vec<Desired> {
    let Some(declared) = &desired.assignment.site_values else {
        return Vec::new();
    };
    let name = declared.form.file();
    let text = |folder: &Path| {
        let bytes = durable::read(&folder.join(name), MAX_FILE_BYTES).ok()?;
        String::from_utf8(bytes).ok()
    };
    let Some((central, beside)) = text(&desired.rendered).zip(beside(desired)) else {
        return Vec::new();
    };
    let folders = durable::list(&beside).unwrap_or_default().into_iter();
    let with_its = |kept: PathBuf| {
        let written = text(&kept)?;
        let values = declared.keys.keys().filter_map(|key| {
            let value = declared.value_in(&written, key)?;
            (declared.value_in(&central, key).as_ref() != Some(&value))
                .then(|| (key.clone(), value))
        });
        let (mut own, ..) = changed(desired, &values.collect()).ok()??;
        let is_its = folder(&own) == kept && is_whole(&own, &kept);
        own.rendered = kept;
        is_its.then_some(own)
    };
    folders.take(MAX_KEPT).filter_map(with_its).collect()
}

/// The assignment with values, before its files are written: with the name of the file that has them, and its text. `None` when there is
/// nothing to change.
fn changed(
    desired: &Desired,
    values: &BTreeMap<String, String>,
) -> Result<Option<(Desired, &'static str, String)>, PutError> {
    let declared = desired.assignment.site_values.as_ref();
    let Some(declared) = declared.filter(|_| !values.is_empty()) else {
        return Ok(None);
    };
    let name = declared.form.file();
    let bytes = durable::read(&desired.rendered.join(name), MAX_FILE_BYTES)?;
    let text = declared.with(&String::from_utf8_lossy(&bytes), values)?;
    let digest = Digest::of(text.as_bytes());
    let mut own = desired.clone();
    own.site_values.clone_from(values);
    for file in &mut own.assignment.files {
        if file.path.as_str() == name {
            file.content = digest;
            file.size = text.len() as u64;
        }
    }
    Ok(Some((own, name, text)))
}

/// Removes the folders of other values of the same assignment; what is gone already is gone.
///
/// # Errors
/// [`FileError`] of the disk.
pub fn remove_others(own: &Desired) -> Result<(), FileError> {
    let Some(parent) = own
        .rendered
        .parent()
        .filter(|_| !own.site_values.is_empty())
    else {
        return Ok(());
    };
    for path in durable::list(parent)? {
        if path != own.rendered {
            durable::remove_tree(&path)?;
        }
    }
    Ok(())
}

/// `<generation>/site-values/<assignment>/<digest of what it holds>`.
fn folder(own: &Desired) -> PathBuf {
    let files = own.assignment.files.iter();
    let holds: Vec<String> = files
        .map(|file| format!("{} {}", file.content, file.path.as_str()))
        .collect();
    let digest = Digest::of(holds.join("\n").as_bytes()).hex();
    beside(own)
        .unwrap_or_else(|| own.rendered.clone())
        .join(digest)
}

/// `<generation>/site-values/<assignment>`: `<generation>/assignments/<assignment>` is where the verified files lie.
fn beside(own: &Desired) -> Option<PathBuf> {
    let generation = own.rendered.parent().and_then(Path::parent)?;
    let name = own.assignment.name.as_str();
    Some(generation.join("site-values").join(name))
}

fn is_whole(own: &Desired, folder: &Path) -> bool {
    own.assignment.files.iter().all(|file| {
        let read = durable::read(&folder.join(file.path.as_str()), MAX_FILE_BYTES);
        read.is_ok_and(|bytes| Digest::of(&bytes) == file.content)
    })
}

/// Writes all of the files, the changed one with its own bytes: whole and durable, or not at all.
fn write(desired: &Desired, folder: &Path, changed: (&str, &[u8])) -> Result<(), FileError> {
    let new = folder.with_extension(format!("new-{}", std::process::id()));
    durable::remove_tree(&new)?;
    durable::make_folder(&new)?;
    for file in &desired.assignment.files {
        let path = file.path.as_str();
        let to = new.join(path);
        if let Some(parent) = to.parent() {
            durable::make_folder(parent)?;
        }
        let mode = if file.executable { 0o755 } else { 0o644 };
        if path == changed.0 {
            durable::write(&to, changed.1, mode)?;
        } else {
            let bytes = durable::read(&desired.rendered.join(path), MAX_FILE_BYTES)?;
            durable::write(&to, &bytes, mode)?;
        }
    }
    durable::remove_tree(folder)?;
    match durable::rename(&new, folder) {
        Ok(()) => Ok(()),
        // Someone who only looked made the same one meanwhile.
        Err(_) if folder.is_dir() => durable::remove_tree(&new),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
