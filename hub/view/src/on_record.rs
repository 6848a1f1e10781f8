//! The hub's record as rows: decisions of gates, entries of people and checks, uses of rights.
//!
//! What comes in: what the store has of them, and the time. What goes out: the rows that the API answers with. It decides nothing but which
//! entries are in force, by the rule that gates use.

use std::collections::BTreeSet;

use outhaul_bundle::hub_api::{AccessRow, ActRow, DecisionAnswer, DecisionRow, EvidenceRow};
use outhaul_gate::DecisionRecord;
use outhaul_gate::facts::ActKind;
use outhaul_gate::time::rfc3339;
use outhaul_store::{AccessEntry, Act, ChainedDecision, Session, StoreError};

/// A decision in a list.
pub fn decision_row(decision: ChainedDecision) -> DecisionRow {
    DecisionRow {
        number: decision.id,
        decided_at: decision.at_ms.map(rfc3339),
        environment: decision.environment,
        to: decision.to,
        commit: decision.commit,
        verdict: decision.verdict,
        asked_by: decision.asked_by,
        digest: decision.digest,
    }
}

/// One decision with its evidence.
pub fn decision_answer(number: i64, record: DecisionRecord, lines: &[String]) -> DecisionAnswer {
    DecisionAnswer {
        number,
        decision: record.decision,
        question: record.question,
        sentences_left_out: record.sentences_left_out as u64,
        evidence: lines.iter().map(|line| evidence(line)).collect(),
    }
}

/// A line of evidence: site, status, and the numbering, number and digest of its report, separated by tabs.
pub fn evidence(line: &str) -> EvidenceRow {
    let mut parts = line.split('\t').map(str::to_owned);
    let (site, status) = (parts.next(), parts.next());
    let epoch = parts.next();
    let report = parts.next().and_then(|number| number.parse().ok());
    EvidenceRow {
        site: site.unwrap_or_default(),
        status: status.unwrap_or_default(),
        epoch,
        report,
        digest: parts.next(),
    }
}

/// The entries of people and checks below a number, the newest first; only those that gates count now, where that is asked.
///
/// # Errors
/// [`StoreError`] when the store fails, or holds an entry of a kind that this program does not know.
pub fn act_rows(
    session: &Session<'_>,
    (below, at_most): (i64, u32),
    only_in_force: bool,
    now_ms: i64,
) -> Result<Vec<ActRow>, StoreError> {
    let restored = session.last_restore()?;
    let mut counted = session.acts_in_force(now_ms)?;
    counted.retain(|act| restored.is_none_or(|restored| restored.holds(act)));
    if only_in_force {
        let newest = counted.iter().rev().filter(|act| act.id < below);
        let rows = newest.map(|act| act_row(act, false, true));
        return Ok(rows.take(at_most as usize).collect());
    }
    let counted: BTreeSet<i64> = counted.iter().map(|act| act.id).collect();
    let acts = session.acts_below(below, at_most)?;
    let row = |(act, withdrawn): (Act, bool)| act_row(&act, withdrawn, counted.contains(&act.id));
    Ok(acts.into_iter().map(row).collect())
}

/// The row of an entry; of kinds that are never in force (a choice, a withdrawal) nothing is said of that.
fn act_row(act: &Act, withdrawn: bool, is_in_force: bool) -> ActRow {
    let can_be_in_force = matches!(
        act.kind,
        ActKind::Approve | ActKind::Defer | ActKind::Hold | ActKind::Waive
    );
    ActRow {
        number: act.id,
        kind: act.kind.as_str().to_owned(),
        at: rfc3339(act.at_ms),
        by: act.by.clone(),
        reason: act.reason.clone(),
        sentence: act.sentence(),
        environment: act.environment.clone(),
        commit: act.commit.clone(),
        site: act.site.clone(),
        until: act.until_ms.map(rfc3339),
        withdraws: act.withdraws,
        withdrawn,
        in_force: can_be_in_force.then_some(is_in_force),
    }
}

/// One use of a right.
pub fn access_row(entry: AccessEntry) -> AccessRow {
    AccessRow {
        number: entry.id,
        at: rfc3339(entry.at_ms),
        who: entry.who,
        how: entry.how,
        peer: entry.peer,
        action: entry.action,
        detail: entry.detail,
        allowed: entry.allowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outhaul_store::Store;

    #[test]
    fn an_entry_is_in_force_until_it_ends_or_is_withdrawn_and_a_deferral_beyond_its_deadline() {
        let mut store = Store::in_memory().unwrap();
        let act = |kind, until_ms| Act {
            until_ms,
            site: Some("a".to_owned()),
            ..Act::new(kind, "ann", "sea", 1_000)
        };
        store
            .write(|session| {
                session.add_act(&act(ActKind::Waive, Some(5_000)))?;
                session.add_act(&act(ActKind::Defer, Some(5_000)))?;
                session.add_act(&act(ActKind::Hold, None))?;
                session.add_act(&Act {
                    withdraws: Some(3),
                    ..Act::new(ActKind::Withdraw, "bob", "over", 2_000)
                })
            })
            .unwrap();
        let mut rows = |only: bool, page: (i64, u32), now_ms| {
            let rows = store.read(|session| act_rows(session, page, only, now_ms));
            let of = |row: &ActRow| (row.number, row.in_force, row.withdrawn);
            rows.unwrap().iter().map(of).collect::<Vec<_>>()
        };
        let all = [
            (4, None, false),
            (3, Some(false), true),
            (2, Some(true), false),
            (1, Some(false), false),
        ];
        assert_eq!(rows(false, (i64::MAX, 10), 5_000), all);
        assert_eq!(rows(false, (4, 2), 5_000), all[1..3]);
        assert_eq!(rows(true, (i64::MAX, 10), 5_000), all[2..3]);
        let before = [(2, Some(true), false), (1, Some(true), false)];
        assert_eq!(rows(true, (i64::MAX, 10), 4_999), before);
        assert_eq!(rows(true, (2, 10), 4_999), before[1..]);
        assert_eq!(rows(true, (i64::MAX, 1), 4_999), before[..1]);
    }

    #[test]
    fn a_site_without_a_report_has_evidence_of_its_status_only() {
        let one = evidence("ship-3\tmissing");
        assert_eq!(
            (one.site.as_str(), one.status.as_str()),
            ("ship-3", "missing")
        );
        assert_eq!((one.epoch, one.report, one.digest), (None, None, None));
        let other = evidence("a\tconfirmed\te1\t7\tsha256:0a");
        assert_eq!(other.report, Some(7));
        assert_eq!(other.digest.as_deref(), Some("sha256:0a"));
    }
}
