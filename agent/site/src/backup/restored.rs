//! That a site was restored, as its database keeps it.
//!
//! What comes in: what a restore writes. What goes out: the same for `status` and the next restore. It reads and writes nothing.

use serde::{Deserialize, Serialize};

/// That this site was restored, for `status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// When, milliseconds since 1970 by the site's clock.
    pub at_ms: i64,
    /// When the backup was made, by the clock of then.
    pub made_ms: i64,
    /// The numbering of the backup.
    pub before: String,
    /// Who restored it.
    pub who: String,
}
