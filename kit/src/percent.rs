//! Text as one part of a URL or of a file name.
//!
//! What comes in: any text. What goes out: the same with everything percent-encoded but letters, digits, `-`, `.`, `_` and
//! `~` (the unreserved characters of RFC 3986, section 2.3), so that it neither ends its part nor begins another one.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// `text`, percent-encoded.
pub fn encoded(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, RESERVED)
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn nothing_ends_its_part_and_what_is_unreserved_stays() {
        assert_eq!(encoded("a/b?c=ö&d").to_string(), "a%2Fb%3Fc%3D%C3%B6%26d");
        assert_eq!(encoded("v1.2_3-4~5").to_string(), "v1.2_3-4~5");
    }
}
