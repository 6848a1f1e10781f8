//! What the hub shows is what real agents wrote: reverts by a person and by a failure, and refusals.
//!
//! What comes in: bundles of a small control plane, a real agent, its own reports on a stick. What must come
//! out at the hub: what runs, what was left and why, also after the agent has looked for drift again.

use std::fs;

use serde_json::Value;

use super::system::{KEYS, SystemFixture, in_folders};

const PLANE: [(&str, &str); 4] = [
    (
        "dev/bench.yaml",
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: ClusterType\nmetadata:\n  name: bench\n  \
         labels:\n    hosts: \"true\"\nspec:\n  reconciler: out\n  namespaceService: place\n",
    ),
    (
        "dev/policy.yaml",
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: SchedulingPolicy\nmetadata:\n  name: all\nspec:\n  \
         deploymentTargetSelector:\n    labelSelector: {}\n  clusterTypeSelector:\n    labelSelector:\n      \
         matchLabels:\n        hosts: \"true\"\n",
    ),
    (
        "main/lamp.yaml",
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: WorkloadRegistration\nmetadata:\n  name: lamp\n\
         spec:\n  workload:\n    repo: https://git.example/lamp\n    branch: main\n    path: .\n  workspace: \
         light\n",
    ),
    (
        "lamp/workload.yaml",
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Workload\nmetadata:\n  name: lamp\nspec:\n  \
         deploymentTargets:\n    - name: dim\n      environment: dev\n",
    ),
];

/// Bundle `number`, of a base commit of that digit, whose template writes what no other does.
fn bundle(fixture: &SystemFixture, number: u64) -> String {
    let template = format!(
        "apiVersion: outhaul.dev/v1alpha1\nkind: Template\nmetadata:\n  name: out\nspec:\n  type: \
         reconciler\n  reconciler: folder\n  manifests:\n    - |\n      run: lamp\n      number: \
         {number}\n---\napiVersion: outhaul.dev/v1alpha1\nkind: Template\nmetadata:\n  name: place\nspec:\n  \
         type: namespace\n  manifests:\n    - |\n      name: place\n"
    );
    fs::write(fixture.path("main/templates.yaml"), template).unwrap();
    let commit = number.to_string().repeat(40);
    let at = in_folders("bundle", "dev", &commit);
    fixture.run(
        "outhaul",
        0,
        &[&at[..], &KEYS, &["--out", "stick"]].concat(),
    );
    fixture.run("outhaul-hub", 0, &["--state", "hub", "import", "stick"]);
    commit
}

fn json(fixture: &SystemFixture, code: i32, arguments: &[&str]) -> Value {
    let hub = ["--state", "hub", "--output", "json"];
    let ran = fixture.run("outhaul-hub", code, &[&hub[..], arguments].concat());
    outhaul_tests::result(&ran.stdout)
}

/// What the hub says of the site, after its reports came back.
fn at_the_hub(fixture: &SystemFixture) -> Value {
    fixture.home("bench-1");
    json(fixture, 0, &["sites"])[0].clone()
}

#[test]
fn a_revert_a_failure_and_a_refusal_show_at_the_hub_as_the_agent_wrote_them() {
    let fixture = SystemFixture::new();
    for (path, text) in PLANE {
        let path = fixture.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fixture.fleet();
    bundle(&fixture, 1);
    fixture.site("bench-1", "dev", "bench");
    fs::copy(
        fixture.path("stick/dev-bench-1.outhaul"),
        fixture.path("first.outhaul"),
    )
    .unwrap();
    fixture.carry("bench-1");
    let second = bundle(&fixture, 2);
    // It never came to the second: what it said of the first is not a word about it.
    let site = at_the_hub(&fixture);
    assert_eq!(
        (&site["verdict"], &site["bundle"]),
        (&"behind".into(), &"behind".into()),
        "{site}"
    );
    fixture.carry("bench-1");
    let site = at_the_hub(&fixture);
    assert_eq!(
        (&site["verdict"], &site["bundle"]),
        (&"ok".into(), &"current".into()),
        "{site}"
    );

    fixture.agent("bench-1", 0, &["rollback", "--who", "ann"]);
    for look in 0..2 {
        let site = at_the_hub(&fixture);
        assert_eq!(
            (&site["actual"], &site["state"]),
            (&1.into(), &"active".into()),
            "{site}"
        );
        assert_eq!(
            (&site["verdict"], &site["bundle"]),
            (&"reverted".into(), &"not_taken".into())
        );
        let why = site["attempt"].as_str().unwrap();
        assert!(
            why.starts_with("bundle 2 is reverted by ann: ") && why.len() > 30,
            "{why}"
        );
        let asked = [
            "gate",
            "--environment",
            "dev",
            "--commit",
            &second,
            "--quorum",
            "1%",
        ];
        let gate = json(&fixture, 1, &asked);
        assert!(
            gate["reasons"][0].as_str().unwrap().starts_with("failed: "),
            "{gate}"
        );
        if look == 0 {
            // Only the look for drift comes after: there is no stick, and its hub does not answer.
            fixture.agent("bench-1", 3, &["run", "--once"]);
        }
    }

    // A file of someone else is in the way of what the third adds.
    bundle(&fixture, 3);
    let applied = fixture.path("sites/bench-1/applied");
    let files = outhaul_test_kit::folder::paths(&applied);
    let file = files.iter().find(|file| file.is_file()).unwrap();
    let text = fs::read(file).unwrap();
    fs::remove_file(file).unwrap();
    fs::create_dir(file).unwrap();
    fs::write(file.join("theirs"), "someone else's").unwrap();
    fixture.agent("bench-1", 1, &["import", "stick"]);
    let site = at_the_hub(&fixture);
    assert_eq!(site["bundle"], "not_taken", "{site}");
    assert_ne!(site["verdict"], "ok", "{site}");
    fs::remove_dir_all(file).unwrap();
    fs::write(file, text).unwrap();

    let old = fixture.path("first.outhaul");
    fixture.agent("bench-1", 4, &["import", old.to_str().unwrap()]);
    let site = at_the_hub(&fixture);
    let refusal = &site["refused"][0];
    assert_eq!(refusal["source"], "first.outhaul", "{site}");
    assert_eq!(refusal["rule"], "rollback", "{site}");
    let listed = fixture.run("outhaul-hub", 0, &["--state", "hub", "sites"]);
    assert!(
        listed.stderr.contains("refused on site"),
        "{}",
        listed.everything()
    );
}
