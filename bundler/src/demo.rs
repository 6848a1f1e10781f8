//! `outhaul demo`: the loop.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("{problem}")]
    Programs { problem: String },
}
pub mod example;
pub mod programs;
