//! Which bundles an advisory is about.
//!
//! What comes in: an advisory (OSV), statements about exploitability (`OpenVEX`) and bills of materials (`CycloneDX`), as bytes
//! that nobody has looked at. What goes out: per bundle what is affected, what a statement clears, and what
//! cannot be known. It reads no store, clock or file.

mod advisory;
mod document;
mod examine;
mod materials;
mod purl;
mod release;
mod shown;
mod stated;
mod unmatched;
mod version;
mod vulnerability;

pub use advisory::{
    Advisory, AdvisoryError, MAX_ADVISORY_BYTES, MAX_ADVISORY_NAME_BYTES, Subject, Unmatched,
};
pub use document::VulnerabilityDocument;
pub use examine::{Cleared, Finding, Hit, LocatedComponent, Stated, examine};
pub use materials::{
    CarriedImage, Component, ComponentKind, MAX_BILL_BYTES, Materials, MaterialsError,
};
pub use release::Distribution;
