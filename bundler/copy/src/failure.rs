//! What kind of failure each error of copying is, and what to do next.
//!
//! What comes in: the errors of this crate. What goes out: their class and help. It decides nothing else.

use outhaul_kit::failure::Classified;
use outhaul_kit::failure::FailureClass::{self, Environment, Internal, Usage};
use outhaul_kit::suggest::nearest;
use outhaul_parity::ParityError;

use crate::copies::CopyError;

impl Classified for CopyError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Nothing { .. }
            | Self::Cut { .. }
            | Self::NoPart { .. }
            | Self::NoParityPart { .. }
            | Self::NoBase { .. }
            | Self::OtherStream { .. }
            | Self::ManyBases { .. } => Usage,
            Self::BaseFile { source, .. } => source.class(),
            Self::Parity {
                source: ParityError::Coding { .. },
                ..
            } => Internal,
            Self::Fleet(error) => error.class(),
            Self::Sites(error) => error.class(),
            Self::Changed { .. }
            | Self::NotKept { .. }
            | Self::Record { .. }
            | Self::Deliver(_)
            | Self::Parity { .. }
            | Self::Parts { .. }
            | Self::Patches(_)
            | Self::Read { .. } => Environment,
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            Self::Changed { .. } => Some(
                "`outhaul bundle` makes it again, with a new number and the reason; or copy the file from a stick that \
                 has it"
                    .to_owned(),
            ),
            Self::NotKept { .. } => Some(
                "`outhaul bundle` makes it again, with a new number and the reason; of a cluster type that is retired a backup of the \
                 fleet's folder has it; `--environment` and `--cluster-type` copy others alone"
                    .to_owned(),
            ),
            Self::Record { source, .. } => Some(source.help()),
            Self::Fleet(error) => error.help(),
            Self::Sites(error) => error.help(),
            Self::Deliver(error) => error.help(),
            Self::Cut { least, .. } => Some(format!(
                "`--volume-size {least}` is the smallest that works: every bundle fits then, whole or in parts; a stick with exFAT or ext4 holds larger files than \
                 one with FAT"
            )),
            Self::NoPart { parts, .. } => Some(format!("its parts are 1 to {parts}")),
            Self::NoParityPart { .. } => {
                Some("give the same `--parity` for all sticks of a bundle: what is in a parity part depends on it".to_owned())
            }
            Self::Parts { fit, .. } => Some(match fit.as_slice() {
                [] => "use a larger stick, or a smaller `--volume-size`".to_owned(),
                fit => {
                    let fit: Vec<_> = fit.iter().map(|part| format!("--part {part}")).collect();
                    format!("`{}` fits here; write the other parts to other sticks with `--part`", fit.join(" "))
                }
            }),
            Self::Read { .. }
            | Self::Parity {
                source: ParityError::Coding { .. },
                ..
            } => None,
            Self::Parity { .. } => Some(
                "nothing is wrong with the medium: see what is wrong with the disk that the fleet's folder is on (`dmesg`), and \
                 repeat the command"
                    .to_owned(),
            ),
            Self::Patches(_) => Some(
                "see that the folder for temporary files (`TMPDIR`, else `/tmp`) is there and has room; `--no-patches` makes none".to_owned(),
            ),
            Self::NoBase { known, .. } => {
                let known = match known.as_slice() {
                    [] => String::new(),
                    known => {
                        let known: Vec<_> = known.iter().map(ToString::to_string).collect();
                        format!("known are {}; ", known.join(", "))
                    }
                };
                Some(format!(
                    "{known}`--since-file BUNDLE` reads it out of the file of that bundle, such as one that is left on a \
                     stick; without `--since` the whole bundle is copied, which every site takes"
                ))
            }
            Self::OtherStream { .. } => {
                Some("choose the stream with `--environment` and `--cluster-type`, or give a bundle of it".to_owned())
            }
            Self::BaseFile { .. } => Some(
                "give the file of an earlier bundle of the stream as it was signed; without `--since-file` the whole \
                 bundle is copied, which every site takes"
                    .to_owned(),
            ),
            Self::ManyBases { .. } => {
                Some("make a copy each for some of them, or copy the whole bundle".to_owned())
            }
            Self::Nothing { kept, wanted, .. } => Some(match kept.as_slice() {
                [] => "`outhaul bundle` makes one".to_owned(),
                kept => {
                    let near = wanted.iter().find_map(|(name, known)| nearest(name, known));
                    let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
                    format!("{near}it keeps those of {}", kept.join(", "))
                }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn the_disk_is_named_for_what_cannot_be_read_alone() {
        let of = |source| CopyError::Parity {
            stream: "dev/press".to_owned(),
            number: 1,
            source,
        };
        let read = of(ParityError::Read(io::Error::other("a")));
        assert!(read.help().unwrap().contains("dmesg"));
        assert!(matches!(read.class(), Environment));
        let coding = of(ParityError::Coding {
            parts: 1,
            parity: 1,
            source: reed_solomon_simd::Error::InvalidShardSize { shard_bytes: 1 },
        });
        assert!(matches!((coding.help(), coding.class()), (None, Internal)));
    }
}
