//! What only whole programs can show: one test program, one module per story.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test that fails ends the test"
)]

#[path = "runner/attacks.rs"]
mod attacks;
#[path = "runner/bare.rs"]
mod bare;
#[path = "runner/clocks.rs"]
mod clocks;
#[path = "runner/cluster.rs"]
mod cluster;
#[path = "runner/completions.rs"]
mod completions;
#[path = "runner/conflicts.rs"]
mod conflicts;
#[path = "runner/countersigned.rs"]
mod countersigned;
#[path = "runner/damaged.rs"]
mod damaged;
#[path = "runner/documents.rs"]
mod documents;
#[path = "runner/envelopes.rs"]
mod envelopes;
#[path = "runner/exit_codes.rs"]
mod exit_codes;
#[path = "runner/first_stick.rs"]
mod first_stick;
#[path = "runner/flux.rs"]
mod flux;
#[path = "runner/hooks.rs"]
mod hooks;
#[path = "runner/hostile.rs"]
mod hostile;
#[path = "runner/interrupts.rs"]
mod interrupts;
#[path = "runner/left_alone.rs"]
mod left_alone;
#[path = "runner/listed.rs"]
mod listed;
#[path = "runner/loops.rs"]
mod loops;
#[path = "runner/observing.rs"]
mod observing;
#[path = "runner/openapi.rs"]
mod openapi;
#[path = "runner/packages.rs"]
mod packages;
#[path = "runner/pages.rs"]
mod pages;
#[path = "runner/pipes.rs"]
mod pipes;
#[path = "runner/refusals.rs"]
mod refusals;
#[path = "runner/rekeyed.rs"]
mod rekeyed;
#[path = "runner/reported.rs"]
mod reported;
#[path = "runner/restored.rs"]
mod restored;
#[path = "runner/secrets.rs"]
mod secrets;
#[path = "runner/selected.rs"]
mod selected;
#[path = "runner/served.rs"]
mod served;
#[path = "runner/since.rs"]
mod since;
#[path = "runner/skips.rs"]
mod skips;
#[path = "runner/story.rs"]
mod story;
#[path = "runner/stuck.rs"]
mod stuck;
#[path = "runner/system.rs"]
mod system;
#[path = "runner/threat_model.rs"]
mod threat_model;
