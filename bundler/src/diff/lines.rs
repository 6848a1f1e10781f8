//! Lines: a short unified diff of two texts.
//!
//! What comes in: two texts. What goes out: hunks as `diff -U2` writes them, and how many lines come
//! and go. Time and memory are bounded: what is larger is counted as replaced whole and not drawn.

/// Lines around a change.
const CONTEXT: usize = 2;
/// Largest product of the numbers of lines that differ: some 16 MiB of table.
const MAX_TABLE: usize = 4_000_000;

/// The difference of two texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineDiff {
    /// Lines that are new.
    pub added: usize,
    /// Lines that are gone.
    pub removed: usize,
    /// Lines as they are drawn, each with ` `, `+`, `-` or `@@` before it.
    pub drawn: Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Step {
    Keep,
    Remove,
    Add,
}

/// How `before` becomes `after`.
pub fn between(before: &str, after: &str) -> LineDiff {
    let (old, new): (Vec<&str>, Vec<&str>) = (
        before.split_inclusive('\n').collect(),
        after.split_inclusive('\n').collect(),
    );
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let tail = old[head..]
        .iter()
        .rev()
        .zip(new[head..].iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let (middle_old, middle_new) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let Some(middle) = steps(middle_old, middle_new) else {
        return LineDiff {
            added: middle_new.len(),
            removed: middle_old.len(),
            drawn: Vec::new(),
        };
    };
    let mut steps = vec![Step::Keep; head];
    steps.extend(middle);
    steps.extend(vec![Step::Keep; tail]);
    draw(&steps, &old, &new)
}

/// A longest common subsequence, removals before additions.
fn steps(old: &[&str], new: &[&str]) -> Option<Vec<Step>> {
    let width = new.len() + 1;
    let size = (old.len() + 1).checked_mul(width)?;
    if size > MAX_TABLE {
        return None;
    }
    let mut table = vec![0u32; size];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            table[i * width + j] = if old[i] == new[j] {
                table[(i + 1) * width + j + 1] + 1
            } else {
                table[(i + 1) * width + j].max(table[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut steps = Vec::new();
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            steps.push(Step::Keep);
            (i, j) = (i + 1, j + 1);
        } else if i < old.len()
            && (j == new.len() || table[(i + 1) * width + j] >= table[i * width + j + 1])
        {
            steps.push(Step::Remove);
            i += 1;
        } else {
            steps.push(Step::Add);
            j += 1;
        }
    }
    Some(steps)
}

fn draw(steps: &[Step], old: &[&str], new: &[&str]) -> LineDiff {
    let mut diff = LineDiff::default();
    let near = |at: usize| {
        let from = at.saturating_sub(CONTEXT);
        let to = (at + CONTEXT + 1).min(steps.len());
        steps[from..to].iter().any(|step| *step != Step::Keep)
    };
    let (mut i, mut j) = (0, 0);
    let mut in_hunk = false;
    for (at, step) in steps.iter().enumerate() {
        if near(at) {
            if !in_hunk {
                diff.drawn.push(format!("@@ -{} +{} @@", i + 1, j + 1));
            }
            in_hunk = true;
            let (mark, line) = match step {
                Step::Keep => (' ', old[i]),
                Step::Remove => ('-', old[i]),
                Step::Add => ('+', new[j]),
            };
            diff.drawn.push(format!(
                "{mark}{}",
                super::tell::plain(line.trim_end_matches('\n'))
            ));
            if !line.ends_with('\n') {
                diff.drawn.push("\\ no line end".into());
            }
        } else {
            in_hunk = false;
        }
        match step {
            Step::Keep => (i, j) = (i + 1, j + 1),
            Step::Remove => (i, diff.removed) = (i + 1, diff.removed + 1),
            Step::Add => (j, diff.added) = (j + 1, diff.added + 1),
        }
    }
    diff
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
            ["@@ -2 +2 @@", " b", " c", "-d", "+X", " e", " f"]
        );
    }

    #[test]
    fn a_lost_line_end_is_a_difference_that_is_seen() {
        let diff = between("a\n", "a");
        assert_eq!(diff.drawn, ["@@ -1 +1 @@", "-a", "+a", "\\ no line end"]);
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
