//! What `outhaul check` says: one mistake, one finding, with its place and a way out.
//!
//! What comes in: a small sound control plane with one kind of mistake. What must come out: the finding
//! as people read it, and the exit code. Each is a reviewed snapshot.

use super::cli::PlaneFixture;

fn template(name: &str, text: &str) -> String {
    format!(
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Template\nmetadata:\n  name: {name}\nspec:\n  type: config\n  \
         manifests:\n    - |\n      {text}\n"
    )
}

fn schema(labels: &str, text: &str) -> String {
    format!(
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: ConfigSchema\nmetadata:\n  name: strict\n  labels: {labels}\n\
         spec:\n  schema: |\n    {text}\n"
    )
}

fn config(labels: &str, data: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: more\n  labels: {{platform-config: \"true\", {labels}}}\n\
         data:\n{data}"
    )
}

#[test]
fn names_of_things_that_are_not_there() {
    let fixture = PlaneFixture::new();
    fixture.edit("dev/types.yaml", "reconciler: flux", "reconciler: fluxx");
    fixture.edit(
        "dev/types.yaml",
        "configType: configmap",
        "configType: default",
    );
    fixture.edit("app/workload.yaml", "environment: dev", "environment: dve");
    fixture.write(
        "main/.environments/dev.yaml",
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Environment\nmetadata: {name: dev}\nspec:\n  controlPlane: \
         {repo: https://git.example.org/plane, branch: dev, path: .}\n",
    );
    insta::assert_snapshot!(fixture.run(&["check"]));
}

#[test]
fn a_branch_that_is_not_there_does_not_hide_a_template_that_does_not_parse() {
    let fixture = PlaneFixture::new();
    fixture.write(
        "main/other.yaml",
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: WorkloadRegistration\nmetadata: {name: other}\nspec:\n  \
         workspace: team\n  workload: {repo: https://git.example.org/app, branch: main, path: nowhere}\n",
    );
    fixture.write("main/broken.yaml", &template("broken", "a: {{ .Namespace"));
    insta::assert_snapshot!(fixture.run(&["check"]));
}

#[test]
fn templates_that_do_not_parse_used_or_not() {
    let fixture = PlaneFixture::new();
    fixture.write(
        "main/unused.yaml",
        &template("unused", "a: {{ nosuchfunction .Namespace }}"),
    );
    fixture.edit(
        "main/templates.yaml",
        "toYaml .ConfigData",
        "toYaml .ConfigData | nindent",
    );
    fixture.edit(
        "main/templates.yaml",
        "{{ .Manifests.repo }}",
        "{{ if .Manifests.repo }}",
    );
    insta::assert_snapshot!(fixture.run(&["check"]));
}

#[test]
fn schemas_that_are_none_apply_to_nothing_or_are_broken() {
    let fixture = PlaneFixture::new();
    fixture.write(
        "dev/none.yaml",
        &schema("{region: nowhere}", "{\"type\": \"objekt\"}"),
    );
    let strict = schema(
        "{region: east-us}",
        "{\"type\": \"object\", \"properties\": {\"REGION\": {\"enum\": [\"West\"]}}, \"required\": [\"OWNER\"]}",
    );
    fixture.write(
        "dev/strict.yaml",
        &strict.replace("name: strict", "name: stricter"),
    );
    let misspelt = schema(
        "{region: east-us}",
        "{\"requird\": [\"A\"], \"dependentRequired\": {}, \"properties\": {\"B\": {\"minimun\": 1, \"x-unit\": \"s\"}}}",
    );
    fixture.write(
        "dev/misspelt.yaml",
        &misspelt.replace("name: strict", "name: misspelt"),
    );
    insta::assert_snapshot!(fixture.run(&["check"]));
}

#[test]
fn config_that_applies_to_nothing_or_that_no_template_uses() {
    let fixture = PlaneFixture::new();
    fixture.edit(
        "main/templates.yaml",
        "{{ toYaml .ConfigData }}",
        "region: {{ .ConfigData.REGION }}",
    );
    fixture.write(
        "dev/more.yaml",
        &config("region: east-us", "  REGIO: East\n"),
    );
    let far = config("region: east-us, regoin: east-us", "  A: b\n");
    fixture.write("dev/far.yaml", &far.replace("name: more", "name: far"));
    insta::assert_snapshot!(fixture.run(&["check"]));
}

#[test]
fn config_of_single_sites_is_used() {
    let fixture = PlaneFixture::new();
    fixture.write(
        "dev/sites.yaml",
        "apiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata: {name: east-1, labels: {line: \"7\"}}\nspec: \
         {clusterType: drone}\n",
    );
    fixture.write(
        "dev/more.yaml",
        &config("region: east-us, line: \"7\"", "  REGION: Line 7\n"),
    );
    assert!(
        fixture
            .run(&["check"])
            .starts_with("exit code 0\n--- stderr\ndev: no findings")
    );
    fixture.edit("dev/more.yaml", "line: \"7\"", "line: \"8\"");
    assert!(
        fixture
            .run(&["check"])
            .contains("config `more` applies to nothing")
    );
}

#[test]
fn values_that_older_yaml_reads_otherwise_and_values_that_are_no_text() {
    let fixture = PlaneFixture::new();
    let data = "  A: off\n  B: 12:30:00\n  C: 2024-01-01\n  D: 1_000\n  E: \"yes\"\n  F: plain\n";
    fixture.write("dev/more.yaml", &config("region: east-us", data));
    insta::assert_snapshot!(
        "values_that_older_yaml_reads_otherwise",
        fixture.run(&["check"])
    );
    let data = "  A: 1e3\n  B: 010\n  C: true\n  D: [1, 2]\n  E: no\n";
    fixture.write("dev/more.yaml", &config("region: east-us", data));
    insta::assert_snapshot!("values_that_are_no_text", fixture.run(&["check"]));
}

#[test]
fn names_that_are_too_long() {
    let fixture = PlaneFixture::new();
    let long = "a-name-that-says-everything-there-is-to-say-about-a-workload";
    fixture.edit("app/workload.yaml", "name: hello", &format!("name: {long}"));
    insta::assert_snapshot!(fixture.run(&["check"]));
}

#[test]
fn two_containers_with_the_same_labels_that_contradict_each_other() {
    let fixture = PlaneFixture::new();
    fixture.write(
        "dev/more.yaml",
        &config("region: east-us", "  REGION: Ost\n"),
    );
    insta::assert_snapshot!(fixture.run(&["check"]));
}

#[test]
fn lists_of_two_containers_whose_items_may_be_one() {
    let fixture = PlaneFixture::new();
    let rules =
        |rules: &str| format!("  RULES: |\n{rules}  NAMED: \"[{{name: a, on: [x]}}, b]\"\n");
    let text = |name: &str, labels: &str, data: &str| {
        config(labels, data).replace("name: more", &format!("name: {name}"))
    };
    fixture.write(
        "dev/one.yaml",
        &text(
            "one",
            "cluster-type: drone",
            &rules("    - port: 1\n    - name: web\n"),
        ),
    );
    let two = rules("    - host: x\n    - name: web\n");
    fixture.write("dev/two.yaml", &text("two", "region: east-us", &two));
    insta::assert_snapshot!(fixture.run(&["check"]));
    // What is declared is no doubt.
    fixture.write(
        "dev/composition.yaml",
        "apiVersion: outhaul.dev/v1alpha1\nkind: CompositionPolicy\nmetadata: {name: lists}\nspec:\n  precedence: name\n  \
         arrays: append\n",
    );
    let seen = fixture.run(&["check"]);
    assert!(!seen.contains("-items"), "{seen}");
}

#[test]
fn json_has_every_environment_and_every_finding() {
    let fixture = PlaneFixture::new();
    fixture.edit("dev/policy.yaml", "purpose: test", "purpose: tset");
    let seen = fixture.run(&["check", "--output", "json"]);
    let start = seen.find('{').unwrap();
    let end = seen.rfind('}').unwrap();
    let document = outhaul_tests::result(&seen[start..=end]);
    assert_eq!(document["warnings"], 1);
    let environment = &document["environments"][0];
    assert_eq!(environment["loaded"], true);
    let finding = &environment["findings"][0];
    assert_eq!(finding["code"], "selects-nothing");
    assert_eq!(finding["location"]["line"], 10);
    assert_eq!(finding["location"]["column"], 18);
    assert_eq!(finding["help"], "did you mean `test`?");
}
