//! Whether a machine's clock may be signed with: compared with what this fleet signed last.
//!
//! What comes in: what the clock shows. What goes out: nothing, or a refusal that states how to go on. A time
//! that a person typed is not asked about here: that is the explicit word that a wrong clock lacks.

use jiff::Timestamp;

use super::{Fleet, FleetError};
use crate::clock::implausible;

impl Fleet {
    /// Refuses a clock that is before the newest time that this fleet signed, or far after it.
    ///
    /// # Errors
    /// [`FleetError::Option`] states by how much it is off; nothing was signed.
    pub fn refuse_implausible_clock(&self, clock: Timestamp) -> Result<(), FleetError> {
        let newest = self.published()?.timestamp.issued;
        match implausible(clock, newest) {
            None => Ok(()),
            Some(problem) => Err(FleetError::Option {
                problem: format!(
                    "{problem}; nothing was signed\nhelp: sites would accept that time: set this \
                     machine's clock, or, when the clock is right, type the time that is to be signed \
                     (`outhaul … --issued TIME`, `outhaul-signer --now TIME …`)"
                ),
            }),
        }
    }
}
