//! The tests of what a site serves, in one binary.
//!
//! What comes in: the program `outhaul-mirror`, and real clients: git, skopeo, containerd, and what
//! `.ci/programs/build cluster` builds. What goes out: a verdict. Nothing here uses a network.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "../../../fuzz/bodies/serve.rs"]
mod bodies;

#[path = "runner/attacks.rs"]
mod attacks;
#[path = "runner/charts.rs"]
mod charts;
#[path = "runner/client.rs"]
mod client;
#[path = "runner/containerd.rs"]
mod containerd;
#[path = "runner/fuzz.rs"]
mod fuzz;
#[path = "runner/git.rs"]
mod git;
#[path = "runner/peers.rs"]
mod peers;
#[path = "runner/site.rs"]
mod site;
#[path = "runner/specification.rs"]
mod specification;
#[path = "runner/views.rs"]
mod views;
