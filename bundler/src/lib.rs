//! Outhaul's centre: from a control plane to what travels, one stage after another.
//!
//! ```text
//! control ─▶ schedule ─▶ compose ─▶ render ─▶ collect ─▶ assemble ─▶ deliver
//!  (git, YAML)  who        with        as         with      as one      on a stick,
//!               where      what        what       what      bundle      over HTTPS
//! ```
//!
//! Each stage is one module with one public entry: the value on its left goes in, the value on its
//! right comes out, and none reaches back. `schedule`, `compose` and `render` are pure functions of a
//! [`ControlPlane`]: they read no file, no clock and no environment, so the same snapshot always
//! gives the same bytes. [`pipeline`] runs them up to `render`, [`produce`] from there to signed bundles,
//! [`publish`] to a git branch, [`serve`] all of it again and again. `cli` is what people type; it holds
//! no rule of its own.

pub mod assemble;
pub mod attest;
pub mod builtin;
pub mod check;
pub mod cli;
pub mod collect;
pub mod compose;
pub mod control;
pub mod deliver;
pub mod delivery;
pub mod demo;
pub mod diff;
pub mod explain;
pub mod forge;
pub mod guard;
pub mod http;
pub mod import;
pub mod inspect;
pub mod isolation;
pub mod output;
pub mod pipeline;
pub mod produce;
pub mod project;
pub mod promote;
pub mod publish;
pub mod qr;
pub mod render;
pub mod scaffold;
pub mod schedule;
pub mod scheduler;
pub mod schema;
pub mod serve;
pub mod sites;
pub mod snapshot;
pub mod verify;

pub use compose::Composition;
pub use control::diagnostic::{Diagnostic, Diagnostics, Severity};
pub use control::{ControlPlane, LoadRequest};
pub use render::Rendering;
pub use schedule::Schedule;
