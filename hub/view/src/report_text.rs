//! What one report states, in words.
//!
//! What comes in: the event of a report. What goes out: a line for the timeline and for what was done on site, with a status word and what is amiss
//! where it has them. It is pure.

use outhaul_bundle::report::{ClusterEvent, ReportEvent};
use outhaul_gate::fold::{cluster_state, state_name, status_name};
use outhaul_gate::time;

/// What a report states, in words.
pub(crate) struct ReportText {
    /// What kind of event.
    pub kind: &'static str,
    /// A status word, where it has one.
    pub status: String,
    /// What it states.
    pub text: String,
    /// Assignments that are not as desired, with what the site reports of each.
    pub amiss: Vec<String>,
}

/// An event without a status word and with nothing amiss.
pub(crate) fn plain(kind: &'static str, text: String) -> ReportText {
    ReportText {
        kind,
        status: String::new(),
        text,
        amiss: Vec::new(),
    }
}

/// What is said of a cluster, with the events that were about objects which the site was not registered with.
fn with_foreign(seen: &ClusterEvent) -> String {
    let foreign = seen
        .webhook
        .as_ref()
        .filter(|made_of| made_of.foreign_events > 0);
    let Some(made_of) = foreign else {
        return seen.message.clone();
    };
    let (count, names) = (made_of.foreign_events, made_of.foreign.join(", "));
    let of_others = format!("{count} events were about other objects: {names}");
    match seen.message.as_str() {
        "" => of_others,
        message => format!("{message}; {of_others}"),
    }
}

fn with(text: String, message: &str) -> String {
    match message {
        "" => text,
        message => format!("{text}: {message}"),
    }
}

#[expect(clippy::too_many_lines, reason = "one page, field by field")]
pub(crate) fn report_text(event: &ReportEvent) -> ReportText {
    match event {
        ReportEvent::Generation(seen) | ReportEvent::Observation(seen) => {
            let mut text = format!("bundle {}", seen.number);
            if let Some(left) = &seen.reverted_from {
                let by = left.decided_by.as_deref().unwrap_or("the site itself");
                text = format!(
                    "{text} again: left bundle {} ({by}: {})",
                    left.number, left.reason
                );
            }
            let kind = match event {
                ReportEvent::Generation(_) => "bundle",
                _ => "look",
            };
            let amiss = seen.assignments.iter().filter_map(|result| {
                let status = status_name(result.status);
                let text = format!("`{}` {status}", result.name);
                (status != "compliant").then(|| with(text, &result.message))
            });
            ReportText {
                kind,
                status: state_name(seen.state).to_owned(),
                text: with(text, &seen.message),
                amiss: amiss.collect(),
            }
        }
        ReportEvent::Cluster(seen) => ReportText {
            kind: "cluster",
            status: cluster_state(seen.state).to_owned(),
            text: with(
                match &seen.webhook {
                    Some(_) => format!("what `{}` shows by webhook", seen.reconciler),
                    None => format!("what `{}` shows", seen.reconciler),
                },
                &with_foreign(seen),
            ),
            amiss: Vec::new(),
        },
        ReportEvent::Refusal {
            source,
            rule,
            message,
        } => ReportText {
            status: "refused".to_owned(),
            ..plain("refusal", format!("`{source}`, {rule}: {message}"))
        },
        ReportEvent::Gap { from, to, reason } => plain(
            "gap",
            format!("reports {from} to {to} are lost on site: {reason}"),
        ),
        ReportEvent::Decision {
            what,
            who,
            number,
            assignment,
            reason,
        } => {
            let mut text = format!("{who}: {what}");
            if let Some(number) = number {
                // A rollback names the bundle that is left, and one of an assignment the bundle whose content it has again.
                let of = match (what.as_str(), assignment) {
                    ("rollback", None) => "from ",
                    ("rollback", Some(_)) => "to ",
                    ("hold", Some(_)) => "at ",
                    _ => "",
                };
                text.push_str(&format!(" {of}bundle {number}"));
            }
            if let Some(assignment) = assignment {
                text.push_str(&format!(", `{assignment}`"));
            }
            plain(
                "decision",
                with(text, reason.as_deref().unwrap_or_default()),
            )
        }
        ReportEvent::SiteValues {
            message, values, ..
        } => {
            let unused = values.iter().filter_map(|value| {
                let why = value.unused.as_ref()?;
                Some(format!(
                    "`{}` of `{}` is not used: {why}",
                    value.key, value.assignment
                ))
            });
            ReportText {
                amiss: unused.collect(),
                ..plain("values", message.clone())
            }
        }
        ReportEvent::FreshnessSlip {
            source,
            issued_ms,
            number,
            ..
        } => plain(
            "slip",
            format!(
                "`{source}`: it is at least {}, newest bundle {number}",
                time::rfc3339(*issued_ms)
            ),
        ),
        ReportEvent::OrderDone {
            number,
            what,
            message,
            ..
        } => ReportText {
            status: "done".to_owned(),
            ..plain("order", with(format!("order {number}, {what}"), message))
        },
        ReportEvent::OrderRefused {
            number,
            what,
            message,
            ..
        } => ReportText {
            status: "refused".to_owned(),
            ..plain("order", with(format!("order {number}, {what}"), message))
        },
        ReportEvent::Started { agent_version } => plain(
            "start",
            format!("the agent started, version {agent_version}"),
        ),
        _ => plain("other", "an event of a newer agent".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_says_which_bundle_it_leaves_keeps_or_goes_back_to() {
        let text = |what: &str, assignment: Option<&str>| {
            let event = ReportEvent::Decision {
                what: what.to_owned(),
                who: "ann".to_owned(),
                number: Some(3),
                assignment: assignment.map(|name| name.parse().unwrap()),
                reason: Some("a trial".to_owned()),
            };
            report_text(&event).text
        };
        let said = [
            text("rollback", None),
            text("rollback", Some("web")),
            text("hold", Some("web")),
            text("approve", Some("web")),
            text("approve", None),
        ];
        let expected = [
            "ann: rollback from bundle 3: a trial",
            "ann: rollback to bundle 3, `web`: a trial",
            "ann: hold at bundle 3, `web`: a trial",
            "ann: approve bundle 3, `web`: a trial",
            "ann: approve bundle 3: a trial",
        ];
        assert_eq!(said, expected);
    }
}
