//! Each Rust file is part of something that is compiled: a test file that nobody declared would never run, and nothing would say so.
//!
//! What comes in: the repository's Rust files and manifests, as text. What goes out: one line per file that no module, attribute
//! or manifest names. It knows no macros: a `mod` that a macro writes is not seen.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::once::resolved;
use crate::repository::{files, text};

/// All Rust files that nothing names.
pub fn findings() -> Result<Vec<String>> {
    let mut sources = BTreeMap::new();
    let mut manifests = BTreeSet::new();
    for name in files()? {
        let is_manifest = name.ends_with("Cargo.toml");
        if !is_manifest && !name.ends_with(".rs") {
            continue;
        }
        let Some(text) = text(&name)? else { continue };
        if is_manifest {
            let paths = text
                .lines()
                .filter_map(|line| line.strip_prefix("path = \""));
            let paths = paths.filter_map(|path| Some(resolved(&name, path.split_once('"')?.0)));
            manifests.extend(paths);
        } else {
            sources.insert(name, text);
        }
    }
    Ok(undeclared(&sources, &manifests))
}

fn undeclared(sources: &BTreeMap<String, String>, manifests: &BTreeSet<String>) -> Vec<String> {
    let by_path: BTreeSet<String> = sources
        .iter()
        .flat_map(|(file, text)| text.lines().map(move |line| (file, line)))
        .filter_map(|(file, line)| {
            let path = line.trim_start().strip_prefix("#[path = \"")?;
            Some(resolved(file, path.split_once('"')?.0))
        })
        .collect();
    let line = |name: &String| format!("{name} belongs to no module: nothing compiles it");
    let is_named = |name: &String| {
        let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
        // Cargo finds these by their names, and Cargo's own folders by theirs.
        let by_cargo = matches!(file, "lib.rs" | "main.rs" | "build.rs")
            || name.ends_with("/tests/runner.rs")
            || ["benches", "examples", "bin"]
                .iter()
                .any(|own| folder.ends_with(own));
        let stem = file.trim_end_matches(".rs");
        let inside = |parent: &String| {
            let text = sources.get(parent)?;
            let declared = format!("mod {stem};");
            text.lines()
                .any(|line| {
                    let line = line.trim_start().trim_start_matches("pub ");
                    let line = line.trim_start_matches("pub(crate) ");
                    line.trim_start_matches("pub(super) ")
                        .starts_with(&declared)
                })
                .then_some(())
        };
        // `mod b { mod tests; }` in `a.rs` is `a/b/tests.rs`.
        let in_line = || {
            let (above, module) = folder.rsplit_once('/')?;
            let text = sources.get(&format!("{above}.rs"))?;
            let block = text.split(&format!("mod {module} {{")).nth(1)?;
            block.contains(&format!("mod {stem};")).then_some(())
        };
        let roots = ["lib.rs", "main.rs", "runner.rs"].map(|root| format!("{folder}/{root}"));
        by_cargo
            || inside(&format!("{folder}.rs")).is_some()
            || in_line().is_some()
            || roots
                .iter()
                .any(|root| root != name && inside(root).is_some())
            || by_path.contains(name)
            || manifests.contains(name)
    };
    sources
        .keys()
        .filter(|name| !is_named(name))
        .map(line)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_no_module_names_is_found() {
        let sources = [
            ("a/src/lib.rs", "mod b;\n// mod forgotten;\n"),
            ("a/src/b.rs", "#[cfg(test)]\nmod tests;\n"),
            ("a/src/b/tests.rs", ""),
            ("a/src/forgotten.rs", ""),
            (
                "a/tests/runner.rs",
                "mod one;\n#[path = \"../../fuzz/bodies/x.rs\"]\nmod bodies;\n",
            ),
            ("a/tests/one.rs", ""),
            ("a/tests/two.rs", ""),
            ("fuzz/bodies/x.rs", ""),
        ];
        let sources = sources.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let found = undeclared(&sources.into(), &["a/tests/runner.rs".to_owned()].into());
        assert_eq!(
            found,
            [
                "a/src/forgotten.rs belongs to no module: nothing compiles it",
                "a/tests/two.rs belongs to no module: nothing compiles it",
            ]
        );
    }
}
