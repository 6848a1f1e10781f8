//! One condition of one object: whether it is as it is wanted.
//!
//! What comes in: an object as the API server has it, the type of a condition and the status that it is to have. What goes out:
//! that it is so, or why not, in the words of the object's controller. A condition that is about an older
//! generation of the object is not believed. It asks nobody.

use serde_json::Value;

/// Whether the condition has the status.
///
/// # Errors
/// A sentence that says what is there instead.
pub fn has(object: &Value, condition: &str, status: &str) -> Result<(), String> {
    let all = object["status"]["conditions"].as_array();
    let all = all.map(Vec::as_slice).unwrap_or_default();
    let Some(found) = all.iter().find(|one| one["type"] == condition) else {
        let mut known: Vec<&str> = all.iter().filter_map(|one| one["type"].as_str()).collect();
        known.sort_unstable();
        return Err(match known.is_empty() {
            true => "it has no condition yet".to_owned(),
            false => format!(
                "it has no condition `{condition}`; it has {}",
                known.join(", ")
            ),
        });
    };
    let generation = object["metadata"]["generation"].as_i64();
    let seen = found["observedGeneration"]
        .as_i64()
        .or_else(|| object["status"]["observedGeneration"].as_i64());
    if let (Some(generation), Some(seen)) = (generation, seen)
        && seen < generation
    {
        return Err(format!(
            "its controller has seen generation {seen} of it, not {generation} yet"
        ));
    }
    let is = found["status"].as_str().unwrap_or("nothing");
    if is == status {
        return Ok(());
    }
    let said = ["reason", "message"].map(|field| found[field].as_str().unwrap_or_default());
    let said: Vec<&str> = said.into_iter().filter(|said| !said.is_empty()).collect();
    let said = match said.is_empty() {
        true => String::new(),
        false => format!(": {}", said.join(": ")),
    };
    Err(format!("`{condition}` is {is}, not {status}{said}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_counts_only_with_its_status_and_for_the_present_generation() {
        let object = |status: &str, seen: i64| {
            json!({
                "metadata": {"generation": 3},
                "status": {"observedGeneration": seen, "conditions": [
                    {"type": "Progressing", "status": "True"},
                    {"type": "Available", "status": status, "reason": "MinimumReplicasUnavailable",
                     "message": "Deployment does not have minimum availability."},
                ]},
            })
        };
        assert_eq!(has(&object("True", 3), "Available", "True"), Ok(()));
        assert_eq!(has(&object("False", 3), "Available", "False"), Ok(()));
        let why = has(&object("False", 3), "Available", "True").unwrap_err();
        assert_eq!(
            why,
            "`Available` is False, not True: MinimumReplicasUnavailable: Deployment does not have minimum availability."
        );
        let why = has(&object("True", 2), "Available", "True").unwrap_err();
        assert!(why.contains("generation 2 of it, not 3"), "{why}");
        let why = has(&object("True", 3), "Ready", "True").unwrap_err();
        assert_eq!(
            why,
            "it has no condition `Ready`; it has Available, Progressing"
        );
        assert_eq!(
            has(&json!({}), "Ready", "True").unwrap_err(),
            "it has no condition yet"
        );
    }

    #[test]
    fn attack_conditions_of_any_shape_end_in_a_sentence() {
        for object in [
            json!(null),
            json!({"status": 1}),
            json!({"status": {"conditions": "x"}}),
            json!({"status": {"conditions": [1, {"type": 2}]}}),
        ] {
            has(&object, "Ready", "True").unwrap_err();
        }
    }
}
