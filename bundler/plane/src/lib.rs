//! From a control plane to files: what is scheduled where, with which values, as what.
//!
//! ```text
//! ControlPlane ─▶ schedule ─▶ compose ─▶ render ─▶ Rendering
//! ```
//!
//! What comes in: a control plane, and answers of schedulers as values. What goes out: a schedule, one
//! composition per assignment, files; and from the same values explanations and findings.
//! It is pure: no file, clock, environment or network, so that the same snapshot always gives the
//! same bytes. The one exception renders a team's Jinja template in a separate process. It knows
//! nothing of git, of signing, and of where files end up.

pub mod builtin;
pub mod check;
pub mod compose;
pub mod delivery;
pub mod explain;
pub mod fleet_bundles;
mod inputs;
pub mod manifests;
pub mod packages;
pub mod playbooks;
pub mod render;
pub mod schedule;
mod site_values;
pub mod templates;

pub use compose::Composition;
pub use inputs::Inputs;
pub use render::Rendering;
pub use schedule::Schedule;
