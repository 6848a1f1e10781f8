//! A branch with a record of the format that branches had before, as the program of then wrote it.

use std::path::Path;

use super::*;

#[test]
fn a_branch_with_a_record_of_before_goes_on() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../record/src/record/golden");
    let mut run = run(&[]);
    run.tree = crate::folder::read_tree(&golden.join("out")).unwrap();
    let there = plan::BranchFiles {
        record: Some(std::fs::read(golden.join("platform.json")).unwrap()),
        files: run.tree.clone(),
        ..plan::BranchFiles::default()
    };
    let plan = |run: &Run| {
        let there = Some(there.clone());
        let desired = &run.desired();
        destination::ship(InMemory { desired, there }).unwrap()
    };
    let (gone, _) = run.tree.pop_first().unwrap();
    let changes = plan(&run);
    assert_eq!(changes.removed, BTreeSet::from([gone]));
    assert_eq!(changes.unchanged, run.tree.len());
    assert!(changes.added.is_empty() && changes.changed.is_empty() && changes.by_hand.is_empty());
    let written = changes.edits[RECORD_PATH].clone().unwrap();
    let text = String::from_utf8(written).unwrap();
    assert!(text.contains("\"outhaul.dev/output/v1\""), "{text}");
}
