//! Going back to the generation before, by a person's decision.
//!
//! What comes in: the decision. What goes out: it is remembered and reported in one transaction, then
//! done. When another process is at work, that process does it; after a power cut in between, the next
//! start does. Without a good generation on disk nothing is ordered.

use outhaul_bundle::report::Event as Told;

use crate::agent::Agent;
use crate::error::AgentError;
use crate::machine::{Event, State};
use crate::runner::Happening;
use crate::state::{self, StateError, key, outbox};

impl Agent {
    /// Remembers and reports that `who` wants the generation before the active one.
    ///
    /// # Errors
    /// [`AgentError::Nothing`] when nothing is active, or nothing to go back to is left on disk.
    pub fn order_rollback(&mut self, who: &str) -> Result<(), AgentError> {
        let nothing = |message: &str| AgentError::Nothing {
            message: message.into(),
            help: "`outhaul-agent status` lists the generations; nothing was changed".into(),
        };
        let Some(active) = state::meta::<u64>(self.store.read(), key::ACTIVE)? else {
            return Err(nothing("no bundle is active on this site"));
        };
        if self.good_before(active)?.is_none() {
            return Err(nothing(
                "there is no generation before the active one to go back to",
            ));
        }
        self.commit(|db, author| {
            state::set_meta(db, key::ROLLBACK, Some(&who))?;
            let (what, who) = ("rollback".to_owned(), who.to_owned());
            let event = Told::Decision {
                what,
                who,
                number: Some(active),
            };
            outbox::queue(db, author, event).map(|_| ())
        })
        .map_err(|error: StateError| error.into())
    }

    /// Does what [`Agent::order_rollback`] remembered; nothing when nothing was ordered.
    ///
    /// # Errors
    /// [`AgentError`]; the state on disk then is one to resume from.
    pub fn roll_back(&mut self) -> Result<Option<State>, AgentError> {
        let db = self.store.read();
        let ordered = state::meta::<String>(db, key::ROLLBACK)?;
        let active = state::meta::<u64>(db, key::ACTIVE)?;
        let (Some(who), Some(active)) = (ordered, active) else {
            return Ok(None);
        };
        let ordered = Happening {
            note: format!("rolled back by {who}"),
            ..Event::RollbackOrdered.into()
        };
        self.drive(active, ordered).map(Some)
    }
}
