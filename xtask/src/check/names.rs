//! Names of formats in one place: media types, annotations, format versions, names of files that travel.
//!
//! What comes in: the sources, as text. What goes out: one line for each text with a `/` or a `.` that constants in several crates have:
//! where one program writes it and another reads it, a change of one of them would be found by nobody. Texts within expressions
//! and those of tests are not compared.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::repository::{code, files, text};

/// Texts that are equal in several crates and name different things.
const DIFFERENT: [&str; 1] = ["serve.lock"];
/// Shortest text that is compared, in bytes.
const SHORTEST: usize = 8;

/// Each text, with the crates and places of its constants.
type Texts = BTreeMap<String, Vec<(String, String)>>;

pub fn findings() -> Result<Vec<String>> {
    let all = files()?;
    let manifests = all
        .iter()
        .filter_map(|name| name.strip_suffix("Cargo.toml"));
    let crates: Vec<&str> = manifests.collect();
    let mut texts = Texts::new();
    for name in all.iter().filter(|name| name.ends_with(".rs")) {
        let Some(source) = text(name)? else { continue };
        note(name, &source, &crates, &mut texts);
    }
    Ok(several(&texts))
}

/// The crate that a file belongs to: the one with the longest path.
fn crate_of<'c>(file: &str, crates: &[&'c str]) -> Option<&'c str> {
    let of = crates.iter().filter(|one| file.starts_with(**one));
    of.max_by_key(|one| one.len()).copied()
}

fn note(file: &str, source: &str, crates: &[&str], texts: &mut Texts) {
    let is_program = crate_of(file, crates).filter(|of| file.starts_with(&format!("{of}src/")));
    let Some(of) = is_program
        .filter(|_| !file.ends_with("tests.rs") && !format!("/{file}").contains("/tests/"))
    else {
        return;
    };
    for (line, number) in code(source).lines().zip(1..) {
        let Some(text) = constant(line) else { continue };
        if text.len() >= SHORTEST && text.contains(['/', '.']) && !DIFFERENT.contains(&text) {
            let places = texts.entry(text.to_owned()).or_default();
            places.push((of.to_owned(), format!("{file}:{number}")));
        }
    }
}

/// The text of a constant that is written on one line.
fn constant(line: &str) -> Option<&str> {
    let (head, rest) = line.split_once(": &str = \"")?;
    let (text, _) = rest.split_once("\";")?;
    head.contains("const ").then_some(text)
}

fn several(texts: &Texts) -> Vec<String> {
    let finding = |(text, places): (&String, &Vec<(String, String)>)| {
        let (first, rest) = places.split_first()?;
        let others: Vec<&str> = rest
            .iter()
            .filter(|(of, _)| *of != first.0)
            .map(|(_, at)| at.as_str())
            .collect();
        (!others.is_empty()).then(|| {
            format!(
                "{}: `{text}` is a constant here and in {}: write it once (kit/src/carried.rs, or beside the format)",
                first.1,
                others.join(", ")
            )
        })
    };
    texts.iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_format_in_two_crates_is_named_with_both_places() {
        let crates = ["", "a/", "b/", "b/inner/"];
        let found = |files: &[(&str, &str)]| {
            let mut texts = Texts::new();
            for (file, text) in files {
                let source = format!("pub const NAME: &str = \"{text}\";\n");
                note(file, &source, &crates, &mut texts);
            }
            several(&texts)
        };
        let both = [
            ("a/src/x.rs", "a/format/v1"),
            ("b/inner/src/y.rs", "a/format/v1"),
        ];
        assert_eq!(
            found(&both),
            [
                "a/src/x.rs:1: `a/format/v1` is a constant here and in b/inner/src/y.rs:1: write it once (kit/src/carried.rs, or beside the \
                 format)"
            ]
        );
        let apart = [
            [("a/src/x.rs", "a/format/v1"), ("a/src/y.rs", "a/format/v1")],
            [("a/src/x.rs", "a/format/v1"), ("b/src/y.rs", "a/format/v2")],
            [
                ("a/src/x.rs", "a/format/v1"),
                ("b/tests/y.rs", "a/format/v1"),
            ],
            [
                ("a/src/x.rs", "a/format/v1"),
                ("b/src/tests.rs", "a/format/v1"),
            ],
            [("a/src/x.rs", "rules"), ("b/src/y.rs", "rules")],
        ];
        for files in apart {
            assert!(found(&files).is_empty(), "{files:?}");
        }
    }
}
