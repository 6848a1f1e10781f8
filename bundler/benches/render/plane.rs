//! The control plane that is rendered: 100 workloads, 200 cluster types, 300 config containers.
//!
//! What comes in: a folder, and how many sites there are to be. What goes out: the files of a control
//! plane in it, with templates as Kalypso's users write them. The same every time.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Workloads, each with one target.
pub const WORKLOADS: usize = 100;
/// Cluster types; every workload runs on each of them.
pub const CLUSTER_TYPES: usize = 200;
const REGIONS: usize = 19;

fn write(at: &Path, path: &str, text: &str) {
    let path = at.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Writes everything.
pub fn write_control_plane(at: &Path, sites: usize) {
    write(at, "main/templates.yaml", TEMPLATES);
    write(
        at,
        "main/apps.yaml",
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: WorkloadRegistration\nmetadata:\n  name: apps\nspec:\n  \
         workspace: factory\n  workload:\n    repo: https://git.example.org/apps\n    branch: main\n    path: .\n",
    );
    let mut text = String::new();
    for number in 0..WORKLOADS {
        write!(
            text,
            "---\napiVersion: scheduler.kalypso.io/v1alpha1\nkind: Workload\nmetadata:\n  name: app-{number:03}\n\
             spec:\n  deploymentTargets:\n    - name: live\n      environment: prod\n      labels:\n        \
             purpose: live\n        tier: \"{}\"\n      manifests:\n        \
             repo: https://git.example.org/app-{number:03}\n        branch: prod\n        path: ./deploy/live\n",
            number % 4
        )
        .unwrap();
    }
    write(at, "apps/workloads.yaml", &text);
    write(
        at,
        "env/policy.yaml",
        "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: SchedulingPolicy\nmetadata:\n  name: everywhere\nspec:\n  \
         deploymentTargetSelector:\n    workspace: factory\n    labelSelector:\n      matchLabels:\n        \
         purpose: live\n  clusterTypeSelector:\n    labelSelector: {}\n",
    );
    let mut text = String::new();
    for number in 0..CLUSTER_TYPES {
        write!(
            text,
            "---\napiVersion: scheduler.kalypso.io/v1alpha1\nkind: ClusterType\nmetadata:\n  name: line-{number:03}\n  \
             labels:\n    region: region-{}\n    kind: edge\nspec:\n  reconciler: {}\n  namespaceService: default\n  \
             configType: configmap\n",
            number % REGIONS,
            if number % 2 == 0 { "arc-flux" } else { "argocd" }
        )
        .unwrap();
    }
    write(at, "env/types.yaml", &text);
    write(at, "env/config.yaml", &containers());
    write_sites(at, sites);
}

/// One for all, one a region, one a workload, and one for nearly every cluster type: 300.
fn containers() -> String {
    let mut text = String::new();
    let mut add = |name: &str, label: &str, keys: &[(&str, String)]| {
        write!(
            text,
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  labels:\n    \
             platform-config: \"true\"\n{label}data:\n"
        )
        .unwrap();
        for (key, value) in keys {
            writeln!(text, "  {key}: {value:?}").unwrap();
        }
    };
    let numbered = |prefix: &str, count: usize, seed: usize| -> Vec<(String, String)> {
        (0..count)
            .map(|at| {
                let value = match at % 4 {
                    0 => format!("https://{prefix}-{seed}.factory.example:8443/v1/{at}"),
                    1 => format!("{}", seed * 10 + at),
                    2 => "true".to_owned(),
                    _ => format!("{prefix} value {at} of {seed}"),
                };
                (format!("{}_{at}", prefix.to_uppercase()), value)
            })
            .collect()
    };
    let mut all = |name: String, label: String, pairs: Vec<(String, String)>| {
        let keys: Vec<(&str, String)> = pairs
            .iter()
            .map(|(key, value)| (key.as_str(), value.clone()))
            .collect();
        add(&name, &label, &keys);
    };
    all("all".into(), String::new(), numbered("common", 6, 0));
    for number in 0..REGIONS {
        let label = format!("    region: region-{number}\n");
        all(
            format!("region-{number}"),
            label,
            numbered("region", 5, number),
        );
    }
    for number in 0..WORKLOADS {
        let label = format!("    workload: app-{number:03}\n");
        all(
            format!("app-{number:03}"),
            label,
            numbered("app", 4, number),
        );
    }
    for number in 0..(300 - 1 - REGIONS - WORKLOADS) {
        let label = format!("    cluster-type: line-{number:03}\n");
        all(
            format!("line-{number:03}"),
            label,
            numbered("line", 4, number),
        );
    }
    text
}

/// Writes that many sites in the place of those that were there.
pub fn write_sites(at: &Path, count: usize) {
    let mut text = String::new();
    for number in 0..count {
        write!(
            text,
            "---\napiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata:\n  name: site-{number:05}\n  labels:\n    \
             hall: h-{}\nspec:\n  clusterType: line-{:03}\n  ring: canary\n",
            number % 50,
            number % CLUSTER_TYPES
        )
        .unwrap();
    }
    write(at, "env/sites.yaml", &text);
}

const TEMPLATES: &str = r#"apiVersion: scheduler.kalypso.io/v1alpha1
kind: Template
metadata:
  name: arc-flux
spec:
  type: reconciler
  manifests:
    - |
      apiVersion: source.toolkit.fluxcd.io/v1
      kind: GitRepository
      metadata:
        name: "{{ .DeploymentTargetName }}"
        namespace: flux-system
      spec:
        interval: 1m
        url: "{{ .Manifests.repo }}"
        ref:
          branch: "{{ .Manifests.branch }}"
        secretRef:
          name: repo-secret
    - |
      apiVersion: kustomize.toolkit.fluxcd.io/v1
      kind: Kustomization
      metadata:
        name: "{{ .DeploymentTargetName }}"
        namespace: flux-system
      spec:
        interval: 1m
        targetNamespace: "{{ .Namespace }}"
        sourceRef:
          kind: GitRepository
          name: "{{ .DeploymentTargetName }}"
        path: "{{ .Manifests.path }}"
        prune: true
---
apiVersion: scheduler.kalypso.io/v1alpha1
kind: Template
metadata:
  name: argocd
spec:
  type: reconciler
  manifests:
    - |
      apiVersion: argoproj.io/v1alpha1
      kind: Application
      metadata:
        name: "{{ .DeploymentTargetName }}"
        namespace: argocd
      spec:
        destination:
          server: https://kubernetes.default.svc
          namespace: "{{ .Namespace }}"
        project: default
        source:
          path: "{{ .Manifests.path }}"
          repoURL: "{{ .Manifests.repo }}"
          targetRevision: "{{ .Manifests.branch }}"
          directory:
            recurse: true
            include: '*.yaml'
        syncPolicy:
          automated:
            prune: true
            selfHeal: true
---
apiVersion: scheduler.kalypso.io/v1alpha1
kind: Template
metadata:
  name: default
spec:
  type: namespace
  manifests:
    - |
      apiVersion: v1
      kind: Namespace
      metadata:
        name: "{{ .Namespace }}"
        labels:
          environment: "{{ .Environment }}"
          workspace: "{{ .Workspace }}"
          workload: "{{ .Workload }}"
          deploymentTarget: "{{ .DeploymentTargetName }}"
          tier: "{{ index .Labels "tier" }}"
---
apiVersion: scheduler.kalypso.io/v1alpha1
kind: Template
metadata:
  name: configmap
spec:
  type: config
  manifests:
    - |
      apiVersion: v1
      kind: ConfigMap
      metadata:
        name: platform-config
        namespace: {{ .Namespace }}
      data:
      {{ toYaml .ConfigData | indent 2 }}
"#;
