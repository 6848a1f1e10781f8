//! Control planes and changes of them, for the laws of incremental rendering.
//!
//! What comes in: what proptest draws. What goes out: a small control plane with every kind of label that
//! a container can have, and [`Edit`]s that add, change, break and remove everything in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use outhaul_bundle::index::{Snapshot, Source};
use proptest::prelude::*;
use proptest::sample::Index;

use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_control::model::composition::{Conflicts, Precedence};
use outhaul_control::model::{
    ClusterType, CompositionPolicy, ConfigContainer, DeliveryPolicy, DeploymentTarget, Language,
    ReconcilerKind, SchedulingPolicy, Site, Spanned, Template, TemplateType,
};
use outhaul_control::selector::{Operator, Requirement, Selector};

fn location() -> Location {
    let file = Arc::new(SourceFile {
        name: "x.yaml".into(),
        text: String::new(),
    });
    Location::new(&file, 0..0)
}

fn spanned(text: impl Into<String>) -> Spanned<String> {
    Spanned {
        value: text.into(),
        location: location(),
    }
}

fn template(name: &str, kind: TemplateType, texts: &[&str]) -> Template {
    Template {
        name: name.into(),
        language: Language::Go,
        kind,
        content_type: None,
        reconciler: None,
        manifests: texts.iter().map(|text| spanned(*text)).collect(),
        location: location(),
    }
}

pub fn plane() -> ControlPlane {
    let mut plane = ControlPlane {
        environment: "dev".into(),
        ..ControlPlane::default()
    };
    for one in [
        template(
            "flux",
            TemplateType::Reconciler,
            &[
                "of {{ .DeploymentTargetName }} {{ .Labels.tier }}\n",
                "at {{ .ClusterType }}\n",
            ],
        ),
        template(
            "default",
            TemplateType::Namespace,
            &["name: {{ .Namespace }}\n"],
        ),
        template(
            "config",
            TemplateType::Config,
            &["{{ toYaml .ConfigData }}\n"],
        ),
    ] {
        plane.templates.insert(one.name.clone(), one);
    }
    let own = Template {
        reconciler: Some(ReconcilerKind::Kubernetes),
        ..template(
            "own",
            TemplateType::Reconciler,
            &["applied: {{ .DeploymentTargetName }}\n"],
        )
    };
    plane.templates.insert(own.name.clone(), own);
    for number in 0..4 {
        add_cluster_type(&mut plane, number, number % 2);
        add_target(&mut plane, number, number % 2);
        add_container(&mut plane, number, number, "first");
    }
    let everywhere = SchedulingPolicy {
        name: "everywhere".into(),
        workspace: None,
        targets: Selector::default(),
        cluster_types: Selector::default(),
        ..policy()
    };
    plane.policies.insert("everywhere".into(), everywhere);
    plane
}

fn policy() -> SchedulingPolicy {
    let text = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: SchedulingPolicy\nmetadata: {name: p}\nspec:\n  \
                deploymentTargetSelector: {labelSelector: {}}\n  clusterTypeSelector: {labelSelector: {}}\n";
    let file = Arc::new(SourceFile {
        name: "p.yaml".into(),
        text: text.into(),
    });
    let mut findings = outhaul_control::Diagnostics::new();
    let objects = outhaul_control::kinds::read_file(&file, &mut findings);
    match objects.into_iter().next() {
        Some(outhaul_control::kinds::Object::Policy(policy)) => policy,
        other => unreachable!("{other:?} {findings}"),
    }
}

/// The delivery policy by which `app-<number>-live` brings the cluster types of one region their reconciler.
fn brings(number: usize, template: &str) -> DeliveryPolicy {
    let region = number % 2;
    let text = format!(
        "apiVersion: outhaul.dev/v1alpha1\nkind: DeliveryPolicy\nmetadata: {{name: brings}}\nspec:\n  \
         clusterTypeSelector: {{labelSelector: {{matchLabels: {{region: r{region}}}}}}}\n  \
         bootstrap: {{targets: [app-{number}-live], reconciler: {template}}}\n"
    );
    let name = "d.yaml".into();
    let file = Arc::new(SourceFile { name, text });
    let mut findings = outhaul_control::Diagnostics::new();
    let objects = outhaul_control::kinds::read_file(&file, &mut findings);
    match objects.into_iter().next() {
        Some(outhaul_control::kinds::Object::Delivery(one)) => one,
        other => unreachable!("{other:?} {findings}"),
    }
}

fn add_cluster_type(plane: &mut ControlPlane, number: usize, region: usize) {
    let one = ClusterType {
        name: format!("line-{number}"),
        labels: BTreeMap::from([("region".into(), format!("r{region}"))]),
        reconciler: spanned("flux"),
        namespace_service: spanned("default"),
        config_type: Some(spanned("config")),
        ..cluster_type()
    };
    plane.cluster_types.insert(one.name.clone(), one);
}

fn cluster_type() -> ClusterType {
    let text = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: ClusterType\nmetadata: {name: c}\nspec:\n  \
                reconciler: flux\n  namespaceService: default\n";
    let file = Arc::new(SourceFile {
        name: "c.yaml".into(),
        text: text.into(),
    });
    let mut findings = outhaul_control::Diagnostics::new();
    let objects = outhaul_control::kinds::read_file(&file, &mut findings);
    match objects.into_iter().next() {
        Some(outhaul_control::kinds::Object::ClusterType(one)) => one,
        other => unreachable!("{other:?} {findings}"),
    }
}

pub fn add_target(plane: &mut ControlPlane, number: usize, tier: usize) {
    let one = DeploymentTarget {
        name: format!("app-{number}-live"),
        short_name: "live".into(),
        workload: format!("app-{number}"),
        registration: "apps".into(),
        workspace: "team".into(),
        environment: "dev".into(),
        environment_at: location(),
        labels: BTreeMap::from([("tier".into(), format!("t{tier}"))]),
        manifests: None,
        storage_at: None,
        config_schemas: Vec::new(),
        location: location(),
    };
    plane.targets.insert(one.name.clone(), one);
}

/// A container with one of the labels that containers have.
fn add_container(plane: &mut ControlPlane, number: usize, label: usize, value: &str) {
    let of = number % 4;
    let mut labels = BTreeMap::from([("platform-config".to_owned(), spanned("true"))]);
    match label % 11 {
        0 => drop(labels.insert("cluster-type".into(), spanned(format!("line-{of}")))),
        1 => drop(labels.insert("region".into(), spanned(format!("r{}", of % 2)))),
        2 => drop(labels.insert("workload".into(), spanned(format!("app-{of}")))),
        3 => drop(labels.insert("tier".into(), spanned(format!("t{}", of % 2)))),
        4 => drop(labels.insert(
            "deployment-target".into(),
            spanned(format!("app-{of}-live")),
        )),
        5 => drop(labels.insert("nobody".into(), spanned("x"))),
        6 => drop(labels.insert("site".into(), spanned(format!("site-{of}")))),
        7 => drop(labels.insert("hall".into(), spanned(format!("h{}", of % 2)))),
        8 => {
            labels.insert("ring".into(), spanned(format!("g{}", of % 2)));
            labels.insert("region".into(), spanned(format!("r{}", of % 2)));
        }
        _ => {}
    }
    let one = ConfigContainer {
        name: format!("config-{number}"),
        labels,
        data: BTreeMap::from([(format!("KEY_{}", number % 3), spanned(value))]),
        location: location(),
    };
    plane.configs.insert(one.name.clone(), one);
}

pub fn add_site(plane: &mut ControlPlane, number: usize, kind: usize) {
    let one = Site {
        name: format!("site-{number}"),
        labels: BTreeMap::from([("hall".into(), format!("h{}", kind % 3))]),
        cluster_type: spanned(format!("line-{}", kind % 4)),
        ring: kind.is_multiple_of(2).then(|| format!("g{}", number % 2)),
        public_key: None,
        location: location(),
    };
    plane.sites.insert(one.name.clone(), one);
}

/// One change of a control plane.
#[derive(Debug, Clone)]
pub enum Edit {
    Value(Index, u8),
    Container(usize, usize, u8),
    NoContainer(Index),
    ClusterType(usize, usize),
    NoClusterType(Index),
    Target(usize, usize),
    NoTarget(Index),
    Template(u8),
    Broken(bool),
    NoPolicy,
    Policy,
    Site(usize, usize),
    NoSite(Index),
    Specific(bool),
    Select(u8),
    /// What a delivery policy names as the one that brings the reconciler, by which template; or nothing.
    Bootstrap(usize, bool),
    Nothing,
}

pub fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => (any::<Index>(), 0u8..4).prop_map(|(at, value)| Edit::Value(at, value)),
        3 => (0usize..8, 0usize..11, 0u8..4).prop_map(|(n, l, v)| Edit::Container(n, l, v)),
        1 => any::<Index>().prop_map(Edit::NoContainer),
        2 => (0usize..6, 0usize..3).prop_map(|(n, r)| Edit::ClusterType(n, r)),
        1 => any::<Index>().prop_map(Edit::NoClusterType),
        2 => (0usize..6, 0usize..3).prop_map(|(n, t)| Edit::Target(n, t)),
        1 => any::<Index>().prop_map(Edit::NoTarget),
        1 => (0u8..3).prop_map(Edit::Template),
        1 => any::<bool>().prop_map(Edit::Broken),
        3 => (0usize..5, 0usize..12).prop_map(|(n, k)| Edit::Site(n, k)),
        1 => any::<Index>().prop_map(Edit::NoSite),
        1 => any::<bool>().prop_map(Edit::Specific),
        3 => (0u8..4).prop_map(Edit::Select),
        2 => (0usize..6, any::<bool>()).prop_map(|(n, right)| Edit::Bootstrap(n, right)),
        1 => Just(Edit::NoPolicy),
        2 => Just(Edit::Policy),
        1 => Just(Edit::Nothing),
    ]
}

fn nth<V>(map: &BTreeMap<String, V>, at: Index) -> Option<String> {
    (!map.is_empty()).then(|| map.keys().nth(at.index(map.len())).cloned())?
}

pub fn apply(plane: &mut ControlPlane, edit: Edit) {
    match edit {
        Edit::Value(at, value) => {
            let name = nth(&plane.configs, at);
            let one = name.and_then(|name| plane.configs.get_mut(&name));
            for spanned in one.into_iter().flat_map(|one| one.data.values_mut()) {
                spanned.value = format!("value {value}");
            }
        }
        Edit::Container(number, label, value) => {
            add_container(plane, number, label, &format!("value {value}"));
        }
        Edit::NoContainer(at) => {
            nth(&plane.configs, at).and_then(|name| plane.configs.remove(&name));
        }
        Edit::ClusterType(number, region) => add_cluster_type(plane, number, region),
        Edit::NoClusterType(at) => {
            nth(&plane.cluster_types, at).and_then(|name| plane.cluster_types.remove(&name));
        }
        Edit::Target(number, tier) => add_target(plane, number, tier),
        Edit::NoTarget(at) => {
            nth(&plane.targets, at).and_then(|name| plane.targets.remove(&name));
        }
        Edit::Template(number) => {
            let text = format!("version {number} of {{{{ .Namespace }}}}\n");
            let one = template("default", TemplateType::Namespace, &[&text]);
            plane.templates.insert(one.name.clone(), one);
        }
        // Then only what has the key is rendered.
        Edit::Broken(broken) => {
            let text = if broken {
                "{{ .ConfigData.KEY_1 }}\n"
            } else {
                "{{ toYaml .ConfigData }}\n"
            };
            let one = template("config", TemplateType::Config, &[text]);
            plane.templates.insert(one.name.clone(), one);
        }
        // The sites of one hall, of which there are three; or all.
        Edit::Select(hall) => {
            let hall = format!("h{hall}");
            let sites = Requirement::new("hall", Operator::Equals, [hall.clone()]).unwrap();
            let sites = Spanned {
                value: Selector {
                    requirements: vec![sites],
                },
                location: location(),
            };
            if let Some(policy) = plane.policies.get_mut("everywhere") {
                policy.placement.sites = (hall != "h3").then_some(sites);
            }
        }
        Edit::Bootstrap(5, _) => plane.deliveries.clear(),
        Edit::Bootstrap(number, right) => {
            let one = brings(number, if right { "own" } else { "flux" });
            plane.deliveries.insert(one.name.clone(), one);
        }
        Edit::NoPolicy => drop(plane.policies.remove("everywhere")),
        Edit::Policy => drop(plane.policies.insert("everywhere".into(), policy())),
        Edit::Site(number, kind) => add_site(plane, number, kind),
        Edit::NoSite(at) => drop(nth(&plane.sites, at).and_then(|name| plane.sites.remove(&name))),
        Edit::Specific(specific) => {
            plane.composition = specific.then(|| CompositionPolicy {
                name: "house".into(),
                precedence: Precedence::Specificity,
                priorities: Vec::new(),
                arrays: None,
                arrays_by_key: BTreeMap::new(),
                conflicts: Conflicts::Error,
                allowed: Vec::new(),
                location: location(),
            });
        }
        Edit::Nothing => {}
    }
}

pub fn snapshot() -> Snapshot {
    let source = Source {
        name: "dev".into(),
        repo: String::new(),
        commit: "1".into(),
    };
    outhaul_bundle::index::Snapshot::of(source.clone(), source, Vec::new())
}
