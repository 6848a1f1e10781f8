//! What kind of failure an error about a site is, and what to do next.
//!
//! What comes in: an error of this crate. What goes out: its class and help. It decides nothing else.

use outhaul_kit::failure::{Classified, FailureClass};

use super::SiteError;

impl SiteError {
    /// Whether it is a matter of trust.
    pub fn is_trust(&self) -> bool {
        matches!(
            self,
            Self::KitUsed { .. }
                | Self::OtherFingerprint { .. }
                | Self::Request { .. }
                | Self::Signature(_)
        )
    }
}

impl Classified for SiteError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Fleet(error) => error.class(),
            Self::Unapproved { .. } | Self::Unknown { .. } => FailureClass::Usage,
            error if error.is_trust() => FailureClass::Trust,
            _ => FailureClass::Environment,
        }
    }

    fn help(&self) -> Option<String> {
        Some(match self {
            Self::Fleet(error) => return error.help(),
            Self::KitUsed { site, .. } => format!(
                "whoever wrote this request has the kit: ask the site's people whether the machine was set \
                 up anew; if it was, write a new kit (`outhaul site enrol {site} … --again`), which also shuts out \
                 everybody who has the old one; if it was not, find out who has a copy"
            ),
            Self::Reports(error) => error.help(),
            Self::Unapproved { .. } => {
                "approve its request with `outhaul site approve`, or write a new kit for it".to_owned()
            }
            Self::Unknown { known, .. } => {
                let known = match known.len() {
                    0 => "no site is on record".to_owned(),
                    _ => format!("sites on record: {}", known.join(", ")),
                };
                format!(
                    "{known}; `outhaul site approve REQUEST` records a site that was enrolled before there \
                     were records; nothing was changed"
                )
            }
            error if error.is_trust() => {
                "get the request again from the machine itself (`outhaul-agent export`), or write a new kit"
                    .to_owned()
            }
            _ => "nothing was changed".to_owned(),
        })
    }
}
