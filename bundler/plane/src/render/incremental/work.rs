//! Work: assignments are composed and rendered on every processor.
//!
//! What comes in: a control plane and the assignments to render. What goes out: what was rendered and
//! what could not be, in their order, however many processors there were.

use rayon::prelude::*;

use super::plan::Work;
use crate::compose::{Composing, Mode};
use crate::inputs::Inputs;
use crate::render::engine::{Engines, Shared};
use crate::render::{AssignmentInput, RenderedBatch};
use crate::site_values::Opener;

/// The most assignments that are taken at once.
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
) -> RenderedBatch {
    progress(0, work.len());
    let engines = &Engines::new(plane, mode);
    let opener = &Opener::new(plane, mode);
    // Small batches where there is little to do, so that every processor gets its share.
    let batch = work
        .len()
        .div_ceil(4 * rayon::current_num_threads())
        .clamp(1, BATCH);
    let made: Vec<RenderedBatch> = work
        .par_chunks(batch)
        .map_init(
            || (Composing::new(plane, mode), Shared::default()),
            |(composing, shared), batch| {
                let mut done = RenderedBatch::default();
                for (id, assignment) in batch {
                    let Some(pair) = AssignmentInput::of(plane, id) else {
                        continue;
                    };
                    let result = composing
                        .assignment(pair.cluster_type, pair.target, assignment.sites.as_ref())
                        .and_then(|(composed, overlays)| {
                            pair.render(assignment, &composed, &overlays, (engines, opener), shared)
                        });
                    done.add(id, result);
                }
                progress(batch.len(), work.len());
                done
            },
        )
        .collect();
    let mut all = RenderedBatch::default();
    for mut done in made {
        all.rendered.append(&mut done.rendered);
        all.failures.append(&mut done.failures);
    }
    all
}
