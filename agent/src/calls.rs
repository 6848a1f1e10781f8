//! What a command asks of the process that already works on the state folder, and the answer.
//!
//! What comes in: a [`Call`] (import a path, carry out an order, do one round). What goes out: the [`CommandResult`] that the command
//! prints: text, JSON, messages and exit code, the same as if the command had done the work itself. Calls
//! lie in the database, which only the owner of the state folder can open. Whoever holds the lock does
//! the work: the service between two rounds, or the waiting command itself as soon as the lock is free.
//! It never works on a bundle without the lock.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use outhaul_kit::console;
use outhaul_kit::failure::Classified as _;
use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::Agent;
use crate::error::AgentError;
use crate::state::{self, StateError, Store, doing};
use crate::state_folder::{LockError, StateFolder};

pub mod import;
pub mod people;

/// How often a waiting command looks for its answer.
const LOOK: Duration = Duration::from_millis(200);

/// What a command wants done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Import a file or folder, by its absolute path.
    Import(PathBuf),
    /// Import a freshness slip given as text.
    Slip(String),
    /// Carry out what a person ordered, which is committed already.
    Ordered(people::Ordered),
    /// Everything that `run --once` does.
    Round,
}

impl Call {
    /// What is asked, for the journal.
    pub fn sentence(&self) -> String {
        match self {
            Self::Import(path) => format!("import {}", outhaul_kit::text::path(path)),
            Self::Slip(_) => "import a freshness slip".to_owned(),
            Self::Ordered(ordered) => ordered.sentence(),
            Self::Round => "do one round".to_owned(),
        }
    }
}

/// What the command prints, and how it ends.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CommandResult {
    /// The exit code.
    pub exit: u8,
    /// The result for people; empty when there is none.
    pub text: String,
    /// The result for scripts; null when there is none.
    pub value: Value,
    /// Lines for stderr, in order.
    pub messages: Vec<String>,
}

impl CommandResult {
    /// Adds an error and its help, and takes its exit code when there was none yet.
    pub fn fail(&mut self, error: &AgentError) {
        self.messages.extend(error.lines());
        if self.exit == 0 {
            self.exit = error.class().code();
        }
    }
}

/// The result of a call, or who else is at work.
#[derive(Debug)]
pub enum Performer {
    /// This process has the lock and does the work.
    ThisProcess(Box<Agent>),
    /// The process that had the lock did the work.
    OtherProcess(CommandResult),
}

/// Takes the lock, or has the process that holds it do `call` and waits for its answer.
///
/// # Errors
/// [`AgentError`] of the state folder.
pub fn perform_or_wait(state: &Path, call: &Call) -> Result<Performer, AgentError> {
    let mut store = None;
    let mut placed = None;
    loop {
        match Agent::exclusive(state) {
            Err(AgentError::State(StateError::Lock(LockError::Busy { holder, .. }))) => {
                let store = match &mut store {
                    Some(store) => store,
                    None => {
                        console::message(&format!(
                            "{holder} works on this site; it is asked to do this, and this command \
                             waits for its answer (Ctrl-C ends the waiting, not the work)"
                        ));
                        store.insert(Store::open(&StateFolder::new(state).database())?)
                    }
                };
                let id = match placed {
                    Some(id) if exists(store.read(), id)? => id,
                    // A service that was started again has dropped what it found.
                    _ => *placed.insert(place(store, call)?),
                };
                if let Some(answer) = answer_of(store, id)? {
                    return Ok(Performer::OtherProcess(answer));
                }
                thread::sleep(LOOK);
            }
            Err(other) => return Err(other),
            Ok(mut agent) => {
                let answer = placed.map_or(Ok(None), |id| answer_of(&mut agent.store, id))?;
                if let Some(answer) = answer {
                    return Ok(Performer::OtherProcess(answer));
                }
                drop_all(&mut agent.store)?;
                return Ok(Performer::ThisProcess(Box::new(agent)));
            }
        }
    }
}

fn place(store: &mut Store, call: &Call) -> Result<i64, StateError> {
    store.commit(|db| {
        db.execute(
            "INSERT INTO call (what) VALUES (?1)",
            [state::to_json(call)],
        )
        .map_err(doing("place a call"))?;
        Ok(db.last_insert_rowid())
    })
}

fn exists(db: &Connection, id: i64) -> Result<bool, StateError> {
    db.query_row("SELECT 1 FROM call WHERE id = ?1", [id], |_| Ok(()))
        .optional()
        .map(|found| found.is_some())
        .map_err(doing("look for a call"))
}

/// Takes the answer out, when there is one.
fn answer_of(store: &mut Store, id: i64) -> Result<Option<CommandResult>, StateError> {
    let text: Option<String> = store
        .read()
        .query_row("SELECT answer FROM call WHERE id = ?1", [id], |row| {
            row.get(0)
        })
        .optional()
        .map_err(doing("look for an answer"))?
        .flatten();
    let Some(text) = text else { return Ok(None) };
    store.commit(|db| {
        db.execute("DELETE FROM call WHERE id = ?1", [id])
            .map_err(doing("remove a call"))
    })?;
    state::from_json("answer", &text).map(Some)
}

/// Drops every call: whoever waits for one asks again.
///
/// # Errors
/// [`StateError`]
pub fn drop_all(store: &mut Store) -> Result<(), StateError> {
    store.commit(|db| {
        db.execute("DELETE FROM call", [])
            .map(|_| ())
            .map_err(doing("remove calls"))
    })
}

/// The oldest call without an answer.
///
/// # Errors
/// [`StateError`]
pub fn next(db: &Connection) -> Result<Option<(i64, Call)>, StateError> {
    let row: Option<(i64, String)> = db
        .query_row(
            "SELECT id, what FROM call WHERE answer IS NULL ORDER BY id LIMIT 1",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()
        .map_err(doing("look for a call"))?;
    row.map(|(id, what)| Ok((id, state::from_json("call", &what)?)))
        .transpose()
}

/// Writes the answer of a call.
///
/// # Errors
/// [`StateError`]
pub fn answer(store: &mut Store, id: i64, answer: &CommandResult) -> Result<(), StateError> {
    store.commit(|db| {
        db.execute(
            "UPDATE call SET answer = ?2 WHERE id = ?1",
            (id, state::to_json(answer)),
        )
        .map(|_| ())
        .map_err(doing("answer a call"))
    })
}
