//! Which components a statement about exploitability is about.
//!
//! What comes in: a statement, a component's package URL or name, and the names of the image that it is in. What goes out: yes or no. A
//! statement without a product is about nothing.

use outhaul_vex::Statement;

use crate::purl::Purl;

/// Whether a statement is about this package in this image. `image` is that image's names and package URLs, none for a package that is in no
/// image.
pub(crate) fn is_about(statement: &Statement, component: &str, image: &[String]) -> bool {
    statement.products.iter().any(|product| {
        let mut own = product.names.iter();
        let is_component = own.any(|name| means(name, component));
        let mut names = product.names.iter();
        let is_image = names.any(|name| image.iter().any(|image| means(name, image)));
        let within = product.components.is_empty()
            || product.components.iter().any(|name| means(name, component));
        (is_component || is_image) && within
    })
}

/// Whether a name of a statement means what has this name or package URL.
fn means(stated: &str, found: &str) -> bool {
    match (Purl::stated(stated), Purl::parse(found)) {
        (Ok(stated), Some(found)) => stated.covers(&found),
        // A name that is missing on both sides is no name.
        _ => stated == found && !stated.is_empty(),
    }
}

#[cfg(test)]
mod tests;
