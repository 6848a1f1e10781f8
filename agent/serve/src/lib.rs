//! What a site serves, read only: the active generation's images as an OCI registry, its charts as chart repositories, its packages as apt repositories,
//! and its git repositories over smart HTTP, all under their original names.
//!
//! What comes in: a [`view::View`], which names the folder of the active generation, and HTTP requests. What
//! goes out: bytes that match the digest by which they are asked for. It knows neither bundles nor trust nor
//! the site's state machine, and never opens a connection. Serving writes nothing but its own certificate authority;
//! [`containerd`] writes that program's mirror configuration, when someone asks for it.

pub mod catalog;
pub mod charts;
pub mod digest;
mod error;
pub mod git;
pub mod layout;
pub mod name;
pub mod packages;
pub mod settings;
pub mod view;

#[cfg(feature = "server")]
mod answer;
#[cfg(feature = "server")]
mod body;
#[cfg(feature = "server")]
pub mod cli;
#[cfg(feature = "server")]
pub mod containerd;
#[cfg(feature = "server")]
mod page;
#[cfg(feature = "server")]
pub mod range;
#[cfg(feature = "server")]
mod registry;
#[cfg(feature = "server")]
pub mod route;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
mod tls;
#[cfg(feature = "server")]
mod verify;

pub use error::ServeError;
