//! A metric: its name, what it means, and its values.
//!
//! What comes in: names by Prometheus's conventions, labels and numbers. What goes out: values that both forms are written from. It
//! reads no clock.

/// What a value does over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows, from 0 at the start of the process.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// A number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricValue {
    /// A whole one.
    Whole(u64),
    /// Any other.
    Real(f64),
}

/// One value with its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Names and values of labels; an empty value is that of a label which is not there.
    pub labels: Vec<(&'static str, String)>,
    /// The number.
    pub value: MetricValue,
}

/// One metric with all of its series.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// By Prometheus's conventions: with its unit, and `_total` at the end of a counter's.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// What its values do.
    pub kind: MetricKind,
    /// Its series.
    pub samples: Vec<Sample>,
}

impl Metric {
    /// A gauge.
    pub fn gauge(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            kind: MetricKind::Gauge,
            samples: Vec::new(),
        }
    }

    /// A counter.
    pub fn counter(name: &'static str, help: &'static str) -> Self {
        Self {
            kind: MetricKind::Counter,
            ..Self::gauge(name, help)
        }
    }

    /// With one more series.
    #[must_use]
    pub fn with(mut self, labels: &[(&'static str, &str)], value: MetricValue) -> Self {
        self.add(labels, value);
        self
    }

    /// Adds one more series.
    pub fn add(&mut self, labels: &[(&'static str, &str)], value: MetricValue) {
        let labels = labels
            .iter()
            .map(|(name, text)| (*name, (*text).to_owned()));
        self.samples.push(Sample {
            labels: labels.collect(),
            value,
        });
    }

    /// The unit that the name states, as OTLP has it.
    pub fn unit(&self) -> &'static str {
        let name = self.name.trim_end_matches("_total");
        if name.ends_with("_seconds") {
            "s"
        } else if name.ends_with("_bytes") {
            "By"
        } else {
            ""
        }
    }
}

/// Milliseconds as seconds.
pub(crate) fn seconds(ms: i64) -> MetricValue {
    let ms = u64::try_from(ms).unwrap_or(0);
    match ms.is_multiple_of(1000) {
        true => MetricValue::Whole(ms / 1000),
        #[expect(
            clippy::cast_precision_loss,
            reason = "a time of this age of the world"
        )]
        false => MetricValue::Real(ms as f64 / 1000.0),
    }
}
