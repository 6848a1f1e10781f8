//! Whether a machine's clock may be signed with: compared with what this fleet signed last.
//!
//! What comes in: what the clock shows, and perhaps a time that a person typed, which is the explicit word that a wrong clock lacks.
//! What goes out: the time to sign with, or a refusal that states how to go on.

use jiff::Timestamp;

use super::{Fleet, FleetError};
use crate::clock::{Implausible, implausible, implausible_typed};

impl Fleet {
    /// The time to sign with: what was `typed`, else what the `clock` shows.
    ///
    /// # Errors
    /// [`FleetError::Option`] when it goes back behind the newest time that this fleet signed, or is far ahead; nothing was signed.
    pub fn signing_time(
        &self,
        typed: Option<Timestamp>,
        clock: Timestamp,
    ) -> Result<Timestamp, FleetError> {
        let Some(typed) = typed else {
            self.refuse_implausible_clock(clock)?;
            return Ok(clock);
        };
        let newest = self.published()?.timestamp.issued;
        match implausible_typed(typed, clock, newest) {
            None => Ok(typed),
            Some(problem) => Err(FleetError::Option {
                problem: format!(
                    "{problem}; nothing was signed\nhelp: sites accept a time that is signed, and never go back behind it: type the \
                     time that it is now, or set this machine's clock; of a wrong time that was signed already \
                     `outhaul-signer --now TIME … rotate FLEET online` is the way back"
                ),
            }),
        }
    }

    /// Refuses a clock that is before the newest time that this fleet signed, or far after it.
    ///
    /// # Errors
    /// [`FleetError::Option`] states by how much it is off; nothing was signed.
    pub fn refuse_implausible_clock(&self, clock: Timestamp) -> Result<(), FleetError> {
        let newest = self.published()?.timestamp.issued;
        let Some(problem) = implausible(clock, newest) else {
            return Ok(());
        };
        let help = match problem {
            // An earlier time is refused when it is typed, too.
            Implausible::Behind { .. } => {
                "sites never go back behind a time that was signed: set this machine's clock, or, when the clock is right and a \
                 wrong time was signed, `outhaul-signer --now TIME … rotate FLEET online` is the way back"
            }
            Implausible::Ahead { .. } => {
                "sites would accept that time: set this machine's clock, or, when the clock is right, type the time that is to be \
                 signed (`outhaul … --issued TIME`, `outhaul-signer --now TIME …`)"
            }
        };
        Err(FleetError::Option {
            problem: format!("{problem}; nothing was signed\nhelp: {help}"),
        })
    }
}
