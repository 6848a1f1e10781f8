//! What stays on disk: the active generation, the good one before it, and what is on its way.
//!
//! What comes in: the table of generations. What goes out: folders and blobs that nothing refers to any
//! more are gone. The row says so first, so that nobody goes back to a folder that is being removed.

use std::collections::BTreeSet;

use crate::agent::Agent;
use crate::blobs::Blobs;
use crate::durable;
use crate::error::AgentError;
use crate::generation;
use crate::machine::State;
use crate::state::{self, generations, key};

impl Agent {
    /// Keeps two whole generations and removes the rest.
    pub(super) fn clean_up(&mut self) -> Result<(), AgentError> {
        let active: Option<u64> = state::meta(self.store.read(), key::ACTIVE)?;
        let all = generations::all(self.store.read())?;
        let before = all
            .iter()
            .find(|g| g.good && g.whole && active.is_some_and(|active| g.number < active));
        let kept: BTreeSet<u64> = all
            .iter()
            .filter(|g| g.state.unfinished() && g.state != State::Verified)
            .map(|g| g.number)
            .chain(active)
            .chain(before.map(|g| g.number))
            .collect();
        self.commit(|db, _| {
            for mut generation in all.into_iter().filter(|g| g.whole && !kept.contains(&g.number)) {
                generation.whole = false;
                generations::put(db, &generation)?;
                for pass in ["apply", "revert"] {
                    generations::forget_results(db, &format!("{pass} {}", generation.number))?;
                }
            }
            Ok::<_, AgentError>(())
        })?;
        for path in durable::list(&self.home.generations())? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !name.parse().is_ok_and(|number: u64| kept.contains(&number)) {
                durable::remove_tree(&path)?;
            }
        }
        Blobs::new(&self.home).clear_partial()?;
        self.retain_blobs()
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
        for row in generations::all(self.store.read())?.into_iter().filter(|g| g.whole) {
            let index = generation::read_index(&self.home, row.number, &row.index, &self.limits)?;
            wanted.extend(index.blobs.iter().map(|blob| blob.digest.hex()));
        }
        Ok(Blobs::new(&self.home).retain(&wanted)?)
    }
}
