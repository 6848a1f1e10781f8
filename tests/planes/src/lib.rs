//! What tests of several crates of the centre stand on: control planes in short, and changes of them.
//!
//! What comes in: what a test writes, or what proptest draws. What goes out: control planes, as reading their files makes them. It schedules
//! and renders nothing, and is part of no program.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends where it cannot go on"
)]

pub mod edits;
pub mod fields;
pub mod shorthand;
pub mod texts;
