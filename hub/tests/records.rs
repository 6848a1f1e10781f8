//! The hub's record over HTTP: decisions of gates, entries of people, uses of rights, and lists as CSV.

use outhaul_bundle::hub_api::{AccessRow, ActRow, DecisionAnswer, DecisionRow};
use outhaul_bundle::report::ComplianceStatus as C;
use outhaul_test_kit::plain::NEW;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::access::{Answer, ask, bearer, token};
use crate::gate_rules::{report, world};
use crate::program::{Server, code, stderr};

/// The rows of a list, each read by its type without a loss, and the address of those before.
#[track_caller]
fn rows<T: Serialize + DeserializeOwned>(answer: &Answer) -> (Vec<T>, Option<String>) {
    assert_eq!(answer.status, 200, "{}", answer.body);
    let all: Value = serde_json::from_str(&answer.body).unwrap();
    let typed: Vec<T> = serde_json::from_value(all.clone()).unwrap();
    assert_eq!(serde_json::json!(typed), all);
    let next = answer.header("link").strip_prefix('<');
    let next = next.map(|link| link.split('>').next().unwrap().to_owned());
    (typed, next)
}

fn get(server: &Server, path: &str, more: &str) -> Answer {
    ask(server, &format!("GET {path}"), more, "")
}

#[test]
fn what_was_decided_and_who_decided_it_is_answered_in_parts_and_as_csv() {
    let (hub, centre, mut sites) = world(&["a", "b"]);
    for _ in 0..2 {
        hub.gate("dev", NEW);
        report(&hub, &centre, &mut sites[0], C::Compliant);
    }
    report(&hub, &centre, &mut sites[1], C::Compliant);
    assert_eq!(hub.gate("dev", NEW).0, 0);
    let until = "2027-01-02T00:00:00Z";
    for arguments in [
        ["waive", "--site", "a", "--until", until].as_slice(),
        &["hold", "--environment", "dev"],
        &["withdraw", "1"],
    ] {
        let who = ["--by", "=ann", "--reason", "at sea, \"north\""];
        let done = hub.run(&[arguments, &who].concat());
        assert_eq!(code(&done), 0, "{}", stderr(&done));
    }
    let admin = bearer(&token(&hub, "root", "admin"));
    let reader = bearer(&token(&hub, "viewer", "read"));
    let server = hub.serve(&[]);
    let get = |path: &str| get(&server, path, &reader);

    let (all, next) = rows::<DecisionRow>(&get("/api/v1/decisions"));
    let numbers: Vec<i64> = all.iter().map(|row| row.number).collect();
    let verdicts: Vec<&str> = all.iter().map(|row| row.verdict.as_str()).collect();
    assert_eq!(numbers, [3, 2, 1]);
    assert_eq!(verdicts, ["open", "closed", "closed"]);
    assert_eq!(next, None);
    assert_eq!(
        (all[0].environment.as_str(), all[0].commit.as_str()),
        ("dev", NEW)
    );
    let mut path = "/api/v1/decisions?limit=1&environment=dev".to_owned();
    let mut in_parts = Vec::new();
    loop {
        let (part, next) = rows::<DecisionRow>(&get(&path));
        in_parts.extend(part);
        let Some(next) = next else { break };
        path = next;
    }
    assert_eq!(in_parts, all);
    let one = get("/api/v1/decision?number=3");
    let read: DecisionAnswer = serde_json::from_str(&one.body).unwrap();
    let sites: Vec<_> = (read.evidence.iter())
        .map(|row| (row.site.as_str(), row.status.as_str(), row.report))
        .collect();
    assert_eq!(
        sites,
        [("a", "confirmed", Some(2)), ("b", "confirmed", Some(1))]
    );
    assert_eq!((read.number, read.decision.confirmed), (3, 2));
    let raw: Value = serde_json::from_str(&one.body).unwrap();
    assert_eq!(serde_json::json!(read), raw);

    let (acts, _) = rows::<ActRow>(&get("/api/v1/acts"));
    let shown: Vec<_> = acts
        .iter()
        .map(|row| (row.number, row.kind.as_str(), row.withdrawn, row.in_force))
        .collect();
    let expected = [
        (3, "withdraw", false, None),
        (2, "hold", false, Some(true)),
        (1, "waive", true, Some(false)),
    ];
    assert_eq!(shown, expected);
    assert_eq!(acts[2].until.as_deref(), Some(until));
    let (part, next) = rows::<ActRow>(&get("/api/v1/acts?limit=2"));
    assert_eq!(
        (part.len(), next.as_deref()),
        (2, Some("/api/v1/acts?limit=2&before=2"))
    );
    let (in_force, _) = rows::<ActRow>(&get("/api/v1/acts?in_force=true"));
    assert_eq!(in_force, acts[1..2]);
    let table = get("/api/v1/acts?format=csv&limit=1");
    assert_eq!(table.header("content-type"), "text/csv; charset=utf-8");
    assert_eq!(
        table.header("link"),
        "</api/v1/acts?limit=1&before=3&format=csv>; rel=\"next\""
    );
    let lines: Vec<&str> = table.body.split("\r\n").collect();
    assert!(
        lines[0].starts_with("number,kind,at,by,reason,sentence,"),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("3,withdraw,")
            && lines[1].contains(",'=ann,\"at sea, \"\"north\"\"\","),
        "{lines:?}"
    );

    let (log, _) = rows::<AccessRow>(&ask(&server, "GET /api/v1/access", &admin, ""));
    assert!(
        log.iter()
            .any(|row| row.action == "token create" && row.allowed),
        "{log:?}"
    );
    let refused = get("/api/v1/access");
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert!(refused.body.contains("--scope admin"), "{}", refused.body);

    for (path, status, words) in [
        (
            "/api/v1/decisions?environment=devv",
            400,
            "no environment `devv`",
        ),
        (
            "/api/v1/decisions?environment=",
            400,
            "environment is empty",
        ),
        ("/api/v1/decisions?limit=0", 400, "limit is 1 to 1000"),
        ("/api/v1/decisions?before=0", 400, "before is a number"),
        ("/api/v1/decisions?in_force=true", 400, "`in_force`"),
        ("/api/v1/acts?environment=dev", 400, "`environment`"),
        ("/api/v1/decision?number=9", 404, "no decision 9"),
    ] {
        let answer = get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert!(answer.body.contains(words), "{path}: {}", answer.body);
    }
}

#[test]
fn each_list_is_answered_as_csv() {
    let (hub, centre, mut sites) = world(&["a", "b"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let server = hub.serve(&[]);
    for (list, columns, lines) in [
        ("sites", "site,environment,cluster_type,", 2),
        (
            "assignments",
            "site,environment,cluster_type,assignment,",
            4,
        ),
        ("bundles", "environment,cluster_type,number,", 1),
        ("requests", "site,environment,cluster_type,fingerprint,", 0),
        ("refusals", "site,rule,times,", 0),
    ] {
        let table = get(&server, &format!("/api/v1/{list}"), "Accept: text/csv\r\n");
        assert_eq!(table.header("content-type"), "text/csv; charset=utf-8");
        let found: Vec<&str> = table.body.trim_end().split("\r\n").collect();
        assert!(found[0].starts_with(columns), "{list}: {found:?}");
        assert_eq!(found.len(), lines + 1, "{list}: {found:?}");
    }
}
