//! Tar archives, entry by entry: what is equal is copied, what changed is compared with the entry of the same path, or
//! else of the same name.
//!
//! What comes in: a new archive and old ones. What goes out: the pieces that make the new one. Headers and small entries are
//! compressed together and kept aside, at most [`ASIDE_BYTES`] at once; a larger entry is made by itself. It unpacks
//! nothing, and a path is only compared.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;

use outhaul_bundle::patch::{Maker, Region};

use crate::resemble::{self, Resembling};
use crate::{Old, Plain};

/// Entries up to this size are compressed together.
const SMALL_BYTES: u64 = 256 * 1024;
/// Bytes that are compressed together at most.
const ASIDE_BYTES: usize = 4 << 20;
/// Old bytes that they refer to at most.
const PREFIX_BYTES: u64 = 16 << 20;
const BLOCK: u64 = outhaul_bundle::BLOCK as u64;

/// Where an entry lies.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    path: Vec<u8>,
    /// Its headers.
    head: Range<u64>,
    /// Its content with what fills the last block.
    body: Range<u64>,
}

/// The entries of an archive, in order; `None` when it is none.
pub(crate) fn entries(bytes: &Plain) -> Option<Vec<Entry>> {
    let start = bytes.start().ok()?;
    if start.get(257..262)? != b"ustar" {
        return None;
    }
    let mut archive = tar::Archive::new(bytes.reader().ok()?);
    let mut found = Vec::new();
    let mut end = 0;
    for entry in archive.entries_with_seek().ok()? {
        let entry = entry.ok()?;
        let from = entry.raw_file_position();
        let size = entry.header().entry_size().ok()?.max(entry.size());
        let to = from.checked_add(size.div_ceil(BLOCK).checked_mul(BLOCK)?)?;
        if from < end || to > bytes.size() {
            return None;
        }
        found.push(Entry {
            path: entry.path_bytes().into_owned(),
            head: end..from,
            body: from..to,
        });
        end = to;
    }
    // What ends it.
    found.push(Entry {
        path: Vec::new(),
        head: end..bytes.size(),
        body: bytes.size()..bytes.size(),
    });
    Some(found)
}

/// The entries of old archives, by path and by name.
pub(crate) struct OldEntries {
    all: Vec<(usize, Entry)>,
    by_path: BTreeMap<Vec<u8>, usize>,
    by_name: BTreeMap<Vec<u8>, usize>,
}

impl OldEntries {
    /// Those of `olds` that are archives; `None` when none is.
    pub(crate) fn of(olds: &[Old]) -> Option<Self> {
        let mut known = Self {
            all: Vec::new(),
            by_path: BTreeMap::new(),
            by_name: BTreeMap::new(),
        };
        for (source, old) in olds.iter().enumerate() {
            for entry in entries(&old.bytes).unwrap_or_default() {
                let at = known.all.len();
                let has_content = !entry.body.is_empty();
                known.by_path.entry(entry.path.clone()).or_insert(at);
                if has_content {
                    known.by_name.entry(name(&entry.path)).or_insert(at);
                }
                known.all.push((source, entry));
            }
        }
        (!known.all.is_empty()).then_some(known)
    }

    /// What an entry is compared with.
    fn like(&self, entry: &Entry) -> Option<&(usize, Entry)> {
        let at = self.by_path.get(&entry.path);
        let has_content = |at: &&usize| {
            entry.body.is_empty()
                || self
                    .all
                    .get(**at)
                    .is_some_and(|(_, old)| !old.body.is_empty())
        };
        let at = at.filter(has_content);
        let at = at.or_else(|| self.by_name.get(&name(&entry.path)));
        self.all.get(*at?)
    }
}

/// The last part of a path. Versions of libraries are in names: digits are not compared.
fn name(path: &[u8]) -> Vec<u8> {
    let end = path
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |at| at + 1);
    let path = path.get(..end).unwrap_or_default();
    let last = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let without = last.iter().filter(|byte| !byte.is_ascii_digit());
    without.copied().collect()
}

/// Makes the archive `new`; whether `within` was true all the time.
pub(crate) fn patch(
    new: &Plain,
    entries: &[Entry],
    olds: &[Old],
    known: &OldEntries,
    maker: &mut Maker<File>,
    within: &dyn Fn(&Maker<File>) -> bool,
) -> io::Result<bool> {
    let mut group = Group::default();
    for entry in entries {
        let like = known.like(entry);
        let region = |range: &Range<u64>, source: usize| Region {
            source,
            offset: range.start,
            length: range.end - range.start,
        };
        let head = like.map(|(source, old)| region(&old.head, *source));
        group.add(new, &entry.head, head, olds)?;
        let body = like.map(|(source, old)| region(&old.body, *source));
        let size = entry.body.end - entry.body.start;
        let is_same = body
            .filter(|body| body.length == size)
            .map(|body| equal(new, &entry.body, olds, &body));
        match (is_same.transpose()?, body) {
            (Some(true), Some(body)) => group.actions.push(Action::Copy(body)),
            (_, body) if size <= SMALL_BYTES => group.add(new, &entry.body, body, olds)?,
            (_, body) => {
                group.flush(maker, olds)?;
                let mut old =
                    Resembling::spans(body.into_iter().filter(|b| b.length > 0).collect());
                if !resemble::patch(new, entry.body.clone(), olds, &mut old, maker, within)? {
                    return Ok(false);
                }
            }
        }
        if group.bytes.len() >= ASIDE_BYTES || group.prefix >= PREFIX_BYTES {
            group.flush(maker, olds)?;
        }
        if !within(maker) {
            return Ok(false);
        }
    }
    group.flush(maker, olds)?;
    Ok(within(maker))
}

fn equal(new: &Plain, range: &Range<u64>, olds: &[Old], old: &Region) -> io::Result<bool> {
    const AT_ONCE: u64 = 1 << 20;
    let mut done = 0;
    while done < old.length {
        let length = AT_ONCE.min(old.length - done);
        let part = Region {
            offset: old.offset + done,
            length,
            ..*old
        };
        if new.read(range.start + done, length)? != resemble::read(olds, &[part])? {
            return Ok(false);
        }
        done += length;
    }
    Ok(true)
}

/// What is to be done, in order.
enum Action {
    Copy(Region),
    /// So many bytes of what is kept aside.
    Aside(u64),
}

/// Headers and small entries that are compressed together.
#[derive(Default)]
struct Group {
    actions: Vec<Action>,
    bytes: Vec<u8>,
    regions: Vec<Region>,
    prefix: u64,
}

impl Group {
    /// The next bytes are `range` of `new`, which resemble `old`.
    fn add(
        &mut self,
        new: &Plain,
        range: &Range<u64>,
        old: Option<Region>,
        olds: &[Old],
    ) -> io::Result<()> {
        let length = range.end - range.start;
        if length == 0 {
            return Ok(());
        }
        if let Some(old) = old.filter(|old| old.length == length)
            && equal(new, range, olds, &old)?
        {
            self.actions.push(Action::Copy(old));
            return Ok(());
        }
        self.bytes.append(&mut new.read(range.start, length)?);
        self.actions.push(Action::Aside(length));
        // A reader is asked for little more than what it makes.
        let most = length.saturating_mul(4).saturating_add(BLOCK);
        if let Some(mut old) = old {
            old.length = old.length.min(most);
            if old.length > 0 {
                self.prefix += old.length;
                match self.regions.last_mut() {
                    Some(last)
                        if last.source == old.source && last.offset + last.length == old.offset =>
                    {
                        last.length += old.length;
                    }
                    _ => self.regions.push(old),
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self, maker: &mut Maker<File>, olds: &[Old]) -> io::Result<()> {
        let group = std::mem::take(self);
        let prefix = resemble::read(olds, &group.regions)?;
        maker.keep_aside(&group.bytes, &group.regions, &prefix)?;
        let mut offset = 0;
        for action in group.actions {
            match action {
                Action::Copy(region) => maker.copy(region),
                Action::Aside(length) => {
                    let source = maker.aside();
                    maker.copy(Region {
                        source,
                        offset,
                        length,
                    });
                    offset += length;
                }
            }
        }
        Ok(())
    }
}
