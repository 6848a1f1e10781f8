//! The address of a database on the command line, which may hold a password by mistake.
//!
//! What comes in: any text. What goes out: the address, or an error that does not repeat the text: what reads the command line
//! would print it whole.

use std::convert::Infallible;
use std::str::FromStr;

use crate::error::HubError;
use crate::store::Address;

/// What was given.
#[derive(Clone)]
pub(super) struct Database(String);

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Database(…)")
    }
}

impl FromStr for Database {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl Database {
    /// The address.
    ///
    /// # Errors
    /// [`HubError::Usage`], without what may be a password.
    pub(super) fn address(&self) -> Result<Address, HubError> {
        self.0.parse::<Address>().map_err(|error| HubError::Usage {
            problem: error.to_string(),
            help: "an address is `postgres://USER@HOST/NAME`".to_owned(),
        })
    }
}
