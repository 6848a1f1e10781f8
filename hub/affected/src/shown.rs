//! What is shown of a text that others wrote.
//!
//! What comes in: the text. What goes out: its beginning. It escapes nothing: a page does that itself.

/// The beginning of a text that others wrote, at most so many characters, without those that act on a terminal.
pub(crate) fn shown(text: &str, most: usize) -> String {
    let is_shown = |c: &char| !c.is_control();
    text.chars().filter(is_shown).take(most).collect()
}
