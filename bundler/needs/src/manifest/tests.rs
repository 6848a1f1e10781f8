//! Manifests as people write them, and what of them needs a network: each image and source with its place.
use super::*;

fn found(text: &str) -> Vec<String> {
    let needs = Needs::of("app/deployment.yaml", text.as_bytes());
    let shown = |(need, at): &(Need, Location)| format!("{at} {need:?}");
    together(vec![needs]).iter().map(shown).collect()
}

#[test]
fn images_of_every_built_in_kind_of_pod_are_found_with_their_line() {
    let text = r"
apiVersion: batch/v1
kind: CronJob
metadata: {name: night}
spec:
  jobTemplate:
    spec:
      template:
        spec:
          initContainers:
            - {name: wait, image: busybox}
          containers:
            - name: run
              image: registry.example:5000/team/run:1.2@sha256:aa
          ephemeralContainers:
            - {name: debug, image: 'ghcr.io/team/debug:1'}
          volumes:
            - name: model
              image: {reference: 'ghcr.io/team/model:3', pullPolicy: IfNotPresent}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data: {image: not-one}
";
    let all = found(text);
    assert_eq!(
        all,
        [
            r#"app/deployment.yaml:11:35 Image("busybox")"#,
            r#"app/deployment.yaml:14:22 Image("registry.example:5000/team/run:1.2@sha256:aa")"#,
            r#"app/deployment.yaml:16:36 Image("ghcr.io/team/debug:1")"#,
            r#"app/deployment.yaml:19:34 Image("ghcr.io/team/model:3")"#,
        ]
    );
    for kind in [
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "ReplicaSet",
        "Job",
    ] {
        let text = format!(
            "apiVersion: apps/v1\nkind: {kind}\nspec:\n  template:\n    spec:\n      containers:\n      - name: a\n        image: a:1\n"
        );
        assert_eq!(found(&text).len(), 1, "{kind}");
    }
    let pod = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    image: a:1\n";
    assert_eq!(found(pod).len(), 1);
}

#[test]
fn what_kustomize_puts_in_the_place_of_an_image_is_what_is_needed() {
    let kustomization = "images:\n- name: nginx\n  newName: registry.example/nginx\n  newTag: '1.27'\n- name: redis\n  digest: sha256:bb\n";
    let pod = "kind: Pod\nspec:\n  containers:\n  - {name: a, image: 'nginx:1.0'}\n  - {name: b, image: 'redis:7'}\n  - {name: c, image: other}\n";
    let all = together(vec![
        Needs::of("deploy/kustomization.yaml", kustomization.as_bytes()),
        Needs::of("deploy/pod.yaml", pod.as_bytes()),
    ]);
    let images: Vec<&str> = all.iter().map(|(need, _)| need.text()).collect();
    assert_eq!(
        images,
        ["registry.example/nginx:1.27", "redis@sha256:bb", "other"]
    );
}

#[test]
fn sources_of_flux_argo_cd_and_fleet_are_found_with_what_they_ask_for() {
    let flux = |reference: &str| {
        let text = format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nspec:\n  url: https://g.example/r\n{reference}"
        );
        let needs = Needs::of("a.yaml", text.as_bytes());
        needs.all.into_iter().next().unwrap().0
    };
    let need = |revision| Need::Repository("https://g.example/r".to_owned(), revision);
    assert_eq!(flux(""), need(Revision::Branch("master".into())));
    assert_eq!(
        flux("  ref: {branch: main}\n"),
        need(Revision::Branch("main".into()))
    );
    assert_eq!(
        flux("  ref: {tag: v1, branch: main}\n"),
        need(Revision::Tag("v1".into()))
    );
    assert_eq!(
        flux("  ref: {semver: '>=1', tag: v1}\n"),
        need(Revision::Other(">=1".into()))
    );
    assert_eq!(
        flux("  ref: {name: refs/heads/x}\n"),
        need(Revision::Branch("x".into()))
    );
    let text = r"
apiVersion: argoproj.io/v1alpha1
kind: Application
spec:
  sources:
  - {repoURL: 'https://g.example/r', targetRevision: HEAD}
  - {repoURL: 'https://charts.example', chart: redis, targetRevision: 1.0.0}
  - {repoURL: 'https://g.example/s', targetRevision: main}
---
apiVersion: fleet.cattle.io/v1alpha1
kind: GitRepo
spec: {repo: 'https://g.example/t', branch: main}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
spec: {url: 'https://charts.example'}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
spec: {url: 'oci://ghcr.io/team/app'}
";
    let needs = together(vec![Needs::of("a.yaml", text.as_bytes())]);
    let needs: Vec<Need> = needs.into_iter().map(|(need, _)| need).collect();
    let source = |url: &str| Need::Source(url.to_owned());
    assert_eq!(
        needs,
        [
            need(Revision::Head),
            Need::Repository("https://g.example/s".into(), Revision::Named("main".into())),
            Need::Repository(
                "https://g.example/t".into(),
                Revision::Branch("main".into())
            ),
            Need::Artifact {
                url: "oci://ghcr.io/team/app".into(),
                name: "ghcr.io/team/app:latest".into(),
                release: None,
            },
            Need::Chart {
                url: "https://charts.example".into(),
                chart: "redis".into(),
                version: "1.0.0".into(),
                name: "charts.example/index.yaml/redis:1.0.0".into(),
                release: Some(Release::default()),
            },
            // A repository of which no chart is asked for here.
            source("https://charts.example"),
        ]
    );
}

#[test]
fn a_chart_of_a_registry_is_its_artifact_and_a_range_of_versions_is_its_source() {
    let charts = |version: &str| {
        let repository = r"
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: charts, namespace: a}
spec: {type: oci, url: 'oci://ghcr.io/team/charts'}
";
        let release = format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: app, namespace: a}}\n\
             spec: {{chart: {{spec: {{chart: app, version: '{version}', \
             sourceRef: {{kind: HelmRepository, name: charts}}}}}}}}\n"
        );
        let files = [("a.yaml", repository), ("b.yaml", &release)];
        let files = files.map(|(name, text)| Needs::of(name, text.as_bytes()));
        let needs = together(files.into());
        let needs: Vec<Need> = needs.into_iter().map(|(need, _)| need).collect();
        needs
    };
    let url = "oci://ghcr.io/team/charts".to_owned();
    let name = "ghcr.io/team/charts/app:1.2.3_build.1".to_owned();
    let release = Some(Release {
        namespace: Some("a".into()),
        name: "app".into(),
        ..Release::default()
    });
    assert_eq!(
        charts("1.2.3+build.1"),
        [Need::Artifact {
            url: url.clone(),
            name,
            release,
        }]
    );
    assert_eq!(charts(">=1.2.0"), [Need::Source(url.clone())]);
    assert_eq!(charts("1.x"), [Need::Source(url)]);
}

#[test]
fn a_chart_of_a_chart_repository_is_asked_for_with_its_values_and_patches_count() {
    let repository = r"
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: charts}
spec: {url: 'https://Charts.example:8443/Stable/'}
";
    let release = r"
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: app, namespace: a}
spec:
  chart: {spec: {chart: app, version: 1.2.3+x, sourceRef: {kind: HelmRepository, name: charts}}}
  values: {image: {tag: 1.27}}
  valuesFrom: [{kind: ConfigMap, name: more}]
";
    let patch = r"
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: app}
spec: {chart: {spec: {version: ^1.3}}}
";
    let files = [
        ("r.yaml", repository),
        ("a.yaml", release),
        ("p.yaml", patch),
    ];
    let files = files.map(|(name, text)| Needs::of(name, text.as_bytes()));
    let needs = together(files.into());
    assert_eq!(needs.len(), 2, "{needs:?}");
    let Need::Chart {
        url,
        chart,
        version,
        name,
        release,
    } = &needs[0].0
    else {
        panic!("{needs:?}");
    };
    assert_eq!(url, "https://Charts.example:8443/Stable/");
    assert_eq!((&**chart, &**version), ("app", "1.2.3+x"));
    // A registry takes no capitals in a name.
    assert!(name.starts_with("charts.example:8443/stablex"), "{name}");
    assert!(name.ends_with("/index.yaml/app:1.2.3_x"), "{name}");
    let release = release.as_ref().unwrap();
    assert_eq!(release.values, r#"{"image":{"tag":1.27}}"#);
    assert_eq!(release.elsewhere, ["values of the ConfigMap `more`"]);
    assert_eq!(needs[0].1.to_string(), "a.yaml:6:25");
    assert!(matches!(&needs[1].0, Need::Chart { version, .. } if version == "^1.3"));

    // What nothing here describes is not left out in silence.
    let alone = together(vec![Needs::of(
        "a.yaml",
        b"apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\n\
        metadata: {name: b}\nspec: {chartRef: {kind: OCIRepository, name: x}}\n",
    )]);
    let expected =
        "its chart is of the OCIRepository `x`, which no file here describes with one version";
    assert_eq!(alone[0].0, Need::Unknown(expected.into()));
}

#[test]
fn an_artifact_of_an_application_is_what_its_one_revision_names() {
    let of = |revision: &str| {
        let text = format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: a}}\nspec: {{source: {{repoURL: \
             'oci://ghcr.io/team/app', path: ., targetRevision: '{revision}'}}}}\n"
        );
        let needs = together(vec![Needs::of("a.yaml", text.as_bytes())]);
        needs.into_iter().map(|(need, _)| need).collect::<Vec<_>>()
    };
    let artifact = |name: &str| {
        [Need::Artifact {
            url: "oci://ghcr.io/team/app".into(),
            name: name.to_owned(),
            release: None,
        }]
    };
    let digest = format!("sha256:{}", "0".repeat(64));
    assert_eq!(of("1.2.3"), artifact("ghcr.io/team/app:1.2.3"));
    assert_eq!(of(&digest), artifact(&format!("ghcr.io/team/app@{digest}")));
    for range in ["1.x || 2", ">=1.0.0", "HEAD", "*"] {
        let source = Need::Source("oci://ghcr.io/team/app".into());
        assert_eq!(of(range), [source], "{range}");
    }
}
