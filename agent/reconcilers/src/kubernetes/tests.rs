//! The reconciler against a real API server: what it refuses, whose objects they are, and what may go.
use std::path::PathBuf;

use outhaul_bundle::index::DriftPolicy;
use outhaul_bundle::report::{AssignmentResult, ComplianceStatus};
use outhaul_tests::kubernetes::{ADMIN, ApiServer};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::fixture_for_tests::{self, FakeContext, MemoryLedger};

mod kept;
mod kinds;
mod lost;
mod refused;
mod sealed;
mod server_gone;
mod shared;

struct Fixture {
    folder: TempDir,
    server: ApiServer,
    memory: MemoryLedger,
    drift: DriftPolicy,
    assignment: &'static str,
    site: &'static str,
    kubeconfig: PathBuf,
    /// Counts what was applied: each is a bundle.
    generation: u64,
}

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: app}\n";
const FORCE: &str = "apiVersion: outhaul.dev/v1alpha1\nkind: KubernetesApply\nmetadata: {name: a}\n\
                     spec: {namespace: app, conflicts: force, waitSeconds: 1}\n";

fn config_map(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{key: \"{value}\"}}\n"
    )
}

impl Fixture {
    #[track_caller]
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let server = ApiServer::start_or_skip(&folder.path().join("server"))?.unwrap();
        let kubeconfig = server.kubeconfig(ADMIN);
        Some(Self {
            folder,
            server,
            memory: MemoryLedger::default(),
            drift: DriftPolicy::Report,
            assignment: "one",
            site: "store-1",
            kubeconfig,
            generation: 0,
        })
    }

    fn reconciler(&self) -> Kubernetes {
        Kubernetes {
            config: KubernetesConfig {
                kubeconfig: Some(self.kubeconfig.clone()),
                wait_s: 1,
                ..KubernetesConfig::default()
            },
            controller: Box::new(PlainManifests),
            site: Rc::new(FakeContext(self.folder.path().to_owned())),
        }
    }

    fn desired(&self, files: &[(&str, &str)]) -> Desired {
        let folder = self.folder.path();
        let desired =
            fixture_for_tests::desired(folder, self.site, self.assignment, self.drift, files);
        Desired {
            generation: self.generation,
            ..desired
        }
    }

    fn recorded(&self) -> Vec<Item> {
        let ours = |item: &&Item| item.assignment == self.assignment;
        self.memory.0.iter().filter(ours).cloned().collect()
    }

    fn try_apply(&mut self, files: &[(&str, &str)]) -> Result<AssignmentResult, ApplyError> {
        self.generation += 1;
        let desired = self.desired(files);
        let recorded = self.recorded();
        self.reconciler()
            .apply(&desired, &recorded, &mut self.memory, &Heartbeat::default())
    }

    /// Removes what is not wanted any more, as is done when a bundle is healthy.
    fn prune(&mut self, files: &[(&str, &str)]) -> Option<AssignmentResult> {
        let (desired, recorded) = (self.desired(files), self.recorded());
        self.reconciler()
            .prune(&desired, &recorded, &mut self.memory, &Heartbeat::default())
            .unwrap()
    }

    /// Applies, removes what is not wanted any more, and expects both to work.
    fn apply(&mut self, files: &[(&str, &str)]) -> AssignmentResult {
        let mut result = self.try_apply(files).unwrap();
        assert_eq!(result.status, ComplianceStatus::Compliant, "{result:?}");
        if let Some(pruned) = self.prune(files) {
            assert_eq!(pruned.status, ComplianceStatus::Compliant, "{pruned:?}");
            crate::outcome::add_steps(&mut result, pruned);
        }
        result
    }

    /// Applies, and returns why that is the bundle's fault.
    fn refused(&mut self, files: &[(&str, &str)]) -> String {
        let result = self.try_apply(files).unwrap();
        assert_eq!(result.status, ComplianceStatus::Failed, "{result:?}");
        result.message
    }

    /// Applies, and returns why the site cannot.
    fn blocked(&mut self, files: &[(&str, &str)]) -> String {
        match self.try_apply(files) {
            Err(error @ ApplyError::Cluster { .. }) => format!("{error}\nhelp: {}", error.help()),
            other => unreachable!("it should be the site's fault: {other:?}"),
        }
    }

    fn observe(&self, files: &[(&str, &str)]) -> AssignmentResult {
        let desired = self.desired(files);
        self.reconciler()
            .observe(&desired, &self.recorded(), &Heartbeat::default())
            .unwrap()
    }

    fn remove(&mut self) -> Vec<(String, String, String)> {
        let recorded = self.recorded();
        let steps = self
            .reconciler()
            .remove(
                2,
                self.assignment,
                &recorded,
                &mut self.memory,
                &Heartbeat::default(),
            )
            .unwrap();
        steps
            .into_iter()
            .map(|step| (step.name, step.status, step.message))
            .collect()
    }

    fn map(&self, name: &str) -> Option<Value> {
        self.server
            .get(&format!("/api/v1/namespaces/app/configmaps/{name}"))
            .unwrap()
    }

    fn namespace(&self, name: &str) {
        self.server
            .create("/api/v1/namespaces", &json!({"metadata": {"name": name}}))
            .unwrap();
    }
}

#[test]
fn what_others_made_is_left_alone_unless_the_stream_says_so() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    fixture.namespace("app");
    let settings = FORCE.replace("force", "refuse");
    let theirs = json!({"metadata": {"name": "theirs"}, "data": {"key": "a", "other": "b"}});
    fixture
        .server
        .create(
            "/api/v1/namespaces/app/configmaps?fieldManager=someone",
            &theirs,
        )
        .unwrap();
    let (ours, map) = (config_map("ours", "1"), config_map("theirs", "mine"));
    let refused = fixture.refused(&[("a.yaml", &settings), ("b.yaml", &ours), ("c.yaml", &map)]);
    assert!(
        refused.contains(
            "`ConfigMap app/theirs` is there and is not Outhaul's (its fields were set by someone)"
        ),
        "{refused}"
    );
    assert!(fixture.map("ours").is_none());

    // Taken over where the stream says so, and left there when the assignment goes.
    fixture.apply(&[("a.yaml", FORCE), ("b.yaml", &ours), ("c.yaml", &map)]);
    let taken = fixture.map("theirs").unwrap();
    assert_eq!(taken["data"], json!({"key": "mine", "other": "b"}));
    // Another assignment cannot have it as well.
    fixture.assignment = "two";
    let second = fixture.refused(&[("a.yaml", FORCE), ("b.yaml", &ours)]);
    assert!(
        second.contains("`ConfigMap app/ours` belongs to the assignment `f/dev/one`"),
        "{second}"
    );
    fixture.assignment = "one";
    // Someone removed ours and made another of that name: not ours any more.
    let maps = "/api/v1/namespaces/app/configmaps";
    fixture.server.delete(&format!("{maps}/ours")).unwrap();
    fixture
        .server
        .create(maps, &json!({"metadata": {"name": "ours"}}))
        .unwrap();
    let removed = fixture.remove();
    let reported: Vec<_> = removed
        .iter()
        .map(|(name, status, _)| (name.as_str(), status.as_str()))
        .collect();
    assert_eq!(
        reported,
        [
            ("ConfigMap app/theirs", "skipped"),
            ("ConfigMap app/ours", "skipped")
        ]
    );
    assert!(
        removed[0].2.contains("was there before Outhaul"),
        "{removed:?}"
    );
    assert!(
        removed[1].2.contains("another object by now"),
        "{removed:?}"
    );
    assert!(fixture.map("ours").is_some() && fixture.map("theirs").is_some());
    assert!(fixture.memory.0.is_empty());
}

#[test]
fn drift_is_named_and_put_back_only_where_the_stream_says_so() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    let (kept, gone) = (config_map("kept", "1"), config_map("gone", "1"));
    let files = [
        ("a.yaml", NAMESPACE),
        ("b.yaml", kept.as_str()),
        ("c.yaml", gone.as_str()),
    ];
    fixture.apply(&files);
    assert_eq!(fixture.observe(&files).status, ComplianceStatus::Compliant);
    let again = fixture.apply(&files);
    assert!(
        again.steps.iter().all(|step| step.status == "ok"),
        "{again:?}"
    );

    let maps = "/api/v1/namespaces/app/configmaps";
    fixture
        .server
        .patch(
            &format!("{maps}/kept"),
            "kubectl-edit",
            &json!({"data": {"key": "2"}}),
        )
        .unwrap();
    fixture.server.delete(&format!("{maps}/gone")).unwrap();
    let drifted = fixture.observe(&files);
    assert_eq!(drifted.status, ComplianceStatus::Drifted);
    assert_eq!(drifted.message, "2 of 3 objects are not as applied");
    let reported: Vec<_> = drifted
        .steps
        .iter()
        .map(|step| (step.name.as_str(), step.message.as_str()))
        .collect();
    let changed = "it was changed: .data.key (fields of it were set by kubectl-edit)";
    assert_eq!(
        reported,
        [
            ("ConfigMap app/gone", "it was removed"),
            ("ConfigMap app/kept", changed)
        ]
    );
    // `report`: a newer bundle that wants the field waits for a person.
    let conflict = fixture.blocked(&files);
    assert!(
        conflict.contains(
            "`ConfigMap app/kept`: the API server refuses: Apply failed with 1 conflict: conflict with \"kubectl-edit\" using v1: .data.key"
        ),
        "{conflict}"
    );
    assert!(fixture.map("gone").is_none(), "nothing was changed");
    fixture.drift = DriftPolicy::Correct;
    fixture.apply(&files);
    assert_eq!(fixture.map("kept").unwrap()["data"]["key"], "1");
    assert_eq!(fixture.observe(&files).status, ComplianceStatus::Compliant);
}
