//! Kubernetes manifests: whether the API server could take what a reconciler on site is given.
//!
//! What comes in: the files of one assignment that are applied together. What goes out: a finding, with file and
//! line, for what is not YAML, has marks of a merge that nobody finished, is not an object, or is the same object twice.
//! Whether a cluster knows the kind, and takes the fields, only the cluster can say.

use std::collections::BTreeMap;
use std::sync::Arc;

use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location, SourceFile};
use outhaul_control::yaml::{self, Node, YamlValue};

/// How an object is known: group, kind, namespace, name.
type Key = (String, String, String, String);

/// What is wrong with `files` as objects that are applied together.
pub fn objects(files: &[Arc<SourceFile>]) -> Diagnostics {
    let mut findings = Diagnostics::new();
    let mut seen = BTreeMap::new();
    for file in files {
        for document in documents(file, &mut findings) {
            object(file, &document, true, &mut seen, &mut findings);
        }
    }
    findings
}

/// What is wrong with `files` as YAML, whatever it is for.
pub fn syntax(files: &[Arc<SourceFile>]) -> Diagnostics {
    let mut findings = Diagnostics::new();
    for file in files {
        documents(file, &mut findings);
    }
    findings
}

fn documents(file: &Arc<SourceFile>, findings: &mut Diagnostics) -> Vec<Node> {
    if let Some(start) = conflict(&file.text) {
        let at = Location::new(file, start..start + MARK.len());
        findings.push(
            Diagnostic::error("merge-conflict", "a merge was not finished here")
                .at(&at)
                .help("decide between the two sides, remove git's three marks, and commit"),
        );
        return Vec::new();
    }
    yaml::parse(file).unwrap_or_else(|finding| {
        findings.push(*finding);
        Vec::new()
    })
}

/// What git writes before the first side of a conflict.
const MARK: &str = "<<<<<<< ";

/// Where a conflict begins: a line of its mark, with a line of the mark between the sides after it.
fn conflict(text: &str) -> Option<usize> {
    let start = match text.starts_with(MARK) {
        true => 0,
        false => text.find("\n<<<<<<< ")? + 1,
    };
    text.get(start..)?
        .lines()
        .any(|line| line == "=======")
        .then_some(start)
}

fn object(
    file: &Arc<SourceFile>,
    node: &Node,
    may_be_list: bool,
    seen: &mut BTreeMap<Key, Location>,
    findings: &mut Diagnostics,
) {
    let start = node.span.start;
    let at = Location::new(file, start..start + 1);
    let metadata = node.field("metadata");
    let text = |node: Option<&Node>, key: &str| {
        let found = node.and_then(|node| node.field(key)).and_then(Node::as_str);
        found.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let version = text(Some(node), "apiVersion");
    let kind = text(Some(node), "kind");
    let group = version
        .as_deref()
        .and_then(|version| version.split_once('/'));
    let group = group.map_or("", |(group, _)| group).to_owned();
    if may_be_list
        && group.is_empty()
        && kind.as_deref() == Some("List")
        && let Some(YamlValue::Sequence(items)) = node.field("items").map(|items| &items.value)
    {
        for item in items {
            object(file, item, false, seen, findings);
        }
        return;
    }
    let name = text(metadata, "name");
    let missing = [
        ("apiVersion", version.is_none()),
        ("kind", kind.is_none()),
        ("metadata.name", name.is_none()),
    ];
    let missing: Vec<String> = missing
        .into_iter()
        .filter(|(_, is_missing)| *is_missing)
        .map(|(what, _)| format!("`{what}`"))
        .collect();
    let (Some(kind), Some(name), true) = (kind, name, missing.is_empty()) else {
        let message = format!(
            "this is not a Kubernetes object: {} missing",
            missing.join(", ")
        );
        findings.push(Diagnostic::error("not-an-object", message).at(&at).help(
            "the API server would refuse it, and with it all that is applied together with it",
        ));
        return;
    };
    let namespace = text(metadata, "namespace").unwrap_or_default();
    let message = format!("{kind} `{name}` is here twice");
    let key = (group, kind, namespace, name);
    match seen.get(&key) {
        Some(first) => findings.push(
            Diagnostic::error("same-object", message)
                .at(&at)
                .related(first, "first here")
                .help("remove or rename one: on site the second would replace the first"),
        ),
        None => {
            seen.insert(key, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let file = Arc::new(SourceFile {
            name: "m.yaml".to_owned(),
            text: text.to_owned(),
        });
        let findings = objects(&[file]);
        let line = |finding: &Diagnostic| {
            let at = finding.location.as_ref().map(ToString::to_string);
            format!("{} {}", at.unwrap_or_default(), finding.code)
        };
        findings.iter().map(line).collect()
    }

    #[test]
    fn objects_and_lists_of_them_are_found_sound() {
        let one = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        assert_eq!(found(one), [""; 0]);
        assert_eq!(found(&format!("# nothing\n---\n{one}---\n")), [""; 0]);
        let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: a}}\n";
        assert_eq!(found(list), [""; 0]);
        let other = one.replace("{name: a}", "{name: a, namespace: b}");
        assert_eq!(found(&format!("{one}---\n{other}")), [""; 0]);
    }

    #[test]
    fn what_the_api_server_would_refuse_has_its_line() {
        let one = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        assert_eq!(
            found(&format!("{one}---\n{one}")),
            ["m.yaml:5:1 same-object"]
        );
        assert_eq!(
            found("metadata:\n  name: a\n"),
            ["m.yaml:1:1 not-an-object"]
        );
        assert_eq!(found("just text\n"), ["m.yaml:1:1 not-an-object"]);
        let conflict =
            format!("{one}data:\n<<<<<<< HEAD\n  a: '1'\n=======\n  a: '2'\n>>>>>>> b\n");
        assert_eq!(found(&conflict), ["m.yaml:5:1 merge-conflict"]);
        assert_eq!(found("a: [\n").len(), 1);
    }
}
