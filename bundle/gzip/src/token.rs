//! What a deflate stream is made of: literals and matches, and their symbols (RFC 1951, 3.2.5 and 3.2.6).
//!
//! What comes in: lengths and distances, or symbols. What goes out: the other one, with extra bits. It reads no stream.

/// Longest match, in bytes.
pub(crate) const MAX_LENGTH: u32 = 258;
/// Shortest match.
pub(crate) const MIN_LENGTH: u32 = 3;
/// Farthest match.
pub(crate) const MAX_DISTANCE: u32 = 32 * 1024;
/// The symbol that ends a block.
pub(crate) const END_OF_BLOCK: usize = 256;
/// Most symbols of literals and lengths, and of distances.
pub(crate) const MAX_LITERALS: usize = 286;
pub(crate) const MAX_DISTANCES: usize = 30;

/// One step of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// The next byte of the text.
    Literal,
    /// So many bytes, as they stand so far back.
    Match { length: u32, distance: u32 },
}

impl Token {
    /// Bytes of the text that it covers.
    pub(crate) fn covers(self) -> u32 {
        match self {
            Self::Literal => 1,
            Self::Match { length, .. } => length,
        }
    }
}

/// First length and extra bits of symbols 257 to 285.
pub(crate) const LENGTHS: [(u16, u8); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];

/// First distance and extra bits of symbols 0 to 29.
pub(crate) const DISTANCES: [(u16, u8); MAX_DISTANCES] = [
    (1, 0),
    (2, 0),
    (3, 0),
    (4, 0),
    (5, 1),
    (7, 1),
    (9, 2),
    (13, 2),
    (17, 3),
    (25, 3),
    (33, 4),
    (49, 4),
    (65, 5),
    (97, 5),
    (129, 6),
    (193, 6),
    (257, 7),
    (385, 7),
    (513, 8),
    (769, 8),
    (1025, 9),
    (1537, 9),
    (2049, 10),
    (3073, 10),
    (4097, 11),
    (6145, 11),
    (8193, 12),
    (12289, 12),
    (16385, 13),
    (24577, 13),
];

/// The last symbol of `table` that begins at or below `value`: its index, the extra bits and how many they are.
fn symbol(table: &[(u16, u8)], value: u32) -> (usize, u32, u8) {
    let index = table.partition_point(|(first, _)| u32::from(*first) <= value);
    let index = index.saturating_sub(1);
    let (first, extra) = table.get(index).copied().unwrap_or((1, 0));
    (index, value.saturating_sub(u32::from(first)), extra)
}

/// The symbol of a length, its extra bits and how many they are.
pub(crate) fn length_symbol(length: u32) -> (usize, u32, u8) {
    let (index, extra, bits) = symbol(&LENGTHS, length);
    (END_OF_BLOCK + 1 + index, extra, bits)
}

/// The symbol of a distance, its extra bits and how many they are.
pub(crate) fn distance_symbol(distance: u32) -> (usize, u32, u8) {
    symbol(&DISTANCES, distance)
}

/// The lengths of the codes of a block with fixed codes: of literals and lengths, and of distances.
pub(crate) fn fixed() -> (Vec<u8>, Vec<u8>) {
    let mut literals = vec![8; 288];
    for (symbol, length) in literals.iter_mut().enumerate() {
        *length = match symbol {
            0..=143 | 280.. => 8,
            144..=255 => 9,
            _ => 7,
        };
    }
    (literals, vec![5; MAX_DISTANCES])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_and_distance_has_the_symbol_that_yields_it() {
        for length in MIN_LENGTH..=MAX_LENGTH {
            let (symbol, extra, bits) = length_symbol(length);
            let (first, expected) = LENGTHS[symbol - 257];
            assert_eq!((u32::from(first) + extra, bits), (length, expected));
            assert!(extra < 1 << bits);
        }
        for distance in 1..=MAX_DISTANCE {
            let (symbol, extra, bits) = distance_symbol(distance);
            let (first, expected) = DISTANCES[symbol];
            assert_eq!((u32::from(first) + extra, bits), (distance, expected));
            assert!(extra < 1 << bits);
        }
    }
}
