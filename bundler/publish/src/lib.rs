//! Signed bundles, to where connected sites pull them from.
//!
//! ```text
//! kept bundles + metadata ─▶ Publication ─▶ publish ─▶ Target (web folder, S3-compatible storage)
//!                                 └───────▶ oci::push ─▶ an OCI registry
//! ```
//!
//! What comes in: bundle files that were signed, the fleet's metadata, a target. What goes out: the same bytes there,
//! sent only where they are missing, in an order in which a reader never sees half a state. It signs nothing, makes no
//! bundle, and removes nothing at a target.
#![expect(clippy::result_large_err, reason = "an error ends the run")]

mod error;
mod folder;
mod listed;
pub mod oci;
mod publication;
pub mod s3;
mod send;
mod target;

pub use error::{PublicationError, TargetError};
pub use folder::WebFolder;
pub use listed::ReadMetadata;
pub use publication::{BundleFile, KeptFile, Object, Publication, refuse_lost};
pub use send::{Options, Sent, publish};
pub use target::Target;
