//! A program out of an unpacked bundle, into the slot that is not in use.
//!
//! What comes in: a file, and the digest, size and version that signed metadata lists. What goes out: the program in its slot,
//! whole and durable, and a trial that is wanted; or why not. A program for another architecture is refused before
//! anything is written. The program in use is not touched.

use std::fs::{OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use outhaul_bundle::Digest;
use outhaul_bundle::digest::Hasher;
use outhaul_bundle::index::Content;
use outhaul_bundle::index::release::{HEADER_BYTES, architecture_of};
use outhaul_kit::durable::{self, FileError, at};

use crate::slots::{self, Program, Slots, Trial};

/// Why a program is not in a slot.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// It can never run here.
    #[error("the agent that bundle {bundle} brings cannot run here: {why}")]
    Unfit {
        /// The bundle.
        bundle: u64,
        /// Why.
        why: String,
    },
    /// The file is not what was signed: the disk's fault.
    #[error(
        "the agent that bundle {bundle} brings is damaged on disk: expected {expected}, found {found}"
    )]
    Damaged {
        /// The bundle.
        bundle: u64,
        /// What was signed.
        expected: Digest,
        /// What is there.
        found: Digest,
    },
    /// The disk.
    #[error(transparent)]
    File(#[from] FileError),
}

/// What is to be put into a slot.
#[derive(Debug, Clone, Copy)]
pub struct NewProgram<'a> {
    /// Where it lies.
    pub file: &'a Path,
    /// What was signed of it.
    pub content: Content,
    /// Its version.
    pub version: &'a str,
    /// The number of the bundle that brought it.
    pub bundle: u64,
    /// This machine's architecture.
    pub architecture: &'a str,
}

/// Puts a program into the free slot and wants it tried. `cut` is called at each instant with its name.
///
/// # Errors
/// [`InstallError`]; what is in use stays so. One that can never run here is remembered as failed.
pub fn install(
    state: &Path,
    new: NewProgram<'_>,
    cut: &dyn Fn(&'static str),
) -> Result<(), InstallError> {
    let mut slots = Slots::read(state)?;
    let slot = slots.free();
    let program = Program {
        slot,
        version: new.version.to_owned(),
        digest: new.content.digest,
        bundle: new.bundle,
    };
    let mut from = durable::open_file(new.file).map_err(at("open", new.file))?;
    let mut header = vec![0; HEADER_BYTES];
    let fits = match from.read_exact(&mut header) {
        Ok(()) => architecture_of(&header),
        Err(_) => Err("it is too short for a program".to_owned()),
    };
    let unfit = match fits {
        Ok(found) if found == new.architecture => None,
        Ok(found) => Some(format!(
            "it is for {found}, and this machine is {}",
            new.architecture
        )),
        Err(why) => Some(why),
    };
    if let Some(why) = unfit {
        let error = InstallError::Unfit {
            bundle: new.bundle,
            why,
        };
        slots.fail(&program, &error.to_string());
        slots.write(state)?;
        return Err(error);
    }
    let to = slots::program(state, slot);
    let folder = to.parent().unwrap_or(state).to_owned();
    durable::remove_tree(&folder)?;
    durable::make_folder(&folder)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o700)
        .open(&to)
        .map_err(at("create", &to))?;
    let mut hasher = Hasher::new();
    hasher.update(&header);
    file.write_all(&header).map_err(at("write", &to))?;
    // No more than was signed.
    let mut rest = from.take(new.content.size.saturating_sub(HEADER_BYTES as u64) + 1);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = rest.read(&mut buffer).map_err(at("read", new.file))?;
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
            break;
        };
        hasher.update(bytes);
        file.write_all(bytes).map_err(at("write", &to))?;
    }
    let (found, _) = hasher.finish();
    if found != new.content.digest {
        let (bundle, expected) = (new.bundle, new.content.digest);
        return Err(InstallError::Damaged {
            bundle,
            expected,
            found,
        });
    }
    file.set_permissions(Permissions::from_mode(0o700))
        .map_err(at("write", &to))?;
    file.sync_all().map_err(at("write", &to))?;
    durable::sync_folder(&folder)?;
    cut("slot-written");
    slots.trial = Some(Trial {
        program,
        attempts: 0,
        why: String::new(),
    });
    slots.write(state)?;
    cut("trial-wanted");
    Ok(())
}

/// Whether a slot holds the program that it is to hold.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn check(state: &Path, program: &Program) -> Result<(), String> {
    let path = slots::program(state, program.slot);
    let wrong = |error: std::io::Error| format!("`{}` cannot be read: {error}", path.display());
    let mut file = durable::open_file(&path).map_err(wrong)?;
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = file.read(&mut buffer).map_err(wrong)?;
        match buffer.get(..count).filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => hasher.update(bytes),
            None => break,
        }
    }
    match hasher.finish().0 == program.digest {
        true => Ok(()),
        false => Err(format!(
            "`{}` is not what was signed: the disk changed it",
            path.display()
        )),
    }
}
