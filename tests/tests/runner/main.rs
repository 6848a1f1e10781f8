//! What only whole programs can show: one test program, one module per story.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test that fails ends the test"
)]

mod attacks;
mod bare;
mod blame;
mod checked_promotion;
mod clocks;
mod cluster;
mod completions;
mod conflicts;
mod countersigned;
mod damaged;
mod documents;
mod envelopes;
mod exit_codes;
mod explained;
mod first_stick;
mod flux;
mod hooks;
mod hostile;
mod interrupts;
mod left_alone;
mod listed;
mod loops;
mod not_run;
mod observing;
mod openapi;
mod packages;
mod pages;
mod parity;
mod pipes;
mod places;
mod published;
mod refusals;
mod rekeyed;
mod reported;
mod restored;
mod secrets;
mod selected;
mod served;
mod since;
mod since_hub;
mod skips;
mod story;
mod stuck;
mod system;
mod threat_model;
mod webhooks;
mod zarf;
