//! Tests of a change of a folder: which path an error names.
//!
//! What comes in: errors about temporary files. What must come out: the same errors with the paths that were to be made.

use super::*;

#[test]
fn an_error_in_the_temporary_folder_names_the_path_that_was_to_be_made() {
    let below = [String::new(), "a/b".to_owned()];
    let before = Remembered::default();
    let swap = Swap {
        folder: Path::new("/out"),
        below: &below,
        tree: &Tree::new(),
        touched: &BTreeSet::new(),
        before: &before,
    };
    let staged = Path::new("/.staged");
    for (path, expected) in [
        ("/.staged", "/out"),
        ("/.staged/0", "/out"),
        ("/.staged/0/x/y.yaml", "/out/x/y.yaml"),
        ("/.staged/1", "/out/a/b"),
        ("/.staged/1/y.yaml", "/out/a/b/y.yaml"),
        ("/out/there.yaml", "/out/there.yaml"),
    ] {
        let error = io_error("write", Path::new(path))(io::ErrorKind::StorageFull.into());
        let OutputError::Io {
            doing, path: at, ..
        } = swap.in_place(error, staged)
        else {
            panic!("another error for {path}");
        };
        // As text: paths with and without a `/` at their end are equal.
        assert_eq!((doing, at.to_str()), ("write", Some(expected)), "{path}");
    }
    let other = swap.in_place(OutputError::AllBroken, staged);
    assert!(matches!(other, OutputError::AllBroken), "{other:?}");
}
