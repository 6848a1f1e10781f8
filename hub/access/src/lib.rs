//! Who may do what at a hub.
//!
//! What comes in: words of scopes, secrets, cookies, and times. What goes out: whether a scope covers another, the digest
//! under which a secret is kept, the token that ties a form to its session, whether someone did something too often, what of many refusals goes on record, and what each
//! answer tells a browser and where it leads. It reads no store and no clock, and keeps no secret.

mod attempts;
pub mod headers;
mod scope;
mod session;
mod turned_away;

pub use attempts::{MAX_FAILED, Recent, WINDOW_MS};
pub use headers::own;
pub use scope::{Scope, Scopes, UnknownScope};
pub use session::{SessionSecret, bearer, cookie};
pub use turned_away::{Group, ToWrite, TurnedAway};
