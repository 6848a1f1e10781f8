//! Explanations that come over HTTP and from files: who may send one, what is taken, and what is shown of it then.

use outhaul_bundle::hub_api::{
    AssignmentExplanation, EXPLANATION_FORMAT, Entities, Entity, MAX_EXPLANATION_BYTES,
    PlatformExplanation, SetValue,
};
use outhaul_bundle::index::{Snapshot, Source};
use serde_json::{Value, json};

use crate::access::{ask, bearer, login, token};
use crate::gate_rules::world;
use crate::program::{Server, code, stderr};

const CALL: &str = "POST /api/v1/explanations";

fn document(value: &str) -> PlatformExplanation {
    let source = |name: &str| Source {
        name: name.to_owned(),
        repo: "https://git.example/plane".to_owned(),
        commit: "a".repeat(40),
    };
    let entity = |name: &str| Entity {
        name: name.to_owned(),
        at: "a.yaml:1".to_owned(),
        ..Entity::default()
    };
    PlatformExplanation {
        format: EXPLANATION_FORMAT,
        environment: "dev".to_owned(),
        snapshot: Snapshot::of(source("dev"), source("main"), Vec::new()),
        entities: Entities {
            cluster_types: vec![entity("drone")],
            policies: vec![entity("all")],
            targets: vec![entity("camera-functional")],
            ..Entities::default()
        },
        assignments: vec![AssignmentExplanation {
            cluster_type: "drone".to_owned(),
            target: "camera-functional".to_owned(),
            policies: vec!["all".to_owned()],
            verdicts: vec![serde_json::from_value(json!({"policy": "all", "at": "a.yaml:1", "targets": "", "cluster_types": "", "matches": [], "misses": []})).unwrap()],
            config: Some(0),
            ..AssignmentExplanation::default()
        }],
        not_assigned: Vec::new(),
        not_assigned_left_out: 0,
        configs: vec![vec![SetValue {
            key: "WIDTH".to_owned(),
            value: Some(json!(value)),
            layers: Vec::new(),
        }]],
    }
}

fn text(document: &PlatformExplanation) -> String {
    serde_json::to_string(document).unwrap()
}

fn on_record(server: &Server, token: &str) -> Value {
    let all = ask(server, "GET /api/v1/explanations", &bearer(token), "");
    assert_eq!(all.status, 200, "{}", all.body);
    serde_json::from_str(&all.body).unwrap()
}

#[test]
fn an_explanation_is_taken_with_scope_ingest_or_admin_and_from_nobody_else() {
    let (hub, _, _) = world(&["drone-1"]);
    let reader = token(&hub, "ann", "read");
    let recorder = token(&hub, "gate", "record");
    let (ingest, admin) = (token(&hub, "centre", "ingest"), token(&hub, "ops", "admin"));
    let server = hub.serve_in(&[], &[]);
    let sent = text(&document("62"));
    let nobody = ask(&server, CALL, "", &sent);
    assert_eq!(nobody.status, 401);
    assert!(nobody.body.contains("--scope ingest"), "{}", nobody.body);
    for other in [&reader, &recorder] {
        let refused = ask(&server, CALL, &bearer(other), &sent);
        assert_eq!(refused.status, 403, "{}", refused.body);
        assert!(refused.body.contains("--scope ingest"), "{}", refused.body);
    }
    // The session of a browser is no token, whoever began it.
    let session = format!("Cookie: {}\r\n", login(&server, &admin));
    assert_eq!(ask(&server, CALL, &session, &sent).status, 403);
    assert_eq!(on_record(&server, &reader), json!([]));

    let taken = ask(&server, CALL, &bearer(&ingest), &sent);
    assert_eq!(taken.status, 200, "{}", taken.body);
    let taken: Value = serde_json::from_str(&taken.body).unwrap();
    assert_eq!(
        (&taken["new"], &taken["sent_by"]),
        (&true.into(), &"centre".into())
    );
    let again = ask(&server, CALL, &bearer(&admin), &sent);
    let again: Value = serde_json::from_str(&again.body).unwrap();
    assert_eq!(
        (&again["new"], &again["last_sent_by"]),
        (&false.into(), &"ops".into())
    );
    assert_eq!(on_record(&server, &reader).as_array().unwrap().len(), 1);
    // Who may send need not be able to read.
    for path in [
        "/platform",
        "/api/v1/explanations",
        "/explain/dev/drone/camera-functional",
    ] {
        let read = ask(&server, &format!("GET {path}"), &bearer(&ingest), "");
        assert_eq!(read.status, 403, "{path}: {}", read.body);
    }
    drop(server);
    let access = hub.json(&["audit", "access"]);
    let entries = access.as_array().unwrap().iter();
    let allowed = entries.filter(|one| one["action"] == "explanation" && one["allowed"] == true);
    assert_eq!(allowed.count(), 2, "{access}");
}

#[test]
fn one_token_sends_sixty_a_minute_and_what_it_sends_again_is_on_record_once() {
    let (hub, _, _) = world(&["drone-1"]);
    let (centre, other) = (
        token(&hub, "centre", "ingest"),
        token(&hub, "other", "ingest"),
    );
    let server = hub.serve_in(&[], &[]);
    let sent = text(&document("62"));
    let send = |token: &str| ask(&server, CALL, &bearer(token), &sent).status;
    for at in 0..60 {
        assert_eq!(send(&centre), 200, "{at}");
    }
    assert_eq!(send(&centre), 429);
    assert_eq!(send(&other), 200);
    drop(server);
    let access = hub.json(&["audit", "access"]);
    let entries = access.as_array().unwrap().iter();
    let allowed = entries.filter(|one| one["action"] == "explanation" && one["allowed"] == true);
    assert_eq!(allowed.count(), 2, "{access}");
}

#[test]
fn what_is_no_whole_explanation_is_refused_with_its_rule_and_changes_nothing() {
    let (hub, _, _) = world(&["drone-1"]);
    let centre = token(&hub, "centre", "ingest");
    let admin = token(&hub, "ops", "admin");
    let server = hub.serve_in(&[], &[]);
    let bent = |bend: fn(&mut PlatformExplanation)| {
        let mut document = document("62");
        bend(&mut document);
        text(&document)
    };
    for (body, rule) in [
        (String::new(), "malformed"),
        ("{}".to_owned(), "malformed"),
        (bent(|one| one.format = 7), "format"),
        (bent(|one| one.snapshot.base.commit.push('b')), "snapshot"),
        (bent(|one| one.configs.clear()), "contradiction"),
    ] {
        let refused = ask(&server, CALL, &bearer(&centre), &body);
        assert_eq!(refused.status, 422, "{rule}: {}", refused.body);
        let answer: Value = serde_json::from_str(&refused.body).unwrap();
        assert_eq!(answer["rule"], rule, "{answer}");
        assert!(
            answer["error"]
                .as_str()
                .unwrap()
                .starts_with("this was not accepted")
        );
    }
    // One that is announced to be too large is not read at all.
    let length = format!(
        "{}Content-Length: {}\r\n",
        bearer(&centre),
        MAX_EXPLANATION_BYTES + 1
    );
    let large = announced(&server, &length);
    assert!(large.contains(" 413 "), "{large}");
    assert_eq!(on_record(&server, &admin), json!([]));
}

/// The answer to a body that is announced and does not come.
fn announced(server: &Server, headers: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    let head = format!("{CALL} HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn questions_that_nothing_answers_are_refused_with_what_to_do() {
    let (hub, _, _) = world(&["drone-1"]);
    let admin = token(&hub, "ops", "admin");
    let server = hub.serve_in(&[], &[]);
    let long = "x".repeat(600);
    let get = |path: &str| ask(&server, &format!("GET {path}"), &bearer(&admin), "");
    for (path, status, words) in [
        ("/api/v1/platform?environment=dev", 404, "--whole --send"),
        ("/api/v1/platform", 400, "environment"),
        (
            "/api/v1/platform?environment=dev&limit=0",
            400,
            "limit is 1 to",
        ),
        (
            "/api/v1/platform?environment=dev&offset=4000000000",
            400,
            "offset is",
        ),
        (
            "/api/v1/explanation?environment=dev&cluster_type=drone&target=x",
            404,
            "--whole --send",
        ),
        ("/api/v1/explanation?environment=dev", 400, "cluster_type"),
        ("/api/v1/explanations?env=dev", 400, "env"),
        (
            &format!("/api/v1/explanations?environment={long}"),
            400,
            "512 bytes",
        ),
        ("/platform/dev", 404, "--whole --send"),
        ("/platform/dev/robot", 404, "not a kind"),
        ("/platform/dev?aftr=x", 400, "aftr"),
        ("/explain/nowhere/drone/x", 404, "nowhere"),
        ("/explain/dev/%ff/x", 400, "UTF-8"),
        ("/explain/dev/drone/x?sit=a", 400, "sit"),
        (&format!("/explain/dev/drone/{long}"), 400, "512 bytes"),
        (
            &format!("/platform/dev?after={}", "x".repeat(400)),
            404,
            "--whole --send",
        ),
        ("/explain/dev/drone/x?site=nowhere", 404, "No site"),
        // The environment is known, and nothing explains it.
        (
            "/explain/dev/drone/camera-functional",
            200,
            "No explanation is on record",
        ),
        ("/platform", 200, "No explanation is on record"),
    ] {
        let answer = get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert!(answer.body.contains(words), "{path}: {}", answer.body);
    }
}

#[test]
fn a_file_is_imported_in_its_envelope_and_shown_with_who_brought_it() {
    let (hub, _, _) = world(&["drone-1"]);
    let admin = token(&hub, "ops", "admin");
    let file = hub.path("dev.json");
    let envelope =
        json!({"command": "outhaul explain", "ok": true, "result": document("a <b> & c")});
    std::fs::write(&file, envelope.to_string()).unwrap();
    let name = file.to_str().unwrap();
    let done = hub.json(&["import", "explanation", name, "--by", "alice"]);
    assert_eq!(
        (&done["new"], &done["sent_by"]),
        (&true.into(), &"alice (command line)".into())
    );
    let ran = hub.run(&["import", "explanation", name, "--by", "bob"]);
    assert!(String::from_utf8_lossy(&ran.stdout).contains("already known"));
    std::fs::write(&file, text(&document("other"))).unwrap();
    let ran = hub.run(&["import", "explanation", name, "--by", "bob"]);
    assert!(
        stderr(&ran).contains("with other content"),
        "{}",
        stderr(&ran)
    );
    std::fs::write(&file, "{}").unwrap();
    let ran = hub.run(&["import", "explanation", name, "--by", "bob"]);
    assert_eq!(code(&ran), 2, "{}", stderr(&ran));
    assert!(
        stderr(&ran).contains("was not imported"),
        "{}",
        stderr(&ran)
    );
    // A folder may come from a site: nothing in it explains anything.
    let stick = hub.path("stick");
    std::fs::create_dir(&stick).unwrap();
    std::fs::write(stick.join("dev.explanation.json"), text(&document("stick"))).unwrap();
    let ran = hub.run(&["import", stick.to_str().unwrap()]);
    assert_eq!(code(&ran), 1, "{}", stderr(&ran));

    let server = hub.serve_in(&[], &[]);
    let get = |path: &str| ask(&server, &format!("GET {path}"), &bearer(&admin), "").body;
    let page = get("/explain/dev/drone/camera-functional");
    for words in [
        "not signed by the fleet",
        "1 with other content",
        "another snapshot",
        "<strong>bob (command line)</strong>",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let rows = on_record(&server, &admin);
    assert_eq!(rows.as_array().unwrap().len(), 2, "{rows}");
    let first = rows[1]["digest"].as_str().unwrap();
    let chosen = get(&format!(
        "/explain/dev/drone/camera-functional?digest={first}"
    ));
    assert!(chosen.contains("a &lt;b&gt; &amp; c"), "{chosen}");
    let pair = "/api/v1/explanation?environment=dev&cluster_type=drone&target=camera-functional";
    let answer: Value = serde_json::from_str(&get(pair)).unwrap();
    assert_eq!(answer["values"][0]["value"], "other", "{answer}");
    // One is on record: which of what was asked for is not, is said.
    for (path, words) in [
        (
            format!("{pair}&digest=zzz"),
            "no explanation of this digest",
        ),
        (
            "/api/v1/platform?environment=dev&digest=zzz".to_owned(),
            "no explanation of this digest",
        ),
        (
            format!("{pair}-x"),
            "does not have this pair: the control plane had no deployment target",
        ),
    ] {
        let answer = get(&path);
        assert!(answer.contains(words), "{path}: {answer}");
    }
    let platform: Value = serde_json::from_str(&get("/api/v1/platform?environment=dev")).unwrap();
    assert_eq!(platform["assignments"][0]["target"], "camera-functional");
    assert!(get("/platform/dev/target/camera-functional").contains("camera-functional on drone"));
    assert!(get("/platform/dev/target/camera-functiona").contains("did you mean"));
}

#[test]
fn forged_contents_of_a_snapshot_keep_the_true_one_out_for_no_one_who_runs_the_hub() {
    let (hub, _, _) = world(&["drone-1"]);
    let (eve, centre) = (
        token(&hub, "eve", "ingest"),
        token(&hub, "centre", "ingest"),
    );
    let admin = token(&hub, "ops", "admin");
    let send = |server: &Server, token: &str, value: &str| {
        let answer = ask(server, CALL, &bearer(token), &text(&document(value)));
        (answer.status, answer.body)
    };
    let server = hub.serve_in(&[], &[]);
    for forged in ["1", "2", "3"] {
        assert_eq!(send(&server, &eve, forged).0, 200);
    }
    let (status, refused) = send(&server, &centre, "true");
    assert_eq!(status, 507, "{refused}");
    let refused: Value = serde_json::from_str(&refused).unwrap();
    assert_eq!(refused["rule"], "full-of-contents");
    let why = refused["error"].as_str().unwrap();
    assert!(why.contains("by `eve`") && why.contains("explanation remove"));
    assert_eq!(on_record(&server, &admin).as_array().unwrap().len(), 3);
    assert_eq!(send(&server, &admin, "from an admin").0, 200);
    let rows = on_record(&server, &admin);
    let forged = rows[1]["digest"].as_str().unwrap().to_owned();
    drop(server);

    // One by its digest, on record.
    let remove = ["explanation", "remove", &forged, "--by", "alice"];
    let done = hub.json(&remove);
    assert_eq!(
        (&done["removed"], &done["sent_by"]),
        (&true.into(), &"eve".into())
    );
    let removed = hub.json(&["audit", "access"]);
    let again = hub.run(&remove);
    assert_eq!(code(&again), 2, "{}", stderr(&again));
    assert_eq!(hub.json(&["audit", "access"]), removed);
    let access = hub.json(&["audit", "access"]);
    let entries = access.as_array().unwrap().iter();
    let mut removed = entries.filter(|one| one["action"] == "explanation remove");
    let detail = removed.next().unwrap()["detail"].as_str().unwrap();
    assert!(
        detail.contains(&forged) && detail.contains("by `alice`"),
        "{detail}"
    );

    // The command on the hub's machine, and anybody once the token was revoked.
    let import = |value: &str| {
        let file = hub.path("dev.json");
        std::fs::write(&file, text(&document(value))).unwrap();
        hub.json(&[
            "import",
            "explanation",
            file.to_str().unwrap(),
            "--by",
            "centre",
        ])
    };
    assert_eq!(import("by hand")["new"], true);
    assert_eq!(import("by hand again")["new"], true);
    let server = hub.serve_in(&[], &[]);
    // What `--by centre` brought is not what the token `centre` sent.
    let (status, refused) = send(&server, &centre, "true");
    assert_eq!(status, 507, "{refused}");
    assert!(refused.contains("`centre (command line)`"), "{refused}");
    for forged in ["1", "2", "3"] {
        send(&server, &admin, forged);
    }
    hub.json(&["token", "revoke", "ops"]);
    assert_eq!(send(&server, &centre, "true").0, 200);
}
