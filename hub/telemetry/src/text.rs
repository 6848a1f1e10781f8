//! Metrics in Prometheus's text form, version 0.0.4.
//!
//! What comes in: metrics. What goes out: text; what labels hold cannot end a line.

use std::fmt::Write as _;

use crate::metric::{Metric, MetricKind, MetricValue};

/// The form's media type.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics as text.
pub fn text(metrics: &[Metric]) -> String {
    let mut out = String::new();
    for metric in metrics.iter().filter(|metric| !metric.samples.is_empty()) {
        let name = metric.name;
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
        };
        let help = metric.help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a text cannot fail, here and below.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for sample in &metric.samples {
            out.push_str(name);
            let mut open = '{';
            for (label, value) in sample.labels.iter().filter(|(_, value)| !value.is_empty()) {
                let _ = write!(out, "{open}{label}=\"{}\"", escaped(value));
                open = ',';
            }
            if open == ',' {
                out.push('}');
            }
            let _ = match sample.value {
                MetricValue::Whole(number) => writeln!(out, " {number}"),
                MetricValue::Real(number) => writeln!(out, " {number}"),
            };
        }
    }
    out
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_cannot_end_a_line_and_what_has_no_value_is_left_out() {
        let metrics = [
            Metric::gauge("a_seconds", "One\nof two.")
                .with(
                    &[("of", "x\"} 1\nb 2\\"), ("to", "")],
                    MetricValue::Real(1.5),
                )
                .with(&[("to", "")], MetricValue::Whole(3)),
            Metric::counter("b_total", "Nothing yet."),
        ];
        insta::assert_snapshot!(text(&metrics), @r#"
        # HELP a_seconds One\nof two.
        # TYPE a_seconds gauge
        a_seconds{of="x\"} 1\nb 2\\"} 1.5
        a_seconds 3
        "#);
    }
}
