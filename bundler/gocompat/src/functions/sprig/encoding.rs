//! Base64, base32 and digests.
//!
//! In: strings as bytes. Out: text; a decoding error is the text of the error, as in sprig.

use crate::binary_text::{base32_decode, base32_encode, base64_decode, base64_encode};
use crate::functions::args::string;
use crate::functions::{Function, Ty};
use crate::runtime::text;
use sha2::{Digest, Sha256};

const T: Ty = Ty::Text;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("b64enc", &[T], |env, args| {
        env.budget.bytes(string(args, 0).len().saturating_mul(2))?;
        Ok(text(base64_encode(string(args, 0))))
    }),
    Function::new("b32enc", &[T], |env, args| {
        env.budget.bytes(string(args, 0).len().saturating_mul(2))?;
        Ok(text(base32_encode(string(args, 0))))
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
