//! `outhaul check` for CI: one line for each finding, and SARIF; and what a value's precedence is reported by.
//!
//! What comes in: a control plane of `outhaul init` with a mistake. What must come out: paths of the
//! repository, so that a code host shows the finding beside the line.

use super::silent::{InitFixture, snapshot};

fn config(name: &str, labels: &str, greeting: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  labels: {{platform-config: \"true\"{labels}}}\n\
         data:\n  GREETING: {greeting}\n"
    )
}

/// A value for some, and one for all whose container has the later name.
fn contradicting() -> InitFixture {
    let made = InitFixture::new();
    made.write(
        "dev",
        "configs/a.yaml",
        &config("a-edge", ", cluster-type: edge", "Edge"),
    );
    made
}

#[test]
fn a_value_for_some_loses_to_one_for_all_by_its_name() {
    let made = contradicting();
    // `init` lets the more specific one win.
    let seen = made.check(&["--strict"]);
    assert!(seen.contains("dev: no findings"), "{seen}");
    made.remove("dev", &["configs/composition.yaml"]);
    snapshot!(made.check(&[]));
}

#[test]
fn a_value_for_one_site_loses_to_one_for_its_cluster_type_by_its_name() {
    let made = contradicting();
    made.remove("dev", &["configs/composition.yaml", "configs/a.yaml"]);
    made.write(
        "dev",
        "configs/b.yaml",
        &config("b-edge", ", cluster-type: edge", "Edge"),
    );
    made.edit(
        "main",
        "configs/common.yaml",
        "name: common",
        "name: a-common",
    );
    let site = "apiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata: {name: press-7, labels: {line: \"7\"}}\nspec: \
                {clusterType: edge}\n";
    made.write("dev", "sites.yaml", site);
    let line = config("a-line", ", cluster-type: edge, line: \"7\"", "Line 7");
    made.write("dev", "configs/line.yaml", &line);
    snapshot!(made.check(&[]));
}

#[test]
fn findings_as_lines() {
    let made = InitFixture::new();
    made.edit(
        "dev",
        "scheduling/hello-team.yaml",
        "workspace",
        "worksapce",
    );
    made.edit("dev", "cluster-types/edge.yaml", "configType", "configTyp");
    snapshot!(made.check(&["--output", "lines"]));
}

#[test]
fn findings_as_sarif() {
    let made = contradicting();
    made.remove("dev", &["configs/composition.yaml"]);
    let seen = made.check(&["--output", "sarif"]);
    let document = &seen[seen.find('{').unwrap()..];
    let document: serde_json::Value = serde_json::from_str(document).unwrap();
    assert_eq!(document["version"], "2.1.0");
    let run = &document["runs"][0];
    assert_eq!(
        run["tool"]["driver"]["rules"][0]["id"],
        "less-specific-wins"
    );
    let result = &run["results"][0];
    assert_eq!(result["ruleId"], "less-specific-wins");
    assert_eq!(result["level"], "warning");
    let place = |of: &serde_json::Value| {
        let physical = &of["physicalLocation"];
        format!(
            "{}:{}",
            physical["artifactLocation"]["uri"], physical["region"]["startLine"]
        )
    };
    assert_eq!(place(&result["locations"][0]), "\"configs/common.yaml\":10");
    assert_eq!(
        place(&result["relatedLocations"][0]),
        "\"configs/a.yaml\":7"
    );
}

#[test]
fn a_required_key_that_nobody_sets() {
    let made = InitFixture::new();
    made.edit(
        "dev",
        "configs/environment.yaml",
        "ENVIRONMENT: dev",
        "OTHER: dev",
    );
    let at = ["--environment", "dev", "--control-plane", "cp"];
    let explain = |more: &[&str]| made.outhaul(&[&["explain"], &at[..], more].concat()).1;
    let everywhere = explain(&["--key", "ENVIRONMENT"]);
    snapshot!(everywhere.lines().take(6).collect::<Vec<_>>().join("\n"));
    let pair = explain(&["hello-dev", "edge", "--key", "ENVIRONMENT"]);
    assert!(pair.contains("schema `hello` declares required"), "{pair}");
    assert!(
        pair.contains("it could be set in `dev-environment`"),
        "{pair}"
    );
    let slip = explain(&["--key", "ENVIROMENT"]);
    assert!(slip.contains("did you mean `ENVIRONMENT`?"), "{slip}");
}

#[test]
fn the_keys_that_are_asked_for() {
    let made = InitFixture::new();
    made.edit(
        "dev",
        "configs/environment.yaml",
        "ENVIRONMENT: dev",
        "OTHER: dev",
    );
    snapshot!(made.check(&["--requested"]));
}

#[test]
fn a_working_copy_is_compared_with_its_commit() {
    let made = InitFixture::new();
    made.switch("dev");
    let file = made.cp().join("configs/environment.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let diff = || made.outhaul(&["diff", "--working-copy", "--control-plane", "cp"]);
    assert_eq!(diff().0, 0);
    std::fs::write(&file, text.replace("ENVIRONMENT: dev", "ENVIRONMENT: lab")).unwrap();
    let (code, seen) = diff();
    assert_eq!(code, 1, "{seen}");
    assert!(
        seen.contains("ENVIRONMENT") && seen.contains("lab"),
        "{seen}"
    );
    // What is promoted, likewise.
    git_force(&made, "main");
    let file = made.cp().join("configs/common.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("Hello", "Ahoy")).unwrap();
    let (code, seen) = diff();
    assert_eq!(code, 1, "{seen}");
    assert!(seen.contains("Ahoy"), "{seen}");
}

fn git_force(made: &InitFixture, branch: &str) {
    super::repositories::git(&made.cp(), &["checkout", "--quiet", "--force", branch]);
}
