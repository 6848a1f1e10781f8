//! Which files of a crowded stick are looked at first: by their names, which `outhaul bundle` and `outhaul copy` give them.
//!
//! What comes in: a file's name, and the stream of this site. What goes out: its rank. A name decides which files are looked at, and
//! nothing else: what is in them is verified like all that comes.

use std::ffi::OsStr;

use crate::state::SiteIdentity;

/// How the names of this site's bundles begin.
pub(super) fn stream(site: &SiteIdentity) -> String {
    format!("{}-{}-", site.stream.environment, site.stream.cluster_type)
}

/// The higher, the earlier: the stream's newest bundle first; slips and others, which may have any name, if there is room.
pub(super) fn rank(name: &OsStr, stream: &str) -> u64 {
    // FAT makes capitals of names.
    let name = name.to_string_lossy().to_ascii_lowercase();
    let rest = name.strip_prefix(&stream.to_ascii_lowercase());
    let digits = rest.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let number: Option<u64> = digits.and_then(|digits| digits.parse().ok());
    number.map_or(0, |number| number.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_the_stream_come_before_the_rest() {
        let ranked = |name: &str| rank(OsStr::new(name), "dev-edge-");
        let names = [
            "any.slip",
            "dev-edge-99999999999999999999.outhaul",
            "dev-edge-12.part1of4.outhaul",
            "DEV-EDGE-7.OUTHAUL",
            "dev-edge-0.outhaul",
            "dev-edge-x.outhaul",
            "dev-edges-8.outhaul",
            "copy of dev-edge-9.outhaul",
        ];
        let ranks = names.map(ranked);
        assert_eq!(ranks, [0, 0, 13, 8, 1, 0, 0, 0]);
    }
}
