//! Text that others wrote, made harmless to look at.
//!
//! What comes in: any text: names and messages of sites, files, peers. What goes out: the same, with
//! everything that a terminal or a page would act on instead of show (control characters, escape
//! sequences, line ends, overrides of the direction of writing) written out as `\u{1b}`.

use std::borrow::Cow;

/// Whether a character is acted on instead of shown.
pub fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// One line of text without anything hidden.
pub fn line(text: &str) -> Cow<'_, str> {
    written_out(text, is_hidden)
}

/// Text of this program with line ends and tabs as they are.
pub fn lines(text: &str) -> Cow<'_, str> {
    written_out(text, |letter| {
        is_hidden(letter) && letter != '\n' && letter != '\t'
    })
}

/// JSON text: what its strings hold beyond ASCII and would not show is escaped, so that it stays the same
/// value.
pub fn json(text: &str) -> Cow<'_, str> {
    let acts = |letter: char| letter != '\n' && is_hidden(letter);
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if acts(letter) {
            // All of them are in the first plane.
            shown.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

fn written_out(text: &str, acts: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if acts(letter) {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_act_is_written_out_and_the_rest_stays() {
        assert_eq!(line("größer: 5 µs"), "größer: 5 µs");
        assert_eq!(
            line("\u{1b}[2Jok\n\u{9b}31m"),
            "\\u{1b}[2Jok\\u{a}\\u{9b}31m"
        );
        assert_eq!(line("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(lines("a\nb\u{7}"), "a\nb\\u{7}");
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({ "a": "\u{9b}x\u{202e}\u{1b}" });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = json(&text);
        assert!(
            !shown.contains(|letter| letter != '\n' && is_hidden(letter)),
            "{shown}"
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }
}
