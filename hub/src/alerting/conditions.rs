//! What alerts are about, as it is now: sites, gates, refusals, keys that wait, people's decisions.
//!
//! What comes in: the store, and the time. What goes out: one condition each, with a status of one word and a sentence. It compares
//! nothing with what was before, and writes nothing.

use outhaul_alerts::change::{AlertKind, Condition, READABLE, UNREADABLE};
use outhaul_bundle::hub_api::Decision;
use outhaul_gate::later;

use crate::store::{Store, StoreError};
use crate::time::DAY_MS;
use crate::view::{GatesOf, Reading, SiteRow, gates_of_each};

/// Refusals and requests looked at.
const LISTED: u32 = 500;

/// Everything that alerts are about, as it is now.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn conditions(store: &mut Store, now_ms: i64) -> Result<Vec<Condition>, StoreError> {
    let mut all = Vec::new();
    Reading::in_parts(store, now_ms, |reading| {
        let rows = reading.site_rows(now_ms).into_iter();
        all.extend(rows.filter(|row| row.verdict != "revoked").map(of_site));
    })?;
    store.read(|session| {
        let gates = gates_of_each(session, now_ms)?;
        all.extend(gates.into_iter().flat_map(of_gates));
        for refusal in session.refusals(LISTED)? {
            let site = refusal.site.as_deref().unwrap_or_default();
            let lane = if refusal.source == crate::store::NETWORK {
                "network"
            } else {
                "file"
            };
            all.push(Condition {
                kind: AlertKind::Refusal,
                key: format!("{lane}/{}/{site}", refusal.rule),
                subject: refusal.rule.clone(),
                environment: None,
                // At most once a day: whoever sends it all the time is one line.
                status: refusal.at_ms.div_euclid(DAY_MS).to_string(),
                message: format!("{}: {} times: {}", site, refusal.times, refusal.message),
            });
        }
        for request in session.pending_requests(LISTED)? {
            all.push(Condition {
                kind: AlertKind::Request,
                key: request.key_id.clone(),
                subject: request.site.clone(),
                environment: None,
                status: "waiting".to_owned(),
                message: format!(
                    "key {} asks to be approved; `outhaul-hub site` and the fleet page show it",
                    request.key_id
                ),
            });
        }
        for act in session.acts_in_force(now_ms)? {
            let about = act.site.clone().or_else(|| act.environment.clone());
            all.push(Condition {
                kind: AlertKind::Act,
                key: act.id.to_string(),
                subject: about.unwrap_or_default(),
                environment: act.environment.clone(),
                status: act.kind.as_str().to_owned(),
                message: format!("by {}: {}", act.by, act.reason),
            });
        }
        Ok::<_, StoreError>(())
    })?;
    Ok(all)
}

/// The gates of one environment; where they cannot be told, that is what someone is to get to know.
fn of_gates((environment, gates): GatesOf) -> Vec<Condition> {
    let condition = |key: String, status: &str, message: String| Condition {
        kind: AlertKind::Gate,
        key,
        subject: environment.clone(),
        environment: Some(environment.clone()),
        status: status.to_owned(),
        message,
    };
    match gates {
        Ok(decisions) => {
            let of_decision = |decision: &Decision| {
                let to = decision.to.as_deref().unwrap_or_default();
                let key = format!("{environment}/{to}@{}", decision.commit);
                condition(key, decision.verdict.as_str(), of_gate(decision))
            };
            let told = "its gates can be evaluated".to_owned();
            let readable = condition(environment.clone(), READABLE, told);
            let gates = decisions.iter().map(of_decision);
            std::iter::once(readable).chain(gates).collect()
        }
        Err(problem) => {
            let message = format!("{problem}; sites and other environments are checked");
            vec![condition(environment.clone(), UNREADABLE, message)]
        }
    }
}

/// The hub itself.
pub(super) fn of_hub(status: &str, message: &str) -> Condition {
    Condition {
        kind: AlertKind::Hub,
        key: "look".to_owned(),
        subject: "this hub".to_owned(),
        environment: None,
        status: status.to_owned(),
        message: message.to_owned(),
    }
}

fn of_gate(decision: &Decision) -> String {
    let commit: String = decision.commit.chars().take(12).collect();
    let to = decision
        .to
        .as_deref()
        .map_or_else(String::new, |to| format!(" to {to}"));
    let counted = format!("commit {commit}{to}: {}", later::count_of(decision));
    match decision.reasons.first() {
        None => counted,
        Some(first) => format!("{counted}; {first}"),
    }
}

fn of_site(row: SiteRow) -> Condition {
    let reported = row.attempt.clone().unwrap_or_else(|| row.message.clone());
    let message = match row.verdict {
        "conflict" => row.conflict.clone().unwrap_or_default(),
        "future-dated" => format!("it {}", row.future_dated.clone().unwrap_or_default()),
        "stale" => format!("last contact {}", row.last_seen_ago),
        "ok" => "all is as desired".to_owned(),
        _ => reported,
    };
    Condition {
        kind: AlertKind::Site,
        key: row.site.clone(),
        subject: row.site,
        environment: Some(row.environment),
        status: row.verdict.to_owned(),
        message,
    }
}
