//! What the tests ask of a dependency, the programs ask as well: else cargo builds it, and all that stands on it,
//! once for the tests and once more for the programs that the tests run.
//!
//! What comes in: cargo's tree of the workspace, with and without what only tests need. What goes out: one line
//! per package that has other features without the tests.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::repository::{cargo, output};

pub fn findings() -> Result<Vec<String>> {
    let tree = |more: &[&str]| {
        let shape = ["tree", "--workspace", "--prefix", "none", "-f", "{p} {f}"];
        output(&cargo(), shape.iter().chain(more))
    };
    Ok(differing(&tree(&["-e", "no-dev"])?, &tree(&[])?))
}

fn differing(programs: &str, tests: &str) -> Vec<String> {
    let lines = |tree: &'_ str| -> BTreeSet<String> {
        tree.lines()
            .map(|line| line.trim_end_matches(" (*)").trim_end().to_owned())
            .collect()
    };
    lines(programs)
        .difference(&lines(tests))
        .map(|line| {
            format!(
                "Cargo.toml: the tests ask more features of `{line}`, which is built twice for it"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::differing;

    #[test]
    fn a_feature_that_only_tests_ask_for_is_found() {
        let tests = "one v1.0.0 default,std\ntwo v2.0.0 \nonly-tests v3.0.0 \n";
        assert!(differing("one v1.0.0 default,std (*)\ntwo v2.0.0 \n", tests).is_empty());
        let found = differing("one v1.0.0 default\ntwo v2.0.0\n", tests);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("`one v1.0.0 default`"), "{found:?}");
    }
}
