//! What each format's own reader reads back is what was composed, however awkward.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use outhaul_gocompat::{GoMap, GoValue, MapKind, TemplateData};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::engine::{Engines, Shared};
use crate::builtin;
use crate::compose::Mode;
use crate::inputs::Inputs;
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostics, Location, SourceFile};
use outhaul_control::kinds::{self, Object};
use outhaul_control::model::Spanned;

const SEALED: &str = "ENC[age,QUJD]";

fn plane() -> ControlPlane {
    let mut plane = ControlPlane::default();
    for builtin in builtin::ALL {
        let file = Arc::new(SourceFile {
            name: builtin.name.into(),
            text: builtin.text.into(),
        });
        for object in kinds::read_file(&file, &mut Diagnostics::new()) {
            if let Object::Template(template) = object {
                plane.templates.insert(template.name.clone(), template);
            }
        }
    }
    plane
}

fn data(config: BTreeMap<String, GoValue>) -> TemplateData {
    let mut map = GoMap::new(MapKind::Str);
    for (key, value) in config {
        map.insert(key, value);
    }
    let manifests = [
        ("repo", "https://git.example.org/hello"),
        ("branch", "dev"),
        ("tag", "1.0"),
        ("path", "./dev"),
        ("images", "a.example/x:1 b.example/y:2"),
    ];
    TemplateData {
        deployment_target_name: "hello-try".into(),
        namespace: "dev-edge-hello-try".into(),
        environment: "dev".into(),
        workspace: "team".into(),
        workload: "hello".into(),
        labels: Some(BTreeMap::new()),
        manifests: Some(manifests.map(|(k, v)| (k.into(), v.into())).into()),
        cluster_type: "edge".into(),
        config_data: GoValue::Map(map),
    }
}

fn render_with(name: &str, data: &TemplateData) -> Result<String, String> {
    let plane = plane();
    let engines = Engines::new(Inputs::of(&plane), Mode::default());
    let file = Arc::new(SourceFile {
        name: "t".into(),
        text: name.into(),
    });
    let spanned = Spanned {
        value: name.to_owned(),
        location: Location::new(&file, 0..name.len()),
    };
    let rendered = engines.render(
        &spanned,
        builtin::find(name).unwrap().kind,
        data.view(),
        &mut Shared::default(),
    );
    rendered.map_err(|findings| findings.render(false))
}

fn render(name: &str, config: &BTreeMap<String, GoValue>) -> String {
    render_with(name, &data(config.clone())).unwrap()
}

fn documents(yaml: &str) -> Vec<Json> {
    use serde::Deserialize as _;
    serde_yaml::Deserializer::from_str(yaml)
        .map(|document| Json::deserialize(document).unwrap())
        .collect()
}

fn to_json(value: &GoValue) -> Json {
    crate::compose::schema::to_json(value)
}

/// A text as it is, anything else as JSON: what formats hold that know nothing but text.
fn as_texts(config: &BTreeMap<String, GoValue>) -> BTreeMap<String, String> {
    let text = |value: &GoValue| match value {
        GoValue::Str(text) => text.to_string(),
        other => to_json(other).to_string(),
    };
    let all = config.iter();
    all.map(|(key, value)| (key.clone(), text(value))).collect()
}

fn awkward() -> impl Strategy<Value = String> {
    let chosen = prop::sample::select(vec![
        "",
        " ",
        "yes",
        "no",
        "null",
        "~",
        "007",
        "1e3",
        "0x1f",
        "1_000",
        "3.10",
        "2026-11-21",
        "true",
        "- a",
        "a: b",
        "a #b",
        "#",
        "'",
        "\"",
        "\"\"\"",
        "\\",
        "\\n",
        "$HOME",
        "${X}",
        "`id`",
        "$(id)",
        "a\nb",
        "a\r\nb",
        "\n",
        "\ta\t",
        " lead",
        "trail ",
        "{{ x }}",
        "{% x %}",
        "%",
        "@",
        "*a",
        "&a",
        "!a",
        "|",
        ">",
        "---",
        "...",
        "\u{feff}x",
        "\u{85}",
        "\u{2028}",
        "\u{7f}",
        "\u{1}",
        "\u{fffe}",
        "ü",
        "日本",
        "😀",
        "a=b",
        "a:b",
        "!x",
        "[1, 2",
        "{a",
        "ENC[age",
        "<<",
    ]);
    let any = prop::collection::vec(
        any::<char>().prop_filter("no shell holds it", |c| *c != '\0'),
        0..20,
    );
    prop_oneof![
        chosen.prop_map(str::to_owned),
        any.prop_map(String::from_iter)
    ]
}

fn value() -> impl Strategy<Value = GoValue> {
    let map = |entries: Vec<(String, GoValue)>| {
        let mut map = GoMap::new(MapKind::Str);
        for (key, value) in entries {
            map.insert(key, value);
        }
        GoValue::Map(map)
    };
    let leaf = || {
        prop_oneof![
            awkward().prop_map(GoValue::from),
            any::<i64>().prop_map(GoValue::Int),
            any::<bool>().prop_map(GoValue::Bool),
        ]
    };
    prop_oneof![
        4 => awkward().prop_map(GoValue::from),
        1 => prop::collection::vec(leaf(), 0..4).prop_map(GoValue::List),
        1 => prop::collection::vec((awkward(), leaf()), 0..4).prop_map(map),
    ]
}

fn config() -> impl Strategy<Value = BTreeMap<String, GoValue>> {
    prop::collection::btree_map("[A-Z][A-Z0-9_]{0,6}", value(), 0..5)
}

/// As `java.util.Properties` is documented to read.
fn read_properties(text: &str) -> BTreeMap<String, String> {
    let unescaped = |text: &str| {
        let mut units: Vec<u16> = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            let c = match (c, c == '\\') {
                (_, true) => match chars.next().unwrap() {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'f' => '\u{c}',
                    'u' => {
                        let hex: String = chars.by_ref().take(4).collect();
                        units.push(u16::from_str_radix(&hex, 16).unwrap());
                        continue;
                    }
                    other => other,
                },
                (c, false) => c,
            };
            let mut buffer = [0; 2];
            units.extend(&*c.encode_utf16(&mut buffer));
        }
        String::from_utf16(&units).unwrap()
    };
    let mut all = BTreeMap::new();
    for line in text.lines() {
        let line = line.trim_start_matches([' ', '\t', '\u{c}']);
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut escaped = false;
        let end = line.find(|c: char| {
            let ends = !escaped && matches!(c, '=' | ':' | ' ' | '\t');
            escaped = c == '\\' && !escaped;
            ends
        });
        let (key, rest) = line.split_at(end.unwrap_or(line.len()));
        let rest = rest.trim_start_matches([' ', '\t']);
        let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
        all.insert(
            unescaped(key),
            unescaped(rest.trim_start_matches([' ', '\t'])),
        );
    }
    all
}

/// As systemd reads an `EnvironmentFile=` whose values stand in double quotes.
fn read_environment_file(text: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once("=\"") {
        let name = name.rsplit('\n').next().unwrap();
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().unwrap() {
                (at, '"') => break at,
                (_, '\\') => match chars.next().unwrap().1 {
                    c @ ('"' | '\\' | '`' | '$') => value.push(c),
                    '\n' => {}
                    c => value.extend(['\\', c]),
                },
                (_, c) => value.push(c),
            }
        };
        all.insert(name.to_owned(), value);
        rest = &after[end + 1..];
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_config_map_holds_what_was_composed(config in config()) {
        let yaml = render("config-map", &config);
        let [map] = documents(&yaml).try_into().unwrap();
        prop_assert_eq!(&map["data"], &json!(as_texts(&config)), "{}", yaml);
        // The readers of Go, which Kubernetes uses, and ours agree.
        let go = outhaul_gocompat::decode_yaml(&yaml, outhaul_gocompat::Decoder::V3).unwrap();
        prop_assert_eq!(to_json(&go), map);
    }

    #[test]
    fn a_catalog_holds_what_was_composed(config in config()) {
        let yaml = render("symphony-catalog", &config);
        let [_, version] = documents(&yaml).try_into().unwrap();
        let all: BTreeMap<_, _> = config.iter().map(|(k, v)| (k, to_json(v))).collect();
        prop_assert_eq!(&version["spec"]["properties"], &json!(all), "{}", yaml);
    }

    #[test]
    fn json_holds_what_was_composed(config in config()) {
        let text = render("json", &config);
        let all: BTreeMap<_, _> = config.iter().map(|(k, v)| (k, to_json(v))).collect();
        prop_assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), json!(all), "{}", text);
    }

    #[test]
    fn properties_hold_what_was_composed(config in config(), key in awkward(), last in awkward()) {
        let mut config = config;
        config.insert(key, GoValue::from(last));
        let text = render("properties", &config);
        prop_assert!(text.is_ascii());
        prop_assert_eq!(read_properties(&text), as_texts(&config), "{}", text);
    }

    #[test]
    fn systemd_reads_what_was_composed(config in config()) {
        let text = render("env-file", &config);
        prop_assert_eq!(read_environment_file(&text), as_texts(&config), "{}", text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_shell_reads_what_was_composed(config in config()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("platform-config.env");
        std::fs::write(&path, render("env-file", &config)).unwrap();
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg("set -aeu; . \"$0\"; exec /usr/bin/env -0").arg(&path).env_clear();
        let output = shell.output().unwrap();
        prop_assert!(output.status.success());
        let read = String::from_utf8(output.stdout).unwrap();
        let read: BTreeMap<String, String> = read
            .split_terminator('\0')
            .filter_map(|line| line.split_once('='))
            .filter(|(name, _)| config.contains_key(*name))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        prop_assert_eq!(read, as_texts(&config));
    }
}

fn of(pairs: &[(&str, &str)]) -> BTreeMap<String, GoValue> {
    let pairs = pairs.iter();
    pairs
        .map(|(k, v)| ((*k).to_owned(), GoValue::from(*v)))
        .collect()
}

#[test]
fn what_is_sealed_goes_into_the_secret_and_nowhere_else() {
    let config = of(&[("HOST", "db"), ("PASSWORD", SEALED)]);
    let [map, secret] = documents(&render("secret", &config)).try_into().unwrap();
    assert_eq!(map["data"], json!({"HOST": "db"}));
    assert_eq!(
        (&secret["kind"], &secret["stringData"]),
        (&json!("Secret"), &json!({"PASSWORD": SEALED}))
    );
    assert!(render("env-file", &config).ends_with(&format!("\nPASSWORD='{SEALED}'\n")));
    assert!(render("properties", &config).ends_with(&format!("PASSWORD={SEALED}\n")));
    for refuses in ["config-map", "symphony-catalog"] {
        let reported = render_with(refuses, &data(config.clone())).unwrap_err();
        assert!(reported.contains("`PASSWORD` is sealed"), "{reported}");
    }
}

#[test]
fn what_is_sealed_inside_a_list_is_refused() {
    let list = GoValue::List(vec![GoValue::Str(SEALED.into())]);
    for refuses in ["secret", "env-file", "properties"] {
        let reported =
            render_with(refuses, &data([("LIST".to_owned(), list.clone())].into())).unwrap_err();
        assert!(reported.contains("give it a key of its own"), "{reported}");
    }
}

#[test]
fn an_empty_config_is_an_empty_map() {
    for name in ["config-map", "secret", "symphony-catalog", "json"] {
        documents(&render(name, &BTreeMap::new()));
    }
    let [map] = documents(&render("config-map", &BTreeMap::new()))
        .try_into()
        .unwrap();
    assert_eq!(map["data"], json!({}));
}

#[test]
fn a_key_that_the_format_does_not_take_is_refused_by_name() {
    for (name, key) in [
        ("config-map", "a key"),
        ("secret", "ä"),
        ("env-file", "1X"),
        ("env-file", "A-B"),
    ] {
        let reported = render_with(name, &data(of(&[(key, "x")]))).unwrap_err();
        assert!(
            reported.contains(&format!("`{key}` cannot be")),
            "{reported}"
        );
    }
}

#[test]
fn long_names_are_cut_and_stay_two() {
    let mut names = Vec::new();
    for end in ["a", "b"] {
        let mut data = data(BTreeMap::new());
        data.deployment_target_name = "x".repeat(70) + end;
        data.namespace = format!("dev-edge-{}", data.deployment_target_name);
        for builtin in builtin::ALL
            .iter()
            .filter(|b| !b.text.contains("contentType"))
        {
            for document in documents(&render_with(builtin.name, &data).unwrap()) {
                for field in ["name", "namespace"] {
                    if let Some(name) = document["metadata"][field].as_str() {
                        assert!(name.len() <= 63, "{}: {name}", builtin.name);
                    }
                }
                if document["kind"] == "Namespace" {
                    names.push(document["metadata"]["name"].as_str().unwrap().to_owned());
                }
            }
        }
    }
    assert_eq!(names.len(), 2);
    assert_ne!(names[0], names[1]);
}

#[test]
fn a_name_that_kubernetes_does_not_take_is_refused() {
    let mut data = data(BTreeMap::new());
    data.namespace = "dev-edge.eu-hello".into();
    let reported = render_with("namespace", &data).unwrap_err();
    assert!(
        reported.contains("`dev-edge.eu-hello` cannot be a name in Kubernetes"),
        "{reported}"
    );
}

#[test]
fn every_template_renders_to_what_its_reader_takes() {
    let config = of(&[("HOST", "db"), ("NAMESPACE_CPU", "12")]);
    let mut all = String::new();
    for builtin in builtin::ALL {
        let text = render_with(builtin.name, &data(config.clone())).unwrap();
        if !builtin.text.contains("contentType") {
            assert!(!documents(&text).is_empty());
        }
        all.push_str(&format!("=== {}\n{text}", builtin.name));
    }
    insta::assert_snapshot!("every_template", all);
}
