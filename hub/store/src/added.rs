//! Reports put on record: added once, never changed, many at a time.
//!
//! What comes in: reports whose signature and chain were checked, in whatever order they come. What goes out: their rows, and those of
//! what they report: a batch of them costs a few statements. It does not ask whether a place is free: a place that is taken fails.

use std::collections::BTreeMap;

use outhaul_bundle::report::{ClusterEvent, GenerationEvent, Report, ReportEvent};
use outhaul_gate::facts::ObservedAssignment;
use outhaul_gate::fold::{assignments, cluster_state, followed, runs, state_name};

use super::db::{SqlValue, params};
use super::{Session, StoreError, to_sql};

/// A checked report, about to be recorded.
#[derive(Debug, Clone, Copy)]
pub struct NewReport<'a> {
    /// The report.
    pub report: &'a Report,
    /// Digest of its bytes, as text.
    pub digest: &'a str,
    /// The signed envelope, as it came.
    pub envelope: &'a [u8],
    /// By which transport it came: `https` or a file's name.
    pub via: &'a str,
    /// When, milliseconds since 1970.
    pub received_ms: i64,
}

/// What a report says of one bundle, as it is kept.
struct Observation<'a> {
    report: &'a Report,
    role: &'a str,
    bundle: u64,
    index: String,
    base_commit: &'a str,
    environment_commit: Option<&'a str>,
    snapshot: String,
    state: &'a str,
    running: bool,
    message: &'a str,
    webhook: &'static str,
    assignments: BTreeMap<String, ObservedAssignment>,
}

impl Session<'_> {
    /// Records reports. Their places must be free.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_reports(&self, new: &[NewReport<'_>]) -> Result<(), StoreError> {
        let previous: Vec<Option<String>> = new
            .iter()
            .map(|new| new.report.previous.map(|digest| digest.to_string()))
            .collect();
        let previous = previous.iter().map(Option::as_deref);
        let part = match new.first() {
            Some(first) => self.part_for(first.received_ms)?,
            None => None,
        };
        let rows: Vec<_> = new
            .iter()
            .zip(previous)
            .map(|(new, previous)| row_of(new, previous, part))
            .collect();
        let text = "INSERT INTO reports (site, epoch, number, digest, previous, kind, envelope,
                via, received_ms, wall_ms, lower_bound_ms, clock_trusted, part)";
        self.insert_each(text, &rows)?;
        if let Some(part) = part {
            self.add_envelopes(part, new)?;
        }
        let seen: Vec<Observation<'_>> = new.iter().filter_map(|n| seen(n.report)).collect();
        self.add_observations(&seen)?;
        for one in new {
            self.add_event(one.report)?;
        }
        Ok(())
    }

    fn add_observations(&self, seen: &[Observation<'_>]) -> Result<(), StoreError> {
        let sets = self.keep_sets(seen.iter().map(|one| &one.assignments))?;
        let rows: Vec<_> = seen
            .iter()
            .zip(&sets)
            .map(|(one, set)| {
                [
                    SqlValue::Text(one.report.site.as_str()),
                    SqlValue::Text(one.report.epoch.as_str()),
                    SqlValue::Int(to_sql(one.report.number)),
                    SqlValue::Text(one.role),
                    SqlValue::Int(to_sql(one.bundle)),
                    SqlValue::Text(&one.index),
                    SqlValue::Text(one.base_commit),
                    SqlValue::Text(&one.snapshot),
                    SqlValue::Text(one.state),
                    SqlValue::Int(i64::from(one.running)),
                    SqlValue::Text(one.message),
                    SqlValue::Text(set),
                    SqlValue::Text(one.webhook),
                    one.environment_commit
                        .map_or(SqlValue::Null, SqlValue::Text),
                ]
            })
            .collect();
        let text = "INSERT INTO observations (site, epoch, number, role, bundle_number,
                index_digest, base_commit, snapshot_digest, state, running, message, assignments,
                webhook, environment_commit)";
        self.insert_each(text, &rows)
    }

    /// What a report says beside what runs.
    fn add_event(&self, report: &Report) -> Result<(), StoreError> {
        let (site, epoch) = (report.site.as_str(), report.epoch.as_str());
        let number = to_sql(report.number);
        match &report.event {
            ReportEvent::Generation(event) | ReportEvent::Observation(event) => {
                let Some(left) = &event.reverted_from else {
                    return Ok(());
                };
                let text = "INSERT INTO reverts (site, epoch, number, bundle_number, index_digest,
                        decided_by, reason) VALUES ($1, $2, $3, $4, $5, $6, $7)";
                let bundle = to_sql(left.number);
                let index = left.index.to_string();
                let row = params![
                    site,
                    epoch,
                    number,
                    bundle,
                    index,
                    left.decided_by,
                    left.reason
                ];
                self.db.execute(text, row)?;
                Ok(())
            }
            ReportEvent::Cluster(_) => Ok(()),
            ReportEvent::Gap { from, to, reason } => {
                let text = "INSERT INTO declared_gaps
                     (site, epoch, number, first_lost, last_lost, reason)
                     VALUES ($1, $2, $3, $4, $5, $6)";
                let lost = (to_sql(*from), to_sql(*to));
                self.db
                    .execute(text, params![site, epoch, number, lost.0, lost.1, reason])?;
                Ok(())
            }
            ReportEvent::Refusal {
                source,
                rule,
                message,
            } => {
                let row = (source.as_str(), rule.as_str(), message.as_str());
                self.add_site_refusal(site, epoch, report.number, row)
            }
            // Kept whole in `reports`; they change nothing about what runs.
            _ => self.add_outcome(report),
        }
    }
}

fn row_of<'a>(
    new: &'a NewReport<'a>,
    previous: Option<&'a str>,
    part: Option<i64>,
) -> [SqlValue<'a>; 13] {
    let report = new.report;
    // In a part there is no second copy here.
    let envelope = if part.is_some() { &[] } else { new.envelope };
    [
        SqlValue::Text(report.site.as_str()),
        SqlValue::Text(report.epoch.as_str()),
        SqlValue::Int(to_sql(report.number)),
        SqlValue::Text(new.digest),
        previous.map_or(SqlValue::Null, SqlValue::Text),
        SqlValue::Text(kind(&report.event)),
        SqlValue::Blob(envelope),
        SqlValue::Text(new.via),
        SqlValue::Int(new.received_ms),
        SqlValue::Int(report.at.wall_ms),
        SqlValue::Int(report.at.lower_bound_ms),
        SqlValue::Int(i64::from(report.at.trusted)),
        part.map_or(SqlValue::Null, SqlValue::Int),
    ]
}

fn seen(report: &Report) -> Option<Observation<'_>> {
    match &report.event {
        ReportEvent::Generation(event) => Some(of_bundle(report, event, runs(event.state))),
        ReportEvent::Observation(event) => Some(of_bundle(report, event, true)),
        ReportEvent::Cluster(event) => Some(of_cluster(report, event)),
        _ => None,
    }
}

fn of_bundle<'a>(report: &'a Report, event: &'a GenerationEvent, running: bool) -> Observation<'a> {
    Observation {
        report,
        role: event.stream.role.as_str(),
        bundle: event.number,
        index: event.index.to_string(),
        base_commit: &event.snapshot.base.commit,
        environment_commit: Some(&event.snapshot.environment.commit),
        snapshot: event.snapshot.digest.to_string(),
        state: state_name(event.state),
        running,
        message: &event.message,
        webhook: "",
        assignments: assignments(event),
    }
}

/// What a cluster shows by itself: it counts as a bundle only by the base commit.
fn of_cluster<'a>(report: &'a Report, event: &'a ClusterEvent) -> Observation<'a> {
    let snapshot = event.snapshot.as_ref();
    Observation {
        report,
        role: event.stream.role.as_str(),
        bundle: 0,
        index: String::new(),
        base_commit: event.base_commit(),
        environment_commit: snapshot.map(|snapshot| snapshot.environment.commit.as_str()),
        snapshot: snapshot.map_or_else(String::new, |snapshot| snapshot.digest.to_string()),
        state: cluster_state(event.state),
        running: true,
        message: &event.message,
        webhook: event
            .webhook
            .as_ref()
            .map_or("", |made_of| made_of.sender.as_str()),
        assignments: followed(event),
    }
}

fn kind(event: &ReportEvent) -> &'static str {
    match event {
        ReportEvent::Generation(_) => "generation",
        ReportEvent::Observation(_) => "observation",
        ReportEvent::Cluster(_) => "cluster",
        ReportEvent::Refusal { .. } => "refusal",
        ReportEvent::Gap { .. } => "gap",
        ReportEvent::Decision { .. } => "decision",
        ReportEvent::OrderDone { .. } => "order_done",
        ReportEvent::OrderRefused { .. } => "order_refused",
        ReportEvent::SiteValues { .. } => "site_values",
        ReportEvent::FreshnessSlip { .. } => "freshness_slip",
        ReportEvent::Started { .. } => "started",
        _ => "other",
    }
}
