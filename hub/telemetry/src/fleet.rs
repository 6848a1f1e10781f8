//! Metrics of the fleet: sites, freshness, bundles, gates, and what waits for people.
//!
//! What comes in: the fleet in numbers, and the time as an argument. What goes out: metrics. An environment or stream that is known has
//! every one of its words, with 0 where no site is so: what disappears cannot be seen to come to an end. It never names a single site,
//! and reads no store and no clock.

use std::collections::BTreeSet;

use outhaul_view::{AGES_HOURS, BundleStatus, Connection, Measured, STATES};

use crate::metric::{Metric, MetricValue, seconds};

/// Of [`STATES`], what several states are.
const GROUP_OF_STATES: &str = "attention";
/// States of deliveries of alerts.
const DELIVERIES: [&str; 3] = ["given-up", "sent", "waiting"];

/// The metrics of the fleet.
pub fn of_fleet(fleet: &Measured, now_ms: i64) -> Vec<Metric> {
    let mut all = sites(fleet);
    all.extend(freshness(fleet, now_ms));
    all.extend(bundles(fleet));
    all.extend(gates(fleet));
    all.extend(waiting(fleet));
    all
}

fn sites(fleet: &Measured) -> Vec<Metric> {
    let mut by_state = Metric::gauge(
        "outhaul_hub_sites",
        "Registered sites by environment, cluster type and state: the word that the pages show.",
    );
    let streams: BTreeSet<(&String, &String)> = fleet
        .sites
        .keys()
        .map(|(environment, cluster, _)| (environment, cluster))
        .collect();
    for (environment, cluster) in &streams {
        for state in STATES.into_iter().filter(|state| *state != GROUP_OF_STATES) {
            let key = ((*environment).clone(), (*cluster).clone(), state);
            let count = fleet.sites.get(&key).copied().unwrap_or(0);
            let labels = [
                ("environment", environment.as_str()),
                ("cluster_type", cluster.as_str()),
                ("state", state),
            ];
            by_state.add(&labels, MetricValue::Whole(count));
        }
    }
    let environments: BTreeSet<&String> = streams.iter().map(|(name, _)| *name).collect();
    let mut connections = Metric::gauge(
        "outhaul_hub_site_connections",
        "Sites by environment and whether they report: fresh, stale (silent for three days) or never.",
    );
    let mut bundles = Metric::gauge(
        "outhaul_hub_site_bundles",
        "Sites by environment and where they stand with the newest bundle that is for them.",
    );
    for environment in environments {
        for one in Connection::OF_REGISTERED.map(Connection::as_str) {
            let count = fleet.connections.get(&(environment.clone(), one));
            let labels = [("environment", environment.as_str()), ("connection", one)];
            connections.add(&labels, MetricValue::Whole(count.copied().unwrap_or(0)));
        }
        for one in BundleStatus::ALL.map(BundleStatus::as_str) {
            let count = fleet.bundles.get(&(environment.clone(), one));
            let labels = [("environment", environment.as_str()), ("status", one)];
            bundles.add(&labels, MetricValue::Whole(count.copied().unwrap_or(0)));
        }
    }
    vec![by_state, connections, bundles]
}

fn freshness(fleet: &Measured, now_ms: i64) -> Vec<Metric> {
    let mut newest = Metric::gauge(
        "outhaul_hub_last_report_age_seconds",
        "Seconds since the newest report of an environment was received.",
    );
    let mut oldest = Metric::gauge(
        "outhaul_hub_longest_silence_seconds",
        "Seconds since the last report of the site of an environment that has been silent for longest.",
    );
    let mut within = Metric::gauge(
        "outhaul_hub_report_age_sites",
        "Sites whose newest report is not older than so many seconds: of all that ever reported with +Inf.",
    );
    let age = |ms: i64| seconds(now_ms.saturating_sub(ms).max(0) / 1000 * 1000);
    for (environment, ages) in &fleet.ages {
        let labels = [("environment", environment.as_str())];
        newest.add(&labels, age(ages.newest_ms));
        oldest.add(&labels, age(ages.oldest_ms));
        let bounds = AGES_HOURS.map(|hours| (u64::from(hours) * 3600).to_string());
        let ends = bounds.iter().map(String::as_str).chain(["+Inf"]);
        for (end, count) in ends.zip(ages.within.into_iter().chain([ages.all])) {
            let labels = [("environment", environment.as_str()), ("seconds", end)];
            within.add(&labels, MetricValue::Whole(count));
        }
    }
    let acknowledged = Metric::gauge(
        "outhaul_hub_reports_acknowledged",
        "Reports on record and acknowledged, of all sites, over the network and from sticks.",
    );
    let read = Metric::gauge(
        "outhaul_hub_fleet_read_timestamp_seconds",
        "When the numbers of the fleet were read, in seconds since 1970.",
    );
    vec![
        newest,
        oldest,
        within,
        acknowledged.with(&[], MetricValue::Whole(fleet.acknowledged)),
        read.with(&[], seconds(fleet.read_ms)),
    ]
}

fn bundles(fleet: &Measured) -> Vec<Metric> {
    let mut number = Metric::gauge(
        "outhaul_hub_bundle_number",
        "Number of the newest bundle of a stream that this hub knows.",
    );
    let mut issued = Metric::gauge(
        "outhaul_hub_bundle_issued_timestamp_seconds",
        "When that bundle was signed, in seconds since 1970.",
    );
    let mut expires = Metric::gauge(
        "outhaul_hub_bundle_expires_timestamp_seconds",
        "Until when that bundle may be installed, in seconds since 1970.",
    );
    for ((environment, cluster), bundle) in &fleet.streams {
        let labels = [
            ("environment", environment.as_str()),
            ("cluster_type", cluster),
        ];
        number.add(&labels, MetricValue::Whole(bundle.number));
        issued.add(&labels, seconds(bundle.issued_ms));
        expires.add(&labels, seconds(bundle.expires_ms));
    }
    vec![number, issued, expires]
}

fn gates(fleet: &Measured) -> Vec<Metric> {
    let mut open = Metric::gauge(
        "outhaul_hub_gate_open",
        "Whether the newest decision on record opened the gate of an environment, by where it leads.",
    );
    let mut decided = Metric::gauge(
        "outhaul_hub_gate_decided_timestamp_seconds",
        "When that decision was put on record, in seconds since 1970: who asks and gets the same answer adds none.",
    );
    let mut rules = Metric::gauge(
        "outhaul_hub_gate_rule_met",
        "Whether each rule of that decision was met; those with 0 keep the gate closed.",
    );
    for ((environment, to), gate) in &fleet.gates {
        let labels = [("environment", environment.as_str()), ("to", to)];
        open.add(&labels, MetricValue::Whole(u64::from(gate.open)));
        decided.add(&labels, seconds(gate.at_ms));
        for (rule, met) in &gate.rules {
            let labels = [
                ("environment", environment.as_str()),
                ("to", to),
                ("rule", rule),
            ];
            rules.add(&labels, MetricValue::Whole(u64::from(*met)));
        }
    }
    vec![open, decided, rules]
}

fn waiting(fleet: &Measured) -> Vec<Metric> {
    let mut acts = Metric::gauge(
        "outhaul_hub_acts_in_force",
        "What people decided and still holds: approve, defer, hold, waive.",
    );
    for ((kind, environment), count) in &fleet.acts {
        acts.add(
            &[("environment", environment.as_str()), ("kind", kind)],
            MetricValue::Whole(*count),
        );
    }
    let requests = Metric::gauge(
        "outhaul_hub_enrolment_requests",
        "Enrolment requests that wait for approval.",
    );
    let mut refusals = Metric::gauge(
        "outhaul_hub_refusals",
        "How often something was refused, by way (network or file) and rule, as far as it is on record; old rows are forgotten.",
    );
    for ((way, rule), times) in &fleet.refusals {
        refusals.add(&[("way", way), ("rule", rule)], MetricValue::Whole(*times));
    }
    let mut alerts = Metric::gauge(
        "outhaul_hub_alert_deliveries",
        "Deliveries of alerts by state: waiting, sent, given-up.",
    );
    for state in DELIVERIES {
        let count = fleet.alerts.get(state).copied().unwrap_or(0);
        alerts.add(&[("state", state)], MetricValue::Whole(count));
    }
    let mut restored = Metric::gauge(
        "outhaul_hub_restored_timestamp_seconds",
        "When the hub was restored from a backup last, in seconds since 1970.",
    );
    if let Some(at_ms) = fleet.restored_ms {
        restored.add(&[], seconds(at_ms));
    }
    let size = Metric::gauge("outhaul_hub_store_bytes", "Bytes of the hub's database.");
    vec![
        acts,
        requests.with(&[], MetricValue::Whole(fleet.requests)),
        refusals,
        alerts,
        restored,
        size.with(&[], MetricValue::Whole(fleet.store_bytes)),
    ]
}
