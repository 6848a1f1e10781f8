//! Check: an environment with all that it leads to, before anything of it is shipped.
//!
//! ```text
//! LoadRequest ─▶ environment ─▶ whole        what `outhaul check` says of one, and of all of them
//! Platform ─▶ offline, unused, beside        what is said while it is shipped
//! Platform ─▶ rendered                       whether a folder is what it was rendered from
//! ```
//!
//! What comes in: where a control plane lies, or a platform that was rendered from it. What goes out: findings. It reads repositories
//! that can be had, asks no registry and changes nothing. What single objects say is checked in `outhaul_plane::check`.

mod beside;
mod environment;
mod offline;
mod payloads;
mod possible;
mod rendered;
mod unpromoted;
mod unread;
mod unused;
mod whole;

pub use beside::{beside_bundles, beside_estimates};
pub use environment::{CheckedEnvironment, environment};
pub use rendered::{Comparison, verify};
pub use unused::{scanners as unused_scanners, warned_or_refused};
pub use whole::{CheckedPlane, promoted_as_it_is};
