//! What of a control plane belongs to the sites: the rendered file, what travels, and what cannot be opened.

use crate::compose::Mode;
use crate::render::{Job, RenderCache, RenderedAssignment, render};
use crate::schedule::{self, SchedulerAnswers};
use outhaul_test_planes::texts::{load, snapshot};

/// `open` is the spec of the `SiteValues`; `schema` a config schema, or nothing.
fn rendered(open: &str, schema: &str) -> Result<RenderedAssignment, String> {
    let own = format!(
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: ClusterType\nmetadata: {{name: press, labels: {{kind: press}}}}\n\
         spec: {{reconciler: rec, namespaceService: ns, configType: cfg}}\n---\n\
         apiVersion: scheduler.kalypso.io/v1alpha1\nkind: SchedulingPolicy\nmetadata: {{name: all}}\n\
         spec: {{deploymentTargetSelector: {{}}, clusterTypeSelector: {{}}}}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: config, labels: {{platform-config: 'true'}}}}\n\
         data: {{WIDTH: '62', TRAY: left, CUT: 'true', SECRET: 'ENC[outhaul,x]'}}\n---\n\
         apiVersion: outhaul.dev/v1alpha1\nkind: SiteValues\nmetadata: {{name: printers}}\nspec:\n\
         \x20 deploymentTargetSelector: {{labelSelector: {{matchLabels: {{prints: labels}}}}}}\n\
         \x20 clusterTypeSelector: {{}}\n{open}"
    );
    let template = |name: &str, kind: &str, text: &str| {
        format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: Template\nmetadata: {{name: {name}}}\nspec:\n  type: {kind}\n  \
             manifests:\n    - \"{text}\"\n---\n"
        )
    };
    let base = [
        template("rec", "reconciler", "r: 1"),
        template("ns", "namespace", "n: 1"),
        template("cfg", "config", "c: 1"),
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: WorkloadRegistration\nmetadata: {name: printer}\n\
         spec: {workspace: team, workload: {repo: 'https://git.example.org/printer', branch: main, path: .}}\n"
            .to_owned(),
        schema.to_owned(),
    ];
    let team = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Workload\nmetadata: {name: printer}\nspec:\n  \
                deploymentTargets:\n    - name: press\n      labels: {prints: labels}\n      environment: dev\n";
    let plane = load(
        "dev",
        &[("own.yaml", own)],
        &[("base.yaml", base.join("---\n"))],
        &("team.yaml", team.to_owned()),
    )
    .map_err(|findings| findings.to_string())?;
    let schedule = schedule::schedule(&plane, &SchedulerAnswers::default());
    let job = Job {
        plane: &plane,
        schedule: &schedule,
        snapshot: &snapshot("dev"),
        mode: Mode::default(),
        progress: &|_, _| {},
    };
    let done = render(job, RenderCache::None).rendering;
    if let Some(findings) = done.failures.values().next() {
        return Err(findings.to_string());
    }
    let group = &done.cluster_types["press"];
    Ok(RenderedAssignment::clone(
        group.assignments.values().next().unwrap(),
    ))
}

const OPEN: &str = "  form: env\n  integers: [{key: WIDTH, minimum: 20, maximum: 110}]\n  \
                    enums: [{key: TRAY, values: [left, right]}]\n  booleans: [{key: CUT}]\n";

#[test]
fn what_is_open_is_a_file_with_the_centre_s_values_and_travels_with_its_rules() {
    let found = rendered(OPEN, "").unwrap();
    let file = String::from_utf8(found.files["site-values.env"].clone()).unwrap();
    assert_eq!(file, "CUT=\"true\"\nTRAY=\"left\"\nWIDTH=\"62\"\n");
    let declared = found.site_values.unwrap();
    assert_eq!(
        declared.rule("WIDTH").unwrap().to_string(),
        "a whole number from 20 to 110"
    );
    let map = rendered(&OPEN.replace("env", "configmap"), "").unwrap();
    let file = String::from_utf8(map.files["site-values.yaml"].clone()).unwrap();
    assert!(
        file.contains("name: site-values\n  namespace: \"dev-press-printer-press\""),
        "{file}"
    );
}

#[test]
fn what_cannot_be_open_is_the_assignment_s_failure_at_the_key() {
    let one = |list: &str| rendered(&format!("  form: env\n  {list}\n"), "").unwrap_err();
    let missing = one("booleans: [{key: OTHER}]");
    assert!(
        missing.contains("`OTHER` is open to its sites and has no value"),
        "{missing}"
    );
    assert!(missing.contains("own.yaml"), "{missing}");
    let other = one("integers: [{key: WIDTH, minimum: 70, maximum: 110}]");
    assert!(
        other.contains("`62` is not allowed; it must be a whole number from 70 to 110"),
        "{other}"
    );
}

#[test]
fn a_rule_that_lets_in_what_the_schema_refuses_is_told() {
    let schema = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: ConfigSchema\n\
                  metadata: {name: schema, labels: {kind: press}}\nspec:\n  schema: \
                  '{\"properties\": {\"WIDTH\": {\"type\": \"integer\", \"maximum\": 100}}}'\n";
    let refused = rendered(OPEN, schema).unwrap_err();
    assert!(
        refused.contains("a site could set `WIDTH` to `110`"),
        "{refused}"
    );
    rendered(&OPEN.replace("110", "100"), schema).unwrap();
}

#[test]
fn objects_that_contradict_each_other_show_both_places() {
    let again = "---\napiVersion: outhaul.dev/v1alpha1\nkind: SiteValues\nmetadata: {name: others}\nspec:\n  \
                 deploymentTargetSelector: {}\n  clusterTypeSelector: {}\n  form: env\n  booleans: [{key: WIDTH}]\n";
    let refused = rendered(&format!("{OPEN}{again}"), "").unwrap_err();
    assert!(refused.contains("contradict each other"), "{refused}");
}
