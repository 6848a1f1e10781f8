//! Differences of small control planes, and the laws that hold for all.

use proptest::prelude::*;

use super::*;
use outhaul_control::diagnostic::SourceFile;
use outhaul_control::model::{ReconcilerKind, Template};
use outhaul_plane::compose::Mode;
use outhaul_plane::{render, schedule};

const KALYPSO: &str = "apiVersion: scheduler.kalypso.io/v1alpha1";

/// What varies between two control planes.
#[derive(Debug, Clone, Default)]
struct DiffFixture {
    /// Purposes that the policy `wide` selects, of the targets `one` and `two`.
    selects: &'static str,
    /// A second policy that selects all of purpose `a`.
    second_policy: bool,
    /// Values of the container `east`, as YAML lines.
    values: Vec<(String, String)>,
    /// Whether `two` has a cluster type of its own.
    two_types: bool,
    /// Sites on `drone`, each with a label.
    sites: Vec<(&'static str, &'static str)>,
    /// What only sites with the label `line: x` get as `FIXED`.
    only_x: Option<&'static str>,
}

impl DiffFixture {
    #[expect(clippy::too_many_lines, reason = "the texts of one control plane")]
    fn run(&self) -> Stages {
        let mut own = Vec::new();
        let mut base = Vec::new();
        let mut team = ("", String::new());
        let mut write = |path: &'static str, text: String| match path.split('/').next() {
            Some("dev") => own.push((path, text)),
            Some("main") => base.push((path, text)),
            _ => team = (path, text),
        };
        let cluster_type = |name: &str, region: &str| {
            format!(
                "{KALYPSO}\nkind: ClusterType\nmetadata: {{name: {name}, labels: {{region: {region}}}}}\n\
                 spec: {{reconciler: flux, namespaceService: default, configType: config}}\n---\n"
            )
        };
        let mut types = cluster_type("drone", "east");
        if self.two_types {
            types += &cluster_type("large", "west");
        }
        write("dev/types.yaml", types);
        let policy = |name: &str, operator: &str| {
            format!(
                "{KALYPSO}\nkind: SchedulingPolicy\nmetadata: {{name: {name}}}\nspec:\n  deploymentTargetSelector:\n    \
                 labelSelector: {{matchExpressions: [{{key: purpose, {operator}}}]}}\n  clusterTypeSelector:\n    \
                 labelSelector: {{}}\n---\n"
            )
        };
        let mut policies = policy("wide", self.selects);
        if self.second_policy {
            policies += &policy("second", "operator: In, values: [a]");
        }
        write("dev/policies.yaml", policies);
        let values: Vec<String> = self
            .values
            .iter()
            .map(|(k, v)| format!("  {k}: {v}\n"))
            .collect();
        let values = values.concat();
        write(
            "dev/east.yaml",
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: east\n  labels: {{platform-config: 'true', \
                 region: east}}\ndata:\n  FIXED: 'yes indeed'\n{values}"
            ),
        );
        if let Some(value) = self.only_x {
            write(
                "dev/line.yaml",
                format!(
                    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: line\n  labels: {{platform-config: 'true', \
                     line: x}}\ndata:\n  FIXED: {value}\n"
                ),
            );
        }
        let sites: Vec<String> = self
            .sites
            .iter()
            .map(|(name, label)| {
                format!(
                    "apiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata: {{name: {name}, labels: {{line: {label}}}}}\n\
                     spec: {{clusterType: drone}}\n---\n"
                )
            })
            .collect();
        write("dev/sites.yaml", sites.concat());
        let template = |name: &str, kind: &str, text: &str| {
            format!(
                "{KALYPSO}\nkind: Template\nmetadata: {{name: {name}}}\nspec:\n  type: {kind}\n  manifests:\n    - |\n      \
                 {text}\n---\n"
            )
        };
        write(
            "main/templates.yaml",
            template("flux", "reconciler", "name: {{ .DeploymentTargetName }}")
                + &template("default", "namespace", "namespace: {{ .Namespace }}")
                + &template("config", "config", "{{ toYaml .ConfigData }}"),
        );
        write(
            "main/app.yaml",
            format!(
                "{KALYPSO}\nkind: WorkloadRegistration\nmetadata: {{name: app}}\nspec:\n  workspace: team\n  workload: \
                 {{repo: https://git.example.org/app, branch: main, path: .}}\n"
            ),
        );
        let target = |name: &str, purpose: &str| {
            format!("    - {{name: {name}, environment: dev, labels: {{purpose: {purpose}}}}}\n")
        };
        write(
            "app/workload.yaml",
            format!(
                "{KALYPSO}\nkind: Workload\nmetadata: {{name: hello}}\nspec:\n  deploymentTargets:\n{}{}",
                target("one", "a"),
                target("two", "b")
            ),
        );
        let plane = outhaul_test_planes::texts::load("dev", &own, &base, &team).unwrap();
        let mode = Mode::default();
        let schedule = schedule::schedule(&plane, &schedule::SchedulerAnswers::default());
        let composition = compose::compose(&plane, &schedule, mode);
        let snapshot = outhaul_test_planes::texts::snapshot("dev");
        let job = render::Job {
            plane: &plane,
            schedule: &schedule,
            snapshot: &snapshot,
            mode,
            progress: &|_, _| (),
        };
        let rendering = render::render(job, render::RenderCache::None).rendering;
        Stages {
            plane,
            schedule,
            composition,
            rendering,
        }
    }
}

/// What the stages gave.
struct Stages {
    plane: ControlPlane,
    schedule: Schedule,
    composition: Composition,
    rendering: Rendering,
}

impl Stages {
    fn side<'a>(&'a self, name: &'a str) -> Side<'a> {
        Side {
            name,
            plane: &self.plane,
            schedule: &self.schedule,
            composition: &self.composition,
            rendering: &self.rendering,
        }
    }
}

const ALL: &str = "operator: Exists";
const ONLY_A: &str = "operator: In, values: [a]";

fn fixture(selects: &'static str, values: &[(&str, &str)]) -> DiffFixture {
    DiffFixture {
        selects,
        values: values
            .iter()
            .map(|(k, v)| ((*k).into(), (*v).into()))
            .collect(),
        ..DiffFixture::default()
    }
}

fn between(before: &DiffFixture, after: &DiffFixture) -> Difference {
    let (before, after) = (before.run(), after.run());
    compare(before.side("before"), after.side("after"))
}

#[test]
fn a_new_assignment_is_reported_with_its_policy_and_does_not_list_its_values() {
    let difference = between(&fixture(ONLY_A, &[]), &fixture(ALL, &[]));
    let change = &difference.cluster_types["drone"];
    assert_eq!(change.added.len(), 1);
    assert_eq!(change.added[0].target, "hello-two");
    assert_eq!(change.added[0].policies[0].policy, "wide");
    assert!(
        change.added[0].policies[0]
            .at
            .as_ref()
            .unwrap()
            .ends_with("policies.yaml:3")
    );
    assert!(change.values.is_empty() && change.removed.is_empty());
    assert_eq!(change.files.len(), 3);
}

#[test]
fn a_changed_value_is_reported_once_for_all_that_share_it() {
    let before = fixture(ALL, &[("PORT", "'1'"), ("tls", "'{a: 1, b: 2}'")]);
    let after = fixture(ALL, &[("PORT", "'2'"), ("tls", "'{a: 1, b: 3}'")]);
    let difference = between(&before, &after);
    let values = &difference.cluster_types["drone"].values;
    let reported: Vec<_> = values
        .iter()
        .map(|v| {
            let value = |at: &Option<ValueAt>| at.as_ref().map(|at| at.value.clone());
            (
                v.key.as_str(),
                value(&v.before),
                value(&v.after),
                v.targets.len(),
            )
        })
        .collect();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        reported,
        [
            ("PORT", some("\"1\""), some("\"2\""), 2),
            ("tls.b", some("2"), some("3"), 2)
        ]
    );
    assert!(
        values[0]
            .after
            .as_ref()
            .unwrap()
            .at
            .ends_with("east.yaml:8")
    );
}

#[test]
fn a_sealed_value_is_not_printed() {
    let after = fixture(
        ALL,
        &[(
            "PASSWORD",
            "'ENC[age,0123456789abcdef/dev/app+hello/PASSWORD,c2VjcmV0]'",
        )],
    );
    let difference = between(&fixture(ALL, &[]), &after);
    let all = text::text(&difference) + &markdown::markdown(std::slice::from_ref(&difference));
    let json = serde_json::to_string(&difference).unwrap();
    assert!(all.contains("sealed") && !all.contains("c2VjcmV0"), "{all}");
    assert!(!json.contains("c2VjcmV0"), "{json}");
}

#[test]
fn a_template_with_another_text_is_named_where_files_differ() {
    let (before, mut after) = (fixture(ALL, &[]).run(), fixture(ALL, &[]).run());
    let template = after.plane.templates.get_mut("flux").unwrap();
    template.manifests[0].value = "title: {{ .DeploymentTargetName }}".into();
    let same = compare(before.side("a"), after.side("b"));
    assert!(same.cluster_types.is_empty(), "no file differs");
    let (plane, schedule) = (&after.plane, &after.schedule);
    let mode = Mode::default();
    let snapshot = before.rendering.snapshot.clone();
    let job = render::Job {
        plane,
        schedule,
        snapshot: &snapshot,
        mode,
        progress: &|_, _| (),
    };
    after.rendering = render::render(job, render::RenderCache::None).rendering;
    let difference = compare(before.side("a"), after.side("b"));
    let templates = &difference.cluster_types["drone"].templates;
    assert_eq!((templates.len(), templates[0].kind), (1, "reconciler"));
    assert!(text::text(&difference).contains("reconciler template: `flux`"));
}

#[test]
fn what_brings_the_reconciler_from_now_on_is_named_with_its_template() {
    let (before, mut after) = (fixture(ALL, &[]).run(), fixture(ALL, &[]).run());
    let text = "apiVersion: outhaul.dev/v1alpha1\nkind: DeliveryPolicy\nmetadata: {name: brings}\nspec:\n  \
                clusterTypeSelector: {labelSelector: {}}\n  \
                bootstrap: {targets: [hello-one], reconciler: own}\n";
    let file = Arc::new(SourceFile {
        name: "brings.yaml".into(),
        text: text.into(),
    });
    let mut findings = Diagnostics::new();
    for object in outhaul_control::kinds::read_file(&file, &mut findings) {
        if let outhaul_control::kinds::Object::Delivery(one) = object {
            after.plane.deliveries.insert(one.name.clone(), one);
        }
    }
    let own = Template {
        name: "own".into(),
        reconciler: Some(ReconcilerKind::Kubernetes),
        ..after.plane.templates["flux"].clone()
    };
    after.plane.templates.insert("own".into(), own);
    let changes = super::templates::between(&before.plane, &after.plane, "drone");
    let [change] = &changes[..] else {
        unreachable!("{changes:?}");
    };
    assert_eq!((change.kind, &change.before), ("bootstrap", &None));
    assert_eq!(change.after.as_ref().unwrap().template, "own");
}

#[test]
fn another_policy_for_the_same_pair_is_reported_and_touches_no_file() {
    let before = fixture(ALL, &[]);
    let after = DiffFixture {
        second_policy: true,
        ..before.clone()
    };
    let difference = between(&before, &after);
    let change = &difference.cluster_types["drone"];
    assert_eq!(change.reasons[0].added[0].policy, "second");
    assert!(change.files.is_empty() && change.added.is_empty());
}

#[test]
fn an_assignment_that_breaks_is_not_reported_as_removed() {
    let after = fixture(ALL, &[("BAD", "'{{ .Nothing.there }}'")]);
    let mut broken = after.run();
    let id = AssignmentId {
        cluster_type: "drone".into(),
        target: "hello-one".into(),
    };
    let finding = outhaul_control::Diagnostic::error("template", "it does not render");
    broken.rendering.failures.insert(id.clone(), finding.into());
    let group = std::sync::Arc::make_mut(broken.rendering.cluster_types.get_mut("drone").unwrap());
    group.assignments.remove(&id.target);
    let before = after.run();
    let difference = compare(before.side("a"), broken.side("b"));
    let change = &difference.cluster_types["drone"];
    assert_eq!(change.broken[0].after, ["it does not render"]);
    assert!(change.removed.is_empty() && change.files.is_empty());
    assert!(!difference.is_empty());
}

#[test]
fn sites_are_touched_by_content_and_by_their_own_change() {
    let before = DiffFixture {
        sites: vec![("s1", "x"), ("s2", "x")],
        ..fixture(ALL, &[])
    };
    let relabelled = DiffFixture {
        sites: vec![("s1", "x"), ("s2", "y"), ("s3", "x")],
        ..fixture(ALL, &[])
    };
    let sites = between(&before, &relabelled).cluster_types["drone"]
        .sites
        .clone();
    assert_eq!((sites.count, sites.of), (2, 3));
    assert_eq!(sites.own[0].what, "label `line`: x → y");
    let changed = DiffFixture {
        sites: before.sites.clone(),
        ..fixture(ALL, &[("NEW", "'1'")])
    };
    let sites = between(&before, &changed).cluster_types["drone"]
        .sites
        .clone();
    assert_eq!(
        (sites.count, sites.names),
        (2, vec!["s1".into(), "s2".into()])
    );
}

#[test]
fn what_only_some_sites_get_touches_only_them() {
    let sites = vec![("s1", "x"), ("s2", "y"), ("s3", "x")];
    let before = DiffFixture {
        sites,
        only_x: Some("one"),
        ..fixture(ONLY_A, &[])
    };
    let after = DiffFixture {
        only_x: Some("two"),
        ..before.clone()
    };
    let difference = between(&before, &after);
    let change = &difference.cluster_types["drone"];
    assert_eq!(change.sites.names, ["s1", "s3"]);
    assert_eq!(change.values[0].targets, ["hello-one@s1", "hello-one@s3"]);
    let files: Vec<_> = change
        .files
        .iter()
        .map(|f| (f.path.as_str(), f.sites.len()))
        .collect();
    assert_eq!(files, [("hello-one/platform-config.yaml", 2)]);
    let text = text::text(&difference);
    assert!(
        text.contains("M hello-one/platform-config.yaml on sites s1, s3 (+1 -1)"),
        "{text}"
    );
}

fn any_fixture() -> impl Strategy<Value = DiffFixture> {
    let value = ("[A-C]", "[x-z0-9]{1,2}");
    (
        prop::sample::select(vec![ALL, ONLY_A, "operator: DoesNotExist"]),
        any::<bool>(),
        prop::collection::btree_map(value.0, value.1, 0..3),
        any::<bool>(),
    )
        .prop_map(|(selects, second_policy, values, two_types)| DiffFixture {
            selects,
            second_policy,
            values: values
                .into_iter()
                .map(|(k, v)| (k, format!("'{v}'")))
                .collect(),
            two_types,
            sites: Vec::new(),
            only_x: None,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn nothing_differs_from_itself(fixture in any_fixture()) {
        prop_assert!(between(&fixture, &fixture).cluster_types.is_empty());
    }

    #[test]
    fn exactly_the_files_whose_bytes_differ_are_listed(a in any_fixture(), b in any_fixture()) {
        let (before, after) = (a.run(), b.run());
        let difference = compare(before.side("a"), after.side("b"));
        let (old, new) = (before.rendering.tree(), after.rendering.tree());
        let differing: BTreeSet<String> = old
            .keys()
            .chain(new.keys())
            .filter(|path| !path.ends_with("README.md") && old.get(*path) != new.get(*path))
            .cloned()
            .collect();
        let listed: BTreeSet<String> = difference
            .cluster_types
            .iter()
            .flat_map(|(name, change)| change.files.iter().map(move |f| format!("{name}/{}", f.path)))
            .collect();
        prop_assert_eq!(listed, differing);
    }
}
