//! Images out of registries, and charts out of chart repositories, files by URL: found by tag or digest, pulled whole, verified, kept in a cache by digest.
//!
//! ```text
//! name ─▶ ImageReference ─▶ RegistryClient::manifest ─▶ pull: index, platforms, configs, layers ─▶ Cache
//! ```
//!
//! What comes in: an image's name, credentials, a folder. What goes out: the contents that the image consists
//! of, each a file of the cache whose bytes match its digest; and contents pushed by digest. It knows no bundle and no control plane, and decides
//! about no image.

mod cache;
pub mod chart;
pub mod chart_index;
mod client;
mod credentials;
mod elsewhere;
mod error;
pub mod file;
mod hosts;
mod led;
mod manifest;
mod notices;
mod platforms;
pub mod pull;
mod redirect;
pub mod reference;

mod challenge;
mod push;
pub mod signatures;

pub use cache::ImageCache;
pub use chart::{ChartReference, Hosts, pull_chart};
pub use client::RegistryClient;
pub use credentials::Credentials;
pub use error::RegistryError;
pub use file::{look_file, pull_file};
pub use hosts::{HostsError, RegistryHosts};
pub use platforms::Platforms;
pub use pull::{Pulled, look, pull, pull_small};
pub use reference::ImageReference;
