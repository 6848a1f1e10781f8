//! Attacks on sites that report by webhook, and registrations that are refused, with the real program.
//!
//! What comes in: events that are forged, replayed, dated ahead or of others, records of commits that nobody signed, and settings that
//! are none. What must come out: a refusal by its rule, or a site that confirms nothing.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use outhaul_bundle::Digest;
use outhaul_test_kit::plain::{NEW, OLD};
use serde_json::{Value, json};

use crate::gate_rules::gate;
use crate::http::plain as get;
use crate::program::{Hub, code, stderr};
use crate::webhooks::{
    COUNTS, OBJECT, draft, event, flux_site, forge_of, post, record, send, signed, standing, up,
    well, world,
};

/// Registers `store-7` of Flux, with `more` words.
fn again(
    hub: &Hub,
    cluster_type: &str,
    object: &str,
    record: &str,
    more: &[&str],
) -> std::process::Output {
    let of = [
        "site",
        "webhook",
        "store-7",
        "--sender",
        "flux",
        "--environment",
        "dev",
    ];
    let at = [
        "--cluster-type",
        cluster_type,
        "--repository",
        "https://git.example/platform",
        "--record",
        record,
        "--object",
        object,
    ];
    hub.run(&[&of[..], &at, more].concat())
}

#[test]
fn a_registration_that_is_refused_leaves_the_one_before() {
    let (hub, _, _) = world(&[]);
    let record = up();
    let secret = flux_site(&hub, "store-7", &record);
    let object = format!("{OBJECT}=drone");
    for (expected, cluster_type, object, says) in [
        (1, "drone", object.as_str(), "is registered already"),
        (2, "lorry", &object, "no bundle of dev/lorry"),
        (
            2,
            "drone",
            "Application/argocd/platform=.",
            "is not a `Kustomization` or `HelmRelease`",
        ),
        (2, "drone", "Kustomization/a/b=", "names no folder"),
        (
            2,
            "drone",
            "Kustomization/a/b=/edge",
            "leave the first `/` out",
        ),
        (2, "drone", "Kustomization/a/b=../edge", "without `..`"),
        (
            2,
            "drone",
            "HelmRelease/a/b=drone",
            "applies no folder of the repository",
        ),
    ] {
        let refused = again(&hub, cluster_type, object, &record, &[]);
        assert_eq!(code(&refused), expected, "{}", stderr(&refused));
        assert!(stderr(&refused).contains(says), "{}", stderr(&refused));
    }
    // With `--replace`, a name that is not registered is no new site.
    let words = [
        "site",
        "webhook",
        "store-8",
        "--sender",
        "flux",
        "--environment",
        "dev",
        "--replace",
    ];
    let at = [
        "--cluster-type",
        "drone",
        "--repository",
        "https://git.example/platform",
    ];
    let of = ["--record", &record, "--object", &object];
    let refused = hub.run(&[&words[..], &at, &of].concat());
    let said = stderr(&refused);
    assert!(
        code(&refused) == 2
            && said.contains("no site `store-8` is registered")
            && said.contains("did you mean `store-7`?")
            && said.contains("nothing was changed"),
        "{said}"
    );
    assert_eq!(hub.json(&["sites"]).as_array().unwrap().len(), 1);
    for (repository, says) in [
        ("r", "is not the address of a repository"),
        ("https://git.example/", "is not the address of a repository"),
        ("https://bot:word@git.example/a", "has a password in it"),
    ] {
        let words = [
            "site",
            "webhook",
            "store-9",
            "--sender",
            "flux",
            "--environment",
            "dev",
            "--cluster-type",
            "drone",
            "--repository",
            repository,
            "--record",
            &record,
            "--object",
            &object,
        ];
        let refused = hub.run(&words);
        assert_eq!(code(&refused), 2, "{}", stderr(&refused));
        let said = stderr(&refused);
        assert!(
            said.contains(says) && said.contains("nothing was changed"),
            "{said}"
        );
        assert!(!said.contains("word@"), "{said}");
    }
    let server = hub.serve(&[]);
    assert_eq!(
        send(&server, "store-7", &secret, &well("store-7", 0)).0,
        200
    );
}

#[test]
fn attack_a_record_that_is_not_of_the_signed_bundle_confirms_nothing() {
    let (hub, _, _) = world(&[]);
    let server = hub.serve(&[]);
    let other = json!(Digest::of(b"forged"));
    let change = |of: &dyn Fn(&mut Value)| {
        let mut changed = record();
        of(&mut changed);
        changed
    };
    let forged = [
        (
            change(&|one| one["files"]["drone/maps-uat/added.yaml"] = other.clone()),
            "failing",
            "other files of assignment `maps-uat` than bundle 1",
        ),
        (
            change(&|one| one["files"]["drone/extra/a.yaml"] = other.clone()),
            "failing",
            "assignment `extra`, and bundle 1 has not",
        ),
        (
            change(&|one| one["snapshot"]["base"]["repo"] = json!("https://git.example/another")),
            "failing",
            "`https://git.example/another`, and bundle 1 is of",
        ),
        (
            change(&|one| one["snapshot"]["base"]["commit"] = json!("9".repeat(40))),
            "in_progress",
            "this hub has no bundle of base 999999999999",
        ),
        (
            change(&|one| {
                one["snapshot"]["base"]["commit"] = json!(format!("\u{1b}[2J{NEW}"));
            }),
            "unreachable",
            "has control characters",
        ),
    ];
    for (at, (record, state, says)) in forged.iter().enumerate() {
        let site = format!("store-{at}");
        let record = forge_of(record, Arc::new(AtomicBool::new(true)));
        let secret = flux_site(&hub, &site, &record);
        let (status, answer) = send(&server, &site, &secret, &well(&site, 5));
        assert_eq!((status, &answer["state"]), (200, &json!(state)), "{answer}");
        // The next event is answered the same, of what is remembered.
        let next = send(&server, &site, &secret, &well(&site, 4)).1;
        assert_eq!(
            (&next["state"], &next["message"]),
            (&answer["state"], &answer["message"])
        );
        let message = answer["message"].as_str().unwrap();
        assert!(
            message.contains(says) && !message.contains('\u{1b}'),
            "{message}"
        );
        assert_ne!(
            standing(&gate(&hub, COUNTS).1, &site).0,
            "confirmed",
            "{answer}"
        );
    }
    // One that says the same confirms.
    let secret = flux_site(&hub, "store-7", &up());
    let (_, answer) = send(&server, "store-7", &secret, &well("store-7", 5));
    assert_eq!(answer["state"], "synced", "{answer}");
    assert_eq!(standing(&gate(&hub, COUNTS).1, "store-7").0, "confirmed");
}

#[test]
fn a_bundle_that_comes_later_counts_with_the_next_event() {
    let (hub, centre, _) = world(&[]);
    let mut of_old = record();
    of_old["snapshot"]["base"]["commit"] = json!(OLD);
    let of_old = forge_of(&of_old, Arc::new(AtomicBool::new(true)));
    let secret = flux_site(&hub, "store-7", &of_old);
    let server = hub.serve(&[]);
    for ago in [9, 8] {
        let answer = send(&server, "store-7", &secret, &well("store-7", ago)).1;
        let message = answer["message"].as_str().unwrap();
        assert_eq!(answer["state"], "in_progress", "{answer}");
        assert!(
            message.contains("no bundle of base 111111111111"),
            "{answer}"
        );
    }
    let bundle = centre.publish(&draft().base(OLD));
    hub.json(&["import", bundle.to_str().unwrap()]);
    let answer = send(&server, "store-7", &secret, &well("store-7", 7)).1;
    assert_eq!(answer["state"], "synced", "{answer}");
}

#[test]
fn attack_an_event_that_is_dated_ahead_hides_no_failure() {
    let (hub, _, _) = world(&[]);
    let secret = flux_site(&hub, "store-7", &up());
    let server = hub.serve(&[]);
    let ahead = well("store-7", -290);
    assert_eq!(
        send(&server, "store-7", &secret, &ahead).1["state"],
        "synced"
    );
    let failed = event("store-7", "error", "HealthCheckFailed", 20);
    let (_, answer) = send(&server, "store-7", &secret, &failed);
    assert_eq!(
        (&answer["result"], &answer["state"]),
        (&json!("recorded"), &json!("failing"))
    );
    assert_eq!(standing(&gate(&hub, COUNTS).1, "store-7").0, "failed");
    // What was sent before does not make it good again.
    assert_eq!(
        send(&server, "store-7", &secret, &ahead).1["result"],
        "known"
    );
    assert_eq!(standing(&gate(&hub, COUNTS).1, "store-7").0, "failed");
}

#[test]
fn an_event_that_is_forged_replayed_oversized_or_of_another_site_changes_nothing() {
    let (hub, _, _) = world(&[]);
    let record = up();
    let (secret, other) = (
        flux_site(&hub, "store-7", &record),
        flux_site(&hub, "store-8", &record),
    );
    assert_ne!(secret, other);
    let server = hub.serve(&[]);
    let first = well("store-7", 9);
    let body = first.to_string();
    let unproven = |path: &str, header: &str, body: &str| {
        let (status, answer) = post(&server, path, header, body);
        assert_eq!(
            (status, &answer["rule"]),
            (401, &json!("webhook-proof")),
            "{path} {answer}"
        );
    };
    // Forged, of another site's secret, without a proof, with a body that was changed, to another sender or to nobody.
    unproven("flux/store-7", &signed("guessed", &body), &body);
    unproven("flux/store-7", &signed(&other, &body), &body);
    unproven("flux/store-7", "", &body);
    unproven(
        "flux/store-7",
        &signed(&secret, &body),
        &body.replace("info", "error"),
    );
    unproven(
        "argocd/store-7",
        &format!("Authorization: Bearer {secret}\r\n"),
        &body,
    );
    unproven("flux/store-9", &signed(&secret, &body), &body);
    unproven("github/store-7", &signed(&secret, &body), &body);
    // Not even read: it is no JSON, and the answer is about its proof.
    unproven("flux/store-7", &signed("guessed", "{"), "{");

    let refused = |body: &Value, rule: &str| {
        let (status, answer) = send(&server, "store-7", &secret, body);
        assert_eq!((status, &answer["rule"]), (422, &json!(rule)), "{answer}");
    };
    // Of another cluster that was given this secret, too old, too far ahead, or not an event.
    refused(&well("store-8", 0), "webhook-other-site");
    refused(&well("store-7", 3 * 3600), "webhook-old");
    refused(&well("store-7", -3 * 3600), "webhook-future");
    refused(&json!({"kind": "nothing"}), "webhook-malformed");
    let long = "x".repeat(300 * 1024);
    let (status, _) = post(&server, "flux/store-7", &signed(&secret, &long), &long);
    assert_eq!(status, 413);
    let sites = hub.json(&["sites"]);
    assert_eq!(sites[0]["actual"], Value::Null, "{sites}");

    // Once: the same body again, or an older one after it, is known.
    assert_eq!(
        send(&server, "store-7", &secret, &first).1["result"],
        "recorded"
    );
    let failed = event("store-7", "error", "BuildFailed", 2);
    assert_eq!(
        send(&server, "store-7", &secret, &failed).1["result"],
        "recorded"
    );
    for replayed in [&first, &failed] {
        assert_eq!(
            send(&server, "store-7", &secret, replayed).1["result"],
            "known"
        );
    }
    assert_eq!(standing(&gate(&hub, COUNTS).1, "store-7").0, "failed");

    // What was refused is counted by rule, also where `faults` shows how the site stands.
    for command in [&["sites"][..], &["faults", "store-7"]] {
        let output = hub.run(command);
        let shown = format!(
            "{}{}",
            stderr(&output),
            String::from_utf8_lossy(&output.stdout)
        );
        for rule in ["other-site", "old", "future", "malformed"] {
            let line = format!(
                "store-7: at least 1 webhook event was refused by `webhook-{rule}`; the last at "
            );
            assert!(shown.contains(&line), "{rule}: {shown}");
        }
    }

    // About something else on the same cluster: named and counted, and the site stays as it is.
    let mut foreign = well("store-7", 0);
    foreign["involvedObject"]["name"] = json!("billing");
    let (status, answer) = send(&server, "store-7", &secret, &foreign);
    assert_eq!((status, &answer["result"]), (200, &json!("foreign")));
    let listed = stderr(&hub.run(&["sites"]));
    let says = "store-7: 1 webhook event about objects that it was not registered with: Kustomization/flux-system/billing";
    assert!(listed.contains(says), "{listed}");
    // The page says it at once, and `faults` how the site stands.
    let (_, page) = get(server.address(), "GET /sites/store-7", b"");
    assert!(
        page.contains("1 webhook event about objects that it was not registered with"),
        "{page}"
    );
    let told = hub.run(&["faults", "store-7"]);
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(
        told.contains("known by webhook of flux: report 2 of")
            && told.contains("shows it `failing`: "),
        "{told}"
    );
    assert_eq!(standing(&gate(&hub, COUNTS).1, "store-7").0, "failed");

    // A new secret: the one before shows nothing any more.
    let object = format!("{OBJECT}=drone");
    let replaced = again(&hub, "drone", &object, &record, &["--replace"]);
    assert_eq!(code(&replaced), 0, "{}", stderr(&replaced));
    let (status, _) = send(&server, "store-7", &secret, &well("store-7", 0));
    assert_eq!(status, 401);
    // Revoked: refused in words.
    hub.json(&["site", "revoke", "store-8"]);
    let (status, answer) = send(&server, "store-8", &other, &well("store-8", 0));
    assert_eq!(status, 422, "{answer}");
    assert!(
        answer["error"].as_str().unwrap().contains("revoked"),
        "{answer}"
    );
}

#[test]
fn attack_events_of_other_objects_keep_no_failure_out_and_those_that_were_refused_are_counted() {
    let (hub, _, _) = world(&[]);
    let secret = flux_site(&hub, "store-7", &up());
    let server = hub.serve(&[]);
    let mut foreign = well("store-7", 0);
    foreign["involvedObject"]["name"] = json!("billing");
    let flood = |body: &Value, answered: u16| {
        let status = (0..=120).map(|_| send(&server, "store-7", &secret, body).0);
        assert!(status.into_iter().any(|status| status == 429));
        assert_eq!(send(&server, "store-7", &secret, body).0, answered);
    };
    flood(&foreign, 429);
    // Nor do successes of the object itself.
    flood(&well("store-7", 3), 429);
    let failed = event("store-7", "error", "HealthCheckFailed", 2);
    let (status, answer) = send(&server, "store-7", &secret, &failed);
    assert_eq!(
        (status, &answer["state"]),
        (200, &json!("failing")),
        "{answer}"
    );
    let listed = stderr(&hub.run(&["sites"]));
    let line = listed.lines().find(|line| line.contains("`webhook-rate`"));
    let line = line.unwrap_or_else(|| panic!("{listed}"));
    assert!(
        line.contains("webhook events were refused by `webhook-rate`; the last at")
            && line.contains("has 120 events of registered objects within a minute"),
        "{line}"
    );
}
