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
fn what_findings_amount_to_distinguishes_bad_input_from_a_bad_environment() {
    use outhaul_kit::failure::FailureClass::{Environment, Refused, Usage};
    let mut findings = Diagnostics::new();
    let of = |findings: &Diagnostics| {
        let verdicts = [false, true].map(|strict| findings.verdict(strict));
        (findings.class(), verdicts, findings.refusal())
    };
    assert_eq!(of(&findings), (None, [None, None], Refused));
    findings.push(Diagnostic::note("n", "n"));
    assert_eq!(of(&findings).1, [None, None]);
    let mut unreached = findings.clone();
    findings.push(Diagnostic::warning("w", "w"));
    assert_eq!(of(&findings).0, None);
    assert_eq!(of(&findings).1, [None, Some(Refused)], "strict");
    findings.push(Diagnostic::error("e", "e"));
    let refused = [Some(Refused), Some(Refused)];
    assert_eq!(of(&findings), (Some(Usage), refused, Refused));
    let unreachable = Diagnostic::environment("n", "n");
    findings.push(unreachable.clone());
    let environment = [Some(Environment), Some(Environment)];
    assert_eq!(of(&findings), (Some(Environment), environment, Refused));
    unreached.push(unreachable);
    let expected = (Some(Environment), environment, Environment);
    assert_eq!(of(&unreached), expected);
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

#[test]
fn no_finding_of_any_kind_prints_a_secret_of_its_lines() {
    let text = "data:\n  DB_PASSWORD: hunter2\n  PIN_TOKEN: 4711\n  NAME: a\n  ssh: |\n    x\n  api_key: |\n    hunter3 and\n";
    let file = Arc::new(SourceFile {
        name: "x.yaml".into(),
        text: text.into(),
    });
    let at = |word: &str| {
        let start = text.find(word).unwrap();
        Location::new(&file, start..start + word.len())
    };
    let mut findings = Diagnostics::new();
    findings.push(
        Diagnostic::error("wrong-type", "`hunter2` must be a number")
            .at(&at("hunter2"))
            .help("quote it: \"hunter2\""),
    );
    findings.push(
        Diagnostic::error("wrong-type", "x")
            .at(&at("4711"))
            .help("quote it: \"4711\""),
    );
    findings.extend([
        Diagnostic::warning("duplicate-key", "`NAME` is there twice")
            .at(&at("NAME"))
            .related(&at("DB_PASSWORD"), "hunter2 is here"),
    ]);
    findings.append(Diagnostics::from(
        Diagnostic::error("syntax", "unexpected `hunter3 and`").at(&at("hunter3")),
    ));
    let token = "ghp_0123456789abcdef";
    findings.push(Diagnostic::error(
        "template",
        format!("no such host: {token}"),
    ));
    let json: Vec<_> = findings.iter().map(Diagnostic::to_json).collect();
    let shown = format!("{}{}", findings.render(false), serde_json::json!(json));
    for secret in ["hunter", "4711", token] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
    for said in [
        "x.yaml:2:16",
        "x.yaml:3:14",
        "NAME: a",
        "x.yaml:8:5",
        "is not shown",
        "quote it: \"…\"",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
}
