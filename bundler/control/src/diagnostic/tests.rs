//! Findings: places, order, exit codes, and what a person sees.

use super::*;

fn file() -> Arc<SourceFile> {
    Arc::new(SourceFile {
        name: "dev/a.yaml".into(),
        text: "kind: Ä\nspec:\n  repoo: x\n".into(),
    })
}

#[test]
fn lines_and_columns_count_characters_from_one() {
    let file = file();
    let at = |needle: &str| {
        let start = file.text.find(needle).unwrap();
        Location::new(&file, start..start + needle.len())
    };
    assert_eq!(at("kind").to_string(), "dev/a.yaml:1:1");
    assert_eq!(at("repoo").to_string(), "dev/a.yaml:3:3");
    assert_eq!(at("repoo").file_line(), "dev/a.yaml:3");
    assert_eq!(Location::new(&file, 900..1000).line(), 4);
}

#[test]
fn a_finding_shows_its_line_its_caret_and_the_way_out() {
    let file = file();
    let start = file.text.find("repoo").unwrap();
    let diagnostics = Diagnostics::from(
        Diagnostic::error("unknown-field", "unknown field `repoo`")
            .at(&Location::new(&file, start..start + 5))
            .label("not a field of `BaseRepo.spec`")
            .help("did you mean `repo`?"),
    );
    let text = diagnostics.render(false);
    for expected in [
        "unknown-field",
        "dev/a.yaml:3:3",
        "^^^^^",
        "did you mean `repo`?",
        "1 error.",
    ] {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
}

#[test]
fn the_exit_code_distinguishes_bad_input_from_a_bad_environment() {
    let mut diagnostics = Diagnostics::new();
    assert_eq!(diagnostics.exit_code(), 0);
    diagnostics.push(Diagnostic::warning("w", "w"));
    assert_eq!(diagnostics.exit_code(), 0);
    diagnostics.push(Diagnostic::error("e", "e"));
    assert_eq!(diagnostics.exit_code(), 2);
    diagnostics.push(Diagnostic::environment("n", "n"));
    assert_eq!(diagnostics.exit_code(), 3);
}

#[test]
fn sorting_puts_them_in_file_order_and_drops_repetitions() {
    let file = file();
    let late = Diagnostic::error("b", "b").at(&Location::new(&file, 9..10));
    let early = Diagnostic::warning("a", "a").at(&Location::new(&file, 0..1));
    let mut diagnostics = Diagnostics(vec![late.clone(), early.clone(), late.clone()]);
    diagnostics.sort();
    assert_eq!(diagnostics.0, [early, late]);
}
