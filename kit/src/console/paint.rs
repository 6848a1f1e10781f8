//! Colours for messages and differences.
//!
//! What comes in: text without control characters. What goes out: the same text, with the first words of
//! errors, warnings, notes and help coloured, or the lines of a difference. Without colour nothing changes.

use std::borrow::Cow;

const RESET: &str = "\u{1b}[0m";
const RED: &str = "\u{1b}[1;31m";
const YELLOW: &str = "\u{1b}[1;33m";
const GREEN: &str = "\u{1b}[32m";
const PLAIN_RED: &str = "\u{1b}[31m";
const CYAN: &str = "\u{1b}[36m";
const BLUE: &str = "\u{1b}[1;34m";

/// What messages begin with, and its colour. `error[code]: ` is one, too.
const WORDS: [(&str, &str); 7] = [
    ("error", RED),
    ("refused", RED),
    ("warning", YELLOW),
    ("skipped", YELLOW),
    ("help", CYAN),
    ("tip", CYAN),
    ("note", BLUE),
];

/// Whether it is printed with `--quiet` as well.
pub(super) fn matters(text: &str) -> bool {
    let heads = ["error", "refused", "warning"];
    heads.iter().any(|head| head_of(text, head).is_some())
}

/// Where the first word of a message ends, if it is `word`.
fn head_of(line: &str, word: &str) -> Option<usize> {
    let rest = line.strip_prefix(word)?;
    match rest.strip_prefix('[') {
        Some(code) => {
            let end = code.find("]:")?;
            Some(word.len() + 1 + end + 2)
        }
        None => rest.starts_with(": ").then_some(word.len() + 1),
    }
}

/// A message, or findings with their places.
pub fn message(text: &str, coloured: bool) -> Cow<'_, str> {
    if !coloured {
        return Cow::Borrowed(text);
    }
    by_line(text, |line| {
        let indent = line.len() - line.trim_start().len();
        let inner = line.get(indent..)?;
        if inner.starts_with("--> ") || inner.starts_with("::: ") {
            return Some((0, line.len(), BLUE));
        }
        let inner = inner.strip_prefix("= ").unwrap_or(inner);
        let start = line.len() - inner.len();
        let (end, colour) = WORDS
            .iter()
            .find_map(|(word, colour)| Some((head_of(inner, word)?, *colour)))?;
        Some((start, start + end, colour))
    })
}

/// A difference: what goes is red, what comes is green, places are blue.
pub fn difference(text: &str, coloured: bool) -> Cow<'_, str> {
    if !coloured {
        return Cow::Borrowed(text);
    }
    by_line(text, |line| {
        let colour = match line.trim_start().bytes().next()? {
            b'+' => GREEN,
            b'-' => PLAIN_RED,
            b'@' => CYAN,
            _ => return None,
        };
        Some((0, line.len(), colour))
    })
}

fn by_line(
    text: &str,
    part: impl Fn(&str) -> Option<(usize, usize, &'static str)>,
) -> Cow<'_, str> {
    let mut painted = String::with_capacity(text.len() + 64);
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        let parts = part(line).and_then(|(from, to, colour)| {
            Some((
                line.get(..from)?,
                line.get(from..to)?,
                line.get(to..)?,
                colour,
            ))
        });
        match parts {
            Some((before, inside, after, colour)) => {
                for text in [before, colour, inside, RESET, after] {
                    painted.push_str(text);
                }
            }
            None => painted.push_str(line),
        }
        painted.push_str(end);
    }
    Cow::Owned(painted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_words_are_coloured_and_the_text_stays() {
        let text = "error[unknown-field]: a\n --> f:1:2\n  = help: b\nthe error: c\nhelp: d";
        let painted = message(text, true);
        assert!(
            painted.starts_with("\u{1b}[1;31merror[unknown-field]:\u{1b}[0m a\n"),
            "{painted}"
        );
        assert!(painted.contains("\nthe error: c\n"), "{painted}");
        assert!(painted.contains("\u{1b}[36mhelp:\u{1b}[0m d"), "{painted}");
        assert_eq!(message(text, false), text);
        assert_eq!(difference("+a\n b", true), "\u{1b}[32m+a\u{1b}[0m\n b");
    }

    #[test]
    fn errors_and_warnings_matter_and_notes_do_not() {
        for text in ["error: a", "warning[x]: b", "refused: c"] {
            assert!(matters(text), "{text}");
        }
        for text in ["errors are rare", "help: a", "note[x]: b", "2 files"] {
            assert!(!matters(text), "{text}");
        }
    }
}
