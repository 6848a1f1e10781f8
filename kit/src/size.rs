//! Sizes in bytes as people write and read them.
//!
//! What comes in: a number of bytes, or what someone typed. What goes out: `1.5 MiB`, or the number of bytes. It is pure.

/// The units that [`parse`] takes, for help texts.
pub const UNIT_NAMES: &str =
    "B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB, or K, M, G, T (powers of 1024)";

/// The same as a regular expression of all that [`parse`] takes.
pub const PATTERN: &str = r"^[0-9]+(\.[0-9]{1,3})? *(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB|K|M|G|T)?$";

/// Units of a size, and how many bytes each has.
const UNITS: [(&str, u64); 13] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    // As `dd`, `split` and `truncate` have them.
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
];

/// Bytes of `600MB`, `4.7 GiB`, `3900M`, `1000`; `None` where it is no size. Whole numbers all the way: a size is never rounded up.
pub fn parse(written: &str) -> Option<u64> {
    let split = written
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(written.len());
    let (number, unit) = written.split_at(split);
    let unit = match unit.trim_start_matches(' ') {
        "" => 1,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || part.len() > 3 || number.ends_with('.') {
        return None;
    }
    let scale = 10_u64.checked_pow(u32::try_from(part.len()).ok()?)?;
    let part = if part.is_empty() {
        0
    } else {
        part.parse().ok()?
    };
    let thousandths = unit.checked_mul(part)? / scale;
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(unit)?
        .checked_add(thousandths)
}

/// `1.5 MiB`, rounded to the nearest tenth.
pub fn text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut unit = "bytes";
    let mut whole = 1_u128;
    let mut tenths = u128::from(bytes) * 10;
    for next in UNITS {
        if tenths < 10_240 {
            break;
        }
        whole *= 1024;
        tenths = (u128::from(bytes) * 10 + whole / 2) / whole;
        unit = next;
    }
    match unit {
        "bytes" => format!("{bytes} bytes"),
        unit => format!("{}.{} {unit}", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_are_never_rounded_up() {
        for (written, expected) in [
            ("1000", Some(1000)),
            ("600MB", Some(600_000_000)),
            ("600 MiB", Some(629_145_600)),
            ("4.7GB", Some(4_700_000_000)),
            ("0.001kB", Some(1)),
            ("0.5B", Some(0)),
            ("3900M", Some(3900 << 20)),
            ("1 K", Some(1024)),
            ("2T", Some(2 << 40)),
            ("MB", None),
            ("1.MB", None),
            ("1 mb", None),
            ("1k", None),
            ("-1", None),
            ("99999999TiB", None),
        ] {
            assert_eq!(parse(written), expected, "{written}");
        }
    }

    #[test]
    fn each_unit_is_in_the_help_and_in_the_pattern() {
        let listed = UNIT_NAMES.replace(" (powers of 1000)", "");
        let listed = listed.replace(" (powers of 1024)", "").replace("or ", "");
        let listed: Vec<_> = listed.split(", ").collect();
        let units: Vec<_> = UNITS.iter().map(|(name, _)| *name).collect();
        assert_eq!(listed, units);
        assert!(PATTERN.contains(&format!("({})", units.join("|"))));
    }

    #[test]
    fn a_size_is_shown_in_the_largest_unit_that_it_fills() {
        assert_eq!(text(1023), "1023 bytes");
        assert_eq!(text(1536), "1.5 KiB");
        assert_eq!(text(1_048_575), "1.0 MiB");
        assert_eq!(text(12 << 20), "12.0 MiB");
    }
}
