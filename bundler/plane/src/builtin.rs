//! The templates that come with Outhaul, as files to copy into a control plane.
//!
//! What comes in: a name. What goes out: the text of a `Template` object with remarks on what it needs.
//! `outhaul init` and `outhaul new template` write it into the control plane, where people see it, change
//! it, and pin it with everything else; a render never looks here.

use outhaul_control::model::TemplateType;

/// One template that can be copied.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// Its name, which is the name of the object in it.
    pub name: &'static str,
    /// What it is for.
    pub kind: TemplateType,
    /// What it makes, in a few words.
    pub purpose: &'static str,
    /// The file's text.
    pub text: &'static str,
}

/// All of them, sorted by name.
pub const ALL: &[Builtin] = &[
    Builtin {
        name: "ansible",
        kind: TemplateType::Reconciler,
        purpose: "Ansible on the host itself: the playbook site.yaml of the workload",
        text: include_str!("../templates/ansible.yaml"),
    },
    Builtin {
        name: "ansible-namespace",
        kind: TemplateType::Namespace,
        purpose: "a folder on the host with the platform config, made by Ansible",
        text: include_str!("../templates/ansible-namespace.yaml"),
    },
    Builtin {
        name: "argocd-git",
        kind: TemplateType::Reconciler,
        purpose: "Argo CD applies the workload from git",
        text: include_str!("../templates/argocd-git.yaml"),
    },
    Builtin {
        name: "argocd-oci",
        kind: TemplateType::Reconciler,
        purpose: "Argo CD applies the workload, or its Helm chart, from an OCI registry",
        text: include_str!("../templates/argocd-oci.yaml"),
    },
    Builtin {
        name: "config-map",
        kind: TemplateType::Config,
        purpose: "a Kubernetes ConfigMap",
        text: include_str!("../templates/config-map.yaml"),
    },
    Builtin {
        name: "env-file",
        kind: TemplateType::Config,
        purpose: "NAME=\"value\" lines, for shells and systemd",
        text: include_str!("../templates/env-file.yaml"),
    },
    Builtin {
        name: "fleet-bundle",
        kind: TemplateType::Reconciler,
        purpose: "Rancher Fleet deploys the workload's files, which come with the bundle",
        text: include_str!("../templates/fleet-bundle.yaml"),
    },
    Builtin {
        name: "flux-git",
        kind: TemplateType::Reconciler,
        purpose: "Flux applies the workload from git",
        text: include_str!("../templates/flux-git.yaml"),
    },
    Builtin {
        name: "flux-oci",
        kind: TemplateType::Reconciler,
        purpose: "Flux applies the workload from an OCI registry",
        text: include_str!("../templates/flux-oci.yaml"),
    },
    Builtin {
        name: "folder",
        kind: TemplateType::Reconciler,
        purpose: "files in a folder that something on site watches",
        text: include_str!("../templates/folder.yaml"),
    },
    Builtin {
        name: "folder-namespace",
        kind: TemplateType::Namespace,
        purpose: "a name and a workspace, for hosts without Kubernetes",
        text: include_str!("../templates/folder-namespace.yaml"),
    },
    Builtin {
        name: "json",
        kind: TemplateType::Config,
        purpose: "one JSON object",
        text: include_str!("../templates/json.yaml"),
    },
    Builtin {
        name: "kubernetes",
        kind: TemplateType::Reconciler,
        purpose: "plain manifests that the agent applies to the cluster itself",
        text: include_str!("../templates/kubernetes.yaml"),
    },
    Builtin {
        name: "namespace",
        kind: TemplateType::Namespace,
        purpose: "a namespace with quota, limits, network policies, service account and role",
        text: include_str!("../templates/namespace.yaml"),
    },
    Builtin {
        name: "properties",
        kind: TemplateType::Config,
        purpose: "a Java properties file",
        text: include_str!("../templates/properties.yaml"),
    },
    Builtin {
        name: "rancher-fleet",
        kind: TemplateType::Reconciler,
        purpose: "Rancher Fleet applies the workload from git",
        text: include_str!("../templates/rancher-fleet.yaml"),
    },
    Builtin {
        name: "secret",
        kind: TemplateType::Config,
        purpose: "a ConfigMap, and a Secret of what is sealed",
        text: include_str!("../templates/secret.yaml"),
    },
    Builtin {
        name: "symphony-catalog",
        kind: TemplateType::Config,
        purpose: "a catalog of Eclipse Symphony",
        text: include_str!("../templates/symphony-catalog.yaml"),
    },
    Builtin {
        name: "zarf",
        kind: TemplateType::Reconciler,
        purpose: "the definition of a Zarf package",
        text: include_str!("../templates/zarf.yaml"),
    },
];

/// The template called `name`.
pub fn find(name: &str) -> Option<&'static Builtin> {
    ALL.iter().find(|builtin| builtin.name == name)
}

/// The namespace template that fits the reconciler template `reconciler`.
pub fn namespace_for(reconciler: &str) -> &'static str {
    match reconciler {
        "ansible" => "ansible-namespace",
        "folder" => "folder-namespace",
        _ => "namespace",
    }
}

/// The config template that fits the reconciler template `reconciler`.
pub fn config_for(reconciler: &str) -> &'static str {
    match reconciler {
        "ansible" | "folder" => "env-file",
        _ => "config-map",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use outhaul_control::diagnostic::{Diagnostics, SourceFile};
    use outhaul_control::kinds::{self, Object};

    #[test]
    fn each_holds_the_template_that_it_is_named_for() {
        let mut names = Vec::new();
        for builtin in ALL {
            let file = Arc::new(SourceFile {
                name: builtin.name.into(),
                text: builtin.text.into(),
            });
            let mut findings = Diagnostics::new();
            let objects = kinds::read_file(&file, &mut findings);
            assert!(findings.is_empty(), "{}", findings.render(false));
            let [Object::Template(template)] = objects.as_slice() else {
                unreachable!("{} holds {objects:?}", builtin.name);
            };
            assert_eq!(
                (template.name.as_str(), template.kind),
                (builtin.name, builtin.kind)
            );
            assert!(
                builtin.text.starts_with("# "),
                "{} says what it is",
                builtin.name
            );
            names.push(builtin.name);
        }
        assert!(names.is_sorted(), "{names:?}");
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), ALL.len());
    }
}
