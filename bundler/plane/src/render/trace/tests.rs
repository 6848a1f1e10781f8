//! Which lines a key reaches, in both languages.

use super::*;
use outhaul_test_planes::shorthand::plane_of;

fn reached(
    group: &str,
    config_template: &str,
    data: &str,
    key: &str,
) -> (Vec<(usize, How, bool)>, bool) {
    let indented = config_template.replace('\n', "\n      ");
    let template = |name: &str, kind: &str, text: &str| {
        format!(
            "apiVersion: {group}\nkind: Template\nmetadata:\n  name: {name}\nspec:\n  type: {kind}\n  manifests:\n    - |\n      {text}\n---\n"
        )
    };
    // The first line of the config template's text is line 9 of its document, which comes first.
    let text = template("config", "config", &indented)
        + &template("flux", "reconciler", "name: fixed")
        + &template("default", "namespace", "name: fixed")
        + "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: ClusterType\nmetadata: {name: drone}\n\
           spec: {reconciler: flux, namespaceService: default, configType: config}\n---\n\
           apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, labels: {platform-config: 'true'}}\ndata:\n"
        + data;
    let plane = plane_of(&[text], &[]);
    let cluster_type = &plane.cluster_types["drone"];
    let target = DeploymentTarget {
        name: "app-test".into(),
        short_name: "test".into(),
        workload: "app".into(),
        registration: "app".into(),
        workspace: "team".into(),
        environment: "dev".into(),
        environment_at: cluster_type.location.clone(),
        labels: BTreeMap::new(),
        manifests: None,
        storage_at: None,
        config_schemas: Vec::new(),
        location: cluster_type.location.clone(),
    };
    let composed =
        crate::compose::compose_one(&plane, cluster_type, &target, Mode::default()).unwrap();
    let trace = trace(
        &plane,
        cluster_type,
        &target,
        &composed,
        key,
        Mode::default(),
    );
    let lines = trace
        .lines
        .iter()
        .map(|l| (l.location.line() - 8, l.how, l.changes))
        .collect();
    (lines, trace.tried)
}

const KALYPSO: &str = "scheduler.kalypso.io/v1alpha1";
const OWN: &str = "outhaul.dev/v1alpha1";
const DATA: &str = "  A: one\n  B: two\n  PORT: '8080'\n";

#[test]
fn a_line_that_names_the_key_and_one_that_does_not() {
    let text = "a: {{ .ConfigData.A }}\nb: {{ .ConfigData.B }}\nc: fixed";
    assert_eq!(
        reached(KALYPSO, text, DATA, "A"),
        (vec![(1, How::Named, true)], true)
    );
    let text = text.replace(".ConfigData", "ConfigData");
    assert_eq!(
        reached(OWN, &text, DATA, "B"),
        (vec![(2, How::Named, true)], true)
    );
}

#[test]
fn a_condition_names_it_and_what_it_guards_does_not_change() {
    let text = "{{ if eq .ConfigData.A \"other\" }}\nx: 1\n{{ end }}";
    assert_eq!(
        reached(KALYPSO, text, DATA, "A"),
        (vec![(1, How::Named, false)], true)
    );
}

#[test]
fn the_body_of_a_loop_over_everything_is_reached_without_naming_it() {
    let text =
        "data:\n{{ range $k, $v := .ConfigData }}\n  {{ $k }}: {{ $v }}\n{{ end }}\nend: true";
    assert_eq!(
        reached(KALYPSO, text, DATA, "B"),
        (vec![(2, How::Whole, false), (3, How::Output, true)], true)
    );
}

#[test]
fn a_number_stays_a_number_where_a_template_needs_one() {
    let text =
        "port: {{ ConfigData.PORT | int + 1 }}\n{% if ConfigData.A == 'one' %}x: 1{% endif %}";
    assert_eq!(
        reached(OWN, text, DATA, "PORT"),
        (vec![(1, How::Named, true)], true)
    );
}

#[test]
fn an_action_over_several_lines_is_one_place() {
    let text = "a: {{ print\n  .ConfigData.A\n}} z\nb: {{ .ConfigData.B }}";
    assert_eq!(
        reached(KALYPSO, text, DATA, "A"),
        (vec![(1, How::Output, true), (2, How::Named, false)], true)
    );
}
