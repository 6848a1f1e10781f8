//! Sticks as someone who means harm prepares them, given to the agent, the hub and the centre.
//!
//! What comes in: `tests/fixtures/hostile/media`. What must come out: every entry that is of no use is named,
//! nothing outside is touched, nothing is waited for; what a stick honestly brings beside them is taken.

use outhaul_tests::skipped;

use super::{Count, cases, copy, stage, standing, status, trees, typed};

#[test]
fn every_hostile_medium_is_refused_within_bounds() {
    let fixture = stage();
    let before = standing(&fixture);
    let mut count = Count::default();
    for case in cases("media") {
        let fixture = copy(&fixture);
        let tree = std::fs::read_to_string(case.folder.join("tree.txt")).unwrap();
        let Some(_tree) = trees::make(&tree, &fixture.path(""), &fixture.path("hostile")) else {
            skipped("only root can make a device node");
            continue;
        };
        count.tried += 1;
        for step in &case.steps {
            let ran = typed(&fixture, &step.line);
            if ran.code == Some(0) && !step.exit.contains(&0) {
                count.accepted(&case, &step.line);
            }
            count.judge(&case, step, &ran);
        }
        // An honest bundle beside what is hostile must be taken; otherwise nothing may have changed.
        if case.needs.iter().any(|line| line == "takes bundle 2") {
            if status(&fixture)["active"] != 2 {
                count
                    .wrong
                    .push(format!("{}: bundle 2 was not taken", case.name));
            }
        } else if standing(&fixture) != before {
            count.accepted(&case, &standing(&fixture));
        }
    }
    count.end("media", 17);
}
