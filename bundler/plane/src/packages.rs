//! Zarf packages: whether what a site is given is one package that it can make or take.
//!
//! What comes in: the rendered files of an assignment, and how many ready-made packages its manifests have, where that is known. What goes
//! out: a finding, with file and line, for a definition without a name that a package can have, and for no package or several: an
//! assignment is one package. What is in a definition beyond its kind and name only Zarf can say.

use std::sync::Arc;

use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location, SourceFile};
use outhaul_control::yaml::{self, Node};

/// The kind of a package's definition.
const DEFINITION: &str = "ZarfPackageConfig";

/// Whether a file of an assignment's manifests is a package, by its path.
pub fn is_ready_made(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let has_end = [".tar.zst", ".tar"].iter().any(|end| name.ends_with(end));
    name.starts_with("zarf-package-") && has_end
}

/// What is wrong with the packages of one assignment, called `target`.
pub fn problems(target: &str, files: &[Arc<SourceFile>], ready_made: Option<usize>) -> Diagnostics {
    let mut findings = Diagnostics::new();
    let mut found: Vec<Location> = Vec::new();
    let mut is_read = true;
    for file in files.iter().filter(|file| file.text.contains(DEFINITION)) {
        let documents = yaml::parse(file).unwrap_or_else(|finding| {
            findings.push(*finding);
            is_read = false;
            Vec::new()
        });
        for node in documents {
            let kind = node.field("kind").and_then(Node::as_str);
            if kind == Some(DEFINITION) {
                let start = node.span.start;
                found.push(Location::new(file, start..start + 1));
                findings.extend(unfit_name(file, &node));
            }
        }
    }
    let all = found.len() + ready_made.unwrap_or(0);
    if all > 1 {
        let message = format!("`{target}` has {all} packages, and an assignment is one package");
        let finding = Diagnostic::error("many-packages", message);
        let finding = match found.as_slice() {
            [first, second, ..] => finding.at(second).related(first, "and this"),
            [first] => finding.at(first),
            [] => finding,
        };
        findings
            .push(finding.help(
                "put their components into one definition, or make each a deployment target",
            ));
    }
    if all == 0 && ready_made.is_some() && is_read {
        let message = format!(
            "`{target}` has no package: none of its rendered files is a `{DEFINITION}`, and its manifests have no `zarf-package-*.tar.zst`"
        );
        let finding = Diagnostic::error("no-package", message);
        findings.push(finding.help("render a definition, as the template of `outhaul init --reconciler zarf` does, or put a package into the manifests"));
    }
    findings
}

fn unfit_name(file: &Arc<SourceFile>, node: &Node) -> Option<Diagnostic> {
    let place = node
        .field("metadata")
        .and_then(|metadata| metadata.field("name"));
    let name = place.and_then(Node::as_str).unwrap_or_default();
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let fits = name.bytes().all(|byte| letter(byte) || byte == b'-')
        && name.bytes().next().is_some_and(letter);
    let span = place.unwrap_or(node).span.clone();
    (!fits).then(|| {
        let message =
            "`metadata.name` of a package is lower-case letters, digits and `-`".to_owned();
        let at = Location::new(
            file,
            span.start..span.end.min(span.start + name.len().max(1)),
        );
        Diagnostic::error("bad-value", message)
            .at(&at)
            .help("Zarf refuses another one; `{{ DeploymentTargetName | dns_label }}` is one")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[&str], ready_made: Option<usize>) -> String {
        let file = |(at, text): (usize, &&str)| {
            let (name, text) = (format!("{at}.yaml"), (*text).to_owned());
            Arc::new(SourceFile { name, text })
        };
        let files: Vec<_> = texts.iter().enumerate().map(file).collect();
        problems("lamp", &files, ready_made).to_string()
    }

    #[test]
    fn an_assignment_is_one_package_with_a_name_that_zarf_takes() {
        let one = "kind: ZarfPackageConfig\nmetadata:\n  name: lamp\n";
        assert_eq!(found(&[one], Some(0)), "");
        assert_eq!(found(&[], Some(1)), "");
        // What the manifests have is not known.
        assert_eq!(found(&[], None), "");
        for (texts, ready_made, words) in [
            (&[][..], Some(0), "error[no-package]: `lamp` has no package"),
            (&[one, one], Some(0), "`lamp` has 2 packages"),
            (&[one], Some(1), "`lamp` has 2 packages"),
            (
                &["kind: ZarfPackageConfig\n"],
                None,
                "`metadata.name` of a package",
            ),
            (
                &["kind: ZarfPackageConfig\nmetadata:\n  name: Lamp\n"],
                None,
                "0.yaml:3:",
            ),
            (
                &["kind: ZarfPackageConfig\nmetadata:\n  name: [\n"],
                Some(0),
                "0.yaml:",
            ),
        ] {
            let found = found(texts, ready_made);
            assert!(found.contains(words), "{words}: {found}");
            assert_eq!(found.matches("error[").count(), 1, "{found}");
        }
    }
}
