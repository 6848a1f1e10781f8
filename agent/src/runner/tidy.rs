//! What stays on disk: the active generation, the good one before it, and what is on its way.
//!
//! What comes in: the table of generations. What goes out: folders and blobs that nothing refers to any
//! more are gone. The row says so first, so that nobody goes back to a folder that is being removed.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::agent::Agent;
use crate::blobs::Blobs;
use crate::durable;
use crate::error::AgentError;
use crate::generation;
use crate::machine::State;
use crate::state::generations::Generation;
use crate::state::{self, floors, generations, key};

impl Agent {
    /// Keeps two whole generations and removes the rest.
    pub(super) fn clean_up(&mut self) -> Result<(), AgentError> {
        let all = generations::all(self.store.read())?;
        let kept = self.kept(&all)?;
        self.commit(|db, _| {
            for mut generation in all
                .into_iter()
                .filter(|g| g.whole && !kept.contains(&g.number))
            {
                generation.whole = false;
                generations::put(db, &generation)?;
                for pass in ["apply", "revert"] {
                    generations::forget_results(db, &format!("{pass} {}", generation.number))?;
                }
            }
            Ok::<_, AgentError>(())
        })?;
        Blobs::new(&self.home).clear_partial()?;
        self.retain_blobs()?;
        // Last, because by them the next start sees that it was not finished.
        for path in self.surplus(&kept)? {
            durable::remove_tree(&path)?;
        }
        // A key too many does no harm; what runs now must not end as a failure for it.
        if let Err(error) = self.forget_former_keys() {
            tracing::warn!("keys that were replaced are kept: {error}");
        }
        Ok(())
    }

    /// Finishes a cleaning up that was cut off, and removes what a cut-off copy unpacked.
    ///
    /// # Errors
    /// [`AgentError`] of the memory or the disk.
    pub fn tidy_up(&mut self) -> Result<(), AgentError> {
        // A database that somebody put back knows less than the disk: nothing is removed by its word.
        if floors::floors(self.store.read(), &self.home.floors()).is_err() {
            return Ok(());
        }
        let kept = self.kept(&generations::all(self.store.read())?)?;
        if self.surplus(&kept)?.is_empty() {
            Ok(())
        } else {
            self.clean_up()
        }
    }

    /// The active generation, the good one before it, and those on their way.
    fn kept(&self, all: &[Generation]) -> Result<BTreeSet<u64>, AgentError> {
        let active: Option<u64> = state::meta(self.store.read(), key::ACTIVE)?;
        let before = all
            .iter()
            .find(|g| g.good && g.whole && active.is_some_and(|active| g.number < active));
        let unfinished = all
            .iter()
            .filter(|g| g.state.unfinished() && g.state != State::Verified);
        Ok(unfinished
            .chain(before)
            .map(|g| g.number)
            .chain(active)
            .collect())
    }

    /// Folders of generations that are not among `kept`.
    fn surplus(&self, kept: &BTreeSet<u64>) -> Result<Vec<PathBuf>, AgentError> {
        let mut paths = durable::list(&self.home.generations())?;
        paths.retain(|path| {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            !name.parse().is_ok_and(|number: u64| kept.contains(&number))
        });
        Ok(paths)
    }

    /// Takes back what a cut-off or refused copy left. A site that pulls keeps it to go on from there.
    pub(crate) fn discard(&mut self) -> Result<(), AgentError> {
        if self.config.repository.url.is_some() {
            return Ok(());
        }
        Blobs::new(&self.home).clear_partial()?;
        self.retain_blobs()
    }

    fn retain_blobs(&self) -> Result<(), AgentError> {
        let mut wanted = BTreeSet::new();
        for row in generations::all(self.store.read())?
            .into_iter()
            .filter(|g| g.whole)
        {
            let index = generation::read_index(&self.home, row.number, &row.index, &self.limits)?;
            wanted.extend(index.blobs.iter().map(|blob| blob.digest.hex()));
        }
        Ok(Blobs::new(&self.home).retain(&wanted)?)
    }
}
