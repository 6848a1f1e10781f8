//! The agent replaces itself: two slots, a trial, and the way back.
//!
//! What comes in: a program that signed metadata lists, unpacked in a generation. What goes out: a slot that holds it, a
//! trial in a process of its own, and the program that is started from then on. The packaged program is never touched, and
//! is what runs when everything else fails. It reads no bundle and no key, and decides nothing about what the site applies.

pub mod choice;
pub mod install;
pub mod launch;
mod memory;
pub mod slots;
