//! What someone is about to decide, and which sites it concerns.

use serde::Serialize;

use super::Board;
use outhaul_store::Act;

/// A decision that is not on record yet.
#[derive(Debug, Clone, Serialize)]
pub struct ActView {
    /// The entry as it would be, without who, why and until when.
    pub act: Act,
    /// What it would say.
    pub sentence: String,
    /// What it withdraws, where it withdraws something.
    pub withdrawn: Option<String>,
    /// The environment that it concerns.
    pub environment: Option<String>,
    /// How that environment's gates stand, and where its promotions lead; `None` where nothing of it is known.
    pub board: Option<Board>,
    /// A digest of what it concerns: another one, and someone has to look again.
    pub seen: String,
    /// When this was read, RFC 3339.
    pub read_at: String,
}
