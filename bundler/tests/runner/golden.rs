//! Golden vectors: selectors, composition and schemas, recorded from the Go code that Kalypso runs.
//!
//! What comes in: `golden/{select,config,schema}.json`. With `compat` every vector must hold. Without
//! it a vector may differ only where it embodies one of Kalypso's numbered defects, which is worked out
//! from the vector's input.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outhaul_bundler::compose::{self, Mode, schema, typing};
use outhaul_bundler::control::diagnostic::{Location, SourceFile};
use outhaul_bundler::control::model::{
    ClusterType, ConfigContainer, ControlPlane, DeploymentTarget, Spot,
};
use outhaul_bundler::control::selector::{Operator, Requirement, Selector};
use outhaul_gocompat::GoValue;
use serde_json::Value;

use super::kalypso;

fn spot(value: &str) -> Spot<String> {
    let file = Arc::new(SourceFile {
        name: "vector".into(),
        text: String::new(),
    });
    Spot {
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
    let Some(folder) = kalypso::folder("golden select") else {
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
            .map(|(k, v)| (k, spot(&v)))
            .collect()
    };
    ConfigContainer {
        name: map["name"].as_str().unwrap().into(),
        labels: spots(&map["labels"]),
        data: spots(&map["data"]),
        location: spot("").location,
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
        reconciler: spot(""),
        namespace_service: spot(""),
        config_type: None,
        location: spot("").location,
    };
    let target = DeploymentTarget {
        name: name(target),
        short_name: name(target),
        workload: labels.get("workload").cloned().unwrap_or_default(),
        registration: String::new(),
        workspace: labels.get("workspace").cloned().unwrap_or_default(),
        environment: String::new(),
        labels,
        manifests: None,
        config_schemas: Vec::new(),
        location: spot("").location,
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
                GoValue::Str(text) => text.clone(),
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
    let Some(folder) = kalypso::folder("golden config") else {
        return;
    };
    let vectors = kalypso::vectors(&folder, "config.json");
    let mut wrong = Vec::new();
    let mut excused: BTreeMap<u8, usize> = BTreeMap::new();
    for vector in &vectors {
        if let Some(difference) = difference(vector, Mode { compat: true }) {
            wrong.push(format!(
                "compat {}: {difference}\n{}",
                vector["id"], vector["config_maps"]
            ));
        }
        if let Some(difference) = difference(vector, Mode::default()) {
            let defects = defects(vector);
            if defects.is_empty() {
                wrong.push(format!(
                    "{}: {difference}\n{}",
                    vector["id"], vector["config_maps"]
                ));
            }
            for defect in defects {
                *excused.entry(defect).or_default() += 1;
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    println!(
        "{} composition vectors hold; by default other for defect (number: vectors) {excused:?}",
        vectors.len()
    );
}

#[test]
fn schemas_are_checked_as_kalypso_does() {
    let Some(folder) = kalypso::folder("golden schema") else {
        return;
    };
    let vectors = kalypso::vectors(&folder, "schema.json");
    let mut wrong = Vec::new();
    for vector in &vectors {
        let text = |key: &str| vector[key].as_str().unwrap();
        let values =
            outhaul_gocompat::decode_yaml(text("values"), outhaul_gocompat::Decoder::Config)
                .unwrap();
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
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    println!("{} schema vectors hold", vectors.len());
}
