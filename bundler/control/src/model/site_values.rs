//! Which values of some assignments belong to their sites.
//!
//! What comes in: typed fields of `SiteValues`. What goes out: plain data, every key with its place. What that means for an
//! assignment is decided when it is rendered.

use std::collections::BTreeMap;

use outhaul_bundle::index::site_values::{Form, Rule};

use super::super::diagnostic::Location;
use super::super::selector::Selector;
use super::Spanned;

/// Which values of some assignments belong to their sites.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenValues {
    /// Its name.
    pub name: String,
    /// Of which deployment targets.
    pub targets: Selector,
    /// On which cluster types.
    pub cluster_types: Selector,
    /// How the values are written.
    pub form: Form,
    /// What each open key may be.
    pub keys: BTreeMap<String, Spanned<Rule>>,
    /// Where it is written.
    pub location: Location,
}
