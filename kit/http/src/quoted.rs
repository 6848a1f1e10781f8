//! What a server said, as the end of a sentence.
//!
//! What comes in: text of a server, which is untrusted. What goes out: `: ` and a bounded part of it that cannot move a terminal's
//! cursor, or nothing. It never changes what is decided.

/// Most characters shown.
const CHARS: usize = 200;

/// `: ` and what the text has of visible characters, at most 200; nothing where it has none.
pub fn quoted(text: &str) -> String {
    let visible = text.chars().filter(|c| !c.is_control());
    let text: String = visible.take(CHARS).collect();
    match text.trim() {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_short_and_has_no_control_characters() {
        assert_eq!(quoted(" no\u{1b}[2J\r\nspace "), ": no[2Jspace");
        assert_eq!(quoted("\u{7}\n "), "");
        assert_eq!(quoted(&"é".repeat(900)).chars().count(), 202);
    }
}
