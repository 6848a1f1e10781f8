//! The law of incremental rendering: whatever changed, the result is that of a full render.

use proptest::prelude::*;

use super::super::engine::{Engines, Shared};
use super::super::{AssignmentInput, RenderCache, RenderedBatch, Rendering, render};
use super::*;
use crate::compose::{self, Mode};
use crate::schedule::{self, Schedule};
use outhaul_bundle::index::Snapshot;
use outhaul_control::ControlPlane;
use outhaul_test_planes::edits::{add_site, apply, edit, plane, snapshot};

fn job<'a>(
    plane: &'a ControlPlane,
    schedule: &'a Schedule,
    snapshot: &'a Snapshot,
    mode: Mode,
) -> Job<'a> {
    let progress = &|_, _| ();
    Job {
        plane,
        schedule,
        snapshot,
        mode,
        progress,
    }
}

/// Composed first and rendered then, one after the other.
fn full(plane: &ControlPlane, mode: Mode) -> Rendering {
    let schedule = schedule::schedule(plane, &schedule::SchedulerAnswers::default());
    let composition = compose::compose(plane, &schedule, mode);
    let inputs = Inputs::of(plane);
    let engines = Engines::new(inputs, mode);
    let opener = crate::site_values::Opener::new(inputs, mode);
    let mut shared = Shared::default();
    let mut done = RenderedBatch {
        failures: composition.failures.clone(),
        ..RenderedBatch::default()
    };
    for (id, assignment) in &schedule.assignments {
        if let Some(composed) = composition.assignments.get(id)
            && let Some(pair) = AssignmentInput::of(inputs, id)
        {
            let overlays = composition.overlays.get(id).map_or(&[][..], Vec::as_slice);
            let result = pair.render(
                assignment,
                composed,
                overlays,
                (&engines, &opener),
                &mut shared,
            );
            done.add(id, result);
        }
    }
    let groups = done.groups(inputs);
    let snapshot = snapshot();
    rendering(
        job(plane, &schedule, &snapshot, mode),
        groups,
        done.failures,
    )
}

fn counted(cache: &mut MemoryCache, plane: &ControlPlane, mode: Mode) -> (Rendering, usize) {
    let (schedule, snapshot) = (
        schedule::schedule(plane, &schedule::SchedulerAnswers::default()),
        snapshot(),
    );
    let job = job(plane, &schedule, &snapshot, mode);
    let done = render(job, RenderCache::Memory(cache));
    assert!(done.reused.is_empty());
    (done.rendering, done.rendered)
}

fn again(cache: &mut MemoryCache, plane: &ControlPlane, mode: Mode) -> Rendering {
    counted(cache, plane, mode).0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_sequence_of_changes_renders_to_what_a_full_render_gives(
        edits in proptest::collection::vec(edit(), 1..12),
        compat in any::<bool>(),
    ) {
        let mode = Mode { compat };
        let mut plane = plane();
        (0..4).for_each(|number| add_site(&mut plane, number, number));
        let mut memory = MemoryCache::default();
        prop_assert_eq!(again(&mut memory, &plane, mode), full(&plane, mode));
        for edit in edits {
            apply(&mut plane, edit.clone());
            prop_assert_eq!(again(&mut memory, &plane, mode), full(&plane, mode), "{:?}", edit);
        }
    }
}

#[test]
fn only_what_a_change_can_reach_is_rendered() {
    let mode = Mode::default();
    let mut plane = plane();
    let mut memory = MemoryCache::default();
    assert_eq!(counted(&mut memory, &plane, mode).1, 16);
    assert_eq!(counted(&mut memory, &plane, mode).1, 0, "nothing changed");
    // `config-0` is of one cluster type, `config-2` of one workload.
    for (container, reached) in [("config-0", 4), ("config-2", 4), ("config-1", 8)] {
        let one = plane.configs.get_mut(container).unwrap();
        one.data
            .values_mut()
            .for_each(|spanned| spanned.value = "second".into());
        let rendered = counted(&mut memory, &plane, mode).1;
        assert_eq!(rendered, reached, "{container}");
    }
    plane.templates.get_mut("flux").unwrap().manifests[0].value = "other\n".into();
    let rendered = counted(&mut memory, &plane, mode).1;
    assert_eq!(rendered, 16, "a template is everyone's");
}

#[test]
fn all_that_is_rendered_is_reported() {
    let plane = plane();
    let reported = std::sync::Mutex::new((0, 0));
    let schedule = schedule::schedule(&plane, &schedule::SchedulerAnswers::default());
    let snapshot = snapshot();
    let progress = &|done, of| {
        let mut reported = reported.lock().unwrap();
        *reported = (reported.0 + done, of);
    };
    let job = Job {
        progress,
        ..job(&plane, &schedule, &snapshot, Mode::default())
    };
    render(job, RenderCache::None);
    assert_eq!(reported.into_inner().unwrap(), (16, 16));
}
