//! What `outhaul explain` says of a key, a site, and a pair that is not assigned.
//!
//! What comes in: a small control plane with two layers of config, a schema and sites. What must come
//! out: every place that had a part in it. Each is a reviewed snapshot.

use super::cli::PlaneFixture;

fn fixture() -> PlaneFixture {
    let fixture = PlaneFixture::new();
    fixture.write(
        "dev/more.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a-common\n  labels:\n    platform-config: \"true\"\ndata:\n  \
         REGION: somewhere\n  TLS: |\n    enabled: true\n    version: 2\n  TOKEN: ENC[age,0123456789abcdef/dev/app+hello/TOKEN,c2VjcmV0]\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: line\n  labels:\n    platform-config: \"true\"\n    \
         line: \"7\"\ndata:\n  REGION: Line 7\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: west\n  labels:\n    platform-config: \"true\"\n    \
         region: west-us\ndata:\n  REGION: West US\n  ONLY_WEST: \"1\"\n---\n\
         apiVersion: scheduler.kalypso.io/v1alpha1\nkind: ConfigSchema\nmetadata:\n  name: strict\n  labels:\n    \
         region: east-us\nspec:\n  schema: |\n    {\n      \"type\": \"object\",\n      \"required\": [\"REGION\"],\n      \
         \"properties\": {\n        \"REGION\": {\"type\": \"string\"}\n      }\n    }\n",
    );
    let sites: String = [("east-1", "7"), ("east-2", "7"), ("east-3", "8")]
        .map(|(name, line)| {
            format!(
                "apiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata: {{name: {name}, labels: {{line: \"{line}\"}}}}\n\
                 spec: {{clusterType: drone}}\n---\n"
            )
        })
        .concat();
    fixture.write("dev/sites.yaml", &sites);
    fixture
}

#[test]
fn a_key_of_one_pair() {
    insta::assert_snapshot!(fixture().run(&["explain", "hello-test", "drone", "--key", "REGION"]));
}

#[test]
fn a_key_that_is_not_set_there() {
    insta::assert_snapshot!(fixture().run(&[
        "explain",
        "hello-test",
        "drone",
        "--key",
        "ONLY_WEST"
    ]));
}

#[test]
fn a_key_everywhere() {
    insta::assert_snapshot!(fixture().run(&["explain", "--key", "REGION"]));
}

#[test]
fn a_whole_config_with_a_sealed_value() {
    let seen = fixture().run(&["explain", "hello-test", "drone"]);
    assert!(!seen.contains("c2VjcmV0"), "{seen}");
    insta::assert_snapshot!(seen);
}

#[test]
fn a_site_with_values_of_its_own() {
    insta::assert_snapshot!(fixture().run(&["explain", "--site", "east-2"]));
}

#[test]
fn a_key_on_a_site() {
    insta::assert_snapshot!(fixture().run(&[
        "explain",
        "hello-test",
        "--site",
        "east-2",
        "--key",
        "REGION"
    ]));
}

#[test]
fn a_pair_that_is_not_assigned() {
    let fixture = fixture();
    fixture.edit("dev/policy.yaml", "purpose: test", "purpos: tset");
    insta::assert_snapshot!(fixture.run(&["explain", "hello-test", "drone"]));
}

#[test]
fn json_has_what_the_text_has() {
    let seen = fixture().run(&[
        "explain",
        "hello-test",
        "drone",
        "--key",
        "REGION",
        "--output",
        "json",
    ]);
    let (start, end) = (seen.find('{').unwrap(), seen.rfind('}').unwrap());
    let document = outhaul_tests::result(&seen[start..=end]);
    let key = &document["cluster_types"][0]["config"]["keys"][0];
    assert_eq!(key["value"], "East US");
    assert_eq!(key["layers"][1]["at"], "dev/more.yaml:8");
    assert_eq!(key["layers"][1]["role"], "overridden");
    assert_eq!(key["skipped_layers"][0]["needs"], "line = 7");
    assert_eq!(key["schemas"][0]["name"], "strict");
    assert_eq!(key["reaches"][0]["how"], "named");
    assert_eq!(key["reaches"][1]["how"], "whole");
}

#[test]
fn the_whole_environment_is_a_document_that_a_hub_reads() {
    let seen = fixture().run(&["explain", "--whole", "--output", "json"]);
    assert!(!seen.contains("c2VjcmV0"), "{seen}");
    let (start, end) = (seen.find('{').unwrap(), seen.rfind('}').unwrap());
    let bytes = &seen.as_bytes()[start..=end];
    let document = outhaul_bundle::hub_api::PlatformExplanation::read(bytes).unwrap();
    let pairs: Vec<_> = document
        .assignments
        .iter()
        .map(|one| (one.cluster_type.as_str(), one.target.as_str()))
        .collect();
    assert_eq!(pairs, [("drone", "hello-test")]);
}

#[test]
fn an_environment_that_could_not_be_read_whole_is_explained_to_no_hub() {
    let fixture = fixture();
    let text = std::fs::read_to_string(fixture.folder.path().join("main/app.yaml")).unwrap();
    let old = text.lines().find(|line| line.contains("repo:")).unwrap();
    fixture.edit("main/app.yaml", old, "    repo: https://127.0.0.1:1/gone");
    let seen = fixture.run(&["explain", "--whole", "--output", "json"]);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    let send = [
        "explain",
        "--whole",
        "--send",
        "--hub",
        "http://127.0.0.1:1",
    ];
    let seen = fixture.run(&send);
    assert!(seen.starts_with("exit code 1"), "{seen}");
    assert!(
        seen.contains("was not sent; the hub was not asked"),
        "{seen}"
    );
}

#[test]
fn a_whole_explanation_is_sent_only_to_a_hub_that_is_named_and_with_a_token() {
    insta::assert_snapshot!(
        fixture().run(&["explain", "--whole", "--send"])
            + &fixture().run(&[
                "explain",
                "--whole",
                "--send",
                "--hub",
                "http://127.0.0.1:1"
            ])
    );
}
