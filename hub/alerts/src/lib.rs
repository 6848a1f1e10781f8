//! What a hub announces by itself: changes worth a message, and how it reaches someone.
//!
//! What comes in: what is known of sites, gates, refusals, requests and decisions, now and before; and a file that names who is to
//! get to know what. What goes out: alerts, messages, and whether a destination took one. It knows no database and
//! reads no clock.

pub mod change;
pub mod mail;
pub mod message;
pub mod settings;
pub mod webhook;

use std::fmt;

use message::Message;

/// Takes messages.
pub trait Destination: fmt::Debug + Send {
    /// Hands one over.
    ///
    /// # Errors
    /// Why it was not taken, without any secret.
    fn send(&self, message: &Message) -> Result<(), String>;
}
