//! `.sourceignore`: what of a repository is not part of the control plane.
//!
//! What comes in: the text of a `.sourceignore` file, in the syntax of `.gitignore`. What goes out:
//! whether a path is left out, in time linear in its length, and the lines that are not patterns. It reads no file.

use std::ops::Range;

use ::ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Folders that never hold objects of a control plane, whatever `.sourceignore` says: what version
/// control and continuous integration keep for themselves, and the list of environments.
const ALWAYS: &[&str] = &[
    ".git",
    ".github",
    ".gitlab",
    ".gitea",
    ".forgejo",
    ".circleci",
    ".environments",
];

/// The lines of one `.sourceignore`.
#[derive(Debug, Clone)]
pub struct Ignore(Gitignore);

/// A line that is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Its bytes in the text.
    pub span: Range<usize>,
    /// What is wrong with it.
    pub problem: String,
}

impl Default for Ignore {
    fn default() -> Self {
        Self(Gitignore::empty())
    }
}

impl Ignore {
    /// The rules of `text`, and the lines that are not.
    pub fn parse(text: &str) -> (Self, Vec<BadLine>) {
        let mut builder = GitignoreBuilder::new("");
        let mut bad = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let rule = line.trim_end();
            let span = start..start + rule.len();
            start += line.len();
            // To git a brace is a character like any other.
            let escaped = rule.replace('{', "\\{").replace('}', "\\}");
            if let Err(error) = builder.add_line(None, &escaped) {
                let problem = error.to_string();
                bad.push(BadLine { span, problem });
            }
        }
        match builder.build() {
            Ok(rules) => (Self(rules), bad),
            Err(error) => {
                let problem = error.to_string();
                let span = 0..text.len();
                (Self::default(), vec![BadLine { span, problem }])
            }
        }
    }

    /// Whether the file `path` is left out, itself or with a folder that it lies in.
    pub fn ignores(&self, path: &str) -> bool {
        let first = path.split_once('/').map(|(first, _)| first);
        if first.is_some_and(|first| ALWAYS.contains(&first)) {
            return true;
        }
        // As git does: what lies in a folder that is left out cannot be taken back.
        let folders = path.match_indices('/').map(|(at, _)| (&path[..at], true));
        folders
            .chain([(path, false)])
            .any(|(path, is_folder)| self.0.matched(path, is_folder).is_ignore())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_follow_gitignore() {
        let (ignore, bad) = Ignore::parse(
            "# comment\nlab/\n*.tmp.yaml\n/top.yaml\r\na/**/z.yaml\n!keep.tmp.yaml\n!lab/kept.yaml\n\
             {x,y}.yaml\nn[0-9].yaml\n",
        );
        assert_eq!(bad, []);
        for path in [
            "lab/x.yaml",
            "deep/lab/x.yaml",
            "a.tmp.yaml",
            "d/a.tmp.yaml",
            "top.yaml",
            "a/z.yaml",
            "a/b/c/z.yaml",
            "lab/kept.yaml",
            "{x,y}.yaml",
            "d/n7.yaml",
        ] {
            assert!(ignore.ignores(path), "{path}");
        }
        for path in [
            "lab",
            "labs/x.yaml",
            "d/top.yaml",
            "keep.tmp.yaml",
            "d/keep.tmp.yaml",
            "z.yaml",
            "x.yaml",
            "nx.yaml",
        ] {
            assert!(!ignore.ignores(path), "{path}");
        }
    }

    #[test]
    fn a_hostile_pattern_ends() {
        // A matcher that tries every way of placing the `**` does not.
        let (ignore, bad) = Ignore::parse(&format!("{}x.yaml\n", "a/**/".repeat(24)));
        assert_eq!(bad, []);
        let folders = "a/".repeat(60);
        assert!(!ignore.ignores(&format!("{folders}y.yaml")));
        assert!(ignore.ignores(&format!("{folders}x.yaml")));
    }

    #[test]
    fn a_line_that_is_no_pattern_is_named_and_the_others_count() {
        let text = "lab/\nd[z-a]\n*.tmp.yaml\n";
        let (ignore, bad) = Ignore::parse(text);
        let [bad] = &bad[..] else { panic!("{bad:?}") };
        assert_eq!(&text[bad.span.clone()], "d[z-a]");
        assert!(ignore.ignores("lab/x.yaml") && ignore.ignores("x.tmp.yaml"));
    }

    #[test]
    fn what_is_for_pipelines_is_never_read() {
        let ignore = Ignore::default();
        assert!(ignore.ignores(".github/workflows/ci.yaml"));
        assert!(ignore.ignores(".environments/dev.yaml"));
        assert!(!ignore.ignores("configs/.hidden.yaml"));
    }
}
