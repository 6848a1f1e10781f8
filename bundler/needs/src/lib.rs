//! Needs: what workloads ask of a network, found in what is rendered, in charts, and in Kustomize builds.
//!
//! ```text
//! a manifest ──▶ images, sources, charts          manifest
//! a chart    ──▶ images of its values, templates  chart
//! a build    ──▶ images and sources, by its path  kustomize
//! a list     ──▶ images that no manifest names    listed
//! a text     ──▶ what looks like an image         possible
//! ```
//!
//! Secrets in clear among them are named: `secrets`. What cannot be known is stated with its place. It runs no Helm and no Kustomize, and opens no connection.

pub mod chart;
mod fields;
pub mod kustomize;
mod listed;
mod manifest;
mod name;
mod possible;
mod pull_policy;
pub mod secrets;
mod unread;
mod values;

pub use listed::{ListError, ListOfFiles};
pub use manifest::*;
pub use name::parts;
pub use possible::Possible;
pub use unread::Unread;
