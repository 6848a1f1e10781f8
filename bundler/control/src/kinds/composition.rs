//! `CompositionPolicy` (our group): which config container wins, and what becomes of lists.
//!
//! What comes in: the object's fields; later, the whole control plane. What goes out: a
//! [`CompositionPolicy`], and findings about containers that it names and that do not exist. Rules
//! that could never mean anything are refused rather than ignored.

use std::collections::BTreeMap;

use super::super::diagnostic::{Diagnostic, Diagnostics};
use super::super::model::composition::{
    AllowedConflict, ArrayRule, CompositionPolicy, Conflicts, PRIORITY_LABEL, Precedence,
};
use super::super::model::{ControlPlane, Spanned};
use super::super::yaml::YamlValue;
use super::OUTHAUL;
use super::fields::{FieldReader, Fields};
use super::metadata::Metadata;
use super::shape::{
    KindSchema, LABELS, any_text, kind, list, may, must, object, one_of, one_of_like, text, text_or,
};
use outhaul_kit::suggest::did_you_mean;
use serde_json::json;

pub(super) fn described() -> KindSchema {
    let containers = json!({"type": "array", "items": {"type": "string"}});
    let conflict = object(vec![
        may(
            "containers",
            "The containers that may set it to different values.",
            containers,
        ),
        must("key", "The key.", text("LOG_LEVEL")),
    ]);
    let allowed = text_or(&any_text("LOG_LEVEL"), conflict);
    let by_key = json!({"type": "object", "additionalProperties": one_of(&ArrayRule::NAMES)});
    let spec = object(vec![
        may(
            "allowed",
            "Keys that may be set twice alike: a key, or a key with its containers.",
            list(allowed),
        ),
        may(
            "arrays",
            "How lists that two containers set are merged.",
            one_of(&ArrayRule::NAMES),
        ),
        may("arraysByKey", "The same for single keys.", by_key),
        may(
            "conflicts",
            "How a conflict between two equal containers is handled.",
            one_of(&Conflicts::NAMES),
        ),
        may(
            "precedence",
            "What decides between containers.",
            one_of_like(&Precedence::NAMES, "priority"),
        ),
        may(
            "priorities",
            "With `precedence: priority`: containers, the weakest first.",
            list(any_text("common")),
        ),
    ]);
    // What could never mean anything is refused.
    let rules = json!([
        {
            "if": {"required": ["precedence"], "properties": {"precedence": {"const": "priority"}}},
            "else": {"properties": {"priorities": false}},
        },
        {
            "if": {
                "required": ["precedence"],
                "properties": {"precedence": {"enum": ["priority", "specificity"]}},
            },
            "else": {"properties": {"conflicts": {"const": "later-wins"}}},
        },
    ]);
    kind(
        OUTHAUL,
        "CompositionPolicy",
        "Which config container wins where several set one key, and what becomes of lists.",
        LABELS,
        spec.with("allOf", rules),
    )
}

pub(super) fn read(reader: &mut FieldReader<'_>, object: &Fields<'_>) -> Option<CompositionPolicy> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec")?;
    let precedence = word(
        reader,
        &spec,
        "precedence",
        &Precedence::NAMES,
        Precedence::parse,
    );
    let arrays = word(reader, &spec, "arrays", &ArrayRule::NAMES, ArrayRule::parse);
    let conflicts = word(
        reader,
        &spec,
        "conflicts",
        &Conflicts::NAMES,
        Conflicts::parse,
    );
    let arrays_by_key = arrays_by_key(reader, &spec);
    let priorities = reader.texts(&spec, "priorities");
    let complete = priorities.len() == reader.list(&spec, "priorities").len();
    let allowed = allowed(reader, &spec);
    let (precedence, arrays, conflicts) = (precedence?, arrays?, conflicts?);
    let (arrays_by_key, allowed, metadata) = (arrays_by_key?, allowed?, metadata?);
    let rule = precedence.as_ref().map_or(Precedence::Name, |p| p.value);
    let mut sound = complete;
    if rule != Precedence::Priority
        && let Some(node) = spec.field("priorities")
    {
        let location = reader.location(node);
        reader.report(
            Diagnostic::error(
                "idle-field",
                format!(
                    "`priorities` means nothing with `precedence: {}`",
                    rule.as_str()
                ),
            )
            .at(&location)
            .help("write `precedence: priority`, or remove the list"),
        );
        sound = false;
    }
    if let (Precedence::Name, Some(written)) = (rule, &conflicts)
        && written.value == Conflicts::Error
    {
        reader.report(
            Diagnostic::error(
                "idle-field",
                "with `precedence: name` no two containers are equal, so nothing can conflict",
            )
            .at(&written.location)
            .help("write `precedence: specificity` or `priority`, or leave `conflicts` out"),
        );
        sound = false;
    }
    // By name the later one always wins; anything else was chosen in order to be reported.
    let default = match rule {
        Precedence::Name => Conflicts::LaterWins,
        Precedence::Priority | Precedence::Specificity => Conflicts::Error,
    };
    sound.then_some(CompositionPolicy {
        name: metadata.name,
        precedence: rule,
        priorities,
        arrays: arrays.map(|rule| rule.value),
        arrays_by_key,
        conflicts: conflicts.map_or(default, |c| c.value),
        allowed,
        location: metadata.location,
    })
}

/// The word under `key`: nothing when it is not there, `None` when it is not one of `names`.
#[expect(
    clippy::option_option,
    reason = "absent and wrong are different, and a wrong one was reported"
)]
fn word<T>(
    reader: &mut FieldReader<'_>,
    fields: &Fields<'_>,
    key: &str,
    names: &[&str],
    parse: fn(&str) -> Option<T>,
) -> Option<Option<Spanned<T>>> {
    if fields.field(key).is_none() {
        return Some(None);
    }
    let written = reader.optional_text(fields, key)?;
    let what = format!("{}.{key}", fields.what);
    let value = known_word(reader, &what, &written, names, parse)?;
    Some(Some(Spanned {
        value,
        location: written.location,
    }))
}

fn known_word<T>(
    reader: &mut FieldReader<'_>,
    what: &str,
    written: &Spanned<String>,
    names: &[&str],
    parse: fn(&str) -> Option<T>,
) -> Option<T> {
    let value = parse(&written.value);
    if value.is_none() {
        reader.report(
            Diagnostic::error(
                "unknown-word",
                format!("`{what}` cannot be `{}`", written.value),
            )
            .at(&written.location)
            .help(did_you_mean(&written.value, names)),
        );
    }
    value
}

fn arrays_by_key(
    reader: &mut FieldReader<'_>,
    spec: &Fields<'_>,
) -> Option<BTreeMap<String, ArrayRule>> {
    if spec.field("arraysByKey").is_none() {
        return Some(BTreeMap::new());
    }
    let written = reader.text_map(spec, "arraysByKey")?;
    let mut rules = BTreeMap::new();
    let mut sound = true;
    for (key, word) in written {
        let what = format!("{}.arraysByKey.{key}", spec.what);
        match known_word(reader, &what, &word, &ArrayRule::NAMES, ArrayRule::parse) {
            Some(rule) => drop(rules.insert(key, rule)),
            None => sound = false,
        }
    }
    sound.then_some(rules)
}

/// Each is a key, or a key with the containers that may contradict each other about it.
fn allowed(reader: &mut FieldReader<'_>, spec: &Fields<'_>) -> Option<Vec<AllowedConflict>> {
    let mut all = Vec::new();
    let items = reader.list(spec, "allowed");
    for (at, node) in items.iter().enumerate() {
        let what = format!("{}.allowed[{at}]", spec.what);
        if matches!(node.value, YamlValue::Mapping(_)) {
            let fields = reader.map(node, &what, spec.shape.field("allowed").item())?;
            let key = reader.text(&fields, "key")?.value;
            let containers = reader.texts(&fields, "containers");
            all.push(AllowedConflict { key, containers });
        } else {
            let key = reader.as_text(node, &what)?.value;
            all.push(AllowedConflict {
                key,
                containers: Vec::new(),
            });
        }
    }
    Some(all)
}

/// What of a policy can only be known when every container is there.
pub fn check(plane: &ControlPlane, findings: &mut Diagnostics) {
    let Some(policy) = &plane.composition else {
        return;
    };
    let names: Vec<&String> = plane.configs.keys().collect();
    let pairs = policy
        .allowed
        .iter()
        .flat_map(|allowed| &allowed.containers);
    for named in policy.priorities.iter().chain(pairs) {
        if !plane.configs.contains_key(&named.value) {
            findings.push(
                Diagnostic::error(
                    "unresolved-reference",
                    format!("there is no config container `{}`", named.value),
                )
                .at(&named.location)
                .help(did_you_mean(&named.value, &names)),
            );
        }
    }
    if policy.precedence != Precedence::Priority {
        return;
    }
    for container in plane.configs.values() {
        let Some(label) = container.labels.get(PRIORITY_LABEL) else {
            continue;
        };
        if label.value.parse::<i32>().is_err() {
            findings.push(
                Diagnostic::error(
                    "bad-priority",
                    format!("`{}` is not a priority", label.value),
                )
                .at(&label.location)
                .help(format!(
                    "write a whole number in quotes: `{PRIORITY_LABEL}: \"10\"`"
                )),
            );
        }
        if let Some(listed) = policy.priorities.iter().find(|p| p.value == container.name) {
            findings.push(
                Diagnostic::error(
                    "two-priorities",
                    format!("`{}` has two priorities", container.name),
                )
                .at(&label.location)
                .related(&listed.location, "it is in the policy's list, too")
                .help("remove one of them"),
            );
        }
    }
}
