//! What all programs share: durable files, folders that strangers prepared, and text for terminals.
//!
//! What comes in: paths, bytes and foreign text. What goes out: files that are whole or not there, files
//! that are certainly regular files below the folder that was named, and text without control
//! characters. It holds no rule of the product, no network and no key.

pub mod durable;
pub mod media;
pub mod text;
