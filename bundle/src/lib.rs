//! The wire formats that cross the gap: the bundle that goes out, the report that comes back.
//!
//! A bundle is a plain, deterministic tar (`*.outhaul`). Its members, in this order:
//!
//! 1. `metadata/…`: signed metadata of The Update Framework, opaque to this crate;
//! 2. `index.json`: an [`Index`], the one file that the metadata lists;
//! 3. `volume.json`: which part of the bundle the file is, or which blobs it leaves out because an earlier bundle has
//!    them ([`Volume`]); a whole bundle has none;
//! 4. `blobs/sha256/…`: each blob once, in the order of [`Index::blobs`], for which the index vouches.
//!
//! A parity part (`*.parity`) has `parity.json` and `parity` in their place: [`volume::Parity`].
//!
//! What comes in: typed values and byte streams. What goes out: bytes, or values that were checked
//! against limits and digests. It opens no file, reads no clock, knows no key, and never decompresses
//! what it has not verified.
#![warn(missing_docs)]

pub mod blob;
pub mod decode;
pub mod digest;
pub mod encode;
pub mod fake;
pub mod fleet;
pub mod hub_api;
pub mod index;
pub mod json_object;
pub mod layers;
pub mod limits;
mod member;
pub mod name;
pub mod number;
pub mod order;
pub mod output_record;
pub mod patch;
pub mod read;
pub mod report;
pub mod seal;
pub mod stream;
pub mod volume;
pub mod write;
pub mod zarf;

pub use digest::Digest;
pub use index::Index;
pub use limits::Limits;
pub use member::{BLOCK, HeaderError};
pub use number::MAX_NUMBER;
pub use order::{Instruction, Order};
pub use read::{BlobSink, BundleReader, ReadError};
pub use report::Report;
pub use volume::{Parity, Volume};
pub use write::{BlobSource, WriteError, write_bundle, write_parity, write_part};

/// The first line of a site's backup: the agent writes it, and whoever is given one by mistake names it.
pub const SITE_BACKUP_MAGIC: &[u8] = b"outhaul site backup\n";
