//! Go's quoted strings: `strconv.Quote` and what counts as printable.
//!
//! In: bytes. Out: a Go string literal. Bytes that are not UTF-8 become `\x..`.

use unicode_general_category::{GeneralCategory, get_general_category};

/// Go's `unicode.IsPrint`: letters, marks, numbers, punctuation, symbols, and the space.
pub(crate) fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    !matches!(
        get_general_category(c),
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::Surrogate
            | GeneralCategory::PrivateUse
            | GeneralCategory::Unassigned
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::SpaceSeparator
    )
}

/// `strconv.Quote`.
pub(crate) fn quote(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 2);
    quote_into(&mut out, bytes, b'"', false);
    out
}

/// A literal with the given quote; `ascii` escapes everything above it.
pub(crate) fn quote_into(out: &mut Vec<u8>, bytes: &[u8], mark: u8, ascii: bool) {
    out.push(mark);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            escape_char(out, c, mark, ascii);
        }
        for byte in chunk.invalid() {
            out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
    }
    out.push(mark);
}

/// One character of a literal.
pub(super) fn escape_char(out: &mut Vec<u8>, c: char, mark: u8, ascii: bool) {
    if c == char::from(mark) || c == '\\' {
        out.push(b'\\');
        out.push(c as u8);
        return;
    }
    if is_print(c) && (c.is_ascii() || !ascii) {
        let mut encoded = [0; 4];
        out.extend_from_slice(c.encode_utf8(&mut encoded).as_bytes());
        return;
    }
    let short = match c {
        '\x07' => "\\a",
        '\x08' => "\\b",
        '\x0c' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\x0b' => "\\v",
        _ => "",
    };
    if !short.is_empty() {
        out.extend_from_slice(short.as_bytes());
        return;
    }
    let code = u32::from(c);
    let text = match code {
        0..0x20 | 0x7f => format!("\\x{code:02x}"),
        0..0x1_0000 => format!("\\u{code:04x}"),
        _ => format!("\\U{code:08x}"),
    };
    out.extend_from_slice(text.as_bytes());
}
