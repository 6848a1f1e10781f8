//! The gate as the hub asks it: the decision is made by `outhaul_gate`, what it reads and keeps is `outhaul_view::record`.
//!
//! What comes in: a question. What goes out: a decision, on record. What is decided, and from what, is not written here.

pub use outhaul_gate::tighter::looser;
pub use outhaul_gate::{
    Decision, GateQuestion, GateRules, GateVerdict, MAX_RULES_BYTES, commit, short,
};
pub use outhaul_view::record;

#[cfg(test)]
mod tests;
