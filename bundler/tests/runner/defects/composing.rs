//! Defects in what a config's values become: merging, typing, matching, schemas.
//!
//! What comes in: a container or two. What must come out: the data of one `ConfigMap`, right by default
//! and as Kalypso made it with `--compat`.

use super::{DefectFixture, config};

#[test]
fn defect_05_items_without_a_name_are_not_the_same_item() {
    let fixture = DefectFixture::new();
    fixture.config_template("items:\n{{ toYaml .ConfigData.RULES }}");
    let rules = |name: &str, rules: &str| config(name, "", &format!("  RULES: |\n{rules}"));
    fixture.write(
        "dev/config.yaml",
        &rules(
            "a",
            "    - port: 1\n    - port: 2\n    - name: web\n      port: 3\n",
        ),
    );
    fixture.write(
        "dev/more.yaml",
        &rules("b", "    - host: x\n    - name: web\n      host: z\n"),
    );
    assert_eq!(
        fixture.rendered_data(),
        "items:\n- port: 1\n- port: 2\n- host: z\n  name: web\n  port: 3\n- host: x\n"
    );
    assert_eq!(
        fixture.compat_data(),
        "items:\n- host: x\n  port: 1\n- host: x\n  port: 2\n- host: z\n  name: web\n  port: 3\n"
    );
    // Which of the two was meant nobody can know: it is said.
    let said = "`RULES` has items without a `name` in `a` and in `b`: they stay apart";
    fixture.run(&["check"]).refused(0, said);
}

#[test]
fn items_whose_names_cannot_be_compared_stay_apart_and_fail_as_in_kalypso() {
    let fixture = DefectFixture::new();
    fixture.config_template("items:\n{{ toYaml .ConfigData.RULES }}");
    let rules = |name: &str, rules: &str| config(name, "", &format!("  RULES: \"{rules}\"\n"));
    fixture.write("dev/config.yaml", &rules("a", "[{name: [a], port: 1}]"));
    fixture.write("dev/more.yaml", &rules("b", "[{name: [a], host: x}]"));
    assert_eq!(
        fixture.rendered_data(),
        "items:\n- name:\n    - a\n  port: 1\n- host: x\n  name:\n    - a\n"
    );
    let said = "`RULES` of `b` has an item whose `name` is a list or a map: Kalypso fails on it";
    fixture.render_compat().complains(said);
    // A list and a map are of different types: Go compares them, and they differ.
    fixture.write("dev/more.yaml", &rules("b", "[{name: {a: b}, host: x}]"));
    fixture.compat_data();
}

#[test]
fn defect_06_text_becomes_what_its_schema_declares_and_nothing_else() {
    let fixture = DefectFixture::new();
    fixture
        .data("  VERSION: \"11\"\n  DEBUG: \"true\"\n  RATIO: \"NaN\"\n  LIMITS: \"{cpu: '2'}\"\n");
    let schema = |ratio: &str| {
        format!(
            "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: ConfigSchema\nmetadata: {{name: s}}\nspec:\n  schema: |\n    \
             {{\"properties\": {{\"VERSION\": {{\"type\": \"string\"}}, \"DEBUG\": {{\"type\": \"boolean\"}}, \
             \"RATIO\": {{\"type\": \"{ratio}\"}}, \
             \"LIMITS\": {{\"properties\": {{\"cpu\": {{\"type\": \"integer\"}}}}}}}}}}\n"
        )
    };
    fixture.write("dev/schema.yaml", &schema("string"));
    fixture.render().ok();
    fixture.render_compat().complains("unsupported value: NaN");
    fixture.write("dev/schema.yaml", &schema("number"));
    fixture.render().complains("`RATIO`");
    // Booleans and what is nested, which Kalypso refuses.
    fixture.data("  DEBUG: \"true\"\n  PORTS: \"['8080']\"\n");
    let nested = schema("number").replace(
        "\"LIMITS\": {\"properties\": {\"cpu\": {\"type\": \"integer\"}}}",
        "\"PORTS\": {\"items\": {\"type\": \"integer\"}}",
    );
    fixture.write("dev/schema.yaml", &nested);
    fixture.render().ok();
    fixture.render_compat().complains("PORTS.0: Invalid type");
    let boolean = nested.replace("\"items\": {\"type\": \"integer\"}", "");
    fixture.write("dev/schema.yaml", &boolean);
    fixture.render().ok();
    fixture.render_compat().complains("DEBUG: Invalid type");
}

#[test]
fn defect_07_a_config_map_holds_text_even_where_it_looks_like_yaml() {
    let fixture = DefectFixture::new();
    fixture.data("  HOSTS: |\n    - a   # first\n    - b\n  PLAIN: x\n");
    let text = "  HOSTS: |\n      - a   # first\n      - b\n  PLAIN: x\n";
    assert_eq!(
        fixture.rendered_data(),
        text,
        "as written, with its comment"
    );
    assert_eq!(
        fixture.compat_data(),
        "  HOSTS:\n      - a\n      - b\n  PLAIN: x\n"
    );
    // Merged from two containers it is YAML again, still as text.
    fixture.write("dev/more.yaml", &config("more", "", "  HOSTS: \"[c]\"\n"));
    assert_eq!(
        fixture.rendered_data(),
        "  HOSTS: |\n      - a\n      - b\n      - c\n  PLAIN: x\n"
    );
}

#[test]
fn defect_07_words_are_booleans_only_in_yaml_1_2() {
    let fixture = DefectFixture::new();
    fixture.config_template("{{ toYaml .ConfigData }}");
    fixture.data("  MODES: \"{fast: on, country: no, real: true}\"\n");
    assert_eq!(
        fixture.rendered_data(),
        "MODES:\n    country: \"no\"\n    fast: \"on\"\n    real: true\n"
    );
    assert_eq!(
        fixture.compat_data(),
        "MODES:\n    country: false\n    fast: true\n    real: true\n"
    );
}

#[test]
fn defect_08_one_balanced_pair_of_quotes_is_taken_off() {
    let fixture = DefectFixture::new();
    fixture.config_template("{{ toYaml .ConfigData }}\nU: {{ unquote .ConfigData.U }}");
    fixture.data("  A: \"'\"\n  B: \"''x''\"\n  C: \"'8080'\"\n  U: \"\\\"'x'\\\"\"\n");
    assert_eq!(
        fixture.rendered_data(),
        "A: ''''\nB: '''x'''\nC: \"8080\"\nU: '\"''x''\"'\nU: 'x'\n"
    );
    assert_eq!(
        fixture.compat_data(),
        "A: \"\"\nB: x\nC: \"8080\"\nU: '\"''x''\"'\nU: x\n"
    );
}

#[test]
fn defect_09_an_empty_label_is_not_an_absent_one() {
    let fixture = DefectFixture::new();
    fixture.write(
        "dev/more.yaml",
        &config("extra", "tier: \"\"", "  EXTRA: \"1\"\n"),
    );
    assert_eq!(fixture.rendered_data(), "  REGION: East US\n");
    assert_eq!(fixture.compat_data(), "  EXTRA: \"1\"\n  REGION: East US\n");
    fixture.edit(
        "dev/types.yaml",
        "    region: east-us\n",
        "    region: east-us\n    tier: \"\"\n",
    );
    assert_eq!(
        fixture.rendered_data(),
        "  EXTRA: \"1\"\n  REGION: East US\n",
        "both have it, empty"
    );
}

#[test]
fn defect_10_azure_keys_have_one_order_and_whole_pairs() {
    let fixture = DefectFixture::new();
    let azure = |data: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: azure-app-config}}\ndata:\n{data}"
        )
    };
    // Equally long keys that set the same value: Kalypso leaves it to chance.
    fixture.write(
        "dev/azure.yaml",
        &azure("  region.east-us.URL: by-region\n  purpose.test.URL: by-purpose\n  workload.hello.URL: by-workload\n"),
    );
    for _ in 0..3 {
        assert_eq!(
            fixture.rendered_data(),
            "  REGION: East US\n  URL: by-workload\n"
        );
    }
    fixture.write("dev/azure.yaml", &azure("  region.URL: x\n"));
    fixture
        .render()
        .complains("key `region.URL` of `azure-app-config` has a label without a value");
    assert_eq!(
        fixture.compat_data(),
        "  REGION: East US\n  URL: x\n",
        "one part is dropped"
    );
}

#[test]
fn defect_27_two_containers_of_one_name_are_an_error() {
    let fixture = DefectFixture::new();
    fixture.write(
        "main/config.yaml",
        &config("east", "", "  REGION: from the base\n"),
    );
    fixture
        .render()
        .complains("two objects of kind ConfigMap are called `east`")
        .complains("main/config.yaml");
    // Under another name the order of names decides, and `explain` says what lost.
    fixture.edit("main/config.yaml", "name: east", "name: base");
    assert_eq!(fixture.rendered_data(), "  REGION: East US\n");
    let message = fixture
        .run(&["explain", "hello-test", "drone", "--key", "REGION"])
        .ok();
    assert!(
        message.stdout.contains("from the base"),
        "{}",
        message.stdout
    );
}
