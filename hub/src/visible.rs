//! Text that others wrote, made harmless to look at, under the names that the hub's code uses.
//!
//! What comes in: any text: names and messages of sites, files, peers. What goes out: the same, with
//! everything that a terminal or a page would act on instead of show (control characters, escape
//! sequences, line ends, overrides of the direction of writing) written out as `\u{1b}`. The rule is [`outhaul_kit::text`]'s.

pub use outhaul_kit::text::json;
/// One line of text without anything hidden.
pub use outhaul_kit::text::printable as line;
/// Text of this program with line ends and tabs as they are.
pub use outhaul_kit::text::printable_lines as lines;

#[cfg(test)]
mod tests {
    use super::*;
    use outhaul_kit::text::is_hidden;

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
