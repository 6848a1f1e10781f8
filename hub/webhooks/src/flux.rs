//! An event of Flux, as notification-controller's provider `generic-hmac` forwards it.
//!
//! What comes in: the JSON of `event.toolkit.fluxcd.io/v1beta1`. What goes out: a [`WebhookEvent`]. Fields that are not used here may be
//! anything: Flux adds some. Success is one reason per kind and nothing else; what is not known is under way.

use std::collections::BTreeMap;

use outhaul_bundle::report::ObjectStatus;
use outhaul_bundle::{Digest, json_object};
use outhaul_kit::url::commit_of;
use serde::Deserialize;

use crate::event::{SITE_KEY, WebhookEvent, moment, object, shortened};

/// What a controller states when it has finished well.
const SUCCESS: [(&str, &[&str]); 2] = [
    ("Kustomization", &["ReconciliationSucceeded"]),
    (
        "HelmRelease",
        &["InstallSucceeded", "UpgradeSucceeded", "TestSucceeded"],
    ),
];
/// What helm-controller states, as information, when it took a release back.
const TAKEN_BACK: [&str; 2] = ["RollbackSucceeded", "UninstallSucceeded"];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    involved_object: InvolvedObject,
    severity: String,
    timestamp: String,
    message: String,
    reason: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct InvolvedObject {
    kind: String,
    namespace: String,
    name: String,
}

/// Reads one.
pub(crate) fn parse(body: &[u8]) -> Result<WebhookEvent, String> {
    let event: Event = json_object::read(body)
        .map_err(|error| format!("it is not an event of Flux: {}", shortened(&error)))?;
    let of = &event.involved_object;
    let site = event.metadata.get(SITE_KEY).cloned().ok_or_else(|| {
        format!("its metadata has no `{SITE_KEY}`: `eventMetadata` of the Alert names the site")
    })?;
    // Of an artifact that was pushed, the origin is the commit.
    let revision = event.metadata.get("originRevision");
    let revision = revision.or_else(|| event.metadata.get("revision"));
    let commit = revision.and_then(|revision| commit_of(revision));
    let succeeded = SUCCESS
        .iter()
        .any(|(kind, reasons)| *kind == of.kind && reasons.contains(&event.reason.as_str()));
    let status = match event.severity.as_str() {
        "error" => ObjectStatus::Failed,
        "info" if TAKEN_BACK.contains(&event.reason.as_str()) => ObjectStatus::Failed,
        // A Kustomization that names no commit shows nothing of the repository.
        "info" if succeeded && (commit.is_some() || of.kind != "Kustomization") => {
            ObjectStatus::Ready
        }
        "info" | "trace" => ObjectStatus::InProgress,
        _ => return Err("its severity is none of `info`, `error` and `trace`".to_owned()),
    };
    Ok(WebhookEvent {
        site,
        object: object(&of.kind, &of.namespace, &of.name)?,
        status,
        goes_on: status == ObjectStatus::InProgress && event.reason == "Progressing",
        commit,
        repository: None,
        path: None,
        message: shortened(&format!("{}: {}", event.reason, event.message)),
        at_ms: moment(&event.timestamp)?,
        body: Digest::of(body),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As notification-controller 1.9.3 posted it.
    fn event(severity: &str, reason: &str, kind: &str) -> String {
        format!(
            r#"{{"involvedObject":{{"kind":"{kind}","namespace":"flux-system","name":"platform","uid":"6","apiVersion":"kustomize.toolkit.fluxcd.io/v1","resourceVersion":"331"}},"severity":"{severity}","timestamp":"2026-11-29T22:10:05Z","message":"Reconciliation finished in 312ms, next run in 30s","reason":"{reason}","metadata":{{"commit_status":"update","revision":"dev@sha1:{}","site":"store-7"}},"reportingController":"kustomize-controller","reportingInstance":"host"}}"#,
            "a1".repeat(20)
        )
    }

    #[test]
    fn success_is_one_reason_and_a_failure_is_any_error() {
        use ObjectStatus::{Failed, InProgress, Ready};

        let read = |severity, reason, kind| {
            let found = parse(event(severity, reason, kind).as_bytes()).unwrap();
            (found.status, found.goes_on)
        };
        let found = parse(event("info", "ReconciliationSucceeded", "Kustomization").as_bytes());
        let found = found.unwrap();
        assert_eq!(found.object, "Kustomization/flux-system/platform");
        assert_eq!(found.commit, Some("a1".repeat(20)));
        assert_eq!(
            (found.site.as_str(), found.at_ms),
            ("store-7", 1_795_990_205_000)
        );
        assert_eq!(found.status, ObjectStatus::Ready);
        for (severity, reason, kind, expected) in [
            (
                "error",
                "ReconciliationSucceeded",
                "Kustomization",
                (Failed, false),
            ),
            ("error", "BuildFailed", "Kustomization", (Failed, false)),
            ("info", "Progressing", "Kustomization", (InProgress, true)),
            (
                "info",
                "DependencyNotReady",
                "Kustomization",
                (InProgress, false),
            ),
            (
                "info",
                "UpgradeSucceeded",
                "Kustomization",
                (InProgress, false),
            ),
            ("info", "UpgradeSucceeded", "HelmRelease", (Ready, false)),
            ("info", "RollbackSucceeded", "HelmRelease", (Failed, false)),
            (
                "info",
                "ReconciliationSucceeded",
                "Bucket",
                (InProgress, false),
            ),
        ] {
            assert_eq!(
                read(severity, reason, kind),
                expected,
                "{severity} {reason} {kind}"
            );
        }
    }

    #[test]
    fn what_names_no_site_object_time_or_severity_is_not_an_event() {
        let good = event("info", "ReconciliationSucceeded", "Kustomization");
        for (from, to) in [
            ("\"site\"", "\"cluster\""),
            ("flux-system", "../flux"),
            ("\"platform\"", "\"\""),
            ("2026-11-29T22:10:05Z", "yesterday"),
            ("\"info\"", "\"fatal\""),
            ("{", "["),
        ] {
            assert_ne!(good, good.replacen(from, to, 1));
            assert!(
                parse(good.replacen(from, to, 1).as_bytes()).is_err(),
                "{to}"
            );
        }
    }

    #[test]
    fn a_kustomization_without_a_commit_shows_nothing() {
        let text = event("info", "ReconciliationSucceeded", "Kustomization");
        let text = text.replace("dev@sha1:", "dev@sha1:x");
        let found = parse(text.as_bytes()).unwrap();
        assert_eq!(
            (found.status, found.commit),
            (ObjectStatus::InProgress, None)
        );
    }
}
