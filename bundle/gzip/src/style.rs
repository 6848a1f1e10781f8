//! How known writers choose: the limits of their search for matches.
//!
//! What comes in: a number. What goes out: the limits. They are facts of two programs: zlib's `configuration_table`
//! (`deflate.c`) and the levels of Go's `compress/flate` (`deflate.go`); pigz and Python use zlib's; containerd and what builds
//! images for it Go's.

/// The limits of one writer at one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    /// Shortest match that it writes.
    pub(crate) shortest: u32,
    /// A match from this length on makes the search after it four times as short; 0: none does.
    pub(crate) good: u32,
    /// From this length on a match is taken without a look at the next position; 0: each is.
    pub(crate) lazy: u32,
    /// A match from this length on ends the search.
    pub(crate) nice: u32,
    /// Earlier positions that are compared.
    pub(crate) chain: u32,
    /// Farthest match.
    pub(crate) reach: u32,
}

/// Farther than this, a shortest match is not worth its bits: both writers' limit.
pub(crate) const TOO_FAR: u32 = 4096;

const fn go(lazy: u32, nice: u32, chain: u32) -> Style {
    Style {
        shortest: 4,
        good: 0,
        lazy,
        nice,
        chain,
        reach: 32 * 1024,
    }
}

const fn zlib(good: u32, lazy: u32, nice: u32, chain: u32) -> Style {
    Style {
        shortest: 3,
        good,
        lazy,
        nice,
        chain,
        // The window less the longest match, its lookahead and one.
        reach: 32 * 1024 - 262,
    }
}

/// All, the usual ones first; a file of corrections names one by its place, so that new ones come at the end.
pub(crate) const STYLES: [Style; 13] = [
    go(16, 128, 128),
    zlib(8, 16, 128, 128),
    zlib(32, 258, 258, 4096),
    go(258, 258, 4096),
    go(4, 16, 16),
    go(16, 32, 32),
    go(32, 128, 256),
    go(128, 258, 1024),
    zlib(4, 4, 16, 16),
    zlib(8, 16, 32, 32),
    zlib(8, 32, 128, 256),
    zlib(32, 128, 258, 1024),
    // Whoever takes the first match that it finds.
    go(0, 258, 1),
];
