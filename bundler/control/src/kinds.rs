//! Kinds: from YAML documents to the objects of a control plane.
//!
//! What comes in: one document as [`Node`]s. What goes out: an [`Object`] of Kalypso's group, a
//! labelled `ConfigMap`, or an object of ours; every other Kubernetes object is none of our business
//! and gives nothing. The header is read first, then the kind's own fields. An unknown field or kind
//! is an error with the nearest name that exists; nothing is ever ignored in silence.

use std::sync::Arc;

use super::diagnostic::{Diagnostic, Diagnostics, Location, SourceFile};
use super::model::{
    Acknowledgement, BaseRepo, ClusterType, CompositionPolicy, ConfigContainer, ConfigSchema,
    DeliveryPolicy, Environment, GitOpsRepo, PromotionPolicy, SchedulingPolicy, Site, Taint,
    Template, WorkloadRegistration,
};
use super::yaml::Node;

mod acknowledgement;
mod cluster_type;
pub mod composition;
mod config;
mod delivery;
mod fields;
pub mod foreign;
mod label_selector;
pub mod metadata;
mod plain_site;
mod policy;
mod promotion;
mod repository;
mod site;
mod taint;
mod template;
pub mod workload;

pub use acknowledgement::CODE_DIGITS;
pub use fields::Reader;
use outhaul_kit::suggest::did_you_mean;
use plain_site::{Part, Plain, Uncertain};
pub use repository::AFTER_LABEL;
pub use workload::Workload;

/// Kalypso's group and version.
pub const KALYPSO: &str = "scheduler.kalypso.io/v1alpha1";
/// Our own group and version.
pub const OUTHAUL: &str = "outhaul.dev/v1alpha1";

/// The kinds that people write in Kalypso's group.
pub const KALYPSO_KINDS: &[&str] = &[
    "BaseRepo",
    "ClusterType",
    "ConfigSchema",
    "Environment",
    "GitOpsRepo",
    "SchedulingPolicy",
    "Template",
    "Workload",
    "WorkloadRegistration",
];
/// What Kalypso makes for itself; in a control plane it means nothing.
const KALYPSO_INTERNAL: &[&str] = &["Assignment", "AssignmentPackage", "DeploymentTarget"];
/// The kinds of our own group.
pub const OUTHAUL_KINDS: &[&str] = &[
    "Acknowledgement",
    "CompositionPolicy",
    "DeliveryPolicy",
    "PromotionPolicy",
    "SchedulingPolicy",
    "Site",
    "Taint",
    "Template",
];

/// One object of a control plane.
#[derive(Debug, Clone, PartialEq)]
pub enum Object {
    /// That a removal is meant.
    Acknowledgement(Acknowledgement),
    /// A base repository.
    BaseRepo(BaseRepo),
    /// A cluster type.
    ClusterType(ClusterType),
    /// How config is composed.
    Composition(CompositionPolicy),
    /// A config container.
    Config(ConfigContainer),
    /// A config schema.
    ConfigSchema(ConfigSchema),
    /// How a platform travels.
    Delivery(DeliveryPolicy),
    /// An environment.
    Environment(Environment),
    /// Where the rendered platform goes.
    GitOpsRepo(GitOpsRepo),
    /// A scheduling policy.
    Policy(SchedulingPolicy),
    /// What a promotion needs.
    Promotion(PromotionPolicy),
    /// A workload registration.
    Registration(WorkloadRegistration),
    /// A site.
    Site(Site),
    /// A taint.
    Taint(Taint),
    /// A template.
    Template(Template),
    /// A workload.
    Workload(Workload),
}

impl Object {
    /// Its kind, for people.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Acknowledgement(_) => "Acknowledgement",
            Self::BaseRepo(_) => "BaseRepo",
            Self::ClusterType(_) => "ClusterType",
            Self::Composition(_) => "CompositionPolicy",
            Self::Config(_) => "ConfigMap",
            Self::ConfigSchema(_) => "ConfigSchema",
            Self::Delivery(_) => "DeliveryPolicy",
            Self::Environment(_) => "Environment",
            Self::GitOpsRepo(_) => "GitOpsRepo",
            Self::Policy(_) => "SchedulingPolicy",
            Self::Promotion(_) => "PromotionPolicy",
            Self::Registration(_) => "WorkloadRegistration",
            Self::Site(_) => "Site",
            Self::Taint(_) => "Taint",
            Self::Template(_) => "Template",
            Self::Workload(_) => "Workload",
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Acknowledgement(o) => &o.name,
            Self::BaseRepo(o) => &o.name,
            Self::ClusterType(o) => &o.name,
            Self::Composition(o) => &o.name,
            Self::Config(o) => &o.name,
            Self::ConfigSchema(o) => &o.name,
            Self::Delivery(o) => &o.name,
            Self::Environment(o) => &o.name,
            Self::GitOpsRepo(o) => &o.name,
            Self::Policy(o) => &o.name,
            Self::Promotion(o) => &o.name,
            Self::Registration(o) => &o.name,
            Self::Site(o) => &o.name,
            Self::Taint(o) => &o.name,
            Self::Template(o) => &o.name,
            Self::Workload(o) => &o.name,
        }
    }

    /// Where it is written.
    pub fn location(&self) -> &Location {
        match self {
            Self::Acknowledgement(o) => &o.location,
            Self::BaseRepo(o) => &o.location,
            Self::ClusterType(o) => &o.location,
            Self::Composition(o) => &o.location,
            Self::Config(o) => &o.location,
            Self::ConfigSchema(o) => &o.location,
            Self::Delivery(o) => &o.location,
            Self::Environment(o) => &o.location,
            Self::GitOpsRepo(o) => &o.location,
            Self::Policy(o) => &o.location,
            Self::Promotion(o) => &o.location,
            Self::Registration(o) => &o.location,
            Self::Site(o) => &o.location,
            Self::Taint(o) => &o.location,
            Self::Template(o) => &o.location,
            Self::Workload(o) => &o.location,
        }
    }
}

/// The objects of one file. Findings are added to `findings`; what is sound is returned all the same,
/// so that one load tells everything that is wrong.
pub fn read_file(file: &Arc<SourceFile>, findings: &mut Diagnostics) -> Vec<Object> {
    read_around_sites(file, findings, |site, objects| {
        objects.push(Object::Site(site.site(file)));
    })
}

/// As [`read_file`], for who asks about no site: those written plainly and without a mistake are
/// passed over, which is many times faster than reading them. Others may be among the objects.
pub fn read_file_without_sites(file: &Arc<SourceFile>, findings: &mut Diagnostics) -> Vec<Object> {
    read_around_sites(file, findings, |_, _| {})
}

/// Hands plain sites to `each`, which may add to the objects, and parses what is between them.
fn read_around_sites(
    file: &Arc<SourceFile>,
    findings: &mut Diagnostics,
    each: impl Fn(&Plain<'_>, &mut Vec<Object>),
) -> Vec<Object> {
    let (mut objects, mut found) = (Vec::new(), Diagnostics::new());
    let certain = plain_site::parts(&file.text, &mut |part| {
        match part {
            Part::Site(site) => each(site, &mut objects),
            Part::Other(part) => match super::yaml::parse_part(file, part) {
                Ok(documents) => objects.extend(read_documents(file, &documents, &mut found)),
                // What is wrong with a part may be otherwise wrong with the whole.
                Err(_) => return Err(Uncertain),
            },
        }
        Ok(())
    });
    if certain == Err(Uncertain) {
        return read_whole(file, findings);
    }
    findings.append(found);
    objects
}

/// As [`read_file`], by the parser alone.
fn read_whole(file: &Arc<SourceFile>, findings: &mut Diagnostics) -> Vec<Object> {
    match super::yaml::parse(file) {
        Ok(documents) => read_documents(file, &documents, findings),
        Err(diagnostic) => {
            findings.push(*diagnostic);
            Vec::new()
        }
    }
}

fn read_documents(
    file: &Arc<SourceFile>,
    documents: &[Node],
    findings: &mut Diagnostics,
) -> Vec<Object> {
    let mut reader = Reader::new(file, findings);
    let mut objects = Vec::new();
    for document in documents {
        // `kubectl get -o yaml` wraps objects in a list; a list of objects is those objects.
        match document.field("items").map(|items| &items.value) {
            Some(super::yaml::Value::Sequence(items))
                if document.field("kind").and_then(Node::as_str) == Some("List") =>
            {
                objects.extend(
                    items
                        .iter()
                        .filter_map(|item| read_object(&mut reader, item)),
                );
            }
            _ => objects.extend(read_object(&mut reader, document)),
        }
    }
    objects
}

fn read_object(reader: &mut Reader<'_>, document: &Node) -> Option<Object> {
    let Some(version) = document.field("apiVersion").and_then(Node::as_str) else {
        foreign::without_version(reader, document);
        return None;
    };
    let kind = document.field("kind").and_then(Node::as_str);
    let (group, known) = match version {
        KALYPSO => (KALYPSO, KALYPSO_KINDS),
        OUTHAUL => (OUTHAUL, OUTHAUL_KINDS),
        "v1" if kind == Some("ConfigMap") => {
            let read = config::container(reader, document);
            if read.is_none() {
                foreign::unlabelled(reader, document);
            }
            return read.map(Object::Config);
        }
        other => {
            foreign::of_another_group(reader, document, other);
            return None;
        }
    };
    let Some(kind) = kind else {
        let location = reader.location(document.field("apiVersion").unwrap_or(document));
        reader.report(
            Diagnostic::error(
                "missing-field",
                format!("an object of `{group}` without `kind`"),
            )
            .at(&location)
            .help(format!("`kind` is one of {}", known.join(", "))),
        );
        return None;
    };
    let fields: &[&str] = &["apiVersion", "kind", "metadata", "spec", "status"];
    let object = reader.map(document, kind, fields)?;
    match (group, kind) {
        (KALYPSO, "BaseRepo") => repository::base_repo(reader, &object).map(Object::BaseRepo),
        (KALYPSO, "ClusterType") => cluster_type::read(reader, &object).map(Object::ClusterType),
        (KALYPSO, "ConfigSchema") => config::schema(reader, &object).map(Object::ConfigSchema),
        (KALYPSO, "Environment") => {
            repository::environment(reader, &object).map(Object::Environment)
        }
        (KALYPSO, "GitOpsRepo") => repository::gitops_repo(reader, &object).map(Object::GitOpsRepo),
        (KALYPSO, "SchedulingPolicy") => policy::kalypso(reader, &object).map(Object::Policy),
        (KALYPSO, "Template") => template::kalypso(reader, &object).map(Object::Template),
        (KALYPSO, "Workload") => workload::read(reader, &object).map(Object::Workload),
        (KALYPSO, "WorkloadRegistration") => {
            repository::registration(reader, &object).map(Object::Registration)
        }
        (OUTHAUL, "Acknowledgement") => {
            acknowledgement::read(reader, &object).map(Object::Acknowledgement)
        }
        (OUTHAUL, "CompositionPolicy") => {
            composition::read(reader, &object).map(Object::Composition)
        }
        (OUTHAUL, "DeliveryPolicy") => delivery::read(reader, &object).map(Object::Delivery),
        (OUTHAUL, "PromotionPolicy") => promotion::read(reader, &object).map(Object::Promotion),
        (OUTHAUL, "SchedulingPolicy") => policy::own(reader, &object).map(Object::Policy),
        (OUTHAUL, "Site") => site::read(reader, &object).map(Object::Site),
        (OUTHAUL, "Taint") => taint::read(reader, &object).map(Object::Taint),
        (OUTHAUL, "Template") => template::own(reader, &object).map(Object::Template),
        _ => {
            unknown_kind(reader, document, group, kind, known);
            None
        }
    }
}

fn unknown_kind(reader: &mut Reader<'_>, document: &Node, group: &str, kind: &str, known: &[&str]) {
    let location = reader.location(document.field("kind").unwrap_or(document));
    if group == KALYPSO && KALYPSO_INTERNAL.contains(&kind) {
        reader.report(
            Diagnostic::warning(
                "internal-kind",
                format!("`{kind}` is made, not written: ignored"),
            )
            .at(&location)
            .help("it follows from workloads, policies and cluster types; remove it here"),
        );
        return;
    }
    reader.report(
        Diagnostic::error("unknown-kind", format!("`{group}` has no kind `{kind}`"))
            .at(&location)
            .help(did_you_mean(kind, known)),
    );
}

#[cfg(test)]
mod tests;
