//! How a text is written: plain, quoted, or as a literal block.
//!
//! In: a text and the style its meaning asks for. Out: the text in that style, or in the
//! nearest one that can hold it. Lines are never folded. libyaml's slips stay: a byte order
//! mark at the start makes double quotes escape every character, and the first newline of
//! a literal merges with that of its header.

use super::emit::{Emitter, INDENT};

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
struct Analysis {
    multiline: bool,
    plain: bool,
    single: bool,
    block: bool,
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(c: char) -> bool {
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

fn analyse(text: &str) -> Analysis {
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
    let encoded = crate::functions::base64_encode(bytes);
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

impl Emitter<'_> {
    /// Writes a text; `tagged` texts may stay plain whatever they look like.
    pub(super) fn scalar(&mut self, text: &str, style: Style, simple_key: bool, tagged: bool) {
        let facts = analyse(text);
        let mut style = style;
        if simple_key && facts.multiline {
            style = Style::Double;
        }
        if style == Style::Plain && (!facts.plain || text.is_empty() && simple_key && !tagged) {
            style = Style::Single;
        }
        if style == Style::Single && !facts.single {
            style = Style::Double;
        }
        if style == Style::Literal && (!facts.block || simple_key) {
            style = Style::Double;
        }
        match style {
            Style::Plain => self.plain(text),
            Style::Single => self.single(text),
            Style::Double => self.double(text),
            Style::Literal => self.literal(text),
        }
    }

    fn plain(&mut self, text: &str) {
        if !text.is_empty() {
            if !self.whitespace {
                self.put(b' ');
            }
            self.out.extend_from_slice(text.as_bytes());
            self.column += text.chars().count();
            self.whitespace = false;
        }
        self.indention = false;
    }

    fn write_char(&mut self, c: char) {
        self.out
            .extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        self.column += 1;
    }

    /// A break of the text itself: a newline, or a Unicode break as it is.
    fn write_break(&mut self, c: char) {
        if c == '\n' {
            self.put_break();
        } else {
            self.write_char(c);
            self.column = 0;
            self.indention = true;
        }
    }

    fn single(&mut self, text: &str) {
        self.indicator(b"'", true, false, false);
        let mut breaks = false;
        for c in text.chars() {
            if c == ' ' {
                self.write_char(c);
            } else if is_break(c) {
                if !breaks && c == '\n' {
                    self.put_break();
                }
                self.write_break(c);
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                if c == '\'' {
                    self.put(b'\'');
                }
                self.write_char(c);
                self.indention = false;
                breaks = false;
            }
        }
        self.indicator(b"'", false, false, false);
        self.whitespace = false;
        self.indention = false;
    }

    fn double(&mut self, text: &str) {
        self.indicator(b"\"", true, false, false);
        let marked = text.starts_with('\u{feff}');
        for c in text.chars() {
            if marked || !is_printable(c) || is_break(c) || c == '"' || c == '\\' {
                self.escape(c);
            } else {
                self.write_char(c);
            }
        }
        self.indicator(b"\"", false, false, false);
        self.whitespace = false;
        self.indention = false;
    }

    fn escape(&mut self, c: char) {
        let short = match c {
            '\0' => "0",
            '\x07' => "a",
            '\x08' => "b",
            '\t' => "t",
            '\n' => "n",
            '\x0b' => "v",
            '\x0c' => "f",
            '\r' => "r",
            '\x1b' => "e",
            '"' => "\"",
            '\\' => "\\",
            '\u{85}' => "N",
            '\u{a0}' => "_",
            '\u{2028}' => "L",
            '\u{2029}' => "P",
            _ => "",
        };
        let code = u32::from(c);
        let text = match code {
            _ if !short.is_empty() => format!("\\{short}"),
            0..=0xff => format!("\\x{code:02X}"),
            0x100..=0xffff => format!("\\u{code:04X}"),
            _ => format!("\\U{code:08X}"),
        };
        self.out.extend_from_slice(text.as_bytes());
        self.column += text.len();
    }

    fn literal(&mut self, text: &str) {
        self.indicator(b"|", true, false, false);
        let mut from_end = text.chars().rev();
        let (last, before) = (from_end.next(), from_end.next());
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.indicator(INDENT.to_string().as_bytes(), false, false, false);
        }
        if !last.is_some_and(is_break) {
            self.indicator(b"-", false, false, false);
        } else if before.is_none_or(is_break) {
            self.indicator(b"+", false, false, false);
        }
        self.whitespace = true;
        let mut breaks = true;
        for c in text.chars() {
            if is_break(c) {
                self.write_break(c);
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                self.write_char(c);
                self.indention = false;
                breaks = false;
            }
        }
    }
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
