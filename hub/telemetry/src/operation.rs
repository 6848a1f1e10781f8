//! Metrics of the hub itself: what came in over HTTP, what waits, its store, its clock, its process, its pushes.
//!
//! What comes in: [`Operation`], read by the server. What goes out: metrics. Counters begin at the start of the process.

use std::collections::BTreeMap;

use crate::metric::{Metric, MetricValue, seconds};
use crate::process::Process;
use crate::push::PushCounts;

/// Room for the bodies of one kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// Which kind.
    pub name: &'static str,
    /// Bodies on their way.
    pub bodies: usize,
    /// Bytes of them that came.
    pub bytes: usize,
    /// Most bodies.
    pub max_bodies: usize,
    /// Most bytes.
    pub max_bytes: usize,
}

/// What the server knows of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Operation {
    /// The time, milliseconds since 1970.
    pub now_ms: i64,
    /// When the process started.
    pub started_ms: i64,
    /// How long the numbers of the fleet took to read, in milliseconds.
    pub read_took_ms: u64,
    /// The version of the program.
    pub version: &'static str,
    /// Reports over HTTP, by what became of them.
    pub reports: Vec<(&'static str, u64)>,
    /// Those that were refused, by rule.
    pub refused: BTreeMap<String, u64>,
    /// Rooms for bodies.
    pub lanes: Vec<Lane>,
    /// Whether the last write to the store succeeded.
    pub writable: bool,
    /// Bytes that are free where the state folder is.
    pub free_bytes: Option<u64>,
    /// Whether the clock agrees with what the fleet signed.
    pub clock_plausible: bool,
    /// What the kernel knows.
    pub process: Process,
    /// Pushes by OTLP; `None` where there are none.
    pub pushes: Option<PushCounts>,
}

/// The metrics of the hub itself.
pub fn of_operation(operation: &Operation) -> Vec<Metric> {
    let mut all = received(operation);
    all.extend(store(operation));
    all.extend(operation.pushes.iter().flat_map(pushes));
    all.extend(process(operation));
    all
}

fn received(operation: &Operation) -> Vec<Metric> {
    let mut reports = Metric::counter(
        "outhaul_hub_reports_total",
        "Reports received over HTTP since the start, by result.",
    );
    for (result, count) in &operation.reports {
        reports.add(&[("result", result)], MetricValue::Whole(*count));
    }
    let mut refused = Metric::counter(
        "outhaul_hub_reports_refused_total",
        "Reports refused over HTTP since the start, by rule.",
    );
    for (rule, count) in &operation.refused {
        refused.add(&[("rule", rule)], MetricValue::Whole(*count));
    }
    let gauge = Metric::gauge;
    let mut lanes = [
        gauge(
            "outhaul_hub_bodies",
            "Bodies of requests that are on their way, by kind of request.",
        ),
        gauge(
            "outhaul_hub_bodies_max",
            "Most bodies of requests on their way, before one gives way.",
        ),
        gauge(
            "outhaul_hub_body_bytes",
            "Bytes of bodies that are on their way.",
        ),
        gauge(
            "outhaul_hub_body_max_bytes",
            "Most bytes of bodies on their way, before one gives way.",
        ),
    ];
    for lane in &operation.lanes {
        let numbers = [lane.bodies, lane.max_bodies, lane.bytes, lane.max_bytes];
        for (metric, number) in lanes.iter_mut().zip(numbers) {
            metric.add(&[("lane", lane.name)], MetricValue::Whole(number as u64));
        }
    }
    [reports, refused].into_iter().chain(lanes).collect()
}

fn store(operation: &Operation) -> Vec<Metric> {
    let yes = |is: bool| MetricValue::Whole(u64::from(is));
    let gauge = Metric::gauge;
    let took_ms = i64::try_from(operation.read_took_ms).unwrap_or(i64::MAX);
    let mut free = gauge(
        "outhaul_hub_state_free_bytes",
        "Bytes that are free where the hub's state folder is; too few, and it takes nothing in.",
    );
    if let Some(bytes) = operation.free_bytes {
        free.add(&[], MetricValue::Whole(bytes));
    }
    vec![
        gauge("outhaul_hub_build_info", "1, with the version of the program.")
            .with(&[("version", operation.version)], MetricValue::Whole(1)),
        gauge("outhaul_hub_store_writable", "Whether the last write to the store succeeded.")
            .with(&[], yes(operation.writable)),
        free,
        gauge(
            "outhaul_hub_clock_plausible",
            "Whether the clock agrees with the times that the fleet signed; where not, nothing is acknowledged.",
        )
        .with(&[], yes(operation.clock_plausible)),
        gauge("outhaul_hub_fleet_read_duration_seconds", "How long the numbers of the fleet took to read.")
            .with(&[], seconds(took_ms)),
    ]
}

fn pushes(counts: &PushCounts) -> Vec<Metric> {
    let mut total = Metric::counter(
        "outhaul_hub_otlp_pushes_total",
        "Pushes of metrics by OTLP since the start, by result.",
    );
    for (result, count) in counts.by_result() {
        total.add(&[("result", result)], MetricValue::Whole(count));
    }
    vec![
        total,
        Metric::counter(
            "outhaul_hub_otlp_rejected_points_total",
            "Values that the collector reported as rejected since the start.",
        )
        .with(&[], MetricValue::Whole(counts.rejected_points)),
        Metric::gauge(
            "outhaul_hub_otlp_up",
            "Whether the last push was taken as a whole.",
        )
        .with(&[], MetricValue::Whole(u64::from(counts.up))),
    ]
}

/// Under the names that Prometheus's own libraries give them.
fn process(operation: &Operation) -> Vec<Metric> {
    let found = operation.process;
    let gauge = Metric::gauge;
    let some = |metric: Metric, value: Option<MetricValue>| match value {
        Some(value) => metric.with(&[], value),
        None => metric,
    };
    let whole = |metric: Metric, value: Option<u64>| some(metric, value.map(MetricValue::Whole));
    vec![
        some(
            Metric::counter(
                "process_cpu_seconds_total",
                "Time on processors, of user and system.",
            ),
            found.cpu_seconds.map(MetricValue::Real),
        ),
        whole(
            gauge("process_resident_memory_bytes", "Memory in RAM."),
            found.resident_bytes,
        ),
        whole(
            gauge("process_virtual_memory_bytes", "Address space."),
            found.virtual_bytes,
        ),
        whole(
            gauge("process_open_fds", "Open files and connections."),
            found.open_files,
        ),
        whole(
            gauge(
                "process_max_fds",
                "How many files and connections may be open.",
            ),
            found.max_files,
        ),
        whole(gauge("process_threads", "Threads."), found.threads),
        gauge(
            "process_start_time_seconds",
            "When the process started, in seconds since 1970.",
        )
        .with(&[], seconds(operation.started_ms)),
    ]
}
