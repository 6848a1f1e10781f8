//! The part of a blob that a request wants: `Range` after RFC 9110, section 14.
//!
//! What comes in: the header's value and the blob's size. What goes out: the whole, one part of it, or that
//! there is no such part. Several ranges in one header, and what is not a range, mean the whole: RFC 9110 allows
//! both, and one range is all that clients of registries ask for.

/// What of a blob is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteRange {
    /// All of it.
    Whole,
    /// From the first byte to the last, both included.
    Part {
        /// The first.
        first: u64,
        /// The last; smaller than the size.
        last: u64,
    },
    /// A part that the blob does not have.
    Unsatisfiable,
}

/// Reads the value of `Range` for a blob of `size` bytes.
pub fn wanted(header: &str, size: u64) -> ByteRange {
    let Some((unit, range)) = header.split_once('=') else {
        return ByteRange::Whole;
    };
    let Some((first, last)) = range.trim().split_once('-') else {
        return ByteRange::Whole;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return ByteRange::Whole;
    }
    match (number(first), number(last)) {
        (Some(None), Some(Some(0))) => ByteRange::Unsatisfiable,
        (Some(None), Some(Some(_))) if size == 0 => ByteRange::Unsatisfiable,
        (Some(None), Some(Some(suffix))) => ByteRange::Part {
            first: size.saturating_sub(suffix),
            last: size - 1,
        },
        (Some(Some(first)), Some(last)) => match last {
            Some(last) if last < first => ByteRange::Whole,
            _ if first >= size => ByteRange::Unsatisfiable,
            last => ByteRange::Part {
                first,
                last: last.unwrap_or(u64::MAX).min(size - 1),
            },
        },
        _ => ByteRange::Whole,
    }
}

/// A number, or nothing at all; `None` for anything else. What is too large for a number is as large as one
/// can be.
#[expect(clippy::option_option, reason = "not a number, no number, a number")]
fn number(text: &str) -> Option<Option<u64>> {
    let text = text.trim();
    if text.is_empty() {
        return Some(None);
    }
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(Some(text.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(first: u64, last: u64) -> ByteRange {
        ByteRange::Part { first, last }
    }

    #[test]
    fn ranges_are_those_of_rfc_9110() {
        for (header, size, expected) in [
            ("bytes=0-0", 10, part(0, 0)),
            ("bytes=2-5", 10, part(2, 5)),
            ("bytes=2-", 10, part(2, 9)),
            ("bytes=-3", 10, part(7, 9)),
            ("bytes=-99", 10, part(0, 9)),
            ("bytes=5-99", 10, part(5, 9)),
            ("bytes=0-99999999999999999999999", 10, part(0, 9)),
            ("Bytes= 2-5 ", 10, part(2, 5)),
            ("bytes=10-", 10, ByteRange::Unsatisfiable),
            ("bytes=10-20", 10, ByteRange::Unsatisfiable),
            ("bytes=-0", 10, ByteRange::Unsatisfiable),
            ("bytes=0-", 0, ByteRange::Unsatisfiable),
            ("bytes=-1", 0, ByteRange::Unsatisfiable),
            ("bytes=5-2", 10, ByteRange::Whole),
            ("bytes=0-1,3-4", 10, ByteRange::Whole),
            ("bytes=-", 10, ByteRange::Whole),
            ("bytes=", 10, ByteRange::Whole),
            ("bytes=a-b", 10, ByteRange::Whole),
            ("bytes=+1-2", 10, ByteRange::Whole),
            ("lines=1-2", 10, ByteRange::Whole),
            ("", 10, ByteRange::Whole),
        ] {
            assert_eq!(wanted(header, size), expected, "{header} of {size}");
        }
    }
}
