//! `SchedulingPolicy`: which deployment targets go to which cluster types.
//!
//! What comes in: the object's fields. What goes out: a [`SchedulingPolicy`] whose selectors
//! Kubernetes would accept, each requirement with its place. Kalypso's has two selectors; ours adds what
//! a [`Placement`] says. What is unsound is refused: a rule that is not understood places nothing.

use serde_json::json;

use super::super::diagnostic::Diagnostic;
use super::super::model::{
    Effect, Placement, Preference, SchedulingPolicy, Spanned, Spread, Toleration,
};
use super::super::selector::{Operator, Requirement, Selector};
use super::super::yaml::Node;
use super::fields::{FieldReader, Fields};
use super::label_selector::{self, selector};
use super::metadata::Metadata;
use super::shape::{
    self, Field, KindSchema, LABEL_NAME, LABELS, any_text, kind, may, must, object, one_of,
    pattern, selected, some, text, whole,
};
use super::{KALYPSO, OUTHAUL};

/// The largest weight of a preference, as in Kubernetes.
const MAX_WEIGHT: u32 = 100;
/// More cluster types than anybody has.
const MAX_COUNT: u32 = 100_000;

pub(super) fn kalypso_described() -> KindSchema {
    kind(
        KALYPSO,
        "SchedulingPolicy",
        "A rule that maps deployment targets to cluster types. Outhaul's kind of this name can do more.",
        LABELS,
        object(selectors()),
    )
}

/// What both groups' policies have.
fn selectors() -> Vec<Field> {
    vec![
        must(
            "deploymentTargetSelector",
            "Which deployment targets.",
            object(vec![
                may(
                    "workspace",
                    "Only this workspace (team); any when left out.",
                    any_text("team"),
                ),
                may(
                    "labelSelector",
                    "Which labels they must have.",
                    shape::selector(),
                ),
            ]),
        ),
        must("clusterTypeSelector", "Which cluster types.", selected()),
    ]
}

pub(super) fn own_described() -> KindSchema {
    let term = object(vec![must(
        "labelSelector",
        "What the cluster type must have.",
        shape::selector(),
    )]);
    let preference = object(vec![
        must(
            "weight",
            "Added to the score of a cluster type that matches.",
            whole(1..=MAX_WEIGHT),
        ),
        must(
            "labelSelector",
            "For which cluster types.",
            shape::selector(),
        ),
    ]);
    let spread = object(vec![
        must(
            "label",
            "The label's name; objects without it do not match.",
            pattern(LABEL_NAME, "zone"),
        ),
        may(
            "maxPerValue",
            "The most cluster types with one value; 1 when left out.",
            whole(1..=MAX_COUNT),
        ),
    ]);
    let toleration = object(vec![
        may(
            "key",
            "The taint's key; with `operator: Exists` it may be left out, and means every taint.",
            any_text("dedicated"),
        ),
        may(
            "operator",
            "`Equal` compares the value, `Exists` does not; `Equal` when left out.",
            one_of(&OPERATORS),
        ),
        may("value", "The taint's value.", any_text("ml")),
        may(
            "effect",
            "Only this effect; every one when left out.",
            one_of(&Effect::ALL.map(Effect::as_str)),
        ),
    ]);
    let named = json!([
        {"required": ["key"], "properties": {"key": {"type": "string", "minLength": 1}}},
        {"required": ["operator"], "properties": {"operator": {"const": "Exists"}}},
    ]);
    let valueless = json!([{
        "if": {"required": ["operator"], "properties": {"operator": {"const": "Exists"}}},
        "then": {"properties": {"value": {"maxLength": 0}}},
    }]);
    let toleration = toleration.with("anyOf", named).with("allOf", valueless);
    let mut fields = selectors();
    fields.extend([
        may(
            "required",
            "One of these terms must match; what is in one term must hold together.",
            some(term),
        ),
        may(
            "preferred",
            "Preferences among cluster types, where `maxClusterTypes` or `spread` leave a choice: the weights of all that match are added, the highest are taken, names decide between equals.",
            some(preference),
        ),
        may("maxClusterTypes", "The most cluster types that it takes.", whole(1..=MAX_COUNT)),
        may("spread", "At most so many cluster types with the same value of a label.", spread),
        may("tolerations", "Taints that do not keep it away.", some(toleration)),
        may(
            "siteSelector",
            "Which sites of the cluster types that it takes, by their labels, `site` (the name) and `ring`; all when left out. The others run without it.",
            object(vec![must("labelSelector", "What the site must have.", shape::selector())]),
        ),
        may(
            "scheduler",
            "A program that chooses among the candidates; who runs outhaul names it with `--scheduler NAME=PROGRAM`.",
            text("cost"),
        ),
    ]);
    kind(
        OUTHAUL,
        "SchedulingPolicy",
        "A rule that maps deployment targets to cluster types: filter, score, spread.",
        LABELS,
        object(fields),
    )
}

pub(super) fn kalypso(
    reader: &mut FieldReader<'_>,
    object: &Fields<'_>,
) -> Option<SchedulingPolicy> {
    // What only our group has.
    let own = super::described(OUTHAUL, "SchedulingPolicy");
    let own = own.map_or_else(Vec::new, |kind| kind.shape.field("spec").names());
    read(reader, object, |key| {
        own.contains(&key).then(|| {
            format!("policies of `apiVersion: {OUTHAUL}` have `{key}`: change the policy's")
        })
    })
    .0
}

pub(super) fn own(reader: &mut FieldReader<'_>, object: &Fields<'_>) -> Option<SchedulingPolicy> {
    let (policy, spec) = read(reader, object, |_| None);
    let placement = placement(reader, &spec?);
    let mut policy = policy?;
    policy.placement = placement?;
    idle_terms(reader, &policy);
    Some(policy)
}

fn read<'n>(
    reader: &mut FieldReader<'_>,
    object: &Fields<'n>,
    hint: impl Fn(&str) -> Option<String>,
) -> (Option<SchedulingPolicy>, Option<Fields<'n>>) {
    let metadata = Metadata::read(reader, object);
    let Some(spec) = reader.section_hinting(object, "spec", hint) else {
        return (None, None);
    };
    let target = reader.section(&spec, "deploymentTargetSelector");
    let cluster_types = label_selector::section(reader, &spec, "clusterTypeSelector");
    let workspace = target
        .as_ref()
        .and_then(|target| reader.optional_text(target, "workspace"));
    let targets = target.and_then(|target| selector(reader, &target));
    let policy = match (metadata, targets, cluster_types) {
        (Some(metadata), Some(targets), Some(cluster_types)) => Some(SchedulingPolicy {
            name: metadata.name,
            workspace,
            targets,
            cluster_types,
            placement: Placement::default(),
            location: metadata.location,
        }),
        _ => None,
    };
    (policy, Some(spec))
}

/// `None` when any part of it is unsound.
fn placement(reader: &mut FieldReader<'_>, spec: &Fields<'_>) -> Option<Placement> {
    let required = terms(reader, spec, "required", |reader, term| {
        Some(Spanned {
            value: wanted(reader, term)?,
            location: reader.location(term.node),
        })
    });
    let preferred = terms(reader, spec, "preferred", preference);
    let max_cluster_types = optional(spec, "maxClusterTypes", || {
        reader.integer(spec, "maxClusterTypes")
    });
    let spread = optional(spec, "spread", || spread(reader, spec));
    let tolerations = terms(reader, spec, "tolerations", toleration);
    let sites = optional(spec, "siteSelector", || sites(reader, spec));
    let scheduler = optional(spec, "scheduler", || reader.text(spec, "scheduler"));
    Some(Placement {
        required: required?,
        preferred: preferred?,
        max_cluster_types: max_cluster_types?,
        spread: spread?,
        tolerations: tolerations?,
        sites: sites?,
        scheduler: scheduler?,
    })
}

/// `Some(None)` when the field is not there, `None` when it is and unsound.
#[expect(
    clippy::option_option,
    reason = "absent and unsound are different, and what is unsound was reported"
)]
fn optional<T>(
    fields: &Fields<'_>,
    key: &str,
    read: impl FnOnce() -> Option<T>,
) -> Option<Option<T>> {
    match fields.field(key) {
        None => Some(None),
        Some(_) => read().map(Some),
    }
}

/// The list under `key`, each of its maps read by `read`; `None` when one is unsound or it is empty.
fn terms<T>(
    reader: &mut FieldReader<'_>,
    spec: &Fields<'_>,
    key: &str,
    mut read: impl FnMut(&mut FieldReader<'_>, &Fields<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let Some(node) = spec.field(key) else {
        return Some(Vec::new());
    };
    let items: &[Node] = reader.list(spec, key);
    if items.is_empty() {
        let location = reader.location(node);
        reader.report(
            Diagnostic::error("missing-field", format!("`{}.{key}` is empty", spec.what))
                .at(&location)
                .help("give at least one term, or leave it out"),
        );
        return None;
    }
    let mut made = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let what = format!("{}.{key}[{at}]", spec.what);
        let fields = reader.map(item, &what, spec.shape.field(key).item());
        made.extend(fields.and_then(|fields| read(reader, &fields)));
    }
    (made.len() == items.len()).then_some(made)
}

/// A selector that must ask something: in a term, an empty one is a mistake.
fn wanted(reader: &mut FieldReader<'_>, term: &Fields<'_>) -> Option<Selector> {
    let selector = selector(reader, term)?;
    if selector.requirements.is_empty() {
        let location = reader.location(term.node);
        reader.report(
            Diagnostic::error(
                "missing-field",
                format!("`{}.labelSelector` asks nothing", term.what),
            )
            .at(&location)
            .help("name at least one label, or leave the term out"),
        );
        return None;
    }
    Some(selector)
}

fn sites(reader: &mut FieldReader<'_>, spec: &Fields<'_>) -> Option<Spanned<Selector>> {
    let fields = reader.section(spec, "siteSelector")?;
    Some(Spanned {
        value: wanted(reader, &fields)?,
        location: reader.location(fields.node),
    })
}

fn preference(reader: &mut FieldReader<'_>, term: &Fields<'_>) -> Option<Preference> {
    let location = reader.location(term.node);
    if term.field("weight").is_none() {
        reader.report(
            Diagnostic::error(
                "missing-field",
                format!("`{}.weight` is missing", term.what),
            )
            .at(&location)
            .help(format!("write a whole number from 1 to {MAX_WEIGHT}")),
        );
    }
    let weight = reader.integer(term, "weight");
    let selector = wanted(reader, term);
    Some(Preference {
        weight: weight?.value,
        selector: selector?,
        location,
    })
}

fn spread(reader: &mut FieldReader<'_>, spec: &Fields<'_>) -> Option<Spread> {
    let fields = reader.section(spec, "spread")?;
    let label = reader.text(&fields, "label");
    let max_per_value = optional(&fields, "maxPerValue", || {
        reader.integer(&fields, "maxPerValue")
    });
    let label = label?;
    // The same rule as for a selector's key.
    if let Err(error) = Requirement::new(&label.value, Operator::Exists, []) {
        reader.report(Diagnostic::error("bad-value", error.to_string()).at(&label.location));
        return None;
    }
    Some(Spread {
        label,
        max_per_value: max_per_value?.map_or(1, |count| count.value),
    })
}

/// What a toleration compares.
const OPERATORS: [&str; 2] = ["Equal", "Exists"];

fn toleration(reader: &mut FieldReader<'_>, term: &Fields<'_>) -> Option<Toleration> {
    let location = reader.location(term.node);
    let key = reader
        .optional_text(term, "key")
        .filter(|key| !key.value.is_empty());
    let value = reader.optional_text(term, "value");
    let effect = optional(term, "effect", || {
        reader.choice(term, "effect", Effect::ALL, Effect::as_str)
    });
    let operator = optional(term, "operator", || {
        reader.choice(term, "operator", OPERATORS, |name| name)
    });
    let exists = operator?.is_some_and(|operator| operator.value == "Exists");
    let effect = effect?.map(|effect| effect.value);
    let mut refuse = |message: &str, help: &str| {
        reader.report(
            Diagnostic::error("bad-value", format!("`{}` {message}", term.what))
                .at(&location)
                .help(help),
        );
        None
    };
    if exists && value.as_ref().is_some_and(|value| !value.value.is_empty()) {
        return refuse(
            "has a value, which `Exists` does not compare",
            "remove `value`, or write `operator: Equal`",
        );
    }
    if !exists && key.is_none() {
        return refuse(
            "has no key",
            "name the taint's key, or write `operator: Exists` to tolerate every taint",
        );
    }
    Some(Toleration {
        key: key.map(|key| key.value),
        value: (!exists).then(|| value.map(|value| value.value).unwrap_or_default()),
        effect,
        location,
    })
}

/// Preferences of a policy that takes everything anyway.
fn idle_terms(reader: &mut FieldReader<'_>, policy: &SchedulingPolicy) {
    let placement = &policy.placement;
    let chooses = placement.max_cluster_types.is_some()
        || placement.spread.is_some()
        || placement.scheduler.is_some();
    if let (Some(first), false) = (placement.preferred.first(), chooses) {
        reader.report(
            Diagnostic::warning(
                "idle-preference",
                format!(
                    "policy `{}` takes every cluster type that it may, so its preferences decide nothing",
                    policy.name
                ),
            )
            .at(&first.location)
            .help("add `maxClusterTypes` or `spread`, or write them as `required`"),
        );
    }
}
