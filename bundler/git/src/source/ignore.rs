//! `.sourceignore`: what of a repository is not part of the control plane.
//!
//! What comes in: the text of a `.sourceignore` file, in the syntax of `.gitignore`. What goes out:
//! whether a path is left out. The last matching line decides, `!` takes back. It knows `*`, `?`,
//! `**`, a trailing `/` for folders and a leading `/` for the root; character classes it does not.

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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ignore {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    parts: Vec<String>,
    negated: bool,
    folders_only: bool,
}

impl Ignore {
    /// The rules of `text`.
    pub fn parse(text: &str) -> Self {
        let rule = |line: &str| {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                return None;
            }
            let (negated, line) = match line.strip_prefix('!') {
                Some(rest) => (true, rest),
                None => (false, line),
            };
            let folders_only = line.ends_with('/');
            let line = line.trim_end_matches('/');
            let anchored = line.contains('/');
            let mut parts: Vec<String> = line
                .split('/')
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect();
            if !anchored {
                parts.insert(0, "**".into());
            }
            Some(Rule {
                parts,
                negated,
                folders_only,
            })
        };
        Self {
            rules: text.lines().filter_map(rule).collect(),
        }
    }

    /// Whether the file `path` is left out, itself or with a folder that it lies in.
    pub fn ignores(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split('/').collect();
        if parts
            .first()
            .is_some_and(|first| parts.len() > 1 && ALWAYS.contains(first))
        {
            return true;
        }
        (1..=parts.len()).any(|length| self.excludes(&parts[..length], length < parts.len()))
    }

    fn excludes(&self, parts: &[&str], folder: bool) -> bool {
        let matching = self
            .rules
            .iter()
            .rev()
            .find(|rule| (folder || !rule.folders_only) && matches(&rule.parts, parts));
        matching.is_some_and(|rule| !rule.negated)
    }
}

fn matches(pattern: &[String], parts: &[&str]) -> bool {
    match pattern.split_first() {
        None => parts.is_empty(),
        Some((first, rest)) if first == "**" => {
            (0..=parts.len()).any(|skip| matches(rest, &parts[skip..]))
        }
        Some((first, rest)) => parts.split_first().is_some_and(|(part, parts)| {
            glob(first.as_bytes(), part.as_bytes()) && matches(rest, parts)
        }),
    }
}

/// `*` and `?` within one part of a path, in linear time.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_follow_gitignore() {
        let ignore =
            Ignore::parse("# comment\nlab/\n*.tmp.yaml\n/top.yaml\na/**/z.yaml\n!keep.tmp.yaml\n");
        for path in [
            "lab/x.yaml",
            "deep/lab/x.yaml",
            "a.tmp.yaml",
            "d/a.tmp.yaml",
            "top.yaml",
            "a/z.yaml",
            "a/b/c/z.yaml",
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
        ] {
            assert!(!ignore.ignores(path), "{path}");
        }
    }

    #[test]
    fn what_is_for_pipelines_is_never_read() {
        let ignore = Ignore::default();
        assert!(ignore.ignores(".github/workflows/ci.yaml"));
        assert!(ignore.ignores(".environments/dev.yaml"));
        assert!(!ignore.ignores("configs/.hidden.yaml"));
    }
}
