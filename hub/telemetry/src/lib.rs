//! What a hub tells monitoring: metrics, read by Prometheus or pushed by OTLP.
//!
//! What comes in: the fleet in numbers, and what the process counts. What goes out: one list of metrics, as Prometheus's text and as
//! OTLP's JSON, so that the two cannot differ; and pushes to a collector, which nothing waits for. No metric is about a single site:
//! a hundred thousand of them would drown whoever collects them. It asks no database, knows no web server, and decides nothing.

mod fleet;
mod metric;
mod operation;
mod otlp;
mod process;
mod push;
mod settings;
mod text;

pub use fleet::of_fleet;
pub use metric::Metric;
pub use operation::{Lane, Operation};
pub use otlp::{Resource, document};
pub use process::Process;
pub use push::{PushChange, PushCounts, PushHealth, PushResult, push};
pub use settings::{OtlpSettings, SettingsError};
pub use text::{CONTENT_TYPE, text};

/// Every metric of a hub at one moment: what both ways of telling it are made of.
pub fn metrics(fleet: &outhaul_view::Measured, operation: &Operation) -> Vec<Metric> {
    let mut all = of_fleet(fleet, operation.now_ms);
    all.extend(operation::of_operation(operation));
    all
}
