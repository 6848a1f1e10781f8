//! The smallest PNG there is: black and white, one bit a pixel.
//!
//! What comes in: rows of pixels, all of one length. What goes out: the file's bytes: signature, `IHDR`, one
//! `IDAT`, `IEND`. An image library would bring colours, filters and a reader that nothing here needs.

use std::io::Write as _;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";
/// One bit, greyscale, deflate, no filters of another kind, not interlaced.
const FORM: [u8; 5] = [1, 0, 0, 0, 0];

/// The PNG of `rows`, where true is black.
pub(super) fn black_and_white(rows: &[Vec<bool>]) -> Vec<u8> {
    let side = |len: usize| u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    let width = rows.first().map_or(0, Vec::len);
    let mut bytes = SIGNATURE.to_vec();
    let header = [&side(width)[..], &side(rows.len()), &FORM].concat();
    chunk(&mut bytes, *b"IHDR", &header);
    chunk(&mut bytes, *b"IDAT", &packed(rows));
    chunk(&mut bytes, *b"IEND", &[]);
    bytes
}

/// Whether `bytes` begin as the PNG of a code does: as high as it is wide, and black and white.
pub fn is_of_a_code(bytes: &[u8]) -> bool {
    let Some(header) = bytes.strip_prefix(&SIGNATURE) else {
        return false;
    };
    let (Some(width), Some(height), Some(form)) =
        (header.get(8..12), header.get(12..16), header.get(16..21))
    else {
        return false;
    };
    header.get(4..8) == Some(b"IHDR") && width == height && form == FORM
}

/// Each row behind its filter byte (none), eight pixels in a byte, a set bit for white; then deflated.
fn packed(rows: &[Vec<bool>]) -> Vec<u8> {
    let mut raw = Vec::new();
    for row in rows {
        raw.push(0);
        for eight in row.chunks(8) {
            let mut byte = 0u8;
            for (at, black) in eight.iter().enumerate() {
                byte |= u8::from(!black) << (7 - at);
            }
            raw.push(byte);
        }
    }
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    // Writing into memory does not fail.
    let written = encoder.write_all(&raw).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}

fn chunk(bytes: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    let mut crc = Crc::new();
    crc.update(&kind);
    crc.update(data);
    bytes.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend(kind);
    bytes.extend(data);
    bytes.extend(crc.sum().to_be_bytes());
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Read as _;

    use super::*;

    /// The pixels of a PNG as this module writes them, its checksums checked.
    pub fn pixels(png: &[u8]) -> Vec<Vec<bool>> {
        let mut rest = png.strip_prefix(&SIGNATURE).unwrap();
        let (mut width, mut data) = (0, Vec::new());
        while !rest.is_empty() {
            let len = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
            let (kind, body) = (&rest[4..8], &rest[8..8 + len]);
            let mut crc = Crc::new();
            crc.update(&rest[4..8 + len]);
            assert_eq!(rest[8 + len..12 + len], crc.sum().to_be_bytes());
            match kind {
                b"IHDR" => width = u32::from_be_bytes(body[..4].try_into().unwrap()) as usize,
                b"IDAT" => {
                    flate2::read::ZlibDecoder::new(body)
                        .read_to_end(&mut data)
                        .unwrap();
                }
                _ => assert_eq!(kind, b"IEND"),
            }
            rest = &rest[12 + len..];
        }
        let row = |bytes: &[u8]| -> Vec<bool> {
            assert_eq!(bytes[0], 0, "no filter");
            (0..width)
                .map(|x| bytes[1 + x / 8] >> (7 - x % 8) & 1 == 0)
                .collect()
        };
        data.chunks(1 + width.div_ceil(8)).map(row).collect()
    }

    #[test]
    fn pixels_come_back() {
        let rows: Vec<Vec<bool>> = (0..9)
            .map(|y| (0..11).map(|x| (x * y) % 3 == 1).collect())
            .collect();
        assert_eq!(pixels(&black_and_white(&rows)), rows);
        assert!(!is_of_a_code(&black_and_white(&rows)), "not a square");
        let square = black_and_white(
            &rows[..1]
                .iter()
                .map(|row| row[..1].to_vec())
                .collect::<Vec<_>>(),
        );
        assert!(is_of_a_code(&square));
        let coloured = [&square[..24], &[8, 2], &square[26..]].concat();
        assert!(!is_of_a_code(&coloured) && !is_of_a_code(&square[..20]));
    }
}
