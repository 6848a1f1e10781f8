//! A condition of an object of the cluster as this site's health, asked of a real API server.
//!
//! What comes in: `OUTHAUL_KUBE_APISERVER`, an object whose status the test sets as a controller would, and bundles. What goes out: the
//! bundle that is confirmed, or the return to the last good one with the controller's own words.

use outhaul_test_kit::{Centre, Draft};
use outhaul_tests::kubernetes::ApiServer;
use serde_json::json;

use crate::reconciler_kubernetes::Kubernetes;
use crate::reconcilers::Fixture as _;
use crate::site::{Site, assert_reports};

const AT: &str = "/apis/apps/v1/namespaces/scenario-1/deployments";

/// A workload that nothing runs: its status is the test's.
fn make(server: &ApiServer) {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
        },
    });
    server.create(AT, &object).unwrap();
}

fn says(server: &ApiServer, status: &str, observed: i64) {
    let condition = json!({
        "type": "Available", "status": status, "reason": "MinimumReplicasUnavailable",
        "message": "Deployment does not have minimum availability.",
    });
    let change = json!({"status": {"observedGeneration": observed, "conditions": [condition]}});
    server
        .patch(&format!("{AT}/web/status"), "controller", &change)
        .unwrap();
}

/// All that a command printed.
fn printed(output: &std::process::Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .concat()
}

#[test]
fn a_bundle_is_left_when_a_condition_of_the_cluster_is_not_so_and_confirmed_when_it_is() {
    let Some(mut cluster) = Kubernetes::new() else {
        return;
    };
    cluster.clean();
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let ask = "{ name = \"web\", object = \"Deployment.apps scenario-1/web\", condition = \"Available\", timeout_s = 1 }";
    site.configure(&format!("{}[health]\nask = [{ask}]\n", cluster.settings()));
    // It is not there.
    let taken = site.import(&centre.publish(&Draft::hello("two")));
    let reported = printed(&taken);
    assert_eq!(taken.status.code(), Some(1), "{reported}");
    assert!(
        reported.contains("`Deployment.apps scenario-1/web`: it is not there"),
        "{reported}"
    );
    assert_eq!(site.active(), Some(1));
    // It is not available.
    make(cluster.server());
    says(cluster.server(), "False", 1);
    let taken = site.import(&centre.publish(&Draft::hello("three")));
    let reported = printed(&taken);
    assert!(
        reported.contains("`Available` is False, not True: MinimumReplicasUnavailable"),
        "{reported}"
    );
    assert_eq!(
        (site.active(), site.state_of(3).as_str()),
        (Some(1), "reverted")
    );
    // Its controller has not seen the latest change of it.
    let change = json!({"spec": {"replicas": 2}});
    let web = format!("{AT}/web");
    cluster.server().patch(&web, "team", &change).unwrap();
    says(cluster.server(), "True", 1);
    let taken = site.import(&centre.publish(&Draft::hello("four")));
    let reported = printed(&taken);
    assert!(
        reported.contains("its controller has seen generation 1 of it, not 2 yet"),
        "{reported}"
    );
    says(cluster.server(), "True", 2);
    site.take(&centre.publish(&Draft::hello("five")));
    assert_eq!(site.active(), Some(5));
    // The other status, when that is what is wanted.
    let ask = ask.replace("timeout_s", "is = \"False\", timeout_s");
    site.configure(&format!("{}[health]\nask = [{ask}]\n", cluster.settings()));
    let taken = site.import(&centre.publish(&Draft::hello("six")));
    assert_eq!(taken.status.code(), Some(1));
    assert_eq!(site.active(), Some(5));
}

#[test]
fn a_cluster_that_does_not_answer_is_not_well_one_that_cannot_be_asked_is_found_first_and_a_wrong_setting_is_refused()
 {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let ask = |more: &str| format!("[health]\nask = [{{ name = \"web\", {more} }}]\n");
    let nobody = site.folder.path().join("kubeconfig");
    let here = "object = \"Node worker-1\", condition = \"Ready\", timeout_s = 1";
    site.configure(&format!(
        "[kubernetes]\nkubeconfig = {nobody:?}\n{}",
        ask(here)
    ));
    // How the cluster is reached is not known here: that is found before anything is applied.
    let two = centre.publish(&Draft::hello("two"));
    let refused = site.import(&two);
    assert_reports(
        &refused,
        3,
        &["this site's health cannot be checked: `web`: "],
    );
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: one\n");
    let config = |authority: &str| {
        format!(
            "current-context: a\nclusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:1', certificate-authority{authority}}}}}]\n\
             users: [{{name: a, user: {{token: x}}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n"
        )
    };
    let write = |text: &str| {
        std::fs::write(&nobody, text).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&nobody, private).unwrap();
    };
    write(&config("-data: Q0E="));
    let refused = site.import(&two);
    assert_reports(
        &refused,
        3,
        &["this site's health cannot be checked: `web`: "],
    );
    // A cluster that does not answer is not well, as a bundle may have made it.
    if let Some((authority, _)) = crate::tls::certificate(site.folder.path(), "localhost") {
        write(&config(&format!(": {}", authority.display())));
        let taken = site.import(&two);
        assert_reports(&taken, 1, &[]);
        let reported = printed(&taken);
        assert!(
            reported.contains("this site is not well: `web`: "),
            "{reported}"
        );
    }
    assert_eq!(site.active(), Some(1));
    let wrong = [
        "object = \"Node\", condition = \"Ready\"",
        "object = \"Node worker-1\"",
        "object = \"Node worker-1\", condition = \"Ready\", is = \"yes\"",
        "object = \"Node worker-1\", condition = \"Ready\", timeout_s = 4000",
        "url = \"http://127.0.0.1:1/\", condition = \"Ready\"",
        "url = \"http://127.0.0.1:1/\", object = \"Node worker-1\", condition = \"Ready\"",
    ];
    for more in wrong {
        site.configure(&ask(more));
        let refused = site.run(&["status"]);
        let reported = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{more}: {reported}");
        assert!(reported.contains("health.ask"), "{more}: {reported}");
    }
}
