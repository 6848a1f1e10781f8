//! The description of a kind: its fields, what they take, and what they are for, written once.
//!
//! What comes in: names, descriptions, limits. What goes out: a [`KindSchema`], from which readers take the names
//! and bounds, editors the JSON Schema, and people the reference. In Kalypso's kinds what is optional may
//! also be written without a value (`labels:`), as Kubernetes takes it; in ours that is an error, decided here once for all kinds.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// What Kubernetes knows in `metadata`.
const KNOWN: &[&str] = &[
    "name",
    "namespace",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "generateName",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];
/// The labels of an object.
pub(super) const LABELS: &str = "Labels, as text: quote `\"true\"` and numbers.";
/// The labels of what is for some cluster types and targets.
pub(super) const CONFIG_LABELS: &str = "The values are for cluster types and targets that have every one of these labels; `platform-config: \"true\"` makes it platform config, `cluster-type`, `deployment-target` and `workload` mean names.";

/// One kind of object.
#[derive(Debug, Clone, PartialEq)]
pub struct KindSchema {
    /// `scheduler.kalypso.io/v1alpha1`, `outhaul.dev/v1alpha1` or `v1`.
    pub api_version: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    pub(super) shape: Shape,
}

impl KindSchema {
    /// Its JSON Schema, without a dialect.
    pub fn schema(&self) -> &Value {
        &self.shape.schema
    }
}

/// What a value may be: as JSON Schema, and what is inside a map or a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Shape {
    schema: Value,
    fields: Vec<(&'static str, Shape)>,
    item: Option<Box<Shape>>,
    /// A field of it that is written without a value is an error.
    refuses_null: bool,
}

/// The shape of what is not described.
static ANY: LazyLock<Shape> = LazyLock::new(Shape::default);

impl Shape {
    /// The names of its fields, in the order in which they are described.
    pub fn names(&self) -> Vec<&'static str> {
        self.fields.iter().map(|(name, _)| *name).collect()
    }

    /// What may be under `key`.
    pub fn field(&self, key: &str) -> &Self {
        let found = self.fields.iter().find(|(name, _)| *name == key);
        debug_assert!(found.is_some(), "`{key}` is not described");
        found.map_or(&ANY, |(_, shape)| shape)
    }

    /// What may be in the list.
    pub fn item(&self) -> &Self {
        self.item.as_deref().unwrap_or(&ANY)
    }

    /// The least and the most of a whole number.
    pub fn bounds(&self) -> RangeInclusive<u32> {
        let bound = |name: &str| {
            let number = self.schema.get(name).and_then(Value::as_u64);
            number.and_then(|number| u32::try_from(number).ok())
        };
        bound("minimum").unwrap_or(0)..=bound("maximum").unwrap_or(u32::MAX)
    }

    /// Whether its field `key` may not be written without a value. What is ignored may: it switches nothing off.
    pub fn refuses_null(&self, key: &str) -> bool {
        let described = |shape: &Self| {
            let rules = ["type", "enum", "const", "anyOf"];
            rules.iter().any(|rule| shape.schema.get(rule).is_some())
        };
        self.refuses_null && described(self.field(key))
    }

    /// Whether its field `key` must be there.
    pub fn requires(&self, key: &str) -> bool {
        let required = self.schema.get("required").and_then(Value::as_array);
        required.is_some_and(|all| all.iter().any(|one| one == key))
    }

    /// What to write in the place of nothing.
    pub fn instead_of_null(&self) -> String {
        let words = self.schema.get("enum").and_then(Value::as_array);
        let words: Vec<String> = words
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(|word| format!("`{word}`"))
            .collect();
        let example = self.schema.get("examples").map(|all| &all[0]);
        match (&words[..], example) {
            ([], Some(Value::String(text))) if !text.contains('\n') => {
                format!("a value, such as `{text}`")
            }
            ([], Some(Value::Number(number))) => format!("a value, such as `{number}`"),
            ([], _) => match self.schema.get("type").and_then(Value::as_str) {
                Some("array") => "its entries".to_owned(),
                Some("object") if !self.fields.is_empty() => {
                    format!("its fields (`{}`)", self.names().join("`, `"))
                }
                _ => "its value".to_owned(),
            },
            (words, _) => words.join(" or "),
        }
    }

    /// The same, whose fields at any depth refuse to be written without a value.
    fn refusing_null(mut self) -> Self {
        self.refuses_null = true;
        let fields = std::mem::take(&mut self.fields);
        let fields = fields.into_iter();
        self.fields = fields
            .map(|(name, shape)| (name, shape.refusing_null()))
            .collect();
        self.item = self.item.map(|item| Box::new(item.refusing_null()));
        self
    }

    /// The same, whose optional fields at any depth may be written without a value.
    pub fn taking_null(mut self) -> Self {
        take_null(&mut self.schema);
        self
    }

    /// The same with one rule more.
    pub fn with(mut self, rule: &str, value: Value) -> Self {
        self.schema[rule] = value;
        self
    }
}

impl From<Value> for Shape {
    fn from(schema: Value) -> Self {
        Self {
            schema,
            ..Self::default()
        }
    }
}

/// A name that Kubernetes and every file system take.
const NAME: &str = "^[a-z0-9]((\\.?[-a-z0-9])*\\.?[a-z0-9])?$";
/// A label's name: an optional DNS prefix and `/`, then at most 63 characters.
pub(super) const LABEL_NAME: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
/// A label's value: empty, or at most 63 characters of a word.
pub(super) const LABEL_VALUE: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$";

/// One field of an object.
pub(super) struct Field {
    name: &'static str,
    about: Cow<'static, str>,
    required: bool,
    shape: Shape,
}

/// A field that must be there.
pub(super) fn must(
    name: &'static str,
    about: impl Into<Cow<'static, str>>,
    shape: impl Into<Shape>,
) -> Field {
    Field {
        name,
        about: about.into(),
        required: true,
        shape: shape.into(),
    }
}

/// A field that may be left out.
pub(super) fn may(
    name: &'static str,
    about: impl Into<Cow<'static, str>>,
    shape: impl Into<Shape>,
) -> Field {
    Field {
        name,
        about: about.into(),
        required: false,
        shape: shape.into(),
    }
}

/// A map with these fields and no others.
pub(super) fn object(described: Vec<Field>) -> Shape {
    let mut properties = Map::new();
    let mut required = Vec::new();
    let mut fields = Vec::new();
    for field in described {
        let mut shape = field.shape;
        if field.required {
            required.push(field.name);
        }
        shape = shape.with("description", json!(field.about));
        properties.insert(field.name.into(), shape.schema.clone());
        fields.push((field.name, shape));
    }
    let schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    let made = Shape {
        schema,
        fields,
        ..Shape::default()
    };
    match required.is_empty() {
        true => made,
        false => made.with("required", json!(required)),
    }
}

/// Makes every optional field of a schema nullable.
fn take_null(schema: &mut Value) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| {
        let all = required.as_array();
        all.is_some_and(|all| all.iter().any(|one| one == name))
    };
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties {
            take_null(property);
            if !is_required(name) {
                nullable(property);
            }
        }
    }
    if let Some(item) = schema.get_mut("items") {
        take_null(item);
    }
    if let Some(Value::Array(all)) = schema.get_mut("anyOf") {
        all.iter_mut().for_each(take_null);
    }
}

/// `labels:` with nothing behind it is the same as no labels.
fn nullable(shape: &mut Value) {
    if let Some(Value::String(one)) = shape.get("type") {
        shape["type"] = json!([one, "null"]);
    }
    if let Some(Value::Array(all)) = shape.get_mut("enum") {
        all.push(Value::Null);
    }
}

/// An object of the control plane.
pub(super) fn kind(
    api_version: &'static str,
    name: &'static str,
    about: &'static str,
    labels: &'static str,
    spec: Shape,
) -> KindSchema {
    let shape = object(vec![
        must(
            "apiVersion",
            "The group and version.",
            json!({"const": api_version}),
        ),
        must("kind", about, json!({"const": name})),
        must("metadata", "Name and labels.", metadata(labels)),
        must("spec", "What it says.", spec),
        may("status", "Ignored: Kubernetes' own.", json!({})),
    ]);
    // A protection that is written without a value must not be switched off in silence.
    let shape = match api_version == super::OUTHAUL {
        true => shape.refusing_null(),
        false => shape.taking_null(),
    };
    KindSchema {
        api_version,
        name,
        about,
        shape: shape.with("description", about.into()),
    }
}

/// `metadata`; what Kubernetes keeps there beside name and labels means nothing here.
pub(super) fn metadata(labels: &'static str) -> Shape {
    let field = |known: &&'static str| match *known {
        "name" => must(
            "name",
            "Its name: lower-case letters, digits, `-` and `.`.",
            name(),
        ),
        "labels" => may("labels", labels, text_map()),
        other => may(other, "Taken and ignored.", json!({})),
    };
    object(KNOWN.iter().map(field).collect())
}

/// An object's name.
pub(super) fn name() -> Value {
    json!({"type": "string", "pattern": NAME, "maxLength": 253, "examples": ["one"]})
}

/// Text that says something.
pub(super) fn text(example: &str) -> Value {
    json!({"type": "string", "pattern": "\\S", "examples": [example]})
}

/// Text that may be empty.
pub(super) fn any_text(example: &str) -> Value {
    json!({"type": "string", "examples": [example]})
}

/// Text of a form.
pub(super) fn pattern(pattern: &str, example: &str) -> Value {
    json!({"type": "string", "pattern": pattern, "examples": [example]})
}

/// A map from text to text.
pub(super) fn text_map() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

/// Words, of which one is the example.
pub(super) fn one_of_like(words: &[&str], example: &str) -> Shape {
    Shape::from(one_of(words)).with("examples", json!([example]))
}

/// One of these words.
pub(super) fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

/// A whole number.
pub(super) fn whole(range: RangeInclusive<u32>) -> Value {
    let (least, most) = range.into_inner();
    json!({"type": "integer", "minimum": least, "maximum": most, "examples": [most.min(50).max(least)]})
}

/// A list.
pub(super) fn list(item: impl Into<Shape>) -> Shape {
    let item = item.into();
    Shape {
        schema: json!({"type": "array", "items": item.schema}),
        item: Some(Box::new(item)),
        ..Shape::default()
    }
}

/// A list of at least one.
pub(super) fn some(item: impl Into<Shape>) -> Shape {
    list(item).with("minItems", json!(1))
}

/// Text, or a map.
pub(super) fn text_or(text: &Value, map: Shape) -> Shape {
    Shape {
        schema: json!({"anyOf": [text, map.schema]}),
        ..map
    }
}

/// A place in a repository.
pub(super) fn place_fields(of: &'static str) -> Vec<Field> {
    vec![
        must("repo", of, text("https://git.example.org/repository")),
        must("branch", "The branch.", text("main")),
        may(
            "path",
            "The folder below the repository's root; everything when left out.",
            any_text("."),
        ),
    ]
}

/// A section with nothing but a `labelSelector`.
pub(super) fn selected() -> Shape {
    object(vec![may(
        "labelSelector",
        "Which labels it must have; without one, everything matches.",
        selector(),
    )])
}

/// Kubernetes' label selector.
pub(super) fn selector() -> Shape {
    let value = json!({"type": "string", "pattern": LABEL_VALUE, "examples": ["north"]});
    let expression = object(vec![
        must("key", "The label's name.", pattern(LABEL_NAME, "zone")),
        must(
            "operator",
            "`In` and `NotIn` need values; `Exists` and `DoesNotExist` take none. `NotIn` and `DoesNotExist` match objects without the label.",
            one_of(&["In", "NotIn", "Exists", "DoesNotExist"]),
        ),
        may(
            "values",
            "The values for `In` and `NotIn`.",
            list(value.clone()),
        ),
    ]);
    let needs_values = json!({
        "if": {"properties": {"operator": {"enum": ["In", "NotIn"]}}, "required": ["operator"]},
        "then": {"properties": {"values": {"type": "array", "minItems": 1}}, "required": ["values"]},
        "else": {"properties": {"values": {"maxItems": 0}}},
    });
    let expression = expression.with("allOf", json!([needs_values]));
    let labels = json!({
        "type": "object",
        "propertyNames": {"pattern": LABEL_NAME},
        "additionalProperties": value,
    });
    object(vec![
        may("matchLabels", "Each label must have this value.", labels),
        may(
            "matchExpressions",
            "Each expression must hold.",
            list(expression),
        ),
    ])
}
