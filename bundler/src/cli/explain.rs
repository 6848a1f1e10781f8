//! `outhaul explain`: why something runs where it does, or does not, and where its values come from.

use std::path::PathBuf;

use outhaul_bundle::hub_api::{SiteValueRow, escaped, path};
use outhaul_bundle::index::Snapshot;
use serde_json::{Value, json};

use super::failure::{self, Failure};
use super::render::InputArgs;
use super::{Exit, Output, data, print_json, say};
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::Diagnostic;
use outhaul_control::model::{ClusterType, DeploymentTarget, Site};
use outhaul_kit::suggest::did_you_mean;
use outhaul_load::pipeline::Loaded;
use outhaul_plane::compose;
use outhaul_plane::explain::{self, Explanation};
use outhaul_promote::HubConnection;

mod text;
mod whole;

pub(super) use text::could_be_set_in;

/// Explain why something runs where it does, or does not, and where its values come from
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Ask about a target, a target on a cluster type, one key of its config, a site, or a key everywhere.\n\n\
    Examples:\n  outhaul explain --environment dev --control-plane control-plane label-printer-bench\n  \
    outhaul explain --environment dev --control-plane control-plane label-printer-bench bench --key PRINTER\n  \
    outhaul explain --environment dev --control-plane control-plane --site bench-1\n  \
    outhaul explain --environment dev --control-plane control-plane --key PRINTER\n  \
    outhaul explain --environment dev --control-plane control-plane --whole --output json\n  \
    outhaul explain --environment dev --control-plane control-plane --whole --send --hub https://hub.example"
)]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// The deployment target's full name: `<workload>-<target>`
    #[arg(required_unless_present_any = ["site", "key", "whole"])]
    target: Option<String>,
    /// The cluster type; without it every one
    #[arg(conflicts_with = "site")]
    cluster_type: Option<String>,
    /// A site: what it gets, or with a target its values there
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// Everything: the entities as they were read, and for each assignment the policies and the values, as one document
    #[arg(long, conflicts_with_all = ["target", "cluster_type", "site", "key"])]
    whole: bool,
    /// Send the document to the hub, whose pages then show it; the token is in the file that `$OUTHAUL_HUB_TOKEN_FILE` names
    #[arg(long, requires = "whole")]
    send: bool,
    /// With `--site`: the hub that is asked which values people on site set; with `--send`: the hub that gets the document
    #[arg(long, value_name = "URL")]
    hub: Option<String>,
    /// The certificate of the hub's authority, when it is a private one
    #[arg(long, value_name = "FILE", value_parser = crate::cli::registries::authority_file())]
    hub_ca: Option<PathBuf>,
    /// One key of the platform config: who sets it, what checks it, which template lines it reaches
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        if self.send && self.hub.is_none() {
            return Err(
                Failure::say(failure::USAGE, "`--send` was given, and no hub is named")
                    .help("add `--hub URL`"),
            );
        }
        let loaded = self.input.load()?;
        if self.whole {
            return self.whole(loaded);
        }
        let plane = &loaded.control_plane;
        if let Some(key) = &self.key {
            known_key(plane, key)?;
        }
        let site = match &self.site {
            Some(name) => Some(find_site(plane, name)?),
            None => None,
        };
        match (&self.target, site, &self.key) {
            (Some(target), site, _) => self.target(&loaded, target, site),
            (None, Some(site), None) => self.site(&loaded, site),
            (None, Some(_), Some(_)) => Err(Failure::say(
                failure::USAGE,
                "a key on a site is a matter of one target",
            )
            .help("name it: `outhaul explain TARGET --site SITE --key KEY`")),
            (None, None, Some(key)) => self.key(&loaded, key),
            (None, None, None) => Err(Failure::say(failure::USAGE, "what is to be explained?")
                .help("name a target, or give `--site` or `--key`")),
        }
    }

    fn target(&self, loaded: &Loaded, target: &str, site: Option<&Site>) -> Result<Exit, Failure> {
        let (plane, answers) = (&loaded.control_plane, &loaded.answers);
        let target = find_target(plane, target)?;
        let named = site
            .map(|site| &site.cluster_type.value)
            .or(self.cluster_type.as_ref());
        let cluster_types: Vec<&ClusterType> = match named {
            Some(name) => vec![find_cluster_type(plane, name)?],
            None => plane.cluster_types.values().collect(),
        };
        // The config matters where someone asks about one pair, or about a key.
        let with_config = named.is_some() || self.key.is_some();
        let key = self.key.as_deref();
        let explanations: Vec<Explanation> = cluster_types
            .iter()
            .map(|cluster_type| {
                let mode = self.input.mode();
                explain::explanation(
                    (plane, answers),
                    cluster_type,
                    target,
                    site,
                    key,
                    with_config,
                    mode,
                )
            })
            .collect();
        if self.output == Output::Json {
            return print_json(&json!({
                "target": target.name,
                "environment": plane.environment,
                "workspace": target.workspace,
                "at": target.location.file_line(),
                "labels": target.labels,
                "site": site.map(|site| &site.name),
                "cluster_types": explanations.iter().map(|explanation| {
                    let labels = plane.cluster_types.get(&explanation.cluster_type).map(|c| &c.labels);
                    let mut document = document(explanation);
                    document["labels"] = json!(labels);
                    document
                }).collect::<Vec<_>>(),
            }));
        }
        let texts: Vec<String> = explanations
            .iter()
            .map(|explanation| {
                text::explanation(explanation, &target.name, site, plane, self.key.is_some())
            })
            .collect();
        print_with_legend(&loaded.snapshot, &texts.concat());
        if cluster_types.is_empty() {
            data(&format!(
                "environment `{}` has no cluster type",
                plane.environment
            ));
        }
        Ok(Exit::SUCCESS)
    }

    fn site(&self, loaded: &Loaded, site: &Site) -> Result<Exit, Failure> {
        let plane = &loaded.control_plane;
        let schedule = loaded.schedule();
        let composition = compose::compose(plane, &schedule, self.input.mode());
        let explanation = explain::site::explanation(plane, &schedule, &composition, site);
        let set = self.set_on_site(&site.name);
        if self.output == Output::Json {
            let mut document = json!(explanation);
            match &set {
                None => {}
                Some(Ok(set)) => document["set_on_site"] = json!(set),
                Some(Err(problem)) => document["set_on_site_unknown"] = json!(problem),
            }
            return print_json(&document);
        }
        let known: Vec<&String> = plane.cluster_types.keys().collect();
        print_with_legend(
            &loaded.snapshot,
            &text::site(
                &explanation,
                site,
                &did_you_mean(&explanation.cluster_type, &known),
            ),
        );
        match set {
            None => {}
            Some(Ok(set)) => data(&text::set_on_site(&set)),
            Some(Err(problem)) => say(&format!(
                "warning: what people set on site is not known: {problem}"
            )),
        }
        Ok(Exit::SUCCESS)
    }

    /// The values that people set on site, as the hub has them; `None` when no hub is named.
    fn set_on_site(&self, site: &str) -> Option<Result<Vec<SiteValueRow>, String>> {
        let hub = HubConnection {
            url: self.hub.as_deref()?,
            authority: self.hub_ca.as_deref(),
        };
        let answer = hub.fetch(&format!("{}?site={}", path::SITE_VALUES, escaped(site)));
        let answer = answer.map_err(|error| error.to_string());
        Some(answer.and_then(|bytes| {
            serde_json::from_slice(&bytes)
                .map_err(|error| format!("`{}` answered something else: {error}", hub.url))
        }))
    }

    fn key(&self, loaded: &Loaded, key: &str) -> Result<Exit, Failure> {
        let plane = &loaded.control_plane;
        let schedule = loaded.schedule();
        let composition = compose::compose(plane, &schedule, self.input.mode());
        let found = explain::key::set_by(plane, &composition, key);
        let asked = explain::requested::requested(plane, &schedule, Some(key), self.input.mode());
        if self.output == Output::Json {
            return print_json(&json!({
                "key": key,
                "environment": plane.environment,
                "assignments": schedule.assignments.len(),
                "set_by": found,
                "requested": asked,
            }));
        }
        print_with_legend(
            &loaded.snapshot,
            &text::key(key, plane, schedule.assignments.len(), &found, &asked),
        );
        Ok(Exit::SUCCESS)
    }
}

/// Prints it with short names for the sources, which are reported once.
fn print_with_legend(snapshot: &Snapshot, reported: &str) {
    let mut reported = reported.to_owned();
    let mut legend = Vec::new();
    for source in [&snapshot.environment, &snapshot.base]
        .into_iter()
        .chain(&snapshot.workloads)
    {
        let commit = source.commit.get(..8).unwrap_or(&source.commit);
        let long = format!("{}@{commit}:", source.repo);
        if !source.repo.is_empty() && reported.contains(&long) {
            reported = reported.replace(&long, &format!("{}:", source.name));
            legend.push(format!("`{}:` is {}@{commit}", source.name, source.repo));
        }
    }
    data(reported.trim_end());
    if !legend.is_empty() {
        say(&legend.join(", "));
    }
}

fn document(explanation: &Explanation) -> Value {
    let config = explanation.config.as_ref().map(|config| {
        json!({
            "version": config.version,
            "keys": config.keys,
            "findings": config.findings.iter().map(Diagnostic::to_json).collect::<Vec<_>>(),
        })
    });
    json!({
        "cluster_type": explanation.cluster_type,
        "assigned": explanation.assigned(),
        "policies": explanation.verdicts,
        "templates": explanation.templates,
        "schemas": explanation.schemas,
        "config": config,
    })
}

/// A key that nothing sets or asks for is a slip of the pen.
fn known_key(plane: &ControlPlane, key: &str) -> Result<(), Failure> {
    let written = plane
        .configs
        .values()
        .flat_map(|container| container.data.keys());
    let known: std::collections::BTreeSet<&str> = written
        .flat_map(|written| {
            [
                written.as_str(),
                written.rsplit('.').next().unwrap_or_default(),
            ]
        })
        .collect();
    let asked = explain::requested::known_keys(plane);
    if known.contains(key) || asked.contains(key) {
        return Ok(());
    }
    let known: std::collections::BTreeSet<&str> = known
        .into_iter()
        .chain(asked.iter().map(String::as_str))
        .collect();
    let known: Vec<&str> = known.into_iter().collect();
    let message = format!(
        "no config of environment `{}` sets `{key}`, and nothing asks for it",
        plane.environment
    );
    Err(Failure::say(failure::USAGE, message).help(did_you_mean(key, &known)))
}

fn find_site<'a>(plane: &'a ControlPlane, name: &str) -> Result<&'a Site, Failure> {
    plane.sites.get(name).ok_or_else(|| {
        let known: Vec<&String> = plane.sites.keys().collect();
        let message = format!("environment `{}` has no site `{name}`", plane.environment);
        Failure::say(failure::USAGE, message).help(did_you_mean(name, &known))
    })
}

fn find_target<'a>(plane: &'a ControlPlane, name: &str) -> Result<&'a DeploymentTarget, Failure> {
    if let Some(target) = plane.targets.get(name) {
        return Ok(target);
    }
    if let Some(other) = plane
        .other_targets
        .values()
        .find(|target| target.name == name)
    {
        let message = format!(
            "`{name}` is for environment `{}`, not `{}` ({})",
            other.environment,
            plane.environment,
            other.location.file_line()
        );
        return Err(Failure::say(failure::USAGE, message)
            .help(format!("ask with `--environment {}`", other.environment)));
    }
    let known: Vec<&String> = plane.targets.keys().collect();
    let help = match plane.cluster_types.contains_key(name) {
        true => format!(
            "`{name}` is a cluster type; the target comes first: `outhaul explain TARGET {name}`"
        ),
        false => did_you_mean(name, &known),
    };
    Err(Failure::say(
        failure::USAGE,
        format!(
            "environment `{}` has no deployment target `{name}`",
            plane.environment
        ),
    )
    .help(help))
}

fn find_cluster_type<'a>(plane: &'a ControlPlane, name: &str) -> Result<&'a ClusterType, Failure> {
    plane.cluster_types.get(name).ok_or_else(|| {
        let known: Vec<&String> = plane.cluster_types.keys().collect();
        Failure::say(
            failure::USAGE,
            format!(
                "environment `{}` has no cluster type `{name}`",
                plane.environment
            ),
        )
        .help(did_you_mean(name, &known))
    })
}
