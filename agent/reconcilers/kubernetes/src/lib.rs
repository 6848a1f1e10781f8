//! Plain Kubernetes manifests and the API server that makes them real.
//!
//! What comes in: a kubeconfig and the text of manifests. What goes out: objects in the order in which they
//! are applied, a [`Cluster`] that applies, reads and deletes one of them at a time, and verdicts on what it
//! answers. Order, health and difference are pure. It knows nothing of bundles, signatures, the site's
//! state or the hub; it keeps nothing, and decides for no object whether it may be removed.

mod access_error;
pub mod argocd;
mod client;
mod clock;
pub mod cluster;
pub mod condition;
mod config;
pub mod differ;
mod exec;
pub mod fleet;
pub mod flux;
pub mod health;
pub mod manifest;
mod omitted;
pub mod order;
pub mod platform;
mod status;
pub mod yaml;

pub use access_error::AccessError;
pub use client::ClientError;
pub use cluster::{Cluster, Resource};
pub use config::{Access, ApiCredentials};
pub use exec::ExecPlugin;
pub use health::Health;
pub use manifest::{Key, Object};
pub use status::{Reason, Refusal};

/// The name under which the API server records which fields are ours.
pub const FIELD_MANAGER: &str = "outhaul";
