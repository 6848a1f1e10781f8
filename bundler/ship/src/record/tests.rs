//! Records of today and of before: both formats of before were written by the programs of then.

use super::*;

const FOLDER: &str = include_str!("golden/out.outhaul.json");
const BRANCH: &str = include_str!("golden/platform.json");

#[test]
fn a_folders_and_a_branchs_record_of_before_are_read_alike() {
    let folder = Record::parse(FOLDER.as_bytes()).unwrap();
    let branch = Record::parse(BRANCH.as_bytes()).unwrap();
    assert!(FOLDER.contains(FOLDER_BEFORE) && BRANCH.contains(BRANCH_BEFORE));
    assert_eq!(folder.environment, "dev");
    assert_eq!(folder.kept.len(), 1);
    assert!(!folder.files.is_empty());
    let format = branch.format.clone();
    assert_eq!(Record { format, ..folder }, branch);
}

#[test]
fn what_is_written_is_of_one_format_and_read_back() {
    let old = Record::parse(FOLDER.as_bytes()).unwrap();
    let commit = Some("1".repeat(40));
    let mut new = Record::new(
        &old.environment,
        &old.snapshot,
        commit.as_deref(),
        old.kept.clone(),
    );
    new.files.clone_from(&old.files);
    let bytes = new.bytes().unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains(FORMAT));
    assert_eq!(Record::parse(&bytes).unwrap(), new);
    assert_eq!(new.assignments(), old.assignments());
}

#[test]
fn a_record_of_another_format_or_without_its_environment_is_an_error() {
    let newer = BRANCH.replace(BRANCH_BEFORE, "outhaul.dev/output/v2");
    let problem = Record::parse(newer.as_bytes()).unwrap_err();
    assert_eq!(
        problem,
        "its format is `outhaul.dev/output/v2`, not `outhaul.dev/output/v1`"
    );
    let without = FOLDER.replace(FOLDER_BEFORE, FORMAT);
    let problem = Record::parse(without.as_bytes()).unwrap_err();
    assert_eq!(problem, "it names no environment");
    assert!(Record::parse(&BRANCH.as_bytes()[..BRANCH.len() / 2]).is_err());
}
