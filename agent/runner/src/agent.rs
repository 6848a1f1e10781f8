//! The agent itself: its folder, settings, memory, identity and key, opened together with the machine around it.
//!
//! What comes in: the state folder. What goes out: an [`Agent`], which the stages take as their first argument. Every
//! change goes through [`Agent::commit`], which hands out the one author of reports. An agent opened
//! without the lock can look, decide and send, but never apply.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outhaul_bundle::{Index, Limits};
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_reconcilers::Item;
use outhaul_settings::noted;
use outhaul_signer::SigningKey;
use outhaul_site::backup::{restore, saved_floors};
use outhaul_values::GivenValues;
use rusqlite::Transaction;

use crate::config::{self, AgentConfig};
use crate::durable;
use crate::error::AgentError;
use crate::facilities::Facilities;
use crate::host::Host;
use crate::identity;
use crate::keys;
use crate::lost_settings::{self, NOT_APPLIED, UNDECIDED};
use crate::reconcilers::BundleReconcilers;
use crate::rehearsal::Rehearsal;
use crate::state::clock::{self, ClockReading};
use crate::state::floors;
use crate::state::inventory;
use crate::state::outbox::Author;
use crate::state::{self, SiteIdentity, StateError, Store};
use crate::state_folder::{Lock, StateFolder};

/// The agent of one site.
#[derive(Debug)]
pub struct Agent {
    /// Where everything lies.
    pub state_folder: StateFolder,
    /// The owner's settings.
    pub config: AgentConfig,
    /// The memory.
    pub store: Store,
    /// Who this site is.
    pub site: SiteIdentity,
    /// The site's key.
    pub key: SigningKey,
    /// Signs of life, and the wish to stop.
    pub heartbeat: Heartbeat,
    /// The machine around it.
    pub facilities: Arc<dyn Facilities>,
    /// Bounds for foreign bytes.
    pub limits: Limits,
    /// Whether nothing is to be done on this host: the memory is a copy, and what would be done is kept here.
    pub rehearsal: Option<Rehearsal>,
    lock: Option<Lock>,
    /// Whether the settings are those of a file, and not the default ones.
    has_settings: bool,
}

impl Agent {
    /// The index in the folder of a bundle that no row knows: it says what is kept, and nothing is applied by it.
    pub(crate) fn index_on_disk(&self, number: u64) -> Option<Index> {
        let path = self.state_folder.generation(number).join("index.json");
        let bytes = durable::read(&path, self.limits.max_index_bytes).ok()?;
        Index::from_bytes(&bytes, &self.limits).ok()
    }

    /// Opens the agent for looking, deciding and sending.
    ///
    /// # Errors
    /// [`AgentError`] when the site is not enrolled or its folder cannot be used.
    pub fn open(state: &Path) -> Result<Self, AgentError> {
        let state_folder = StateFolder::new(state);
        state::check_enrolled(&state_folder)?;
        state_folder.check()?;
        let has_settings = noted::is_there(&state_folder);
        let config = config::load(&state_folder.config())?;
        state_folder.create()?;
        let store = Store::open(&state_folder.database())?;
        let site = identity::check(&state_folder, store.read())?;
        let key = keys::key_in_use(&state_folder, store.read())?;
        let heartbeat = Heartbeat::default();
        Ok(Self {
            state_folder,
            config,
            store,
            site,
            key,
            heartbeat,
            facilities: Arc::new(Host),
            limits: Limits::default(),
            rehearsal: None,
            lock: None,
            has_settings,
        })
    }

    /// The same agent with a copy of its memory, which installs nothing and writes nothing: what the intake
    /// decides, it decides as it would, and everything is forgotten with it.
    ///
    /// # Errors
    /// [`AgentError`] of the store.
    pub fn for_rehearsal(self) -> Result<Self, AgentError> {
        let known = floors::floors(self.store.read(), &self.state_folder.floors());
        let mut store = self.store.copy()?;
        let state_folder = match known {
            Ok(known) => {
                store.commit(|db| floors::store(db, &known))?;
                self.state_folder.for_rehearsal(false)
            }
            // A slip newer than both helps: what it would do is to be seen, too.
            Err(StateError::Floors { .. }) => self.state_folder.for_rehearsal(true),
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            state_folder,
            store,
            rehearsal: Some(Rehearsal::default()),
            ..self
        })
    }

    /// Opens the agent for applying: no other process may do so meanwhile.
    ///
    /// # Errors
    /// As [`Agent::open`], and when another agent is at work.
    pub fn exclusive(state: &Path) -> Result<Self, AgentError> {
        let state_folder = StateFolder::new(state);
        state::check_enrolled(&state_folder)?;
        let lock = state_folder.lock()?;
        let is_restored = restore::finish(&state_folder).map_err(StateError::from)?;
        let mut agent = Self::open(state)?;
        if is_restored {
            tracing::warn!(
                "restoring this site from a backup was interrupted when everything was in its place: it is complete now, and the site goes on from there"
            );
            // The command that would have said it was interrupted.
            let held: Option<Vec<String>> =
                state::meta(agent.store.read(), state::key::RESTORED_HOLDS)?;
            for sentence in held.unwrap_or_default() {
                tracing::warn!("{sentence}");
            }
            let floor = saved_floors::of_restored(agent.store.read(), &agent.site)?.sentence();
            // The log says by itself that it is a warning.
            tracing::warn!("{}", floor.trim_start_matches("warning: "));
        }
        agent.store.work_under(lock.place()?);
        agent.lock = Some(lock);
        noted::note(&agent.state_folder, &mut agent.store);
        let (folder, db) = (&agent.state_folder, agent.store.read());
        if let Some(differs) = identity::other_numbering(folder, db)? {
            // That it cannot be written is no reason to fail: each later round tries it again.
            match identity::keep(folder, db) {
                Ok(()) => tracing::warn!("{differs}: the file is written again"),
                Err(StateError::File(error)) => tracing::warn!("{differs}: {error}"),
                Err(other) => return Err(other.into()),
            }
        }
        Ok(agent)
    }

    /// Refuses to work by the default settings where those of this site are lost. A service that read the file goes on with what it read; one that
    /// started without does nothing until it is started again.
    ///
    /// # Errors
    /// [`AgentError::Apply`]
    pub fn check_settings(&self) -> Result<(), AgentError> {
        let (folder, db) = (&self.state_folder, self.store.read());
        if self.rehearsal.is_some() {
            // What is rehearsed beside a service, the service would do by what it read.
            return lost_settings::refuse_beside(folder, db, self.has_settings, NOT_APPLIED);
        }
        match self.has_settings {
            true => Ok(()),
            false => lost_settings::refuse(folder, db),
        }
    }

    /// Refuses, before it is recorded, what a person decides and nobody would carry out, because the settings of this site are lost.
    ///
    /// # Errors
    /// [`AgentError::Apply`]
    pub fn check_decision(&self) -> Result<(), AgentError> {
        let (folder, db) = (&self.state_folder, self.store.read());
        match self.has_lock() {
            true if self.has_settings => Ok(()),
            _ => lost_settings::refuse_beside(folder, db, self.has_settings, UNDECIDED),
        }
    }

    /// Whether this process is the one that may apply.
    pub fn has_lock(&self) -> bool {
        self.lock.is_some()
    }

    /// Notes that this process is the service, where it has the lock.
    pub fn note_service(&self) {
        if let Some(lock) = &self.lock {
            lock.note_service(&config::mark(&self.state_folder.config()).unwrap_or_default());
        }
    }

    /// Notes why the removed database cannot be saved, where this process has the lock: `status` finds it there.
    pub fn note_unsaved(&self, reason: &str) {
        if let Some(lock) = &self.lock {
            lock.note_unsaved(reason);
        }
    }

    /// One transaction, with the author of the reports about it.
    ///
    /// # Errors
    /// What `work` or the commit says; nothing was changed then.
    pub fn commit<T, E: From<StateError>>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &Author<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        // How many reports this site keeps is not known while its settings are lost: none is dropped by the default number.
        let max_rows = match self.check_settings() {
            Ok(()) => self.config.outbox_max,
            Err(_) => u64::MAX,
        };
        let (site, key, config) = (&self.site, &self.key, &self.config);
        let facilities = &self.facilities;
        self.store.commit(|db| {
            let reading = clock::now(db, facilities.clocks(&config.clock))?;
            reading.store(db)?;
            let author = Author {
                site,
                key,
                reading: &reading,
                max_rows,
            };
            work(db, &author)
        })
    }

    /// What the clocks say now, with the stored bound carried to it; stores nothing.
    ///
    /// # Errors
    /// [`StateError`] when the bound cannot be read.
    pub fn clock_reading(&self) -> Result<ClockReading, StateError> {
        clock::now(
            self.store.read(),
            self.facilities.clocks(&self.config.clock),
        )
    }

    /// Whether this machine can apply a bundle, and ask for its health then.
    ///
    /// # Errors
    /// [`AgentError::Apply`] of the first reconciler or program that cannot be used.
    pub fn can_apply(&self, index: &Index) -> Result<(), AgentError> {
        self.check_settings()?;
        self.reconcilers(index)?.ready()?;
        self.can_ask()
    }

    /// Whether what counts as this site's health can be asked at all: a program that is missing, or that others may change, is this machine's
    /// fault, and no bundle's.
    ///
    /// # Errors
    /// [`AgentError::Apply`] names the first that cannot be asked.
    pub fn can_ask(&self) -> Result<(), AgentError> {
        let mut all = self.config.health.ask.iter();
        Ok(all.try_for_each(|one| self.facilities.can_ask(one, &self.config))?)
    }

    /// The reconcilers of a bundle, which give assignments the values that this site set.
    ///
    /// # Errors
    /// [`AgentError`] when this site lacks one, or the memory cannot be read.
    pub fn reconcilers(&self, index: &Index) -> Result<BundleReconcilers, AgentError> {
        let values = self.site_values()?;
        let (facilities, folder) = (&*self.facilities, &self.state_folder);
        let found = BundleReconcilers::of(index, facilities, &self.config, folder, &values)?;
        Ok(found)
    }

    /// The values that a person on site set.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn site_values(&self) -> Result<GivenValues, StateError> {
        Ok(state::meta(self.store.read(), state::key::SITE_VALUES)?.unwrap_or_default())
    }

    /// The inventory of one assignment under one reconciler.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn recorded(&self, kind: &str, assignment: &str) -> Result<Vec<Item>, StateError> {
        let mut items = inventory::items(self.store.read(), Some(assignment))?;
        items.retain(|item| item.kind == kind);
        Ok(items)
    }

    /// Checks that the state folder has `bytes` and the reserve.
    ///
    /// # Errors
    /// [`AgentError::Space`] says how much is missing.
    pub fn check_space(&self, bytes: u64) -> Result<(), AgentError> {
        const MIB: u64 = 1024 * 1024;
        let reserve = self.config.min_free_mb;
        let needed = bytes.saturating_add(reserve.saturating_mul(MIB));
        let free = self.facilities.free_bytes(self.state_folder.root())?;
        if free >= needed {
            return Ok(());
        }
        Err(AgentError::Space {
            folder: self.state_folder.root().display().to_string(),
            needed: needed.div_ceil(MIB),
            reserve,
            free: free / MIB,
            missing: (needed - free).div_ceil(MIB),
            removable: self.removable()?,
        })
    }

    /// Folders of bundles before the active one: without them there is no going back to these, and nothing else is lost.
    fn removable(&self) -> Result<Vec<PathBuf>, StateError> {
        let site = crate::site_now(self.store.read())?;
        let mut folders: Vec<_> = site
            .removable()
            .map(|number| self.state_folder.generation(number))
            .collect();
        folders.retain(|folder| folder.is_dir());
        Ok(folders)
    }
}
