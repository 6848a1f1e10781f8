//! Zarf packages: whether what a site is given is one package that it can make or take.
//!
//! What comes in: the rendered files of an assignment, and how many ready-made packages its manifests have, where that is known. What goes
//! out: a finding, with file and line, for a definition without a name that a package can have, and for no package or several: an
//! assignment is one package; and a warning for one name that several assignments of a site give to their packages. What is in a
//! definition beyond its kind and name only Zarf can say.

use std::collections::BTreeSet;
use std::sync::Arc;

use outhaul_bundle::zarf::{DEFINITION, is_package_name};
use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location, SourceFile};
use outhaul_control::yaml::{self, Node};

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

/// The packages of an assignment: the names in its definitions, each with its place.
pub fn names(files: &[Arc<SourceFile>]) -> Vec<(String, Location)> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.text.contains(DEFINITION)) {
        // What is no YAML is reported with the assignment.
        for node in yaml::parse(file).unwrap_or_default() {
            let name = node.field("metadata").and_then(|one| one.field("name"));
            let is_one = node.field("kind").and_then(Node::as_str) == Some(DEFINITION);
            if let Some((at, name)) = name.and_then(|at| Some((at, at.as_str()?)))
                && is_one
            {
                found.push((name.to_owned(), Location::new(file, at.span.clone())));
            }
        }
    }
    found
}

/// A package that an assignment has, and where it runs.
#[derive(Debug, Clone)]
pub struct Package<'a> {
    /// The assignment's deployment target.
    pub target: &'a str,
    /// The package's name.
    pub name: String,
    /// The only sites that it is for; `None` for every one of the cluster type.
    pub sites: Option<&'a BTreeSet<String>>,
    /// Where the deployment target, or the name, is written.
    pub at: Location,
}

/// Names that several assignments of one site give to their packages: to Zarf they are one package, and the second replaces the first.
pub fn same_names(cluster_type: &str, packages: &[Package<'_>]) -> Diagnostics {
    let mut findings = Diagnostics::new();
    for (at, one) in packages.iter().enumerate() {
        let meets = |other: &&Package<'_>| {
            let share = match (one.sites, other.sites) {
                (Some(these), Some(those)) => !these.is_disjoint(those),
                _ => true,
            };
            other.name == one.name && other.target != one.target && share
        };
        let Some(first) = packages[..at].iter().find(meets) else {
            continue;
        };
        let message = format!(
            "`{}` and `{}` both have the package `{}` on `{cluster_type}`: a site has one package of a name, and refuses the second",
            first.target, one.target, one.name
        );
        let finding = Diagnostic::warning("same-package", message).at(&one.at);
        findings.push(finding.related(&first.at, "and this").help(
            "give each its own name (`{{ DeploymentTargetName | dns_label }}`), or their components to one package",
        ));
    }
    findings
}

fn unfit_name(file: &Arc<SourceFile>, node: &Node) -> Option<Diagnostic> {
    let place = node
        .field("metadata")
        .and_then(|metadata| metadata.field("name"));
    let name = place.and_then(Node::as_str).unwrap_or_default();
    let span = place.unwrap_or(node).span.clone();
    (!is_package_name(name)).then(|| {
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

    #[test]
    fn two_assignments_of_a_site_with_one_package_name_are_named() {
        let file = Arc::new(SourceFile {
            name: "x.yaml".to_owned(),
            text: "kind: ZarfPackageConfig\nmetadata:\n  name: lamp\n".to_owned(),
        });
        let (name, at) = names(&[file]).remove(0);
        assert_eq!(
            (name.as_str(), at.to_string().as_str()),
            ("lamp", "x.yaml:3:9")
        );
        let sites = |names: &[&str]| -> BTreeSet<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let (one, other, both) = (sites(&["a"]), sites(&["b"]), sites(&["a", "b"]));
        let package = |target, sites, name: &str| Package {
            target,
            name: name.to_owned(),
            sites,
            at: at.clone(),
        };
        for (first, second, expected) in [
            ((None, "lamp"), (None, "lamp"), 1),
            ((None, "lamp"), (Some(&one), "lamp"), 1),
            ((Some(&one), "lamp"), (Some(&both), "lamp"), 1),
            ((Some(&one), "lamp"), (Some(&other), "lamp"), 0),
            ((None, "lamp"), (None, "lantern"), 0),
        ] {
            let all = [
                package("x", first.0, first.1),
                package("y", second.0, second.1),
            ];
            let found = same_names("press", &all);
            assert_eq!(
                found.iter().count(),
                expected,
                "{first:?} {second:?} {found}"
            );
        }
    }
}
