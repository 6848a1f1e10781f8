//! Why there is no access to an API server.
//!
//! What comes in: what was read of a kubeconfig or a pod, or what became of a program that logs in. What goes out: one sentence, without any secret.

use std::io;
use std::path::PathBuf;

/// Why there is no access.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A file that cannot be read.
    #[error("`{}` cannot be read: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something in the kubeconfig.
    #[error("`{}`: {problem}", path.display())]
    Wrong {
        /// The kubeconfig.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The program by which the kubeconfig's user logs in.
    #[error("`{}` logs in by the program `{}`, which brought nothing: {problem}", path.display(), program.display())]
    Plugin {
        /// The kubeconfig.
        path: PathBuf,
        /// The program.
        program: PathBuf,
        /// What it said, or how it failed.
        problem: String,
    },
    /// Neither a kubeconfig nor a pod.
    #[error("no kubeconfig is set, and this is not a pod with a service account")]
    Nowhere,
}
