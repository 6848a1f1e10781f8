//! Two changes of one file, put together line by line.
//!
//! What comes in: the file that both began with, and both results. What goes out: the file with both changes, or nothing where they
//! changed the same line otherwise. Unlike git it takes changes of neighbouring lines as two changes: a list of values has each
//! on a line of its own. It is pure.

use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// What became of some lines.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hunk<'a> {
    /// The lines of the common beginning that it takes the place of; empty where it only adds.
    old: Range<usize>,
    /// What stands there instead.
    new: Vec<&'a [u8]>,
}

/// `ours` with what leads from `base` to `theirs`.
pub(crate) fn merged(base: &[u8], ours: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
    let base = lines(base);
    let (ours, theirs) = (hunks(&base, ours), hunks(&base, theirs));
    let mut all = ours.clone();
    for their in theirs {
        if ours.contains(&their) {
            continue;
        }
        if ours.iter().any(|our| contradict(&our.old, &their.old)) {
            return None;
        }
        all.push(their);
    }
    // What is added before a line stands before what becomes of the line.
    all.sort_by_key(|hunk| (hunk.old.start, hunk.old.end));
    let mut out = Vec::new();
    let mut at = 0;
    for hunk in all {
        out.extend(base.get(at..hunk.old.start).unwrap_or_default().concat());
        out.extend(hunk.new.concat());
        at = hunk.old.end;
    }
    out.extend(base.get(at..).unwrap_or_default().concat());
    Some(out)
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

fn hunks<'a>(base: &[&'a [u8]], text: &'a [u8]) -> Vec<Hunk<'a>> {
    let text = lines(text);
    let changes = capture_diff_slices(Algorithm::Myers, base, &text);
    let hunks = changes
        .iter()
        .filter(|op| !matches!(op, DiffOp::Equal { .. }));
    hunks
        .map(|op| Hunk {
            old: op.old_range(),
            new: text.get(op.new_range()).unwrap_or_default().to_vec(),
        })
        .collect()
}

/// Whether both change the same line, or add at the same place.
fn contradict(one: &Range<usize>, other: &Range<usize>) -> bool {
    match (one.is_empty(), other.is_empty()) {
        (true, true) => one.start == other.start,
        (true, false) => other.start < one.start && one.start < other.end,
        (false, true) => one.start < other.start && other.start < one.end,
        (false, false) => one.start < other.end && other.start < one.end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "a: 1\nb: 2\nc: 3\n";

    fn of(ours: &str, theirs: &str) -> Option<String> {
        let merged = merged(BASE.as_bytes(), ours.as_bytes(), theirs.as_bytes())?;
        Some(String::from_utf8(merged).unwrap())
    }

    #[test]
    fn neighbouring_lines_are_two_changes() {
        let merged = of("a: 1\nb: 2\nc: 4\n", "a: 1\nb: 0\nc: 3\n");
        assert_eq!(merged.as_deref(), Some("a: 1\nb: 0\nc: 4\n"));
        let merged = of("a: 1\nnew: 5\nb: 2\nc: 3\n", "a: 1\nb: 0\nc: 3\n");
        assert_eq!(merged.as_deref(), Some("a: 1\nnew: 5\nb: 0\nc: 3\n"));
    }

    #[test]
    fn the_same_line_changed_otherwise_is_a_conflict_and_the_same_change_is_none() {
        assert_eq!(of("a: 1\nb: 7\nc: 3\n", "a: 1\nb: 0\nc: 3\n"), None);
        assert_eq!(of("a: 1\nc: 3\n", "a: 1\nb: 0\nc: 3\n"), None);
        assert_eq!(
            of("a: 1\nb: 0\nc: 3\n", "a: 1\nb: 0\nc: 3\n").as_deref(),
            Some("a: 1\nb: 0\nc: 3\n")
        );
        // Two additions at one place have no order.
        assert_eq!(
            of("a: 1\nx: 1\nb: 2\nc: 3\n", "a: 1\ny: 1\nb: 2\nc: 3\n"),
            None
        );
    }

    #[test]
    fn a_side_that_changed_nothing_gives_the_other_one() {
        for other in [
            "",
            "z\n",
            "a: 1\nb: 2\nc: 3",
            "c: 3\nb: 2\na: 1\n",
            "a: 1\nb: 2\nb: 2\nc: 3\nd\n",
        ] {
            assert_eq!(of(BASE, other).as_deref(), Some(other));
            assert_eq!(of(other, BASE).as_deref(), Some(other));
        }
    }
}
