//! SHA-256 digests as a type, and a hasher that runs beside a copy.
//!
//! What comes in: bytes, or the text `sha256:<64 lower-case hex digits>`. What goes out: a [`Digest`].
//! It accepts no other algorithm and no other spelling, so that two equal digests are equal texts.

use std::fmt;
use std::io;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest. Its text form is `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// A digest from its 32 bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lower-case hexadecimal digits, without the `sha256:`.
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }

    /// The first 12 hexadecimal digits, for people.
    pub fn short(&self) -> String {
        hex::encode(&self.0[..6])
    }

    /// A digest from 64 lower-case hexadecimal digits.
    ///
    /// # Errors
    /// [`DigestError`] when the text is anything else.
    pub fn from_hex(text: &str) -> Result<Self, DigestError> {
        let lower_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let mut bytes = [0u8; 32];
        if text.bytes().all(lower_hex) && hex::decode_to_slice(text, &mut bytes).is_ok() {
            Ok(Self(bytes))
        } else {
            Err(DigestError {
                found: text.chars().take(80).collect(),
            })
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let hex = text.strip_prefix("sha256:").ok_or_else(|| DigestError {
            found: text.chars().take(80).collect(),
        })?;
        Self::from_hex(hex)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// A text that is not a digest.
#[derive(Debug, thiserror::Error)]
#[error("`{found}` is not a digest (expected `sha256:` and 64 lower-case hexadecimal digits)")]
pub struct DigestError {
    found: String,
}

/// A hasher that counts: feed it what streams past, then ask for the digest and the size.
#[derive(Debug, Clone, Default)]
pub struct Hasher {
    sha: Sha256,
    bytes: u64,
}

impl Hasher {
    /// An empty hasher.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.sha.update(bytes);
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
    }

    /// The digest of all that was added, and its size in bytes.
    pub fn finish(self) -> (Digest, u64) {
        (Digest(self.sha.finalize().into()), self.bytes)
    }
}

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer that hashes and counts what goes through it.
#[derive(Debug)]
pub struct HashingWriter<W> {
    out: W,
    hasher: Hasher,
}

impl<W> HashingWriter<W> {
    /// Nothing has gone through it yet.
    pub fn new(out: W) -> Self {
        let hasher = Hasher::new();
        Self { out, hasher }
    }

    /// The same, where `hasher` got bytes already that belong before.
    pub fn after(hasher: Hasher, out: W) -> Self {
        Self { out, hasher }
    }

    /// The digest of all so far.
    pub fn digest(&self) -> Digest {
        self.hasher.clone().finish().0
    }

    /// Where it went, its digest, and its size in bytes.
    pub fn finish(self) -> (W, Digest, u64) {
        let (digest, size) = self.hasher.finish();
        (self.out, digest, size)
    }
}

impl<W: io::Write> io::Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A reader that hashes and counts what is read from it.
#[derive(Debug)]
pub struct HashingReader<R> {
    input: R,
    hasher: Hasher,
}

impl<R> HashingReader<R> {
    /// Nothing was read from it yet.
    pub fn new(input: R) -> Self {
        let hasher = Hasher::new();
        Self { input, hasher }
    }

    /// The digest of all that was read, and its size in bytes.
    pub fn finish(self) -> (Digest, u64) {
        self.hasher.finish()
    }
}

impl<R: io::Read> io::Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.hasher.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes and gives one byte at a time.
    struct OneByOne(Vec<u8>);

    impl io::Write for OneByOne {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.extend(bytes.first());
            Ok(bytes.len().min(1))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_goes_through_counts_once_however_little_of_it_goes_at_a_time() {
        use std::io::{Read as _, Write as _};

        let mut before = Hasher::new();
        before.update(b"out");
        let mut out = HashingWriter::after(before, OneByOne(Vec::new()));
        out.write_all(b"haul").unwrap();
        assert_eq!(out.digest(), Digest::of(b"outhaul"));
        let (to, digest, size) = out.finish();
        assert_eq!(
            (to.0, digest, size),
            (b"haul".to_vec(), Digest::of(b"outhaul"), 7)
        );
        let mut from = HashingReader::new(&b"outhaul, and more"[..]);
        let mut first = [0; 7];
        from.read_exact(&mut first).unwrap();
        assert_eq!(from.finish(), (Digest::of(&first), 7));
    }

    #[test]
    fn text_round_trips_and_other_spellings_are_refused() {
        let digest = Digest::of(b"outhaul");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        let upper = digest.to_string().to_uppercase();
        for bad in [
            "",
            "sha256:",
            "sha512:00",
            &upper,
            &digest.hex(),
            &format!("{digest}0"),
        ] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }

    #[test]
    fn hasher_equals_the_digest_of_the_whole() {
        let mut hasher = Hasher::new();
        hasher.update(b"out");
        hasher.update(b"haul");
        assert_eq!(hasher.finish(), (Digest::of(b"outhaul"), 7));
    }
}
