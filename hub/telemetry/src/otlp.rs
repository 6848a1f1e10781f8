//! Metrics in OTLP's JSON form: what a collector takes at `/v1/metrics`.
//!
//! What comes in: metrics, what they are of, and two times. What goes out: the JSON of an `ExportMetricsServiceRequest`, with 64-bit
//! numbers as text, as the protocol buffers' JSON form has them. Counters are cumulative since the start of the process.

use serde::Serialize;

use crate::metric::{Metric, MetricKind, MetricValue, Sample};

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u8 = 2;
/// Nanoseconds of a millisecond.
const NANOSECONDS: i64 = 1_000_000;

/// What metrics are of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// `service.instance.id`: one hub, also after a restart.
    pub instance: String,
    /// The fleet's id.
    pub fleet: String,
    /// The version of the program.
    pub version: &'static str,
    /// When the process started, milliseconds since 1970.
    pub started_ms: i64,
}

/// The name of the program, as `service.name`.
const SERVICE: &str = "outhaul-hub";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    resource_metrics: [ResourceMetrics; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceMetrics {
    resource: Attributes,
    scope_metrics: [ScopeMetrics; 1],
}

#[derive(Serialize)]
struct Attributes {
    attributes: Vec<Attribute>,
}

#[derive(Serialize)]
struct Attribute {
    key: &'static str,
    value: Text,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    string_value: String,
}

#[derive(Serialize)]
struct ScopeMetrics {
    scope: Scope,
    metrics: Vec<One>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct One {
    name: &'static str,
    description: &'static str,
    unit: &'static str,
    #[serde(flatten)]
    data: Data,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Data {
    Gauge(Gauge),
    Sum(Sum),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Gauge {
    data_points: Vec<Point>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sum {
    aggregation_temporality: u8,
    is_monotonic: bool,
    data_points: Vec<Point>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Point {
    attributes: Vec<Attribute>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time_unix_nano: Option<String>,
    time_unix_nano: String,
    #[serde(flatten)]
    number: Number,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Number {
    AsInt(String),
    AsDouble(f64),
}

/// The body of one push.
///
/// # Errors
/// None but a lack of memory: JSON has all that is in it.
pub fn document(
    metrics: &[Metric],
    resource: &Resource,
    now_ms: i64,
) -> Result<Vec<u8>, serde_json::Error> {
    let with_values = metrics.iter().filter(|metric| !metric.samples.is_empty());
    serde_json::to_vec(&Request {
        resource_metrics: [ResourceMetrics {
            resource: Attributes {
                attributes: vec![
                    attribute("service.name", SERVICE),
                    attribute("service.version", resource.version),
                    attribute("service.instance.id", &resource.instance),
                    attribute("outhaul.fleet", &resource.fleet),
                ],
            },
            scope_metrics: [ScopeMetrics {
                scope: Scope {
                    name: SERVICE,
                    version: resource.version,
                },
                metrics: with_values
                    .map(|metric| one(metric, resource.started_ms, now_ms))
                    .collect(),
            }],
        }],
    })
}

fn attribute(key: &'static str, value: &str) -> Attribute {
    Attribute {
        key,
        value: Text {
            string_value: value.to_owned(),
        },
    }
}

fn one(metric: &Metric, started_ms: i64, now_ms: i64) -> One {
    let points = |start| {
        let point = |sample: &Sample| point(sample, start, now_ms);
        metric.samples.iter().map(point).collect()
    };
    One {
        name: metric.name,
        description: metric.help,
        unit: metric.unit(),
        data: match metric.kind {
            MetricKind::Gauge => Data::Gauge(Gauge {
                data_points: points(None),
            }),
            MetricKind::Counter => Data::Sum(Sum {
                aggregation_temporality: CUMULATIVE,
                is_monotonic: true,
                data_points: points(Some(started_ms)),
            }),
        },
    }
}

fn point(sample: &Sample, started_ms: Option<i64>, now_ms: i64) -> Point {
    let nanoseconds = |ms: i64| ms.saturating_mul(NANOSECONDS).to_string();
    let labels = sample.labels.iter().filter(|(_, value)| !value.is_empty());
    Point {
        attributes: labels.map(|(name, value)| attribute(name, value)).collect(),
        start_time_unix_nano: started_ms.map(nanoseconds),
        time_unix_nano: nanoseconds(now_ms),
        number: match sample.value {
            MetricValue::Whole(number) => Number::AsInt(number.min(i64::MAX as u64).to_string()),
            MetricValue::Real(number) => Number::AsDouble(number),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_counter_has_the_start_of_the_process_and_a_gauge_has_none() {
        let metrics = [
            Metric::counter("b_total", "Counted.").with(&[("result", "a")], MetricValue::Whole(3)),
            Metric::gauge("c_bytes", "Size.").with(&[("to", "")], MetricValue::Real(0.5)),
            Metric::gauge("d", "Nothing."),
        ];
        let resource = Resource {
            instance: "i".to_owned(),
            fleet: "f".to_owned(),
            version: "0.1.0",
            started_ms: 1_000,
        };
        let body = document(&metrics, &resource, 2_000).unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let metrics = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        let attributes = json!([{"key": "result", "value": {"stringValue": "a"}}]);
        let expected = json!([
            {"name": "b_total", "description": "Counted.", "unit": "", "sum": {
                "aggregationTemporality": 2, "isMonotonic": true, "dataPoints": [{
                    "attributes": attributes, "startTimeUnixNano": "1000000000", "timeUnixNano": "2000000000",
                    "asInt": "3"}]}},
            {"name": "c_bytes", "description": "Size.", "unit": "By", "gauge": {"dataPoints": [{
                    "attributes": [], "timeUnixNano": "2000000000", "asDouble": 0.5}]}},
        ]);
        assert_eq!(metrics, &expected);
    }
}
