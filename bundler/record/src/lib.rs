//! What a destination held last, and what of it stays.
//!
//! What comes in: a record's bytes, what was rendered, what is broken, and the list of removals that were acknowledged. What goes out:
//! the [`record::Record`], what stays as it was ([`isolation`]), whether a removal is stopped ([`guard`]), and the one [`plan`] of these.
//! It reads no file, no clock and no network, and writes nothing.

pub mod guard;
pub mod isolation;
pub mod plan;
pub mod record;
