//! The control plane that `outhaul init` writes: small, whole, and meant to be changed.
//!
//! What comes in: the plan. What goes out: the files of `main`, of each environment's branch, and of a
//! branch that stands for an application's own repository, so that everything renders before there is
//! any other repository. It is pure.

use super::object::{self, NewTarget};
use super::{Files, ScaffoldPlan};
use outhaul_control::model::composition::Precedence;
use outhaul_plane::builtin;

/// The sample application, and its branch.
pub(super) const APPLICATION: &str = "hello";
/// The team that owns it.
const WORKSPACE: &str = "hello-team";
/// The label by which workloads and cluster types find each other: how manifests get there.
const STORAGE: &str = "manifests";

/// Reconcilers of hosts: the sample runs there without a container.
const WITHOUT_IMAGES: [&str; 2] = ["folder", "ansible"];

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

/// How a reconciler gets a workload's manifests.
fn storage(plan: &ScaffoldPlan, reconciler: &str) -> &'static str {
    match reconciler {
        _ if reconciler.ends_with("-oci") => "oci",
        // No cluster takes a playbook as a manifest, so that the two have their own folders.
        "ansible" if has(plan, &OBJECTS) => PLAYBOOK,
        _ => "git",
    }
}

/// The value of the storage label for playbooks, where there are manifests for clusters, too.
const PLAYBOOK: &str = "playbook";
/// Reconcilers whose manifests, in git, are Kubernetes objects.
const OBJECTS: [&str; 6] = [
    "fleet-bundle",
    "flux-git",
    "argocd-git",
    "rancher-fleet",
    "zarf",
    "kubernetes",
];

fn has(plan: &ScaffoldPlan, names: &[&str]) -> bool {
    let mut reconcilers = plan.reconcilers.iter();
    reconcilers.any(|reconciler| names.contains(&reconciler.as_str()))
}

/// Every storage that the plan needs, each once.
fn storages(plan: &ScaffoldPlan) -> Vec<&'static str> {
    let wanted = |kind: &&str| plan.reconcilers.iter().any(|r| storage(plan, r) == *kind);
    ["git", "oci", PLAYBOOK]
        .into_iter()
        .filter(wanted)
        .collect()
}

/// The name of the cluster type for a reconciler.
fn cluster_type(plan: &ScaffoldPlan, reconciler: &str) -> String {
    if plan.reconcilers.len() == 1 {
        "edge".to_owned()
    } else {
        format!("edge-{reconciler}")
    }
}

/// The files of `main`: what is promoted.
pub(super) fn main(plan: &ScaffoldPlan) -> Files {
    let mut files = Files::new();
    files.insert("README.md".into(), readme(plan));
    let mut after = None;
    for environment in &plan.environments {
        let text = object::environment(environment, &plan.url, after);
        after = Some(environment.as_str());
        files.insert(format!(".environments/{environment}.yaml"), text);
    }
    for reconciler in &plan.reconcilers {
        let fitting = [
            reconciler.as_str(),
            builtin::namespace_for(reconciler),
            builtin::config_for(reconciler),
        ];
        for builtin in fitting.iter().filter_map(|name| builtin::find(name)) {
            files.insert(
                format!("templates/{}.yaml", builtin.name),
                builtin.text.to_owned(),
            );
        }
    }
    let registration =
        object::registration(APPLICATION, WORKSPACE, &plan.url, APPLICATION, "workload");
    files.insert(format!("workloads/{APPLICATION}.yaml"), registration);
    let common = "# Values for every assignment of every environment. A container with more labels (region, workload,\n\
        # cluster-type, deployment-target …) applies only to what has them.\n";
    let values = [
        pair("GREETING", "Hello"),
        pair("TEAM_CONTACT", "platform@example.org"),
    ];
    let common = common.to_owned() + &object::config("common", &[], &values);
    files.insert("configs/common.yaml".into(), common);
    let schema = "# What the workload needs of its config: a value that does not fit stops it, and nothing else.\n"
        .to_owned()
        + &object::config_schema(APPLICATION, &[pair("workload", APPLICATION)], SCHEMA);
    files.insert(format!("schemas/{APPLICATION}.yaml"), schema);
    files
}

const SCHEMA: &str = r#"{
  "type": "object",
  "required": ["GREETING", "ENVIRONMENT"],
  "properties": {
    "GREETING": { "type": "string", "minLength": 1, "maxLength": 40 }
  }
}"#;

/// The other branches: one per environment, based on `commit`, and the application's.
pub(super) fn branches(plan: &ScaffoldPlan, commit: Option<&str>) -> Vec<(String, Files)> {
    let environments = plan.environments.iter();
    let mut branches: Vec<_> = environments
        .map(|name| (name.clone(), environment(plan, name, commit)))
        .collect();
    branches.push((APPLICATION.to_owned(), application(plan)));
    branches
}

fn environment(plan: &ScaffoldPlan, name: &str, commit: Option<&str>) -> Files {
    let mut files = Files::new();
    files.insert(
        "base-repo.yaml".into(),
        object::base_repo(&plan.url, commit),
    );
    for reconciler in &plan.reconcilers {
        let cluster_type = cluster_type(plan, reconciler);
        let text = object::cluster_type(
            &cluster_type,
            &[pair(STORAGE, storage(plan, reconciler))],
            reconciler,
            builtin::namespace_for(reconciler),
            builtin::config_for(reconciler),
        );
        files.insert(format!("cluster-types/{cluster_type}.yaml"), text);
    }
    for kind in storages(plan) {
        let policy = match storages(plan).len() {
            1 => WORKSPACE.to_owned(),
            _ => format!("{WORKSPACE}-{kind}"),
        };
        let labels = [pair(STORAGE, kind)];
        let text = object::policy(&policy, Some(WORKSPACE), &labels, &labels);
        files.insert(format!("scheduling/{policy}.yaml"), text);
    }
    let values = [pair("ENVIRONMENT", name)];
    let config = object::config(&format!("{name}-environment"), &[], &values);
    files.insert("configs/environment.yaml".into(), config);
    if plan
        .reconcilers
        .iter()
        .any(|name| !WITHOUT_IMAGES.contains(&name.as_str()))
    {
        files.insert(
            "delivery/images.yaml".into(),
            object::images_by_reference("images"),
        );
    }
    files.insert(
        "configs/composition.yaml".into(),
        object::composition_policy("by-specificity", Precedence::Specificity),
    );
    files
}

/// What an application team's own repositories hold: a workload, and what each environment runs.
fn application(plan: &ScaffoldPlan) -> Files {
    let mut files = Files::new();
    let mut targets = Vec::new();
    for environment in &plan.environments {
        for kind in storages(plan) {
            let name = if kind == "git" {
                environment.clone()
            } else {
                format!("{environment}-{kind}")
            };
            let manifests = match kind {
                "oci" => vec![
                    pair("storage", "oci"),
                    pair("repo", "oci://registry.example.org/hello"),
                    pair("tag", "1.0.0"),
                ],
                _ => vec![
                    pair("storage", "git"),
                    pair("repo", &plan.url),
                    pair("branch", APPLICATION),
                    pair("path", &format!("manifests/{name}")),
                ],
            };
            targets.push(NewTarget {
                name,
                environment: environment.clone(),
                labels: vec![pair(STORAGE, kind)],
                manifests,
            });
        }
        let mut put = |folder: &str, path: &str, text: &str| {
            files.insert(format!("manifests/{folder}/{path}"), text.to_owned());
        };
        let playbook = match storage(plan, "ansible") {
            PLAYBOOK => format!("{environment}-{PLAYBOOK}"),
            _ => environment.clone(),
        };
        if has(plan, &["folder"]) {
            put(environment, "hello.sh", HELLO);
        }
        if has(plan, &["ansible"]) {
            put(&playbook, "hello.sh", HELLO);
            put(&playbook, "site.yaml", SITE);
        }
        if has(plan, &OBJECTS) {
            // The agent takes plain manifests only, and both have one folder.
            if !has(plan, &["kubernetes"]) {
                put(environment, "kustomization.yaml", KUSTOMIZATION);
            }
            put(environment, "deployment.yaml", DEPLOYMENT);
        }
    }
    let text = "# The sample application, as its team describes it: what runs, never where.\n"
        .to_owned()
        + &object::workload(APPLICATION, &[], &targets);
    files.insert(format!("workload/{APPLICATION}.yaml"), text);
    files
}

const HELLO: &str = r#"#!/bin/sh
# Says hello with the platform config, which lies one folder up, or in the folder that is given.
set -eu
. "${1:-$(dirname "$0")/..}/platform-config.env"
echo "$GREETING from $ENVIRONMENT"
"#;

const SITE: &str = r#"---
- name: Say hello
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Run the script that travelled in the bundle
      ansible.builtin.command:
        argv: [sh, "{{ outhaul_payload }}/hello.sh", "{{ workload_home }}"]
      register: hello
      changed_when: false
    - name: Keep what it said
      ansible.builtin.copy:
        content: "{{ hello.stdout }}\n"
        dest: "{{ workload_home }}/hello.txt"
        mode: "0640"
"#;

const KUSTOMIZATION: &str = "apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - deployment.yaml
";

const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: hello
spec:
  replicas: 1
  selector:
    matchLabels:
      app: hello
  template:
    metadata:
      labels:
        app: hello
    spec:
      containers:
        - name: hello
          image: registry.example.org/hello:1.0.0
          envFrom:
            - configMapRef:
                name: platform-config
          securityContext:
            allowPrivilegeEscalation: false
            runAsNonRoot: true
            capabilities:
              drop: [ALL]
            seccompProfile:
              type: RuntimeDefault
";

fn readme(plan: &ScaffoldPlan) -> String {
    let first = plan.environments.first().map_or("dev", String::as_str);
    let branches: Vec<String> = plan
        .environments
        .iter()
        .map(|name| format!("| `{name}` | what is this environment's own: cluster types, scheduling policies, config, sites; and the commit of `main` that it is based on | platform team |\n"))
        .collect();
    let branches = branches.concat();
    format!(
        "# A control plane\n\n\
        What runs where, as files. Everything here was written to be changed.\n\n\
        | branch | holds | whose |\n| --- | --- | --- |\n\
        | `main` | what is promoted from one environment to the next: templates, workload registrations, common config, schemas | platform team |\n\
        {branches}\
        | `{APPLICATION}` | a sample application, in the place of an application team's own repository; delete it when you have a real one | application team |\n\n\
        Look at an environment, without changing anything:\n\n\
        ```sh\nouthaul check    --environment {first} --control-plane .\n\
        outhaul schedule --environment {first} --control-plane .\n\
        outhaul render   --environment {first} --control-plane . --out ../rendered\n```\n\n\
        Add to it: `git switch {first}`, then for example `outhaul new cluster-type NAME`; see `outhaul new --help`. What counts\n\
        is what is committed.\n\n\
        A change of `main` reaches an environment when its `base-repo.yaml` names the new commit: `outhaul promote --control-plane . --to {first}`\n\
        for the first one, and with `--from` and a hub's gate for those after it.\n\n\
        The objects name this repository as {}. When it has another address, replace that in every branch.\n",
        plan.url
    )
}
