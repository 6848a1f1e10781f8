//! Golden vectors: selectors, composition and schemas, recorded from the Go code that Kalypso runs.
//!
//! What comes in: `golden/{select,config,schema}.json`. With `compat` every vector must hold. Without
//! it a vector may differ only where it embodies one of Kalypso's numbered defects, which is worked out
//! from the vector's input.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_control::model::{
    ClusterType, ConfigContainer, ConfigSchema, ControlPlane, DeploymentTarget, Spanned,
};
use outhaul_control::selector::{Operator, Requirement, Selector};
use outhaul_gocompat::GoValue;
use outhaul_plane::compose::{self, Mode, schema, typing};
use serde_json::Value;

use super::kalypso;

fn spanned(value: &str) -> Spanned<String> {
    let file = Arc::new(SourceFile {
        name: "vector".into(),
        text: String::new(),
    });
    Spanned {
        value: value.into(),
        location: Location::new(&file, 0..0),
    }
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(k, v)| (k.clone(), text(v)))
        .collect()
}

fn selector(vector: &Value) -> Result<Selector, String> {
    let mut requirements = Vec::new();
    for (key, value) in texts(&vector["matchLabels"]) {
        let made = Requirement::new(&key, Operator::Equals, [value]);
        requirements.push(made.map_err(|error| error.to_string())?);
    }
    for expression in vector["matchExpressions"].as_array().into_iter().flatten() {
        let operator = expression["operator"].as_str().unwrap();
        let operator = Operator::parse(operator).ok_or("operator")?;
        let values = expression["values"].as_array().into_iter().flatten();
        let values = values.map(|value| value.as_str().unwrap().to_owned());
        let made = Requirement::new(expression["key"].as_str().unwrap(), operator, values);
        requirements.push(made.map_err(|error| error.to_string())?);
    }
    Ok(Selector { requirements })
}

#[test]
fn selectors_match_as_kubernetes_does() {
    let Some(folder) = kalypso::folder() else {
        return;
    };
    let vectors = kalypso::vectors(&folder, "select.json");
    for vector in &vectors {
        let made = selector(&vector["selector"]);
        let found = made
            .as_ref()
            .map(|selector| selector.matches(&texts(&vector["labels"])));
        match vector["output"].as_bool() {
            Some(expected) => assert_eq!(found, Ok(expected), "{vector}"),
            None => assert!(found.is_err(), "{vector}"),
        }
    }
    println!("{} selector vectors hold", vectors.len());
}

fn container(map: &Value) -> ConfigContainer {
    let spots = |value: &Value| {
        texts(value)
            .into_iter()
            .map(|(k, v)| (k, spanned(&v)))
            .collect()
    };
    ConfigContainer {
        name: map["name"].as_str().unwrap().into(),
        labels: spots(&map["labels"]),
        data: spots(&map["data"]),
        location: spanned("").location,
    }
}

fn composed(vector: &Value, mode: Mode) -> Result<GoValue, String> {
    let mut plane = ControlPlane::default();
    for map in vector["config_maps"].as_array().unwrap() {
        let container = container(map);
        plane.configs.insert(container.name.clone(), container);
    }
    let (kind, target) = (&vector["cluster_type"], &vector["deployment_target"]);
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let labels = texts(&target["labels"]);
    let cluster_type = ClusterType {
        name: name(kind),
        labels: texts(&kind["labels"]),
        reconciler: spanned(""),
        namespace_service: spanned(""),
        config_type: None,
        location: spanned("").location,
    };
    let target = DeploymentTarget {
        name: name(target),
        short_name: name(target),
        workload: labels.get("workload").cloned().unwrap_or_default(),
        registration: String::new(),
        workspace: labels.get("workspace").cloned().unwrap_or_default(),
        environment: String::new(),
        environment_at: spanned("").location,
        labels,
        manifests: None,
        storage_at: None,
        config_schemas: Vec::new(),
        location: spanned("").location,
    };
    compose::compose_one(&plane, &cluster_type, &target, mode)
        .map(|composed| composed.values)
        .map_err(|findings| findings.to_string())
}

/// Whether a composed config is what the vector says, in all four forms.
fn difference(vector: &Value, mode: Mode) -> Option<String> {
    let found = composed(vector, mode);
    let values = match (&found, vector["error"].as_bool()) {
        (Err(_), Some(true)) => return None,
        (Err(error), _) => return Some(error.clone()),
        (Ok(_), Some(true)) => return Some("no error".into()),
        (Ok(values), _) => values,
    };
    let yaml = outhaul_gocompat::to_yaml(values);
    let forms = [
        (
            "to_yaml",
            yaml.strip_suffix('\n').unwrap_or(&yaml).to_owned(),
        ),
        ("stringify", outhaul_gocompat::stringify(values)),
        ("hash", outhaul_gocompat::hash(values)),
    ];
    for (form, found) in forms {
        if vector[form] != found.as_str() {
            return Some(format!("{form}: {found:?} is not {}", vector[form]));
        }
    }
    let json = json(values);
    (json != vector["output"]).then(|| format!("{json} is not {}", vector["output"]))
}

/// A float as Go prints it: with an exponent below -4 and from 6 on.
fn printed(number: f64) -> String {
    match number {
        n if n.is_nan() => "NaN".to_owned(),
        n if n.is_infinite() => if n > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        n => {
            let text = format!("{n:e}");
            let (digits, exponent) = text.split_once('e').unwrap();
            let exponent: i32 = exponent.parse().unwrap();
            match (-4..6).contains(&exponent) {
                true => n.to_string(),
                false => {
                    let sign = if exponent < 0 { '-' } else { '+' };
                    format!("{digits}e{sign}{:02}", exponent.abs())
                }
            }
        }
    }
}

/// As the vectors have it: keys as Go prints them, infinities as objects.
fn json(value: &GoValue) -> Value {
    match value {
        GoValue::Float(number) if !number.is_finite() => {
            let name = match number {
                n if n.is_nan() => "NaN",
                n if *n > 0.0 => "+Inf",
                _ => "-Inf",
            };
            serde_json::json!({"$float": name})
        }
        GoValue::List(items) => items.iter().map(json).collect(),
        GoValue::Map(map) => {
            let key = |key: &GoValue| match key {
                GoValue::Null => "<nil>".to_owned(),
                GoValue::Str(text) => text.to_string(),
                GoValue::Float(number) => printed(*number),
                other => schema::to_json(other).to_string(),
            };
            Value::Object(map.iter().map(|(k, v)| (key(k), json(v))).collect())
        }
        other => schema::to_json(other),
    }
}

/// Which of Kalypso's defects a composition vector embodies.
fn defects(vector: &Value) -> BTreeSet<u8> {
    let mut found = BTreeSet::new();
    for map in vector["config_maps"].as_array().unwrap() {
        let azure = map["name"]
            .as_str()
            .unwrap()
            .starts_with("azure-app-config");
        if texts(&map["labels"]).values().any(String::is_empty) {
            found.insert(9);
        }
        for (key, text) in texts(&map["data"]) {
            let (right, kalypso) = (
                typing::typed(&text, Mode::default()),
                typing::typed(&text, Mode { compat: true }),
            );
            if typing::canonical(&right) != typing::canonical(&kalypso) {
                found.insert(if kalypso.is_container() { 7 } else { 8 });
            }
            if has_unnamed_items(&kalypso) {
                found.insert(5);
            }
            if azure && key.split('.').count() % 2 == 0 {
                found.insert(10);
            }
            if azure && key.split('.').any(str::is_empty) {
                found.insert(9);
            }
        }
    }
    found
}

fn has_unnamed_items(value: &GoValue) -> bool {
    let named = |item: &GoValue| {
        item.as_map().is_none_or(|map| {
            map.get("name")
                .is_some_and(|name| matches!(name, GoValue::Str(_)))
        })
    };
    match value {
        GoValue::List(items) => {
            !items.iter().all(named)
                || items.iter().any(has_unnamed_items)
                || duplicate_names(items)
        }
        GoValue::Map(map) => map.iter().any(|(_, value)| has_unnamed_items(value)),
        _ => false,
    }
}

/// Kalypso merges into every item of the name, not only into the first.
fn duplicate_names(items: &[GoValue]) -> bool {
    let names: Vec<_> = items
        .iter()
        .filter_map(|item| item.as_map()?.get("name")?.as_str())
        .collect();
    names.iter().collect::<BTreeSet<_>>().len() != names.len()
}

#[test]
fn configs_are_composed_as_kalypso_does() {
    let Some(folder) = kalypso::folder() else {
        return;
    };
    let vectors = kalypso::vectors(&folder, "config.json");
    let mut wrong = Vec::new();
    let mut by_default = Listed::new("config", vectors.len());
    for vector in &vectors {
        if let Some(difference) = difference(vector, Mode { compat: true }) {
            wrong.push(format!(
                "compat {}: {difference}\n{}",
                vector["id"], vector["config_maps"]
            ));
        }
        let differs = difference(vector, Mode::default());
        by_default.look_at(vector, differs, &defects(vector));
    }
    wrong.extend(by_default.finish());
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The vectors that differ in the default mode, each with the defects that it embodies: those that
/// `golden/differences.txt` lists, and no others.
struct Listed {
    set: &'static str,
    /// Defects by the vector's name.
    expected: BTreeMap<String, BTreeSet<u8>>,
    /// Whether the data is that which the list was made for; other data may hold more.
    complete: bool,
    count: usize,
    wrong: Vec<String>,
}

impl Listed {
    fn new(set: &'static str, vectors: usize) -> Self {
        let mut expected = BTreeMap::new();
        let mut complete = false;
        for line in include_str!("golden/differences.txt").lines() {
            let mut words = line.split(' ');
            match words.next().unwrap() {
                "#" | "" => {}
                "of" if words.next() == Some(set) => {
                    complete = words.next() == Some(&vectors.to_string());
                }
                name if name.starts_with(&format!("{set}/")) => {
                    let numbers = words.map(|number| number.parse().unwrap());
                    expected.insert(name.to_owned(), numbers.collect());
                }
                _ => {}
            }
        }
        Self {
            set,
            expected,
            complete,
            count: 0,
            wrong: Vec::new(),
        }
    }

    /// Takes what was found of one vector; `defects` are those that its input embodies.
    fn look_at(&mut self, vector: &Value, differs: Option<String>, defects: &BTreeSet<u8>) {
        let name = vector["id"].as_str().unwrap();
        let numbers: Vec<String> = defects.iter().map(u8::to_string).collect();
        let numbers = numbers.join(" ");
        match (differs, self.expected.get(name)) {
            (None, None) => {}
            (None, Some(_)) => self
                .wrong
                .push(format!("{name} is listed and no longer differs")),
            (Some(how), _) if defects.is_empty() => {
                self.wrong.push(format!("{name}: {how}\n{vector}"));
            }
            (Some(_), None) if self.complete => {
                self.wrong.push(format!(
                    "{name} differs and is not listed; defects {numbers}"
                ));
            }
            (Some(_), Some(listed)) if listed != defects => {
                self.wrong.push(format!(
                    "{name} is listed for {listed:?}, and embodies {numbers}"
                ));
            }
            (Some(_), _) => self.count += 1,
        }
    }

    fn finish(self) -> Vec<String> {
        println!(
            "{}: {} vectors differ by default, each for its defects",
            self.set, self.count
        );
        self.wrong
    }
}

#[test]
fn schemas_are_checked_as_kalypso_does() {
    let Some(folder) = kalypso::folder() else {
        return;
    };
    let vectors = kalypso::vectors(&folder, "schema.json");
    let mut wrong = Vec::new();
    let mut by_default = Listed::new("schema", vectors.len());
    for vector in &vectors {
        let text = |key: &str| vector[key].as_str().unwrap();
        let values =
            outhaul_gocompat::decode_yaml(text("values"), outhaul_gocompat::Decoder::Config)
                .unwrap();
        let valid = valid_by_default(&values, text("schema"));
        let expected = vector["error"] != true && vector["valid"] == true;
        let differs = (valid != expected).then(|| format!("valid by default: {valid}"));
        by_default.look_at(vector, differs, &coerced(&values));
        let found = schema::compat::errors(&values, text("schema"));
        let right = match (&found, vector["error"].as_bool()) {
            (Err(_), Some(true)) => true,
            (Ok(lines), None) => {
                let mut lines = lines.clone();
                if vector["ordered"] == false {
                    lines.sort();
                }
                Value::from(lines.clone()) == vector["errors"]
                    && (vector["ordered"] == false || vector["message"] == lines.concat())
            }
            _ => false,
        };
        if !right {
            wrong.push(format!("{found:?}\n{vector}"));
        }
    }
    wrong.extend(by_default.finish());
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    println!("{} schema vectors hold", vectors.len());
}

#[test]
fn a_key_that_is_null_or_infinite_passes_no_schema() {
    let valid = |text: &str| {
        let values =
            outhaul_gocompat::decode_yaml(text, outhaul_gocompat::Decoder::Config).unwrap();
        valid_by_default(&values, "{}")
    };
    for text in ["K: {~: 1}", "K: [{a: {.inf: 1}}]", "K: {.nan: 1}"] {
        assert!(!valid(text), "{text}");
    }
    assert!(valid("K: {1.5: 1, 2: 2, yes: 3, '~': 4}"));
}

/// Whether a config passes a schema in the default mode.
fn valid_by_default(values: &GoValue, schema: &str) -> bool {
    let plane = ControlPlane {
        schemas: BTreeMap::from([(
            "s".to_owned(),
            ConfigSchema {
                name: "s".into(),
                labels: BTreeMap::new(),
                schema: spanned(schema),
                location: spanned("").location,
            },
        )]),
        ..ControlPlane::default()
    };
    let schemas = schema::Schemas::of(outhaul_plane::Inputs::of(&plane), Mode::default());
    let composed = compose::Composed {
        values: values.clone(),
        version: outhaul_bundle::Digest::of(b""),
        provenance: BTreeMap::new(),
    };
    let location = spanned("").location;
    let applied = [schema::Applied {
        text: schema,
        location: &location,
    }];
    schemas.check(&applied, &composed).is_ok()
}

/// Defect 6: Kalypso takes text for a number without asking the schema, and cannot check infinity.
fn coerced(values: &GoValue) -> BTreeSet<u8> {
    fn is_number(text: &str) -> bool {
        text.starts_with("0x") || text.replace('_', "").parse::<f64>().is_ok()
    }
    fn is_infinite(value: &GoValue) -> bool {
        match value {
            GoValue::Float(number) => !number.is_finite(),
            GoValue::List(items) => items.iter().any(is_infinite),
            GoValue::Map(map) => map.iter().any(|(_, value)| is_infinite(value)),
            _ => false,
        }
    }
    let number = |value: &GoValue| value.as_str().is_some_and(is_number);
    let text = matches!(values, GoValue::Map(map) if map.iter().any(|(_, value)| number(value)));
    BTreeSet::from_iter((text || is_infinite(values)).then_some(6))
}
