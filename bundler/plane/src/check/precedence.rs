//! Precedence: values that win by the order of names and by nothing that someone decided.
//!
//! What comes in: a control plane and what was composed of it, for cluster types and for single sites.
//! What goes out: a warning with both places where of two containers that set one key the more specific
//! one loses, or neither is more specific. Under a composition policy only what that leaves open counts.

use std::collections::{BTreeMap, BTreeSet};

use super::configs::Index;
use crate::compose::{self, Composition, Mode, layers};
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_control::model::{ConfigContainer, Spanned};
use outhaul_kit::format_count::format_count;

const HELP: &str = "give one of them a further label, or one key to one container";

pub(super) fn lints(
    composition: &Composition,
    plane: &ControlPlane,
    mode: Mode,
    findings: &mut Diagnostics,
) {
    // A composition policy decides; then only what it leaves open is ambiguous.
    if plane.composition.is_some() {
        findings.extend(compose::ambiguities(plane, mode).into_iter().map(|found| {
            let message = format!(
                "`{}` is set by `{}` and `{}`, which apply to the same; the later name wins",
                found.path, found.loser, found.winner
            );
            Diagnostic::warning("ambiguous-precedence", message)
                .at(&found.won_at)
                .label("this wins")
                .related(&found.lost_at, "over this")
                .help("give one of them a further label, or a priority in the composition policy")
        }));
        return;
    }
    less_specific(plane, mode, findings);
    let mut seen = BTreeSet::new();
    let sites = composition.overlays.values().flatten();
    let all = sites.map(|overlay| &overlay.composed);
    for composed in composition.assignments.values().chain(all) {
        for (key, provenance) in &composed.provenance {
            for pair in provenance.layers.windows(2) {
                let [first, second] = pair else { continue };
                let (loser, winner) = (&first.container, &second.container);
                let equal = specificity(plane, loser) == specificity(plane, winner);
                if !equal || second.merged || first.text == second.text || loser == winner {
                    continue;
                }
                if seen.insert((key, loser, winner)) {
                    let message = format!(
                        "`{key}` is set by `{loser}` and `{winner}`, which are equally specific; the later name wins"
                    );
                    findings.push(
                        Diagnostic::warning("ambiguous-precedence", message)
                            .at(&second.location)
                            .label("this wins")
                            .related(&first.location, "over this")
                            .help(HELP),
                    );
                }
            }
        }
    }
}

/// A container that sets a key, as far as it matters here.
struct Setter<'a> {
    container: &'a ConfigContainer,
    labels: Vec<(&'a str, &'a str)>,
    text: &'a Spanned<String>,
}

/// Containers that lose to less specific ones of a later name, wherever both apply: on some pair, or on
/// one of its sites. Looked at by their labels and not by what was composed, since a site whose value loses
/// has the values of all others. Of one winner and key one finding, however many lose to it.
fn less_specific(plane: &ControlPlane, mode: Mode, findings: &mut Diagnostics) {
    let index = Index::of(plane);
    let mut by_key: BTreeMap<&str, Vec<Setter<'_>>> = BTreeMap::new();
    let whole = |container: &&ConfigContainer| {
        let label = container.labels.get("platform-config");
        label.is_some_and(|label| label.value == "true")
    };
    // In the order of their names, in which later ones win.
    for container in plane.configs.values().filter(whole) {
        for (key, text) in &container.data {
            let labels = labels_of(container);
            by_key.entry(key).or_default().push(Setter {
                container,
                labels,
                text,
            });
        }
    }
    for (key, setters) in by_key {
        for (at, winner) in setters.iter().enumerate() {
            let later = &setters[at + 1..];
            let mut lost = setters[..at].iter().filter_map(|loser| {
                let path = loses(plane, key, loser, winner, later, &index, mode)?;
                Some((loser, path))
            });
            let Some((loser, path)) = lost.next() else {
                continue;
            };
            let more = match lost.count() {
                0 => String::new(),
                more => format!(" (and over {})", format_count(more, "other", "others")),
            };
            let message = format!(
                "`{path}` of `{}`, which {}, wins over `{}`, which {}{more}: the later name wins",
                winner.container.name,
                labels(winner.labels.len()),
                loser.container.name,
                labels(loser.labels.len())
            );
            findings.push(
                Diagnostic::warning("less-specific-wins", message)
                    .at(&winner.text.location)
                    .label("this wins")
                    .related(&loser.text.location, "over this")
                    .help(
                        "let the more specific one win by a CompositionPolicy with `precedence: specificity`, \
                         or give it the later name",
                    ),
            );
        }
    }
}

/// The path to a value of `loser` that a less specific `winner` replaces somewhere, and that no later and
/// as specific container sets there.
fn loses(
    plane: &ControlPlane,
    key: &str,
    loser: &Setter<'_>,
    winner: &Setter<'_>,
    later: &[Setter<'_>],
    index: &Index<'_>,
    mode: Mode,
) -> Option<String> {
    if winner.labels.len() >= loser.labels.len() || winner.text.value == loser.text.value {
        return None;
    }
    let mut union: BTreeMap<&str, &str> = loser.labels.iter().copied().collect();
    for (label, value) in &winner.labels {
        if union
            .insert(label, value)
            .is_some_and(|other| other != *value)
        {
            return None;
        }
    }
    let settled = later.iter().any(|one| {
        one.labels.len() >= loser.labels.len()
            && one
                .labels
                .iter()
                .all(|(label, value)| union.get(label) == Some(value))
    });
    let union: Vec<(&str, &str)> = union.into_iter().collect();
    if settled || !index.applies(&union, true, mode) {
        return None;
    }
    compose::contradiction(plane, key, &loser.text.value, &winner.text.value, mode)
}

fn labels(count: usize) -> String {
    match count {
        0 => "applies to everything".to_owned(),
        1 => "has 1 label".to_owned(),
        many => format!("has {many} labels"),
    }
}

fn labels_of(container: &ConfigContainer) -> Vec<(&str, &str)> {
    let all = container.labels.iter();
    all.filter(|(label, _)| !layers::is_ignored(label))
        .map(|(label, spanned)| (label.as_str(), spanned.value.as_str()))
        .collect()
}

/// How many labels have to match for a container to apply.
fn specificity(plane: &ControlPlane, container: &str) -> usize {
    let container = plane.configs.get(container);
    container.map_or(0, |container| labels_of(container).len())
}
