//! What all programs share: durable files, folders that untrusted parties prepared, text for people, and (with
//! the features `console`, `completions`, `signals` and `service`) the edge of a command line or a service.
//!
//! What comes in: paths, bytes and foreign text. What goes out: files that are whole or not there, files
//! that are certainly regular files below the folder that was named, text without control characters, and
//! one envelope for `--output json`. It holds no rule of the product, no network and no key.

pub mod belongs;
pub mod bounds;
pub mod carried;
pub mod commit_id;
#[cfg(feature = "completions")]
pub mod completions;
#[cfg(feature = "console")]
pub mod console;
pub mod durable;
pub mod failure;
pub mod format_count;
pub mod group;
pub mod heartbeat;
pub mod image_name;
pub mod inside;
pub mod interrupt;
pub mod lock;
pub mod media;
pub mod mounts;
pub mod percent;
pub mod private_keys;
pub mod program;
mod secret_keys;
mod secret_tokens;
pub mod secrets;
#[cfg(feature = "service")]
pub mod service;
#[cfg(feature = "signals")]
pub mod signals;
pub mod size;
pub mod suggest;
pub mod text;
pub mod url;
pub mod url_secrets;
pub mod working_folder;
