//! Who may do what at a hub.
//!
//! What comes in: words of scopes, secrets, cookies, and times. What goes out: whether a scope covers another, the digest
//! under which a secret is kept, the token that ties a form to its session, and whether somebody did something too often. It reads
//! no store and no clock, and keeps no secret.

mod attempts;
mod scope;
mod session;
mod turned_away;

pub use attempts::{MAX_FAILED, Recent, WINDOW_MS};
pub use scope::{Scope, Scopes, UnknownScope};
pub use session::{SessionSecret, cookie};
pub use turned_away::{Group, ToWrite, TurnedAway};
