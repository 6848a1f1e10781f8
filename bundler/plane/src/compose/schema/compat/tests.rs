//! Which documents are schemas, and what the validator says, each seen with Kalypso's own validator.

use outhaul_gocompat::{Decoder, decode_yaml};

use super::*;

fn said(values: &str, schema: &str) -> Result<Vec<String>, String> {
    errors(&decode_yaml(values, Decoder::Config).unwrap(), schema)
}

#[test]
fn what_is_no_schema_is_refused() {
    let draft = |draft: &str, rest: &str| {
        format!(r#"{{"$schema": "http://json-schema.org/draft-{draft}/schema#", {rest}}}"#)
    };
    let refused = [
        "[]".to_owned(),
        r#"{"$schema": 5}"#.to_owned(),
        r#"{"minLength": 2.0}"#.to_owned(),
        r#"{"minLength": -1}"#.to_owned(),
        r#"{"minLength": 3, "maxLength": 2}"#.to_owned(),
        r#"{"exclusiveMinimum": true}"#.to_owned(),
        r#"{"type": ["string", "string"]}"#.to_owned(),
        r#"{"enum": [1, 1.0]}"#.to_owned(),
        r#"{"required": ["a", "a"]}"#.to_owned(),
        r#"{"multipleOf": 0}"#.to_owned(),
        r#"{"pattern": "(?=a)"}"#.to_owned(),
        r##"{"properties": {"a": {"$ref": "#/definitions/none"}}}"##.to_owned(),
        r#"{"$ref": "https://schemas.example.org/a.json"}"#.to_owned(),
        r#"{"dependencies": {"a": 5}}"#.to_owned(),
        r#"{"id": 5}"#.to_owned(),
        draft("04", r#""exclusiveMinimum": 1"#),
        draft("04", r#""not": true"#),
        draft("07", r#""minimum": 1, "exclusiveMinimum": true"#),
    ];
    for schema in &refused {
        assert!(said("a: x", schema).is_err(), "{schema}");
    }
    let taken = [
        r#"{"minItems": 3, "maxItems": 2}"#.to_owned(),
        r#"{"allOf": [], "examples": 5, "enum": []}"#.to_owned(),
        r##"{"$ref": "#/definitions/t", "multipleOf": 0, "definitions": {"t": {}}}"##.to_owned(),
        draft("04", r#""contains": 5, "if": 5"#),
        draft("04", r#""minimum": 1, "exclusiveMinimum": true"#),
    ];
    for schema in &taken {
        assert_eq!(said("a: x", schema), Ok(vec![]), "{schema}");
    }
}

#[test]
fn words_that_a_draft_does_not_have_say_nothing_in_it() {
    let schema = r#"{"properties": {"a": {"const": "b"}}}"#;
    let printed = vec!["- a: a does not match: \"b\"\n".to_owned()];
    assert_eq!(said("a: x", schema), Ok(printed));
    let old = schema.replacen(
        '{',
        r#"{"$schema": "http://json-schema.org/draft-04/schema", "#,
        1,
    );
    assert_eq!(said("a: x", &old), Ok(vec![]));
}

#[test]
fn the_branch_that_has_most_of_what_is_required_is_reported() {
    let schema = r#"{"anyOf": [{"required": ["z"]}, {"required": ["a", "b", "y"]}]}"#;
    let printed = [
        "- (root): Must validate at least one schema (anyOf)\n",
        "- (root): y is required\n",
    ];
    assert_eq!(said("a: x\nb: x", schema).unwrap(), printed);
}

#[test]
fn equal_items_are_reported_with_the_last_one_before() {
    let schema = r#"{"properties": {"a": {"uniqueItems": true}}}"#;
    let printed = [
        "- a: array items[0,1] must be unique\n",
        "- a: array items[1,2] must be unique\n",
    ];
    assert_eq!(said("a: [<, <, <]", schema).unwrap(), printed);
}

#[test]
fn formats_are_gos() {
    for (format, text, holds) in [
        ("ipv4", "::ffff:10.0.0.1", true),
        ("time", "7:08:09", true),
        ("date-time", "07:08:09", true),
        ("uuid", "123E4567-E89B-12D3-A456-426614174000", false),
        ("uri", "mailto:a", true),
        ("uri-template", "/a/{b", false),
        ("unheard-of", "a", true),
    ] {
        assert_eq!(is_format(format, text), holds, "{format} {text}");
    }
    let schema = r#"{"properties": {"a": {"format": "uri"}}}"#;
    assert_eq!(
        said("a: 5", schema).unwrap(),
        ["- a: Does not match format 'uri'\n"]
    );
}

#[test]
fn an_empty_list_of_schemas_asks_for_nothing() {
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let schema = format!(r#"{{"{keyword}": []}}"#);
        assert_eq!(said("a: x", &schema), Ok(vec![]), "{keyword}");
    }
}

#[test]
fn a_key_that_json_does_not_have_cannot_be_checked() {
    for (values, why) in [
        ("a: {null: 1}", "unsupported key: null"),
        ("a: [{b: {~: 1}}]", "unsupported key: null"),
        ("a: {-.inf: 1}", "unsupported value: -Inf"),
        ("a: {.nan: 1}", "unsupported value: NaN"),
    ] {
        assert_eq!(said(values, "{}"), Err(why.to_owned()), "{values}");
    }
    assert_eq!(said("a: {1.5: 1, 2: 2, yes: 3}", "{}"), Ok(vec![]));
}
