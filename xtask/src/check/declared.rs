//! Each Rust file is part of something that is compiled: a test file that nobody declared would never run, and nothing would say so.
//!
//! What comes in: the repository's Rust files and manifests, as text. What goes out: one line per file that no module, attribute
//! or manifest names. It knows no macros: a `mod` that a macro writes is not seen.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::repository::{files, text};

/// All Rust files that nothing names.
pub fn findings() -> Result<Vec<String>> {
    let mut sources = BTreeMap::new();
    let mut manifests = String::new();
    for name in files()? {
        let is_manifest = name.ends_with("Cargo.toml");
        if !is_manifest && !name.ends_with(".rs") {
            continue;
        }
        let Some(text) = text(&name)? else { continue };
        if is_manifest {
            manifests.push_str(&text);
        } else {
            sources.insert(name, text);
        }
    }
    Ok(undeclared(&sources, &manifests))
}

fn undeclared(sources: &BTreeMap<String, String>, manifests: &str) -> Vec<String> {
    let by_path: String = sources
        .values()
        .flat_map(|text| text.lines())
        .filter(|line| line.trim_start().starts_with("#[path = "))
        .fold(String::new(), |all, line| all + line + "\n");
    let line = |name: &String| format!("{name} belongs to no module: nothing compiles it");
    let is_named = |name: &String| {
        let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
        // Cargo finds these by their names, and Cargo's own folders by theirs.
        let by_cargo = matches!(file, "lib.rs" | "main.rs" | "build.rs")
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
            || by_path.contains(&format!("/{file}\""))
            || by_path.contains(&format!("\"{file}\""))
            || manifests.contains(&format!("/{file}\""))
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
        let found = undeclared(&sources.into(), "path = \"tests/runner.rs\"\n");
        assert_eq!(
            found,
            [
                "a/src/forgotten.rs belongs to no module: nothing compiles it",
                "a/tests/two.rs belongs to no module: nothing compiles it",
            ]
        );
    }
}
