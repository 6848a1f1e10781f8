//! An event of Argo CD, in the one body that its notifications are to be set up with: `outhaul.dev/argocd-webhook/v1`.
//!
//! What comes in: the JSON that the documented template renders. What goes out: a [`WebhookEvent`]. The format is ours, so that an
//! unknown field is an error. Success is an application that is synced, healthy and not at work, at a commit.

use outhaul_bundle::report::ObjectStatus;
use outhaul_bundle::{Digest, json_object};
use outhaul_kit::url::commit_of;
use serde::Deserialize;

use crate::event::{WebhookEvent, moment, object, shortened};

/// The format's name.
pub const FORMAT: &str = "outhaul.dev/argocd-webhook/v1";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Event {
    format: String,
    site: String,
    namespace: String,
    application: String,
    repository: String,
    // Absent from bodies of templates that are older than it.
    #[serde(default)]
    path: Option<String>,
    revision: String,
    sync: String,
    // `toJson` writes `null` for what an Application has not, such as an operation before the first one.
    #[serde(default)]
    health: Option<String>,
    #[serde(default)]
    phase: Option<String>,
    #[serde(default)]
    message: Option<String>,
    at: String,
}

/// Reads one.
pub(crate) fn parse(body: &[u8]) -> Result<WebhookEvent, String> {
    let event: Event = json_object::read(body)
        .map_err(|error| format!("it is not `{FORMAT}`: {}", shortened(&error)))?;
    if event.format != FORMAT {
        return Err(format!("it is not `{FORMAT}`"));
    }
    let text = |one: &Option<String>| one.clone().unwrap_or_default();
    let (health, phase) = (text(&event.health), text(&event.phase));
    let commit = commit_of(&event.revision);
    let is_well = event.sync == "Synced"
        && health == "Healthy"
        && matches!(phase.as_str(), "Succeeded" | "")
        && commit.is_some();
    let status = match (phase.as_str(), health.as_str()) {
        ("Failed" | "Error", _) | (_, "Degraded") => ObjectStatus::Failed,
        _ if is_well => ObjectStatus::Ready,
        _ => ObjectStatus::InProgress,
    };
    let stated = format!(
        "sync {}, health {health}, operation {phase}: {}",
        event.sync,
        text(&event.message)
    );
    Ok(WebhookEvent {
        site: event.site,
        object: object("Application", &event.namespace, &event.application)?,
        status,
        goes_on: false,
        commit,
        repository: Some(event.repository),
        path: event.path.filter(|path| !path.is_empty()),
        message: shortened(&stated),
        at_ms: moment(&event.at)?,
        body: Digest::of(body),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ObjectStatus::{Failed, InProgress, Ready};

    fn event(sync: &str, health: &str, phase: &str) -> String {
        format!(
            r#"{{"format":"{FORMAT}","site":"store-7","namespace":"argocd","application":"platform","repository":"https://git.example/platform.git","revision":"{}","sync":"{sync}","health":"{health}","phase":"{phase}","message":"","at":"2026-11-29T22:10:05Z"}}"#,
            "b2".repeat(20)
        )
    }

    #[test]
    fn success_is_synced_and_healthy_and_finished_at_a_commit() {
        for (sync, health, phase, expected) in [
            ("Synced", "Healthy", "Succeeded", Ready),
            ("Synced", "Healthy", "", Ready),
            ("Synced", "Healthy", "Running", InProgress),
            ("Synced", "Progressing", "Succeeded", InProgress),
            ("OutOfSync", "Healthy", "Succeeded", InProgress),
            ("Synced", "Degraded", "Succeeded", Failed),
            ("OutOfSync", "Healthy", "Failed", Failed),
            ("Unknown", "Unknown", "Error", Failed),
        ] {
            let found = parse(event(sync, health, phase).as_bytes()).unwrap();
            assert_eq!(found.status, expected, "{sync} {health} {phase}");
            assert_eq!(found.object, "Application/argocd/platform");
        }
        let text = event("Synced", "Healthy", "Succeeded").replace(&"b2".repeat(20), "HEAD");
        assert_eq!(parse(text.as_bytes()).unwrap().status, InProgress);
    }

    #[test]
    fn what_an_application_has_not_may_be_null_or_absent() {
        let good = event("Synced", "Healthy", "Succeeded");
        let mut body: serde_json::Value = serde_json::from_str(&good).unwrap();
        for field in ["phase", "message"] {
            body[field] = serde_json::Value::Null;
        }
        let found = parse(body.to_string().as_bytes()).unwrap();
        assert_eq!(found.status, ObjectStatus::Ready);
        // An unknown health is not a good one.
        body["health"] = serde_json::Value::Null;
        let found = parse(body.to_string().as_bytes()).unwrap();
        assert_eq!(found.status, ObjectStatus::InProgress);
        body.as_object_mut().unwrap().remove("health");
        let found = parse(body.to_string().as_bytes()).unwrap();
        assert_eq!(found.status, ObjectStatus::InProgress);
    }

    #[test]
    fn attack_an_array_is_no_event_and_an_error_is_short_and_printable() {
        let good = event("Synced", "Healthy", "Succeeded");
        let body: serde_json::Value = serde_json::from_str(&good).unwrap();
        let names = [
            "format",
            "site",
            "namespace",
            "application",
            "repository",
            "revision",
            "sync",
            "health",
            "phase",
            "message",
            "at",
        ];
        let array: Vec<_> = names.iter().map(|name| body[name].clone()).collect();
        let array = serde_json::to_vec(&array).unwrap();
        assert!(parse(&array).unwrap_err().contains("JSON array"));
        let long = format!("{{\"\\u001b[2J{}\":1}}", "x".repeat(10_000));
        let error = parse(long.as_bytes()).unwrap_err();
        assert!(error.len() < 500 && !error.contains('\u{1b}'), "{error}");
    }

    #[test]
    fn another_format_and_an_unknown_field_are_refused() {
        let good = event("Synced", "Healthy", "Succeeded");
        for (from, to) in [
            (FORMAT, "outhaul.dev/argocd-webhook/v2"),
            ("\"site\"", "\"cluster\""),
            ("\"message\"", "\"more\":1,\"message\""),
            ("2026-11-29T22:10:05Z", ""),
        ] {
            assert!(
                parse(good.replacen(from, to, 1).as_bytes()).is_err(),
                "{to}"
            );
        }
    }
}
