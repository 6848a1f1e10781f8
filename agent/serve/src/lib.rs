//! What a site serves, read only: the active generation's images as an OCI registry, and its repositories
//! over smart HTTP, both under their original names.
//!
//! What comes in: a [`view::View`], which names the folder of the active generation, and HTTP requests. What
//! goes out: bytes that match the digest by which they are asked for. It knows neither bundles nor trust nor
//! the site's state machine, writes nothing but its own certificate authority, and never opens a connection.

pub mod catalog;
pub mod cli;
pub mod digest;
pub mod error;
pub mod git;
pub mod layout;
pub mod name;
pub mod range;
pub mod route;
pub mod server;
pub mod tls;
pub mod view;

mod answer;
mod body;
mod patient;
mod registry;

pub use error::ServeError;
