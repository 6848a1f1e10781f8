//! HMAC-SHA256 (RFC 2104), and comparing without telling by the time where two values differ.
//!
//! What comes in: a secret and bytes. What goes out: 32 bytes that only who knows the secret can make,
//! or whether two values are equal. It is small enough to be read whole, and is tried with the test
//! vectors of RFC 4231.

use sha2::{Digest as _, Sha256};

/// Bytes that SHA-256 takes at once.
const BLOCK: usize = 64;

/// The authentication code of `message` under `key`.
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0_u8; BLOCK];
    let hashed;
    let short = if key.len() > BLOCK {
        hashed = Sha256::digest(key);
        hashed.as_slice()
    } else {
        key
    };
    for (to, from) in block.iter_mut().zip(short) {
        *to = *from;
    }
    let inner = Sha256::new()
        .chain_update(block.map(|byte| byte ^ 0x36))
        .chain_update(message)
        .finalize();
    Sha256::new()
        .chain_update(block.map(|byte| byte ^ 0x5c))
        .chain_update(inner)
        .finalize()
        .into()
}

/// Whether both are the same; the time it takes depends on their lengths alone.
pub fn equal(left: &[u8], right: &[u8]) -> bool {
    let differing = left
        .iter()
        .zip(right)
        .fold(0_u8, |seen, (one, other)| seen | (one ^ other));
    // Without this the compiler may see that it can stop at the first difference.
    left.len() == right.len() && std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_rfc_4231_come_out() {
        let long = [0xaa_u8; 131];
        let cases: [(&[u8], &[u8], &str); 4] = [
            (
                &[0x0b; 20],
                b"Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 20],
                &[0xdd; 50],
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
            ),
            (
                &long,
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ];
        for (key, message, expected) in cases {
            assert_eq!(hex::encode(hmac_sha256(key, message)), expected);
        }
    }

    #[test]
    fn one_bit_or_one_byte_more_is_not_equal() {
        assert!(equal(b"secret", b"secret"));
        assert!(!equal(b"secret", b"secreu"));
        assert!(!equal(b"secret", b"secret1"));
        assert!(!equal(b"", b"s"));
    }
}
