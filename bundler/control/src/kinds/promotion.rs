//! `PromotionPolicy` (our group): what the step from one environment to the next needs.
//!
//! What comes in: the object's fields. What goes out: a [`PromotionPolicy`] with what the hub's gate can
//! be asked for, and nothing that nobody would enforce.

use outhaul_bundle::hub_api::{MAX_AGE_HOURS, QUORUM_PERCENT};

use super::super::diagnostic::Diagnostic;
use super::super::model::PromotionPolicy;
use super::OUTHAUL;
use super::fields::{Fields, Reader};
use super::metadata::Metadata;
use super::shape::{KindSchema, LABELS, kind, may, must, object, text, whole};

pub(super) fn described() -> KindSchema {
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
                whole(QUORUM_PERCENT),
            ),
            may(
                "maxReportAgeHours",
                "The oldest report that counts, in hours.",
                whole(MAX_AGE_HOURS),
            ),
        ]),
    )
}

pub(super) fn read(reader: &mut Reader<'_>, object: &Fields<'_>) -> Option<PromotionPolicy> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec")?;
    let from = reader.text(&spec, "from");
    let to = reader.text(&spec, "to");
    let percent = reader.integer(&spec, "minConfirmedPercent");
    let hours = reader.integer(&spec, "maxReportAgeHours");
    // A rule that does not read must not become the absence of a rule.
    let unsound = (percent.is_none() && spec.field("minConfirmedPercent").is_some())
        || (hours.is_none() && spec.field("maxReportAgeHours").is_some());
    let (metadata, from, to) = (metadata?, from?, to?);
    if from.value == to.value {
        reader.report(
            Diagnostic::error(
                "bad-value",
                format!("`{}` cannot be promoted into itself", to.value),
            )
            .at(&to.location)
            .related(&from.location, "the same environment"),
        );
        return None;
    }
    (!unsound).then_some(PromotionPolicy {
        name: metadata.name,
        from,
        to,
        min_confirmed_percent: percent.and_then(|percent| u8::try_from(percent.value).ok()),
        max_report_age_hours: hours.map(|hours| hours.value),
        location: metadata.location,
    })
}
