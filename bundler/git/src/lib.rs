//! All of the centre that speaks git: addresses of repositories, trees of files at a commit, commits on a
//! branch.
//!
//! What comes in: URLs and folders, references, files to write. What goes out: trees that were read from
//! exactly one commit, and commits that were made without a checkout. Every `git` process is started
//! here: it asks no questions, runs no hook and no foreign helper, and is bounded. It does not know what
//! the files are: no control plane, no bundle, no forge.

pub mod address;
pub mod branch;
pub mod import;
mod pack;
pub mod program;
pub mod source;
pub mod store;
pub mod terminal;
