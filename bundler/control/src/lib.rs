//! What people write: the objects of a control plane, read from YAML and checked as a whole.
//!
//! What comes in: texts with their names, and who brought each. What goes out: a [`ControlPlane`], or every
//! finding with its place; and the JSON Schemas of all kinds. It is pure: it opens no file, asks no
//! server, reads no clock, and does not know what is made of a control plane.

mod assemble;
pub mod diagnostic;
pub mod kinds;
pub mod model;
pub mod overriding;
pub mod schema;
pub mod selector;
pub mod yaml;

pub use assemble::{
    FoundObject, MISPLACED_POLICY, ObjectOrigin, RawObjects, assemble, not_beside,
    of_an_environment,
};
pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use model::ControlPlane;
