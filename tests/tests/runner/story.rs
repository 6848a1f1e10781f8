//! Microsoft's tutorial, with real sites in the place of AKS: the steps that need a hub and agents.
//!
//! What comes in: the tutorial's repositories (`OUTHAUL_KALYPSO_DIR`). What must come out: a commit
//! reaches `stage` only once the sites of `dev` confirm it, and a new version only once its team says so.
//! Most sites apply with the folder reconciler; the one of the tutorial's own template is a cluster that follows the platform repository
//! by a real Flux. All else is as it is.

use std::fs;
use std::path::PathBuf;

use outhaul_test_kit::folder::fill;
use serde_json::json;

use super::observing::{Connected, KUSTOMIZATIONS};
use super::system::SystemFixture;

fn tutorial() -> Option<PathBuf> {
    let kalypso = outhaul_tests::kalypso_or_skip("tutorial/story")?;
    Some(kalypso.join("tutorial"))
}

/// What the tutorial's branches run, and the version after them.
const DEV: &str = "0.0.1-33";
const STAGE: &str = "0.0.1-22";
const NEW: &str = "0.0.2-34";

/// Its cluster types of `dev`, by the files' names below `cluster-types`.
const DRONE: &str = "east-us/restricted/drones/drone";
const LARGE: &str = "west-us/large/large";

/// The tutorial's repositories, the application registered, and policies on both environments. In `dev` the sites of these cluster types apply
/// with the folder reconciler, in `stage` all.
fn fixture(tutorial: &std::path::Path, in_folders: &[&str]) -> SystemFixture {
    let mut fixture = SystemFixture::new();
    for (name, repository) in [
        ("kalypso-control-plane", "control-plane"),
        ("kalypso-app-src", "app-src"),
        ("kalypso-app-gitops", "app-gitops"),
        ("kalypso-svc-src", "svc-src"),
        ("kalypso-svc-gitops", "svc-gitops"),
    ] {
        fixture.repository(&tutorial.join(name), repository);
        if name != "kalypso-control-plane" {
            fixture
                .sources
                .push(format!("https://github.com/microsoft/{name}={repository}"));
        }
    }
    let step = |name: &str| tutorial.join("story").join(name);
    fixture.on_branch("control-plane", "main", |folder| {
        fill(&step("1-onboard"), &folder.join("workloads"));
        let template = outhaul_tests::workspace_root().join("bundler/plane/templates/folder.yaml");
        fs::copy(template, folder.join("templates/folder.yaml")).unwrap();
        // Today's Flux no longer has the version of 2022. On a site that takes bundles the agent applies the one that the cluster has;
        // a cluster that follows the repository directly gets what the template says.
        let path = folder.join("templates/scheduler_v1alpha1_template_arc-flux.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace("fluxcd.io/v1beta2", "fluxcd.io/v1")).unwrap();
    });
    for (branch, policies) in [("dev", "2-schedule-dev"), ("stage", "3-promote-to-stage")] {
        fixture.on_branch("control-plane", branch, |folder| {
            fill(&step(policies), &folder.join("scheduling"));
            let in_folders = if branch == "dev" {
                in_folders
            } else {
                &[DRONE, LARGE]
            };
            for name in in_folders {
                let path = folder.join(format!("cluster-types/{name}-cluster-type.yaml"));
                let text = fs::read_to_string(&path).unwrap();
                fs::write(
                    path,
                    text.replace("reconciler: arc-flux", "reconciler: folder"),
                )
                .unwrap();
            }
        });
    }
    // The tutorial's own stage branch has no folder for `uat-test` yet.
    fixture.on_branch("app-gitops", "stage", |folder| {
        fill(&folder.join("functional-test"), &folder.join("uat-test"));
    });
    fixture.fleet();
    for (site, environment, cluster_type) in [
        ("drone-1", "dev", "drone"),
        ("large-1", "dev", "large"),
        ("drone-2", "stage", "drone"),
    ] {
        fixture.site(site, environment, cluster_type);
    }
    fixture
}

#[test]
fn a_commit_reaches_stage_when_the_sites_of_dev_confirm_it_and_a_version_when_its_team_says_so() {
    let Some(tutorial) = tutorial() else { return };
    let fixture = fixture(&tutorial, &[DRONE, LARGE]);
    let hub = fixture.serve();
    let promote = |code: i32, more: &[&str]| {
        let command = ["promote", "--control-plane", "control-plane"];
        let sources: Vec<&str> = fixture
            .sources
            .iter()
            .flat_map(|s| ["--source", s])
            .collect();
        fixture.run("outhaul", code, &[&command[..], &sources, more].concat())
    };
    let to_stage =
        |code: i32| promote(code, &["--from", "dev", "--to", "stage", "--hub", &hub.url]);
    // Of what `stage` names the folder has no history either, which is looked at before the gate.
    let command = ["--from", "dev", "--to", "stage", "--hub", &hub.url];
    let back_to_stage = |code: i32| promote(code, &[&command[..], &["--backwards"]].concat());
    let base_of_stage = || fixture.git("control-plane", &["show", "stage:base-repo.yaml"]);
    let main = fixture.git("control-plane", &["rev-parse", "main"]);
    // The commit that `dev` names is of a history that this folder does not have, as after a branch was forced to another one.
    promote(1, &["--to", "dev"]);
    promote(0, &["--to", "dev", "--backwards"]);

    // 3: silent sites keep the gate closed, each by its name.
    fixture.bundle("dev");
    let refused = back_to_stage(1);
    for site in ["drone-1", "large-1"] {
        assert!(refused.stderr.contains(site), "{}", refused.stderr);
    }
    fixture.carry("large-1");
    fixture.home("large-1");
    let refused = back_to_stage(1);
    assert!(refused.stderr.contains("drone-1"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("large-1"), "{}", refused.stderr);
    assert!(!base_of_stage().contains(&main), "stage stays where it is");

    // A drone that cannot apply is not a confirmation either.
    let in_the_way = "sites/drone-1/applied/hello-world-app-functional-test/namespace.yaml";
    fs::create_dir_all(fixture.path(in_the_way).parent().unwrap()).unwrap();
    fs::write(fixture.path(in_the_way), "someone else's\n").unwrap();
    fixture.agent("drone-1", 1, &["import", "stick"]);
    fixture.home("drone-1");
    let refused = back_to_stage(1);
    assert!(refused.stderr.contains("drone-1"), "{}", refused.stderr);
    fs::remove_file(fixture.path(in_the_way)).unwrap();
    fixture.agent("drone-1", 0, &["approve", "1"]);
    fixture.carry("drone-1");
    fixture.home("drone-1");
    // The gate is open.
    assert!(to_stage(1).stderr.contains("is not part of"));
    back_to_stage(0);
    assert!(base_of_stage().contains(&main), "{}", base_of_stage());
    let message = fixture.git("control-plane", &["log", "-1", "--format=%B", "stage"]);
    for site in ["drone-1", "large-1"] {
        assert!(
            message.contains(site),
            "the commit names its evidence: {message}"
        );
    }

    // 4: a new version. The team merges it for dev, and proposes it for stage on a separate branch.
    fixture.bundle("stage");
    fixture.carry("drone-2");
    let runs = |site: &str, target: &str| {
        fixture.applied(
            site,
            &format!("hello-world-app-{target}/payload/gen_manifests.yaml"),
        )
    };
    assert!(runs("drone-1", "functional-test").contains(DEV));
    assert!(runs("drone-2", "uat-test").contains(STAGE));
    let update = |folder: &std::path::Path| {
        for file in outhaul_test_kit::folder::paths(folder) {
            if file.ends_with("gen_manifests.yaml") {
                let text = fs::read_to_string(&file).unwrap();
                fs::write(file, text.replace(DEV, NEW).replace(STAGE, NEW)).unwrap();
            }
        }
    };
    fixture.on_branch("app-gitops", "dev", update);
    fixture.git("app-gitops", &["branch", "proposed", "stage"]);
    fixture.on_branch("app-gitops", "proposed", update);
    for environment in ["dev", "stage"] {
        fixture.bundle(environment);
    }
    for site in ["drone-1", "drone-2"] {
        fixture.carry(site);
    }
    assert!(runs("drone-1", "functional-test").contains(NEW));
    assert!(
        runs("drone-2", "uat-test").contains(STAGE),
        "nobody has approved it"
    );
    // Approved: merged, and on its way. No control plane was touched, no cluster was named.
    fixture.git("app-gitops", &["branch", "--force", "stage", "proposed"]);
    fixture.bundle("stage");
    fixture.carry("drone-2");
    assert!(runs("drone-2", "uat-test").contains(NEW));
    assert_eq!(fixture.git("control-plane", &["rev-parse", "main"]), main);
}

/// Step 3 as the tutorial has it: Flux applies its own template on `large`, whose cluster takes no bundles, and a drone takes them.
#[test]
fn one_gate_is_over_a_cluster_that_follows_the_platform_repository_and_a_drone_that_takes_bundles()
{
    let Some(tutorial) = tutorial() else { return };
    let fixture = fixture(&tutorial, &[DRONE]);
    let sources = ["app-gitops", "svc-gitops"].map(|name| {
        let url = format!("https://github.com/microsoft/kalypso-{name}");
        (url, fixture.path(name))
    });
    let Some(cluster) = Connected::on(fixture, ("large-1", "large"), sources.to_vec()) else {
        return;
    };
    let fixture = &cluster.fixture;
    let hub = fixture.serve();
    let promote = |code: i32, more: &[&str]| {
        let command = ["promote", "--control-plane", "control-plane"];
        let sources = fixture.sources.iter().flat_map(|s| ["--source", s]);
        let sources: Vec<&str> = sources.collect();
        fixture.run("outhaul", code, &[&command[..], &sources, more].concat())
    };
    let to_stage = |code: i32| {
        let step = ["--from", "dev", "--to", "stage", "--backwards"];
        promote(code, &[&step[..], &["--hub", &hub.url]].concat()).stderr
    };
    let main = fixture.git("control-plane", &["rev-parse", "main"]);
    promote(0, &["--to", "dev", "--backwards"]);
    cluster.publish();
    // What the template names is the cluster's own.
    let secret = json!({"metadata": {"name": "repo-secret"}, "stringData": {"username": "a", "password": "b"}});
    let secrets = "/api/v1/namespaces/flux-system/secrets";
    cluster.server.create(secrets, &secret).unwrap();
    let refused = to_stage(1);
    for site in ["drone-1", "large-1"] {
        assert!(refused.contains(site), "{refused}");
    }

    // The drone confirms; of the cluster nothing is known but that nobody follows the repository there.
    fixture.carry("drone-1");
    fixture.home("drone-1");
    fixture.agent("large-1", 1, &["observe"]);
    fixture.home("large-1");
    let refused = to_stage(1);
    assert!(
        !refused.contains("drone-1") && refused.contains("large-1"),
        "{refused}"
    );
    assert!(
        refused.contains("nothing on this cluster follows"),
        "{refused}"
    );

    cluster.follow();
    cluster.until_applied(&cluster.tip());
    let seen = cluster.synced();
    assert_eq!(seen["snapshot"]["base"]["commit"], main.as_str(), "{seen}");
    let names: Vec<_> = (seen["assignments"].as_array().unwrap().iter())
        .map(|one| {
            (
                one["name"].as_str().unwrap(),
                one["status"].as_str().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("hello-world-app-performance-test", "compliant"),
        ("observability-prometheus", "compliant"),
    ];
    assert_eq!(names, expected, "{seen}");
    let deployment = "/apis/apps/v1/namespaces/dev-large-hello-world-app-performance-test/deployments/hello-world-deployment";
    let deployment = cluster.server.get(deployment).unwrap().unwrap();
    assert_eq!(deployment["metadata"]["annotations"]["version"], DEV);
    // The platform's objects are applied whole, and what the team wrote is not kept as it is wanted: no confirmation.
    let own = format!("{KUSTOMIZATIONS}/hello-world-app-performance-test");
    let suspend = |suspended: bool| json!({"spec": {"suspend": suspended}});
    cluster.server.patch(&own, "ann", &suspend(true)).unwrap();
    let seen = fixture.agent("large-1", 1, &["observe"]).everything();
    let words = "Kustomization flux-system/hello-world-app-performance-test: it is suspended: what it applies";
    assert!(seen.contains(words), "{seen}");
    fixture.home("large-1");
    let refused = to_stage(1);
    assert!(refused.contains("site `large-1` is suspended"), "{refused}");
    cluster.server.patch(&own, "ann", &suspend(false)).unwrap();
    cluster.synced();
    fixture.home("large-1");
    to_stage(0);
    let base = fixture.git("control-plane", &["show", "stage:base-repo.yaml"]);
    assert!(base.contains(&main), "{base}");
    let message = fixture.git("control-plane", &["log", "-1", "--format=%B", "stage"]);
    for site in ["drone-1", "large-1"] {
        assert!(
            message.contains(site),
            "the commit names its evidence: {message}"
        );
    }
}
