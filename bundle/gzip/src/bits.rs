//! Codes of a deflate block, and bits as it packs them (RFC 1951, 3.1.1 and 3.2.2).
//!
//! What comes in: lengths of codes, and values of so many bits. What goes out: the codes, a decoder of them, and bytes.
//! It knows no block.

/// Longest code, in bits.
pub(crate) const MAX_CODE_BITS: usize = 15;
/// Codes up to this length are found at once.
const FAST_BITS: usize = 10;

/// The codes of these lengths, bits reversed as they are packed; `None` where the lengths do not fit together. Fewer codes
/// than there could be are taken: some writers give a single distance one bit.
pub(crate) fn codes(lengths: &[u8]) -> Option<Vec<u16>> {
    let mut next = firsts(lengths)?;
    lengths
        .iter()
        .map(|length| {
            if *length == 0 {
                return Some(0);
            }
            let slot = next.get_mut(usize::from(*length))?;
            let code = *slot;
            *slot += 1;
            u16::try_from(code.reverse_bits() >> (32 - u32::from(*length))).ok()
        })
        .collect()
}

/// The first code of each length.
fn firsts(lengths: &[u8]) -> Option<[u32; MAX_CODE_BITS + 1]> {
    let mut counts = [0u32; MAX_CODE_BITS + 1];
    for length in lengths {
        *counts.get_mut(usize::from(*length))? += 1;
    }
    counts[0] = 0;
    let mut firsts = [0u32; MAX_CODE_BITS + 1];
    let mut code = 0u32;
    for bits in 1..=MAX_CODE_BITS {
        code = (code + counts[bits - 1]) << 1;
        firsts[bits] = code;
        if code + counts[bits] > 1 << bits {
            return None;
        }
    }
    Some(firsts)
}

/// Finds symbols by their codes.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// By the next [`FAST_BITS`] bits: the symbol and the bits of its code; 0 bits: it is longer, or there is none.
    fast: Vec<(u16, u8)>,
    /// The longer ones, by code.
    long: Vec<(u16, u8, u16)>,
}

impl Decoder {
    /// Of codes of these lengths.
    pub(crate) fn new(lengths: &[u8]) -> Option<Self> {
        let codes = codes(lengths)?;
        let (mut fast, mut long) = (vec![(0, 0); 1 << FAST_BITS], Vec::new());
        for ((symbol, length), code) in (0u16..).zip(lengths).zip(codes) {
            let bits = usize::from(*length);
            if bits == 0 {
                continue;
            }
            if bits > FAST_BITS {
                long.push((code, *length, symbol));
                continue;
            }
            for slot in fast.iter_mut().skip(code.into()).step_by(1 << bits) {
                *slot = (symbol, *length);
            }
        }
        long.sort_unstable();
        Some(Self { fast, long })
    }

    /// The symbol that `bits` begin with, and the bits of its code.
    pub(crate) fn find(&self, bits: u64) -> Option<(u16, u8)> {
        let bits = (bits & ((1 << MAX_CODE_BITS) - 1)) as u16;
        let found = self.fast.get(usize::from(bits) & ((1 << FAST_BITS) - 1))?;
        if found.1 > 0 {
            return Some(*found);
        }
        for length in FAST_BITS + 1..=MAX_CODE_BITS {
            #[expect(clippy::cast_possible_truncation, reason = "fifteen at most")]
            let length = length as u8;
            let code = bits & ((1 << length) - 1);
            let key = |entry: &(u16, u8, u16)| (entry.0, entry.1);
            if let Ok(at) = self.long.binary_search_by_key(&(code, length), key) {
                return self.long.get(at).map(|entry| (entry.2, length));
            }
        }
        None
    }
}

/// Packs bits.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    /// Whole bytes.
    pub(crate) bytes: Vec<u8>,
    pending: u64,
    count: u32,
}

impl Packer {
    /// The lowest `count` bits of `value`, 32 at most.
    pub(crate) fn put(&mut self, value: u32, count: u8) {
        self.pending |= u64::from(value) << self.count;
        self.count += u32::from(count);
        while self.count >= 8 {
            self.byte();
        }
    }

    /// Zeros up to the end of a byte.
    pub(crate) fn align(&mut self) {
        if self.count > 0 {
            self.byte();
        }
        (self.pending, self.count) = (0, 0);
    }

    fn byte(&mut self) {
        #[expect(clippy::cast_possible_truncation, reason = "the lowest byte")]
        self.bytes.push(self.pending as u8);
        self.pending >>= 8;
        self.count = self.count.saturating_sub(8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_example_in_the_specification() {
        // RFC 1951, 3.2.2: lengths (3, 3, 3, 3, 3, 2, 4, 4).
        let lengths = [3, 3, 3, 3, 3, 2, 4, 4];
        let expected: [(u32, u32); 8] = [
            (0b010, 3),
            (0b011, 3),
            (0b100, 3),
            (0b101, 3),
            (0b110, 3),
            (0b00, 2),
            (0b1110, 4),
            (0b1111, 4),
        ];
        let reversed = expected.map(|(code, bits)| {
            let code = code.reverse_bits() >> (32 - bits);
            u16::try_from(code).unwrap()
        });
        assert_eq!(codes(&lengths).unwrap(), reversed);
        let decoder = Decoder::new(&lengths).unwrap();
        for (symbol, (code, length)) in (0u16..).zip(reversed.into_iter().zip(lengths)) {
            assert_eq!(decoder.find(u64::from(code)), Some((symbol, length)));
        }
    }

    #[test]
    fn lengths_that_do_not_fit_together_are_refused_and_a_single_code_is_not() {
        assert!(codes(&[1, 1, 1]).is_none());
        assert!(codes(&[16]).is_none());
        let one = Decoder::new(&[0, 1]).unwrap();
        assert_eq!(one.find(0), Some((1, 1)));
        assert_eq!(one.find(1), None);
    }
}
