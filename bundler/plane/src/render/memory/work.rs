//! Work: assignments are composed and rendered on every processor.
//!
//! What comes in: a control plane and the assignments to render. What goes out: what was rendered and
//! what could not be, in their order, however many processors there were.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::plan::Work;
use crate::compose::{Composing, Mode};
use crate::inputs::Inputs;
use crate::render::engine::{Engines, Shared};
use crate::render::{Done, Pair};

/// The most assignments that a thread takes at once.
const BATCH: usize = 64;

/// Called as work is done: how many assignments more, of how many in all.
pub type Progress<'t> = dyn Fn(usize, usize) + Sync + 't;

/// Composes and renders `work`, on as many threads as there are processors. The result does not depend
/// on how many.
pub(in crate::render) fn compose_and_render(
    plane: Inputs<'_>,
    work: &[Work<'_>],
    mode: Mode,
    progress: &Progress<'_>,
) -> Done {
    progress(0, work.len());
    let engines = &Engines::new(plane, mode);
    let next = &AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    // Small batches where there is little to do, so that every processor gets its share.
    let batch = work.len().div_ceil(4 * threads).clamp(1, BATCH);
    let batches: Vec<&[Work<'_>]> = work.chunks(batch).collect();
    let batches = &batches;
    let one_thread = || {
        let mut composing = Composing::new(plane, mode);
        let mut shared = Shared::default();
        let mut made = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = batches.get(at) else {
                return made;
            };
            let mut done = Done::default();
            for (id, assignment) in *batch {
                let Some(pair) = Pair::of(plane, id) else {
                    continue;
                };
                let result = composing
                    .assignment(pair.cluster_type, pair.target, assignment.sites.as_ref())
                    .and_then(|(composed, overlays)| {
                        pair.render(assignment, &composed, &overlays, engines, &mut shared)
                    });
                done.add(id, result);
            }
            progress(batch.len(), work.len());
            made.push((at, done));
        }
    };
    let threads = threads.min(batches.len()).max(1);
    let mut made: Vec<(usize, Done)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(one_thread)).collect();
        let mut made = one_thread();
        for other in others {
            match other.join() {
                Ok(theirs) => made.extend(theirs),
                // A fault of the program is told as one.
                Err(fault) => std::panic::resume_unwind(fault),
            }
        }
        made
    });
    made.sort_by_key(|(at, _)| *at);
    let mut all = Done::default();
    for (_, mut done) in made {
        all.rendered.append(&mut done.rendered);
        all.failures.append(&mut done.failures);
    }
    all
}
