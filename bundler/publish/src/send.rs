//! Sends a publication to a target: only what is missing, in the one right order.
//!
//! What comes in: a [`Publication`] and a [`Target`]. What goes out: how much was sent and how much was there. It goes over the
//! objects in their order, so that an interrupted run leaves what leads nowhere yet, and the next one goes on. A target
//! with a newer publication is left as it is.

use outhaul_kit::console::progress::{Meter, Unit};
use outhaul_kit::interrupt;

use crate::error::TargetError;
use crate::listed::{TIMESTAMP, version_of};
use crate::publication::{Object, Publication};
use crate::target::Target;

/// Largest `timestamp.json` in bytes.
const MAX_TIMESTAMP: u64 = 64 * 1024;

/// What is wanted besides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Read every blob back and compare its digest, also those that were there.
    pub read_back: bool,
}

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// Files that were sent.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were there.
    pub there: usize,
    /// Their bytes.
    pub there_bytes: u64,
}

/// Sends what is missing. At the end everything is there.
///
/// # Errors
/// [`TargetError`]; sites see the state before.
pub fn publish(
    publication: &Publication,
    target: &mut dyn Target,
    options: Options,
) -> Result<Sent, TargetError> {
    not_newer(publication, target)?;
    let bytes = publication.objects.iter().map(|one| one.content.size).sum();
    let meter = Meter::new("publishing", Unit::Bytes, Some(bytes));
    let mut sent = Sent::default();
    for object in &publication.objects {
        if object.path == TIMESTAMP {
            // What it leads to is on the disk before it.
            target.sync()?;
        }
        let size = object.content.size;
        if is_there(object, target, options)? {
            meter.add(size);
            sent.there += 1;
            sent.there_bytes += size;
        } else {
            target.put(object, &|bytes| meter.add(bytes))?;
            compare(object, target, options)?;
            sent.files += 1;
            sent.bytes += size;
        }
        interrupt::here();
    }
    target.sync()?;
    Ok(sent)
}

fn not_newer(publication: &Publication, target: &mut dyn Target) -> Result<(), TargetError> {
    let (Some(found), Some(own)) = (
        target.read(TIMESTAMP, MAX_TIMESTAMP)?,
        publication.timestamp().and_then(Object::here),
    ) else {
        return Ok(());
    };
    let place = target.place(TIMESTAMP);
    // One that cannot be read leads nobody anywhere.
    let Some(there) = version_of(&found) else {
        return Ok(());
    };
    let here = publication.version;
    if there > here {
        return Err(TargetError::Newer { place, there, here });
    }
    if there == here && found != own {
        let version = there;
        return Err(TargetError::Split { place, version });
    }
    Ok(())
}

fn is_there(
    object: &Object,
    target: &mut dyn Target,
    options: Options,
) -> Result<bool, TargetError> {
    let content = object.content;
    if let Some(bytes) = object.here() {
        let size = target.size(&object.path)?;
        return Ok(size == Some(content.size)
            && target.read(&object.path, content.size)?.as_deref() == Some(bytes));
    }
    if target.size(&object.path)? != Some(content.size) {
        return Ok(false);
    }
    Ok(!options.read_back || target.digest(&object.path)? == Some(content.digest))
}

/// Compares what was sent with what is there now.
fn compare(object: &Object, target: &mut dyn Target, options: Options) -> Result<(), TargetError> {
    let content = object.content;
    let place = target.place(&object.path);
    let lies = |problem: String| TargetError::Lies {
        place: place.clone(),
        problem,
    };
    match target.size(&object.path)? {
        None => return Err(lies("it has nothing there".to_owned())),
        Some(size) if size != content.size => {
            return Err(lies(format!("{size} bytes, not {}", content.size)));
        }
        Some(_) => {}
    }
    if object.here().is_some() || options.read_back {
        let found = target.digest(&object.path)?;
        let found = found.ok_or_else(|| lies("it has nothing there".to_owned()))?;
        if found != content.digest {
            return Err(TargetError::other_digest(place, found));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
