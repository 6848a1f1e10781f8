//! Images of which layers came as twins, in this machine's containerd: brought before what runs them, released when no bundle needs them.
//!
//! What comes in: the index of the bundle that is to run; later, which bundles the site keeps. What goes out: images that containerd has, or why it has
//! not; and pins that go when a bundle is active, never those of it or of a bundle that a rollback goes to. What `ctr` is asked is decided elsewhere.

use std::collections::BTreeSet;

use outhaul_bundle::Index;
use outhaul_host::error::AgentError;
use outhaul_reconcilers::ApplyError;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::content_error::GenerationError;
use crate::facilities::ContainerdError;
use crate::serving;
use crate::state::{self, key};

/// What a pass does where an image cannot be brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Images {
    /// It stops: the bundle that runs is left as it is.
    Required,
    /// It goes on, and states it: going back must not fail for an image that containerd may have, or that only one workload needs.
    Wanted,
}

/// That images were pinned, which is stored before the first one is.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Pins {
    /// The bundles of which the images stayed pinned when others were last released; `None` after a bundle came.
    bundles: Option<BTreeSet<u64>>,
    /// Whether that was done.
    released: bool,
}

/// Brings the images of `index` of which layers came as twins into containerd. Returns why some are not there, if the pass goes on without.
pub(crate) fn bring(
    agent: &mut Agent,
    index: &Index,
    images: Images,
) -> Result<String, AgentError> {
    let number = index.number;
    let layout = serving::image_layout(&agent.state_folder, number);
    let has_twins = serving::has_twins(&layout);
    if !agent.config.containerd.twins && !has_twins {
        return Ok(String::new());
    }
    if has_twins {
        agent.commit(|db, _| state::set_meta(db, key::PINNED_IMAGES, Some(&Pins::default())))?;
    }
    let (config, heartbeat) = (&agent.config, &agent.heartbeat);
    let done = agent
        .facilities
        .bring_images(index, &layout, config, heartbeat);
    // It may have ended early.
    if agent.heartbeat.is_cancelled() {
        return Err(AgentError::Stopped);
    }
    let failed = match done {
        Err(error) => vec![error],
        Ok(brought) => {
            for name in brought.names {
                tracing::info!("bundle {number}: image `{name}` was brought into containerd");
            }
            brought.failed
        }
    };
    if images == Images::Wanted {
        let notes = failed.iter().map(|error| {
            let note = format!(
                "{error}; its workloads were applied without it: {}",
                error.help()
            );
            tracing::warn!("bundle {number}: {note}");
            note
        });
        return Ok(notes.collect::<Vec<_>>().join("; "));
    }
    match failed.into_iter().next() {
        None => Ok(String::new()),
        Some(error) => Err(refusal(number, &error)),
    }
}

/// The error of a bundle, or of this machine, where the work waits until someone has mended it.
fn refusal(number: u64, error: &ContainerdError) -> AgentError {
    let what = format!("{error}: {}", error.help());
    match error {
        ContainerdError::Lacking { .. } => GenerationError::Lost { number, what }.into(),
        _ if error.is_of_the_bundle() => {
            let problem = what;
            GenerationError::Index { number, problem }.into()
        }
        _ => ApplyError::Images {
            problem: error.to_string(),
            help: error.help(),
        }
        .into(),
    }
}

/// Releases the images of bundles that are not `kept`, when that was not done for these; also what failed before, where `again`. What fails is a
/// warning: an image too many takes space only.
pub(crate) fn release(
    agent: &mut Agent,
    kept: &BTreeSet<u64>,
    again: bool,
) -> Result<(), AgentError> {
    let Some(pins) = state::meta::<Pins>(agent.store.read(), key::PINNED_IMAGES)? else {
        return Ok(());
    };
    if pins.bundles.as_ref() == Some(kept) && (pins.released || !again) {
        return Ok(());
    }
    // A bundle that cannot be read may need any of them.
    let mut indexes = Vec::new();
    for number in kept {
        let Some(index) = agent.index_on_disk(*number) else {
            tracing::warn!(
                "images stay pinned in containerd: the index of bundle {number}, which is kept, cannot be read"
            );
            return Ok(());
        };
        indexes.push((*number, index));
    }
    let names = indexes.iter().map(|(number, index)| {
        let layout = serving::image_layout(&agent.state_folder, *number);
        crate::facilities::image_names(index, &layout)
    });
    let names: Result<Vec<BTreeSet<String>>, ContainerdError> = names.collect();
    let done = names.and_then(|names| {
        let names = names.into_iter().flatten().collect();
        agent.facilities.release_images(&names, &agent.config)?;
        Ok(names)
    });
    if let Err(error) = &done {
        tracing::warn!("{error}; {}", error.help());
    }
    // Nothing is pinned any more when there is no name.
    let pins = (!done.as_ref().is_ok_and(BTreeSet::is_empty)).then(|| Pins {
        bundles: Some(kept.clone()),
        released: done.is_ok(),
    });
    agent.commit(|db, _| state::set_meta(db, key::PINNED_IMAGES, pins.as_ref()))?;
    Ok(())
}
