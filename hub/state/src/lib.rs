//! A hub's state folder: the store, the hub's key, and the lock of the one server.
//!
//! What comes in: a folder, and at set-up the fleet's first root metadata. What goes out: an open [`Hub`]. `hub.db`, or the server that
//! `hub.database` names, holds all data, `hub.key` signs acknowledgements, `serve.lock` keeps a second server away; other commands may run
//! beside it. All is for its owner only. The key is opened only where something is signed.

mod keys;
pub mod lost;
mod refused;
mod webhook;

use std::io;
use std::path::{Path, PathBuf};

use outhaul_bundle::name::Name;
use outhaul_bundle::report::{ACK_PAYLOAD_TYPE, Ack};
use outhaul_gate::audit::{END_TYPE, End};
use outhaul_kit::lock;
use outhaul_signer::clock::Implausible;
use outhaul_signer::durable::{self, FileError};
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::{KeyError, PublicKey, Secret, SigningKey};
use outhaul_signer::trust::{TrustError, TrustedMetadata};

use refused::{fleet_id, refuse_lost, refuse_other_database};

pub use keys::{
    KEY_CREDENTIAL, PASSPHRASE_CREDENTIAL, PASSPHRASE_VARIABLE, credential as key_credential,
};

use outhaul_desired::ENROLLED;
use outhaul_ingest::Complete;
use outhaul_store::{self as store, Address, Located, Moved, Session, Store, StoreError};
use outhaul_view::clock;

/// The hub's key in the state folder.
pub const KEY_FILE: &str = "hub.key";
const LOCK_FILE: &str = "serve.lock";
const FLEET: &str = "fleet";
const PUBLIC_KEY: &str = "public-key";
const PLAIN_KEY: &str = "plain-key";

/// An open hub.
#[derive(Debug)]
pub struct Hub {
    /// Its data.
    pub store: Store,
    folder: PathBuf,
    fleet: String,
    /// Open only in commands that sign.
    key: Option<SigningKey>,
}

/// Why a state folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A file or folder failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The database is gone, or holds nothing.
    #[error("the folder `{}` is a hub's ({beside}), and its database `hub.db` is gone or empty", folder.display())]
    Lost {
        /// The folder.
        folder: PathBuf,
        /// What is there.
        beside: String,
    },
    /// The server's database is a hub's, of which the key is not here.
    #[error("the database `{address}` is that of a hub with the key {expected}, and {found}")]
    Joins {
        /// The server's database.
        address: String,
        /// Id of the hub's key.
        expected: String,
        /// What is here instead.
        found: String,
    },
    /// The server's database is that of another fleet's hub.
    #[error(
        "the database `{address}` is that of a hub of fleet `{found}`, and the root metadata is of fleet `{fleet}`"
    )]
    OtherFleet {
        /// The server's database.
        address: String,
        /// Its fleet.
        found: String,
        /// The fleet that was asked for.
        fleet: String,
    },
    /// The folder has a database, and another one was named.
    #[error("the database of the hub in `{}` is {found}, and `{asked}` was asked for", folder.display())]
    OtherDatabase {
        /// The folder.
        folder: PathBuf,
        /// Where its database is.
        found: String,
        /// What was asked for.
        asked: String,
    },
    /// Another file is where the database was, or none: nothing that is written to it would be found again.
    #[error(
        "the database `{}` was removed or replaced while this program had it open; nothing more is accepted or \
         acknowledged", path.display()
    )]
    Replaced {
        /// The database.
        path: PathBuf,
    },
    /// Something has to be signed, and the key was not opened: a defect of this program.
    #[error("the hub's key is not open")]
    KeyNotOpen,
    /// Nothing should be signed with this machine's clock.
    #[error(
        "{problem}; no acknowledgement is signed, the reports that came in are kept and will be \
         acknowledged\nhelp: set this machine's clock; if the fleet signed a wrong time, import a bundle \
         that was signed after it was corrected"
    )]
    Clock {
        /// By how much it is off.
        problem: Implausible,
    },
    /// The key cannot be made or read.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Another server runs on this state.
    #[error("another `serve` of this hub runs on `{}`", folder.display())]
    Locked {
        /// The folder.
        folder: PathBuf,
    },
    /// The lock failed.
    #[error("`{}` cannot be locked", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A name that this program made is none.
    #[error("`{text}` cannot be acknowledged: it is not a name")]
    Name {
        /// The text.
        text: String,
    },
    /// The key is not the one that this state was made with.
    #[error("the hub's key is {found}, this state was made with key {expected}")]
    OtherKey {
        /// Id of the key that sites know.
        expected: String,
        /// Id of the key found.
        found: String,
    },
    /// The root metadata is not the fleet's first.
    #[error(
        "this is root metadata version {found}, a hub is set up with the first (`1.root.json`)"
    )]
    NotFirstRoot {
        /// Its version.
        found: String,
    },
    /// The root metadata does not hold.
    #[error("{0}")]
    Root(#[source] TrustError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The set-up was interrupted.
    #[error("the hub's state in `{}` is not complete", folder.display())]
    Unfinished {
        /// The folder.
        folder: PathBuf,
    },
}

impl Hub {
    /// Makes a hub's state in `folder` for the fleet of `root`, its first root metadata. A set-up
    /// that was interrupted is completed. The key is that of the systemd credential where there is one;
    /// else it is made, and with a passphrase rests encrypted. Where the database of a hub is gone, only `begin_empty`
    /// (the time, milliseconds since 1970) makes another one, beside the key that is there.
    ///
    /// With a `server` the database is there. Where it holds this very hub, and the hub's key is here, the folder becomes that of
    /// one more process of the hub.
    ///
    /// # Errors
    /// [`StateError`] when the metadata does not hold, the folder cannot be written, or a hub is there.
    pub fn init(
        folder: &Path,
        root: &[u8],
        secret: Option<&Secret>,
        begin_empty: Option<i64>,
        server: Option<&Address>,
    ) -> Result<Self, StateError> {
        let trusted = TrustedMetadata::enrol(root).map_err(StateError::Root)?;
        let fleet = fleet_id(root)?;
        let was_begun = folder.join(lost::BEGUN).exists();
        if let Some(address) = server {
            refuse_other_database(folder, address, was_begun)?;
            // Before anything is made here: the server may not answer, or know this hub already.
            let store = Store::on_server(address)?;
            if let Some(joined) = Self::join(store, folder, (&fleet, address), secret)? {
                return Ok(joined);
            }
        }
        if begin_empty.is_none() {
            refuse_lost(folder)?;
        }
        let had_database = lost::has_database(folder);
        durable::create_private_folder(folder)?;
        if !had_database {
            durable::write(&folder.join(lost::BEGUN), b"", 0o600)?;
        }
        if let Some(now_ms) = begin_empty {
            lost::put_aside(folder, now_ms)?;
        }
        let key_path = folder.join(KEY_FILE);
        let key = if let Some(credential) = keys::credential() {
            SigningKey::load_plain(&credential)?
        } else if key_path.exists() {
            keys::open(&key_path, secret.cloned())?
        } else {
            let key = SigningKey::generate()?;
            keys::save(&key, &key_path, secret)?;
            key
        };
        if let Some(address) = server {
            Located::keep(folder, address)?;
        }
        let mut store = match Store::create(folder) {
            Err(StoreError::Exists { .. }) => Store::open(folder)?,
            made => made?,
        };
        let path = folder.join(store::FILE_NAME);
        // Without its journal a small database holds nothing: that is a lost one as well.
        let is_lost = had_database && !was_begun && begin_empty.is_none();
        if is_lost && store.read(|session| session.setting(FLEET))?.is_none() {
            return Err(StateError::Lost {
                folder: folder.to_owned(),
                beside: "a database without a fleet".to_owned(),
            });
        }
        store.write(|session| {
            if session.setting(FLEET)?.is_some() {
                return Err(StoreError::Exists { path });
            }
            session.set_trusted(ENROLLED, &trusted.0, &std::collections::BTreeMap::new())?;
            session.set_setting(PUBLIC_KEY, &key.public().to_pem())?;
            session.set_setting(FLEET, &fleet)
        })?;
        durable::remove_file(&folder.join(lost::BEGUN))?;
        Ok(Self {
            store,
            folder: folder.to_owned(),
            fleet,
            key: Some(key),
        })
    }

    /// The folder as one more of the hub whose database is on the server; `None` where that holds none.
    fn join(
        mut store: Store,
        folder: &Path,
        (fleet, address): (&str, &Address),
        secret: Option<&Secret>,
    ) -> Result<Option<Self>, StateError> {
        let known = |name: &'static str| move |session: &Session<'_>| session.setting(name);
        let Some(found) = store.read(known(FLEET))? else {
            return Ok(None);
        };
        let address_text = address.to_string();
        if found != fleet {
            return Err(StateError::OtherFleet {
                address: address_text,
                found,
                fleet: fleet.to_owned(),
            });
        }
        let pem = store.read(known(PUBLIC_KEY))?.unwrap_or_default();
        let expected = PublicKey::from_pem(&pem)?.id();
        let path = folder.join(KEY_FILE);
        let key = match keys::credential() {
            Some(credential) => Some(SigningKey::load_plain(&credential)?),
            None if path.exists() => Some(keys::open(&path, secret.cloned())?),
            None => None,
        };
        let found = key.as_ref().map(|key| key.public().id());
        if found.as_ref() != Some(&expected) {
            let found = found.map_or_else(
                || format!("there is no key in `{}`", folder.display()),
                |found| format!("the key in `{}` is {found}", folder.display()),
            );
            return Err(StateError::Joins {
                address: address_text,
                expected,
                found,
            });
        }
        durable::create_private_folder(folder)?;
        Located::keep(folder, address)?;
        lost::set_up(folder)?;
        Ok(Some(Self {
            store,
            folder: folder.to_owned(),
            fleet: fleet.to_owned(),
            key,
        }))
    }

    /// Opens the hub in `folder`, without its key. Its database is looked at as a whole before anything is put on record.
    ///
    /// # Errors
    /// [`StateError`] when there is none or it cannot be read.
    pub fn open(folder: &Path) -> Result<Self, StateError> {
        refuse_lost(folder)?;
        let mut store = Store::open(folder)?;
        let fleet = store.read(|session| session.setting(FLEET))?;
        let Some(fleet) = fleet else {
            return Err(StateError::Unfinished {
                folder: folder.to_owned(),
            });
        };
        keys::refuse_open_to_others(&folder.join(KEY_FILE))?;
        store.check_before_writing();
        lost::set_up(folder)?;
        Ok(Self {
            store,
            folder: folder.to_owned(),
            fleet,
            key: None,
        })
    }

    /// Opens the hub in `folder` with its key: that of the systemd credential, or that of the folder,
    /// which a passphrase may protect.
    ///
    /// # Errors
    /// [`StateError`] as of [`Self::open`], and when the key cannot be opened.
    pub fn open_signing(folder: &Path, passphrase: Option<&Path>) -> Result<Self, StateError> {
        let mut hub = Self::open(folder)?;
        let key = keys::load(&folder.join(KEY_FILE), passphrase)?;
        let found = key.public();
        // Sites take acknowledgements of the key in their kits only: another one would be noticed late.
        match hub.store.read(|session| session.setting(PUBLIC_KEY))? {
            Some(pem) if pem != found.to_pem() => {
                let expected = PublicKey::from_pem(&pem)?.id();
                let found = found.id();
                return Err(StateError::OtherKey { expected, found });
            }
            _ => hub.key = Some(key),
        }
        Ok(hub)
    }

    /// Encrypts the key in the folder, or changes nothing.
    ///
    /// # Errors
    /// [`StateError`] when it cannot be opened or written.
    pub fn encrypt_key(&mut self, secret: &Secret) -> Result<(), StateError> {
        let path = self.folder.join(KEY_FILE);
        let key = keys::open(&path, None)?;
        let pem = key.public().to_pem();
        self.store
            .write(|session| session.set_setting(PUBLIC_KEY, &pem))?;
        keys::save(&key, &path, Some(secret))?;
        // It rests unencrypted no more.
        Ok(self
            .store
            .write(|session| session.set_setting(PLAIN_KEY, ""))?)
    }

    /// Puts on record why the key rests unencrypted.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub fn note_plain_key(&mut self, reason: &str) -> Result<(), StateError> {
        Ok(self
            .store
            .write(|session| session.set_setting(PLAIN_KEY, reason))?)
    }

    /// Why the key rests unencrypted, as whoever set the hub up said; `None` for any other key.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub fn plain_key(&mut self) -> Result<Option<String>, StateError> {
        let reason = self.store.read(|session| session.setting(PLAIN_KEY))?;
        Ok(reason.filter(|reason| !reason.is_empty()))
    }

    /// The fleet that this hub serves.
    pub fn fleet(&self) -> &str {
        &self.fleet
    }

    /// The hub's public key.
    ///
    /// # Errors
    /// [`StateError`] when the store or the key cannot be read.
    pub fn public_key(&mut self) -> Result<PublicKey, StateError> {
        if let Some(key) = &self.key {
            return Ok(key.public());
        }
        match self.store.read(|session| session.setting(PUBLIC_KEY))? {
            Some(pem) => Ok(PublicKey::from_pem(&pem)?),
            // A state from before it was kept apart has a key that no passphrase protects.
            None => Ok(keys::load(&self.folder.join(KEY_FILE), None)?.public()),
        }
    }

    /// Says, signed, that the hub has everything of each chain up to a number.
    ///
    /// # Errors
    /// [`StateError::Name`] when the store holds a name that is not one; [`StateError::Clock`] when nothing
    /// should be signed with this machine's clock.
    pub fn acknowledge(
        &mut self,
        complete: &[Complete],
        now_ms: i64,
    ) -> Result<Vec<Envelope>, StateError> {
        self.refuse_replaced()?;
        if complete.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(problem) = clock::problem(&mut self.store, now_ms)? {
            return Err(StateError::Clock { problem });
        }
        complete.iter().map(|one| self.sign(one, now_ms)).collect()
    }

    /// Whether the database is still the file that was opened.
    ///
    /// # Errors
    /// [`StateError::Replaced`] when it is not: a site would forget reports that nobody finds again.
    pub fn refuse_replaced(&self) -> Result<(), StateError> {
        if self.store.is_in_place() {
            return Ok(());
        }
        Err(StateError::Replaced {
            path: self.store.path().to_owned(),
        })
    }

    fn sign(&self, complete: &Complete, now_ms: i64) -> Result<Envelope, StateError> {
        let name = |text: &str| -> Result<Name, StateError> {
            text.parse().map_err(|_| StateError::Name {
                text: text.to_owned(),
            })
        };
        let ack = Ack {
            fleet: name(&self.fleet)?,
            site: name(&complete.site)?,
            epoch: name(&complete.epoch)?,
            number: complete.number,
            digest: complete
                .digest
                .as_ref()
                .and_then(|digest| digest.parse().ok()),
            hub_time_ms: now_ms,
        };
        let payload = serde_json::to_value(&ack)
            .unwrap_or_default()
            .to_string()
            .into_bytes();
        let key = self.key.as_ref().ok_or(StateError::KeyNotOpen)?;
        Ok(Envelope::sign(ACK_PAYLOAD_TYPE, payload, key))
    }

    /// Signs what an audit export ends with.
    ///
    /// # Errors
    /// [`StateError::KeyNotOpen`].
    pub fn sign_export(&self, end: &End) -> Result<Envelope, StateError> {
        let payload = serde_json::to_vec(end).unwrap_or_default();
        let key = self.key.as_ref().ok_or(StateError::KeyNotOpen)?;
        Ok(Envelope::sign(END_TYPE, payload, key))
    }

    /// Moves the database from its file to a server.
    ///
    /// # Errors
    /// [`StoreError`] when the server has other rows, or either database fails; the hub is as it was then.
    pub fn move_to(self, address: &Address) -> Result<Moved, StoreError> {
        self.store.move_to(&self.folder, address)
    }

    /// Takes the lock of the one server; it is held as long as the returned value is.
    ///
    /// # Errors
    /// [`StateError::Locked`] when another server has it.
    pub fn lock(&self) -> Result<lock::Held, StateError> {
        let path = self.folder.join(LOCK_FILE);
        let failed = |source| StateError::Lock {
            path: path.clone(),
            source,
        };
        let folder = self.folder.clone();
        let locked = || StateError::Locked { folder };
        lock::take_own(&path).map_err(failed)?.ok_or_else(locked)
    }
}
