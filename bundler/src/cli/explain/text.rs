//! What `outhaul explain` says to people: one fact a line, each with its place.

use std::fmt::Write as _;

use outhaul_bundle::hub_api::SiteValueRow;
use outhaul_control::ControlPlane;
use outhaul_control::model::Site;
use outhaul_kit::format_count::format_count;
use outhaul_plane::explain::key::SetBy;
use outhaul_plane::explain::requested::{ContainerCandidate, Requested};
use outhaul_plane::explain::site::SiteExplanation;
use outhaul_plane::explain::{ConfigExplanation, Explanation, KeyExplanation, LayerAt, LayerRole};
use outhaul_plane::render::trace::How;
use outhaul_plane::schedule::explain::PolicyVerdict;

/// Most template lines that are listed for one key when nobody asked about it.
const MAX_LINES: usize = 3;

pub(super) fn explanation(
    explanation: &Explanation,
    target: &str,
    site: Option<&Site>,
    plane: &ControlPlane,
    about_a_key: bool,
) -> String {
    let mut out = String::new();
    let by: Vec<&PolicyVerdict> = explanation
        .verdicts
        .iter()
        .filter(|v| v.chooses())
        .collect();
    let pair = match site {
        Some(site) => format!(
            "`{target}` on site `{}` of `{}`",
            site.name, explanation.cluster_type
        ),
        None => format!("`{target}` on `{}`", explanation.cluster_type),
    };
    if by.is_empty() {
        let _ = writeln!(out, "{pair}: not assigned, no policy selects it");
        if explanation.verdicts.is_empty() {
            let name = &plane.environment;
            let _ = writeln!(out, "  environment `{name}` has no scheduling policy");
        }
    } else {
        let _ = writeln!(out, "{pair}: assigned");
    }
    for verdict in explanation
        .verdicts
        .iter()
        .filter(|v| by.is_empty() || v.chooses())
    {
        let _ = writeln!(out, "  policy `{}` ({})", verdict.policy, verdict.at);
        if verdict.chooses() {
            let _ = writeln!(out, "    the target has: {}", verdict.targets);
            let _ = writeln!(out, "    the cluster type has: {}", verdict.cluster_types);
            if let Some(sites) = &verdict.sites {
                let _ = writeln!(out, "    only on sites with: {sites}");
            }
            if let Some(weight) = &verdict.weight {
                let _ = writeln!(out, "    {}", weight.sentence());
            }
        }
        for miss in &verdict.misses {
            let _ = writeln!(out, "    {}", miss.sentence());
        }
    }
    let Some(config) = &explanation.config else {
        return out;
    };
    if !about_a_key {
        for template in &explanation.templates {
            let place = match &template.at {
                Some(at) => format!("{}, {at}", template.kind),
                None => "missing".into(),
            };
            let (name, named_at) = (&template.template, &template.named_at);
            let _ = writeln!(out, "  template `{name}` ({place}), named at {named_at}");
        }
        for schema in &explanation.schemas {
            let name = of_schema(schema.name.as_deref());
            let _ = writeln!(out, "  config schema {name} ({})", schema.at);
        }
    }
    values(config, about_a_key, &mut out);
    out
}

fn values(config: &ConfigExplanation, about_a_key: bool, out: &mut String) {
    if let (Some(version), false) = (&config.version, about_a_key) {
        let _ = writeln!(out, "  platform config, version {version}");
    }
    for key in &config.keys {
        one_key(key, about_a_key, out);
    }
    if !config.findings.is_empty() {
        let _ = write!(out, "{}", config.findings.render(false));
    }
}

fn one_key(key: &KeyExplanation, asked: bool, out: &mut String) {
    match &key.set.value {
        Some(value) => drop(writeln!(out, "    {} = {value}", key.set.key)),
        None => drop(writeln!(
            out,
            "    {} is not set: no container that applies sets it",
            key.set.key
        )),
    }
    layers(&key.set.layers, "      ", out);
    if !asked {
        let lines: Vec<String> = key
            .reaches
            .iter()
            .filter(|line| line.changes || line.how == How::Named)
            .map(|line| line.at.clone())
            .collect();
        let more = match lines.len().saturating_sub(MAX_LINES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        if lines.is_empty() {
            let _ = writeln!(out, "      reaches no template line");
        } else {
            let first = lines
                .iter()
                .take(MAX_LINES)
                .cloned()
                .collect::<Vec<_>>()
                .join(", ");
            let _ = writeln!(out, "      reaches {first}{more}");
        }
        return;
    }
    could_be_set_in(&key.could_be_set_in, "      ", out);
    for other in &key.skipped_layers {
        let _ = writeln!(
            out,
            "      `{}` also sets it ({}), but needs {} ({}); here is {}",
            other.container, other.at, other.needs, other.needs_at, other.has
        );
    }
    for schema in &key.schemas {
        let name = of_schema(schema.name.as_deref());
        let _ = match &schema.says {
            Some(says) => writeln!(out, "      schema {name} declares {says} ({})", schema.at),
            None => writeln!(
                out,
                "      schema {name} does not mention it ({})",
                schema.at
            ),
        };
    }
    if key.reaches.is_empty() && key.set.value.is_some() {
        let _ = writeln!(out, "      reaches no template line");
    }
    for line in &key.reaches {
        let changes = match (line.how, line.changes) {
            (How::Output, _) => "",
            (_, true) => "; its output changes with the value",
            (_, false) if key.tried => "; prints nothing",
            (_, false) => "",
        };
        let (template, kind, at) = (&line.template, line.kind, &line.at);
        let how = line.how.as_str();
        let _ = writeln!(
            out,
            "      reaches {at} in template `{template}` ({kind}): {how}{changes}"
        );
    }
    if !key.tried && key.set.value.is_some() {
        let _ = writeln!(
            out,
            "      (some template could not be rendered with another value: for it, only its text was read)"
        );
    }
}

/// Where a key could be set; at most three containers.
pub(in crate::cli) fn could_be_set_in(
    candidates: &[ContainerCandidate],
    indent: &str,
    out: &mut String,
) {
    for one in candidates.iter().take(MAX_LINES) {
        let _ = writeln!(
            out,
            "{indent}it could be set in `{}` ({}), which applies to {}",
            one.container, one.at, one.applies_to
        );
    }
}

fn layers(layers: &[LayerAt], indent: &str, out: &mut String) {
    for layer in layers {
        let text = match layer.role {
            LayerRole::Decides | LayerRole::MergedIn => String::new(),
            _ => format!(": {}", layer.text.lines().next().unwrap_or_default()),
        };
        let word = layer.role.as_str();
        let _ = writeln!(
            out,
            "{indent}{word} `{}` ({}){text}",
            layer.container, layer.at
        );
    }
}

fn of_schema(name: Option<&str>) -> String {
    name.map_or_else(
        || "of the workload itself".into(),
        |name| format!("`{name}`"),
    )
}

/// What people set on site.
pub(super) fn set_on_site(values: &[SiteValueRow]) -> String {
    if values.is_empty() {
        return "  nothing is set on site, as far as the hub knows".to_owned();
    }
    let lines = values.iter().map(|one| {
        let reason = one
            .reason
            .as_ref()
            .map_or_else(String::new, |reason| format!(": {reason}"));
        let unused = one
            .unused
            .as_ref()
            .map_or_else(String::new, |why| format!("; not used: {why}"));
        format!(
            "  `{}` on `{}` is `{}`, set on site by {} at {}{reason}{unused}",
            one.key, one.assignment, one.value, one.who, one.set_at
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(super) fn site(explanation: &SiteExplanation, site: &Site, nearest: &str) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "site `{}` ({})", explanation.site, explanation.at);
    let _ = writeln!(
        out,
        "  cluster type `{}` ({}){}",
        explanation.cluster_type,
        explanation.cluster_type_at,
        if explanation.known {
            String::new()
        } else {
            format!(", which does not exist: {nearest}")
        }
    );
    if !site.labels.is_empty() {
        let labels: Vec<String> = site
            .labels
            .iter()
            .map(|(k, v)| format!("{k} = {v}"))
            .collect();
        let _ = writeln!(out, "  labels {}", labels.join(", "));
    }
    if let Some(ring) = &site.ring {
        let _ = writeln!(out, "  ring {ring}");
    }
    let others = match explanation.sites.saturating_sub(1) {
        0 => "not shared with other sites".to_owned(),
        1 => "shared with 1 other site".to_owned(),
        others => format!("shared with {others} other sites"),
    };
    let _ = writeln!(out, "  stream `{}`: {others}", explanation.stream);
    if let Some(place) = &explanation.wave {
        let _ = writeln!(
            out,
            "  wave {} of {}: takes a bundle {} after it was issued",
            place.wave,
            place.of,
            format_count(
                usize::try_from(place.after_hours).unwrap_or(usize::MAX),
                "hour",
                "hours"
            )
        );
    }
    if explanation.assignments.is_empty() {
        let _ = writeln!(out, "  nothing is assigned to it");
    }
    for assignment in &explanation.assignments {
        let policies: Vec<String> = assignment
            .policies
            .iter()
            .map(|p| format!("`{p}`"))
            .collect();
        let _ = writeln!(out, "  `{}` by {}", assignment.target, policies.join(", "));
        for problem in &assignment.broken {
            let _ = writeln!(out, "    broken: {problem}");
        }
        for own in &assignment.own {
            let reported = |value: &Option<serde_json::Value>| {
                value
                    .as_ref()
                    .map_or("not set".to_owned(), ToString::to_string)
            };
            let shared = match own.shared_by.saturating_sub(1) {
                0 => String::new(),
                1 => ", as on one other site".into(),
                others => format!(", as on {others} other sites"),
            };
            let (here, there) = (reported(&own.value), reported(&own.elsewhere));
            let _ = writeln!(out, "    {} = {here}{shared}; elsewhere {there}", own.key);
            layers(&own.layers, "      ", &mut out);
        }
        for (key, rule) in &assignment.open {
            let _ = writeln!(out, "    {key} may be set on site: {rule}");
        }
        if let Some(others) = assignment.shared_with {
            let _ = match others {
                0 => writeln!(out, "    only on this site"),
                1 => writeln!(out, "    only on this site and one other"),
                others => writeln!(out, "    only on this site and {others} others"),
            };
        }
        if assignment.broken.is_empty() && assignment.own.is_empty() {
            let _ = writeln!(out, "    with the values of its cluster type");
        }
    }
    for other in &explanation.for_others {
        let policies: Vec<String> = other.policies.iter().map(|p| format!("`{p}`")).collect();
        let _ = writeln!(
            out,
            "  `{}` by {} is for other sites, not for this one",
            other.target,
            policies.join(", ")
        );
    }
    out
}

pub(super) fn key(
    key: &str,
    plane: &ControlPlane,
    assignments: usize,
    found: &[SetBy],
    asked: &[Requested],
) -> String {
    let mut out = format!("`{key}` in environment `{}`:\n", plane.environment);
    if found.is_empty() {
        let _ = writeln!(out, "  no config sets it");
    }
    for one in asked.iter().filter(|one| !one.missing_for.is_empty()) {
        requested(one, &mut out);
    }
    let mut example = None;
    for set in found {
        let text = set.text.lines().next().unwrap_or_default();
        let _ = writeln!(out, "  `{}` ({}): {text}", set.container, set.at);
        let _ = match (set.applies, set.decides) {
            (0, _) if set.sites > 0 => Ok(()),
            (0, _) => writeln!(out, "    applies to none of {assignments} assignments"),
            (applies, decides) => writeln!(
                out,
                "    applies to {applies} of {assignments} assignments, decides in {decides}"
            ),
        };
        let _ = match set.sites {
            0 => Ok(()),
            1 => writeln!(out, "    decides on one site only"),
            sites => writeln!(out, "    decides on {sites} sites only"),
        };
        example = example.or(set.example.as_ref());
    }
    if let Some((cluster_type, target)) = example {
        let _ = writeln!(
            out,
            "for one of them: `outhaul explain {target} {cluster_type} --key {key}`"
        );
    }
    out
}

/// Who asks for a key on one cluster type, and for which targets it is missing.
fn requested(one: &Requested, out: &mut String) {
    let targets: Vec<String> = one
        .missing_for
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    let (name, targets) = (&one.cluster_type, targets.join(", "));
    let _ = writeln!(out, "  not set on cluster type `{name}` for {targets}");
    for asker in &one.by {
        let _ = writeln!(out, "    {} ({})", asker.how, asker.at);
    }
    could_be_set_in(&one.could_be_set_in, "    ", out);
}
