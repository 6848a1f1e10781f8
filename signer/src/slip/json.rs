//! Canonical JSON in its shorter spelling: one value, one sequence of bytes, and back.
//!
//! What comes in: files of canonical JSON (or any others, which stay as they are), or bytes of unknown
//! origin. What goes out: bytes, or the files again. A value begins with one byte that states what it is:
//!
//! | byte | value |
//! |---|---|
//! | `00`..`7f` | a word of [`super::words`] |
//! | `80` `81` `82` | `null`, `false`, `true` |
//! | `83` `84` | n, or -1 - n: a count n follows |
//! | `85` | a text: its length, its bytes |
//! | `86` `87` `88` | hexadecimal digits: length and bytes; 32 bytes; 64 bytes |
//! | `89` | digits that came before: their number |
//! | `8a` | a time in whole seconds since 1970 |
//! | `8b` | a map of Ed25519 keys by their ids: how many, 32 bytes each; the ids are computed |
//! | `8c` `8d` | a list or a map of many: how many |
//! | `90`..`9f` | a shape of [`super::words`] around 8 bytes: 0 and the bytes, or 1 + their number |
//! | `a0`..`af`, `b0`..`bf` | a list or a map of 0 to 15 |
//! | `c0`..`ff` | the numbers 0 to 63 |
//!
//! Counts are base 128, lowest digits first. Digits of 8 to 32 bytes get numbers in order of appearance, and so
//! do the digest of each finished file: later files pin the earlier ones. The reader's work and output
//! are bounded; whether the bytes are the one right spelling is for [`super::Slip`] to check.

mod read;
mod write;

pub(super) use read::Reader;
pub(super) use write::Writer;

/// Deepest nesting of values. TUF needs seven.
const MAX_DEPTH: usize = 24;
/// Shortest digits that are spelled as bytes.
const MIN_HEX_BYTES: usize = 8;
/// Longest digits that get a number: signatures never come twice.
const MAX_NUMBERED_BYTES: usize = 32;

const NULL: u8 = 0x80;
const FALSE: u8 = 0x81;
const TRUE: u8 = 0x82;
const NUMBER: u8 = 0x83;
const NEGATIVE: u8 = 0x84;
const TEXT: u8 = 0x85;
const HEX: u8 = 0x86;
const HEX_32: u8 = 0x87;
const HEX_64: u8 = 0x88;
const AGAIN: u8 = 0x89;
const TIME: u8 = 0x8a;
const KEYS: u8 = 0x8b;
const LIST: u8 = 0x8c;
const MAP: u8 = 0x8d;
const SHAPE: u8 = 0x90;
const SMALL_LIST: u8 = 0xa0;
const SMALL_MAP: u8 = 0xb0;
const SMALL_NUMBER: u8 = 0xc0;

/// How a file is spelled: as it is, as one value, or as a signed file with the signed part first (its
/// keys come before the ids that sign). With or without a line break at its end.
const AS_IT_IS: u8 = 0;
const VALUE: u8 = 1;
const VALUE_LINE: u8 = 2;
const SIGNED: u8 = 3;
const SIGNED_LINE: u8 = 4;

/// An Ed25519 key as metadata has it: what its id is the digest of.
fn key_object(public: &str) -> String {
    format!(r#"{{"keytype":"ed25519","keyval":{{"public":"{public}"}},"scheme":"ed25519"}}"#)
}
