//! How large a crate may be: what one person reads in a day, and what one change compiles again.
//!
//! What comes in: the sources. What goes out: one line per crate with too many lines; tests do not count.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::repository::{code, files, text};

/// Most lines of one crate.
const MAX_LINES: usize = 15_000;

pub fn findings() -> Result<Vec<String>> {
    let mut crates: BTreeMap<String, usize> = BTreeMap::new();
    let all = files()?;
    let mut only_tests = Vec::new();
    for name in all.iter().filter(|name| name.ends_with("/src/lib.rs")) {
        let folder = name.trim_end_matches("lib.rs");
        let modules = text(name)?
            .map(|text| test_modules(&text))
            .unwrap_or_default();
        only_tests.extend(
            modules
                .into_iter()
                .map(|module| format!("{folder}{module}")),
        );
    }
    let is_test = |name: &str| {
        let mut modules = only_tests.iter();
        modules.any(|module| {
            let rest = name.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        })
    };
    for name in all {
        let Some((folder, file)) = name.split_once("/src/") else {
            continue;
        };
        if file.ends_with(".rs")
            && !file.ends_with("tests.rs")
            && !file.contains("tests/")
            && !is_test(&name)
            && let Some(text) = text(&name)?
        {
            *crates.entry(folder.to_owned()).or_default() += lines(&text);
        }
    }
    Ok(crates
        .into_iter()
        .filter_map(|(name, lines)| too_large(&name, lines))
        .collect())
}

/// Modules of a crate that only its tests have.
fn test_modules(text: &str) -> Vec<String> {
    let after = text.split("#[cfg(test)]\nmod ").skip(1);
    let names = after.filter_map(|rest| rest.split_once(';'));
    names
        .map(|(name, _)| name.to_owned())
        .filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        .collect()
}

/// Lines before the tests of a file.
fn lines(text: &str) -> usize {
    code(text).lines().count()
}

fn too_large(name: &str, lines: usize) -> Option<String> {
    (lines > MAX_LINES).then(|| {
        format!("{name}: {lines} lines outside tests, the limit is {MAX_LINES}: split the crate")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_do_not_count_and_a_line_too_many_does() {
        assert_eq!(lines("a\nb\n#[cfg(test)]\nmod tests {\n}\n"), 2);
        let modules =
            test_modules("mod a;\n#[cfg(test)]\nmod b;\nmod c;\n#[cfg(test)]\nmod tests {\nx;}");
        assert_eq!(modules, ["b"]);
        assert!(too_large("kit", MAX_LINES).is_none());
        assert!(too_large("kit", MAX_LINES + 1).is_some());
    }
}
