//! The pages, which are a crate of their own; here with the tests that need what reports and people make of a store.
//!
//! What comes in: views. What goes out: HTML, as `outhaul_pages` makes it.

pub use outhaul_pages::*;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod bundles {
    use super::*;

    pub(super) mod tests;
}

#[cfg(test)]
mod views {
    use super::*;

    pub(super) mod tests;
}
