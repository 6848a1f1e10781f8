//! Kalypso's kinds as schemas, and the `ConfigMap`s that are platform config.

use serde_json::{Value, json};

use super::Kind;
use super::shape::{
    any_text, kind, list, may, metadata, must, name, object, one_of, pattern, place, selected,
    selector, some, text, text_map,
};
use crate::kinds::KALYPSO;
use crate::model::TemplateType;

const LABELS: &str = "Labels, as text: quote `\"true\"` and numbers.";
const CONFIG_LABELS: &str = "The values are for cluster types and targets that have every one of these labels; `platform-config: \"true\"` makes it platform config, `cluster-type`, `deployment-target` and `workload` mean names.";

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        config_map(),
        base_repo(),
        cluster_type(),
        config_schema(),
        environment(),
        gitops_repo(),
        policy(),
        template(),
        workload(),
        registration(),
    ]
}

fn config_map() -> Kind {
    let about =
        "A container of platform config: a ConfigMap with the label `platform-config: \"true\"`.";
    let schema = object(vec![
        must(
            "apiVersion",
            "The group and version.",
            json!({"const": "v1"}),
        ),
        must("kind", about, json!({"const": "ConfigMap"})),
        must("metadata", "Name and labels.", metadata(CONFIG_LABELS)),
        may("data", "The values, each as text.", text_map()),
        may("binaryData", "Taken and ignored.", json!({})),
        may("immutable", "Taken and ignored.", json!({})),
    ]);
    Kind {
        api_version: "v1",
        name: "ConfigMap",
        about,
        schema: super::shape::described(schema, about),
    }
}

fn base_repo() -> Kind {
    let mut fields = place("The repository with what is promoted.");
    fields.push(may(
        "commit",
        "The commit that it is pinned to: a full id. Promotion changes this line and nothing else.",
        pattern(
            "^([0-9a-f]{40}|[0-9a-f]{64})?$",
            "0123456789abcdef0123456789abcdef01234567",
        ),
    ));
    kind(
        KALYPSO,
        "BaseRepo",
        "What is promoted into an environment; the one named `main` is its base.",
        LABELS,
        object(fields),
    )
}

fn cluster_type() -> Kind {
    let template = || text("flux");
    kind(
        KALYPSO,
        "ClusterType",
        "A group of clusters or hosts with the same workloads and the same reconciler.",
        "What policies and config containers look for.",
        object(vec![
            must(
                "reconciler",
                "The template that makes the reconciler's manifests.",
                template(),
            ),
            must(
                "namespaceService",
                "The template that makes the namespace.",
                template(),
            ),
            may(
                "configType",
                "The template that makes the platform config; without one there is no config file.",
                any_text("config-map"),
            ),
        ]),
    )
}

fn config_schema() -> Kind {
    kind(
        KALYPSO,
        "ConfigSchema",
        "A JSON Schema for the platform config of what its labels match.",
        CONFIG_LABELS,
        object(vec![must(
            "schema",
            "The JSON Schema, as text.",
            text("{\"type\": \"object\"}"),
        )]),
    )
}

fn environment() -> Kind {
    kind(
        KALYPSO,
        "Environment",
        "A link of the promotion chain; it lies in `.environments/` on the main branch.",
        LABELS,
        object(vec![must(
            "controlPlane",
            "Where what is the environment's own lies.",
            object(place("The repository with the environment's branch.")),
        )]),
    )
}

fn gitops_repo() -> Kind {
    kind(
        KALYPSO,
        "GitOpsRepo",
        "Where the rendered platform goes.",
        LABELS,
        object(place("The platform GitOps repository.")),
    )
}

fn policy() -> Kind {
    kind(
        KALYPSO,
        "SchedulingPolicy",
        "A rule that maps deployment targets to cluster types. Outhaul's kind of this name can do more.",
        LABELS,
        object(selectors()),
    )
}

/// What both groups' policies have.
pub(super) fn selectors() -> Vec<super::shape::Field> {
    vec![
        must(
            "deploymentTargetSelector",
            "Which deployment targets.",
            object(vec![
                may(
                    "workspace",
                    "Only this workspace (team); any when left out.",
                    any_text("team"),
                ),
                may("labelSelector", "Which labels they must have.", selector()),
            ]),
        ),
        must("clusterTypeSelector", "Which cluster types.", selected()),
    ]
}

/// What both groups' templates have.
pub(super) fn template_fields(language: &'static str, ending: Value) -> Vec<super::shape::Field> {
    let types = [
        TemplateType::Reconciler,
        TemplateType::Namespace,
        TemplateType::Config,
    ];
    vec![
        must(
            "type",
            "What it makes.",
            one_of(&types.map(TemplateType::as_str)),
        ),
        may(
            "contentType",
            "The ending of the files: `sh`, or `yaml` when left out.",
            ending,
        ),
        must("manifests", language, some(any_text("kind: ConfigMap"))),
    ]
}

fn template() -> Kind {
    kind(
        KALYPSO,
        "Template",
        "How an assignment becomes manifests, in Go's text/template.",
        LABELS,
        object(template_fields(
            "The manifests, each as text in Go's template language (`- |`).",
            any_text("yaml"),
        )),
    )
}

fn workload() -> Kind {
    let schemas = || list(any_text("{\"type\": \"object\"}"));
    let target = object(vec![
        must(
            "name",
            "Its name; the full name is `<workload>-<name>`.",
            name(),
        ),
        may(
            "labels",
            "Labels that policies and config containers look for.",
            text_map(),
        ),
        must(
            "environment",
            "The environment that it is for.",
            text("dev"),
        ),
        may(
            "manifests",
            "Where its manifests lie; `storage`, `repo`, `branch` and `path` by convention.",
            text_map(),
        ),
        may(
            "configSchemas",
            "JSON Schemas of its platform config, as text.",
            schemas(),
        ),
    ]);
    kind(
        KALYPSO,
        "Workload",
        "An application and the ways to run it, as its team describes it.",
        "Labels that every one of its targets gets.",
        object(vec![
            may("deploymentTargets", "The ways to run it.", list(target)),
            may(
                "configSchemas",
                "JSON Schemas for every target, as text.",
                schemas(),
            ),
        ]),
    )
}

fn registration() -> Kind {
    kind(
        KALYPSO,
        "WorkloadRegistration",
        "Says where a workload is described, and which workspace it belongs to.",
        LABELS,
        object(vec![
            must(
                "workload",
                "Where the workload's objects lie.",
                object(place("The application team's repository.")),
            ),
            may(
                "workspace",
                "The workspace (team) that owns it.",
                any_text("team"),
            ),
        ]),
    )
}
