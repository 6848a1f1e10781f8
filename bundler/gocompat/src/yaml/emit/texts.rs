//! Texts as the emitter writes them: plain, in quotes of either kind, or as a literal block.
//!
//! What comes in: a text and the style that it should have. What goes out: its lines, in the first style
//! that holds it. It does not decide which style a value should have.

use super::super::scalar::{Style, analyse, is_break, is_printable};
use super::{Emitter, INDENT};

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
