//! Values of one site: what a control plane with sites renders to, and what stays when it breaks.

use std::fs;

use outhaul_tests::Checked as _;

use super::cli::PlaneFixture;

const SITES: &str = "apiVersion: outhaul.dev/v1alpha1
kind: Site
metadata: {name: drone-1, labels: {hall: north}}
spec: {clusterType: drone}
---
apiVersion: outhaul.dev/v1alpha1
kind: Site
metadata: {name: drone-2, labels: {hall: north}}
spec: {clusterType: drone}
---
apiVersion: outhaul.dev/v1alpha1
kind: Site
metadata: {name: drone-3}
spec: {clusterType: drone, ring: first}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: north
  labels: {platform-config: \"true\", region: east-us, hall: north}
data:
  REGION: North of East US
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: by-name
  labels: {platform-config: \"true\", site: drone-3, ring: first, region: east-us}
data:
  REGION: East US
";

fn fixture() -> PlaneFixture {
    let fixture = PlaneFixture::new();
    fixture.write("dev/sites.yaml", SITES);
    fixture
}

fn read(fixture: &PlaneFixture, path: &str) -> Option<String> {
    fs::read_to_string(fixture.folder.path().join("out").join(path)).ok()
}

const OWN: &str = ".sites/drone-1/drone/hello-test/platform-config.yaml";
const BASE: &str = "drone/hello-test/platform-config.yaml";

#[test]
fn sites_have_their_own_files_beside_those_of_all() {
    let fixture = fixture();
    let seen = fixture.run(&["render", "--out", "out"]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    let own = "data:\n  REGION: North of East US\n";
    assert_eq!(read(&fixture, OWN).unwrap(), own);
    assert_eq!(
        read(&fixture, &OWN.replace("drone-1", "drone-2")).unwrap(),
        own
    );
    assert_eq!(read(&fixture, &OWN.replace("drone-1", "drone-3")), None);
    assert_eq!(read(&fixture, BASE).unwrap(), "data:\n  REGION: East US\n");
    // The reconciler's file is the same for all.
    assert_eq!(
        read(&fixture, &OWN.replace("platform-config", "reconciler")),
        None
    );
    let checked = fixture.run(&["check"]);
    assert!(checked.starts_with("exit code 0"), "{checked}");
    assert!(!checked.contains("unused-config"), "{checked}");
    let verified = fixture.run(&["render", "--verify", "out"]);
    assert!(verified.starts_with("exit code 0"), "{verified}");
}

#[test]
fn a_broken_assignment_keeps_the_files_of_its_sites() {
    let fixture = fixture();
    fixture.run(&["render", "--out", "out"]);
    fixture.edit(
        "main/templates.yaml",
        ".ConfigData }}",
        ".ConfigData.NOWHERE }}",
    );
    let seen = fixture.run(&["render", "--out", "out"]);
    assert!(seen.contains("kept: drone/hello-test"), "{seen}");
    assert_eq!(
        read(&fixture, OWN).unwrap(),
        "data:\n  REGION: North of East US\n"
    );
    fixture.edit(
        "main/templates.yaml",
        ".ConfigData.NOWHERE }}",
        ".ConfigData }}",
    );
    fixture.edit("dev/sites.yaml", "hall: north}\ndata", "hall: south}\ndata");
    let seen = fixture.run(&["render", "--out", "out"]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert_eq!(read(&fixture, OWN), None);
    assert!(read(&fixture, BASE).is_some());
}

#[test]
fn one_site_of_fifty_runs_what_the_others_do_not() {
    let fleet = super::kept::Fleet::new();
    let fixture = &fleet.fixture;
    let drone = super::cli::CLUSTER_TYPE;
    let trial = drone
        .replace("name: drone", "name: drone-trial")
        .replace("region: east-us", "region: east-us\n    trial: hello");
    fixture.write("dev/trial.yaml", &trial);
    // `hello` goes to the trial only; everything else to both, by the labels that they share.
    fixture.edit("app/workload.yaml", "purpose: test", "purpose: trial");
    let policy = super::cli::POLICY
        .replace("name: everywhere", "name: trial")
        .replace("purpose: test", "purpose: trial")
        .replace(
            "labelSelector: {}",
            "labelSelector:\n      matchLabels:\n        trial: hello",
        );
    fixture.write("dev/trial-policy.yaml", &policy);
    for number in 1..=50 {
        let cluster_type = if number == 7 { "drone-trial" } else { "drone" };
        let site = format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata:\n  name: drone-{number}\nspec:\n  \
             clusterType: {cluster_type}\n"
        );
        fixture.write(&format!("dev/sites/{number}.yaml"), &site);
    }
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    let inspect = |name: &str| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_outhaul"))
            .args(["inspect", "--fleet", "fleet", name])
            .current_dir(fixture.folder.path())
            .checked()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let (all, one) = (
        inspect("out/dev-drone-1.outhaul"),
        inspect("out/dev-drone-trial-1.outhaul"),
    );
    assert!(
        all.contains("wave-0") && one.contains("wave-0"),
        "{all}{one}"
    );
    assert!(!all.contains("hello-test"), "{all}");
    assert!(one.contains("hello-test"), "{one}");
    for (site, runs) in [("drone-7", true), ("drone-8", false)] {
        let printed = fixture.run(&["explain", "--site", site]);
        assert_eq!(printed.contains("hello-test"), runs, "{printed}");
    }
}
