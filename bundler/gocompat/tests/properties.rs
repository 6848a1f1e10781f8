//! Properties: what is written reads back, and no text makes the crate panic.

use outhaul_gocompat::{
    Decoder, GoMap, GoValue, MapKind, RenderOptions, Template, TemplateData, decode_json,
    decode_yaml, hash, stringify, to_yaml,
};
use proptest::prelude::*;

/// Text with everything that YAML could take for something else.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[-?:,\\[\\]{}#&*!|>'\"%@`a-z0-9 \\n\\t~.=<]{0,12}",
        prop::sample::select(vec![
            "yes",
            "null",
            "1e3",
            "0755",
            "2024-05-06",
            "<<",
            "1:30",
            "\n",
            " a\nb"
        ])
        .prop_map(str::to_owned),
    ]
}

fn value() -> impl Strategy<Value = GoValue> {
    let leaf = prop_oneof![
        Just(GoValue::Null),
        any::<bool>().prop_map(GoValue::Bool),
        any::<i64>().prop_map(GoValue::Int),
        (i64::MAX as u64 + 1..).prop_map(GoValue::Uint),
        any::<f64>().prop_map(GoValue::Float),
        text().prop_map(GoValue::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(GoValue::List),
            prop::collection::btree_map(text(), inner, 0..4).prop_map(|entries| {
                let mut map = GoMap::new(MapKind::Str);
                for (key, value) in entries {
                    map.insert(key, value);
                }
                GoValue::Map(map)
            }),
        ]
    })
}

/// What a value is after Go wrote and read it: whole floats come back as integers, and the
/// breaks that a block folds away are left out of the comparison.
fn comparable(value: &GoValue) -> bool {
    match value {
        GoValue::Float(number) => number.is_finite() && number.fract() != 0.0,
        GoValue::Str(text) => plain_text(text),
        GoValue::List(items) => items.iter().all(comparable),
        GoValue::Map(map) => map
            .iter()
            .all(|(key, value)| comparable(key) && comparable(value)),
        _ => true,
    }
}

/// yaml.v3 itself does not read back these: Unicode breaks, a break at the start, a block that
/// begins with a tab, `<<`, and keys too long for their escapes.
fn plain_text(text: &str) -> bool {
    let odd = |c: char| matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}');
    let tab_in_block = text.starts_with('\t') && text.contains('\n');
    !text.contains(odd)
        && !tab_in_block
        && !text.starts_with(['\n', ' '])
        && text != "<<"
        && text.len() < 60
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn yaml_that_is_written_reads_back(value in value().prop_filter("readable", comparable)) {
        let yaml = to_yaml(&value);
        let read = decode_yaml(&yaml, Decoder::V3);
        prop_assert!(read.as_ref() == Ok(&value), "{yaml:?} is read as {read:?}");
    }

    #[test]
    fn every_value_can_be_written_and_hashed(value in value()) {
        prop_assert!(to_yaml(&value).ends_with('\n'));
        prop_assert!(!stringify(&value).contains('\0'));
        prop_assert!(hash(&value).parse::<u64>().is_ok());
    }

    #[test]
    fn any_text_is_decoded_or_refused(text in text()) {
        for decoder in [Decoder::V2, Decoder::V3, Decoder::Config] {
            if let Ok(value) = decode_yaml(&text, decoder) {
                let _ = to_yaml(&value);
            }
        }
        let _ = decode_json(&text);
    }

    #[test]
    fn any_template_renders_or_is_refused(
        parts in prop::collection::vec(prop_oneof![
            any::<String>(),
            prop::sample::select(vec!["{{", "}}", "{{-", "-}}", "(", ")", "|", ".", "$", "$x", ":=", "=", ",",
                "\"a\"", "1", "-1", "1.5", "'a'", " ", "\n", "if ", "else ", "end", "range ", "with ", "define ",
                "template ", "block ", "break", "list ", "dict ", "index ", "printf ", ".ConfigData", ".Labels",
                "nil", "true", "set ", "toYaml ", "slice ", "substr ", "trunc ", "/*", "*/", "`"]).prop_map(str::to_owned),
        ], 0..16),
        compat in any::<bool>(),
    ) {
        let options = RenderOptions { compat, max_steps: 10_000, max_bytes: 1 << 16, ..RenderOptions::default() };
        if let Ok(template) = Template::parse(&parts.concat(), &options) {
            let _ = template.render_bytes(&TemplateData::default(), &options);
        }
    }

    #[test]
    fn any_argument_is_taken_or_refused(
        function in prop::sample::select(vec!["substr 1 2", "trunc -1", "abbrev 5", "abbrevboth 5 9", "wrap 3",
            "wrapWith 3 \"-\"", "indent 2", "title", "snakecase", "camelcase", "initials", "nospace", "b64dec",
            "b32dec", "urlParse", "semver", "semverCompare \"^1\"", "regexFind \".\"", "toDate \"2006-01-02\"",
            "splitn \"a\" 2", "clean", "base", "quote", "js", "html", "urlquery", "atoi", "float64", "toDecimal",
            "printf \"%q %x %5.1s\" 1 2", "regexSplit \"\" \"abc\"", "regexMatch", "dateModify", "hash", "toJson"]),
        argument in text(),
    ) {
        let options = RenderOptions { compat: true, ..RenderOptions::default() };
        let mut config = GoMap::new(MapKind::Str);
        config.insert("x", GoValue::from(argument));
        let data = TemplateData { config_data: GoValue::Map(config), ..TemplateData::default() };
        if let Ok(template) = Template::parse(&format!("{{{{ $x := {function} .ConfigData.x }}}}{{{{ $x | quote }}}}"), &options) {
            let _ = template.render_bytes(&data, &options);
        }
    }
}
