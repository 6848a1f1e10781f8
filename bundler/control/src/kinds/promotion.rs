//! `PromotionPolicy` (our group): what the step from one environment to the next needs.
//!
//! What comes in: the object's fields. What goes out: a [`PromotionPolicy`] with the rules that the hub's gate decides,
//! each within its bounds. A rule that does not read is an error, never the absence of a rule.

use std::collections::BTreeSet;

use outhaul_bundle::hub_api::{
    APPROVALS, ApprovalRule, CheckRule, ClosedTime, Day, GateRules, MAX_AGE_HOURS, MIN_SITES,
    PartRule, PromotionWindow, QUORUM_PERCENT, SOAK_HOURS,
};
use outhaul_bundle::name::Name;

use serde_json::json;

use self::listed::{NO_WINDOW, name_twice, part_twice};
use super::super::diagnostic::Diagnostic;
use super::super::model::{
    HOOK_MINUTES, HOOK_MINUTES_DEFAULT, PromotionHook, PromotionHooks, PromotionPolicy,
};
use super::super::yaml::{Node, YamlValue};
use super::OUTHAUL;
use super::fields::{FieldReader, Fields};
use super::metadata::Metadata;
use super::shape::{
    Field, KindSchema, LABELS, Shape, kind, list, may, must, object, one_of, pattern, some, text,
    whole,
};

/// A date, or a date and time in UTC.
const INSTANT: &str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?$";
/// A time of day.
const MINUTE: &str = "^([01][0-9]|2[0-4]):[0-5][0-9]$";
/// A hook's name.
const HOOK_NAME: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$";
const TIMEOUT: &str = "timeoutMinutes";
const PERCENT: &str = "minConfirmedPercent";
const SITES: &str = "minConfirmedSites";
const SOAK: &str = "soakHours";
const CHECK_AGE: &str = "maxAgeHours";
const AGE: &str = "maxReportAgeHours";
const WEBHOOKS: &str = "webhookEvidence";
/// Whether such evidence counts; the first says that it does.
const WEBHOOK_WORDS: [&str; 2] = ["counts", "ignored"];

pub(super) fn described() -> KindSchema {
    let mut fields = vec![
        must("from", "The environment whose sites decide.", text("dev")),
        must(
            "to",
            "The environment that is moved; nothing else may be promoted into it.",
            text("stage"),
        ),
    ];
    fields.extend(shares());
    fields.extend([
        may(
            AGE,
            "The oldest report that counts, in hours.",
            whole(MAX_AGE_HOURS),
        ),
        may(
            WEBHOOKS,
            "Whether sites confirm that the hub knows by webhook alone, without an agent; `ignored` when left out.",
            one_of(&WEBHOOK_WORDS),
        ),
        may(
            "approvals",
            "People who must approve (`outhaul-hub approve`).",
            object(vec![
                must(
                    "needed",
                    "How many of them.",
                    // An example that the example of `by` is enough for.
                    Shape::from(whole(APPROVALS)).with("examples", json!([1])),
                ),
                must("by", "Who may approve.", some(text("alice"))),
            ]),
        ),
        check_list(),
        may(
            "closedTimes",
            "Times at which nothing is promoted.",
            list(object(vec![
                must(
                    "from",
                    "The first instant, in UTC: a date, or a date and time.",
                    pattern(INSTANT, "2026-12-20"),
                ),
                must(
                    "until",
                    "The first instant after it.",
                    pattern(INSTANT, "2027-01-03T06:00:00Z"),
                ),
                may("reason", "Why.", text("Christmas")),
            ])),
        ),
        may(
            "windows",
            "The only times of the week at which it is promoted, in UTC.",
            some(object(vec![
                may(
                    "days",
                    "On which days; every day when left out.",
                    some(one_of(&Day::ALL.map(Day::as_str))),
                ),
                must("from", "From when.", pattern(MINUTE, "08:00")),
                must(
                    "until",
                    "Until when, on the same day.",
                    pattern(MINUTE, "17:00"),
                ),
            ])),
        ),
        may(
            "parts",
            "Rules for some of the sites, in addition to those for all.",
            list(object(
                [
                    may(
                        "clusterType",
                        "The cluster type, such as a ring.",
                        text("ring-0"),
                    ),
                    may(
                        "workload",
                        "The workload that the sites run.",
                        text("camera"),
                    ),
                ]
                .into_iter()
                .chain(shares())
                .collect(),
            )),
        ),
        hook_lists(),
    ]);
    kind(
        OUTHAUL,
        "PromotionPolicy",
        "What the step from one environment to the next needs; it lies in `.environments/` on the main branch.",
        LABELS,
        object(fields),
    )
}

fn check_list() -> Field {
    may(
        "checks",
        "Checks of the commit that must have passed: their outcomes are stated at the hub (`outhaul-hub check`, or over HTTP).",
        list(object(vec![
            must("name", "Its name.", pattern(HOOK_NAME, "scan")),
            may(
                CHECK_AGE,
                "How old its newest outcome may be, in hours; any age when left out.",
                whole(MAX_AGE_HOURS),
            ),
            may(
                "by",
                "Whose outcomes count; everyone's whom the hub lets state one when left out.",
                some(text("ci")),
            ),
        ])),
    )
}

fn hook_lists() -> Field {
    may(
        "hooks",
        "Programs that are run at the centre when the step is made; who runs `outhaul` names them (`--hook NAME=PROGRAM`).",
        object(vec![
            may(
                "before",
                "Each must succeed before the environment is moved.",
                hooks(),
            ),
            may("after", "Run after the environment was moved.", hooks()),
        ]),
    )
}

fn hooks() -> Shape {
    list(object(vec![
        must("name", "Its name.", pattern(HOOK_NAME, "smoke-test")),
        may(
            TIMEOUT,
            format!("How long it may take, in minutes; {HOOK_MINUTES_DEFAULT} when left out."),
            whole(HOOK_MINUTES),
        ),
    ]))
}

/// What is asked of all sites, and of those of a part.
fn shares() -> [Field; 3] {
    [
        may(
            PERCENT,
            "The share of sites that must have confirmed; all of them when left out.",
            whole(QUORUM_PERCENT),
        ),
        may(
            SITES,
            "How many sites must have confirmed at least.",
            whole(MIN_SITES),
        ),
        may(
            SOAK,
            "For how many hours they must have reported healthy without a break.",
            whole(SOAK_HOURS),
        ),
    ]
}

pub(super) fn read(reader: &mut FieldReader<'_>, object: &Fields<'_>) -> Option<PromotionPolicy> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec")?;
    let from = reader.text(&spec, "from");
    let to = reader.text(&spec, "to");
    let rules = rules(reader, &spec);
    let hooks = read_hooks(reader, &spec);
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
    Some(PromotionPolicy {
        name: metadata.name,
        from,
        to,
        rules: rules?,
        hooks: hooks?,
        location: metadata.location,
    })
}

/// Both lists of hooks, or `None` when one of them does not read.
fn read_hooks(reader: &mut FieldReader<'_>, spec: &Fields<'_>) -> Option<PromotionHooks> {
    if spec.field("hooks").is_none() {
        return Some(PromotionHooks::default());
    }
    let fields = reader.section(spec, "hooks")?;
    let mut of = |moment: &str| {
        let mut names = BTreeSet::new();
        each(reader, &fields, moment, |reader, fields| {
            let name = reader.text(fields, "name");
            let minutes = number(reader, fields, TIMEOUT);
            let hook = PromotionHook {
                name: name?,
                minutes: minutes.ok()?.unwrap_or(HOOK_MINUTES_DEFAULT),
            };
            let problem = match hook.name.value.parse::<Name>() {
                Err(error) => Some(error.to_string()),
                Ok(name) if names.insert(name.clone()) => None,
                Ok(name) => Some(format!("the hook `{}` is in the list twice", name.as_str())),
            };
            Some((hook, problem))
        })
    };
    let (before, after) = (of("before"), of("after"));
    Some(PromotionHooks {
        before: before?,
        after: after?,
    })
}

/// Every rule, or `None` when one of them does not read.
fn rules(reader: &mut FieldReader<'_>, spec: &Fields<'_>) -> Option<GateRules> {
    let shares = read_shares(reader, spec);
    let max_age_hours = number(reader, spec, AGE);
    let webhooks = webhooks(reader, spec);
    let approvals = match spec.field("approvals") {
        None => Some(None),
        Some(node) => approvals(reader, spec, node).map(Some),
    };
    let checks = checks(reader, spec);
    let closed = each(reader, spec, "closedTimes", |reader, fields| {
        let (from, until) = (reader.text(fields, "from"), reader.text(fields, "until"));
        let reason = optional(reader, fields, "reason");
        let time = ClosedTime {
            from: from?.value,
            until: until?.value,
            reason: reason.ok()?.unwrap_or_default(),
        };
        let problem = time.check().err();
        Some((time, problem))
    });
    let windows = each(reader, spec, "windows", |reader, fields| {
        let written = reader.texts(fields, "days");
        let complete = written.len() == reader.list(fields, "days").len();
        let (from, until) = (reader.text(fields, "from"), reader.text(fields, "until"));
        let mut days = BTreeSet::new();
        let mut unknown = None;
        for word in &written {
            match Day::ALL.into_iter().find(|day| day.as_str() == word.value) {
                Some(day) => drop(days.insert(day)),
                None => unknown = Some(format!("`{}` is not one of `mon` to `sun`", word.value)),
            }
        }
        let window = PromotionWindow {
            days,
            from: from?.value,
            until: until?.value,
        };
        let no_day = is_empty(fields, "days").then(|| PromotionWindow::NO_DAY.to_owned());
        let unknown = unknown.or(no_day).or_else(|| name_twice("days", &written));
        let problem = unknown.or_else(|| window.check().err());
        complete.then_some((window, problem))
    });
    let no_window = spec.field("windows").filter(|_| is_empty(spec, "windows"));
    if let Some(node) = no_window {
        unsound(reader, node, NO_WINDOW.to_owned());
    }
    let windows = windows.filter(|_| no_window.is_none());
    let mut before = Vec::new();
    let parts = each(reader, spec, "parts", |reader, fields| {
        let cluster_type = optional(reader, fields, "clusterType");
        let workload = optional(reader, fields, "workload");
        let (quorum_percent, min_sites, soak_hours) = read_shares(reader, fields)?;
        let part = PartRule {
            cluster_type: cluster_type.ok()?,
            workload: workload.ok()?,
            quorum_percent,
            min_sites,
            soak_hours,
        };
        let problem = part.check().err().or_else(|| part_twice(&before, &part));
        before.push(part.clone());
        Some((part, problem))
    });
    let (quorum_percent, min_sites, soak_hours) = shares?;
    Some(GateRules {
        max_age_hours: max_age_hours.ok()?,
        quorum_percent,
        min_sites,
        soak_hours,
        approvals: approvals?,
        checks: checks?,
        closed: closed?,
        windows: windows?,
        webhook_evidence: webhooks?,
        parts: parts?,
    })
}

/// Whether evidence by webhook counts; `None` where what is written is neither.
fn webhooks(reader: &mut FieldReader<'_>, spec: &Fields<'_>) -> Option<bool> {
    let Some(node) = spec.field(WEBHOOKS) else {
        return Some(false);
    };
    let word = reader.text(spec, WEBHOOKS)?.value;
    if WEBHOOK_WORDS.contains(&word.as_str()) {
        return Some(word == WEBHOOK_WORDS[0]);
    }
    let known = WEBHOOK_WORDS.join("` nor `");
    unsound(
        reader,
        node,
        format!("`{WEBHOOKS}` is `{word}`, which is neither `{known}`"),
    );
    None
}

/// Every check, each name once.
fn checks(reader: &mut FieldReader<'_>, spec: &Fields<'_>) -> Option<Vec<CheckRule>> {
    let mut before: Vec<CheckRule> = Vec::new();
    each(reader, spec, "checks", |reader, fields| {
        let name = reader.text(fields, "name");
        let max_age_hours = number(reader, fields, CHECK_AGE);
        let by = reader.texts(fields, "by");
        let complete = by.len() == reader.list(fields, "by").len();
        let twice = name_twice("by", &by);
        let rule = CheckRule {
            name: name?.value,
            max_age_hours: max_age_hours.ok()?,
            by: by.into_iter().map(|name| name.value).collect(),
        };
        let problem = match is_empty(fields, "by") {
            true => Some(CheckRule::nobody(&rule.name)),
            false => rule.check_after(&before).err().or(twice),
        };
        before.push(rule.clone());
        complete.then_some((rule, problem))
    })
}

/// Whether an empty list is written under `key`: where a list that is left out means all, an empty one may be meant as none.
fn is_empty(fields: &Fields<'_>, key: &str) -> bool {
    let node = fields.field(key).map(|node| &node.value);
    matches!(node, Some(YamlValue::Sequence(items)) if items.is_empty())
}

type Shares = (Option<u8>, Option<u32>, Option<u32>);

fn read_shares(reader: &mut FieldReader<'_>, fields: &Fields<'_>) -> Option<Shares> {
    let percent = number(reader, fields, PERCENT);
    let sites = number(reader, fields, SITES);
    let soak = number(reader, fields, SOAK);
    let percent = percent.ok()?.and_then(|percent| u8::try_from(percent).ok());
    Some((percent, sites.ok()?, soak.ok()?))
}

/// A field that is there and does not read; the reader has said so.
struct Unreadable;

/// A number that may be left out.
fn number(
    reader: &mut FieldReader<'_>,
    fields: &Fields<'_>,
    key: &str,
) -> Result<Option<u32>, Unreadable> {
    match reader.integer(fields, key) {
        None if fields.field(key).is_some() => Err(Unreadable),
        found => Ok(found.map(|found| found.value)),
    }
}

/// The same of a text.
fn optional(
    reader: &mut FieldReader<'_>,
    fields: &Fields<'_>,
    key: &str,
) -> Result<Option<String>, Unreadable> {
    match reader.optional_text(fields, key) {
        None if fields.field(key).is_some() => Err(Unreadable),
        found => Ok(found.map(|found| found.value)),
    }
}

fn approvals(reader: &mut FieldReader<'_>, spec: &Fields<'_>, node: &Node) -> Option<ApprovalRule> {
    let fields = reader.section(spec, "approvals")?;
    let needed = reader.integer(&fields, "needed");
    let needed_is_there = fields.field("needed").is_some();
    let by = reader.texts(&fields, "by");
    let complete = by.len() == reader.list(&fields, "by").len();
    if !needed_is_there {
        unsound(
            reader,
            node,
            "`approvals` says how many are `needed`".to_owned(),
        );
    }
    let twice = name_twice("by", &by);
    let rule = ApprovalRule {
        needed: needed?.value,
        by: by.into_iter().map(|name| name.value).collect(),
    };
    if let Some(problem) = rule.check().err().or(twice) {
        unsound(reader, node, problem);
        return None;
    }
    complete.then_some(rule)
}

/// Each entry of the list under `key`, or `None` when one of them does not read or cannot hold.
fn each<T>(
    reader: &mut FieldReader<'_>,
    spec: &Fields<'_>,
    key: &str,
    mut read: impl FnMut(&mut FieldReader<'_>, &Fields<'_>) -> Option<(T, Option<String>)>,
) -> Option<Vec<T>> {
    let nodes = reader.list(spec, key);
    // What is there and no list was reported as such.
    let is_list = |node: &Node| matches!(node.value, YamlValue::Sequence(_));
    let mut sound = spec.field(key).is_none_or(is_list);
    let mut found = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let what = format!("{}.{key}[{at}]", spec.what);
        let entry = reader.map(node, &what, spec.shape.field(key).item());
        match entry.and_then(|fields| read(reader, &fields)) {
            Some((entry, None)) => found.push(entry),
            Some((_, Some(problem))) => {
                unsound(reader, node, problem);
                sound = false;
            }
            None => sound = false,
        }
    }
    sound.then_some(found)
}

fn unsound(reader: &mut FieldReader<'_>, node: &Node, problem: String) {
    let location = reader.location(node);
    reader.report(Diagnostic::error("bad-value", problem).at(&location));
}

mod listed;

#[cfg(test)]
mod tests;
