//! Loading: folders and repositories, snapshots, and every finding at once.

use std::fs;
use std::path::Path;

use outhaul_git::source::{self, GitReference, TreeLimits};
use outhaul_kit::failure::FailureClass;

use super::*;

const GROUP: &str = "apiVersion: scheduler.kalypso.io/v1alpha1\n";

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// `env/`, `base/` and `app/`: one cluster type, one template, one workload.
fn folders(root: &Path) {
    write(
        &root.join("env/types.yaml"),
        &format!(
            "{GROUP}kind: ClusterType\nmetadata: {{name: drone, labels: {{edge: 'true'}}}}\nspec: {{reconciler: flux, namespaceService: ns, configType: cm}}\n"
        ),
    );
    write(&root.join("env/.github/workflows/ci.yaml"), "not: [yaml\n");
    write(&root.join("env/lab/broken.yaml"), "not: [yaml\n");
    write(&root.join("env/.sourceignore"), "lab/\n");
    write(
        &root.join("base/templates.yaml"),
        &format!(
            "{GROUP}kind: Template\nmetadata: {{name: flux}}\nspec: {{type: reconciler, manifests: ['x']}}\n---\n{GROUP}kind: WorkloadRegistration\nmetadata: {{name: app}}\nspec: {{workspace: team, workload: {{repo: 'https://example.org/app', branch: main, path: ./workload}}}}\n"
        ),
    );
    write(
        &root.join("app/workload/w.yaml"),
        &format!(
            "{GROUP}kind: Workload\nmetadata: {{name: hello, labels: {{type: application, edge: 'no'}}}}\nspec:\n  deploymentTargets:\n  - {{name: test, environment: dev, labels: {{edge: 'true', purpose: t}}, manifests: {{repo: r}}}}\n  - {{name: test, environment: stage, manifests: {{}}}}\n"
        ),
    );
}

fn request(root: &Path) -> LoadRequest {
    LoadRequest {
        environment: "dev".into(),
        from: Origin::Folders {
            environment_dir: root.join("env"),
            base_dir: Some(root.join("base")),
            base_commit: Some("c".repeat(40)),
        },
        sources: SourceMap::parse(&[format!(
            "https://example.org/app.git={}",
            root.join("app").display()
        )])
        .unwrap(),
        cache: Cache::at(root.join("cache")),
        schedulers: crate::scheduler::Schedulers::default(),
    }
}

#[test]
fn folders_and_the_workloads_they_lead_to_become_one_control_plane() {
    let root = tempfile::tempdir().unwrap();
    folders(root.path());
    let (plane, snapshot) = load(&request(root.path())).unwrap();
    assert_eq!(plane.cluster_types.keys().collect::<Vec<_>>(), ["drone"]);
    assert_eq!(plane.targets.keys().collect::<Vec<_>>(), ["hello-test"]);
    assert_eq!(
        plane.other_targets.keys().collect::<Vec<_>>(),
        ["stage/hello-test"]
    );
    let target = &plane.targets["hello-test"];
    assert_eq!(
        target.labels["edge"], "no",
        "the workload's labels win over the target's"
    );
    assert_eq!(target.labels["purpose"], "t");
    assert_eq!(target.labels["workspace"], "team");
    assert_eq!(plane.promoted_commit, Some("c".repeat(40)));
    assert_eq!(snapshot.base.commit, "c".repeat(40));
    assert_eq!(snapshot.workloads[0].repo, "https://example.org/app");
    assert!(!format!("{snapshot:?}").contains(&*root.path().to_string_lossy()));

    let again = load(&request(root.path())).unwrap();
    assert_eq!(again, (plane, snapshot.clone()));
    write(&root.path().join("app/workload/other.txt"), "x");
    assert_ne!(
        load(&request(root.path())).unwrap().1.digest,
        snapshot.digest
    );
}

#[test]
fn findings_of_all_sources_are_reported_at_once() {
    let root = tempfile::tempdir().unwrap();
    folders(root.path());
    write(&root.path().join("env/a.yaml"), "a: b: c\n");
    write(
        &root.path().join("base/again.yaml"),
        &format!(
            "{GROUP}kind: Template\nmetadata: {{name: flux}}\nspec: {{type: reconciler, manifests: ['x']}}\n"
        ),
    );
    write(
        &root.path().join("app/workload/x.yml"),
        &format!("{GROUP}kind: Workloat\nmetadata: {{name: x}}\n"),
    );
    // A team's mistake is that team's, and reported with the others.
    let findings = load(&request(root.path())).unwrap_err();
    let codes: Vec<_> = findings.iter().map(|d| d.code).collect();
    assert_eq!(codes.len(), 3, "{findings}");
    for code in ["yaml-syntax", "duplicate-name", "unknown-kind"] {
        assert!(codes.contains(&code), "{findings}");
    }
    assert_eq!(findings.class(), Some(FailureClass::Usage));
}

#[test]
fn objects_in_files_and_folders_that_are_not_read_are_named() {
    let root = tempfile::tempdir().unwrap();
    folders(root.path());
    let policy = "apiVersion: outhaul.dev/v1alpha1\nkind: DeliveryPolicy\nmetadata: {name: all}\nspec: \
                  {clusterTypeSelector: {labelSelector: {}}, encryption: required}\n";
    let json = "{\"apiVersion\": \"outhaul.dev/v1alpha1\", \"kind\": \"DeliveryPolicy\"}";
    for (path, text) in [
        ("env/policy.json", json),
        ("env/policy.yaml.bak", policy),
        ("env/policy.yml~", policy),
        ("env/.environments/policy.yaml", policy),
        ("base/template.yaml.off", GROUP),
        ("env/package.json", "{\"name\": \"x\"}"),
        ("env/lab/policy.json", json),
        ("env/policy.txt", policy),
        ("app/workload/x.json", json),
    ] {
        write(&root.path().join(path), text);
    }
    let (plane, _) = load(&request(root.path())).unwrap();
    assert!(plane.deliveries.is_empty());
    let shown: Vec<String> = plane
        .findings
        .iter()
        .map(|one| one.message.clone())
        .collect();
    for (named, reason) in [
        ("env/policy.json", "its ending is not `.yaml` or `.yml`"),
        ("env/policy.yaml.bak", "its ending is not"),
        ("env/policy.yml~", "its ending is not"),
        ("base/template.yaml.off", "its ending is not"),
    ] {
        let is_it = |message: &&String| message.contains(named) && message.contains(reason);
        assert_eq!(shown.iter().filter(is_it).count(), 1, "{named}: {shown:#?}");
    }
    let misplaced = plane
        .findings
        .iter()
        .filter(|one| one.code == "misplaced-object");
    let misplaced: Vec<String> = misplaced
        .map(|one| format!("{:?} {}", one.location, one.message))
        .collect();
    assert_eq!(misplaced.len(), 1, "{misplaced:?}");
    assert!(
        misplaced[0].contains("env/.environments/policy.yaml:3:"),
        "{misplaced:?}"
    );
    assert!(
        misplaced[0].contains("DeliveryPolicy `all` is not read"),
        "{misplaced:?}"
    );
    assert_eq!(shown.len(), 5, "{shown:#?}");
}

#[test]
fn an_object_in_a_file_with_a_mistyped_ending_or_that_of_settings_is_named() {
    let root = tempfile::tempdir().unwrap();
    folders(root.path());
    let object = format!("# mine\n{GROUP}kind: Site\n");
    let meant = ["a.ymal", "b.yam", "c.jsn", "d.conf", "e.cfg"];
    for name in meant {
        write(&root.path().join("env").join(name), &object);
    }
    // What only writes about one, and what is of another kind.
    write(
        &root.path().join("env/notes.conf"),
        "Begin with `apiVersion: outhaul.dev/v1alpha1`.\n",
    );
    write(&root.path().join("env/main.rs"), &object);
    let (plane, _) = load(&request(root.path())).unwrap();
    let shown = plane.findings.to_string();
    assert_eq!(plane.findings.iter().count(), meant.len(), "{shown}");
    for name in meant {
        assert!(
            shown.contains(&format!("env/{name}` has an object")),
            "{name}: {shown}"
        );
    }
}

#[test]
fn a_promotion_policy_that_has_no_effect_is_named_wherever_it_lies() {
    let root = tempfile::tempdir().unwrap();
    folders(root.path());
    let policy = |name: &str| {
        format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: PromotionPolicy\nmetadata: {{name: {name}}}\nspec: {{from: dev, to: stage}}\n"
        )
    };
    write(&root.path().join("env/policy.yaml"), &policy("own"));
    write(&root.path().join("base/policy.yaml"), &policy("based"));
    write(
        &root.path().join("base/.environments/policy.yaml"),
        &policy("right"),
    );
    let (plane, _) = load(&request(root.path())).unwrap();
    let found = plane
        .findings
        .iter()
        .map(|one| (one.code, one.message.as_str()));
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            (
                "misplaced-policy",
                "promotion policy `based` does not lie beside the environments: it has no effect"
            ),
            (
                "misplaced-policy",
                "promotion policy `own` is an environment's own: it has no effect"
            ),
        ]
    );
}

#[test]
fn a_schema_that_is_written_for_editors_is_no_object() {
    let root = tempfile::tempdir().unwrap();
    folders(root.path());
    for (name, schema) in outhaul_control::schema::files() {
        let text = serde_json::to_string_pretty(&schema).unwrap();
        write(&root.path().join("env/.schemas").join(name), &text);
        let text = serde_json::to_string(&schema).unwrap();
        write(&root.path().join("env/outhaul.schema.json"), &text);
    }
    // An object may name its schema.
    let object = "{\"$schema\": \".schemas/x.json\", \"apiVersion\": \"outhaul.dev/v1alpha1\", \"kind\": \"X\"}";
    write(&root.path().join("env/object.json"), object);
    let (plane, _) = load(&request(root.path())).unwrap();
    let shown = plane.findings.to_string();
    assert_eq!(plane.findings.iter().count(), 1, "{shown}");
    assert!(shown.contains("env/object.json"), "{shown}");
}

#[test]
fn a_file_that_is_not_read_and_cannot_be_looked_at_keeps_nothing_else_from_being_looked_at() {
    let root = tempfile::tempdir().unwrap();
    // More than may be read, so that a user who may read everything is refused, too.
    let large = fs::File::create(root.path().join("notes.json")).unwrap();
    large
        .set_len(TreeLimits::PAYLOAD.max_file_bytes + 1)
        .unwrap();
    write(&root.path().join("template.yaml.off"), GROUP);
    let opened = source::open_plain(root.path(), "", Some("c")).unwrap();
    let below = ["notes.json", "template.yaml.off"].map(str::to_owned);
    let found = unread::of_our_kinds(&opened, "", below.into(), &str::to_owned);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].message.contains("template.yaml.off"), "{found:?}");
}

#[test]
fn a_list_of_objects_is_named_and_what_is_not_looked_at_is_counted() {
    let root = tempfile::tempdir().unwrap();
    let of = |names: &[String]| {
        let opened = source::open_plain(root.path(), "", Some("c")).unwrap();
        let below = names.iter().cloned().collect();
        let found = unread::of_our_kinds(&opened, "", below, &str::to_owned);
        found.into_iter().map(|one| one.message).collect::<Vec<_>>()
    };
    let list = r#"{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "outhaul.dev/v1alpha1"}]}"#;
    write(&root.path().join("list.json"), list);
    let found = of(&["list.json".to_owned()]);
    assert!(
        matches!(found.as_slice(), [one] if one.contains("list.json")),
        "{found:?}"
    );
    write(
        &root.path().join("list.json"),
        &list.replacen('{', r#"{"$schema": "a", "#, 1),
    );
    assert_eq!(of(&["list.json".to_owned()]), [""; 0]);
    let names: Vec<String> = (10..22)
        .map(|number| format!("large-{number}.json"))
        .collect();
    for name in &names {
        let large = fs::File::create(root.path().join(name)).unwrap();
        large
            .set_len(TreeLimits::PAYLOAD.max_file_bytes + 1)
            .unwrap();
    }
    let found = of(&names);
    assert!(
        matches!(found.as_slice(), [one] if one.starts_with("12 files ")),
        "{found:?}"
    );
}

#[test]
fn a_repository_that_cannot_be_reached_is_the_environments_fault() {
    let root = tempfile::tempdir().unwrap();
    folders(root.path());
    let mut request = request(root.path());
    request.sources = SourceMap::default();
    let text = fs::read_to_string(root.path().join("base/templates.yaml")).unwrap();
    let gone = "https://nowhere.invalid/gone";
    write(
        &root.path().join("base/templates.yaml"),
        &text.replace("https://example.org/app", gone),
    );
    let (plane, snapshot) = load(&request).unwrap();
    assert!(plane.targets.is_empty() && snapshot.workloads.is_empty());
    let findings = &plane.lost["app"].findings;
    assert_eq!(
        findings.class(),
        Some(FailureClass::Environment),
        "{findings}"
    );
    let finding = findings.iter().next().unwrap();
    assert!(
        finding
            .location
            .as_ref()
            .unwrap()
            .to_string()
            .contains("templates.yaml:9:"),
        "{finding:?}"
    );
}

#[test]
fn a_workload_without_a_registration_is_left_out_aloud() {
    let root = tempfile::tempdir().unwrap();
    folders(root.path());
    write(
        &root.path().join("base/w.yaml"),
        &format!(
            "{GROUP}kind: Workload\nmetadata: {{name: lost}}\nspec: {{deploymentTargets: []}}\n"
        ),
    );
    let (plane, _) = load(&request(root.path())).unwrap();
    assert_eq!(
        plane.findings.iter().map(|d| d.code).collect::<Vec<_>>(),
        ["unregistered-workload"]
    );
}

#[test]
fn without_sites_the_schedule_and_the_snapshot_are_the_same() {
    let root = tempfile::tempdir().unwrap();
    folders(root.path());
    write(
        &root.path().join("env/policy.yaml"),
        &format!(
            "{GROUP}kind: SchedulingPolicy\nmetadata: {{name: all}}\nspec: {{deploymentTargetSelector: {{workspace: team, labelSelector: {{matchLabels: {{purpose: t}}}}}}, clusterTypeSelector: {{labelSelector: {{matchLabels: {{edge: 'true'}}}}}}}}\n"
        ),
    );
    let own = "apiVersion: outhaul.dev/v1alpha1\n";
    let site = format!("{own}kind: Site\nmetadata:\n  name: a\nspec:\n  clusterType: drone\n");
    let tug = format!(
        "{GROUP}kind: ClusterType\nmetadata: {{name: tug, labels: {{edge: 'true'}}}}\nspec: {{reconciler: flux, namespaceService: ns, configType: cm}}\n"
    );
    let sites = root.path().join("env/sites.yaml");
    write(
        &sites,
        &format!("{site}---\n{tug}---\n{}", site.replace(": a", ": b")),
    );
    let request = request(root.path());
    let (plane, snapshot) = load(&request).unwrap();
    let (without, same_snapshot) = load_to_schedule(&request).unwrap();
    assert_eq!(plane.sites.len(), 2);
    assert!(without.sites.is_empty());
    assert_eq!(snapshot, same_snapshot);
    let schedule = outhaul_plane::schedule::schedule(
        &plane,
        &outhaul_plane::schedule::SchedulerAnswers::default(),
    );
    assert_eq!(schedule.assignments.len(), 2, "{schedule:?}");
    assert_eq!(
        schedule,
        outhaul_plane::schedule::schedule(
            &without,
            &outhaul_plane::schedule::SchedulerAnswers::default()
        )
    );

    // Who may choose by sites is given them.
    let asked = LoadRequest {
        schedulers: crate::scheduler::Schedulers::parse(&["best=program".to_owned()]).unwrap(),
        ..request.clone()
    };
    assert_eq!(load_to_schedule(&asked).unwrap().0.sites.len(), 2);

    // A mistake in a site is reported by both.
    write(&sites, &site.replace("clusterType", "clusterTyp"));
    assert_eq!(
        load(&request).unwrap_err(),
        load_to_schedule(&request).unwrap_err()
    );
}

#[test]
fn the_repositories_of_manifests_are_named_once_with_their_commits_or_why_there_is_none() {
    let root = tempfile::tempdir().unwrap();
    folders(root.path());
    let target = |name: &str, manifests: &str| {
        format!("  - {{name: {name}, environment: dev, manifests: {{{manifests}}}}}\n")
    };
    let here = "repo: 'https://example.org/app'";
    let targets = [
        target("a", here),
        target("b", here),
        target("c", "repo: 'https://example.org/gone', branch: stable"),
        target("d", ""),
    ];
    write(
        &root.path().join("app/workload/w.yaml"),
        &format!(
            "{GROUP}kind: Workload\nmetadata: {{name: hello}}\nspec:\n  deploymentTargets:\n{}",
            targets.concat()
        ),
    );
    let mut request = request(root.path());
    let gone = root.path().join("gone");
    fs::create_dir_all(&gone).unwrap();
    let map = |url: &str, folder: &Path| format!("{url}={}", folder.display());
    request.sources = SourceMap::parse(&[
        map("https://example.org/app.git", &root.path().join("app")),
        map("https://example.org/gone", &gone),
    ])
    .unwrap();
    let loaded = pipeline::load(&request, None).unwrap();
    fs::remove_dir(&gone).unwrap();
    let found = payload_sources(&loaded);
    let told: Vec<_> = found
        .iter()
        .map(|one| (one.repo.as_str(), &one.reference, one.commit.is_ok()))
        .collect();
    let stable = GitReference::Branch("stable".to_owned());
    assert_eq!(
        told,
        [
            ("https://example.org/app", &GitReference::Head, true),
            ("https://example.org/gone", &stable, false),
        ]
    );
}
