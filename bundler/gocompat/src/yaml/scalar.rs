//! How a text is written: plain, quoted, or as a literal block.
//!
//! In: a text and the style its meaning asks for. Out: the text in that style, or in the
//! nearest one that can hold it. Lines are never folded. libyaml's slips stay: a byte order
//! mark at the start makes double quotes escape every character, and the first newline of
//! a literal merges with that of its header.

/// Scalar styles of the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// What libyaml finds out about a text before it picks a style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "libyaml's analysis is a list of facts"
)]
pub(super) struct Analysis {
    pub(super) multiline: bool,
    pub(super) plain: bool,
    pub(super) single: bool,
    pub(super) block: bool,
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub(super) fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}'
        | '\u{ff00}'..='\u{fffd}')
}

/// Whether a text has a line break.
pub(super) fn is_multiline(text: &str) -> bool {
    text.chars().any(is_break)
}

/// Whether nothing in the text needs a look: most keys and values are names, paths and URLs.
pub(super) fn is_ordinary(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    let mut colon = false;
    let ordinary = bytes.iter().all(|byte| {
        let value = colon && *byte == b' ';
        colon = *byte == b':';
        !value && ORDINARY[usize::from(*byte)] > 0
    });
    ordinary && ORDINARY[usize::from(*first)] == WORD && !matches!(last, b' ' | b':')
}

/// What an ordinary text may begin with.
const WORD: u8 = 2;

/// Bytes of ordinary texts: [`WORD`], or 1 for those that only stand inside of them.
const ORDINARY: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'/' => WORD,
            b'-' | b'.' | b' ' | b':' | b'=' | b'+' | b'(' | b')' => 1,
            _ => 0,
        };
        byte += 1;
    }
    table
};

pub(super) fn analyse(text: &str) -> Analysis {
    if is_ordinary(text) {
        return Analysis {
            multiline: false,
            plain: true,
            single: true,
            block: true,
        };
    }
    examined(text)
}

fn examined(text: &str) -> Analysis {
    if text.is_empty() {
        return Analysis {
            multiline: false,
            plain: true,
            single: true,
            block: false,
        };
    }
    let mut indicators = text.starts_with("---") || text.starts_with("...");
    let (mut breaks, mut special, mut tabs) = (false, false, false);
    let (mut leading, mut trailing, mut trailing_space) = (false, false, false);
    let (mut break_space, mut space_break) = (false, false);
    let (mut after_space, mut after_break, mut after_blank) = (false, false, true);
    let mut chars = text.chars().peekable();
    let mut first = true;
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        let last = next.is_none();
        let before_blank = next.is_none_or(|next| next == ' ' || next == '\t');
        indicators |= match c {
            '#' if !first => after_blank,
            '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
            | '@' | '`' => first,
            ':' => before_blank,
            '?' | '-' => first && before_blank,
            _ => false,
        };
        if c == '\t' {
            tabs = true;
        } else if !is_printable(c) {
            special = true;
        }
        if c == ' ' {
            leading |= first;
            trailing |= last;
            trailing_space |= last;
            break_space |= after_break;
            after_space = true;
            after_break = false;
        } else if is_break(c) {
            breaks = true;
            leading |= first;
            trailing |= last;
            space_break |= after_space;
            after_space = false;
            after_break = true;
        } else {
            after_space = false;
            after_break = false;
        }
        after_blank = c == ' ' || c == '\t' || c == '\0' || is_break(c);
        first = false;
    }
    let awkward = space_break || tabs || special;
    Analysis {
        multiline: breaks,
        plain: !(indicators || leading || trailing || break_space || awkward || breaks),
        single: !(break_space || awkward),
        block: !(trailing_space || space_break || special),
    }
}

/// Base64 in lines of 70 characters, each with a newline when there are several.
pub(super) fn base64_lines(bytes: &[u8]) -> String {
    let encoded = crate::binary_text::base64_encode(bytes);
    if encoded.len() / 70 == 0 {
        return encoded;
    }
    let mut out = String::with_capacity(encoded.len() + encoded.len() / 70 + 1);
    for line in encoded.as_bytes().chunks(70) {
        out.extend(line.iter().map(|byte| char::from(*byte)));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ordinary_texts_are_what_a_closer_look_finds(text in "[a-z0-9_/:=+(). #,-]{0,12}") {
            prop_assert_eq!(analyse(&text), examined(&text), "{:?}", text);
        }
    }
}
