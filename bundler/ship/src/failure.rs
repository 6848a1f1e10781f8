//! What kind of failure each error of shipping is, and what to do next: for commands and the service alike.
//!
//! What comes in: the errors of this crate's steps. What goes out: their class and help. It decides nothing else.

use std::error::Error;

use outhaul_git::store::StoreError;
use outhaul_kit::durable::Unexpected;
use outhaul_kit::failure::Classified;
use outhaul_kit::failure::FailureClass::{self, Environment, Internal, Refused, Usage};
use outhaul_kit::suggest::{did_you_mean, nearest};
use outhaul_seal::SealError;
use rustix::io::Errno;

use crate::assemble::AssembleError;
use crate::assemble::attest_and_seal::AttestSealError;
use crate::branch::plan::PlanError;
use crate::branch::proposal::ProposeError;
use crate::branch::{PublishError, TargetError};
use crate::collect::CollectError;
use crate::deliver::DeliverError;
use crate::folder::OutputError;
use crate::stream::{ProduceError, ShippedError};
use outhaul_pins::LockError;

impl Classified for OutputError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Removal(_) | Self::AllBroken => Refused,
            Self::Foreign { .. }
            | Self::Lost { .. }
            | Self::OtherEnvironment { .. }
            | Self::Record { .. } => Usage,
            _ => Environment,
        }
    }

    fn help(&self) -> Option<String> {
        use std::io::ErrorKind as Kind;
        match self {
            Self::Io { doing, source, .. } => match source.kind() {
                Kind::StorageFull | Kind::QuotaExceeded => Some(
                    "free some space on that file system (`df -h` shows it), or name another folder, and run it again"
                        .to_owned(),
                ),
                // What cannot be read or listed may well be writable.
                Kind::ReadOnlyFilesystem | Kind::PermissionDenied
                    if matches!(*doing, "create" | "write" | "write in" | "replace") =>
                {
                    Some("name a folder that you may write to".to_owned())
                }
                _ => None,
            },
            Self::File(error) => Some(error.help()),
            _ => None,
        }
    }
}

impl Classified for TargetError {
    fn class(&self) -> FailureClass {
        Usage
    }
}

impl Classified for PublishError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Source(source) => source.class(),
            Self::Plan(
                PlanError::Foreign { .. }
                | PlanError::Replaced { .. }
                | PlanError::Removal(_)
                | PlanError::AllBroken,
            )
            | Self::Refused { .. }
            | Self::Taken { .. }
            | Self::Moved { .. } => Refused,
            Self::Plan(_)
            | Self::Store(StoreError::BadBranch { .. })
            | Self::CheckedOut { .. }
            | Self::ControlPlane { .. } => Usage,
            _ => Environment,
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            Self::Source(source) if source.is_input() => Some(source.help()),
            Self::Source(_) => Some(
                "check the network and that you may push there; nothing was changed".to_owned(),
            ),
            _ => None,
        }
    }
}

impl<E: Error + Classified + 'static> Classified for ProposeError<E> {
    fn class(&self) -> FailureClass {
        match self {
            Self::Publish(error) => error.class(),
            Self::Forge { source, .. } => source.class(),
            Self::NoBase { .. } => Usage,
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            Self::Publish(error) => error.help(),
            _ => None,
        }
    }
}

impl Classified for ProduceError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Collect(CollectError::Source { source, .. }) => source.class(),
            Self::After { error, .. } => error.class(),
            Self::Elsewhere(error) => error.class(),
            Self::Collect(CollectError::Gone { .. })
            | Self::Forbidden(_)
            | Self::Readers { .. }
            | Self::Revoked { .. }
            | Self::Removals { .. } => Refused,
            Self::Finish(AttestSealError::Seal(SealError::Recipients { .. }))
            | Self::Last(
                ShippedError::Bundle { .. }
                | ShippedError::Damaged { .. }
                | ShippedError::Lost { .. }
                | ShippedError::TooLarge { .. }
                | ShippedError::Unverified { .. }
                | ShippedError::Waiting { .. },
            )
            | Self::Lock(LockError::Damaged { .. })
            | Self::Shorter { .. }
            | Self::Longer { .. } => Usage,
            Self::Assemble(AssembleError::Inconsistent(_))
            | Self::Finish(AttestSealError::Inconsistent(_) | AttestSealError::Name(_)) => Internal,
            Self::Fleet(error) | Self::Last(ShippedError::Fleet(error)) => error.class(),
            Self::Collect(CollectError::Image { error, .. }) if error.is_environment => Environment,
            Self::Assemble(AssembleError::Spool(_) | AssembleError::Encode(_))
            | Self::Busy { .. }
            | Self::Collect(CollectError::Spool(_))
            | Self::Damaged { .. }
            | Self::Deliver(_)
            | Self::Exclusive { .. }
            | Self::Finish(_)
            | Self::Keep(_)
            | Self::Last(_)
            | Self::Lock(_)
            | Self::Place { .. }
            | Self::Published(_)
            | Self::Sites(_)
            | Self::Spool(_) => Environment,
            Self::Assemble(_)
            | Self::Collect(_)
            | Self::Strict(_)
            | Self::Contradiction(_)
            | Self::Expiry { .. }
            | Self::Name(_)
            | Self::UnknownClusterType { .. }
            | Self::UnknownRecipient { .. } => Usage,
        }
    }

    fn help(&self) -> Option<String> {
        let (error, nothing) = match self {
            Self::After { error, .. } => (
                &**error,
                "of this stream nothing was written; those before it were made",
            ),
            error => (error, "nothing was written"),
        };
        let help = match error {
            Self::After { error, .. } => return error.help(),
            Self::Damaged { .. } => {
                "run it again: what was removed is brought again; if it comes back, look at this machine's disk and memory"
                    .to_owned()
            }
            Self::Readers { .. } => {
                "`outhaul site list --fleet DIR --recipients` prints the keys that are approved; nothing was written".to_owned()
            }
            Self::Revoked { .. } => {
                "make it again with `outhaul bundle --seal-for FILE`, with what `outhaul site list --recipients` prints now; it was not \
                 shipped"
                    .to_owned()
            }
            Self::Collect(CollectError::Source { source, .. }) => {
                format!("{}\nhelp: {nothing}", source.help())
            }
            Self::Assemble(AssembleError::Spool(error))
            | Self::Collect(CollectError::Spool(error))
            | Self::Spool(error) => error.help(),
            Self::Assemble(_)
            | Self::Collect(_)
            | Self::Contradiction(_)
            | Self::Finish(_) => nothing.to_owned(),
            Self::Strict(_) => "`--strict`: nothing was written".to_owned(),
            Self::Busy { .. } => {
                "nothing was changed; give the command again when that has ended".to_owned()
            }
            Self::Deliver(DeliverError::FileLimit { .. } | DeliverError::Full { .. }) => {
                // `copy` copies what the fleet keeps, and that may be the bundle before this one.
                "free some space there or use a larger stick, and run it again; for several sticks, or one with FAT, make it in a \
                 folder of this machine with `--out DIR`, then `outhaul copy --fleet FLEET --volume-size SIZE --to STICK` writes it in \
                 volumes"
                    .to_owned()
            }
            Self::Deliver(error) => {
                let again = "make room or choose another folder, and run it again: what is on record is written then, under its number";
                match error.help() {
                    Some(help) => format!("{help}\nhelp: {again}"),
                    None => again.to_owned(),
                }
            }
            Self::Elsewhere(error) => return error.help(),
            Self::Fleet(error) => return error.help(),
            Self::Forbidden(refusal) => refusal.help.clone(),
            Self::Keep(error) | Self::Last(ShippedError::File(error)) => error.help(),
            Self::Published(error) => {
                let inner = error.source.get_ref();
                let first = match inner.and_then(|inner| inner.downcast_ref::<Unexpected>()) {
                    Some(_) => "move it away".to_owned(),
                    None => error.help(),
                };
                format!("{first}, or publish to another folder (`--publish`), and run it again; no number of this stream was used")
            }
            Self::Place { .. } => {
                "see what it is and move it away, or choose another folder, and run it again".to_owned()
            }
            Self::Name(_) => "rename it in the control plane; nothing was written".to_owned(),
            Self::Sites(_) => {
                "restore the fleet's `sites` folder from a backup; this bundle was not made"
                    .to_owned()
            }
            Self::UnknownClusterType { name, known, .. } => {
                let names: Vec<&String> = known.iter().collect();
                let near = nearest(name, &names);
                let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
                let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
                format!("{near}it has {}; nothing was written", known.join(", "))
            }
            Self::UnknownRecipient { site, known, .. } => {
                let names: Vec<&String> = known.iter().collect();
                format!(
                    "{}; a new site is enrolled with `outhaul site enrol`; nothing was written and no number was used",
                    did_you_mean(site, &names)
                )
            }
            Self::Longer { .. } => "give an earlier `--expires`, or none: a slip is then valid for as long as its bundle was".to_owned(),
            Self::Shorter { .. } => {
                "leave out `--expires`; what ends a bundle earlier is a newer one (`outhaul bundle --renew --expires-days DAYS`)"
                    .to_owned()
            }
            Self::Expiry { .. }
            | Self::Last(_)
            | Self::Lock(_)
            | Self::Removals { .. }
            | Self::Exclusive { .. } => return None,
        };
        Some(help)
    }
}

impl Classified for DeliverError {
    fn class(&self) -> FailureClass {
        Environment
    }

    fn help(&self) -> Option<String> {
        let source = match self {
            Self::FileLimit { .. } => {
                return Some(
                    "write it in volumes: `outhaul copy --volume-size 3900M --to DIR`; or use a stick with exFAT or ext4"
                        .to_owned(),
                );
            }
            Self::Full { .. } => {
                return Some(
                    "free some space there or use a larger stick; several sticks together hold a bundle in volumes: \
                     `outhaul copy --fleet FLEET --volume-size SIZE --to DIR`"
                        .to_owned(),
                );
            }
            Self::ReadBack { .. } => {
                return Some("the medium is damaged: use another one".to_owned());
            }
            Self::Changed { .. } => {
                return Some(
                    "find out who writes there, then repeat the command: it verifies the file again"
                        .to_owned(),
                );
            }
            Self::File(error) => &error.source,
            Self::Read { .. } | Self::Write { .. } => return None,
        };
        let gone = [Errno::IO, Errno::NODEV, Errno::NXIO, Errno::STALE];
        let code = source.raw_os_error();
        if gone.iter().any(|errno| code == Some(errno.raw_os_error())) {
            return Some(
                "if the stick was pulled out, plug it in again, see that it is mounted (`findmnt`), and repeat the \
                 command: what is whole there is kept, what was begun is written again; if not, `dmesg` shows what is \
                 wrong with it"
                    .to_owned(),
            );
        }
        match self {
            Self::File(error) => Some(error.help()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;

    use super::{Classified as _, OutputError};

    #[test]
    fn another_folder_is_proposed_only_where_something_was_to_be_written() {
        let help = |doing: &'static str| {
            let error = OutputError::Io {
                doing,
                path: PathBuf::from("out"),
                source: io::ErrorKind::PermissionDenied.into(),
            };
            error.help()
        };
        for doing in ["create", "write", "write in", "replace"] {
            let help = help(doing).unwrap_or_default();
            assert_eq!(help, "name a folder that you may write to", "{doing}");
        }
        for doing in ["find", "keep", "list", "look at", "remove", "sync"] {
            assert_eq!(help(doing), None, "{doing}");
        }
    }
}
