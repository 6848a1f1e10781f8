//! Templates: which of those that make a cluster type's files are others than before.
//!
//! What comes in: both control planes and a cluster type. What goes out: each of its templates that is
//! another one, or whose text differs, with both places: why files differ where no value does.

use std::collections::BTreeSet;

use serde::Serialize;

use outhaul_control::ControlPlane;
use outhaul_control::model::{Spanned, Template, TemplateType};
use outhaul_plane::templates;

/// A template that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TemplateChange {
    /// What it is for.
    pub kind: &'static str,
    /// Its name before; absent when there was none.
    pub before: Option<TemplateAt>,
    /// Its name after; absent when there is none.
    pub after: Option<TemplateAt>,
}

/// A template's name and place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TemplateAt {
    /// Its name.
    pub template: String,
    /// Where its text is written, or where it is named when there is none: `file:line`.
    pub at: String,
}

pub(super) fn between(
    before: &ControlPlane,
    after: &ControlPlane,
    cluster_type: &str,
) -> Vec<TemplateChange> {
    let (Some(_), Some(_)) = (
        before.cluster_types.get(cluster_type),
        after.cluster_types.get(cluster_type),
    ) else {
        return Vec::new();
    };
    [RECONCILER, NAMESPACE, CONFIG, BOOTSTRAP]
        .into_iter()
        .filter_map(|kind| {
            let (old, new) = (
                NamedTemplate::of(before, cluster_type, kind),
                NamedTemplate::of(after, cluster_type, kind),
            );
            if old.as_ref().map(NamedTemplate::content) == new.as_ref().map(NamedTemplate::content)
            {
                return None;
            }
            Some(TemplateChange {
                kind,
                before: old.map(|old| old.at()),
                after: new.map(|new| new.at()),
            })
        })
        .collect()
}

const RECONCILER: &str = TemplateType::Reconciler.as_str();
const NAMESPACE: &str = TemplateType::Namespace.as_str();
const CONFIG: &str = TemplateType::Config.as_str();
/// The template of what brings the reconciler.
const BOOTSTRAP: &str = "bootstrap";

/// A template as a cluster type names it.
struct NamedTemplate<'a> {
    name: &'a Spanned<String>,
    template: Option<&'a Template>,
    /// For which targets it is, where it is not for all.
    targets: BTreeSet<&'a str>,
}

impl<'a> NamedTemplate<'a> {
    fn of(plane: &'a ControlPlane, cluster_type: &str, kind: &str) -> Option<Self> {
        let cluster_type = plane.cluster_types.get(cluster_type)?;
        let brings = templates::bootstrap(&plane.deliveries, cluster_type);
        let name = match kind {
            RECONCILER => Some(&cluster_type.reconciler),
            NAMESPACE => Some(&cluster_type.namespace_service),
            CONFIG => cluster_type.config_type.as_ref(),
            _ => brings.map(|brings| &brings.reconciler),
        }?;
        let targets = brings.filter(|_| kind == BOOTSTRAP).into_iter();
        Some(Self {
            name,
            template: plane.templates.get(&name.value),
            targets: targets
                .flat_map(|brings| &brings.targets)
                .map(|target| target.value.as_str())
                .collect(),
        })
    }

    /// What makes a difference, wherever it is written.
    fn content(&self) -> impl PartialEq + use<'a> {
        let texts = self.template.map(|template| {
            let texts = template.manifests.iter().map(|text| text.value.as_str());
            let ending = template.content_type.as_ref();
            let ending = ending.map(|spanned| spanned.value.as_str());
            (template.language, texts.collect::<Vec<_>>(), ending)
        });
        (self.name.value.as_str(), texts, self.targets.clone())
    }

    fn at(&self) -> TemplateAt {
        let (name, template) = (self.name, self.template);
        let at = template.map_or(&name.location, |template| &template.location);
        TemplateAt {
            template: name.value.clone(),
            at: at.file_line(),
        }
    }
}
