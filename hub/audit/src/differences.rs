//! Where a decision that was made again differs from the one on record.
//!
//! What comes in: both, as content and as lines of evidence. What goes out: a sentence per difference. It decides nothing.

use std::collections::BTreeSet;

use serde_json::Value;

/// Each field of the content that is another one.
pub fn fields(again: &mut Value, recorded: &Value, differences: &mut Vec<String>) {
    let keys = |value: &Value| -> BTreeSet<String> {
        value
            .as_object()
            .map(|map| map.keys().cloned().collect())
            .unwrap_or_default()
    };
    for key in keys(again).union(&keys(recorded)) {
        let (now, then) = (again.get(key), recorded.get(key));
        if now != then {
            let text = |value: Option<&Value>| {
                let text = value.map_or_else(|| "nothing".to_owned(), ToString::to_string);
                text.chars().take(400).collect::<String>()
            };
            differences.push(format!(
                "`{key}` is {}, recorded is {}",
                text(now),
                text(then)
            ));
        }
    }
}

/// Each line of evidence that only one of the two has.
pub fn lines(again: &[String], recorded: &[String], differences: &mut Vec<String>) {
    let clean = |lines: &[String]| -> BTreeSet<String> {
        lines
            .iter()
            .map(|line| line.trim_end().replace('\t', " "))
            .collect()
    };
    let (again, recorded) = (clean(again), clean(recorded));
    for line in again.difference(&recorded) {
        differences.push(format!("a site is `{line}`, which is not recorded"));
    }
    for line in recorded.difference(&again) {
        differences.push(format!("a site is recorded as `{line}`"));
    }
}
