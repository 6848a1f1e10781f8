//! Bytes as base64 and base32, as Go's standard encodings write and read them.
//!
//! In: bytes, or text with padding. Out: the other; an error is the offset that Go reports. It knows no
//! template and no YAML, whose functions and `!!binary` values use it.

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Groups of bits as letters, padded with `=`.
fn encode(bytes: &[u8], bits: u32, group: usize, alphabet: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    let (mut value, mut held) = (0_u32, 0);
    let letter = |value: u32| char::from(alphabet[value as usize % alphabet.len()]);
    for byte in bytes {
        value = value << 8 & 0xffff | u32::from(*byte);
        held += 8;
        while held >= bits {
            held -= bits;
            out.push(letter(value >> held & ((1 << bits) - 1)));
        }
    }
    if held > 0 {
        out.push(letter(value << (bits - held) & ((1 << bits) - 1)));
    }
    while !out.len().is_multiple_of(group) {
        out.push('=');
    }
    out
}

/// Standard base64 with padding.
pub(crate) fn base64_encode(bytes: &[u8]) -> String {
    encode(bytes, 6, 4, BASE64)
}

fn digit(alphabet: &[u8], byte: u8) -> Option<u32> {
    alphabet
        .iter()
        .position(|known| *known == byte)
        .and_then(|at| u32::try_from(at).ok())
}

/// Go's `base64.StdEncoding`: newlines are skipped, padding is exact; the error is an offset.
pub(crate) fn base64_decode(bytes: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(bytes.len() / 4 * 3);
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let mut at = 0;
    loop {
        let mut value = 0;
        let mut count = 0;
        while count < 4 {
            let Some(byte) = bytes.get(at).copied() else {
                return match count {
                    0 => Ok(out),
                    _ => Err(at - count),
                };
            };
            at += 1;
            if is_break(&byte) {
                continue;
            }
            if let Some(bits) = digit(BASE64, byte) {
                value = value << 6 | bits;
                count += 1;
                continue;
            }
            if byte != b'=' || count < 2 {
                return Err(at - 1);
            }
            let skip = |at: usize| at + bytes[at..].iter().take_while(|b| is_break(b)).count();
            at = skip(at);
            if count == 2 {
                if bytes.get(at) != Some(&b'=') {
                    return Err(if at == bytes.len() {
                        bytes.len()
                    } else {
                        at - 1
                    });
                }
                at += 1;
            }
            at = skip(at);
            if at < bytes.len() {
                return Err(at);
            }
            let whole = value << (6 * (4 - count));
            out.extend_from_slice(&whole.to_be_bytes()[1..count]);
            return Ok(out);
        }
        out.extend_from_slice(&value.to_be_bytes()[1..]);
    }
}

/// Standard base32 with padding.
pub(crate) fn base32_encode(bytes: &[u8]) -> String {
    encode(bytes, 5, 8, BASE32)
}

/// Go's `base32.StdEncoding`: the error is an offset.
pub(crate) fn base32_decode(bytes: &[u8]) -> Result<Vec<u8>, usize> {
    let clean: Vec<u8> = bytes
        .iter()
        .copied()
        .filter(|byte| !matches!(byte, b'\r' | b'\n'))
        .collect();
    let mut out = Vec::with_capacity(clean.len() / 8 * 5);
    let mut last = false;
    for (group, chunk) in clean.chunks(8).enumerate() {
        // What follows the padding is not looked at.
        if last {
            break;
        }
        let start = group * 8;
        let mut value: u64 = 0;
        let mut count = 0;
        while count < 8 {
            let Some(byte) = chunk.get(count).copied() else {
                return Err(start);
            };
            let at = start + count;
            let behind = clean.len() - at - 1;
            if byte == b'=' && count >= 2 && behind < 8 {
                if behind + count < 7 {
                    return Err(clean.len());
                }
                let padding = clean[at + 1..].iter().take(7 - count);
                if let Some(bad) = padding.into_iter().position(|byte| *byte != b'=') {
                    return Err(at + bad);
                }
                if matches!(count, 3 | 6) {
                    return Err(at);
                }
                last = true;
                break;
            }
            let Some(bits) = digit(BASE32, byte) else {
                return Err(start + count);
            };
            value = value << 5 | u64::from(bits);
            count += 1;
        }
        let whole = value << (5 * (8 - count)) << 24;
        out.extend_from_slice(&whole.to_be_bytes()[..count * 5 / 8]);
    }
    Ok(out)
}
