//! What a site keeps of bundles: their blobs, unpacked generations, and what is served of the one that runs.
//!
//! What comes in: blobs that a reader verified, and an index that signed metadata lists. What goes out: files on disk
//! under their digests, a generation's folder that is there whole or not at all, and the view that `outhaul-mirror` serves. It
//! opens no connection, decides nothing about a bundle, and applies nothing.

pub mod blobs;
pub mod content_error;
pub mod generation;
pub mod intact;
pub mod partial;
pub mod serving;

use outhaul_kit::durable;
use outhaul_site::{cut, machine, secrets, state_folder};
