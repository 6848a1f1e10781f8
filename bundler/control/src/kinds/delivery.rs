//! `DeliveryPolicy` (our group): how the platform of some cluster types travels.
//!
//! What comes in: the object's fields. What goes out: a [`DeliveryPolicy`], every field with its place.
//! What cannot be done is refused here rather than ignored later.

use std::collections::BTreeMap;

use outhaul_bundle::index::waves::{MAX_HOURS, MAX_SEED_BYTES, Wave, Waves};
use outhaul_kit::size;
use serde_json::json;

use super::super::diagnostic::Diagnostic;
use super::super::model::{
    Bootstrap, Charts, DeliveryPolicy, Drift, EXPIRES_DAYS, EXPIRES_DAYS_DEFAULT, Encryption,
    Images, MAX_REMOVAL_PERCENT_DEFAULT, Spanned, Transport,
};
use super::super::yaml::YamlValue;
use super::OUTHAUL;
use super::fields::{FieldReader, Fields};
use super::label_selector;
use super::metadata::Metadata;
use super::shape::{
    KindSchema, LABELS, Shape, kind, may, must, object, one_of, selected, some, text, whole,
};

mod image_fields;
mod image_signatures;
mod named_json;
mod platforms;
mod statements;
mod trusted_roots;

pub(super) fn described() -> KindSchema {
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
                "The transport; `git` alone writes no bundles.",
                one_of(&Transport::ALL.map(Transport::as_str)),
            ),
            may(
                "images",
                "`carry`: images, and the repositories that rendered objects name, travel in bundles. `reference`: the site gets them itself.",
                one_of(&Images::ALL.map(Images::as_str)),
            ),
            may(
                "platforms",
                "For which platforms images travel; without it for all that they have. Their index stays as it is.",
                platforms::shape(),
            ),
            may(
                "charts",
                "How the images of charts are found: `values`, the default, in values and templates as they are written; `render`, in what `helm template` makes of them.",
                one_of(&Charts::ALL.map(Charts::as_str)),
            ),
            may(
                "imageFields",
                "In which fields of custom resources there are images, which travel as those of containers do.",
                image_fields::shape(),
            ),
            may(
                "expiresDays",
                default("Days until a bundle may no longer be installed", EXPIRES_DAYS_DEFAULT),
                whole(EXPIRES_DAYS),
            ),
            may(
                "encryption",
                "`required`: a bundle that names no readers is refused. `none`: one that does is refused.",
                one_of(&Encryption::ALL.map(Encryption::as_str)),
            ),
            may(
                "sizeBudget",
                "The most bytes that one bundle may have, such as `600 MB` or `4.7GiB`.",
                size_shape(),
            ),
            may(
                "maxRemovalPercent",
                default("The largest share of assignments that one change may remove", MAX_REMOVAL_PERCENT_DEFAULT),
                whole(0..=100),
            ),
            may(
                "drift",
                "How sites handle changes by hand: `report` it, which is the default, or `correct` it as well.",
                one_of(&Drift::ALL.map(Drift::as_str)),
            ),
            may(
                "scan",
                "The scanner that reads the bill of materials of each bundle and may forbid it; who runs `outhaul` names its program (`--scanner NAME=PROGRAM`).",
                text("grype"),
            ),
            may(
                "imageSignatures",
                "Which images that travel must be signed (by `cosign sign`), and by whom: the first entry that fits an image's whole name counts.",
                image_signatures::shape(),
            ),
            may(
                "trustedRoots",
                "What certificates of identities in `imageSignatures` are verified with. Nothing fetches a newer one: it is as new as what is written here.",
                trusted_roots::shape(),
            ),
            may(
                statements::FIELD,
                "Statements about exploitability that travel with each bundle (OpenVEX): at the hub they clear what an advisory is about, in that bundle alone.",
                statements::shape(),
            ),
            may(
                "waves",
                "Which sites take a bundle first: each wave has a share of the sites, and runs for some hours before the next one begins. Which site belongs to which wave follows from the seed and its name.",
                waves_shape(),
            ),
            may(
                "waveSeed",
                "Distributes the sites over the waves; another text gives another order. Without it, environment and cluster type.",
                text("2026-q4"),
            ),
            may(
                "bootstrap",
                "What brings a cluster its reconciler, such as Flux: the agent applies these deployment targets itself, with all their manifests, before all others, and waits until they are ready.",
                bootstrap_shape(),
            ),
        ])
        .with("allOf", image_signatures::roots_where_named()),
    )
}

fn default(about: &str, value: impl std::fmt::Display) -> String {
    format!("{about}; default {value}.")
}

fn size_shape() -> serde_json::Value {
    json!({
        "type": ["string", "integer"],
        "pattern": size::PATTERN,
        "minimum": 1,
        "examples": ["600 MB"],
    })
}

fn waves_shape() -> Shape {
    some(object(vec![
        must(
            "percent",
            "How many of 100 sites; all waves together 100.",
            Shape::from(whole(1..=100)).with("examples", json!([100])),
        ),
        may(
            "hours",
            "For how many hours it runs before the next wave begins; default 0. Of the last wave it means nothing.",
            whole(0..=MAX_HOURS),
        ),
    ]))
}

fn bootstrap_shape() -> Shape {
    object(vec![
        must(
            "targets",
            "Full names of deployment targets.",
            some(text("flux-system")),
        ),
        must(
            "reconciler",
            "The template for them in the place of the cluster type's; one for `kubernetes`.",
            text("kubernetes"),
        ),
    ])
}

pub(super) fn read(reader: &mut FieldReader<'_>, object: &Fields<'_>) -> Option<DeliveryPolicy> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec")?;
    let cluster_types = label_selector::section(reader, &spec, "clusterTypeSelector");
    let delivery = reader.choice(&spec, "delivery", Transport::ALL, Transport::as_str);
    let images = reader.choice(&spec, "images", Images::ALL, Images::as_str);
    let platforms = platforms::read(reader, &spec);
    let charts = reader.choice(&spec, "charts", Charts::ALL, Charts::as_str);
    let image_fields = image_fields::read(reader, &spec);
    let expires_days = reader.integer(&spec, "expiresDays");
    let encryption = reader.choice(&spec, "encryption", Encryption::ALL, Encryption::as_str);
    let size_budget = size_of(reader, &spec, "sizeBudget");
    let max_removal = reader.integer(&spec, "maxRemovalPercent");
    let drift = reader.choice(&spec, "drift", Drift::ALL, Drift::as_str);
    let scan = scan(reader, &spec);
    let trusted_roots = trusted_roots::read(reader, &spec);
    let image_signatures = image_signatures::read(reader, &spec, trusted_roots.as_ref());
    let vex = statements::read(reader, &spec);
    let waves = waves(reader, &spec);
    let wave_seed = wave_seed(reader, &spec);
    let bootstrap = bootstrap(reader, &spec);
    let mut places = BTreeMap::new();
    note(&mut places, "delivery", delivery.as_ref());
    note(&mut places, "images", images.as_ref());
    note(&mut places, "platforms", platforms.as_ref());
    note(&mut places, "charts", charts.as_ref());
    note(&mut places, "imageFields", image_fields.as_ref());
    note(&mut places, "expiresDays", expires_days.as_ref());
    note(&mut places, "encryption", encryption.as_ref());
    note(&mut places, "sizeBudget", size_budget.as_ref());
    note(&mut places, "maxRemovalPercent", max_removal.as_ref());
    note(&mut places, "drift", drift.as_ref());
    note(&mut places, "scan", scan.as_ref());
    note(&mut places, "imageSignatures", image_signatures.as_ref());
    note(&mut places, "trustedRoots", trusted_roots.as_ref());
    note(&mut places, statements::FIELD, vex.as_ref());
    note(&mut places, "waves", waves.as_ref());
    note(&mut places, "waveSeed", wave_seed.as_ref());
    note(&mut places, "bootstrap", bootstrap.as_ref());
    let known = spec.shape.names();
    let written = known.iter().filter(|key| spec.field(key).is_some()).count();
    // One for the selector; a field that did not read must not count as one that says nothing.
    if written != places.len() + usize::from(spec.field("clusterTypeSelector").is_some()) {
        return None;
    }
    let metadata = metadata?;
    // One that is written without a value was reported as that.
    if places.is_empty() && !spec.has_field_without_value() {
        reader.report(
            Diagnostic::warning(
                "idle-policy",
                format!("delivery policy `{}` sets no field", metadata.name),
            )
            .at(&metadata.location)
            .help(format!("write at least one of {}", known[1..].join(", "))),
        );
    }
    Some(DeliveryPolicy {
        name: metadata.name,
        cluster_types: cluster_types?,
        delivery: delivery.map(|spanned| spanned.value),
        images: images.map(|spanned| spanned.value),
        platforms: platforms.map(|spanned| spanned.value),
        charts: charts.map(|spanned| spanned.value),
        image_fields: image_fields.map(|spanned| spanned.value),
        expires_days: expires_days.map(|spanned| spanned.value),
        encryption: encryption.map(|spanned| spanned.value),
        size_budget: size_budget.map(|spanned| spanned.value),
        max_removal_percent: max_removal.and_then(|spanned| u8::try_from(spanned.value).ok()),
        drift: drift.map(|spanned| spanned.value),
        scan: scan.map(|spanned| spanned.value),
        image_signatures: image_signatures.map(|spanned| spanned.value),
        vex: vex.map(|spanned| spanned.value),
        waves: waves.map(|spanned| spanned.value),
        wave_seed: wave_seed.map(|spanned| spanned.value),
        bootstrap: bootstrap.map(|spanned| spanned.value),
        places,
        location: metadata.location,
    })
}

/// The name of a scanner; `None` when it is not there, or blank, which was reported then.
fn scan(reader: &mut FieldReader<'_>, spec: &Fields<'_>) -> Option<Spanned<String>> {
    let name = reader.optional_text(spec, "scan")?;
    if name.value.trim().is_empty() {
        let message = format!(
            "`{}.scan` is not the name of a scanner: it is blank",
            spec.what
        );
        let finding = Diagnostic::error("bad-value", message).at(&name.location);
        reader.report(finding.help(
            "write the name that `--scanner NAME=PROGRAM` gives a program, such as `grype`; where nothing is to be scanned, remove the line",
        ));
        return None;
    }
    Some(name)
}

/// Shares and hours; `None` when they are not there, or unsound, which was reported then.
fn waves(reader: &mut FieldReader<'_>, spec: &Fields<'_>) -> Option<Spanned<Vec<Wave>>> {
    let node = spec.field("waves")?;
    let location = reader.location(node);
    let items = reader.list(spec, "waves");
    let mut made = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let what = format!("{}.waves[{at}]", spec.what);
        let fields = reader.map(item, &what, spec.shape.field("waves").item())?;
        if fields.field("percent").is_none() {
            reader.text(&fields, "percent");
            return None;
        }
        let percent = reader.integer(&fields, "percent")?.value;
        let hours = match fields.field("hours") {
            None => 0,
            Some(_) => reader.integer(&fields, "hours")?.value,
        };
        made.push(Wave {
            percent: u8::try_from(percent).ok()?,
            hours,
        });
    }
    let tried = Waves {
        seed: "any".to_owned(),
        waves: made.clone(),
    };
    if let Some(problem) = tried.problem() {
        reader.report(
            Diagnostic::error("bad-value", format!("`{}.waves`: {problem}", spec.what))
                .at(&location)
                .help("give each wave its `percent` of the sites; together they are 100"),
        );
        return None;
    }
    Some(Spanned {
        value: made,
        location,
    })
}

/// Targets and a template; `None` when they are not there, or not whole, which was reported then.
fn bootstrap(reader: &mut FieldReader<'_>, spec: &Fields<'_>) -> Option<Spanned<Bootstrap>> {
    let node = spec.field("bootstrap")?;
    let location = reader.location(node);
    let fields = reader.section(spec, "bootstrap")?;
    let targets = reader.texts(&fields, "targets");
    let reconciler = reader.text(&fields, "reconciler");
    let written = match fields.field("targets").map(|node| &node.value) {
        Some(YamlValue::Sequence(items)) => items.len(),
        // It was reported.
        Some(_) => return None,
        None => 0,
    };
    if written == 0 {
        let message = format!("`{}.targets` names no deployment target", fields.what);
        let finding = Diagnostic::error("bad-value", message).at(&location);
        reader.report(finding.help("name those that bring the reconciler, such as `flux-system`"));
        return None;
    }
    let reconciler = reconciler?;
    (targets.len() == written).then_some(Spanned {
        value: Bootstrap {
            targets,
            reconciler,
        },
        location,
    })
}

fn wave_seed(reader: &mut FieldReader<'_>, spec: &Fields<'_>) -> Option<Spanned<String>> {
    spec.field("waveSeed")?;
    let seed = reader.text(spec, "waveSeed")?;
    if seed.value.len() > MAX_SEED_BYTES || seed.value.chars().any(char::is_control) {
        let finding = Diagnostic::error(
            "bad-value",
            format!("a seed is text of at most {MAX_SEED_BYTES} bytes"),
        );
        reader.report(finding.at(&seed.location));
        return None;
    }
    Some(seed)
}

fn note<T>(
    places: &mut BTreeMap<&'static str, super::super::diagnostic::Location>,
    field: &'static str,
    spanned: Option<&Spanned<T>>,
) {
    if let Some(spanned) = spanned {
        places.insert(field, spanned.location.clone());
    }
}

fn size_of(reader: &mut FieldReader<'_>, spec: &Fields<'_>, key: &str) -> Option<Spanned<u64>> {
    let node = spec.field(key)?;
    // A bare number is a number to YAML and bytes to us.
    let written = match &node.value {
        YamlValue::Number(written) => written.clone(),
        _ => reader.optional_text(spec, key)?.value,
    };
    let location = reader.location(node);
    let value = size::parse(&written).filter(|bytes| *bytes > 0);
    let Some(value) = value else {
        reader.report(
            Diagnostic::error("bad-value", format!("`{written}` is not a size"))
                .at(&location)
                .help(format!(
                    "write a number and a unit, such as `600 MB` or `4.7GiB`; units are {}",
                    size::UNIT_NAMES
                )),
        );
        return None;
    };
    Some(Spanned { value, location })
}
