//! Charts as `helm create` and others write them, and which images of them travel.
use super::*;
use outhaul_test_planes::fields::image_field;

/// An archive with these files below `app/`.
pub(crate) fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(
        Vec::new(),
        flate2::Compression::fast(),
    ));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, format!("app/{path}"), text.as_bytes())
            .unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

const CHART: &str = "apiVersion: v2\nname: app\nversion: 1.2.3\nappVersion: 1.16.0\n";

fn found(files: &[(&str, &str)], values: &str) -> ChartImages {
    let chart = Chart::read(&archive(files)).unwrap();
    let release = Release {
        values: values.to_owned(),
        ..Release::default()
    };
    images(&chart, Some(&release))
}

fn sorted(found: &ChartImages) -> Vec<&str> {
    found.images.iter().map(String::as_str).collect()
}

#[test]
fn the_shapes_that_charts_use_are_found_and_a_release_s_values_count() {
    let values = "
image: {repository: nginx, tag: '', pullPolicy: IfNotPresent}
sidecar:
  image: {registry: quay.io, repository: team/side, tag: 1.27}
digested:
  image: {repository: ghcr.io/team/d, digest: 'sha256:aa', tag: v1}
whole: {image: 'ghcr.io/team/whole:3'}
beside: {image: ghcr.io/team/beside, imageTag: v4}
initImage: busybox:1
list:
- image: {repository: ghcr.io/team/listed, tag: a}
repository: https://git.example/x
";
    let found = found(
        &[("Chart.yaml", CHART), ("values.yaml", values)],
        r#"{"sidecar": {"image": {"tag": "2"}}, "initImage": null}"#,
    );
    assert_eq!(
        sorted(&found),
        [
            "ghcr.io/team/beside:v4",
            "ghcr.io/team/d:v1@sha256:aa",
            "ghcr.io/team/listed:a",
            "ghcr.io/team/whole:3",
            "nginx:1.16.0",
            "quay.io/team/side:2",
        ]
    );
    assert_eq!(found.unknown, BTreeSet::new());
}

#[test]
fn what_is_switched_off_is_named_and_charts_below_follow_their_condition() {
    let values = "
global: {imageRegistry: mirror.example}
metrics: {enabled: false, image: {repository: team/metrics, tag: '1'}}
on: {enabled: false}
off: {enabled: false}
renamed: {image: {tag: '9'}}
";
    let chart = format!(
        "{CHART}dependencies:\n- {{name: on, condition: on.enabled}}\n- {{name: off, condition: off.enabled}}\n\
         - {{name: sub, alias: renamed}}\n"
    );
    let below =
        |name: &str| format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\nappVersion: '5'\n");
    let image = "image: {repository: team/below, tag: ''}\n";
    let files = [
        ("Chart.yaml", chart.as_str()),
        ("values.yaml", values),
        ("charts/on/Chart.yaml", &below("on")),
        ("charts/on/values.yaml", image),
        ("charts/off/Chart.yaml", &below("off")),
        (
            "charts/off/values.yaml",
            "image: {repository: team/off, tag: '1'}\n",
        ),
        ("charts/sub/Chart.yaml", &below("sub")),
        ("charts/sub/values.yaml", image),
    ];
    let found = found(&files, r#"{"on": {"enabled": true}}"#);
    let all = ["mirror.example/team/below:5", "mirror.example/team/below:9"];
    assert_eq!(sorted(&found), all);
    let unknown: Vec<&String> = found.unknown.iter().collect();
    assert_eq!(
        unknown,
        ["the images of `metrics` are left out, since `metrics.enabled` is false"]
    );
}

#[test]
fn templates_give_what_they_write_and_name_what_only_helm_could_fill_in() {
    let helpers = "{{- define \"app.image\" -}}\n{{ .Values.image.repository }}:{{ .Values.image.tag }}\n{{- end }}\n";
    let pod = "
containers:
- name: a
  image: {{ include \"app.image\" . }}
- name: b
  image: \"ghcr.io/team/fixed:2\" # as it is
- image: {{ .Values.other.name }}:{{ .Values.other.tag }}
- image: {{ $computed }}
";
    let files = [
        ("Chart.yaml", CHART),
        ("values.yaml", "image: {repository: team/app, tag: '1'}\n"),
        ("templates/_helpers.tpl", helpers),
        ("templates/pod.yaml", pod),
        ("templates/tests/test.yaml", "image: busybox\n"),
    ];
    let found = found(&files, "");
    assert_eq!(sorted(&found), ["ghcr.io/team/fixed:2", "team/app:1"]);
    let unknown: Vec<&String> = found.unknown.iter().collect();
    assert_eq!(unknown.len(), 2, "{unknown:?}");
    assert!(
        unknown[0].contains("`{{ $computed }}` is (templates/pod.yaml, line 8)"),
        "{unknown:?}"
    );
    // Where a release runs the tests of its chart, what they need travels.
    let chart = Chart::read(&archive(&files)).unwrap();
    let release = Release {
        tests: true,
        elsewhere: vec!["values of the ConfigMap `more`".to_owned()],
        ..Release::default()
    };
    let found = images(&chart, Some(&release));
    assert!(found.images.contains("busybox"));
    assert!(
        found
            .unknown
            .iter()
            .any(|what| what.contains("ConfigMap `more`"))
    );
}

#[test]
fn what_is_no_chart_is_refused_in_words_and_unpacks_to_no_more_than_its_bound() {
    let problem = |bytes: &[u8]| Chart::read(bytes).unwrap_err();
    assert!(problem(b"<html>").contains("does not unpack"));
    assert!(problem(&archive(&[("values.yaml", "")])).contains("has no `Chart.yaml`"));
    assert!(problem(&archive(&[("Chart.yaml", "version: 1.0.0\n")])).contains("has no name"));
    assert!(problem(&archive(&[("Chart.yaml", "name: app\n")])).contains("has no version"));
    let long = "#".repeat(5 << 20);
    let large = problem(&archive(&[("Chart.yaml", CHART), ("values.yaml", &long)]));
    assert!(large.contains("more than 4194304 bytes"), "{large}");
    let many = "x".repeat(3 << 20);
    let names: Vec<String> = (0..30).map(|n| format!("files/{n}")).collect();
    let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), &*many)).collect();
    files.push(("Chart.yaml", CHART));
    let bomb = problem(&archive(&files));
    assert!(bomb.contains("more than 67108864 bytes unpacked"), "{bomb}");
    // Values that no one can read are named, and the chart travels.
    let found = found(&[("Chart.yaml", CHART), ("values.yaml", "a: [\n")], "");
    assert!(
        found
            .unknown
            .iter()
            .any(|what| what.contains("`values.yaml` that cannot be read"))
    );
}

#[test]
fn what_looks_like_an_image_in_values_or_in_what_a_chart_makes_is_named() {
    let values =
        "image: {repository: team/app, tag: '1'}\nargs: [--reloader=quay.io/press/reloader:2]\n";
    let files = [("Chart.yaml", CHART), ("values.yaml", values)];
    let mut found = found(&files, "");
    let named =
        |found: &ChartImages, start: &str| found.unknown.iter().any(|what| what.starts_with(start));
    let reloader = "`quay.io/press/reloader:2` in `args[*]` of its values looks like an image";
    assert!(named(&found, reloader), "{:?}", found.unknown);
    let press = "apiVersion: press.example/v1\nkind: Press\nspec: {ink: quay.io/press/ink:1, head: quay.io/press/head:1}\n";
    let field = image_field("press.example/v1", "Press", "spec.ink", false);
    found.as_rendered(press.as_bytes(), &[field]);
    assert_eq!(sorted(&found), ["quay.io/press/ink:1"]);
    let head = "`quay.io/press/head:1` in `spec.head` of its `Press` looks like an image";
    assert!(named(&found, head), "{:?}", found.unknown);
    assert_eq!(found.unknown.len(), 1, "{:?}", found.unknown);
}
