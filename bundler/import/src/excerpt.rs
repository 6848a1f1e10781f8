//! Excerpt: a few lines that show how two texts differ.
//!
//! What comes in: what is there and what would be written. What goes out: the first place where they
//! differ, as `-` and `+` lines. It is made to be read by people, not applied.

use crate::Tree;

/// Most lines of each side.
const LINES: usize = 3;
/// Most files.
const FILES: usize = 3;
/// Longest line in characters.
const WIDTH: usize = 120;

/// What would change in a folder.
pub(crate) fn of(there: &Tree, written: &Tree) -> Vec<String> {
    let mut lines = Vec::new();
    let mut names: Vec<&String> = there.keys().chain(written.keys()).collect();
    names.sort();
    names.dedup();
    let mut differing = names
        .into_iter()
        .filter(|name| there.get(*name) != written.get(*name));
    for name in differing.by_ref().take(FILES) {
        match (there.get(name), written.get(name)) {
            (Some(_), None) => lines.push(format!("- {name}: is there, and is not written")),
            (None, Some(_)) => lines.push(format!("+ {name}: is not there, and is written")),
            (there, written) => {
                lines.push(format!("  {name}:"));
                let empty = Vec::new();
                lines.extend(texts(there.unwrap_or(&empty), written.unwrap_or(&empty)));
            }
        }
    }
    match differing.count() {
        0 => {}
        more => lines.push(format!("  and {more} files more")),
    }
    lines
}

fn texts(before: &[u8], after: &[u8]) -> Vec<String> {
    let (before, after) = (
        String::from_utf8_lossy(before),
        String::from_utf8_lossy(after),
    );
    let (a, b): (Vec<&str>, Vec<&str>) = (
        before.split_inclusive('\n').collect(),
        after.split_inclusive('\n').collect(),
    );
    let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let (a, b) = (a.get(same..).unwrap_or(&[]), b.get(same..).unwrap_or(&[]));
    let tail = a
        .iter()
        .rev()
        .zip(b.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let mut lines = Vec::new();
    for (sign, side) in [('-', a), ('+', b)] {
        let side = side.get(..side.len() - tail).unwrap_or(&[]);
        for line in side.iter().take(LINES) {
            let shown: String = line.trim_end_matches('\n').chars().take(WIDTH).collect();
            let end = if line.ends_with('\n') {
                ""
            } else {
                " (no line end)"
            };
            lines.push(format!("{sign} {shown}{end}"));
        }
        if side.len() > LINES {
            lines.push(format!("{sign} … {} lines more", side.len() - LINES));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Tree {
        Tree::from([("a.yaml".to_owned(), text.as_bytes().to_vec())])
    }

    #[test]
    fn only_what_differs_is_shown() {
        let lines = of(&tree("x: 1\ny: 2\nz: 3\n"), &tree("x: 1\ny: 4\nz: 3\n"));
        assert_eq!(lines, ["  a.yaml:", "- y: 2", "+ y: 4"]);
        assert_eq!(
            of(&tree("x"), &tree("x\n")),
            ["  a.yaml:", "- x (no line end)", "+ x"]
        );
        assert!(of(&tree("x"), &tree("x")).is_empty());
        assert_eq!(
            of(&tree("x"), &Tree::new()),
            ["- a.yaml: is there, and is not written"]
        );
    }
}
