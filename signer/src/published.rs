//! What the fleet's own record says of a bundle that it signed earlier, and of a folder of published bundles.
//!
//! What comes in: a bundle's metadata files, or what lies at a place that sites pull from. What goes out: why the bundle is not what
//! would be signed now, because keys were changed since; whether the place is this fleet's, another's, or ahead of what is on record
//! here, with the refusal. It needs no key and changes nothing. Dates do not matter: the fleet asks about its own copies.

use std::collections::BTreeMap;

use jiff::Timestamp;
use outhaul_kit::failure::{Classified, FailureClass};

use crate::clock::TimePolicy;
use crate::durable;
use crate::fleet::{Fleet, FleetError};
use crate::metadata::{self, Targets};
use crate::publish::delegated;
use crate::trust::walk::{MAX_ROOT_BYTES, MAX_TIMESTAMP_BYTES, Walk};
use crate::trust::{self, TrustError, TrustedMetadata};

/// Why a bundle that was signed earlier is not what would be signed now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Outdated {
    /// A site that begins with the newest root metadata refuses it.
    #[error(
        "the fleet's keys were changed after it was signed, and a site that is enrolled with root metadata version {root} refuses it ({source})"
    )]
    Keys {
        /// The newest version.
        root: u64,
        /// The refusal.
        source: TrustError,
    },
    /// It does not bring the newest root metadata.
    #[error("it does not bring root metadata version {root}, the newest, to its sites")]
    Root {
        /// The newest version.
        root: u64,
    },
    /// Other keys sign the stream now.
    #[error("it does not bring a change of the stream's keys to its sites")]
    Stream,
}

/// What lies at a place that sites pull from, seen from the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicationThere {
    /// No fleet's metadata.
    Nothing,
    /// This fleet's, and not newer than what is on record here. A timestamp that this fleet did not sign may lie beside its root metadata.
    Own,
    /// Another fleet's, or nobody's: root metadata that is not this fleet's, or a timestamp of another one without any root metadata.
    Foreign {
        /// The file that shows it.
        file: String,
    },
    /// Beside this fleet's root metadata a version of it that is not on record here.
    UnknownRoot {
        /// The version.
        version: u64,
    },
    /// A timestamp that this fleet's keys signed, and that is newer than the last on record here.
    Newer {
        /// Its version.
        there: u64,
        /// The version on record here.
        here: u64,
        /// The highest version that was ever used here, published or not: higher than `here` where the folder was restored from a backup.
        used: u64,
    },
    /// A timestamp that this fleet's keys signed, of the version on record here, with other content.
    Split {
        /// The version.
        version: u64,
    },
}

/// Why nothing is published at a place. Nothing was signed and nothing was written there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishedElsewhere {
    /// Another fleet's bundles lie there.
    #[error(
        "`{place}` is no place of this fleet: its `metadata/{file}` is of another fleet, or no metadata of one; nothing was written there"
    )]
    OtherFleet {
        /// The folder or URL.
        place: String,
        /// The file that shows it.
        file: String,
    },
    /// A change of the fleet's keys that is not on record here.
    #[error(
        "`{place}` has root metadata version {version} beside this fleet's, which the fleet's folder here does not have: another copy of \
         the fleet publishes there, or someone else has its keys; nothing was written there"
    )]
    UnknownRoot {
        /// The folder or URL.
        place: String,
        /// Its version.
        version: u64,
    },
    /// This fleet's keys signed something newer, which is not on record here.
    #[error(
        "`{place}` has a newer publication: its `metadata/timestamp.json` is version {there}, signed with this fleet's keys, and the \
         fleet's folder here has published version {here}: another copy of the fleet publishes there, or someone else has its keys; \
         nothing was written there"
    )]
    Newer {
        /// The folder or URL.
        place: String,
        /// The version there.
        there: u64,
        /// The version on record here.
        here: u64,
    },
    /// This fleet's keys signed another publication of the version on record here.
    #[error(
        "`{place}` has another publication: its `metadata/timestamp.json` is version {version} as in the fleet's folder here, signed \
         with this fleet's keys, with other content: two copies of this fleet sign, or someone else has its keys; nothing was written \
         there"
    )]
    Split {
        /// The folder or URL.
        place: String,
        /// The version.
        version: u64,
    },
}

impl Classified for PublishedElsewhere {
    fn class(&self) -> FailureClass {
        match self {
            Self::OtherFleet { .. } => FailureClass::Usage,
            Self::Newer { .. } => FailureClass::Refused,
            Self::Split { .. } | Self::UnknownRoot { .. } => FailureClass::Trust,
        }
    }

    fn help(&self) -> Option<String> {
        let help = match self {
            Self::OtherFleet { .. } => {
                "publish to an empty folder, or to the one that has this fleet's bundles: a folder holds the bundles of one fleet"
            }
            Self::Newer { .. } | Self::Split { .. } | Self::UnknownRoot { .. } => {
                "find out who signed it, and when. A copy of the fleet's folder: publish from the newest copy alone. The fleet's folder \
                 here was restored from a backup: see the runbook of a restored centre (`outhaul-signer restored FLEET`, then `outhaul \
                 bundle --renew`). Nobody: a key is stolen; see the runbook of a theft (`outhaul-signer rotate FLEET online`, then \
                 publish to an empty folder)"
            }
        };
        Some(help.to_owned())
    }
}

impl PublishedElsewhere {
    /// The refusal of `place`, where `there` lies, if it is one.
    pub fn of(place: &str, there: &PublicationThere) -> Option<Self> {
        let place = place.to_owned();
        match there {
            PublicationThere::Foreign { file } => Some(Self::OtherFleet {
                place,
                file: file.clone(),
            }),
            PublicationThere::UnknownRoot { version } => Some(Self::UnknownRoot {
                place,
                version: *version,
            }),
            PublicationThere::Newer { there, here, .. } => Some(Self::Newer {
                place,
                there: *there,
                here: *here,
            }),
            PublicationThere::Split { version } => Some(Self::Split {
                place,
                version: *version,
            }),
            _ => None,
        }
    }
}

/// Gives a metadata file of a place, of so many bytes at most; `None` where there is none.
pub type ReadThere<'r, E> = &'r mut dyn FnMut(&str, u64) -> Result<Option<Vec<u8>>, E>;

/// Whether `bytes` are root metadata of `version` that those before it, of this fleet's `roots`, vouch for.
fn follows(roots: &[String], version: u64, bytes: &[u8]) -> bool {
    let before = version
        .checked_sub(2)
        .and_then(|at| usize::try_from(at).ok());
    let Some(before) = before.and_then(|at| roots.get(at)) else {
        return false;
    };
    let next = BTreeMap::from([(format!("{version}.root.json"), bytes.to_vec())]);
    Walk::from_root(before.as_bytes())
        .is_ok_and(|mut walk| walk.update_root(&next, &mut |_| ()).is_ok())
}

impl Fleet {
    /// Why the bundle with these `files` of metadata, the newest of the stream `role`, is not what would be signed now; `None` where it is. A
    /// stream that was ended is not asked about.
    ///
    /// # Errors
    /// [`FleetError`] when what is published cannot be read.
    pub fn outdated(
        &self,
        role: &str,
        files: &BTreeMap<String, Vec<u8>>,
    ) -> Result<Option<Outdated>, FleetError> {
        let published = self.published()?;
        let Some(keys) = delegated(&published.targets, role) else {
            return Ok(None);
        };
        let root = published.root.version;
        let newest = self.newest_root_bytes()?;
        let no_date = TimePolicy {
            lower_bound: Timestamp::UNIX_EPOCH,
            wall: Timestamp::UNIX_EPOCH,
            wall_trusted: false,
        };
        let accepted = TrustedMetadata::enrol(&newest)
            .and_then(|trusted| trust::verify(&trusted, &BTreeMap::new(), files, role, no_date));
        if let Err(source) = accepted {
            return Ok(Some(Outdated::Keys { root, source }));
        }
        if !files.contains_key(&format!("{root}.root.json")) {
            return Ok(Some(Outdated::Root { root }));
        }
        let mut named = files.iter();
        let targets = named.find(|(name, _)| name.ends_with(".targets.json"));
        let targets = targets.and_then(|(_, bytes)| metadata::parse_own::<Targets>(bytes).ok());
        let then = targets
            .as_ref()
            .and_then(|targets| delegated(targets, role));
        let is_same =
            then.is_some_and(|then| then.keyids == keys.keyids && then.threshold == keys.threshold);
        Ok((!is_same).then_some(Outdated::Stream))
    }

    /// What lies at a place that sites pull from. `read` gives a metadata file of it, of so many bytes at most; `None` where there is none.
    ///
    /// # Errors
    /// What `read` says, and a [`FleetError`] when what is published cannot be read here.
    pub fn publication_at<E: From<FleetError>>(
        &self,
        read: ReadThere<'_, E>,
    ) -> Result<PublicationThere, E> {
        let published = self.published()?;
        let roots = self.root_chain()?;
        let mut is_own = false;
        for version in 1..=published.root.version + 1 {
            let file = format!("{version}.root.json");
            let Some(bytes) = read(&file, MAX_ROOT_BYTES)? else {
                continue;
            };
            let mut own = roots.iter();
            if own.any(|root| root.as_bytes() == bytes) {
                is_own = true;
            } else if TrustedMetadata::enrol(&bytes).is_ok() {
                // One that is damaged is no fleet's; this one is whole. Anybody can sign the first root of a fleet of their own: only
                // this fleet's keys sign the one that follows on its roots.
                return Ok(match follows(&roots, version, &bytes) {
                    true => PublicationThere::UnknownRoot { version },
                    false => PublicationThere::Foreign { file },
                });
            }
        }
        let Some(timestamp) = read("timestamp.json", MAX_TIMESTAMP_BYTES)? else {
            return Ok(match is_own {
                true => PublicationThere::Own,
                false => PublicationThere::Nothing,
            });
        };
        let here = published.timestamp.version;
        let own = self.metadata_folder().join("timestamp.json");
        let own = durable::read(&own, MAX_TIMESTAMP_BYTES).map_err(FleetError::from)?;
        let is_signed = timestamp != own && self.has_signed_timestamp(&timestamp)?;
        let version = metadata::version_of(&timestamp).filter(|_| is_signed);
        Ok(match version {
            Some(there) if there > here => {
                let used = self.marks()?.versions.get("timestamp").copied();
                let used = used.unwrap_or_default().max(here);
                PublicationThere::Newer { there, here, used }
            }
            Some(version) if version == here => PublicationThere::Split { version },
            None if !is_own && timestamp != own => PublicationThere::Foreign {
                file: "timestamp.json".to_owned(),
            },
            _ => PublicationThere::Own,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ceremony::{RootChange, StreamChange};
    use crate::fleet::InitOptions;
    use crate::key::Secret;
    use crate::publish::SignRequest;

    const ISSUED: &str = "2026-11-21T12:00:00Z";

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    fn secret() -> Secret {
        Secret::new("a passphrase for tests".to_owned())
    }

    fn fleet(folder: &std::path::Path) -> Fleet {
        Fleet::init(folder, InitOptions::new(secret(), at(ISSUED))).unwrap()
    }

    /// Signs and publishes the next bundle of a stream: the stream's role, and the metadata of the bundle.
    fn bundle(fleet: &Fleet) -> (String, BTreeMap<String, Vec<u8>>) {
        let role = fleet.role("dev", "edge");
        let number = fleet.next_number(&role).unwrap();
        let index = format!(
            r#"{{"fleet":"{}","number":{number},"stream":{{"role":"{role}","environment":"dev","cluster_type":"edge"}}}}"#,
            fleet.id()
        );
        let request = SignRequest {
            role: &role,
            number,
            index_bytes: index.as_bytes(),
            index_compressed: None,
            issued: at(ISSUED),
            expires: at("2027-11-21T12:00:00Z"),
        };
        let signed = fleet.sign_bundle(request, &secret()).unwrap();
        fleet.commit(&signed).unwrap();
        (role, signed.files.iter().cloned().collect())
    }

    fn files_of(fleet: &Fleet) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(fleet.metadata_folder()).unwrap();
        let file = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(path).unwrap())
        };
        entries.map(file).collect()
    }

    #[test]
    fn a_bundle_is_outdated_once_keys_were_changed_and_no_more_when_it_is_signed_anew() {
        let folder = tempfile::tempdir().unwrap();
        let fleet = fleet(&folder.path().join("fleet"));
        let (role, mut files) = bundle(&fleet);
        assert!(fleet.outdated(&role, &files).unwrap().is_none());
        for change in [
            RootChange::RotateOnline,
            RootChange::RotateTargets,
            RootChange::RotateRoot,
        ] {
            let is_of_root = change == RootChange::RotateRoot;
            fleet.change_root(&[change], at(ISSUED), &secret()).unwrap();
            let found = fleet.outdated(&role, &files).unwrap().unwrap();
            match is_of_root {
                true => assert!(matches!(found, Outdated::Root { .. }), "{found}"),
                false => assert!(matches!(found, Outdated::Keys { .. }), "{found}"),
            }
            files = bundle(&fleet).1;
            assert!(fleet.outdated(&role, &files).unwrap().is_none());
        }
        let change = |change| {
            let changes = [change];
            fleet.change_stream(&role, &changes, at(ISSUED), &secret())
        };
        change(StreamChange::Rekey).unwrap();
        let found = fleet.outdated(&role, &files).unwrap().unwrap();
        assert!(matches!(found, Outdated::Stream), "{found}");
        files = bundle(&fleet).1;
        assert!(fleet.outdated(&role, &files).unwrap().is_none());
        // Nothing is signed again for a stream that was ended.
        change(StreamChange::End).unwrap();
        assert!(fleet.outdated(&role, &files).unwrap().is_none());
    }

    #[test]
    fn a_place_is_empty_own_of_another_fleet_or_ahead() {
        let folder = tempfile::tempdir().unwrap();
        let own = fleet(&folder.path().join("fleet"));
        let other = fleet(&folder.path().join("other"));
        bundle(&own);
        bundle(&other);
        let there = |files: &BTreeMap<String, Vec<u8>>| {
            let mut read = |name: &str, _| Ok::<_, FleetError>(files.get(name).cloned());
            own.publication_at(&mut read).unwrap()
        };
        assert_eq!(there(&BTreeMap::new()), PublicationThere::Nothing);
        let mut files = files_of(&own);
        assert_eq!(there(&files), PublicationThere::Own);
        let foreign = |file: &str| PublicationThere::Foreign {
            file: file.to_owned(),
        };
        let mut others = files_of(&other);
        assert_eq!(there(&others), foreign("1.root.json"));
        others.remove("1.root.json");
        assert_eq!(there(&others), foreign("timestamp.json"));
        // Whoever may write there can put another fleet's root beside those of this one: its keys did not sign it.
        let mut beside = files.clone();
        let root = files_of(&other).remove("1.root.json").unwrap();
        beside.insert("2.root.json".to_owned(), root);
        assert_eq!(there(&beside), foreign("2.root.json"));
        // What was changed in the fleet's own place is for it to mend.
        files.insert("timestamp.json".to_owned(), b"x".to_vec());
        assert_eq!(there(&files), PublicationThere::Own);
        files.remove("timestamp.json");
        assert_eq!(there(&files), PublicationThere::Own);
        let mut without_root = files_of(&own);
        without_root.insert("1.root.json".to_owned(), b"x".to_vec());
        assert_eq!(there(&without_root), PublicationThere::Own);

        // A copy of the fleet's folder signs on by itself, as whoever has its keys may.
        let copy = folder.path().join("copy");
        for part in ["", "keys", "metadata"] {
            std::fs::create_dir_all(copy.join(part)).unwrap();
            for entry in std::fs::read_dir(own.folder().join(part)).unwrap() {
                let from = entry.unwrap().path();
                if from.is_file() {
                    let to = copy.join(part).join(from.file_name().unwrap());
                    std::fs::copy(from, to).unwrap();
                }
            }
        }
        let copy = Fleet::open(&copy).unwrap();
        bundle(&copy);
        assert_eq!(
            there(&files_of(&copy)),
            PublicationThere::Newer {
                there: 3,
                here: 2,
                used: 2
            }
        );
        let expires = at("2027-12-21T12:00:00Z");
        let refreshed = own.refresh(at(ISSUED), expires, &secret()).unwrap();
        own.commit(&refreshed).unwrap();
        assert_eq!(
            there(&files_of(&copy)),
            PublicationThere::Split { version: 3 }
        );
        // A root that continues the chain and is not on record here.
        let renewed = [RootChange::Renew];
        copy.change_root(&renewed, at(ISSUED), &secret()).unwrap();
        let unknown = PublicationThere::UnknownRoot { version: 2 };
        assert_eq!(there(&files_of(&copy)), unknown);
    }
}
