//! Secrets in workloads' manifests: what a team wrote into a repository in clear travels in every bundle, and everyone reads it there.
//!
//! What comes in: the files of a workload. What goes out: a warning at file and line for each Secret with values in clear, and for each other
//! value that looks like a secret, as many as someone reads. What names a secret, is encrypted (SOPS) or filled in later is left alone. The
//! value itself is in no finding. It reads no file.

use std::sync::Arc;

use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location, SourceFile};
use outhaul_control::yaml::{self, Node, YamlValue};
use outhaul_kit::format_count::format_count;
use outhaul_kit::secrets;

/// Most findings of one workload.
const MAX_FINDINGS: usize = 10;
/// Most keys that one finding names.
const MAX_KEYS: usize = 3;
/// The code of the finding.
const CODE: &str = "secret-in-manifest";
const HELP: &str = "keep it out of the repository: a config value that is sealed (`outhaul secret seal`) reaches a template as `ConfigData`, and a store \
                    on site or SOPS can make the Secret; replace what was published already";
/// How certificates begin, which are for everyone: as text, and as base64.
const PUBLIC: [&str; 4] = [
    "-----BEGIN CERT",
    "-----BEGIN PUBLIC",
    "LS0tLS1CRUdJTiBDRVJU",
    "LS0tLS1CRUdJTiBQVUJM",
];

/// What looks like a secret in `files`.
pub fn in_clear(files: &[Arc<SourceFile>]) -> Diagnostics {
    let mut found = Vec::new();
    for file in files {
        match yaml::parse(file) {
            Ok(documents) => {
                for document in documents {
                    match is_secret(&document) {
                        true => found.extend(of_secret(file, &document)),
                        false => of_values(file, "", &document, &mut found),
                    }
                }
            }
            // A template of a chart, such as one; or a mistake, which has a finding.
            Err(_) => of_lines(file, &mut found),
        }
    }
    let more = found.len().saturating_sub(MAX_FINDINGS);
    found.truncate(MAX_FINDINGS);
    if let Some(last) = found.last_mut().filter(|_| more > 0) {
        let others = format_count(more, "more value", "more values");
        last.message.push_str(&format!(" (and {others})"));
    }
    found.into_iter().collect()
}

fn finding(file: &Arc<SourceFile>, node: &Node, what: &str) -> Diagnostic {
    at(
        Location::new(file, node.span.clone()),
        &format!("{what} looks like a secret"),
    )
}

fn at(location: Location, what: &str) -> Diagnostic {
    let message = format!("{what}, and everyone who has the repository or a bundle can read it");
    Diagnostic::warning(CODE, message)
        .at(&location)
        .concealed()
        .help(HELP)
}

/// Whether a document is a Secret that nothing has encrypted.
fn is_secret(document: &Node) -> bool {
    let is = |key: &str, value: &str| document.field(key).and_then(Node::as_str) == Some(value);
    is("kind", "Secret") && is("apiVersion", "v1") && document.field("sops").is_none()
}

fn of_secret(file: &Arc<SourceFile>, document: &Node) -> Option<Diagnostic> {
    let values = ["data", "stringData"].into_iter();
    let values = values.filter_map(|key| document.field(key));
    let entries = values.flat_map(|node| match &node.value {
        YamlValue::Mapping(entries) => entries.as_slice(),
        _ => &[],
    });
    let clear = entries.filter(|entry| scalar(&entry.value).is_some_and(is_clear));
    let clear: Vec<_> = clear.collect();
    let first = clear.first()?;
    let named = clear.iter().take(MAX_KEYS);
    let mut keys: Vec<_> = named.map(|entry| format!("`{}`", entry.key)).collect();
    if clear.len() > MAX_KEYS {
        keys.push(format!("{} more", clear.len() - MAX_KEYS));
    }
    let metadata = document.field("metadata");
    let name = metadata.and_then(|node| node.field("name"));
    let name = name.and_then(Node::as_str).unwrap_or("without a name");
    let location = Location::new(file, first.value.span.clone());
    let what = format!("Secret `{name}` has {} in clear", keys.join(", "));
    Some(at(location, &what))
}

/// Whether a Secret's value is the secret, and not where it is to come from.
fn is_clear(value: &str) -> bool {
    let value = value.trim();
    let begins = ["$", "{{", "<", "ENC["];
    let is_public = PUBLIC.iter().any(|start| value.starts_with(start));
    !value.is_empty() && !is_public && !begins.iter().any(|start| value.starts_with(start))
}

fn scalar(node: &Node) -> Option<&str> {
    match &node.value {
        YamlValue::String(text) | YamlValue::Number(text) => Some(text),
        _ => None,
    }
}

/// The values below `node` that are tokens, and those of variables and settings whose names are those of secrets.
fn of_values(file: &Arc<SourceFile>, key: &str, node: &Node, found: &mut Vec<Diagnostic>) {
    match &node.value {
        YamlValue::String(text) => {
            // Of what Kustomize makes a Secret or ConfigMap.
            let is_literal = key == "literals" && secrets::is_in_clear("", text);
            if is_literal || secrets::without_tokens(text) != *text {
                found.push(finding(file, node, &format!("`{key}`")));
            }
        }
        YamlValue::Sequence(items) => {
            for item in items {
                of_values(file, key, item, found);
            }
        }
        YamlValue::Mapping(entries) => {
            // A variable of a container.
            let name = node.field("name").and_then(Node::as_str);
            let is_settings = node.field("kind").and_then(Node::as_str) == Some("ConfigMap");
            for entry in entries {
                let name = name.filter(|_| entry.key == "value");
                let data = is_settings && entry.key == "data";
                let text = entry.value.as_str();
                match (name.zip(text), &entry.value.value) {
                    (Some((name, text)), _) if secrets::is_in_clear(name, text) => {
                        found.push(finding(file, &entry.value, &format!("`{name}`")));
                    }
                    (None, YamlValue::Mapping(entries)) if data => {
                        for entry in entries {
                            let text = scalar(&entry.value).unwrap_or_default();
                            if secrets::is_in_clear(&entry.key, text) {
                                let what = format!("`{}`", entry.key);
                                found.push(finding(file, &entry.value, &what));
                            }
                        }
                    }
                    _ => of_values(file, &entry.key, &entry.value, found),
                }
            }
        }
        YamlValue::Null | YamlValue::Bool(_) | YamlValue::Number(_) => {}
    }
}

/// The lines that hold a token.
fn of_lines(file: &Arc<SourceFile>, found: &mut Vec<Diagnostic>) {
    let mut start = 0;
    for line in file.text.split_inclusive('\n') {
        if secrets::without_tokens(line) != line {
            let place = start + line.len() - line.trim_start().len();
            let location = Location::new(file, place..start + line.trim_end().len());
            found.push(at(location, "a value of this line looks like a secret"));
        }
        start += line.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        let file = Arc::new(SourceFile {
            name: "app.yaml".into(),
            text: text.into(),
        });
        let findings = in_clear(&[file]);
        assert!(!findings.has_errors());
        let all = findings.iter().map(|one| {
            let at = one.location.as_ref().map(ToString::to_string);
            format!("{} {}", at.unwrap_or_default(), one.message)
        });
        let shown = findings.render(false);
        for secret in ["hunter2", "aHVudGVyMg==", "ghp_0123456789abcdef"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        all.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_secret_with_values_in_clear_is_named_with_its_keys_and_its_line() {
        let secret =
            |rest: &str| format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: db}}\n{rest}\n");
        for (rest, expected) in [
            (
                "stringData:\n  password: hunter2",
                Some("app.yaml:5:13 Secret `db` has `password` in clear"),
            ),
            (
                "data: {a: aHVudGVyMg==, b: aHVudGVyMg==}",
                Some("app.yaml:4:11 Secret `db` has `a`, `b` in clear"),
            ),
            ("stringData: {pin: 4711}", Some("has `pin` in clear")),
            ("stringData: {password: ''}", None),
            ("stringData: {password: '${PASSWORD}'}", None),
            ("stringData: {password: '{{ .password }}'}", None),
            ("stringData: {ca.crt: '-----BEGIN CERTIFICATE-----'}", None),
            ("data: {ca.crt: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t}", None),
            ("data: {a: 'ENC[AES256_GCM,data:x]'}\nsops: {mac: a}", None),
            ("type: kubernetes.io/service-account-token", None),
        ] {
            let found = said(&secret(rest));
            assert_eq!(found.is_empty(), expected.is_none(), "{rest}: {found}");
            assert!(
                found.contains(expected.unwrap_or_default()),
                "{rest}: {found}"
            );
        }
    }

    #[test]
    fn a_token_or_the_value_of_a_secrets_variable_is_named_and_a_reference_is_not() {
        for (text, expected) in [
            (
                "kind: ConfigMap\ndata: {DB_PASSWORD: hunter2}",
                "app.yaml:2:21 `DB_PASSWORD`",
            ),
            (
                "spec:\n  env:\n  - name: DB_PASSWORD\n    value: hunter2",
                "app.yaml:4:12 `DB_PASSWORD`",
            ),
            (
                "args: [--token, ghp_0123456789abcdef]",
                "app.yaml:1:17 `args`",
            ),
            (
                "secretGenerator:\n- literals:\n  - password=hunter2",
                "app.yaml:3:5 `literals`",
            ),
            (
                "url: https://me:hunter2@git.example/x",
                "app.yaml:1:6 `url`",
            ),
            (
                "a: {{ x }}\nb: ghp_0123456789abcdef\n",
                "app.yaml:2:1 a value of this line",
            ),
        ] {
            let found = said(text);
            assert!(found.starts_with(expected), "{text}: {found}");
        }
        for text in [
            "env:\n- name: DB_PASSWORD\n  valueFrom: {secretKeyRef: {name: db, key: password}}",
            "env:\n- {name: DB_PASSWORD_FILE, value: /run/secrets/db}",
            "env:\n- {name: DB_PASSWORD, value: $(OTHER)}",
            "kind: ConfigMap\ndata: {TOKEN_URL: https://login.example/token, MAX_TOKEN: '10'}",
            "spec: {imagePullSecrets: [{name: registry}], tls: [{secretName: tls}]}",
            "kind: ExternalSecret\nspec: {data: [{secretKey: password}]}",
            "apiVersion: v1\nkind: Service\nspec: {ports: [{name: token, port: 80}]}",
        ] {
            assert_eq!(said(text), "", "{text}");
        }
    }

    #[test]
    fn as_many_are_named_as_somebody_reads() {
        let text = "a: ghp_0123456789abcdef\n---\n".repeat(30);
        let found = said(&text);
        assert_eq!(found.lines().count(), MAX_FINDINGS);
        assert!(found.ends_with("(and 20 more values)"), "{found}");
    }
}
