//! Files of envelopes: one in each line.
//!
//! What comes in: a reader of anything. What goes out: one line after the other, never more of it in memory than an envelope may have.
//! Whether a line is an envelope is not decided here.

use std::io::{self, BufRead, Read as _};

use super::MAX_ENVELOPE_BYTES;

/// A line, without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvelopeLine {
    /// All of it.
    Whole(Vec<u8>),
    /// It has more than [`MAX_ENVELOPE_BYTES`], and was skipped.
    TooLong,
}

/// The next line; `None` at the end.
///
/// # Errors
/// That of the reader.
pub fn next_line(lines: &mut impl BufRead) -> io::Result<Option<EnvelopeLine>> {
    let mut bytes = Vec::new();
    let most = MAX_ENVELOPE_BYTES as u64 + 1;
    if lines.by_ref().take(most).read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        return Ok(Some(EnvelopeLine::Whole(bytes)));
    }
    if (bytes.len() as u64) < most {
        return Ok(Some(EnvelopeLine::Whole(bytes)));
    }
    lines.skip_until(b'\n')?;
    Ok(Some(EnvelopeLine::TooLong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_one_by_one_and_one_that_is_too_long_costs_no_other() {
        let long = vec![b'x'; MAX_ENVELOPE_BYTES + 1];
        let most = vec![b'y'; MAX_ENVELOPE_BYTES];
        let text = [&b"a\n\n"[..], &long, b"\n", &most, b"\nend"].concat();
        let mut reader = text.as_slice();
        let mut next = || next_line(&mut reader).unwrap();
        let whole = |bytes: &[u8]| Some(EnvelopeLine::Whole(bytes.to_vec()));
        assert_eq!(next(), whole(b"a"));
        assert_eq!(next(), whole(b""));
        assert_eq!(next(), Some(EnvelopeLine::TooLong));
        assert_eq!(next(), whole(&most));
        assert_eq!(next(), whole(b"end"));
        assert_eq!(next(), None);
    }
}
