//! A branch whose record is gone, or lists less than it did: what was published there is not left behind in silence.

use outhaul_bundle::Digest;

use super::*;

fn there(record: Option<Vec<u8>>, others: &[&str]) -> plan::BranchFiles {
    plan::BranchFiles {
        record,
        files: tree(&[("a/one/namespace.yaml", "1")]),
        others: others.iter().map(|path| (*path).to_owned()).collect(),
        ..plan::BranchFiles::default()
    }
}

fn refused(there: plan::BranchFiles) -> PlanError {
    let run = run(&[("a/one/namespace.yaml", "1")]);
    OnRecord::of("here", there, &run.desired()).unwrap_err()
}

#[test]
fn attack_a_lost_record_leaves_no_assignment_behind_in_silence() {
    let run = run(&[("a/one/namespace.yaml", "1")]);
    let others = ["a/two/namespace.yaml", "a/two/notes.txt"];
    let error = refused(there(None, &others));
    assert!(
        error.to_string().contains("is gone, and 1 files"),
        "{error}"
    );
    let PlanError::Lost { path, first, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(first, "a/two/namespace.yaml");
    assert!(path.starts_with("here/"), "{path}");
    OnRecord::of("", there(None, &["a/two/notes.txt"]), &run.desired()).unwrap();
}

#[test]
fn attack_an_emptied_record_leaves_no_assignment_behind_in_silence() {
    let run = run(&[("a/one/namespace.yaml", "1")]);
    let desired = run.desired();
    let mut record = Record::new(desired.environment, desired.snapshot, None, BTreeMap::new());
    let others = ["a/two/namespace.yaml"];
    for files in [tree(&[]), tree(&[("a/one/namespace.yaml", "1")])] {
        let listed = files
            .iter()
            .map(|(path, bytes)| (path.clone(), Digest::of(bytes)));
        record.files = listed.collect();
        let bytes = record.bytes().unwrap();
        let error = refused(there(Some(bytes.clone()), &others));
        let said = error.to_string();
        assert!(said.contains("does not list every file"), "{said}");
        let is_it = matches!(
            &error,
            PlanError::Lost {
                is_there: true,
                count: 1,
                ..
            }
        );
        assert!(is_it, "{error:?}");
        // Files of people beside them are nobody's business.
        let notes = there(Some(bytes), &["a/two/notes.txt"]);
        OnRecord::of("", notes, &desired).unwrap();
    }
}
