//! QR codes: a text as a square of dark and light, for a printer or for a terminal.
//!
//! What comes in: a text, best of capital letters and digits, which pack tightest. What goes out: modules,
//! and from them a PNG ([`png`]) or lines of half blocks. It draws; what the text means is the caller's.

use qrcode::{EcLevel, QrCode};

pub mod png;

/// Light modules around a code, without which cameras do not find it; the standard asks for four.
const QUIET_ZONE: usize = 4;
/// What a terminal leaves of it: the lines around are mostly light or dark alike.
const TERMINAL_QUIET_ZONE: usize = 2;

/// A text that no QR code holds.
#[derive(Debug, thiserror::Error)]
#[error("a text of {characters} characters fits in no QR code, which hold up to 4296")]
pub struct QrError {
    /// Its length.
    pub characters: usize,
}

/// A QR code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    width: usize,
    dark: Vec<bool>,
}

impl Code {
    /// A code for paper: 15 % of it may be lost, or 7 % where the text is too long for that.
    ///
    /// # Errors
    /// [`QrError`] when the text is too long.
    pub fn for_paper(text: &str) -> Result<Self, QrError> {
        Self::with_level(text, EcLevel::M).or_else(|_| Self::with_level(text, EcLevel::L))
    }

    /// A code for a screen: as small as can be.
    ///
    /// # Errors
    /// [`QrError`] when the text is too long.
    pub fn for_screen(text: &str) -> Result<Self, QrError> {
        Self::with_level(text, EcLevel::L)
    }

    fn with_level(text: &str, level: EcLevel) -> Result<Self, QrError> {
        let code = QrCode::with_error_correction_level(text, level).map_err(|_| QrError {
            characters: text.chars().count(),
        })?;
        let dark = code
            .to_colors()
            .iter()
            .map(|color| *color == qrcode::Color::Dark)
            .collect();
        Ok(Self {
            width: code.width(),
            dark,
        })
    }

    /// Whether the module at (`x`, `y`) is dark; all around the code is light.
    fn is_dark(&self, x: Option<usize>, y: Option<usize>) -> bool {
        match (x.filter(|x| *x < self.width), y.filter(|y| *y < self.width)) {
            (Some(x), Some(y)) => self.dark.get(y * self.width + x).copied().unwrap_or(false),
            _ => false,
        }
    }

    /// Rows of modules with `around` light ones on each side.
    fn rows(&self, around: usize) -> impl Iterator<Item = Vec<bool>> + '_ {
        let side = self.width + 2 * around;
        (0..side).map(move |y| {
            (0..side)
                .map(|x| self.is_dark(x.checked_sub(around), y.checked_sub(around)))
                .collect()
        })
    }

    /// The code as lines for a terminal, two modules above one another in each character. With `colors`
    /// dark is black on white whatever the terminal's colours are; without, dark is the text's colour.
    pub fn to_lines(&self, colors: bool) -> Vec<String> {
        let rows: Vec<Vec<bool>> = self.rows(TERMINAL_QUIET_ZONE).collect();
        let light = vec![false; self.width + 2 * TERMINAL_QUIET_ZONE];
        rows.chunks(2)
            .map(|pair| {
                let below = pair.get(1).unwrap_or(&light);
                let blocks = pair[0].iter().zip(below).map(|modules| match modules {
                    (true, true) => '█',
                    (true, false) => '▀',
                    (false, true) => '▄',
                    (false, false) => ' ',
                });
                let line: String = blocks.collect();
                if colors {
                    format!("\u{1b}[30;107m{line}\u{1b}[0m")
                } else {
                    line
                }
            })
            .collect()
    }

    /// The code as a PNG with `scale` pixels to a module, 1 to 64.
    pub fn to_png(&self, scale: usize) -> Vec<u8> {
        let scale = scale.clamp(1, 64);
        let rows = self.rows(QUIET_ZONE).flat_map(|row| {
            let pixels: Vec<bool> = row
                .iter()
                .flat_map(|dark| std::iter::repeat_n(*dark, scale))
                .collect();
            std::iter::repeat_n(pixels, scale)
        });
        png::black_and_white(&rows.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "9X3N6M0123456789ABCDEFGHJKMNPQRSTVWXYZ";

    /// What a scanner reads in a picture of `rows` pixels.
    pub(super) fn read(rows: &[Vec<bool>]) -> String {
        let shade = |x: usize, y: usize| if rows[y][x] { 0 } else { 255 };
        let mut picture =
            rqrr::PreparedImage::prepare_from_greyscale(rows[0].len(), rows.len(), shade);
        let grids = picture.detect_grids();
        assert_eq!(grids.len(), 1, "one code");
        grids[0].decode().unwrap().1
    }

    #[test]
    fn the_picture_is_read_back_by_a_scanner() {
        for text in [TEXT.to_owned(), TEXT.repeat(40)] {
            let pixels = png::tests::pixels(&Code::for_paper(&text).unwrap().to_png(4));
            assert_eq!(read(&pixels), text);
        }
    }

    #[test]
    fn the_terminal_s_lines_are_read_back_by_a_scanner() {
        let code = Code::for_screen(&TEXT.repeat(10)).unwrap();
        let mut rows = Vec::new();
        for line in code.to_lines(false) {
            let (mut above, mut below) = (Vec::new(), Vec::new());
            for c in line.chars() {
                for _ in 0..3 {
                    above.push(matches!(c, '█' | '▀'));
                    below.push(matches!(c, '█' | '▄'));
                }
            }
            rows.extend(std::iter::repeat_n(above, 3).chain(std::iter::repeat_n(below, 3)));
        }
        assert_eq!(read(&rows), TEXT.repeat(10));
        let colored = code.to_lines(true);
        assert!(
            colored
                .iter()
                .all(|line| line.starts_with('\u{1b}') && line.ends_with("[0m"))
        );
    }

    /// The picture of a real slip, its pixels read by a scanner, is the slip that was drawn.
    #[test]
    fn what_a_scanner_reads_of_a_slip_is_that_slip() {
        use outhaul_signer::Slip;
        let files = [(
            "1.root.json".to_owned(),
            br#"{"signatures":[],"signed":{}}"#.to_vec(),
        )];
        let slip = Slip::new("0123456789abcdef", "s-00112233445566ff", &files, 0).unwrap();
        let code = Code::for_paper(&slip.to_line()).unwrap();
        let scanned = read(&png::tests::pixels(&code.to_png(4)));
        assert!(
            scanned.starts_with(outhaul_signer::slip::PREFIX),
            "{scanned}"
        );
        assert_eq!(Slip::from_text(&scanned).unwrap(), slip);
    }

    #[test]
    fn capital_letters_and_digits_pack_tighter_than_others() {
        let width = |text: &str| Code::for_screen(text).unwrap().width;
        assert!(width(&TEXT.repeat(10)) < width(&TEXT.to_lowercase().repeat(10)));
    }

    #[test]
    fn paper_gets_more_redundancy_until_the_text_is_too_long_for_it() {
        let text = "A".repeat(1000);
        assert!(Code::for_paper(&text).unwrap().width > Code::for_screen(&text).unwrap().width);
        let text = "A".repeat(4296);
        assert_eq!(Code::for_paper(&text).unwrap().width, 177);
        let refusal = Code::for_paper(&"A".repeat(4297)).unwrap_err();
        assert!(refusal.to_string().contains("4297 characters"), "{refusal}");
    }
}
