//! Foreign bytes as a gzip file, and as the corrections of one.
//!
//! What comes in: any bytes. What must hold: no panic, bounded memory, and of whatever is taken apart the same bytes come out again.

use std::io::Cursor;

use outhaul_gzip::{Joiner, MAX_CORRECTION_BYTES, split};

/// Takes a file apart; what can be is made again, byte for byte.
pub fn gzip(bytes: &[u8]) -> bool {
    let mut text = Vec::new();
    let taken = split(
        &mut || Ok(Cursor::new(bytes)),
        &mut text,
        MAX_CORRECTION_BYTES,
    );
    let Ok(corrections) = taken else {
        return false;
    };
    assert_eq!(joined(&text, corrections).as_deref(), Some(bytes));
    true
}

/// The file of `text` and these corrections; `None` when they make none.
pub fn joined(text: &[u8], corrections: Vec<u8>) -> Option<Vec<u8>> {
    let mut joiner = Joiner::new(corrections).ok()?;
    let mut file = Vec::new();
    for part in text.chunks(100) {
        joiner.write(part, &mut file).ok()?.ok()?;
    }
    joiner.finish(&mut file).ok()?.ok()?;
    Some(file)
}

/// Corrections of any bytes, for a short text.
pub fn corrections(bytes: &[u8]) {
    let file = joined(b"a text, a text, and what follows a text", bytes.to_vec());
    // Each byte of a file comes out of a byte of the text or of the corrections: codes have 15 bits at most.
    assert!(file.is_none_or(|file| file.len() <= 4 * (bytes.len() + 40) + 64));
}
