//! Kinds: from YAML documents to the objects of a control plane.
//!
//! What comes in: one document as [`Node`]s. What goes out: an [`Object`] of Kalypso's group, a
//! labelled `ConfigMap`, or an object of ours; every other Kubernetes object is ignored
//! and gives nothing. The header is read first, then the kind's own fields. An unknown field or kind
//! is an error with the nearest name that exists; nothing is ever ignored in silence.

use std::sync::{Arc, LazyLock};

use super::diagnostic::{Diagnostic, Diagnostics, Location, SourceFile};
use super::model::{
    Acknowledgement, BaseRepo, ClusterType, CompositionPolicy, ConfigContainer, ConfigSchema,
    DeliveryPolicy, Environment, GitOpsRepo, OpenValues, PromotionPolicy, SchedulingPolicy, Site,
    Taint, Template, WorkloadRegistration,
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
mod secrets;
mod shape;
mod site;
mod site_values;
mod taint;
mod template;
pub mod workload;

pub use acknowledgement::CODE_DIGITS;
pub use config::AZURE_PREFIX;
pub use fields::FieldReader;
use fields::Fields;
use outhaul_kit::private_keys;
use outhaul_kit::suggest::did_you_mean;
use plain_site::{Part, Plain, Uncertain};
pub use repository::AFTER_LABEL;
pub use shape::KindSchema;
pub use workload::Workload;

/// Kalypso's group and version.
pub const KALYPSO: &str = "scheduler.kalypso.io/v1alpha1";
/// Our own group and version.
pub const OUTHAUL: &str = "outhaul.dev/v1alpha1";

/// What Kalypso makes for itself; in a control plane it means nothing.
pub(super) const KALYPSO_INTERNAL: [&str; 3] =
    ["Assignment", "AssignmentPackage", "DeploymentTarget"];

macro_rules! objects {
    ($($(#[$about:meta])* $variant:ident($model:ty) = $kind:literal;)*) => {
        /// One object of a control plane.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Object {
            $($(#[$about])* $variant($model),)*
        }

        impl Object {
            /// Its kind, for people.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $kind,)*
                }
            }

            /// Its name.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant(object) => &object.name,)*
                }
            }

            /// Where it is written.
            pub fn location(&self) -> &Location {
                match self {
                    $(Self::$variant(object) => &object.location,)*
                }
            }
        }

        $(impl From<$model> for Object {
            fn from(object: $model) -> Self {
                Self::$variant(object)
            }
        })*
    };
}

objects! {
    /// That a removal is meant.
    Acknowledgement(Acknowledgement) = "Acknowledgement";
    /// A base repository.
    BaseRepo(BaseRepo) = "BaseRepo";
    /// A cluster type.
    ClusterType(ClusterType) = "ClusterType";
    /// How config is composed.
    Composition(CompositionPolicy) = "CompositionPolicy";
    /// A config container.
    Config(ConfigContainer) = "ConfigMap";
    /// A config schema.
    ConfigSchema(ConfigSchema) = "ConfigSchema";
    /// How a platform travels.
    Delivery(DeliveryPolicy) = "DeliveryPolicy";
    /// An environment.
    Environment(Environment) = "Environment";
    /// Where the rendered platform goes.
    GitOpsRepo(GitOpsRepo) = "GitOpsRepo";
    /// A scheduling policy.
    Policy(SchedulingPolicy) = "SchedulingPolicy";
    /// What a promotion needs.
    Promotion(PromotionPolicy) = "PromotionPolicy";
    /// A workload registration.
    Registration(WorkloadRegistration) = "WorkloadRegistration";
    /// A site.
    Site(Site) = "Site";
    /// What sites may set.
    SiteValues(OpenValues) = "SiteValues";
    /// A taint.
    Taint(Taint) = "Taint";
    /// A template.
    Template(Template) = "Template";
    /// A workload.
    Workload(Workload) = "Workload";
}

macro_rules! read {
    ($read:path) => {
        |reader, object| $read(reader, object).map(Object::from)
    };
}

type Read = fn(&mut FieldReader<'_>, &Fields<'_>) -> Option<Object>;

/// Every kind with its reader: the `ConfigMap`, Kalypso's kinds and ours, each group sorted by name.
static KINDS: LazyLock<Vec<(KindSchema, Read)>> = LazyLock::new(|| {
    vec![
        (config::container_described(), |_, _| None),
        (
            repository::base_repo_described(),
            read!(repository::base_repo),
        ),
        (cluster_type::described(), read!(cluster_type::read)),
        (config::schema_described(), read!(config::schema)),
        (
            repository::environment_described(),
            read!(repository::environment),
        ),
        (
            repository::gitops_repo_described(),
            read!(repository::gitops_repo),
        ),
        (policy::kalypso_described(), read!(policy::kalypso)),
        (template::kalypso_described(), read!(template::kalypso)),
        (workload::described(), read!(workload::read)),
        (
            repository::registration_described(),
            read!(repository::registration),
        ),
        (acknowledgement::described(), read!(acknowledgement::read)),
        (composition::described(), read!(composition::read)),
        (delivery::described(), read!(delivery::read)),
        (promotion::described(), read!(promotion::read)),
        (policy::own_described(), read!(policy::own)),
        (site::described(), read!(site::read)),
        (site_values::described(), read!(site_values::read)),
        (taint::described(), read!(taint::read)),
        (template::own_described(), read!(template::own)),
    ]
});

/// Every kind, described.
pub fn all() -> impl Iterator<Item = &'static KindSchema> {
    KINDS.iter().map(|(kind, _)| kind)
}

fn described(group: &str, name: &str) -> Option<&'static KindSchema> {
    all().find(|kind| kind.api_version == group && kind.name == name)
}

/// The objects of one file. Findings are added to `findings`; what is sound is returned all the same,
/// so that one load reports everything that is wrong.
pub fn read_file(file: &Arc<SourceFile>, findings: &mut Diagnostics) -> Vec<Object> {
    read_around_sites(file, findings, |site, objects| {
        objects.push(Object::Site(site.site(file)));
    })
}

/// As [`read_file`], for who asks about no site: those written plainly and without a mistake are
/// skipped, which is many times faster than reading them. Others may be among the objects.
pub fn read_file_without_sites(file: &Arc<SourceFile>, findings: &mut Diagnostics) -> Vec<Object> {
    read_around_sites(file, findings, |_, _| {})
}

/// Hands plain sites to `each`, which may add to the objects, and parses what is between them.
fn read_around_sites(
    file: &Arc<SourceFile>,
    findings: &mut Diagnostics,
    each: impl Fn(&Plain<'_>, &mut Vec<Object>),
) -> Vec<Object> {
    if file.text.trim().is_empty() || private_keys::in_text(&file.text).is_some() {
        return read_whole(file, findings);
    }
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
    if file.text.trim().is_empty() {
        findings.push(
            Diagnostic::warning("empty-file", "this file is empty: what was in it is gone")
                .at(&Location::new(file, 0..0))
                .help("restore it (`git log` shows when it was emptied), or delete it"),
        );
    }
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
    let mut reader = FieldReader::new(file, findings);
    let has_secrets = private_keys::in_text(&file.text).is_some();
    let mut objects = Vec::new();
    for document in documents {
        // `kubectl get -o yaml` wraps objects in a list; a list of objects is those objects.
        match document.field("items").map(|items| &items.value) {
            Some(super::yaml::YamlValue::Sequence(items))
                if document.field("kind").and_then(Node::as_str) == Some("List") =>
            {
                objects.extend(
                    items
                        .iter()
                        .filter_map(|item| read_object(&mut reader, item, has_secrets)),
                );
            }
            _ => objects.extend(read_object(&mut reader, document, has_secrets)),
        }
    }
    objects
}

/// The object of a document, of a file in which there is a private key somewhere or not.
fn read_object(reader: &mut FieldReader<'_>, document: &Node, has_secrets: bool) -> Option<Object> {
    let Some(version) = document.field("apiVersion").and_then(Node::as_str) else {
        foreign::without_version(reader, document);
        return None;
    };
    let kind = document.field("kind").and_then(Node::as_str);
    let group = match version {
        KALYPSO | OUTHAUL => version,
        "v1" if kind == Some("ConfigMap") => {
            let shape = described("v1", "ConfigMap").map(|kind| &kind.shape);
            let read = shape.and_then(|shape| config::container(reader, document, shape));
            match read.is_none() {
                true => foreign::unlabelled(reader, document),
                false if has_secrets => {
                    secrets::report(reader, document, "ConfigMap", false);
                }
                false => {}
            }
            return read.map(Object::Config);
        }
        other => {
            foreign::of_another_group(reader, document, other);
            return None;
        }
    };
    let of_group = || all().filter(|kind| kind.api_version == group);
    let Some(kind) = kind else {
        let location = reader.location(document.field("apiVersion").unwrap_or(document));
        reader.report(
            Diagnostic::error(
                "missing-field",
                format!("an object of `{group}` without `kind`"),
            )
            .at(&location)
            .help(format!(
                "`kind` is one of {}",
                of_group()
                    .map(|kind| kind.name)
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
        );
        return None;
    };
    let mut known = KINDS.iter();
    let known = known.find(|(known, _)| known.api_version == group && known.name == kind);
    let Some((described, read)) = known else {
        let known: Vec<&str> = of_group().map(|kind| kind.name).collect();
        unknown_kind(reader, document, group, kind, &known);
        return None;
    };
    if has_secrets {
        secrets::report(reader, document, kind, group == OUTHAUL);
    }
    let object = reader.map(document, kind, &described.shape)?;
    read(reader, &object)
}

fn unknown_kind(
    reader: &mut FieldReader<'_>,
    document: &Node,
    group: &str,
    kind: &str,
    known: &[&str],
) {
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
