//! Which components a statement about exploitability is about.
//!
//! What comes in: a statement, what is known of a component, and of the image that it is in. What goes out: whether it is about it, and whether
//! it names that very version. All that a statement says of a product has to fit; what cannot be compared fits nothing. A
//! statement without a product is about nothing.

use outhaul_vex::{ProductIdentifiers, Statement};

use crate::purl::Purl;

/// What a bill of materials says that something is.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownComponent {
    /// Its names and package URLs.
    pub(crate) names: Vec<String>,
    /// Its SHA-256 in hexadecimal digits, where the bill has one.
    pub(crate) sha256: Option<String>,
}

/// How a statement is about something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum About {
    /// Every version of it.
    Any,
    /// This version, or this image.
    Exactly,
}

/// Whether a statement is about this package in this image, and how; `image` knows nothing for a package that is in no image.
pub(crate) fn about(
    statement: &Statement,
    component: &KnownComponent,
    image: &KnownComponent,
) -> Option<About> {
    let of_product = |product: &outhaul_vex::Product| {
        let own = product
            .named
            .fits(component)
            .max(product.named.fits(image))?;
        if product.components.is_empty() {
            return Some(own);
        }
        let within = product.components.iter();
        let within = within.filter_map(|one| one.fits(component)).max()?;
        Some(own.max(within))
    };
    statement.products.iter().filter_map(of_product).max()
}

trait Fits {
    fn fits(&self, known: &KnownComponent) -> Option<About>;
}

impl Fits for ProductIdentifiers {
    fn fits(&self, known: &KnownComponent) -> Option<About> {
        let is_nothing = self.names.is_empty() && self.hashes.is_empty();
        if is_nothing || !self.others.is_empty() {
            return None;
        }
        let mut exactly = About::Any;
        for name in &self.names {
            exactly = known
                .names
                .iter()
                .filter_map(|found| means(name, found))
                .max()?
                .max(exactly);
        }
        for (algorithm, digest) in &self.hashes {
            let sha256 = known.sha256.as_ref()?;
            if !is_sha256(algorithm) || !digest.eq_ignore_ascii_case(sha256) {
                return None;
            }
            exactly = About::Exactly;
        }
        Some(exactly)
    }
}

/// Whether a document means SHA-256 by a word.
pub(crate) fn is_sha256(algorithm: &str) -> bool {
    ["sha-256", "sha256"]
        .iter()
        .any(|word| algorithm.eq_ignore_ascii_case(word))
}

/// Whether a name of a statement means what has this name or package URL.
fn means(stated: &str, found: &str) -> Option<About> {
    match (Purl::stated(stated), Purl::parse(found)) {
        (Ok(stated), Some(found)) => stated.covers(&found).then(|| {
            let names_one = !stated.version.is_empty() || stated.qualifiers.contains_key("tag");
            if names_one {
                About::Exactly
            } else {
                About::Any
            }
        }),
        // A name that is missing on both sides is no name. That of an image has its tag or digest.
        _ => (stated == found && !stated.is_empty()).then_some(About::Exactly),
    }
}

#[cfg(test)]
mod tests;
