//! YAML: types, places, limits and what is reported to a person.

use proptest::prelude::*;

use super::*;

fn file(text: &str) -> Arc<SourceFile> {
    Arc::new(SourceFile {
        name: "x.yaml".into(),
        text: text.into(),
    })
}

fn one(text: &str) -> Node {
    let mut documents = parse(&file(text)).unwrap();
    assert_eq!(documents.len(), 1);
    documents.remove(0)
}

fn error(text: &str) -> String {
    let diagnostic = parse(&file(text)).unwrap_err();
    format!(
        "{} {} {}",
        diagnostic.location.as_ref().unwrap(),
        diagnostic.code,
        diagnostic.message
    )
}

#[test]
fn only_plain_scalars_are_typed() {
    let node = one(
        "a: 1\nb: '1'\nc: true\nd: \"true\"\ne: |\n  1\nf:\ng: yes\nh: 1e3\ni: v1\nj: !!str 5\nk: 0755\n",
    );
    let kind = |key| node.field(key).unwrap().kind();
    for (key, expected) in [
        ("a", "a number"),
        ("b", "text"),
        ("c", "a boolean"),
        ("d", "text"),
        ("e", "text"),
        ("f", "nothing"),
        ("g", "text"),
        ("h", "a number"),
        ("i", "text"),
        ("j", "text"),
        ("k", "a number"),
    ] {
        assert_eq!(kind(key), expected, "{key}");
    }
}

#[test]
fn every_value_knows_its_place_also_behind_wide_characters() {
    let text = "ä: {ö: [1, zwei]}\nlast: ü x\n";
    let node = one(text);
    let zwei = match &node.field("ä").unwrap().field("ö").unwrap().value {
        YamlValue::Sequence(items) => items[1].clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(&text[zwei.span], "zwei");
    assert_eq!(&text[node.field("last").unwrap().span.clone()], "ü x");
}

#[test]
fn documents_anchors_and_merges() {
    let documents = parse(&file(
        "---\na: &x {k: 1, l: 2}\nb: *x\nc:\n  <<: *x\n  l: 3\n---\n# empty\n---\nz: 1\n",
    ))
    .unwrap();
    assert_eq!(documents.len(), 2, "empty documents are left out");
    let a = &documents[0];
    assert_eq!(a.field("b").unwrap().value, a.field("a").unwrap().value);
    let c = a.field("c").unwrap();
    assert_eq!(
        c.field("l").unwrap().value,
        YamlValue::Number("3".into()),
        "own keys win"
    );
    assert_eq!(c.field("k").unwrap().value, YamlValue::Number("1".into()));
}

#[test]
fn merging_costs_what_is_merged_and_not_its_square() {
    // The square of it would be billions of comparisons.
    let keys = |prefix: &str| {
        let keys: Vec<String> = (0..40_000).map(|n| format!("{prefix}{n}: 1, ")).collect();
        keys.concat()
    };
    let text = format!(
        "a: &a {{{}}}\nb: {{{}<<: [*a, *a, *a]}}\n",
        keys("k"),
        keys("l")
    );
    let documents = parse(&file(&text)).unwrap();
    let YamlValue::Mapping(entries) = &documents[0].field("b").unwrap().value else {
        panic!("it is a map");
    };
    assert_eq!(entries.len(), 80_000);
    assert_eq!(
        entries[0].key, "l0",
        "its own first, then those of the merged in their order"
    );
    assert_eq!(entries[40_000].key, "k0");
}

#[test]
fn what_is_not_yaml_is_reported_with_its_place() {
    assert!(
        error("a: b\n  c: d\n").starts_with("x.yaml:2:"),
        "{}",
        error("a: b\n  c: d\n")
    );
    assert!(error("a: 1\nb: 2\na: 3\n").starts_with("x.yaml:3:1 duplicate-key"));
    assert!(error(&"[".repeat(200)).contains("yaml-"));
    let bomb = (1..12).fold("a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, n| {
        let m = n - 1;
        text + &format!("a{n}: &a{n} [*a{m},*a{m},*a{m},*a{m},*a{m},*a{m},*a{m},*a{m},*a{m}]\n")
    });
    assert!(error(&bomb).contains("yaml-limit"));
}

#[test]
fn what_aliases_expand_to_is_counted_in_bytes_before_it_is_copied() {
    // Few values and little text, which come to 75 MiB.
    let text = "x".repeat(256 * 1024);
    let aliases = vec!["*a"; 300].join(", ");
    let scalar = error(&format!("a: &a {text}\nb: [{aliases}]\n"));
    assert!(
        scalar.contains("more than 64 MiB once aliases are expanded"),
        "{scalar}"
    );
    let key = error(&format!("a: &a {{? {text} : 1}}\nb: [{aliases}]\n"));
    assert!(key.contains("more than 64 MiB"), "{key}");
    let nested = (0..60)
        .map(|level| format!("&n{level} ["))
        .collect::<Vec<_>>()
        .concat();
    let nested = error(&format!(
        "{nested}{}{}",
        "x".repeat(2 << 20),
        "]".repeat(60)
    ));
    assert!(nested.contains("more than 64 MiB"), "{nested}");
}

#[test]
fn blocks_end_as_they_are_written() {
    assert_eq!(one("a: |\n  x\n").field("a").unwrap().as_str(), Some("x\n"));
    assert_eq!(one("a: |-\n  x\n").field("a").unwrap().as_str(), Some("x"));
    assert_eq!(
        one("a:\n- |\n  x\n    \n- |   \n  y\n")
            .field("a")
            .map(Node::kind),
        Some("a list")
    );
}

proptest! {
    #[test]
    fn reading_never_panics_and_places_lie_inside(text in "[a-c:\\-{}\\[\\] \n'\"|>&*ä#!<]{0,60}") {
        if let Ok(documents) = parse(&file(&text)) {
            for node in documents {
                prop_assert!(text.get(node.span).is_some());
            }
        }
    }
}
