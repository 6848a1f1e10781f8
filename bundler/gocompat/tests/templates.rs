//! Templates against what Go and sprig gave, in compat mode and in the default mode.

use crate::golden::{expected, field, report, vectors};
use outhaul_gocompat::{
    Decoder, RenderOptions, Template, TemplateData, TemplateError, TemplateErrorKind, decode_yaml,
};
use serde_json::Value;
use std::collections::BTreeMap;

fn strings(value: &Value) -> Option<BTreeMap<String, String>> {
    let map = value.as_object()?;
    Some(
        map.iter()
            .map(|(k, v)| (k.clone(), v.as_str().unwrap_or("").to_owned()))
            .collect(),
    )
}

fn data(vector: &Value) -> TemplateData {
    let data = &vector["data"];
    TemplateData {
        deployment_target_name: field(data, "DeploymentTargetName").to_owned(),
        namespace: field(data, "Namespace").to_owned(),
        environment: field(data, "Environment").to_owned(),
        workspace: field(data, "Workspace").to_owned(),
        workload: field(data, "Workload").to_owned(),
        labels: strings(&data["Labels"]),
        manifests: strings(&data["Manifests"]),
        cluster_type: field(data, "ClusterType").to_owned(),
        config_data: decode_yaml(field(data, "ConfigData"), Decoder::Config).expect("config"),
    }
}

fn run(vector: &Value, compat: bool) -> Result<Vec<u8>, TemplateError> {
    let options = RenderOptions {
        compat,
        ..RenderOptions::default()
    };
    Template::parse(field(vector, "template"), &options)?.render_bytes(&data(vector), &options)
}

#[test]
fn templates_render_as_in_go() {
    let Some(vectors) = vectors("template.json") else {
        return;
    };
    let mut differences = Vec::new();
    for vector in &vectors {
        let result = run(vector, true);
        let agrees = match (&result, expected(vector)) {
            (Ok(output), Some(wanted)) => *output == wanted,
            (Err(_), None) => true,
            _ => false,
        };
        if !agrees {
            let shown = result.map(|output| String::from_utf8_lossy(&output).into_owned());
            differences.push(format!("{}: {shown:?}\n  {vector}", field(vector, "id")));
        }
    }
    report("template.json", vectors.len(), &differences);
}

/// In the default mode a vector may differ only by a defect of Kalypso: 12, where something
/// that is not there was used, or 8, where `unquote` took more than one pair of quotes. Which
/// those are is listed; a vector that is listed and no longer differs is an error too.
#[test]
fn the_default_mode_differs_by_numbered_defects_only() {
    let Some(vectors) = vectors("template.json") else {
        return;
    };
    let list = include_str!("differences.txt");
    let listed: BTreeMap<&str, &str> = list
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| name.starts_with("template/"))
        .collect();
    // Other data may hold more; then what differs need only be explained.
    let complete = list.contains(&format!("of template {}\n", vectors.len()));
    let mut differences = Vec::new();
    let mut count = 0;
    for vector in &vectors {
        let name = field(vector, "id");
        let defect = match (run(vector, false), expected(vector)) {
            (Ok(output), Some(wanted)) if output == wanted => None,
            (Err(_), None) => None,
            (Err(error), Some(_)) => Some(error.defect()),
            (Ok(_), _) => Some(field(vector, "template").contains("unquote").then_some(8)),
        };
        let defect = defect.map(|defect| defect.map(|number| number.to_string()));
        match (defect, listed.get(name)) {
            (None, None) => {}
            (None, Some(_)) => differences.push(format!("{name} is listed and no longer differs")),
            (Some(None), _) => differences.push(vector.to_string()),
            (Some(Some(number)), Some(listed)) if number == *listed => count += 1,
            (Some(Some(_)), None) if !complete => count += 1,
            (Some(Some(number)), _) => differences.push(format!("{name} {number}: not so listed")),
        }
    }
    println!("{count} vectors differ by default, each for its defect");
    report("template.json (default mode)", vectors.len(), &differences);
}

fn rendered(template: &str, compat: bool) -> Result<String, TemplateError> {
    let config = "NAME: db\nQUOTED: \"\\\"'x'\\\"\"\nMAP: {a: {b: 1}}\nRULE: \"{{ literal \\\"{{ $labels.x }}\\\" }}\"\n";
    let data = TemplateData {
        environment: "dev".to_owned(),
        config_data: decode_yaml(config, Decoder::Config).expect("config"),
        ..TemplateData::default()
    };
    let options = RenderOptions {
        compat,
        max_steps: 200_000,
        max_bytes: 4 << 20,
        ..RenderOptions::default()
    };
    outhaul_gocompat::render(template, &data, &options)
}

#[test]
fn defect_12_a_missing_key_is_an_error_with_its_place() {
    let template = "a: 1\nb: {{ .ConfigData.nope }}\n";
    assert_eq!(
        rendered(template, true).expect("compat"),
        "a: 1\nb: <no value>\n"
    );
    let error = rendered(template, false).expect_err("the default mode refuses");
    assert_eq!((error.line, error.column, error.defect()), (2, 7, Some(12)));
    assert!(error.message.contains("\"nope\""), "{error}");
}

#[test]
fn defect_12_nothing_else_prints_no_value_either() {
    for template in [
        "{{ index .ConfigData \"x\" }}",
        "{{ first (list) }}",
        "{{ template \"t\" }}{{ define \"t\" }}{{ . }}{{ end }}",
    ] {
        assert_eq!(rendered(template, true).expect("compat"), "<no value>");
        let error = rendered(template, false).expect_err("the default mode refuses");
        assert_eq!(error.kind, TemplateErrorKind::Undefined, "{template}");
    }
}

#[test]
fn defect_8_unquote_takes_one_balanced_pair() {
    assert_eq!(
        rendered("{{ unquote .ConfigData.QUOTED }}", true).expect("compat"),
        "x"
    );
    assert_eq!(
        rendered("{{ unquote .ConfigData.QUOTED }}", false).expect("default"),
        "'x'"
    );
}

#[test]
fn defect_11_literal_text_is_not_evaluated_again() {
    let output = rendered("{{ .ConfigData.RULE }} {{ .Environment }}", false).expect("default");
    assert_eq!(output, "{{ $labels.x }} dev");
    let error = rendered("{{ literal \"x\" }}", true).expect_err("Kalypso has no such function");
    assert!(error.message.contains("not defined"), "{error}");
}

#[test]
fn defect_11_evaluation_ends_after_the_rounds_allowed() {
    let error = rendered(
        "{{ `{{ \"{{ . }}\" }}` }}{{ printf \"%s%s\" \"{\" \"{\" }}{{ `\"{{\" }}` }}",
        true,
    );
    assert!(error.is_err());
    let forever = TemplateData {
        config_data: decode_yaml("A: \"{{ .ConfigData.A }}\"\n", Decoder::Config).expect("config"),
        ..TemplateData::default()
    };
    let options = RenderOptions {
        compat: true,
        ..RenderOptions::default()
    };
    let error =
        outhaul_gocompat::render("{{ .ConfigData.A }}", &forever, &options).expect_err("ends");
    assert_eq!((error.kind, error.round), (TemplateErrorKind::Limit, 17));
}

#[test]
fn functions_that_read_the_machine_are_refused_by_name_in_both_modes() {
    let names = [
        "now",
        "ago",
        "date",
        "htmlDate",
        "randAlphaNum",
        "randAlpha",
        "randAscii",
        "randNumeric",
        "shuffle",
        "uuidv4",
        "env",
        "expandenv",
        "getHostByName",
        "genPrivateKey",
        "genCA",
        "genSelfSignedCert",
        "genSignedCert",
        "encryptAES",
        "decryptAES",
        "derivePassword",
        "buildCustomCert",
    ];
    for (name, compat) in names.iter().flat_map(|name| [(name, true), (name, false)]) {
        let error = rendered(
            &format!("x\n {{{{ if false }}}}{{{{ {name} }}}}{{{{ end }}}}"),
            compat,
        )
        .expect_err("refused");
        assert_eq!(error.kind, TemplateErrorKind::Refused, "{name}");
        assert!(error.message.contains(&format!("{name:?}")), "{error}");
        assert_eq!(error.line, 2);
    }
    let error = rendered("{{ dateInZone \"2006\" \"x\" \"UTC\" }}", true).expect_err("no clock");
    assert_eq!(error.kind, TemplateErrorKind::Refused);
}

#[test]
fn hostile_templates_end_at_a_limit() {
    let templates = [
        "{{ range 100000000 }}{{ range 100000000 }}{{ end }}{{ end }}",
        "{{ repeat 1000000000 \"x\" }}",
        "{{ until 1000000000 }}",
        "{{ untilStep 0 9000000000000000000 1 }}",
        "{{ define \"r\" }}{{ template \"r\" . }}{{ end }}{{ template \"r\" . }}",
        "{{ template \"template\" . }}",
        "{{ $x := \"x\" }}{{ range 100 }}{{ $x = print $x $x }}{{ end }}",
        "{{ $x := list 1 }}{{ range 64 }}{{ $x = list $x $x }}{{ end }}{{ toJson $x }}",
        "{{ $x := list 1 }}{{ range 64 }}{{ $x = list $x $x }}{{ end }}{{ hash $x }}",
        "{{ $x := list 1 }}{{ range 64 }}{{ $x = list $x $x }}{{ end }}{{ toYaml $x }}{{ $x }}",
        "{{ $x := list 1 }}{{ range 64 }}{{ $x = list $x $x }}{{ end }}{{ deepCopy $x }}",
        "{{ $x := list 1 }}{{ range 50000 }}{{ $x = list $x }}{{ end }}{{ $x }}",
        "{{ $x := repeat 100000 \"a\" }}{{ replace \"a\" $x $x }}",
        "{{ $x := repeat 1000000 \"a\" }}{{ contains (repeat 500000 \"a\") $x }}{{ splitList \"\" $x }}",
        "{{ indent 1000000 (repeat 1000000 \"\\n\") }}",
        "{{ printf \"%999999d%999999d%999999d%999999d%999999d\" 1 1 1 1 1 }}",
        "{{ regexMatch \"((a{900}){900}){900}\" \"a\" | not }}{{ regexFind \"((a{900}){900}){900}\" \"a\" }}",
        "{{ $d := dict }}{{ set $d \"self\" $d }}",
        "{{ $d := dict }}{{ merge $d (dict \"a\" (list $d)) }}",
    ];
    for template in templates {
        assert!(rendered(template, true).is_err(), "{template}");
    }
}

#[test]
fn a_change_of_the_data_does_not_reach_the_next_rendering() {
    let options = RenderOptions {
        compat: true,
        ..RenderOptions::default()
    };
    let template = Template::parse(
        "{{ hasKey .ConfigData \"N\" }}{{ $_ := set .ConfigData \"N\" 1 }}",
        &options,
    )
    .expect("parses");
    let data = TemplateData {
        config_data: decode_yaml("A: b", Decoder::Config).expect("config"),
        ..TemplateData::default()
    };
    for _ in 0..2 {
        assert_eq!(template.render(&data, &options).expect("renders"), "false");
    }
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    for (open, close) in [
        ("{{ if true }}", "{{ end }}"),
        ("{{ range 1 }}", "{{ end }}"),
    ] {
        let template = format!("{}{}", open.repeat(100_000), close.repeat(100_000));
        assert_eq!(
            rendered(&template, true).expect_err("too deep").kind,
            TemplateErrorKind::Limit
        );
        let template = format!("{}x{}", open.repeat(90), close.repeat(90));
        assert_eq!(rendered(&template, true).expect("deep enough"), "x");
    }
    let template = format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(
        rendered(&template, true).expect_err("too deep").kind,
        TemplateErrorKind::Limit
    );
    for text in ["[", "{a: ", "- ", "? ", "{? "] {
        assert!(decode_yaml(&text.repeat(100_000), Decoder::V3).is_err());
    }
    let deep = format!("{}1{}", "[".repeat(140), "]".repeat(140));
    let value = decode_yaml(&deep, Decoder::V2).expect("deep enough");
    assert!(outhaul_gocompat::to_yaml(&value).ends_with("- 1\n"));
    assert!(!outhaul_gocompat::hash(&value).is_empty());
    assert!(outhaul_gocompat::decode_json(&"[".repeat(100_000)).is_err());
}

#[test]
fn a_parsed_template_is_shared_between_threads() {
    let options = RenderOptions::default();
    let template = Template::parse("{{ .Environment | upper }}", &options).expect("parses");
    let data = TemplateData {
        environment: "dev".to_owned(),
        ..TemplateData::default()
    };
    std::thread::scope(|scope| {
        let run = || template.render(&data, &options).expect("renders");
        let (a, b) = (scope.spawn(run), scope.spawn(run));
        assert_eq!(
            (a.join().expect("a"), b.join().expect("b")),
            ("DEV".into(), "DEV".into())
        );
    });
}
