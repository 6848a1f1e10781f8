//! Text as one part of a URL or of a file name, and back.
//!
//! What comes in: any text. What goes out: the same with everything percent-encoded but letters, digits, `-`, `.`, `_` and
//! `~` (the unreserved characters of RFC 3986, section 2.3), so that it neither ends its part nor begins another one.

use percent_encoding::{
    AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode_str, percent_encode,
    utf8_percent_encode,
};

const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// `text`, percent-encoded.
pub fn encoded(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, RESERVED)
}

/// Bytes that need not be text, percent-encoded.
pub fn encoded_bytes(bytes: &[u8]) -> PercentEncode<'_> {
    percent_encode(bytes, RESERVED)
}

/// The bytes that `text` stands for: `%2F` and the like are one each, and everything else is itself, a lone `%` too.
pub fn decoded(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

#[cfg(test)]
mod tests {
    use super::{decoded, encoded};

    #[test]
    fn nothing_ends_its_part_and_what_is_unreserved_stays() {
        assert_eq!(encoded("a/b?c=ö&d").to_string(), "a%2Fb%3Fc%3D%C3%B6%26d");
        assert_eq!(encoded("v1.2_3-4~5").to_string(), "v1.2_3-4~5");
    }

    #[test]
    fn only_two_hexadecimal_digits_stand_for_a_byte() {
        assert_eq!(decoded("%2Frun%2fpg%FF"), b"/run/pg\xff");
        for text in ["%", "100%", "%2", "%+f", "%zz", "a b"] {
            assert_eq!(decoded(text), text.as_bytes());
        }
    }
}
