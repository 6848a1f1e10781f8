//! Base64, base32 and digests.
//!
//! In: strings as bytes. Out: text; a decoding error is the text of the error, as in sprig.

use crate::functions::args::string;
use crate::functions::{Function, Ty};
use crate::runtime::text;
use sha2::{Digest, Sha256};

const T: Ty = Ty::Text;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("b64enc", &[T], |env, args| {
        env.budget.bytes(string(args, 0).len().saturating_mul(2))?;
        Ok(text(encode(string(args, 0), 6, 4, BASE64)))
    }),
    Function::new("b32enc", &[T], |env, args| {
        env.budget.bytes(string(args, 0).len().saturating_mul(2))?;
        Ok(text(encode(string(args, 0), 5, 8, BASE32)))
    }),
    Function::new("b64dec", &[T], |_, args| {
        Ok(text(match base64_decode(string(args, 0)) {
            Ok(bytes) => bytes,
            Err(at) => format!("illegal base64 data at input byte {at}").into_bytes(),
        }))
    }),
    Function::new("b32dec", &[T], |_, args| {
        Ok(text(match base32_decode(string(args, 0)) {
            Ok(bytes) => bytes,
            Err(at) => format!("illegal base32 data at input byte {at}").into_bytes(),
        }))
    }),
    Function::new("sha256sum", &[T], |_, args| {
        Ok(text(hex(&Sha256::digest(string(args, 0)))))
    }),
    Function::new("sha1sum", &[T], |_, args| {
        Ok(text(hex(&sha1(string(args, 0)))))
    }),
    Function::new("adler32sum", &[T], |_, args| {
        Ok(text(adler32(string(args, 0)).to_string()))
    }),
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        out.push_str(&format!("{byte:02x}"));
        out
    })
}

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

/// Go's `base32.StdEncoding`.
fn base32_decode(bytes: &[u8]) -> Result<Vec<u8>, usize> {
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

fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    b << 16 | a
}

#[expect(clippy::many_single_char_names, reason = "the names of the standard")]
/// SHA-1, for sprig's `sha1sum` only; nothing of Outhaul trusts it.
fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut state: [u32; 5] = [
        0x6745_2301,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];
    let mut message = bytes.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());
    for block in message.chunks_exact(64) {
        let mut words = [0_u32; 80];
        for (word, chunk) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = chunk
                .iter()
                .fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        for at in 16..80 {
            let mixed = words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16];
            words[at] = mixed.rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (at, word) in words.iter().enumerate() {
            let (mix, constant) = match at / 20 {
                0 => (b & c | !b & d, 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6_u32),
            };
            let next = a
                .rotate_left(5)
                .wrapping_add(mix)
                .wrapping_add(e)
                .wrapping_add(constant)
                .wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (word, add) in state.iter_mut().zip([a, b, c, d, e]) {
            *word = word.wrapping_add(add);
        }
    }
    let mut out = [0; 20];
    for (chunk, word) in out.chunks_exact_mut(4).zip(state) {
        chunk.copy_from_slice(&word.to_be_bytes());
    }
    out
}
