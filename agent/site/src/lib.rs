//! A site's state machine, and the database in which it survives a power cut at any instant.
//!
//! What comes in: events, and what is to be reported of them. What goes out: how the site stands, its rows, and the queued
//! reports of each change, in one transaction. It applies nothing, opens no connection and reads no bundle.

pub mod advice;
pub mod aside;
pub mod attention;
pub mod backup;
pub mod cut;
pub mod followed;
pub mod identity;
pub mod incomplete;
pub mod interrupted;
pub mod keys;
pub mod machine;
pub mod offer;
pub mod rehearsal;
pub mod request;
pub mod rescued;
pub mod same_file;
pub mod secrets;
pub mod state;
pub mod state_folder;
pub mod stored;
pub mod visit;
pub mod windows;

use outhaul_kit::durable;
