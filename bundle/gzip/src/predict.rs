//! What a known writer would do next.
//!
//! What comes in: the text, as it becomes known, and how far each step went. What goes out: the step that a writer of a
//! style takes at the present position. The same text gives the same answers, however it arrives. It keeps
//! the last 32 KiB and what lies ahead, and knows nothing of files.
//!
//! The rules are those that zlib's `deflate_slow` and Go's `compressor.deflate` share: earlier places of the same first bytes, the
//! latest first; the longest match wins, the nearest of equal ones; a longer one at the next position makes this one
//! a literal.

use crate::style::{STYLES, Style, TOO_FAR};
use crate::token::{MAX_DISTANCE, MAX_LENGTH, Token};

/// Bytes of the text from the present position on that make a prediction final.
pub(crate) const LOOKAHEAD: usize = 300;
/// Text that is kept before it is moved, in bytes.
const KEPT_BYTES: usize = 1 << 20;
const HISTORY: usize = MAX_DISTANCE as usize;
const HASH_BITS: u32 = 16;
/// So many places are cleared one by one.
const FEW: usize = 4096;

/// The writer's place in one member of a gzip file.
#[derive(Debug)]
pub(crate) struct Predictor {
    style: Style,
    text: Vec<u8>,
    /// Bytes of the member before `text`.
    before: u64,
    /// The present position in `text`.
    at: usize,
    /// Whether the text ends where `text` does.
    is_ended: bool,
    /// The latest place of each hash, and the one before each place: positions in the member, of which 32 bits are kept.
    head: Vec<u32>,
    previous: Vec<u32>,
    /// Places before this one are in both.
    listed: usize,
    /// What was found at a position ahead.
    ahead: Option<(usize, Option<(u32, u32)>)>,
}

impl Predictor {
    /// At the start of a member; `None` where no style has this number.
    pub(crate) fn new(style: u8) -> Option<Self> {
        Some(Self {
            style: *STYLES.get(usize::from(style))?,
            text: Vec::new(),
            before: 0,
            at: 0,
            is_ended: false,
            head: vec![0; 1 << HASH_BITS],
            previous: vec![0; HISTORY],
            listed: 0,
            ahead: None,
        })
    }

    /// At the start of the next member.
    pub(crate) fn restart(&mut self) {
        // Files of very many small members exist: what is cleared is what was listed.
        if self.before == 0 && self.listed <= FEW {
            for place in 0..self.listed {
                if let Some(head) = self.hash(place).and_then(|hash| self.head.get_mut(hash)) {
                    *head = 0;
                }
            }
        } else {
            self.head.fill(0);
        }
        self.text.clear();
        (self.before, self.at, self.listed) = (0, 0, 0);
        (self.is_ended, self.ahead) = (false, None);
    }

    /// The text goes on with `bytes`.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.make_room();
        self.text.extend_from_slice(bytes);
    }

    /// The text goes on with what stands `distance` before its end; `false` when it does not reach that far back.
    pub(crate) fn repeat(&mut self, length: u32, distance: u32) -> bool {
        self.make_room();
        let (length, distance) = (length as usize, distance as usize);
        let Some(from) = self.text.len().checked_sub(distance) else {
            return false;
        };
        for place in from..from + length {
            let Some(byte) = self.text.get(place).copied() else {
                return false;
            };
            self.text.push(byte);
        }
        true
    }

    /// The last `count` bytes of the text.
    pub(crate) fn last(&self, count: usize) -> &[u8] {
        let from = self.text.len().saturating_sub(count);
        self.text.get(from..).unwrap_or_default()
    }

    /// The text ends here.
    pub(crate) fn end(&mut self) {
        self.is_ended = true;
    }

    /// The text from the present position on, as far as it is known.
    pub(crate) fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Whether enough of the text is known for a prediction.
    pub(crate) fn is_ready(&self) -> bool {
        let known = self.rest().len();
        known >= LOOKAHEAD || (self.is_ended && known > 0)
    }

    /// Goes on by `count` bytes, which are known.
    pub(crate) fn advance(&mut self, count: usize) {
        self.at = (self.at + count).min(self.text.len());
    }

    /// What the writer does at the present position.
    pub(crate) fn next(&mut self) -> Token {
        let at = self.at;
        let here = match self.ahead.take() {
            Some((place, found)) if place == at => found,
            _ => {
                self.list_before(at);
                self.search(at, self.style.chain)
            }
        };
        let Some((length, distance)) = here else {
            return Token::Literal;
        };
        if length < self.style.lazy {
            let is_good = self.style.good > 0 && length >= self.style.good;
            let chain = self.style.chain >> if is_good { 2 } else { 0 };
            self.list_before(at + 1);
            let next = self.search(at + 1, chain);
            if next.is_some_and(|(longer, _)| longer > length) {
                self.ahead = Some((at + 1, next));
                return Token::Literal;
            }
        }
        Token::Match { length, distance }
    }

    /// Lists every place before `end`.
    fn list_before(&mut self, end: usize) {
        while self.listed < end {
            if let Some(hash) = self.hash(self.listed) {
                let place = self.before + self.listed as u64;
                #[expect(clippy::cast_possible_truncation, reason = "32 bits are kept")]
                let short = place as u32;
                if let Some(head) = self.head.get_mut(hash) {
                    if let Some(previous) = self.previous.get_mut(short as usize % HISTORY) {
                        *previous = *head;
                    }
                    *head = short;
                }
            }
            self.listed += 1;
        }
    }

    /// Where the first bytes at `place` are listed.
    fn hash(&self, place: usize) -> Option<usize> {
        let bytes = self.text.get(place..)?;
        let first = match self.style.shortest {
            3 => {
                let bytes = bytes.first_chunk::<3>()?;
                u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0])
            }
            _ => u32::from_le_bytes(*bytes.first_chunk::<4>()?),
        };
        Some((first.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize)
    }

    /// The match that the writer finds at `place`: its length and distance.
    fn search(&self, place: usize, mut chain: u32) -> Option<(u32, u32)> {
        let here = self.text.get(place..)?;
        let here = here.get(..here.len().min(MAX_LENGTH as usize))?;
        let position = self.before + place as u64;
        #[expect(clippy::cast_possible_truncation, reason = "32 bits are kept")]
        let short = position as u32;
        let nice = (self.style.nice as usize).min(here.len());
        let mut best = (self.style.shortest as usize - 1, 0);
        let mut candidate = *self.head.get(self.hash(place)?)?;
        let mut farthest = 0;
        while chain > 0 {
            let distance = short.wrapping_sub(candidate);
            if distance <= farthest || distance > self.style.reach || u64::from(distance) > position
            {
                break;
            }
            farthest = distance;
            let earlier = self.text.get(place.checked_sub(distance as usize)?..)?;
            if earlier.get(best.0) == here.get(best.0) {
                let length = common(earlier, here);
                let is_far = length == self.style.shortest as usize && distance > TOO_FAR;
                if length > best.0 && !is_far {
                    best = (length, distance);
                    if length >= nice {
                        break;
                    }
                }
            }
            candidate = *self.previous.get(candidate as usize % HISTORY)?;
            chain -= 1;
        }
        let length = u32::try_from(best.0).unwrap_or(MAX_LENGTH);
        (best.1 > 0).then_some((length, best.1))
    }

    /// Forgets the text that no match reaches any more.
    fn make_room(&mut self) {
        let needed = self.at.min(self.listed).saturating_sub(HISTORY);
        if needed < KEPT_BYTES {
            return;
        }
        self.text.drain(..needed);
        self.before += needed as u64;
        self.at -= needed;
        self.listed -= needed;
        self.ahead = match self.ahead.take() {
            Some((place, found)) => place.checked_sub(needed).map(|place| (place, found)),
            None => None,
        };
    }
}

/// How many bytes two texts begin with alike.
fn common(one: &[u8], other: &[u8]) -> usize {
    let mut count = 0;
    for (a, b) in one.chunks_exact(8).zip(other.chunks_exact(8)) {
        let (a, b) = (a.first_chunk::<8>(), b.first_chunk::<8>());
        let (Some(a), Some(b)) = (a, b) else {
            return count;
        };
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return count + differing.trailing_zeros() as usize / 8;
        }
        count += 8;
    }
    let rest = one.get(count..).unwrap_or_default();
    let tail = rest.iter().zip(other.get(count..).unwrap_or_default());
    count + tail.take_while(|(a, b)| a == b).count()
}
