//! Bytes as text that people can type and QR codes hold well: base 32 with check characters.
//!
//! What comes in: bytes, or a text of unknown origin. What goes out: lines of 40 characters (25 bytes) and
//! 2 check characters, in groups of six; or the bytes, or the number of the first line that is wrong.
//! The alphabet is Crockford's: no I, L, O or U, and what looks alike is read alike.

use sha2::{Digest as _, Sha256};

use super::{MAX_TEXT_BYTES, SlipError};

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Bytes in one line.
const LINE_BYTES: usize = 25;
/// Characters in one line, check characters included.
const LINE_CHARACTERS: usize = 42;
/// Check characters in one line.
const CHECK_CHARACTERS: usize = 2;
/// Characters in one group.
const GROUP: usize = 6;

/// The text of `bytes`.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, chunk) in bytes.chunks(LINE_BYTES).enumerate() {
        let mut characters = spell(chunk);
        characters.extend(check_of(line, chunk));
        for group in characters.chunks(GROUP) {
            text.extend(group.iter().map(|&byte| char::from(byte)));
            text.push(' ');
        }
        text.pop();
        text.push('\n');
    }
    text
}

/// The bytes of `text`.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, SlipError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(SlipError::TooLarge {
            bytes: text.len(),
            max_bytes: MAX_TEXT_BYTES,
        });
    }
    let ignored = |c: &char| c.is_whitespace() || matches!(c, '-' | '\u{feff}');
    let characters: Vec<char> = text.chars().filter(|c| !ignored(c)).collect();
    if characters.is_empty() {
        return Err(SlipError::NotASlip);
    }
    let mut bytes = Vec::new();
    for (line, characters) in characters.chunks(LINE_CHARACTERS).enumerate() {
        let wrong = |problem: String| SlipError::Typing {
            line: line + 1,
            problem,
        };
        let values: Result<Vec<u8>, char> = characters.iter().map(|&c| value_of(c)).collect();
        let values = match values {
            Ok(values) => values,
            // Another file altogether has wrong characters in its first line.
            Err(_) if line == 0 && !looks_like_a_slip(characters) => {
                return Err(SlipError::NotASlip);
            }
            Err(c) => return Err(wrong(format!("`{}` is not used", c.escape_default()))),
        };
        let incomplete = || wrong("it is incomplete".to_owned());
        let len = values
            .len()
            .checked_sub(CHECK_CHARACTERS)
            .filter(|len| *len > 0);
        let (data, check) = values.split_at(len.ok_or_else(incomplete)?);
        let chunk = unspell(data).ok_or_else(incomplete)?;
        let expected = check_of(line, &chunk);
        if !check
            .iter()
            .zip(expected)
            .all(|(value, c)| ALPHABET[usize::from(*value)] == c)
        {
            return Err(wrong(
                "its two last characters do not fit the others".to_owned(),
            ));
        }
        bytes.extend(chunk);
    }
    Ok(bytes)
}

/// Whether the first characters are those of the magic, as spelled.
fn looks_like_a_slip(characters: &[char]) -> bool {
    let magic = spell(&super::MAGIC[..3]);
    let typed = characters
        .iter()
        .take(4)
        .map(|&c| value_of(c).map(usize::from));
    typed
        .zip(&magic[..4])
        .all(|(typed, c)| typed.is_ok_and(|value| ALPHABET[value] == *c))
}

fn spell(bytes: &[u8]) -> Vec<u8> {
    let mut characters = Vec::with_capacity(bytes.len() * 8 / 5 + 1);
    let (mut bits, mut have) = (0u32, 0u32);
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        have += 8;
        while have >= 5 {
            have -= 5;
            characters.push(ALPHABET[(bits >> have & 31) as usize]);
        }
        bits &= (1 << have) - 1;
    }
    if have > 0 {
        characters.push(ALPHABET[(bits << (5 - have) & 31) as usize]);
    }
    characters
}

/// The bytes of characters' values; `None` when a character is missing or too many.
fn unspell(values: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(values.len() * 5 / 8);
    let (mut bits, mut have) = (0u32, 0u32);
    for value in values {
        bits = bits << 5 | u32::from(*value);
        have += 5;
        if have >= 8 {
            have -= 8;
            bytes.push((bits >> have & 0xff) as u8);
        }
        bits &= (1 << have) - 1;
    }
    (have < 5 && bits == 0).then_some(bytes)
}

/// The check characters of line `line` (from 0): with the line's number in them, so that two lines
/// exchanged are found as well.
fn check_of(line: usize, chunk: &[u8]) -> [u8; CHECK_CHARACTERS] {
    let mut hash = Sha256::new();
    hash.update((line as u64).to_be_bytes());
    hash.update(chunk);
    let digest = hash.finalize();
    [digest[0] & 31, digest[1] & 31].map(|value| ALPHABET[usize::from(value)])
}

fn value_of(character: char) -> Result<u8, char> {
    let upper = match character.to_ascii_uppercase() {
        'O' => '0',
        'I' | 'L' => '1',
        other => other,
    };
    let at = ALPHABET.iter().position(|&byte| char::from(byte) == upper);
    at.and_then(|at| u8::try_from(at).ok()).ok_or(character)
}
