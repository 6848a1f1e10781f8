//! What is said of an assignment, without the secrets of its config: templates and schemas repeat values in what they report.
//!
//! What comes in: a text, and the config that it is about. What goes out: the same text with `…` in the place of what looks like a secret in
//! one of the values. It reports nothing: what is wrong with a secret in clear is a finding of its own.

use outhaul_kit::secrets;
use serde_json::Value;

/// `text` without the secrets of `values`.
pub(crate) fn without_secrets(text: &str, values: &Value) -> String {
    let mut found = Vec::new();
    collect("", "", values, &mut found);
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    secrets::without(text, &found)
}

/// Adds the secrets in the value of `key`: those by its key, and those by that of the `holder` that it is below.
fn collect(holder: &str, key: &str, value: &Value, found: &mut Vec<String>) {
    let mut add = |text: &str| {
        for key in [key, holder] {
            found.extend(secrets::of(key, text).into_iter().map(str::to_owned));
        }
    };
    let holder = if secrets::holds(key) { key } else { holder };
    match value {
        Value::String(text) => add(text),
        Value::Number(number) => add(&number.to_string()),
        Value::Array(items) => {
            for item in items {
                collect(holder, key, item, found);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                collect(holder, key, value, found);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::schema::to_json;
    use crate::compose::{Mode, typing};

    #[test]
    fn what_a_template_repeats_of_a_secret_is_left_out_of_what_it_reports() {
        let values = "{db: {password: hunter2, token: {a: hunter3}, pin: [{password: 20041}]}, url: 'a:\n  token: abcdef'}";
        let values = to_json(&typing::typed(values, Mode::default()));
        let said = "cannot make hunter2 of 20041, hunter3 and abcdef in url";
        let said = without_secrets(said, &values);
        assert_eq!(said, "cannot make … of …, … and … in url");
    }
}
