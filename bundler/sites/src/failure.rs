//! What kind of failure an error about a site is, and what to do next.
//!
//! What comes in: an error of this crate. What goes out: its class and help. It decides nothing else.

use outhaul_kit::failure::{Classified, FailureClass};

use super::SiteError;

impl SiteError {
    /// A fault of the program.
    pub(super) fn internal(error: impl std::error::Error) -> Self {
        Self::Internal {
            problem: error.to_string(),
        }
    }

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
            Self::Key(error) => error.class(),
            Self::Closing(error) => error.class(),
            Self::Enrolled { .. } => FailureClass::Refused,
            Self::Internal { .. } => FailureClass::Internal,
            Self::Follows { .. }
            | Self::ManyRevoked { .. }
            | Self::NoCertificate { .. }
            | Self::NoStream { .. }
            | Self::ShortFingerprint { .. }
            | Self::Unapproved { .. }
            | Self::Unknown { .. }
            | Self::Unnamed { .. } => FailureClass::Usage,
            error if error.is_trust() => FailureClass::Trust,
            _ => FailureClass::Environment,
        }
    }

    fn help(&self) -> Option<String> {
        Some(match self {
            Self::Fleet(error) => return error.help(),
            Self::KitUsed { site, .. } => format!(
                "whoever wrote this request has the kit: ask the site's people whether the machine was set \
                 up again; if it was, write a new kit (`outhaul site enrol {site} … --again`), which also shuts out \
                 everyone who has the old one; if it was not, find out who has a copy"
            ),
            Self::Key(error) => return error.help(),
            Self::Enrolled { .. } => "enrol the machine with the kit that there is; if that is lost, or the machine was replaced, give `--again`"
                .to_owned(),
            Self::Internal { .. } => return None,
            Self::ManyRevoked { .. } => "enrol the machine under another name".to_owned(),
            Self::NoCertificate { .. } => {
                "give a PEM file with the authority's certificate; nothing was written".to_owned()
            }
            Self::NoStream { .. } => {
                "give ENVIRONMENT/CLUSTER_TYPE, such as `stage/press`; nothing was changed".to_owned()
            }
            Self::ShortFingerprint { .. } => {
                "give all of the fingerprint that `outhaul-agent status` shows on the machine".to_owned()
            }
            Self::Named(error) => error.help(),
            Self::Closing(_) => {
                "the orders named above are closed, and no more; when that record is repaired, run `outhaul site close-orders` with the same files again"
                    .to_owned()
            }
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
            Self::Unnamed { site, found, .. } => format!(
                "compare it with the fingerprint that `outhaul-agent status` shows on the machine; if it is \
                 the same, repeat with `--fingerprint {found}`; if it is not, someone else wrote this request: \
                 write a new kit with `outhaul site enrol {site}`; nothing was changed"
            ),
            error if error.is_trust() => {
                "get the request again from the machine itself (`outhaul-agent export`), or write a new kit"
                    .to_owned()
            }
            _ => "nothing was changed".to_owned(),
        })
    }
}
