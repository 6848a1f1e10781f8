//! How plain sites look that were read: the next one mostly differs in its values alone.
//!
//! What comes in: the lines of plain sites, as they are read, and the text of the next document. What
//! goes out: where that ends, when line for line it has the keys and the indentation of one of them, and
//! its values. Nothing is taken that reading it line by line would not take.

use super::{Holds, Plain, is_harmless, is_name, is_public_key, text_of};

/// Most shapes that are remembered: sites are written by one program, or by a few people.
const MAX_SHAPES: usize = 8;

/// The shapes of some sites.
#[derive(Default)]
pub(super) struct Shapes<'t> {
    known: Vec<Vec<Line<'t>>>,
    /// The one that fitted last.
    last: usize,
    /// The lines of the document that is being read.
    now: Vec<Line<'t>>,
}

struct Line<'t> {
    /// What stands before the value; without one the whole line.
    before: &'t str,
    holds: Holds<'t>,
}

impl<'t> Shapes<'t> {
    /// A document begins.
    pub fn begin(&mut self) {
        self.now.clear();
    }

    /// Its next line, with its end.
    pub fn line(&mut self, line: &'t str, holds: Holds<'t>) {
        let before = match holds {
            Holds::Nothing => line,
            _ => line.find(": ").map_or(line, |at| &line[..at + 2]),
        };
        self.now.push(Line { before, holds });
    }

    /// It was a plain site.
    pub fn keep(&mut self) {
        let shape = std::mem::take(&mut self.now);
        self.last = match self.known.len() {
            MAX_SHAPES => (self.last + 1) % MAX_SHAPES,
            free => free,
        };
        match self.known.get_mut(self.last) {
            Some(oldest) => *oldest = shape,
            None => self.known.push(shape),
        }
    }

    /// Where the document at `start` ends, when it looks as one before it.
    pub fn site_end(&mut self, text: &'t str, start: usize, site: &mut Plain<'t>) -> Option<usize> {
        let (later, earlier) = (self.last..self.known.len(), 0..self.last);
        for at in later.chain(earlier) {
            if let Some(end) = end_as(self.known.get(at)?, text, start, site) {
                self.last = at;
                return Some(end);
            }
        }
        None
    }
}

/// As [`Shapes::site_end`], for one shape.
fn end_as<'t>(
    shape: &[Line<'t>],
    text: &'t str,
    start: usize,
    site: &mut Plain<'t>,
) -> Option<usize> {
    site.clear();
    let mut at = start;
    for line in shape {
        let rest = text.get(at..)?.strip_prefix(line.before)?;
        at += line.before.len();
        if line.holds == Holds::Nothing {
            continue;
        }
        let (value, length) = value(rest)?;
        if line.holds == Holds::Name && !is_name(value) {
            return None;
        }
        if line.holds == Holds::PublicKey && !is_public_key(value) {
            return None;
        }
        site.take(line.holds, value, at..at + length);
        at += length + 1;
    }
    let rest = text.get(at..)?;
    let ends = rest.is_empty() || rest.starts_with("---\n") || rest == "---";
    // A last line without its end may go on.
    (ends && text[..at].ends_with('\n')).then_some(at)
}

/// The text on the rest of a line, which must have an end, and how long it is written.
fn value(rest: &str) -> Option<(&str, usize)> {
    let bytes = rest.as_bytes();
    let harmless = bytes.iter().take_while(|b| is_harmless(**b)).count();
    let length = match bytes.get(harmless)? {
        b'\n' => harmless,
        _ => rest.find('\n')?,
    };
    let written = &rest[..length];
    // No number, boolean or null begins with one of these.
    let plain = matches!(
        bytes.first(),
        Some(b'a'..=b'd' | b'g'..=b'm' | b'o'..=b's' | b'u'..=b'z')
    );
    match plain && length == harmless {
        true => Some((written, length)),
        false => text_of(written).map(|text| (text, length)),
    }
}
