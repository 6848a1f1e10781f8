//! Plain text: nothing sealed in clear, nothing that controls a terminal.
//!
//! What comes in: a line or a value. What goes out: the same, fit to be printed.

use outhaul_seal::marker;

/// What stands for a sealed value.
pub const SEALED: &str = "ENC[sealed]";
/// Longest value in characters.
const MAX_VALUE: usize = 120;

/// A line without sealed values and control characters.
pub fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(marker::OPENING) {
        let Some(end) = rest[at..].find(']') else {
            break;
        };
        out.push_str(&rest[..at]);
        out.push_str(SEALED);
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    out.chars()
        .map(|c| {
            if c.is_control() && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

/// A value on one line, shortened.
pub fn value(text: &str) -> String {
    let one = plain(text);
    if one.chars().count() <= MAX_VALUE {
        return one;
    }
    one.chars().take(MAX_VALUE - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_values_and_control_characters_are_not_printed() {
        assert_eq!(plain("a: ENC[age,Zm9v] b"), "a: ENC[sealed] b");
        assert_eq!(plain("a: ENC[age,Zm9v"), "a: ENC[age,Zm9v");
        assert_eq!(plain("\u{1b}[31m"), "\u{fffd}[31m");
    }
}
