//! Outhaul's trust: keys, signed metadata, envelopes, and the rules by which a site verifies them.
//!
//! Two sides. The centre's: a [`Fleet`] folder signs what is published ([`publish`], [`ceremony`]).
//! The site's: [`trust::verify`] decides over bytes alone what may be accepted, with floors that
//! no older metadata passes and a [`clock`] that no wrong date misleads.
//! What comes in: keys, bytes, times that the caller names. What goes out: signed bytes, or a verdict
//! that states what was expected and what was found. It opens no connection and reads no clock, and
//! after a site's enrolment nothing in it takes a key or skips a check.
#![warn(missing_docs)]

extern crate self as outhaul_signer;

pub mod canonical;
pub mod ceremony;
pub mod cli;
pub mod clock;
mod command;
pub mod enrol;
pub mod envelope;
pub mod fleet;
pub mod hub_url;
pub mod key;
pub mod metadata;
pub mod openpgp;
pub mod publish;
pub mod published;
pub mod request;
pub mod review;
pub mod slip;
pub mod trust;
pub mod webhook;

pub use clock::{LowerBound, TimePolicy};
pub use enrol::Kit;
pub use envelope::Envelope;
pub use fleet::{Fleet, FleetError, InitOptions};
pub use key::{KeyError, PublicKey, Secret, SigningKey};
pub use outhaul_kit::{durable, media};
pub use publish::{Latest, SignRequest, SignedMetadata};
pub use slip::{Slip, SlipError};
pub use trust::{Acceptance, MetadataSource, SourceError, TrustError, TrustedMetadata, verify};
