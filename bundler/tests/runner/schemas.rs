//! Schemas: every object that the project and Kalypso's recorded cases hold is valid.
//!
//! What comes in: the examples, the templates that come with Outhaul, and Kalypso's tutorial and replay
//! trees. What goes out: a verdict for each object that the readers take.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use outhaul_control::Diagnostics;
use outhaul_control::diagnostic::SourceFile;
use outhaul_control::kinds::read_file;
use outhaul_control::schema;
use outhaul_control::yaml::{self, Node};
use serde_json::Value;

use super::kalypso;

fn json(node: &Node) -> Value {
    match &node.value {
        yaml::YamlValue::Null => Value::Null,
        yaml::YamlValue::Bool(value) => Value::Bool(*value),
        yaml::YamlValue::Number(text) => serde_json::from_str(text).unwrap_or(Value::Bool(true)),
        yaml::YamlValue::String(text) => Value::String(text.clone()),
        yaml::YamlValue::Sequence(items) => items.iter().map(json).collect(),
        yaml::YamlValue::Mapping(entries) => {
            let entries = entries.iter();
            Value::Object(entries.map(|e| (e.key.clone(), json(&e.value))).collect())
        }
    }
}

struct Judge {
    validator: jsonschema::Validator,
    /// The kinds that were seen.
    seen: BTreeSet<String>,
    objects: usize,
}

impl Judge {
    fn new() -> Self {
        let all = schema::combined(&schema::kinds());
        Self {
            validator: jsonschema::draft202012::new(&all).unwrap(),
            seen: BTreeSet::new(),
            objects: 0,
        }
    }

    fn folder(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                self.folder(&path);
            } else if path
                .extension()
                .is_some_and(|ending| ending == "yaml" || ending == "yml")
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                self.text(&path.display().to_string(), text);
            }
        }
    }

    fn text(&mut self, name: &str, text: String) {
        let file = Arc::new(SourceFile {
            name: name.to_owned(),
            text,
        });
        let mut findings = Diagnostics::new();
        let objects = read_file(&file, &mut findings);
        let Ok(documents) = yaml::parse(&file) else {
            return;
        };
        if findings.has_errors() {
            return;
        }
        self.objects += objects.len();
        self.seen
            .extend(objects.iter().map(|object| object.kind().to_owned()));
        for document in &documents {
            let value = json(document);
            let errors: Vec<String> = self
                .validator
                .iter_errors(&value)
                .map(|e| e.to_string())
                .collect();
            assert_eq!(errors, [""; 0], "{name}");
        }
    }
}

#[test]
fn every_object_of_ours_is_valid() {
    let mut judge = Judge::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    judge.folder(&root.join("examples"));
    judge.folder(&root.join("bundler/plane/templates"));
    assert!(judge.objects > 20, "{}", judge.objects);
}

#[test]
fn every_object_of_kalypsos_recorded_cases_is_valid() {
    let Some(folder) = kalypso::folder() else {
        return;
    };
    let mut judge = Judge::new();
    judge.folder(&folder.join("tutorial"));
    judge.folder(&folder.join("replay"));
    let expected = [
        "BaseRepo",
        "ClusterType",
        "ConfigMap",
        "Environment",
        "GitOpsRepo",
        "SchedulingPolicy",
        "Template",
    ];
    for kind in expected {
        assert!(
            judge.seen.contains(kind),
            "no {kind} among {:?}",
            judge.seen
        );
    }
    assert!(judge.objects > 100, "{}", judge.objects);
}
