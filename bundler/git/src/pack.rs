//! A pack of some commits with all of their trees and files, and without their history.
//!
//! What comes in: objects, in the order of their ids. What goes out: the bytes of a pack, version 2. They are
//! the same on any machine: objects are stored whole, in deflate blocks that compress nothing, so that neither
//! git's choice of deltas nor the version of a compression library shows. What carries the pack compresses it.

use std::io::{self, Write};

use sha1::{Digest as _, Sha1};
use sha2::Sha256;

/// Most bytes of one stored deflate block.
const BLOCK_BYTES: usize = 65_535;

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// A commit.
    Commit,
    /// A folder.
    Tree,
    /// A file.
    Blob,
}

impl ObjectKind {
    /// The kind that git calls so.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "commit" => Some(Self::Commit),
            "tree" => Some(Self::Tree),
            "blob" => Some(Self::Blob),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tree => "tree",
            Self::Blob => "blob",
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Commit => 1,
            Self::Tree => 2,
            Self::Blob => 3,
        }
    }
}

/// The hash that ids are by.
#[derive(Debug, Clone)]
enum Hash {
    Sha1(Sha1),
    Sha256(Sha256),
}

impl Hash {
    /// The one whose ids have `length` digits.
    fn of_length(length: usize) -> Self {
        match length {
            64 => Self::Sha256(Sha256::new()),
            _ => Self::Sha1(Sha1::new()),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha1(hash) => hash.update(bytes),
            Self::Sha256(hash) => hash.update(bytes),
        }
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Self::Sha1(hash) => hash.finalize().to_vec(),
            Self::Sha256(hash) => hash.finalize().to_vec(),
        }
    }
}

/// The id of an object, in as many digits as `like` has.
pub fn id_of(kind: ObjectKind, bytes: &[u8], like: &str) -> String {
    let mut hash = ObjectHash::new(kind, bytes.len() as u64, like);
    hash.update(bytes);
    hash.id()
}

/// The id of an object whose content comes in pieces.
#[derive(Debug)]
pub struct ObjectHash(Hash);

impl ObjectHash {
    /// Of an object of `size` bytes, in as many digits as `like` has.
    pub fn new(kind: ObjectKind, size: u64, like: &str) -> Self {
        let mut hash = Hash::of_length(like.len());
        hash.update(format!("{} {size}\0", kind.name()).as_bytes());
        Self(hash)
    }

    /// Adds the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The id of what came.
    pub fn id(self) -> String {
        hex::encode(self.0.finish())
    }
}

/// A pack being written.
#[derive(Debug)]
pub struct PackWriter<W> {
    out: W,
    hash: Hash,
    left: u32,
}

impl<W: Write> PackWriter<W> {
    /// Begins a pack of `count` objects, whose ids have as many digits as `like`.
    ///
    /// # Errors
    /// What the writer says.
    pub fn new(out: W, count: u32, like: &str) -> io::Result<Self> {
        let mut pack = Self {
            out,
            hash: Hash::of_length(like.len()),
            left: count,
        };
        pack.put(b"PACK")?;
        pack.put(&2u32.to_be_bytes())?;
        pack.put(&count.to_be_bytes())?;
        Ok(pack)
    }

    /// Adds one object.
    ///
    /// # Errors
    /// What the writer says, or that there are more objects than were announced.
    pub fn object(&mut self, kind: ObjectKind, bytes: &[u8]) -> io::Result<()> {
        let wrong = || io::Error::other("more objects than were announced");
        self.left = self.left.checked_sub(1).ok_or_else(wrong)?;
        let mut size = bytes.len() as u64;
        let mut byte = (kind.number() << 4) | low(size, 0x0f);
        size >>= 4;
        let mut header = Vec::new();
        while size > 0 {
            header.push(byte | 0x80);
            byte = low(size, 0x7f);
            size >>= 7;
        }
        header.push(byte);
        self.put(&header)?;
        // zlib: a window of 32 KiB, no dictionary, the fastest level.
        self.put(&[0x78, 0x01])?;
        let mut blocks = bytes.chunks(BLOCK_BYTES).peekable();
        if blocks.peek().is_none() {
            self.put(&[1, 0, 0, 0xff, 0xff])?;
        }
        while let Some(block) = blocks.next() {
            let is_last = u8::from(blocks.peek().is_none());
            let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
            self.put(&[is_last])?;
            self.put(&length.to_le_bytes())?;
            self.put(&(!length).to_le_bytes())?;
            self.put(block)?;
        }
        self.put(&adler32(bytes).to_be_bytes())
    }

    /// Ends the pack with its checksum.
    ///
    /// # Errors
    /// What the writer says, or that there are fewer objects than were announced.
    pub fn finish(mut self) -> io::Result<W> {
        if self.left > 0 {
            return Err(io::Error::other("fewer objects than were announced"));
        }
        self.out.write_all(&self.hash.finish())?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.out.write_all(bytes)
    }
}

fn low(size: u64, mask: u64) -> u8 {
    u8::try_from(size & mask).unwrap_or_default()
}

/// The checksum at the end of a zlib stream.
fn adler32(bytes: &[u8]) -> u32 {
    const PRIME: u32 = 65_521;
    let (mut a, mut b) = (1u32, 0u32);
    // So many bytes fit before a sum overflows.
    for piece in bytes.chunks(5_552) {
        for byte in piece {
            a += u32::from(*byte);
            b += a;
        }
        a %= PRIME;
        b %= PRIME;
    }
    (b << 16) | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_and_ids_are_those_of_the_specifications() {
        assert_eq!(adler32(b""), 1);
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
        // `git hash-object -t tree /dev/null`, and of an empty file.
        let id = "0".repeat(40);
        assert_eq!(
            id_of(ObjectKind::Tree, b"", &id),
            "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        );
        assert_eq!(
            id_of(ObjectKind::Blob, b"", &id),
            "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
        );
    }

    #[test]
    fn a_pack_has_as_many_objects_as_it_says() {
        let id = "0".repeat(40);
        let pack = PackWriter::new(Vec::new(), 1, &id).unwrap();
        pack.finish().unwrap_err();
        let mut pack = PackWriter::new(Vec::new(), 1, &id).unwrap();
        pack.object(ObjectKind::Blob, b"").unwrap();
        pack.object(ObjectKind::Blob, b"").unwrap_err();
    }
}
