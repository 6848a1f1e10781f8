//! Lines: a unified diff of two texts.
//!
//! What comes in: two texts. What goes out: hunks as `diff -U2` writes them (`patch` and `git apply` take
//! them, unless a sealed value, what looks like a secret in clear or a control character was written out), and how many lines come and go.
//! Time and memory are bounded: what is larger is counted as replaced whole and not drawn.

use outhaul_kit::secrets;
use similar::{ChangeTag, TextDiff};

/// Lines around a change.
const CONTEXT: usize = 2;
/// Largest product of the numbers of lines that differ.
const MAX_PRODUCT: usize = 4_000_000;

/// The difference of two texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineDiff {
    /// Lines that are new.
    pub added: usize,
    /// Lines that are gone.
    pub removed: usize,
    /// Lines as they are drawn, each with ` `, `+`, `-`, `@@` or `\\` before it.
    pub drawn: Vec<String>,
}

/// How `before` becomes `after`.
pub fn between(before: &str, after: &str) -> LineDiff {
    let (old, new): (Vec<&str>, Vec<&str>) = (
        before.split_inclusive('\n').collect(),
        after.split_inclusive('\n').collect(),
    );
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let same = |(a, b): &(&&str, &&str)| a == b;
    let rest = old[head..].iter().rev().zip(new[head..].iter().rev());
    let tail = rest.take_while(same).count();
    let (removed, added) = (old.len() - head - tail, new.len() - head - tail);
    if removed.saturating_mul(added) > MAX_PRODUCT {
        return LineDiff {
            added,
            removed,
            drawn: Vec::new(),
        };
    }
    let diff = TextDiff::configure()
        .newline_terminated(true)
        .diff_slices(&old, &new);
    // What differs is found first: a secret that became another one is a difference, too.
    let (old, new) = (
        secrets::without_secrets(before),
        secrets::without_secrets(after),
    );
    draw(&diff, (&old, &new))
}

fn draw<'d>(diff: &'d TextDiff<'d, 'd, 'd, str>, (old, new): (&str, &str)) -> LineDiff {
    let (old, new): (Vec<&str>, Vec<&str>) = (
        old.split_inclusive('\n').collect(),
        new.split_inclusive('\n').collect(),
    );
    let mut lines = LineDiff::default();
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        lines.drawn.push(hunk.header().to_string());
        for change in hunk.iter_changes() {
            let mark = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            lines.added += usize::from(mark == '+');
            lines.removed += usize::from(mark == '-');
            let line = change.value();
            let shown = match (change.old_index(), change.new_index()) {
                (_, Some(at)) => new.get(at),
                (Some(at), None) => old.get(at),
                (None, None) => None,
            };
            let shown = shown.copied().unwrap_or_default();
            let text = super::plain::plain(shown.trim_end_matches('\n'));
            lines.drawn.push(format!("{mark}{text}"));
            if !line.ends_with('\n') {
                lines.drawn.push("\\ No newline at end of file".into());
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_changed_line_is_drawn_with_its_neighbours() {
        let diff = between("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nX\ne\nf\n");
        assert_eq!((diff.added, diff.removed), (1, 1));
        assert_eq!(
            diff.drawn,
            ["@@ -2,5 +2,5 @@", " b", " c", "-d", "+X", " e", " f"]
        );
    }

    #[test]
    fn a_secret_that_changes_is_a_difference_and_is_not_drawn() {
        let diff = between(
            "data:\n  password: |\n    hunter2\n  a: 1\n",
            "data:\n  password: |\n    hunter3\n  a: 1\n",
        );
        assert_eq!((diff.added, diff.removed), (1, 1));
        assert_eq!(
            diff.drawn,
            [
                "@@ -1,4 +1,4 @@",
                " data:",
                "   password: |",
                "-    …",
                "+    …",
                "   a: 1"
            ]
        );
    }

    #[test]
    fn a_lost_line_end_is_a_difference_that_is_seen() {
        let diff = between("a\n", "a");
        assert_eq!(
            diff.drawn,
            ["@@ -1 +1 @@", "-a", "+a", "\\ No newline at end of file"]
        );
    }

    #[test]
    fn what_is_too_large_is_counted_and_not_drawn() {
        let many = |word: &str| {
            let lines: Vec<String> = (0..2_100).map(|n| format!("{word}{n}\n")).collect();
            lines.concat()
        };
        let diff = between(&many("a"), &many("b"));
        assert_eq!(
            (diff.added, diff.removed, diff.drawn.len()),
            (2_100, 2_100, 0)
        );
    }
}
