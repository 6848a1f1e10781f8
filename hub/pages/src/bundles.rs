//! The pages of bundles, of one assignment at a site, and of two environments beside each other.
//!
//! What comes in: views. What goes out: HTML as [`super`] makes it. Nothing is decided or counted here.

use minijinja::context;
use minijinja::value::Serde;

use super::{Shown, page, query_of};
use outhaul_view::{AssignmentView, BundleList, BundleView, Comparison};

/// Bundles by stream.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn bundles(list: &BundleList, visitor: &Shown) -> Result<String, minijinja::Error> {
    let given = [
        ("environment", &list.wanted.environment),
        ("cluster_type", &list.wanted.cluster_type),
    ];
    page(
        include_str!("bundles.html"),
        context! {
            here => "/bundles",
            read_at => Serde(&list.read_at),
            list => Serde(list),
            query => query_of(&given),
        },
        visitor,
    )
}

/// One bundle.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn bundle(bundle: &BundleView, visitor: &Shown) -> Result<String, minijinja::Error> {
    page(
        include_str!("bundle.html"),
        context! { here => "", read_at => Serde(&bundle.read_at), bundle => Serde(bundle) },
        visitor,
    )
}

/// One assignment at a site.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn assignment(one: &AssignmentView, visitor: &Shown) -> Result<String, minijinja::Error> {
    page(
        include_str!("assignment.html"),
        context! { here => "", read_at => Serde(&one.read_at), one => Serde(one) },
        visitor,
    )
}

/// Two environments beside each other.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn comparison(found: &Comparison, visitor: &Shown) -> Result<String, minijinja::Error> {
    page(
        include_str!("compare.html"),
        context! {
            here => "",
            read_at => Serde(&found.read_at),
            found => Serde(found),
            environments => Serde(&found.environments),
        },
        visitor,
    )
}

/// Which two environments are to be compared.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn choose_environments(
    environments: &[String],
    read_at: &str,
    visitor: &Shown,
) -> Result<String, minijinja::Error> {
    page(
        include_str!("compare.html"),
        context! { here => "", read_at => Serde(read_at), environments => Serde(environments) },
        visitor,
    )
}
