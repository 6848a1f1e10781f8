//! What the owner of a site sets, and the reconciler that follows from it.
//!
//! What comes in: `agent.toml`, and what a stream is rendered for. What goes out: settings with every value in range, and a
//! reconciler. It applies nothing, and decides nothing about a bundle.

pub mod apply;
pub mod config;
pub mod noted;
