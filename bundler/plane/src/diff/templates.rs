//! Templates: which of those that make a cluster type's files are others than before.
//!
//! What comes in: both control planes and a cluster type. What goes out: each of its templates that is
//! another one, or whose text differs, with both places: why files differ where no value does.

use serde::Serialize;

use outhaul_control::ControlPlane;
use outhaul_control::model::{Spanned, Template, TemplateType};

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
    let kinds = [
        TemplateType::Reconciler,
        TemplateType::Namespace,
        TemplateType::Config,
    ];
    let (Some(_), Some(_)) = (
        before.cluster_types.get(cluster_type),
        after.cluster_types.get(cluster_type),
    ) else {
        return Vec::new();
    };
    kinds
        .into_iter()
        .filter_map(|kind| {
            let (old, new) = (
                named(before, cluster_type, kind),
                named(after, cluster_type, kind),
            );
            let texts = |found: Option<(&Spanned<String>, Option<&Template>)>| {
                let template = found.and_then(|(_, template)| template)?;
                let texts = template.manifests.iter().map(|text| text.value.clone());
                let ending = template
                    .content_type
                    .as_ref()
                    .map(|spanned| spanned.value.clone());
                Some((template.language, texts.collect::<Vec<_>>(), ending))
            };
            let name = |found: Option<(&Spanned<String>, Option<&Template>)>| {
                found.map(|(name, _)| name.value.clone())
            };
            if name(old) == name(new) && texts(old) == texts(new) {
                return None;
            }
            Some(TemplateChange {
                kind: kind.as_str(),
                before: old.map(template_at),
                after: new.map(template_at),
            })
        })
        .collect()
}

fn named<'a>(
    plane: &'a ControlPlane,
    cluster_type: &str,
    kind: TemplateType,
) -> Option<(&'a Spanned<String>, Option<&'a Template>)> {
    let cluster_type = plane.cluster_types.get(cluster_type)?;
    let name = match kind {
        TemplateType::Reconciler => Some(&cluster_type.reconciler),
        TemplateType::Namespace => Some(&cluster_type.namespace_service),
        TemplateType::Config => cluster_type.config_type.as_ref(),
    }?;
    Some((name, plane.templates.get(&name.value)))
}

fn template_at((name, template): (&Spanned<String>, Option<&Template>)) -> TemplateAt {
    let at = template.map_or(&name.location, |template| &template.location);
    TemplateAt {
        template: name.value.clone(),
        at: at.file_line(),
    }
}
