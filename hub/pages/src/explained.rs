//! The pages that explain: one pair of cluster type and target, and the platform as it was read.
//!
//! What comes in: views. What goes out: HTML as [`super`] makes it. Nothing is decided or counted here, and no page has a form that
//! changes anything.

use minijinja::context;
use minijinja::value::Serde;

use super::{Shown, page};
use outhaul_view::explained::{EntityView, ExplainView, KindView, PlatformList, PlatformView};

/// One pair.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn explain(pair: &ExplainView, visitor: &Shown) -> Result<String, minijinja::Error> {
    page(
        include_str!("explain.html"),
        context! { here => "", read_at => Serde(&pair.read_at), pair => Serde(pair) },
        visitor,
    )
}

/// The environments that were explained.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn platforms(list: &PlatformList, visitor: &Shown) -> Result<String, minijinja::Error> {
    page(
        include_str!("platforms.html"),
        context! { here => "/platform", read_at => Serde(&list.read_at), list => Serde(list) },
        visitor,
    )
}

/// The platform of an environment.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn platform(found: &PlatformView, visitor: &Shown) -> Result<String, minijinja::Error> {
    page(
        include_str!("platform.html"),
        context! { here => "", read_at => Serde(&found.read_at), found => Serde(found) },
        visitor,
    )
}

/// The entities of one kind.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn platform_kind(found: &KindView, visitor: &Shown) -> Result<String, minijinja::Error> {
    page(
        include_str!("platform_kind.html"),
        context! { here => "", read_at => Serde(&found.read_at), found => Serde(found) },
        visitor,
    )
}

/// One entity.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn platform_entity(found: &EntityView, visitor: &Shown) -> Result<String, minijinja::Error> {
    page(
        include_str!("platform_entity.html"),
        context! { here => "", read_at => Serde(&found.read_at), found => Serde(found) },
        visitor,
    )
}
