//! The text of a gzip file, without its choices.
//!
//! What comes in: the file, and how large its text is at most. What goes out: the text.

use std::io::{self, Read, Write};

use flate2::bufread::MultiGzDecoder;

/// Bytes copied at once.
const BUFFER_BYTES: usize = 256 * 1024;

/// Writes the text of `file` to `out`; how many bytes it is.
///
/// # Errors
/// When `file` cannot be read, is not gzip, or has more than `most` bytes of text
/// ([`io::ErrorKind::FileTooLarge`]): `out` has got no more than those then.
pub fn text(file: impl Read, out: &mut dyn Write, most: u64) -> io::Result<u64> {
    let file = io::BufReader::with_capacity(BUFFER_BYTES, file);
    let mut text = MultiGzDecoder::new(file);
    let bytes = io::copy(&mut (&mut text).take(most), out)?;
    match bytes == most && text.read(&mut [0])? > 0 {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(bytes),
    }
}
