//! What only whole programs can show: one test program, one module per story.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "runner/attacks.rs"]
mod attacks;
#[path = "runner/loops.rs"]
mod loops;
#[path = "runner/refusals.rs"]
mod refusals;
