//! Sites that report by webhook, with the real program: what an event changes, what a gate makes of it, and what does not hold.
//!
//! What comes in: a hub that knows a bundle, a forge that has the record of a commit, and requests as Flux and Argo CD send them. What
//! must come out: one report per event, marked as what it is, which a gate counts where its rules say so and the audit confirms.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hmac::{Hmac, KeyInit as _, Mac as _};
use outhaul_bundle::Digest;
use outhaul_bundle::report::{ComplianceStatus, GenerationState, ReportEvent};
use outhaul_test_kit::plain::NEW;
use outhaul_test_kit::{Centre, Draft, Load, Site};
use outhaul_tests::Checked as _;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::gate_rules::gate;
use crate::http::{exchange, plain as get};
use crate::program::{Hub, Server, code, stderr};

pub const COMMIT: &str = "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
pub const COUNTS: &str = r#"{"webhook_evidence": true}"#;
pub const OBJECT: &str = "Kustomization/flux-system/platform";

/// Bundle 1, with files.
pub fn draft() -> Draft {
    let load = |name: &str| Load::new(name).file("manifest.yaml", format!("name: {name}\n"));
    Draft::new([load("camera-functional"), load("maps-uat")]).base(NEW)
}

/// A hub that knows bundle 1, and sites with an agent.
pub fn world(names: &[&str]) -> (Hub, Centre, Vec<Site>) {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let bundle = centre.publish(&draft());
    hub.json(&["import", bundle.to_str().unwrap()]);
    let stream = centre.stream("dev", "drone");
    let sites = names.iter().map(|name| {
        let site = centre.site(name, &stream);
        let file = hub.path(&format!("{name}.request"));
        fs::write(&file, site.request()).unwrap();
        hub.add(&file, &site);
        site
    });
    let sites = sites.collect();
    (hub, centre, sites)
}

/// An agent says that bundle 1 is active and well.
fn report(hub: &Hub, centre: &Centre, site: &mut Site) {
    let mut event = site.event(1, NEW, GenerationState::Active, ComplianceStatus::Compliant);
    event.index = Digest::of(&centre.index(&draft(), 1).0.to_bytes());
    for one in &mut event.assignments {
        one.config_version = Digest::of(one.name.as_str().as_bytes());
    }
    let line = site.say(ReportEvent::Generation(event));
    let file = hub.path("agent.reports");
    fs::write(&file, line).unwrap();
    hub.json(&["import", file.to_str().unwrap()]);
}

/// The record of a commit that holds what bundle 1 does.
pub fn record() -> Value {
    let index = Centre::new().index(&draft(), 1).0;
    let mut files = serde_json::Map::new();
    for assignment in &index.assignments {
        for file in &assignment.files {
            let path = format!("drone/{}/{}", assignment.name, file.path.as_str());
            files.insert(path, json!(file.content));
        }
    }
    files.insert("other/c/d.yaml".to_owned(), json!(Digest::of(b"x")));
    json!({"format": "outhaul.dev/output/v1", "environment": "dev", "snapshot": index.snapshot, "files": files})
}

/// Answers any request with the record of a commit rendered from [`NEW`], as long as it may. Ends with the test's process.
fn forge(answers: Arc<AtomicBool>) -> String {
    forge_of(&record(), answers)
}

pub fn forge_of(record: &Value, answers: Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "http://{}/raw/{{commit}}/platform.json",
        listener.local_addr().unwrap()
    );
    let record = record.to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(&stream);
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                line.clear();
            }
            let status = match answers.load(Ordering::Relaxed) {
                true => "200 OK",
                false => "502 Bad Gateway",
            };
            let length = record.len();
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(record.as_bytes());
        }
    });
    url
}

pub fn up() -> String {
    forge(Arc::new(AtomicBool::new(true)))
}

/// Registers a site, and returns its secret.
pub fn register(hub: &Hub, site: &str, sender: &str, object: &str, record: &str) -> String {
    let more = ["--record", record, "--object", object];
    let made = hub.json(
        &[
            &[
                "site",
                "webhook",
                site,
                "--sender",
                sender,
                "--environment",
                "dev",
            ][..],
            &[
                "--cluster-type",
                "drone",
                "--repository",
                "https://git.example/platform",
            ],
            &more,
        ]
        .concat(),
    );
    assert_eq!(made["path"], format!("/api/v1/webhooks/{sender}/{site}"));
    made["secret"].as_str().unwrap().to_owned()
}

pub fn flux_site(hub: &Hub, site: &str, record: &str) -> String {
    register(hub, site, "flux", &format!("{OBJECT}=drone"), record)
}

/// An event of Flux, made `ago` seconds ago.
pub fn event(site: &str, severity: &str, reason: &str, ago: i64) -> Value {
    let now = outhaul_test_kit::now().as_second();
    json!({
        "involvedObject": {"kind": "Kustomization", "namespace": "flux-system", "name": "platform",
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "uid": "1"},
        "severity": severity, "reason": reason, "message": "as the controller says",
        "timestamp": outhaul_gate::time::rfc3339((now - ago) * 1000),
        "metadata": {"revision": format!("dev@sha1:{COMMIT}"), "site": site},
        "reportingController": "kustomize-controller",
    })
}

pub fn well(site: &str, ago: i64) -> Value {
    event(site, "info", "ReconciliationSucceeded", ago)
}

pub fn signed(secret: &str, body: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    let code = mac.chain_update(body.as_bytes()).finalize().into_bytes();
    format!("X-Signature: sha256={}\r\n", hex::encode(code))
}

pub fn post(server: &Server, path: &str, header: &str, body: &str) -> (u16, Value) {
    let stream = std::net::TcpStream::connect(server.address()).unwrap();
    let head = format!("POST /api/v1/webhooks/{path}");
    let (status, text) = exchange(stream, &head, header, body.as_bytes());
    (
        status,
        serde_json::from_str(&text).unwrap_or_else(|_| json!(text)),
    )
}

pub fn send(server: &Server, site: &str, secret: &str, body: &Value) -> (u16, Value) {
    let body = body.to_string();
    post(
        server,
        &format!("flux/{site}"),
        &signed(secret, &body),
        &body,
    )
}

/// The site's entry in a decision.
pub fn standing(decision: &Value, site: &str) -> (String, String) {
    let sites = decision["sites"].as_array().unwrap();
    let found = sites.iter().find(|one| one["site"] == site).unwrap();
    let text = |name: &str| found[name].as_str().unwrap().to_owned();
    (text("standing"), text("message"))
}

#[test]
fn one_gate_over_an_agent_and_a_webhook_counts_the_second_only_where_a_rule_says_so() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0]);
    let secret = flux_site(&hub, "store-7", &up());
    assert_eq!(standing(&gate(&hub, "{}").1, "store-7").0, "never_reported");
    let server = hub.serve(&[]);
    let (status, answer) = send(&server, "store-7", &secret, &well("store-7", 3));
    assert_eq!(
        (status, &answer["state"]),
        (200, &json!("synced")),
        "{answer}"
    );
    assert_eq!(answer["object"], OBJECT);

    // Closed by default, and it says why.
    let (closed, decision) = gate(&hub, "{}");
    let (word, why) = standing(&decision, "store-7");
    assert_eq!((closed, word.as_str()), (1, "webhook_only"), "{decision}");
    assert!(
        why.contains("shows bundle 1 by webhook of flux alone"),
        "{why}"
    );
    assert!(why.contains("webhookEvidence: counts"), "{why}");
    let (open, decision) = gate(&hub, COUNTS);
    assert_eq!(open, 0, "{decision}");
    assert_eq!(decision["confirmed"], 2);
    let evidence = decision["evidence"].as_array().unwrap();
    let kinds: Vec<_> = evidence.iter().map(|one| one["webhook"].as_str()).collect();
    assert_eq!(kinds, [None, Some("flux")], "{decision}");
    let asked = ["gate", "--environment", "dev", "--commit", NEW];
    // Rules that are only tried out are not those on record.
    let tried = stderr(&hub.run(&[&asked[..], &["--rules", "{}"]].concat()));
    assert!(!tried.contains("let webhooks count"), "{tried}");
    // A question cannot ask for less than what is on record.
    let stricter = gate(&hub, "{}");
    assert_eq!(stricter.0, 1);
    let said = stderr(&hub.run(&asked));
    assert!(
        said.contains("the rules on record do not let webhooks count: `outhaul-hub --state "),
        "{said}"
    );

    // A failure closes it, in the controller's words, also where such evidence counts.
    let failed = event("store-7", "error", "HealthCheckFailed", 1);
    assert_eq!(
        send(&server, "store-7", &secret, &failed).1["state"],
        "failing"
    );
    let (closed, decision) = gate(&hub, COUNTS);
    let (word, why) = standing(&decision, "store-7");
    assert_eq!((closed, word.as_str()), (1, "failed"));
    assert!(
        why.contains("HealthCheckFailed: as the controller says"),
        "{why}"
    );
    assert_eq!(
        send(&server, "store-7", &secret, &well("store-7", 0)).0,
        200
    );
    assert_eq!(gate(&hub, COUNTS).0, 0);

    // The command that lets it count, as it is printed: for the step, and for each step.
    for more in [
        &["--rules", r#"{"min_sites": 1}"#][..],
        &["--to", "stage", "--rules", r#"{"min_sites": 2}"#],
    ] {
        let recorded = hub.run(&[&asked[..], more, &["--record"]].concat());
        assert_eq!(code(&recorded), 1, "{}", stderr(&recorded));
    }
    let said = stderr(&hub.run(&[&asked[..], &["--to", "stage"]].concat()));
    let line = said
        .lines()
        .find(|line| line.contains("let webhooks count"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    let typed: Vec<&str> = line
        .split('`')
        .filter(|part| part.starts_with("outhaul-hub "))
        .collect();
    assert_eq!(typed.len(), 2, "{line}");
    for command in typed {
        // The state is given besides.
        let words = &command[command.find("gate ").unwrap()..];
        let (before, rest) = words.split_once('\'').unwrap();
        let (rules, after) = rest.split_once('\'').unwrap();
        let words = before
            .split_whitespace()
            .chain([rules])
            .chain(after.split_whitespace());
        let done = hub.run(&words.collect::<Vec<_>>());
        assert!(code(&done) < 2, "{}", stderr(&done));
    }
    let open = hub.run(&[&asked[..], &["--to", "stage"]].concat());
    assert_eq!(code(&open), 0, "{}", stderr(&open));

    // The page of the site says what it rests on.
    let (status, page) = get(server.address(), "GET /sites/store-7", b"");
    assert_eq!(status, 200);
    assert!(page.contains("by webhook of flux"), "{page}");

    // The audit recomputes all of it from the signed reports.
    let export = hub.path("audit.jsonl");
    let written = hub.run(&["audit", "export", export.to_str().unwrap()]);
    assert_eq!(code(&written), 0, "{}", stderr(&written));
    let audit = outhaul_tests::program("outhaul-audit").unwrap();
    let root = centre.root();
    let checked = std::process::Command::new(audit)
        .args([
            "verify",
            export.to_str().unwrap(),
            "--root",
            root.to_str().unwrap(),
        ])
        .checked()
        .unwrap();
    assert_eq!(code(&checked), 0, "{}", stderr(&checked));
    let text = std::fs::read_to_string(&export).unwrap();
    assert!(text.contains(r#""via":"webhook""#), "{text}");
}

#[test]
fn a_record_that_cannot_be_read_is_reported_and_read_with_the_next_event() {
    let (hub, _, _) = world(&[]);
    let answers = Arc::new(AtomicBool::new(false));
    let secret = flux_site(&hub, "store-7", &forge(Arc::clone(&answers)));
    let server = hub.serve(&[]);
    let (_, answer) = send(&server, "store-7", &secret, &well("store-7", 5));
    assert_eq!(answer["state"], "unreachable", "{answer}");
    assert!(
        answer["message"].as_str().unwrap().contains("502"),
        "{answer}"
    );
    assert_eq!(gate(&hub, COUNTS).0, 1);
    let listed = hub.run(&["sites"]);
    let row = String::from_utf8(listed.stdout.clone()).unwrap();
    assert!(row.contains("unknown") && !row.contains("behind"), "{row}");
    let said = stderr(&listed);
    assert!(
        said.contains("store-7: unreachable: the record of the commit cannot be read"),
        "{said}"
    );
    answers.store(true, Ordering::Relaxed);
    let (_, answer) = send(&server, "store-7", &secret, &well("store-7", 4));
    assert_eq!(answer["state"], "synced", "{answer}");
    assert_eq!(gate(&hub, COUNTS).0, 0);
}

#[test]
fn a_failure_closes_at_any_share_also_where_the_record_of_its_commit_cannot_be_read() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0]);
    let secret = flux_site(&hub, "store-7", &forge(Arc::new(AtomicBool::new(false))));
    let server = hub.serve(&[]);
    let (_, answer) = send(&server, "store-7", &secret, &well("store-7", 5));
    assert_eq!(answer["state"], "unreachable", "{answer}");
    let half = r#"{"webhook_evidence": true, "quorum_percent": 50}"#;
    assert_eq!(gate(&hub, half).0, 0, "what is only not known is missing");
    let failed = event("store-7", "error", "HealthCheckFailed", 4);
    let (_, answer) = send(&server, "store-7", &secret, &failed);
    assert_eq!(answer["state"], "failing", "{answer}");
    let message = answer["message"].as_str().unwrap();
    let reason = format!("{OBJECT}: HealthCheckFailed: as the controller says; ");
    assert!(
        message.starts_with(&reason) && message.contains("cannot be read"),
        "{message}"
    );
    let (closed, decision) = gate(&hub, half);
    let (word, why) = standing(&decision, "store-7");
    assert_eq!((closed, word.as_str()), (1, "failed"), "{decision}");
    assert!(why.contains("HealthCheckFailed"), "{why}");
    // No bundle is named that no report names.
    let text = String::from_utf8(
        hub.run(&["gate", "--environment", "dev", "--commit", NEW])
            .stdout,
    );
    let text = text.unwrap();
    assert!(!text.contains("bundle 0"), "{text}");
    assert!(text.contains("no known bundle, failed"), "{text}");
}

#[test]
fn argo_cd_shows_its_secret_and_its_body_is_the_one_that_is_documented() {
    let (hub, _, _) = world(&[]);
    let secret = register(
        &hub,
        "store-7",
        "argocd",
        "Application/argocd/platform=.",
        &up(),
    );
    let server = hub.serve(&[]);
    let mut body = json!({"format": "outhaul.dev/argocd-webhook/v1", "site": "store-7", "namespace": "argocd",
        "application": "platform", "repository": "https://git.example/platform.git", "revision": COMMIT, "sync": "Synced",
        "health": "Healthy", "phase": "Succeeded", "message": "successfully synced", "at": well("", 5)["timestamp"]});
    let send = |secret: &str, body: &Value| {
        let header = format!("Authorization: Bearer {secret}\r\n");
        post(&server, "argocd/store-7", &header, &body.to_string())
    };
    assert_eq!(send("guessed", &body).0, 401);
    let (status, answer) = send(&secret, &body);
    assert_eq!(
        (status, &answer["state"]),
        (200, &json!("synced")),
        "{answer}"
    );
    let (open, decision) = gate(&hub, COUNTS);
    assert_eq!(
        (open, &decision["evidence"][0]["webhook"]),
        (0, &json!("argocd")),
        "{decision}"
    );
    // The same repository in another spelling, and the folder, which newer templates name.
    body["repository"] = json!("https://GIT.example:443/platform/");
    body["path"] = json!("./");
    assert_eq!(send(&secret, &body).1["state"], "synced");
    // Another one: what it applies is not what the site was registered with.
    body["repository"] = json!("https://git.example/another");
    let (_, answer) = send(&secret, &body);
    assert_eq!(
        (&answer["result"], &answer["state"]),
        (&json!("recorded"), &json!("failing"))
    );
    let (closed, decision) = gate(&hub, COUNTS);
    let (word, why) = standing(&decision, "store-7");
    assert_eq!((closed, word.as_str()), (1, "failed"), "{decision}");
    assert!(
        why.contains("follows another repository, `https://git.example/another`"),
        "{why}"
    );
}

#[test]
fn events_that_come_at_once_are_all_on_record_and_in_one_chain() {
    let (hub, _, _) = world(&[]);
    let secret = flux_site(&hub, "store-7", &up());
    let server = hub.serve(&[]);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (server, secret) = (&server, &secret);
            scope.spawn(move || {
                let mut body = well("store-7", 4);
                body["message"] = json!(format!("finished {number}"));
                assert_eq!(
                    send(server, "store-7", secret, &body).1["result"],
                    "recorded"
                );
            });
        }
    });
    assert_eq!(gate(&hub, COUNTS).0, 0);
    let site = hub.json(&["sites"])[0].clone();
    assert_eq!(
        (&site["missing"], &site["conflict"]),
        (&json!([]), &Value::Null),
        "{site}"
    );
}
