//! People log in to a hub at an identity provider (`OpenID` Connect).
//!
//! ```text
//! settings ─▶ attempt ─▶ the browser goes to the provider and back ─▶ client: code for ID token ─▶ token, keys ─▶ person
//! ```
//!
//! What comes in: a file with settings, what a browser brings back, and the provider's answers. What goes out: where a browser is
//! sent, and who someone is with what they may do. It knows no store and reads no clock, asks the provider only when someone
//! logs in, and takes nothing from an ID token before its signature, its issuer, its audience, its times and its nonce hold.

mod algorithm;
mod attempt;
mod client;
mod error;
mod keys;
mod person;
mod provider;
mod settings;
mod token;

pub use attempt::{Attempt, LIFETIME_MS, Returned};
pub use client::{CodeToAsk, Oidc};
pub use error::LoginError;
pub use person::{Facts, Person};
pub use settings::{OidcSettings, RETURN, SettingsError};
