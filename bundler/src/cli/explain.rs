//! `outhaul explain`: why something runs where it does, or does not, and where its values come from.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::failure::{self, Failure};
use super::render::InputArgs;
use super::{Format, data, print_json};
use crate::compose::{self, Composed, schema};
use crate::control::ControlPlane;
use crate::control::kinds::suggest::did_you_mean;
use crate::control::model::{ClusterType, DeploymentTarget};
use crate::schedule::explain::{Verdict, explain};

/// Explain why something runs where it does, or does not, and where its values come from
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  outhaul explain --environment dev --control-plane control-plane label-printer-bench\n  \
    outhaul explain --environment dev --control-plane control-plane label-printer-bench bench --key PRINTER"
)]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// The deployment target's full name: `<workload>-<target>`
    target: String,
    /// The cluster type; without it every one
    cluster_type: Option<String>,
    /// Only this key of the platform config
    #[arg(long, value_name = "KEY", requires = "cluster_type")]
    key: Option<String>,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let (plane, _, _) = self.input.load()?;
        let target = find_target(&plane, &self.target)?;
        let cluster_types: Vec<&ClusterType> = match &self.cluster_type {
            Some(name) => vec![find_cluster_type(&plane, name)?],
            None => plane.cluster_types.values().collect(),
        };
        let mode = self.input.mode();
        let mut documents = Vec::new();
        for cluster_type in &cluster_types {
            let verdicts = explain(&plane, target, Some(cluster_type));
            let assigned = verdicts.iter().any(|verdict| verdict.misses.is_empty());
            // The config matters where something runs, or where somebody asks about one pair.
            let composed = if assigned && self.cluster_type.is_some() {
                let made = compose::compose_one(&plane, cluster_type, target, mode);
                Some(made.map_err(|findings| Failure::findings(&findings))?)
            } else {
                None
            };
            if let (Some(key), Some(composed)) = (&self.key, &composed)
                && !composed.provenance.contains_key(key)
            {
                let known: Vec<&String> = composed.provenance.keys().collect();
                return Err(Failure::say(
                    failure::USAGE,
                    format!(
                        "no container sets `{key}` for `{}` on `{}`",
                        target.name, cluster_type.name
                    ),
                )
                .help(did_you_mean(key, &known)));
            }
            if self.output == Format::Json {
                documents.push(self.json(
                    &plane,
                    cluster_type,
                    target,
                    &verdicts,
                    composed.as_ref(),
                ));
                continue;
            }
            self.text(&plane, cluster_type, target, &verdicts, composed.as_ref());
        }
        if self.output == Format::Json {
            return print_json(&json!({
                "target": target.name,
                "environment": plane.environment,
                "workspace": target.workspace,
                "at": target.location.file_line(),
                "labels": target.labels,
                "cluster_types": documents,
            }));
        }
        if cluster_types.is_empty() {
            data(&format!(
                "environment `{}` has no cluster type",
                plane.environment
            ));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn text(
        &self,
        plane: &ControlPlane,
        cluster_type: &ClusterType,
        target: &DeploymentTarget,
        verdicts: &[Verdict],
        composed: Option<&Composed>,
    ) {
        let by: Vec<&Verdict> = verdicts.iter().filter(|v| v.misses.is_empty()).collect();
        let pair = format!("`{}` on `{}`", target.name, cluster_type.name);
        if by.is_empty() {
            data(&format!("{pair}: not assigned, no policy selects it"));
            if verdicts.is_empty() {
                data(&format!(
                    "  environment `{}` has no scheduling policy",
                    plane.environment
                ));
            }
        } else {
            data(&format!("{pair}: assigned"));
        }
        for verdict in verdicts
            .iter()
            .filter(|v| by.is_empty() || v.misses.is_empty())
        {
            data(&format!("  policy `{}` ({})", verdict.policy, verdict.at));
            if verdict.misses.is_empty() {
                data(&format!("    the target has: {}", verdict.targets));
                data(&format!(
                    "    the cluster type has: {}",
                    verdict.cluster_types
                ));
                if let Some(weight) = &verdict.weight {
                    data(&format!("    {}", weight.sentence()));
                }
            }
            for miss in &verdict.misses {
                data(&format!("    {}", miss.sentence()));
            }
        }
        let Some(composed) = composed else { return };
        if self.key.is_none() {
            templates(plane, cluster_type);
            for schema in
                schema::Schemas::of(plane, self.input.mode()).applying(cluster_type, target)
            {
                data(&format!(
                    "  config schema ({})",
                    schema.location.file_line()
                ));
            }
            data(&format!(
                "  platform config, version {}",
                composed.version.short()
            ));
        }
        let values = composed.values.as_map();
        for (key, provenance) in &composed.provenance {
            if self.key.as_ref().is_some_and(|wanted| wanted != key) {
                continue;
            }
            let value = values
                .and_then(|map| map.get(key))
                .map(schema::to_json)
                .unwrap_or_default();
            data(&format!("    {key} = {value}"));
            for (at, layer) in provenance.layers.iter().enumerate().rev() {
                let last = at + 1 == provenance.layers.len();
                let word = match (last, layer.merged) {
                    (true, false) => "from",
                    (true, true) => "merged in from",
                    (false, _) if provenance.layers[at + 1..].iter().all(|l| l.merged) => "over",
                    (false, _) => "overrides",
                };
                let place = layer.location.file_line();
                let text = layer.text.lines().next().unwrap_or_default();
                let text = if last {
                    String::new()
                } else {
                    format!(": {text}")
                };
                data(&format!(
                    "      {word} `{}` ({place}){text}",
                    layer.container
                ));
            }
        }
    }

    fn json(
        &self,
        plane: &ControlPlane,
        cluster_type: &ClusterType,
        target: &DeploymentTarget,
        verdicts: &[Verdict],
        composed: Option<&Composed>,
    ) -> Value {
        let config = composed.map(|composed| {
            let values = composed.values.as_map();
            let keys: serde_json::Map<String, Value> = composed
                .provenance
                .iter()
                .filter(|(key, _)| self.key.as_ref().is_none_or(|wanted| wanted == *key))
                .map(|(key, provenance)| {
                    let value = values.and_then(|map| map.get(key)).map(schema::to_json);
                    let layers = provenance.layers.iter().map(|layer| {
                        json!({"container": layer.container, "text": layer.text, "merged": layer.merged,
                            "at": layer.location.file_line()})
                    });
                    (key.clone(), json!({"value": value, "layers": layers.collect::<Vec<_>>()}))
                })
                .collect();
            let schemas = schema::Schemas::of(plane, self.input.mode());
            let schemas: Vec<_> = schemas
                .applying(cluster_type, target)
                .iter()
                .map(|schema| schema.location.file_line())
                .collect();
            json!({"version": composed.version, "keys": keys, "schemas": schemas})
        });
        json!({
            "cluster_type": cluster_type.name,
            "labels": cluster_type.labels,
            "assigned": verdicts.iter().any(|verdict| verdict.misses.is_empty()),
            "policies": verdicts,
            "config": config,
        })
    }
}

fn templates(plane: &ControlPlane, cluster_type: &ClusterType) {
    let named = [
        Some(&cluster_type.reconciler),
        Some(&cluster_type.namespace_service),
        cluster_type.config_type.as_ref(),
    ];
    for name in named.into_iter().flatten() {
        let place = plane.templates.get(&name.value).map_or_else(
            || "there is none of this name".into(),
            |template| {
                format!(
                    "{}, {}",
                    template.kind.as_str(),
                    template.location.file_line()
                )
            },
        );
        data(&format!(
            "  template `{}` ({place}), named at {}",
            name.value,
            name.location.file_line()
        ));
    }
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
    Err(Failure::say(
        failure::USAGE,
        format!(
            "environment `{}` has no deployment target `{name}`",
            plane.environment
        ),
    )
    .help(did_you_mean(name, &known)))
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
