//! The law of incremental rendering: whatever changed, the result is that of a full render.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::edits::{add_site, apply, edit, plane, snapshot};
use super::*;
use crate::compose;
use crate::schedule;

fn full(plane: &ControlPlane, mode: Mode) -> Rendering {
    let schedule = schedule::schedule(plane);
    let composition = compose::compose(plane, &schedule, mode);
    super::super::render(plane, &schedule, &composition, &snapshot(), mode)
}

fn again(memory: &mut Memory, plane: &ControlPlane, mode: Mode) -> Rendering {
    memory.render(plane, &schedule::schedule(plane), &snapshot(), mode)
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
        let mut memory = Memory::new();
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
    let mut memory = Memory::new();
    again(&mut memory, &plane, mode);
    assert_eq!(memory.rendered(), 16);
    again(&mut memory, &plane, mode);
    assert_eq!(memory.rendered(), 0, "nothing changed");
    // `config-0` is of one cluster type, `config-2` of one workload.
    for (container, reached) in [("config-0", 4), ("config-2", 4), ("config-1", 8)] {
        let one = plane.configs.get_mut(container).unwrap();
        one.data
            .values_mut()
            .for_each(|spot| spot.value = "second".into());
        again(&mut memory, &plane, mode);
        assert_eq!(memory.rendered(), reached, "{container}");
    }
    plane.templates.get_mut("flux").unwrap().manifests[0].value = "other\n".into();
    again(&mut memory, &plane, mode);
    assert_eq!(memory.rendered(), 16, "a template is everybody's");
}

#[test]
fn all_that_is_rendered_is_told() {
    let plane = plane();
    let told = std::sync::Mutex::new((0, 0));
    let schedule = schedule::schedule(&plane);
    Memory::new().render_telling(
        &plane,
        &schedule,
        &snapshot(),
        Mode::default(),
        &|done, of| {
            let mut told = told.lock().unwrap();
            *told = (told.0 + done, of);
        },
    );
    assert_eq!(told.into_inner().unwrap(), (16, 16));
}
