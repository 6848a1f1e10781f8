//! The tests of what a site serves, in one binary.
//!
//! What comes in: the program `outhaul-mirror`, and real clients: git, skopeo, containerd, and what
//! `.ci/programs/build cluster` builds. What goes out: a verdict. Nothing here uses a network.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "../../../../fuzz/bodies/serve.rs"]
mod bodies;

mod attacks;
mod charts;
mod client;
mod containerd;
mod fuzz;
mod git;
mod peers;
mod site;
mod specification;
mod views;
