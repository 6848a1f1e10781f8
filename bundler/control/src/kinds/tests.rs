//! Kinds: what is read, what is refused, and what is reported to people.

use super::super::model::{Language, TemplateType};
use super::*;

fn read(text: &str) -> (Vec<Object>, Diagnostics) {
    let file = Arc::new(SourceFile {
        name: "x.yaml".into(),
        text: text.into(),
    });
    let mut findings = Diagnostics::new();
    let objects = read_file(&file, &mut findings);
    (objects, findings)
}

fn findings(text: &str) -> Vec<String> {
    let line = |d: &Diagnostic| {
        let place = d
            .location
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        format!(
            "{place} {} {} {}",
            d.code,
            d.message,
            d.help.as_deref().unwrap_or_default()
        )
    };
    read(text).1.iter().map(line).collect()
}

const CLUSTER_TYPE: &str = "apiVersion: scheduler.kalypso.io/v1alpha1
kind: ClusterType
metadata:
  name: drone
  labels:
    region: east-us
    edge: \"true\"
spec:
  reconciler: arc-flux
  namespaceService: default
  configType: configmap
";

#[test]
fn a_cluster_type_keeps_its_labels_and_places() {
    let (objects, findings) = read(CLUSTER_TYPE);
    assert!(findings.is_empty(), "{findings}");
    let [Object::ClusterType(cluster_type)] = objects.as_slice() else {
        panic!("{objects:?}")
    };
    assert_eq!(cluster_type.labels["edge"], "true");
    assert_eq!(cluster_type.reconciler.location.to_string(), "x.yaml:9:15");
}

#[test]
fn everything_that_is_wrong_is_reported_at_once() {
    let text = CLUSTER_TYPE
        .replace("reconciler:", "reconcilr:")
        .replace("\"true\"", "true")
        .replace("name: drone", "name: Drone One");
    assert_eq!(
        findings(&text),
        [
            "x.yaml:7:11 wrong-type `ClusterType.metadata.labels.edge` must be text quote it: \"true\"",
            "x.yaml:4:9 bad-name `Drone One` is not a name use lower-case letters, digits, `-` and `.`, at most 253, first and last a letter or digit",
            "x.yaml:9:3 unknown-field unknown field `reconcilr` did you mean `reconciler`?",
        ]
    );
}

#[test]
fn other_objects_are_none_of_our_business_and_near_misses_are() {
    assert!(findings("apiVersion: apps/v1\nkind: Deployment\nspec: {anything: 1}\n").is_empty());
    assert!(findings("a: 1\n").is_empty());
    let text = CLUSTER_TYPE.replace("kind: ClusterType", "kind: ClusterTyp");
    assert_eq!(
        findings(&text),
        [
            "x.yaml:2:7 unknown-kind `scheduler.kalypso.io/v1alpha1` has no kind `ClusterTyp` did you mean `ClusterType`?"
        ]
    );
    let text = CLUSTER_TYPE.replace("v1alpha1", "v1");
    assert!(
        findings(&text)[0].contains("unknown-version"),
        "{:?}",
        findings(&text)
    );
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n- {}",
        CLUSTER_TYPE.replace('\n', "\n  ")
    );
    assert_eq!(read(&list).0.len(), 1);
}

#[test]
fn a_configmap_is_ours_only_when_it_says_so() {
    let map = |metadata: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}\ndata: {{A: b}}\n")
    };
    for (metadata, count) in [
        ("{name: a, labels: {platform-config: 'true'}}", 1),
        ("{name: a, labels: {platform-config: 'false'}}", 0),
        ("{name: a}", 0),
        ("{name: azure-app-config-1}", 1),
    ] {
        let (objects, findings) = read(&map(metadata));
        assert_eq!(
            (objects.len(), findings.is_empty()),
            (count, true),
            "{metadata}: {findings}"
        );
    }
    let unquoted = map("{name: a, labels: {platform-config: true}}");
    assert!(findings(&unquoted)[0].contains("quote it"));
    let number = map("{name: a, labels: {platform-config: 'true'}}").replace("A: b", "A: 1");
    assert!(findings(&number)[0].contains("`ConfigMap.data.A` must be text"));
}

#[test]
fn an_unsound_selector_never_matches_everything() {
    let policy = |expression: &str| {
        format!(
            "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: SchedulingPolicy\nmetadata: {{name: p}}\nspec:\n  \
             deploymentTargetSelector: {{workspace: w}}\n  clusterTypeSelector:\n    labelSelector: {expression}\n"
        )
    };
    for sound in [
        "{}",
        "{matchLabels: {a: b}}",
        "{matchExpressions: [{key: a, operator: Exists}]}",
    ] {
        assert_eq!(read(&policy(sound)).0.len(), 1, "{sound}");
    }
    for unsound in [
        "{matchLabels: {a: 1}}",
        "{matchLabels: [a]}",
        "{matchLabels: {'a b': c}}",
        "{matchLabel: {a: b}}",
        "{matchExpressions: [{key: a, operator: in, values: [b]}]}",
        "{matchExpressions: [{operator: Exists}]}",
        "{matchExpressions: [{key: a, operator: In, values: []}]}",
    ] {
        let (_, findings) = read(&policy(unsound));
        assert!(findings.has_errors(), "{unsound}");
    }
}

#[test]
fn template_text_is_never_typed_as_yaml() {
    let text = "apiVersion: outhaul.dev/v1alpha1\nkind: Template\nmetadata: {name: t}\nspec:\n  type: config\n  \
                reconciler: ansible\n  manifests:\n  - |\n    a: {{ x }}\n  - 'true'\n";
    let (objects, findings) = read(text);
    assert!(findings.is_empty(), "{findings}");
    let [Object::Template(template)] = objects.as_slice() else {
        panic!("{objects:?}")
    };
    assert_eq!(template.language, Language::Jinja);
    assert_eq!(template.kind, TemplateType::Config);
    assert_eq!(template.manifests[1].value, "true");
    // Any name is one; one that is nearly another gets a warning.
    let (objects, findings) = read(&text.replace("ansible", "ansibel"));
    assert!(!findings.has_errors() && !objects.is_empty(), "{findings}");
    let near = self::findings(&text.replace("ansible", "ansibel"));
    assert!(near[0].contains("did you mean `ansible`?"), "{near:?}");
    let kind = |text: &str| {
        let (objects, findings) = read(text);
        assert!(findings.is_empty(), "{findings}");
        let [Object::Template(template)] = objects.as_slice() else {
            panic!("{objects:?}")
        };
        template.reconciler_kind().as_str().to_owned()
    };
    assert_eq!(kind(&text.replace("ansible", "symphony")), "symphony");
    let none = self::findings(&text.replace("ansible", "../symphony"));
    assert!(
        none[0].contains("is not the name of a reconciler"),
        "{none:?}"
    );
    // Kalypso's templates have no such field.
    let go = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Template\nmetadata:\n  name: t\n  \
              labels: {outhaul.dev/reconciler: symphony}\nspec:\n  type: reconciler\n  manifests: ['a: b']\n";
    assert_eq!(kind(go), "symphony");
    assert_eq!(
        kind(&go.replace("outhaul.dev/reconciler: symphony", "")),
        "folder"
    );
}

#[test]
fn a_content_type_that_nobody_knows_is_reported() {
    let own = |ending: &str| {
        self::findings(&format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: Template\nmetadata: {{name: t}}\nspec:\n  type: config\n  \
             contentType: {ending}\n  manifests: ['a: b']\n"
        ))
    };
    for sound in ["yaml", "sh", "json", "service", "tar.gz", "rules"] {
        assert_eq!(own(sound), Vec::<String>::new(), "{sound}");
    }
    for (slip, meant) in [
        ("jsn", "json"),
        ("yam", "yaml"),
        ("propertes", "properties"),
    ] {
        let found = own(slip);
        assert!(
            found[0].contains(&format!("did you mean `{meant}`?")),
            "{found:?}"
        );
    }
    let kalypso = |word: &str| {
        self::findings(&format!(
            "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Template\nmetadata: {{name: t}}\nspec:\n  type: \
             config\n  contentType: {word}\n  manifests: ['a: b']\n"
        ))
    };
    assert_eq!(kalypso("sh"), Vec::<String>::new());
    assert_eq!(kalypso("yaml"), Vec::<String>::new());
    let found = kalypso("json");
    assert!(
        found[0].contains("the files are treated as YAML"),
        "{found:?}"
    );
}

#[test]
fn a_file_that_was_emptied_is_reported_and_remarks_alone_are_not() {
    for emptied in ["", "\n", "  \n\n"] {
        let found = self::findings(emptied);
        assert!(found[0].contains("this file is empty"), "{found:?}");
    }
    assert_eq!(self::findings("# nothing here yet\n"), Vec::<String>::new());
}

#[test]
fn a_delivery_policy_with_a_mistake_is_told_of_that_alone() {
    let found = |fields: &str| {
        self::findings(&format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: DeliveryPolicy\nmetadata: {{name: all}}\nspec:\n  \
             clusterTypeSelector: {{labelSelector: {{}}}}\n{fields}"
        ))
    };
    for (fields, expected) in [
        ("", "sets no field"),
        (
            "  encryption:\n",
            "`DeliveryPolicy.spec.encryption` has no value",
        ),
        ("  scan: ''\n", "is not the name of a scanner"),
        ("  scan: ' '\n", "is not the name of a scanner"),
    ] {
        let shown = found(fields);
        assert_eq!(shown.len(), 1, "{shown:?}");
        assert!(shown[0].contains(expected), "{shown:?}");
    }
    assert!(found("  scan: ''\n")[0].contains("--scanner NAME=PROGRAM"));
    assert_eq!(found("  scan: grype\n"), Vec::<String>::new());
}

#[test]
fn fields_with_images_that_contradict_or_repeat_each_other_are_named() {
    let policy = |entries: &str| {
        format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: DeliveryPolicy\nmetadata:\n  name: images\nspec:\n  \
             clusterTypeSelector:\n    labelSelector: {{}}\n  imageFields:\n{entries}"
        )
    };
    let entry = |version: &str, more: &str| {
        format!(
            "    - {{apiVersion: press.example/{version}, kind: Press, path: spec.ink{more}}}\n"
        )
    };
    let all = |entries: &[String]| findings(&policy(&entries.concat()));
    let ignored = ", ignore: true";
    for (entries, line, parts) in [
        (
            [entry("v1", ""), entry("v1", "")],
            "twice",
            ["remove one of the two entries", ""],
        ),
        (
            [entry("v1", ""), entry("*", "")],
            "twice",
            [
                "remove the entry for `press.example/v1`",
                "`press.example/*` includes it",
            ],
        ),
        (
            [entry("*", ""), entry("v1", "")],
            "twice",
            [
                "remove the entry for `press.example/v1`",
                "`press.example/*` includes it",
            ],
        ),
        (
            [entry("v1", ""), entry("v1", ignored)],
            "the entry without `ignore` counts",
            ["holds an image, remove the entry with `ignore: true`", ""],
        ),
        (
            [entry("v1", ""), entry("*", ignored)],
            "the entry without `ignore` counts",
            [
                "if no version holds an image, remove the entry for `press.example/v1`",
                "",
            ],
        ),
        (
            [entry("v1", ignored), entry("*", "")],
            "the entry without `ignore` counts",
            [
                "remove the entry for `press.example/v1`, which has no effect",
                "",
            ],
        ),
    ] {
        let found = all(&entries);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("x.yaml:10:"), "{found:?}");
        // Commits that were rendered with it can be rendered again.
        let text = policy(&entries.concat());
        assert!(!read(&text).1.has_errors(), "{found:?}");
        for part in [" no-effect ", line].iter().chain(&parts) {
            assert!(found[0].contains(part), "{part}: {found:?}");
        }
    }
    assert!(all(&[entry("v1", ""), entry("v2", ", ignore: true")]).is_empty());
}
