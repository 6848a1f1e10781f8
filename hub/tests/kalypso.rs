//! Kalypso's tables as views of a hub's data, with the joins that its dashboards make; its objects imported; its question answered.

use std::fs;

use outhaul_bundle::report::{ComplianceStatus as C, GenerationState as G, ReportEvent};
use outhaul_test_kit::plain::{NEW, OLD};
use outhaul_test_kit::{Centre, Site};
use outhaul_tests::postgres;

use crate::http;
use crate::program::{Hub, code, stderr};

/// Each target with what it should run, and by version and status how many run it: the first dashboard's joins.
const TARGETS: &str = "SET search_path = kalypso;
WITH now AS (
    SELECT r.id, r.manifests_endpoint, d.status, v.version
      FROM reconciler r
      LEFT JOIN (deployment d
                 JOIN deployment_assignment da ON da.gitops_commit_id = d.gitops_commit_id
                 JOIN workload_version v ON v.id = da.workload_version_id
                 JOIN deployment_target dt ON dt.id = da.deployment_target_id)
        ON d.reconciler_id = r.id AND dt.manifests_endpoint = r.manifests_endpoint
       AND d.created_on = (SELECT MAX(created_on) FROM deployment WHERE reconciler_id = d.reconciler_id))
SELECT dt.name, e.name, ws.name, a.name, w.name, v.version = 'VERSION', now.version = 'VERSION', now.status, COUNT(now.id)
  FROM deployment_target dt
  JOIN deployment_assignment da ON da.deployment_target_id = dt.id
   AND da.created_on = (SELECT MAX(created_on) FROM deployment_assignment WHERE deployment_target_id = dt.id)
  JOIN workload_version v ON v.id = da.workload_version_id
  JOIN workload w ON w.id = v.workload_id
  JOIN application a ON a.id = w.application_id
  JOIN workspace ws ON ws.id = a.workspace_id
  JOIN environment e ON e.id = dt.environment_id
  LEFT JOIN now ON now.manifests_endpoint = dt.manifests_endpoint
 WHERE dt.name = 'camera-functional'
 GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 7 DESC, 8";

/// Each host with what runs there: the second one's.
const HOSTS: &str = "SET search_path = kalypso;
SELECT h.name, SPLIT_PART(r.name, '.', -1), e.name, d.status, d.gitops_commit_id = 'COMMIT', d.status_message
  FROM reconciler r
  JOIN host h ON h.id = r.host_id
  JOIN deployment_target dt ON dt.manifests_endpoint = r.manifests_endpoint AND dt.manifests_storage_type = r.manifests_storage_type
  JOIN environment e ON e.id = dt.environment_id
  JOIN deployment d ON d.reconciler_id = r.id
   AND d.created_on = (SELECT MAX(created_on) FROM deployment WHERE reconciler_id = r.id)
 WHERE dt.name = 'camera-functional' AND d.status IN ('success', 'failure', 'in_progress')
 ORDER BY 1";

/// Each commit with how many had which status: the third one's.
const HISTORY: &str = "SET search_path = kalypso;
SELECT d.gitops_commit_id = 'COMMIT', COUNT(*) FILTER (WHERE d.status = 'success'), COUNT(*) FILTER (WHERE d.status = 'failure'),
       COUNT(*) FILTER (WHERE d.status = 'in_progress')
  FROM deployment d
  JOIN reconciler r ON r.id = d.reconciler_id
  JOIN deployment_target dt ON dt.manifests_endpoint = r.manifests_endpoint
 WHERE dt.name = 'camera-functional' GROUP BY 1 ORDER BY 1 DESC";

struct World {
    hub: Hub,
    centre: Centre,
}

impl World {
    /// Says how a bundle is there, with the digest of its real index.
    fn says(&self, site: &mut Site, (number, commit): (u64, &str), state: G, status: C) {
        let mut event = site.event(number, commit, state, status);
        let index = self.centre.plain_index(&site.stream, number, commit);
        event.index = outhaul_bundle::Digest::of(&index.to_bytes());
        let line = site.say(ReportEvent::Generation(event));
        let file = self
            .hub
            .path(&format!("{}-{}.reports", site.name, site.next));
        fs::write(&file, line).unwrap();
        self.hub.json(&["import", file.to_str().unwrap()]);
    }
}

/// One site went on to bundle 2, one failed there and is back on 1, and one never told anything.
fn world(database: Option<&str>) -> World {
    let hub = Hub::new();
    let centre = Centre::new();
    let root = centre.root();
    let mut init = vec![
        "init",
        "--root",
        root.to_str().unwrap(),
        "--plain-key",
        "a test",
    ];
    init.extend(database.iter().flat_map(|address| ["--database", address]));
    hub.json(&init);
    let stream = centre.stream("dev", "drone");
    for (number, commit) in [(1, OLD), (2, NEW)] {
        let file = hub.path(&format!("{number}.outhaul"));
        fs::write(&file, centre.bundle(&stream, number, commit)).unwrap();
        hub.json(&["import", file.to_str().unwrap()]);
    }
    let mut sites: Vec<Site> = ["back", "on", "silent"]
        .iter()
        .map(|name| {
            let site = centre.site(name, &stream);
            let file = hub.path(&format!("{name}.request"));
            fs::write(&file, site.request()).unwrap();
            hub.add(&file, &site);
            site
        })
        .collect();
    let world = World { hub, centre };
    for site in &mut sites[..2] {
        world.says(site, (1, OLD), G::Active, C::Compliant);
    }
    world.says(&mut sites[0], (2, NEW), G::Failed, C::Failed);
    world.says(&mut sites[0], (1, OLD), G::Active, C::Compliant);
    world.says(&mut sites[1], (2, NEW), G::Active, C::Compliant);
    world
}

/// The digest of the index of bundle 2, and the version that it gives the first of its assignments.
fn of_bundle_two(world: &World) -> (String, String) {
    let stream = world.centre.stream("dev", "drone");
    let index = world.centre.plain_index(&stream, 2, NEW);
    let commit = outhaul_bundle::Digest::of(&index.to_bytes()).hex();
    let version = index.assignments[0].config_version.hex()[..12].to_owned();
    (commit, version)
}

/// The database that an address leads to.
fn name_of(address: &str) -> &str {
    let path = address.split("@/").nth(1).unwrap();
    path.split('?').next().unwrap()
}

#[test]
fn the_dashboards_joins_give_right_rows_with_a_rollback_and_a_silent_host() {
    let Some(server) = postgres::shared_or_skip() else {
        return;
    };
    let database = server.database();
    let world = world(Some(&database));
    let name = name_of(&database);
    let (commit, version) = of_bundle_two(&world);
    let ask = |text: &str| {
        server.sql(
            name,
            &text.replace("COMMIT", &commit).replace("VERSION", &version),
        )
    };
    assert_eq!(
        ask(TARGETS),
        "camera-functional|dev|vision|camera|camera|t|t|in_progress|1\n\
         camera-functional|dev|vision|camera|camera|t|t|success|1\n\
         camera-functional|dev|vision|camera|camera|t|f|success|1"
    );
    assert_eq!(
        ask(HOSTS),
        "back|camera-functional|dev|success|f|\n\
         on|camera-functional|dev|success|t|\n\
         silent|camera-functional|dev|in_progress|t|no report of it yet"
    );
    assert_eq!(ask(HISTORY), "t|1|1|1\nf|2|0|0");
    // All ten tables, with names that are unique where Kalypso's are.
    for (table, key) in [
        ("workspace", "name"),
        ("application", "(workspace_id, name)"),
        ("workload", "(application_id, name)"),
        ("environment", "name"),
        ("deployment_target", "manifests_endpoint"),
        ("workload_version", "(workload_id, version)"),
        (
            "deployment_assignment",
            "(deployment_target_id, workload_version_id, gitops_commit_id)",
        ),
        ("host", "name"),
        ("reconciler", "name"),
        ("deployment", "(gitops_commit_id, reconciler_id)"),
    ] {
        let text = format!(
            "SELECT COUNT(*) > 0, COUNT(*) = COUNT(DISTINCT id), COUNT(*) = COUNT(DISTINCT {key}) FROM kalypso.{table}"
        );
        assert_eq!(server.sql(name, &text), "t|t|t", "{table}");
    }
    // A site that is revoked is nobody's host.
    assert_eq!(code(&world.hub.run(&["site", "revoke", "silent"])), 0);
    assert_eq!(server.sql(name, "SELECT COUNT(*) FROM kalypso.host"), "2");
}

const OBJECTS: &str = "
apiVersion: hub.kalypso.io/v1alpha1
kind: DeploymentDescriptor
metadata: {name: press-0-1-7}
spec:
  workload:
    name: press
    source: {repo: https://git.example/press, branch: main, path: .}
    application: {name: labels, workspace: {name: hall}}
  deploymentTarget:
    name: uat
    environment: dev
    manifests: {repo: https://git.example/gitops, branch: dev, path: uat}
  workloadVersion: {version: 0.1.7, build: '17', commit: c0ffee}
status: {gitOpsCommitId: abc}
---
apiVersion: hub.kalypso.io/v1alpha1
kind: Reconciler
metadata: {name: a}
spec:
  hostName: arc-1
  reconcilerName: arc-1.uat
  reconcilerType: flux
  manifestsEndpoint: https://git.example/gitops/dev/uat
  deployment: {gitOpsCommitId: abc, status: failure, statusMessage: no space}
";

/// A host, its target, and of which commit it reported what.
type Said<'a> = (&'a str, &'a str, Option<(&'a str, &'a str)>);

/// Imports what was exported of a Kalypso installation: two targets of one repository, and what reconcilers said.
fn imported(hub: &Hub, wanted: &str, reconcilers: &[Said<'_>]) {
    let mut text = String::new();
    for target in ["uat", "qa"] {
        let descriptor = OBJECTS.split("---").next().unwrap();
        text.push_str(&descriptor.replace("uat", target).replace("abc", wanted));
        text.push_str("---\n");
    }
    for (host, target, deployment) in reconcilers {
        let deployment = deployment.map_or_else(String::new, |(commit, status)| {
            format!("  deployment: {{gitOpsCommitId: {commit}, status: {status}}}\n")
        });
        text.push_str(&format!(
            "apiVersion: hub.kalypso.io/v1alpha1\nkind: Reconciler\nmetadata: {{name: {host}-{target}}}\nspec:\n  hostName: {host}\n  \
             reconcilerName: {host}.{target}\n  reconcilerType: flux\n  manifestsEndpoint: \
             https://git.example/gitops/dev/{target}\n{deployment}---\n"
        ));
    }
    fs::write(hub.path("exported.yaml"), text).unwrap();
    hub.json(&["import", "kalypso", "exported.yaml"]);
}

#[test]
fn a_commit_that_comes_back_is_the_newest_a_silent_host_is_there_and_targets_of_one_repository_stay_apart()
 {
    let Some(server) = postgres::shared_or_skip() else {
        return;
    };
    let database = server.database();
    let world = world(Some(&database));
    let name = name_of(&database);
    let silent = ("arc-2", "uat", None);
    for of_first in [("abc", "success"), ("def", "failure"), ("abc", "success")] {
        let other = ("arc-3", "qa", Some(("def", "in_progress")));
        imported(
            &world.hub,
            of_first.0,
            &[("arc-1", "uat", Some(of_first)), silent, other],
        );
    }
    let ask = |text: &str, target: &str, commit: &str| {
        let text = text
            .replace("camera-functional", target)
            .replace("COMMIT", commit);
        server.sql(name, &text.replace("VERSION", "0.1.7"))
    };
    assert_eq!(
        ask(HOSTS, "uat", "abc"),
        "arc-1|uat|dev|success|t|\narc-2|uat|dev|in_progress|t|no report of it yet"
    );
    assert_eq!(ask(HOSTS, "qa", "abc"), "arc-3|qa|dev|in_progress|f|");
    assert_eq!(ask(HISTORY, "uat", "abc"), "t|1|0|1\nf|0|1|0");
    assert_eq!(
        ask(TARGETS, "uat", ""),
        "uat|dev|hall|labels|press|t|t|in_progress|1\nuat|dev|hall|labels|press|t|t|success|1"
    );
    // Once it reports, nothing is left of its silence.
    imported(
        &world.hub,
        "abc",
        &[("arc-2", "uat", Some(("def", "success")))],
    );
    assert_eq!(ask(HISTORY, "uat", "abc"), "t|1|0|0\nf|1|1|0");
    let keys = "SELECT COUNT(*) = COUNT(DISTINCT id), COUNT(*) = COUNT(DISTINCT (gitops_commit_id, reconciler_id)) FROM kalypso.deployment";
    assert_eq!(server.sql(name, keys), "t|t");
}

#[test]
fn imported_objects_are_counted_beside_this_fleets_own() {
    let database = postgres::database_of_run();
    let world = world(database.as_deref());
    let hub = &world.hub;
    fs::create_dir(hub.path("objects")).unwrap();
    fs::write(hub.path("objects/all.yaml"), OBJECTS).unwrap();
    let done = hub.json(&["import", "kalypso", "objects"]);
    assert_eq!(
        (&done["descriptors"], &done["reconcilers"]),
        (&1.into(), &1.into())
    );
    let serving = hub.serve(&[]);
    let ask = |pattern: &str, commit: &str| {
        let asked = serde_json::json!({ "manifests_endpoint": pattern, "commit_id": commit });
        let body = asked.to_string();
        let (status, answer) =
            http::json(serving.address(), "POST /deployment_state", body.as_bytes());
        assert_eq!(status, 200, "{answer}");
        let count = |name: &str| answer[format!("total_{name}subscribers")].as_u64().unwrap();
        let counts = ["", "succeeded_", "failed_", "in_progress_"].map(count);
        (counts, answer["failed_subscribers"].clone())
    };
    let (counts, failed) = ask("https://git.example/gitops/dev/%", "abc");
    assert_eq!(counts, [1, 0, 1, 0]);
    assert_eq!(failed[0]["name"], "arc-1.uat");
    assert_eq!(failed[0]["status_message"], "no space");
    let (commit, _) = of_bundle_two(&world);
    let (counts, failed) = ask("outhaul/dev/drone/camera-functional", &commit);
    assert_eq!(counts, [3, 1, 1, 0], "nobody heard of the third");
    assert_eq!(failed[0]["name"], "back.camera-functional");
    assert_eq!(ask("nothing", "abc").0, [0, 0, 0, 0]);
    let (status, answer) = http::json(
        serving.address(),
        "POST /deployment_state",
        b"{\"commit\": 1}",
    );
    assert_eq!(status, 422, "{answer}");

    // What is wrong with one object keeps all of them out.
    let wrong = OBJECTS
        .replace("status: failure", "status: lost")
        .replace("no space", "x");
    fs::write(hub.path("objects/wrong.yaml"), wrong).unwrap();
    let refused = hub.run(&["import", "kalypso", "objects"]);
    let text = stderr(&refused);
    assert_eq!(code(&refused), 1, "{text}");
    assert!(
        text.contains("wrong.yaml, document 2, Reconciler `a`: `spec.deployment.status` is `lost`"),
        "{text}"
    );
    assert!(text.contains("so nothing was"), "{text}");
    assert_eq!(
        ask("https://git.example/%", "abc").1[0]["status_message"],
        "no space"
    );
    fs::write(hub.path("nothing.yaml"), "kind: ConfigMap\n").unwrap();
    assert_eq!(code(&hub.run(&["import", "kalypso", "nothing.yaml"])), 1);
}
