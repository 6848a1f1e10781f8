//! What reaches a terminal: text without what would steer it, and without passwords.
//!
//! What comes in: a line that is about to be printed; names of files, messages of servers and values of
//! teams may be in it. What goes out: the same line, in which every control character but line end and
//! tab is written as `\\u{…}`, and passwords in URLs are left out. All text that `outhaul` prints goes
//! through here, at its way out; what is stored or signed does not.

use std::borrow::Cow;

use outhaul_kit::console;
use outhaul_kit::text::{is_hidden, printable};

use outhaul_kit::url_secrets::without_secrets;

/// Whether a character would steer a terminal, or turn the order of what people read.
fn steers(character: char) -> bool {
    is_hidden(character) && !matches!(character, '\n' | '\t')
}

/// `text` for people.
pub fn plain(text: &str) -> Cow<'_, str> {
    let mut clean = Cow::Borrowed(text);
    if text.contains("://") {
        clean = Cow::Owned(without_secrets(text));
    }
    if !clean.contains(steers) {
        return clean;
    }
    let mut out = String::with_capacity(clean.len() + 16);
    for character in clean.chars() {
        match steers(character) {
            true => out.extend(character.escape_unicode()),
            false => out.push(character),
        }
    }
    Cow::Owned(out)
}

/// The name of a file in one line, which no other file's name is shown as: what is no part of a line is escaped, line end and tab
/// included, and so is the beginning of what would read as an escape.
pub fn file_name(name: &str) -> String {
    printable(&name.replace("\\u{", "\\u{5c}u{")).into_owned()
}

/// One line of data for people, on standard output.
pub fn data(line: &str) {
    console::data(&plain(line));
}

/// One message, on standard error.
pub fn say(line: &str) {
    console::message(&plain(line));
}

/// Standard error for log lines: what a server or a file said is in them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Log;

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        console::Log.write_all(plain(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        console::Log.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal_and_ordinary_text_stays() {
        let text =
            "`a\u{1b}]0;owned\u{7}\u{1b}[2K\rb\u{9b}31m` is\u{202e} at\n\thttps://me:pw@host/x";
        assert_eq!(
            plain(text),
            "`a\\u{1b}]0;owned\\u{7}\\u{1b}[2K\\u{d}b\\u{9b}31m` is\\u{202e} at\n\thttps://…@host/x"
        );
        for (name, shown) in [
            ("a/b\nerror: c.yaml", "a/b\\u{a}error: c.yaml"),
            ("a/b\\u{a}error: c.yaml", "a/b\\u{5c}u{a}error: c.yaml"),
            ("a\\b/Grüße.yaml", "a\\b/Grüße.yaml"),
        ] {
            assert_eq!(file_name(name), shown);
            assert_eq!(plain(shown), shown);
        }
        for text in ["Grüße, 工場 `x`\n  - a\tb", ""] {
            assert!(matches!(plain(text), Cow::Borrowed(_)), "{text}");
        }
    }
}
