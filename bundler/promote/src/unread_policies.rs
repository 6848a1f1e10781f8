//! Promotion policies of a control plane that lie where none is read.
//!
//! What comes in: the branch that lists the environments. What goes out: an error at each promotion policy outside the
//! folder of the list, or in a file of another ending: a step would be decided by the default rules, and whoever wrote the policy would
//! not know. Files that `.sourceignore` lists are left out on purpose, and so are those that are larger than a control plane's may be. It reads no other branch and changes nothing.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::error_text::error_chain;
use super::{ENVIRONMENTS, PromoteError};
use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location, SourceFile};
use outhaul_control::kinds::{self, Object};
use outhaul_git::source::ignore::Ignore;
use outhaul_git::source::{OpenedSource, SourceError, TreeLimits};

/// The code of these findings, which the loader has for those that it reads, too.
const CODE: &str = "misplaced-policy";
const KIND: &str = "PromotionPolicy";

/// Why a policy in a file is not read.
#[derive(Clone, Copy)]
enum Reason {
    /// It lies in another folder.
    Folder,
    /// The name of the file ends in another way.
    Ending,
}

/// Why a policy in the file at `path` would not be read; `None` for one that is read, and for what is no YAML.
fn reason(path: &str) -> Option<Reason> {
    let (_, ending) = path.rsplit_once('.')?;
    let is_listed = path
        .strip_prefix(ENVIRONMENTS)
        .is_some_and(|rest| rest.starts_with('/'));
    match (is_listed, ending) {
        (true, "yaml" | "yml") => None,
        (false, "yaml" | "yml") => Some(Reason::Folder),
        _ => {
            let ending = ending.to_ascii_lowercase();
            ["yaml", "yml", "json"]
                .contains(&ending.as_str())
                .then_some(match is_listed {
                    true => Reason::Ending,
                    false => Reason::Folder,
                })
        }
    }
}

/// That nobody can say whether policies lie where none is read.
pub(super) fn not_looked_at(error: &PromoteError) -> Diagnostic {
    let message = format!(
        "whether promotion policies lie where none is read is not known: {}",
        error_chain(error)
    );
    Diagnostic::error(CODE, message)
        .help("see that each file of the branch that lists the environments can be read, or list it in `.sourceignore`")
}

/// An error for each promotion policy of the branch that is not read.
///
/// # Errors
/// [`PromoteError`] when the branch cannot be read.
pub(super) fn of(opened: &OpenedSource) -> Result<Diagnostics, PromoteError> {
    let mut findings = Diagnostics::new();
    let is_list = |path: &str| path == ".sourceignore";
    let list = opened.tree("", &is_list, &TreeLimits::YAML)?.files.pop();
    let ignore = list.map_or_else(Ignore::default, |file| {
        Ignore::parse(&String::from_utf8_lossy(&file.bytes)).0
    });
    let wanted = |path: &str| match reason(path) {
        Some(Reason::Folder) => !ignore.ignores(path),
        reason => reason.is_some(),
    };
    opened.each_streamed::<SourceError>("", &wanted, &TreeLimits::PAYLOAD, &mut |file| {
        let mut bytes = Vec::new();
        let most = TreeLimits::YAML.max_file_bytes;
        let read = file
            .content
            .take(most.saturating_add(1))
            .read_to_end(&mut bytes);
        read.map_err(|error| SourceError::Unreadable {
            path: PathBuf::from(&file.path),
            error,
        })?;
        // Nobody writes a policy of that size, and data in the repository keeps nobody from promoting.
        if bytes.len() as u64 > most {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Some(reason) = reason(&file.path).filter(|_| text.contains(KIND)) {
            let source = SourceFile {
                name: opened.file_name(&file.path),
                text: text.into_owned(),
            };
            in_file(&Arc::new(source), reason, &mut findings);
        }
        Ok(())
    })?;
    Ok(findings)
}

fn in_file(file: &Arc<SourceFile>, reason: Reason, findings: &mut Diagnostics) {
    // What else is wrong with the file is reported by whoever loads it.
    let mut unread = Diagnostics::new();
    let objects = kinds::read_file(file, &mut unread);
    let mut found = 0;
    for object in &objects {
        if let Object::Promotion(policy) = object {
            found += 1;
            findings.push(finding(
                &format!("promotion policy `{}`", policy.name),
                &policy.location,
                reason,
            ));
        }
    }
    if let Some(at) = written(&file.text).filter(|_| found == 0 && unread.has_errors()) {
        let at = Location::new(file, at..at + KIND.len());
        findings.push(finding("this promotion policy", &at, reason));
    }
}

/// Where a document of a file that does not read is a promotion policy by its own line.
fn written(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let kind = line.strip_prefix("kind:").map(str::trim);
        if kind.is_some_and(|kind| kind.trim_matches(['"', '\'']) == KIND) {
            return line.find(KIND).map(|start| at + start);
        }
        at += line.len();
    }
    None
}

fn finding(what: &str, at: &Location, reason: Reason) -> Diagnostic {
    let (message, help) = match reason {
        Reason::Folder => (
            format!("{what} does not lie beside the environments: it has no effect"),
            format!(
                "move it to `{ENVIRONMENTS}/` on the control plane's main branch, beside the environments; where it is no policy of this \
                 control plane, list the file in `.sourceignore`"
            ),
        ),
        Reason::Ending => (
            format!("{what} is not read: the name of its file does not end in `.yaml` or `.yml`"),
            "rename the file, or remove it where the policy is not meant".to_owned(),
        ),
    };
    Diagnostic::error(CODE, message).at(at).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut findings = Diagnostics::new();
        if let Some(reason) = reason(path) {
            let (name, text) = (path.to_owned(), text.to_owned());
            in_file(&Arc::new(SourceFile { name, text }), reason, &mut findings);
        }
        let line = |one: &Diagnostic| {
            let at = one.location.as_ref().map(Location::file_line);
            format!("{}: {}", at.unwrap_or_default(), one.message)
        };
        findings.iter().map(line).collect()
    }

    const POLICY: &str = "apiVersion: outhaul.dev/v1alpha1\nkind: PromotionPolicy\nmetadata:\n  name: p\nspec:\n  from: dev\n  to: stage\n";

    #[test]
    fn a_policy_is_found_where_it_is_not_read_and_only_there() {
        let elsewhere =
            "promotion policy `p` does not lie beside the environments: it has no effect";
        let json = r#"{"apiVersion": "outhaul.dev/v1alpha1", "kind": "PromotionPolicy", "metadata": {"name": "p"}, "spec": {"from": "dev", "to": "stage"}}"#;
        assert_eq!(
            found("policies/p.yaml", POLICY),
            [format!("policies/p.yaml:4: {elsewhere}")]
        );
        assert_eq!(found(".environments-old/p.yml", POLICY).len(), 1);
        let ending = "promotion policy `p` is not read: the name of its file does not end in `.yaml` or `.yml`";
        for (path, text) in [
            (".environments/p.json", json),
            (".environments/p.YAML", POLICY),
        ] {
            let said = found(path, text);
            assert!(said.len() == 1 && said[0].ends_with(ending), "{said:?}");
        }
        for path in [
            ".environments/p.yaml",
            ".environments/eu/p.yml",
            "p.md",
            "p",
        ] {
            assert_eq!(found(path, POLICY), Vec::<String>::new(), "{path}");
        }
    }

    #[test]
    fn a_file_larger_than_a_control_planes_may_be_keeps_no_other_from_being_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let most = usize::try_from(TreeLimits::YAML.max_file_bytes).unwrap();
        std::fs::write(folder.path().join("a.json"), vec![b' '; most + 1]).unwrap();
        std::fs::write(folder.path().join("p.yaml"), POLICY).unwrap();
        let opened = outhaul_git::source::open_plain(folder.path(), "", None).unwrap();
        let findings = of(&opened).unwrap();
        assert_eq!(findings.iter().count(), 1, "{}", findings.render(false));
        assert!(findings.render(false).contains("p.yaml"));
    }

    #[test]
    fn one_that_does_not_read_is_found_by_its_kind_and_a_text_about_one_is_none() {
        let broken = POLICY.replace("to: stage", "two: stage");
        assert_eq!(
            found("p.yaml", &broken),
            [
                "p.yaml:2: this promotion policy does not lie beside the environments: it has no effect"
            ]
        );
        let about = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  text: |\n    kind: PromotionPolicy\n";
        assert_eq!(found("c.yaml", about), Vec::<String>::new());
    }
}
