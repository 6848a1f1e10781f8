//! How a key or a value is spelled in a Java properties file.
//!
//! What comes in: a text. What goes out: what `java.util.Properties` reads as exactly that text, in
//! ASCII, because older readers take such files for Latin-1. It stays on its line whatever is in it.

use std::fmt::Write as _;

use zeroize::Zeroizing;

/// `text`, escaped, as a `key` or as a value. In memory that is wiped, and never moved while it is written.
pub fn escaped(text: &str, key: bool) -> Zeroizing<String> {
    // Six bytes are the longest spelling of one.
    let mut out = Zeroizing::new(String::with_capacity(text.len() * 6));
    for (at, c) in text.chars().enumerate() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{c}' => out.push_str("\\f"),
            '\\' => out.push_str("\\\\"),
            ' ' if key || at == 0 => out.push_str("\\ "),
            '=' | ':' | '#' | '!' if key => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a text cannot fail.
                    let _ = write!(*out, "\\u{unit:04x}");
                }
            }
        }
    }
    out
}
