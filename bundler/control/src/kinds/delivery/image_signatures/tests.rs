//! Entries that are sound, and each way in which one is not, with its line and what to do.

use std::sync::Arc;

use crate::diagnostic::{Diagnostics, SourceFile};
use crate::kinds::{Object, read_file};
use crate::model::SignatureRule;

const ROOTS: &str = r#"  trustedRoots:
    - name: sigstore
      json: '{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}'
"#;
const PRESS: &str = "{issuer: 'https://accounts.example', subject: release@press.example}";

/// The entries of a policy with these fields, and what was found.
fn read(fields: &str) -> (Vec<SignatureRule>, Diagnostics) {
    let text = format!(
        "apiVersion: outhaul.dev/v1alpha1\nkind: DeliveryPolicy\nmetadata: {{name: all}}\nspec:\n  \
         clusterTypeSelector: {{labelSelector: {{matchLabels: {{}}}}}}\n{fields}"
    );
    let name = "x.yaml".into();
    let file = Arc::new(SourceFile { name, text });
    let mut findings = Diagnostics::new();
    let mut objects = read_file(&file, &mut findings).into_iter();
    let rules = match objects.next() {
        Some(Object::Delivery(policy)) => policy.image_signatures,
        _ => None,
    };
    (rules.map(|rules| rules.0).unwrap_or_default(), findings)
}

fn entry(fields: &str) -> String {
    format!("  imageSignatures:\n    - images: 'registry.example/*'\n      {fields}\n")
}

#[test]
fn an_entry_has_keys_identities_or_both() {
    let identities = format!("identities: [{PRESS}]\n      trustedRoot: sigstore");
    let keys = "keys: ['-----BEGIN PUBLIC KEY-----']";
    for (fields, expected) in [
        (entry(keys), (1, 0, false)),
        (entry("keys: []"), (0, 0, true)),
        (format!("{ROOTS}{}", entry(&identities)), (0, 1, false)),
        (
            format!("{ROOTS}{}", entry(&format!("{keys}\n      {identities}"))),
            (1, 1, false),
        ),
        (
            format!("{ROOTS}{}", entry(&format!("keys: []\n      {identities}"))),
            (0, 1, false),
        ),
    ] {
        let (rules, findings) = read(&fields);
        assert!(findings.is_empty(), "{findings}");
        let rule = &rules[0];
        let found = (
            rule.keys.len(),
            rule.identities.len(),
            rule.may_be_unsigned(),
        );
        assert_eq!(found, expected, "{fields}");
        assert_eq!(rule.root.is_some(), expected.1 > 0);
    }
}

#[test]
fn what_is_not_sound_is_named_with_its_line_and_what_to_do() {
    let identity = |issuer: &str, subject: &str| {
        let one = format!("identities: [{{issuer: '{issuer}', subject: '{subject}'}}]");
        format!(
            "{ROOTS}{}",
            entry(&format!("{one}\n      trustedRoot: sigstore"))
        )
    };
    let sound = format!("identities: [{PRESS}]");
    let root = |json: &str| {
        format!(
            "  trustedRoots: [{{name: sigstore, json: '{json}'}}]\n{}",
            entry(&format!("{sound}\n      trustedRoot: sigstore"))
        )
    };
    let github = "https://token.actions.githubusercontent.com";
    let all = [
        entry("trustedRoot: sigstore"),
        entry("identities: []"),
        entry("identities: some"),
        entry(&sound),
        entry(&format!("{sound}\n      trustedRoot: other")),
        format!("{ROOTS}{}", entry("keys: []\n      trustedRoot: sigstore")),
        format!("{ROOTS}{}", entry("keys: []")),
        identity("accounts.example", "release@press.example"),
        identity("https://accounts.example", "*"),
        identity(github, "https://github.com/*"),
        identity(github, "https://github.com/press/*"),
        root("no JSON"),
        root("{}"),
        "  trustedRoots: []\n".to_owned(),
    ];
    let text: Vec<String> = all
        .iter()
        .map(|fields| read(fields).1.render(false))
        .collect();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn an_entry_that_an_earlier_one_hides_is_refused() {
    let two = |first: &str, second: &str| {
        format!(
            "  imageSignatures:\n    - {{images: '{first}', keys: []}}\n    - {{images: '{second}', keys: ['-----BEGIN PUBLIC KEY-----']}}\n"
        )
    };
    for (first, second, hidden) in [
        ("*", "registry.example/app:1", true),
        ("registry.example/*", "registry.example/press/*", true),
        ("registry.example/press/*", "registry.example/*", false),
        (
            "registry.example/app:dev-*",
            "registry.example/app:*",
            false,
        ),
        // Those by digest are left to the second one.
        (
            "registry.example/app:dev-*",
            "registry.example/app:dev-1",
            false,
        ),
        (
            "registry.example/app@*",
            "registry.example/app@sha256:*",
            false,
        ),
        ("registry.example/app:*", "registry.example/app:1", true),
    ] {
        let (rules, findings) = read(&two(first, second));
        assert_eq!(findings.has_errors(), hidden, "{first} {second} {findings}");
        assert_eq!(rules.is_empty(), hidden);
        if hidden {
            let shown = findings.render(false);
            assert!(
                shown.contains(&format!("never counts: `{first}` before it")),
                "{shown}"
            );
            assert!(shown.contains("x.yaml:8:"), "{shown}");
        }
    }
}

#[test]
fn an_entry_that_earlier_ones_hide_together_is_refused() {
    let all = |before: &[&str], last: &str| {
        let before = before
            .iter()
            .map(|one| format!("    - {{images: '{one}', keys: []}}\n"));
        let before: String = before.collect();
        format!(
            "  imageSignatures:\n{before}    - {{images: '{last}', keys: ['-----BEGIN PUBLIC KEY-----']}}\n"
        )
    };
    let (tags, digests) = ("registry.example/app:dev-*", "registry.example/*@*");
    let of_tag = "registry.example/app:dev-1";
    for (before, last, hiding) in [
        (
            &[tags, digests][..],
            of_tag,
            "`registry.example/app:dev-*` and `registry.example/*@*` before it are for",
        ),
        (
            &["registry.example/app:*"],
            "registry.example/app@sha256:*",
            "`registry.example/app:*` before it is for",
        ),
        (&[digests], of_tag, ""),
        (&[tags, "registry.example/app@*"], of_tag, ""),
        (
            &[tags, "registry.example/*@*"],
            "registry.example/app:*",
            "",
        ),
    ] {
        let (_, findings) = read(&all(before, last));
        let shown = findings.render(false);
        assert_eq!(
            findings.has_errors(),
            !hiding.is_empty(),
            "{before:?} {last} {shown}"
        );
        assert!(shown.contains(hiding), "{shown}");
    }
}

#[test]
fn attack_what_is_no_key_of_signatures_is_named_in_the_place_of_one() {
    for (key, expected) in [
        ("ssh-ed25519 AAAA me", "a key of SSH"),
        ("ecdsa-sha2-nistp256 AAAA me", "a key of SSH"),
        (
            "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----",
            "a private key",
        ),
        ("-----BEGIN EC PRIVATE KEY-----", "a private key"),
        ("-----BEGIN CERTIFICATE-----", "a certificate"),
        ("-----BEGIN RSA PUBLIC KEY-----", "a key for RSA"),
        ("age1qq", "a recipient of age"),
        ("MFkw", "not a public key in PEM"),
    ] {
        let (rules, findings) = read(&entry(&format!("keys: ['{key}']")));
        let shown = findings.render(false);
        assert!(rules.is_empty() && findings.has_errors(), "{key}");
        assert!(
            shown.contains(expected) && shown.contains("x.yaml:8:"),
            "{shown}"
        );
    }
}
