//! One more object in a working copy.
//!
//! What comes in: the working copy's folder and the object. What goes out: the path of one new file. The
//! working copy is read first: a name that is taken, a reference to what is not there, or the wrong
//! branch is refused before anything is written. What is there is never changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::here::{Branch, Here};
use super::object::{self, NewTarget, Pairs};
use super::{ScaffoldError, address, sound_name, write_new};
use outhaul_control::diagnostic::{Diagnostics, SourceFile};
use outhaul_control::kinds;
use outhaul_control::model::TemplateType;
use outhaul_control::model::composition::Precedence;
use outhaul_kit::suggest::did_you_mean;
use outhaul_plane::builtin;

/// What to add.
#[derive(Debug, Clone)]
pub enum New {
    /// That a removal is meant.
    Acknowledgement {
        /// The code that the refusal printed.
        removal: String,
        /// Why it may go.
        reason: String,
    },
    /// A group of clusters or hosts.
    ClusterType {
        /// Its labels.
        labels: Vec<(String, String)>,
        /// The reconciler's template.
        reconciler: String,
        /// The namespace's, instead of the one that fits.
        namespace: Option<String>,
        /// The config's, instead of the one that fits.
        config: Option<String>,
    },
    /// Which of two values wins.
    CompositionPolicy {
        /// The rule.
        precedence: Precedence,
    },
    /// Values.
    Config {
        /// What they apply to.
        labels: Vec<(String, String)>,
        /// The values.
        values: Vec<(String, String)>,
    },
    /// A link of the chain, and its branch.
    Environment {
        /// The control plane's address, instead of the one that the other environments name.
        url: Option<String>,
        /// The environment before it, whose branch it begins with; without it the last of the chain, and
        /// an empty branch.
        from: Option<String>,
    },
    /// What a step of the chain needs.
    PromotionPolicy {
        /// The environment whose gate decides.
        from: String,
        /// The environment that moves.
        to: String,
        /// The share of sites that must confirm, in percent.
        min_confirmed_percent: Option<u8>,
        /// The oldest report that counts, in hours.
        max_report_age_hours: Option<u32>,
    },
    /// A rule.
    Policy {
        /// The workspace that it is for.
        workspace: Option<String>,
        /// Labels of targets.
        targets: Vec<(String, String)>,
        /// Labels of cluster types.
        cluster_types: Vec<(String, String)>,
    },
    /// Where a workload is described.
    Registration {
        /// Whose it is.
        workspace: String,
        /// The application's repository.
        url: String,
        /// Its branch.
        branch: String,
        /// The folder in it.
        path: String,
    },
    /// One cluster or host.
    Site {
        /// Its cluster type.
        cluster_type: String,
        /// Its labels.
        labels: Vec<(String, String)>,
        /// The ring in which it is updated.
        ring: Option<String>,
    },
    /// A copy of a template that comes with Outhaul.
    Template,
    /// An application, in its team's own repository.
    Workload {
        /// Its labels.
        labels: Vec<(String, String)>,
        /// One target in each.
        environments: Vec<String>,
        /// Where its manifests lie: a branch for each environment.
        manifests: Option<String>,
    },
}

/// What was written.
#[derive(Debug, Clone)]
pub struct Added {
    /// The new file.
    pub file: PathBuf,
    /// The kind of the object in it.
    pub kind: &'static str,
    /// A branch that was made for it.
    pub branch: Option<Branch>,
}

/// Adds `new`, called `name`, to the working copy in `root`.
///
/// # Errors
/// [`ScaffoldError`]; nothing was written then.
#[expect(clippy::too_many_lines, reason = "one arm for each kind")]
pub fn add(root: &Path, name: &str, new: &New) -> Result<Added, ScaffoldError> {
    sound_name("an object", name)?;
    let here = Here::read(root)?;
    let (kind, folder, text) = match new {
        New::ClusterType {
            labels,
            reconciler,
            namespace,
            config,
        } => {
            here.on_environment("cluster type")?;
            let fitting = |chosen: &Option<String>, default: &str| {
                chosen.clone().unwrap_or_else(|| default.to_owned())
            };
            let namespace = fitting(namespace, builtin::namespace_for(reconciler));
            let config = fitting(config, builtin::config_for(reconciler));
            for (kind, template) in [
                (TemplateType::Reconciler, reconciler),
                (TemplateType::Namespace, &namespace),
                (TemplateType::Config, &config),
            ] {
                here.has_template(kind, template)?;
            }
            let text = object::cluster_type(name, labels, reconciler, &namespace, &config);
            ("ClusterType", "cluster-types", text)
        }
        New::Acknowledgement { removal, reason } => {
            here.on_environment("acknowledgement")?;
            let text = object::acknowledgement(name, removal, reason);
            ("Acknowledgement", "acknowledgements", text)
        }
        New::CompositionPolicy { precedence } => {
            here.has_no_composition()?;
            let text = object::composition_policy(name, *precedence);
            ("CompositionPolicy", "configs", text)
        }
        New::Config { labels, values } => (
            "ConfigMap",
            "configs",
            object::config(name, labels, &object::typed_in(values)),
        ),
        New::Environment { url, from } => {
            here.on_main("environment")?;
            let url = here.url(url.as_deref())?;
            address(&url)?;
            let after = match from {
                Some(from) => {
                    here.has_environment(from)?;
                    Some(from.clone())
                }
                None => here.last()?,
            };
            let text = object::environment(name, &url, after.as_deref());
            ("Environment", ".environments", text)
        }
        New::PromotionPolicy {
            from,
            to,
            min_confirmed_percent,
            max_report_age_hours,
        } => {
            here.on_main("promotion policy")?;
            here.has_environment(from)?;
            here.has_environment(to)?;
            let least = (*min_confirmed_percent, *max_report_age_hours);
            let text = object::promotion_policy(name, from, to, least);
            ("PromotionPolicy", ".environments", text)
        }
        New::Policy {
            workspace,
            targets,
            cluster_types,
        } => {
            let text = object::policy(name, workspace.as_deref(), targets, cluster_types);
            ("SchedulingPolicy", "scheduling", text)
        }
        New::Registration {
            workspace,
            url,
            branch,
            path,
        } => {
            here.is_control_plane()?;
            here.on_main("registration")?;
            address(url)?;
            let text = object::registration(name, workspace, url, branch, path);
            ("WorkloadRegistration", "workloads", text)
        }
        New::Site {
            cluster_type,
            labels,
            ring,
        } => {
            here.on_environment("site")?;
            here.has_cluster_type(cluster_type)?;
            (
                "Site",
                "sites",
                object::site(name, cluster_type, labels, ring.as_deref()),
            )
        }
        New::Template => {
            here.on_main("template")?;
            let names: Vec<&str> = builtin::ALL.iter().map(|builtin| builtin.name).collect();
            let builtin = builtin::find(name).ok_or_else(|| ScaffoldError::Choice {
                problem: format!("no template `{name}` comes with Outhaul"),
                help: did_you_mean(name, &names),
            })?;
            ("Template", "templates", builtin.text.to_owned())
        }
        New::Workload {
            labels,
            environments,
            manifests,
        } => (
            "Workload",
            "workload",
            workload(name, labels, environments, manifests.as_deref())?,
        ),
    };
    here.is_free(kind, name)?;
    let file = here.root.join(folder).join(format!("{name}.yaml"));
    reads_back(&file, &text, kind, name)?;
    let branch = match new {
        New::Environment { from, .. } => here.branch(name, &text, from.as_deref())?,
        _ => None,
    };
    write_new(&file, &text)?;
    Ok(Added { file, kind, branch })
}

fn workload(
    name: &str,
    labels: &Pairs,
    environments: &[String],
    manifests: Option<&str>,
) -> Result<String, ScaffoldError> {
    let mut targets = Vec::new();
    for environment in environments {
        sound_name("an environment", environment)?;
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let manifests = match manifests {
            None => Vec::new(),
            Some(url) => {
                address(url)?;
                vec![
                    pair("storage", "git"),
                    pair("repo", url),
                    pair("branch", environment),
                    pair("path", "."),
                ]
            }
        };
        targets.push(NewTarget {
            name: environment.clone(),
            environment: environment.clone(),
            labels: Vec::new(),
            manifests,
        });
    }
    if targets.is_empty() {
        return Err(ScaffoldError::Choice {
            problem: "a workload needs at least one environment to run in".to_owned(),
            help: "give for example `--environments dev,stage`".to_owned(),
        });
    }
    Ok(object::workload(name, labels, &targets))
}

/// What a person typed must be read as what they meant.
fn reads_back(file: &Path, text: &str, kind: &str, name: &str) -> Result<(), ScaffoldError> {
    let source = Arc::new(SourceFile {
        name: file.to_string_lossy().into_owned(),
        text: text.to_owned(),
    });
    let mut findings = Diagnostics::new();
    let objects = kinds::read_file(&source, &mut findings);
    let same = matches!(objects.as_slice(), [one] if one.kind() == kind && one.name() == name);
    if same && findings.is_empty() {
        Ok(())
    } else {
        Err(ScaffoldError::Findings(findings))
    }
}
