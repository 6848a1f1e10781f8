//! Width: padding with spaces or zeros, counted in characters.
//!
//! In: bytes of one formatted operand. Out: the same bytes, padded in the printer's output.

use super::Printer;

/// Characters in bytes that need not be UTF-8: each bad byte counts as one, as in Go.
pub(crate) fn rune_count(bytes: &[u8]) -> usize {
    bytes
        .utf8_chunks()
        .map(|chunk| chunk.valid().chars().count() + chunk.invalid().len())
        .sum()
}

impl Printer<'_> {
    /// Writes bytes padded to the width in force.
    pub fn pad_text(&mut self, bytes: &[u8]) {
        let missing = match self.flags.width {
            None => 0,
            Some(width) => width.saturating_sub(rune_count(bytes)),
        };
        if missing == 0 {
            self.out.extend_from_slice(bytes);
        } else if self.flags.minus {
            self.out.extend_from_slice(bytes);
            self.fill(missing, b' ');
        } else {
            self.fill(missing, if self.flags.zero { b'0' } else { b' ' });
            self.out.extend_from_slice(bytes);
        }
    }

    pub fn fill(&mut self, count: usize, byte: u8) {
        self.out.resize(self.out.len() + count, byte);
    }
}
