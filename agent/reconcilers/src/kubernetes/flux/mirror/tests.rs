//! Which addresses are changed, and to what.
use serde_json::{Value, json};

use super::*;

const MIRROR: &str = "https://mirror.site.example:5443";

fn source(kind: &str, spec: Value) -> Object {
    Object {
        key: Key {
            group: SOURCE.into(),
            kind: kind.into(),
            namespace: Some("flux-system".into()),
            name: "app".into(),
        },
        version: "v1".into(),
        value: json!({"spec": spec}),
        place: String::new(),
    }
}

#[test]
fn the_original_name_stays_in_the_address() {
    let git = |url: &str| mirrored(&source("GitRepository", json!({"url": url})), MIRROR);
    let at = |rest: &str| Some(format!("{MIRROR}/{rest}"));
    assert_eq!(
        git("https://github.com/org/repo"),
        at("github.com/org/repo")
    );
    assert_eq!(
        git("ssh://git@git.example:22/org/repo.git"),
        at("git.example/org/repo.git")
    );
    assert_eq!(
        git("https://token@git.example:8443/org/repo"),
        at("git.example:8443/org/repo")
    );
    let oci = source("OCIRepository", json!({"url": "oci://ghcr.io/org/app"}));
    let expected = "oci://mirror.site.example:5443/ghcr.io/org/app";
    assert_eq!(mirrored(&oci, MIRROR).as_deref(), Some(expected));
    let charts = |url: &str| mirrored(&source("HelmRepository", json!({"url": url})), MIRROR);
    assert_eq!(charts("https://charts.example/a"), at("charts.example/a"));
    assert_eq!(
        charts("https://charts.example:8443"),
        at("charts.example:8443")
    );
    let bucket = source("Bucket", json!({"endpoint": "s3.example"}));
    assert_eq!(mirrored(&bucket, MIRROR), None);
}

#[test]
fn what_opens_the_original_is_not_sent_to_the_mirror_and_the_authority_comes_along() {
    let folder = std::env::temp_dir();
    let folder = tempfile::tempdir_in(folder).unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, "-----BEGIN CERTIFICATE-----\nMIIB\n").unwrap();
    let config = FluxConfig {
        mirror: Some(format!("{MIRROR}/")),
        ca: Some(ca.clone()),
    };
    let spec = json!({"url": "https://github.com/org/repo", "secretRef": {"name": "repo-secret"}});
    let object = source("GitRepository", spec);
    let mut all = DesiredObjects {
        assignment: "a".repeat(60),
        ..DesiredObjects::default()
    };
    all.objects.push(DesiredObject {
        object,
        content: Digest::of(b""),
        note: String::new(),
    });
    point_to(&config, &mut all).unwrap();
    let [changed, secret] = &all.objects[..] else {
        unreachable!("{:?}", all.objects);
    };
    let spec = &changed.object.value["spec"];
    assert_eq!(spec["url"], format!("{MIRROR}/github.com/org/repo"));
    assert_eq!(spec["secretRef"]["name"], secret.object.key.name);
    assert!(secret.object.key.name.len() <= 63);
    assert_eq!(secret.object.key.namespace.as_deref(), Some("flux-system"));
    assert_eq!(
        changed.note,
        format!("`https://github.com/org/repo` is fetched from {MIRROR}/github.com/org/repo")
    );
    // A key is not handed out, and without an authority nothing is applied.
    std::fs::write(&ca, "-----BEGIN PRIVATE KEY-----\n").unwrap();
    let refused = point_to(&config, &mut all).unwrap_err();
    assert!(refused.to_string().contains("is not a certificate"));
    assert!(refused.help().contains("`[flux]`"), "{}", refused.help());
    point_to(&FluxConfig::default(), &mut all).unwrap();
}
