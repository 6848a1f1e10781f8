//! Outhaul's own kinds as schemas.

use serde_json::{Value, json};

use super::Kind;
use super::kalypso::{selectors, template_fields};
use super::shape::{
    LABEL, LABEL_VALUE, any_text, kind, list, may, must, object, one_of, pattern, selected,
    selector, some, text, whole,
};
use crate::kinds::OUTHAUL;
use crate::model::composition::{ArrayRule, Conflicts, Precedence};
use crate::model::{Drift, Effect, Encryption, Images, ReconcilerKind, Road};

const LABELS: &str = "Labels, as text: quote `\"true\"` and numbers.";
/// More cluster types than anybody has.
const MANY: u32 = 100_000;

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        acknowledgement(),
        composition(),
        delivery(),
        promotion(),
        policy(),
        site(),
        taint(),
        template(),
    ]
}

fn acknowledgement() -> Kind {
    kind(
        OUTHAUL,
        "Acknowledgement",
        "Says that a large removal is meant: lets through one list of assignments and no other.",
        LABELS,
        object(vec![
            must(
                "removal",
                "The code that the refusal printed, in quotation marks.",
                pattern("^[0-9a-f]{16}$", "0123456789abcdef"),
            ),
            must("reason", "Why they are to go.", text("the line was closed")),
        ]),
    )
}

fn composition() -> Kind {
    let containers = json!({"type": "array", "items": {"type": "string"}});
    let conflict = object(vec![
        may(
            "containers",
            "The containers that may contradict each other about it.",
            containers,
        ),
        must("key", "The key.", text("LOG_LEVEL")),
    ]);
    let allowed = json!({"anyOf": [any_text("LOG_LEVEL"), conflict]});
    let by_key = json!({"type": "object", "additionalProperties": one_of(&ArrayRule::NAMES)});
    let mut spec = object(vec![
        may(
            "allowed",
            "Keys that may be set twice alike: a key, or a key with its containers.",
            list(allowed),
        ),
        may(
            "arrays",
            "What becomes of lists that two containers set.",
            one_of(&ArrayRule::NAMES),
        ),
        may("arraysByKey", "The same for single keys.", by_key),
        may(
            "conflicts",
            "What becomes of two containers that are equal and differ.",
            one_of(&Conflicts::NAMES),
        ),
        may(
            "precedence",
            "What decides between containers.",
            described_choice(&Precedence::NAMES, "priority"),
        ),
        may(
            "priorities",
            "With `precedence: priority`: containers, the weakest first.",
            list(any_text("common")),
        ),
    ]);
    // What could never mean anything is refused.
    spec["allOf"] = json!([
        {
            "if": {"required": ["precedence"], "properties": {"precedence": {"const": "priority"}}},
            "else": {"properties": {"priorities": {"type": "null"}}},
        },
        {
            "if": {
                "required": ["precedence"],
                "properties": {"precedence": {"enum": ["priority", "specificity"]}},
            },
            "else": {"properties": {"conflicts": {"enum": ["later-wins", null]}}},
        },
    ]);
    kind(
        OUTHAUL,
        "CompositionPolicy",
        "Which config container wins where several set one key, and what becomes of lists.",
        LABELS,
        spec,
    )
}

/// Words, of which one is the example.
fn described_choice(words: &[&str], example: &str) -> Value {
    let mut shape = one_of(words);
    shape["examples"] = json!([example]);
    shape
}

fn delivery() -> Kind {
    let size = json!({
        "type": ["string", "integer"],
        "pattern": "^[0-9]+(\\.[0-9]{1,3})? *(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)?$",
        "minimum": 1,
        "examples": ["600 MB"],
    });
    kind(
        OUTHAUL,
        "DeliveryPolicy",
        "How the platform of some cluster types travels. Several policies may each say a part; two that contradict each other are an error.",
        LABELS,
        object(vec![
            must(
                "clusterTypeSelector",
                "For which cluster types.",
                selected(),
            ),
            may(
                "delivery",
                "By which road; `git` alone writes no bundles.",
                one_of(&Road::ALL.map(Road::as_str)),
            ),
            may(
                "images",
                "Whether images travel in bundles.",
                described_choice(&[Images::Reference.as_str()], "reference"),
            ),
            may(
                "expiresDays",
                "Days until a bundle may no longer be installed; 180 when nobody says.",
                whole(1, 3650),
            ),
            may(
                "encryption",
                "`required`: a bundle that names no readers is refused. `none`: one that does is refused.",
                one_of(&Encryption::ALL.map(Encryption::as_str)),
            ),
            may(
                "sizeBudget",
                "The most bytes that one bundle may have, such as `600 MB` or `4.7GiB`.",
                size,
            ),
            may(
                "maxRemovalPercent",
                "The largest share of assignments that one change may remove; 30 when nobody says.",
                whole(0, 100),
            ),
            may(
                "drift",
                "What sites do about what somebody changed by hand: `report` it, which is the default, or `correct` it as well.",
                one_of(&Drift::ALL.map(Drift::as_str)),
            ),
        ]),
    )
}

fn promotion() -> Kind {
    kind(
        OUTHAUL,
        "PromotionPolicy",
        "What the step from one environment to the next needs; it lies in `.environments/` on the main branch.",
        LABELS,
        object(vec![
            must("from", "The environment whose sites decide.", text("dev")),
            must(
                "to",
                "The environment that is moved; nothing else may be promoted into it.",
                text("stage"),
            ),
            may(
                "minConfirmedPercent",
                "The share of sites that must have confirmed; all of them when left out.",
                whole(1, 100),
            ),
            may(
                "maxReportAgeHours",
                "The oldest report that counts, in hours.",
                whole(1, 87_600),
            ),
        ]),
    )
}

fn policy() -> Kind {
    let term = object(vec![must(
        "labelSelector",
        "What the cluster type must have.",
        selector(),
    )]);
    let preference = object(vec![
        must(
            "weight",
            "How much it speaks for a cluster type.",
            whole(1, 100),
        ),
        must("labelSelector", "For which cluster types.", selector()),
    ]);
    let spread = object(vec![
        must(
            "label",
            "The label's name; what lacks it is not taken.",
            pattern(LABEL, "zone"),
        ),
        may(
            "maxPerValue",
            "The most cluster types with one value; 1 when left out.",
            whole(1, MANY),
        ),
    ]);
    let mut toleration = object(vec![
        may(
            "key",
            "The taint's key; with `operator: Exists` it may be left out, and means every taint.",
            any_text("dedicated"),
        ),
        may(
            "operator",
            "`Equal` compares the value, `Exists` does not; `Equal` when left out.",
            one_of(&["Equal", "Exists"]),
        ),
        may("value", "The taint's value.", any_text("ml")),
        may(
            "effect",
            "Only this effect; every one when left out.",
            one_of(&Effect::ALL.map(Effect::as_str)),
        ),
    ]);
    toleration["anyOf"] = json!([
        {"required": ["key"], "properties": {"key": {"type": "string", "minLength": 1}}},
        {"required": ["operator"], "properties": {"operator": {"const": "Exists"}}},
    ]);
    toleration["allOf"] = json!([{
        "if": {"required": ["operator"], "properties": {"operator": {"const": "Exists"}}},
        "then": {"properties": {"value": {"maxLength": 0}}},
    }]);
    let mut fields = selectors();
    fields.extend([
        may(
            "required",
            "One of these terms must match; what is in one term must hold together.",
            some(term),
        ),
        may(
            "preferred",
            "What speaks for a cluster type, where `maxClusterTypes` or `spread` leave a choice: the weights of all that match are added, the highest are taken, names decide between equals.",
            some(preference),
        ),
        may("maxClusterTypes", "The most cluster types that it takes.", whole(1, MANY)),
        may("spread", "At most so many cluster types with the same value of a label.", spread),
        may("tolerations", "Taints that do not keep it away.", some(toleration)),
        may(
            "siteSelector",
            "Which sites of the cluster types that it takes, by their labels, `site` (the name) and `ring`; all when left out. The others run without it.",
            object(vec![must("labelSelector", "What the site must have.", selector())]),
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

fn site() -> Kind {
    kind(
        OUTHAUL,
        "Site",
        "One physical cluster or host.",
        "Its own labels: config containers that match them compose values for this site alone.",
        object(vec![
            must("clusterType", "Its cluster type.", text("drone")),
            may(
                "ring",
                "The ring in which it is updated.",
                any_text("canary"),
            ),
            may(
                "publicKey",
                "Its public key, as PEM text.",
                any_text("-----BEGIN PUBLIC KEY-----"),
            ),
        ]),
    )
}

fn taint() -> Kind {
    kind(
        OUTHAUL,
        "Taint",
        "Keeps policies away from cluster types; Kalypso's policies too, which tolerate nothing.",
        LABELS,
        object(vec![
            must(
                "clusterTypeSelector",
                "Which cluster types it is on.",
                selected(),
            ),
            must(
                "key",
                "Its key, which tolerations name.",
                pattern(LABEL, "dedicated"),
            ),
            may("value", "Its value.", pattern(LABEL_VALUE, "ml")),
            must(
                "effect",
                "`NoSchedule` keeps away, `PreferNoSchedule` is taken last by policies that limit how many they take.",
                one_of(&Effect::ALL.map(Effect::as_str)),
            ),
        ]),
    )
}

/// Any name; an editor offers those that are known.
fn reconciler() -> Value {
    let known: Vec<String> = ReconcilerKind::KNOWN
        .iter()
        .map(|kind| kind.as_str().to_owned())
        .collect();
    let mut any = pattern("^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$", "symphony");
    any["examples"] = known.into();
    any
}

fn template() -> Kind {
    let mut fields = template_fields(
        "The manifests, each as text in Jinja (`- |`).",
        pattern("^([A-Za-z0-9]+([.][A-Za-z0-9]+)*)?$", "yaml"),
    );
    fields.push(may(
        "reconciler",
        "What makes its result real on site: one that Outhaul knows, or the name of a hook program; told from \
         its text when left out.",
        reconciler(),
    ));
    kind(
        OUTHAUL,
        "Template",
        "How an assignment becomes manifests, in Jinja.",
        LABELS,
        object(fields),
    )
}
