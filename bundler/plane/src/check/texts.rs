//! Texts: values that are text here, and something else to other readers of YAML.
//!
//! What comes in: a control plane. What goes out: a warning for each value of a config container that
//! stands without quotes and that YAML 1.1, which many programs still read, takes for a boolean, a
//! number, a date or a time. What is quoted is left alone: its writer knew.

use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};

pub(super) fn retyped(plane: &ControlPlane, findings: &mut Diagnostics) {
    for container in plane.configs.values() {
        for (key, text) in &container.data {
            let Some(what) = other_reading(&text.value) else {
                continue;
            };
            let written = text.location.file.text.get(text.location.span.clone());
            if written.is_none_or(|written| written.trim_end() != text.value) {
                continue;
            }
            let message = format!("`{key}` is a string in YAML 1.2, {what} in 1.1");
            findings.push(
                Diagnostic::warning("yaml-retyped", message)
                    .at(&text.location)
                    .help(format!("quote it: \"{}\"", text.value)),
            );
        }
    }
}

/// What YAML 1.1 takes a plain text for that YAML 1.2 leaves as it is.
fn other_reading(text: &str) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase();
    if matches!(lower.as_str(), "yes" | "no" | "on" | "off" | "y" | "n") {
        return Some("a boolean");
    }
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let binary = unsigned.strip_prefix("0b");
    if binary.is_some_and(|b| !b.is_empty() && b.bytes().all(|b| matches!(b, b'0' | b'1' | b'_'))) {
        return Some("a number");
    }
    if unsigned.contains('_') && digits(&unsigned.replace('_', "")) {
        return Some("a number");
    }
    let times: Vec<&str> = unsigned.split(':').collect();
    if times.len() > 1
        && times.iter().enumerate().all(|(at, part)| {
            digits(part) && (at == 0 || part.len() <= 2 && part.parse::<u8>().is_ok_and(|n| n < 60))
        })
    {
        return Some("a number of base 60");
    }
    let date = text.split(['T', 't', ' ']).next().unwrap_or_default();
    let parts: Vec<&str> = date.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let is_date = parts.iter().all(|part| digits(part)) && matches!(lengths[..], [4, 1..=2, 1..=2]);
    is_date.then_some("a date")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_older_yaml_reads_otherwise_is_known() {
        for (text, what) in [
            ("yes", "a boolean"),
            ("Off", "a boolean"),
            ("12:30:45", "a number of base 60"),
            ("190:20", "a number of base 60"),
            ("1_000", "a number"),
            ("0b1010", "a number"),
            ("2024-01-01", "a date"),
            ("2024-1-1T10:00:00Z", "a date"),
        ] {
            assert_eq!(other_reading(text), Some(what), "{text}");
        }
        for text in [
            "yess",
            "12:61",
            "10.0.0.1:80",
            "a:1",
            "v1_000",
            "2024-01",
            "localhost",
            "",
            "1.2.3",
        ] {
            assert_eq!(other_reading(text), None, "{text}");
        }
    }
}
