//! Private keys in a control plane: everyone who may read the repository has them.
//!
//! What comes in: the text of a file, and its documents. What goes out: a finding for each text that holds a private key: an error in
//! our own kinds, where none belongs, and a warning in Kalypso's and in `ConfigMap`s, which may be what they were before. The key itself
//! is in no finding.

use outhaul_kit::private_keys;

use super::super::diagnostic::Diagnostic;
use super::super::yaml::{Node, YamlValue};
use super::fields::FieldReader;

/// Reports each text of an object that holds a private key.
pub(super) fn report(reader: &mut FieldReader<'_>, node: &Node, kind: &str, ours: bool) {
    match &node.value {
        YamlValue::String(text) => {
            let Some(what) = private_keys::in_text(text) else {
                return;
            };
            let message =
                format!("`{kind}` holds {what}: everyone who reads this repository has it");
            let made = match ours {
                true => Diagnostic::error("private-key", message),
                false => Diagnostic::warning("private-key", message),
            };
            let at = reader.location(node);
            reader.report(made.at(&at).concealed().help(
                "make a new key pair: this one is known, and stays in the history; a control plane has public keys alone, and secrets travel \
                 sealed (`outhaul secret seal`)",
            ));
        }
        YamlValue::Sequence(items) => {
            for item in items {
                report(reader, item, kind, ours);
            }
        }
        YamlValue::Mapping(entries) => {
            for entry in entries {
                report(reader, &entry.value, kind, ours);
            }
        }
        YamlValue::Null | YamlValue::Bool(_) | YamlValue::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::super::diagnostic::{Diagnostics, Severity, SourceFile};
    use super::super::read_file;

    fn findings(text: &str) -> Vec<(Severity, String)> {
        let file = Arc::new(SourceFile {
            name: "x.yaml".into(),
            text: text.into(),
        });
        let mut findings = Diagnostics::new();
        read_file(&file, &mut findings);
        let all = findings.iter();
        let of_keys =
            all.filter(|one| one.code == "private-key" || one.message.contains("private"));
        of_keys
            .map(|one| (one.severity, format!("{:?} {}", one.location, one.message)))
            .collect()
    }

    #[test]
    fn a_private_key_is_named_wherever_it_is_written() {
        let key = "-----BEGIN PRIVATE KEY-----\\nMEECAQ\\n-----END PRIVATE KEY-----";
        let site = |field: &str| {
            format!(
                "apiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata:\n  name: a\nspec:\n  clusterType: b\n  {field}\n"
            )
        };
        let map = |value: &str| {
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, labels: {{platform-config: 'true'}}}}\ndata: {{K: \"{value}\"}}\n"
            )
        };
        for (text, expected) in [
            (
                site(&format!("publicKey: \"{key}\"")),
                Some(Severity::Error),
            ),
            (site("ring: AGE-SECRET-KEY-1QQ"), Some(Severity::Error)),
            (
                site("ring: \"-----BEGIN EC PRIVATE KEY-----\""),
                Some(Severity::Error),
            ),
            (map(key), Some(Severity::Warning)),
            (
                map("-----BEGIN OPENSSH PRIVATE KEY-----"),
                Some(Severity::Warning),
            ),
            (
                map("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----"),
                Some(Severity::Warning),
            ),
            (map("replace -----END PRIVATE KEY-----"), None),
            (map("no PRIVATE KEY here"), None),
            (site("ring: canary"), None),
        ] {
            let found = findings(&text);
            assert_eq!(
                found.first().map(|(severity, _)| *severity),
                expected,
                "{text}{found:?}"
            );
            for (_, shown) in &found {
                assert!(
                    !shown.contains("MEECAQ") && !shown.contains("1QQ"),
                    "{shown}"
                );
                assert!(shown.contains("x.yaml:"), "{shown}");
            }
        }
    }

    #[test]
    fn what_is_no_public_key_in_pem_is_none_of_a_site() {
        let site = |key: &str| {
            format!(
                "apiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata:\n  name: a\nspec:\n  clusterType: b\n  publicKey: {key}\n"
            )
        };
        for (key, expected) in [
            ("ssh-ed25519", false),
            ("\"ssh-rsa AAAA me\"", false),
            ("age1qq", false),
            ("\"-----BEGIN PUBLIC KEY----- x\"", true),
        ] {
            // Twice: the second one is read as the first.
            let text = format!(
                "{}---\n{}",
                site("\"-----BEGIN PUBLIC KEY----- x\""),
                site(key)
            );
            let file = Arc::new(SourceFile {
                name: "x.yaml".into(),
                text,
            });
            let mut findings = Diagnostics::new();
            read_file(&file, &mut findings);
            assert_eq!(!findings.has_errors(), expected, "{key}: {findings}");
        }
    }
}
