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
pub mod checked;
pub mod cli;
pub mod collect;
pub mod control;
pub mod deliver;
pub mod demo;
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
pub mod scaffold;
pub mod scheduler;
pub mod serve;
pub mod sides;
pub mod sites;
pub mod verify;

pub use control::LoadRequest;
pub use outhaul_control::{ControlPlane, Diagnostic, Diagnostics, Severity, schema, snapshot};
pub use outhaul_plane::{Composition, Rendering, Schedule};
pub use outhaul_plane::{builtin, check, compose, delivery, diff, explain, render, schedule};
