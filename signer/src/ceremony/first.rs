//! The first ceremony: a new fleet, with its keys, its first metadata and its settings.
//!
//! What comes in: an empty folder and [`InitOptions`]. What goes out: a [`Fleet`] of which the root metadata sites
//! can be given. It never touches a fleet that is there.

use std::collections::BTreeMap;
use std::path::Path;

use outhaul_kit::interrupt;
use sha2::{Digest as _, Sha256};

use crate::durable::{self, PUBLIC_MODE};
use crate::fleet::{FORMAT, Fleet, FleetError, FleetSettings, InitOptions, Ring};
use crate::key::{self, PublicKey, SigningKey};
use crate::metadata::{self, RoleKeys, Root, SPEC_VERSION};
use crate::publish::Online;

impl Fleet {
    /// Makes a fleet in `folder`: keys, first metadata, settings.
    ///
    /// # Errors
    /// [`FleetError`] when there is a fleet already, an option is out of range, or files cannot be written.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the passphrase is wiped when this is done"
    )]
    pub fn init(folder: &Path, options: InitOptions) -> Result<Self, FleetError> {
        check_options(&options)?;
        if folder.join("fleet.json").exists() {
            return Err(FleetError::Exists {
                folder: folder.to_owned(),
            });
        }
        let _whole = interrupt::finishing();
        durable::create_folder(&folder.join("metadata"))?;
        durable::create_private_folder(&folder.join("keys"))?;
        let ring = Ring::of(folder);
        let make = |role: &str| ring.make(role, &options.passphrase);
        let root_keys: Result<Vec<_>, _> = (0..options.root_keys).map(|_| make("root")).collect();
        let root_keys = root_keys?;
        let targets_key = make("targets")?;
        let online_key = make("online")?;

        let root = first_root(&options, &root_keys, &targets_key, &online_key);
        let signers: Vec<&dyn metadata::Signs> = root_keys
            .iter()
            .map(|key| key as &dyn metadata::Signs)
            .collect();
        let root_bytes =
            metadata::sign(&root, &signers).map_err(|source| FleetError::Metadata {
                file: "1.root.json".into(),
                source,
            })?;
        let mut salt = [0u8; 16];
        key::random(&mut salt)?;
        let settings = FleetSettings {
            format: FORMAT.to_owned(),
            id: hex::encode(&Sha256::digest(&root_bytes)[..8]),
            salt: hex::encode(salt),
            hub_url: options.hub_url.clone(),
            hub_key: options.hub_key.clone(),
            root_days: options.root_days,
            targets_days: options.targets_days,
            streams: BTreeMap::new(),
        };
        let fleet = Self {
            folder: folder.to_owned(),
            settings,
        };
        let mut files = vec![("1.root.json".to_owned(), root_bytes)];
        files.extend(Online::first(&options, &targets_key, &online_key)?);
        for (name, bytes) in &files {
            durable::write(&fleet.metadata_folder().join(name), bytes, PUBLIC_MODE)?;
        }
        fleet.write_settings()?;
        Ok(fleet)
    }
}

fn first_root(
    options: &InitOptions,
    root_keys: &[SigningKey],
    targets_key: &SigningKey,
    online_key: &SigningKey,
) -> Root {
    let role = |keys: &[&SigningKey], threshold| {
        let mut keyids: Vec<_> = keys.iter().map(|key| key.public().id()).collect();
        keyids.sort_unstable();
        RoleKeys { keyids, threshold }
    };
    let all = root_keys.iter().chain([targets_key, online_key]);
    let online = role(&[online_key], 1);
    Root {
        kind: "root".to_owned(),
        spec_version: SPEC_VERSION.to_owned(),
        version: 1,
        expires: metadata::days_after(options.now, options.root_days),
        consistent_snapshot: true,
        keys: all
            .map(SigningKey::public)
            .map(|key| (key.id(), metadata::Key::new(&key)))
            .collect(),
        holders: named_in_order(root_keys),
        roles: BTreeMap::from([
            (
                "root".to_owned(),
                role(
                    &root_keys.iter().collect::<Vec<_>>(),
                    options.root_threshold,
                ),
            ),
            ("snapshot".to_owned(), online.clone()),
            ("targets".to_owned(), role(&[targets_key], 1)),
            ("timestamp".to_owned(), online),
        ]),
    }
}

/// Several root keys are distinguished by names from the beginning; one alone needs none.
fn named_in_order(root_keys: &[SigningKey]) -> metadata::Holders {
    if root_keys.len() < 2 {
        return BTreeMap::new();
    }
    let name = |(at, key): (usize, &SigningKey)| {
        let called = metadata::Holder {
            name: format!("root-{}", at + 1),
            holder: String::new(),
        };
        (key.public().id(), called)
    };
    root_keys.iter().enumerate().map(name).collect()
}

fn check_options(options: &InitOptions) -> Result<(), FleetError> {
    let refuse = |problem: &str| {
        Err(FleetError::Option {
            problem: problem.to_owned(),
        })
    };
    if options.passphrase.is_empty() {
        return refuse("an empty passphrase protects nothing");
    }
    options.passphrase.refuse_weak()?;
    if !(1..=16).contains(&options.root_keys) {
        return refuse("1 to 16 root keys");
    }
    if !(1..=options.root_keys).contains(&options.root_threshold) {
        return refuse("the root threshold must be between 1 and the number of root keys");
    }
    if !options.hub_key.is_empty() {
        PublicKey::from_pem(&options.hub_key)?;
    }
    Ok(())
}
