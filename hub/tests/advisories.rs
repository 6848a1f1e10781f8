//! Advisories that come over HTTP: who may bring one, what is taken, and what is on record then.

use serde_json::Value;

use crate::access::{ask, bearer, login, token};
use crate::gate_rules::world;
use crate::program::{Server, stderr};

const ADVISORY: &str = r#"{"id":"DSA-1","modified":"2026-11-20T00:00:00Z","aliases":["CVE-1"],"affected":[{"package":
    {"ecosystem":"Debian:12","name":"openssl"},"ranges":[{"type":"ECOSYSTEM","events":[{"introduced":"0"},{"fixed":"3.0.11-1"}]}]}]}"#;
const VEX: &str = r#"{"@context":"https://openvex.dev/ns/v0.2.0","author":"Team A","timestamp":"2026-11-01T00:00:00Z","statements":[
    {"vulnerability":{"name":"CVE-1"},"products":[{"@id":"pkg:oci/camera"}],"status":"not_affected","impact_statement":"not reachable"}]}"#;
const CALL: &str = "POST /api/v1/advisories";

fn on_record(server: &Server, token: &str) -> usize {
    let all = ask(server, "GET /api/v1/advisories", &bearer(token), "");
    let all: Value = serde_json::from_str(&all.body).unwrap();
    all.as_array().unwrap().len()
}

#[test]
fn an_advisory_is_taken_from_an_admin_s_token_and_from_nobody_else() {
    let (hub, _, _) = world(&["drone-1"]);
    let (reader, admin) = (token(&hub, "ann", "read"), token(&hub, "mirror", "admin"));
    let server = hub.serve_in(&[], &[]);
    assert_eq!(ask(&server, CALL, "", ADVISORY).status, 401);
    let refused = ask(&server, CALL, &bearer(&reader), ADVISORY);
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert!(refused.body.contains("--scope admin"), "{}", refused.body);
    // The session of a browser is no token, whoever began it.
    let session = format!("Cookie: {}\r\n", login(&server, &admin));
    assert_eq!(ask(&server, CALL, &session, ADVISORY).status, 403);
    assert_eq!(on_record(&server, &reader), 0);

    for (body, kind, new) in [
        (ADVISORY, "advisory", true),
        (ADVISORY, "advisory", false),
        (VEX, "statements", true),
        (VEX, "statements", false),
    ] {
        let taken = ask(&server, CALL, &bearer(&admin), body);
        assert_eq!(taken.status, 200, "{}", taken.body);
        let taken: Value = serde_json::from_str(&taken.body).unwrap();
        assert_eq!((&taken["kind"], &taken["new"]), (&kind.into(), &new.into()));
    }
    // As large as it may be: a lane for small bodies has no room for it.
    let large = format!("{ADVISORY}{}", " ".repeat(15 * 1024 * 1024));
    let taken = ask(&server, CALL, &bearer(&admin), &large);
    assert_eq!(taken.status, 200, "{}", taken.body);
    let future = VEX.replace("2026-11-01", "9000-01-01");
    let later = ADVISORY.replace("2026-11-20", "9000-01-01");
    let unexplained = VEX.replace("not reachable", "");
    for (body, words) in [
        ("", "this was not accepted"),
        ("[]", "in the form of OSV"),
        ("\u{0}", "this was not accepted"),
        (&future, "in the future"),
        (&later, "in the future"),
        (&unexplained, "without a justification"),
    ] {
        let refused = ask(&server, CALL, &bearer(&admin), body);
        assert_eq!(refused.status, 422, "{body}: {}", refused.body);
        assert!(refused.body.contains(words), "{body}: {}", refused.body);
    }
    assert_eq!(on_record(&server, &reader), 1);
    drop(server);
    let listed = hub.json(&["advisories", "list"]).to_string();
    assert!(
        listed.contains("DSA-1") && listed.contains("mirror"),
        "{listed}"
    );
    let access = hub.json(&["audit", "access"]);
    let entries = access.as_array().unwrap().iter();
    let entries = entries.filter(|one| one["action"] == "advisory import");
    // Three that were new (the large one has another text), a token that may not, and a session.
    assert_eq!(entries.count(), 5, "{access}");
}

#[test]
fn an_import_says_what_became_of_a_document_and_what_of_it_can_match_nothing() {
    let (hub, _, _) = world(&["drone-1"]);
    let admin = token(&hub, "mirror", "admin");
    let server = hub.serve_in(&[], &[]);
    let newer = ADVISORY.replace("2026-11-20", "2026-11-21");
    for (body, outcome, new) in [
        (ADVISORY, "new", true),
        (ADVISORY, "known", false),
        (&newer, "replaced", true),
        (ADVISORY, "older", false),
    ] {
        let taken = ask(&server, CALL, &bearer(&admin), body);
        let taken: Value = serde_json::from_str(&taken.body).unwrap();
        assert_eq!(
            (&taken["outcome"], &taken["new"]),
            (&outcome.into(), &new.into())
        );
        assert_eq!(taken.get("notes"), None, "{taken}");
    }
    let odd = VEX.replace("pkg:oci/camera", "Camera App");
    let taken = ask(&server, CALL, &bearer(&admin), &odd);
    let taken: Value = serde_json::from_str(&taken.body).unwrap();
    assert_eq!(taken["outcome"], "new");
    assert_eq!(taken["notes"][0]["product"], "Camera App", "{taken}");
    drop(server);

    let file = hub.path("one.json");
    let import = |body: &str| {
        std::fs::write(&file, body).unwrap();
        let file = file.to_str().unwrap();
        let ran = hub.run(&["advisories", "import", file, "--by", "ann"]);
        String::from_utf8(ran.stdout).unwrap()
    };
    let said = import(ADVISORY);
    assert!(
        said.contains("the one on record was changed later"),
        "{said}"
    );
    let said = import(&newer);
    assert!(said.contains("it is on record as it is"), "{said}");
    let said = import(
        &newer
            .replace("2026-11-21", "2026-11-22")
            .replace("Debian:12", "npm"),
    );
    assert!(
        said.contains("imported, in place of the one on record"),
        "{said}"
    );
    assert!(
        said.contains("note: `openssl`: packages of `npm` are in no bill of materials here"),
        "{said}"
    );
    for (product, why) in [
        ("", "has no name, so it is about nothing"),
        ("pkg:deb/debian/", "the name after the last `/` is missing"),
        ("pkg:deb/debian/open%zzssl", "what follows a `%`"),
        ("pkg:deb/debian/openssl?distro", "the form `name=value`"),
        ("docker.io/library/nginx", "its tag or digest"),
    ] {
        let said = import(&VEX.replace("pkg:oci/camera", product));
        assert!(
            said.contains("note: ") && said.contains(why),
            "{product}: {said}"
        );
    }
    std::fs::write(
        &file,
        VEX.replace("https://openvex.dev/ns", "https://example.org/vex"),
    )
    .unwrap();
    let ran = hub.run(&[
        "advisories",
        "import",
        file.to_str().unwrap(),
        "--by",
        "ann",
    ]);
    let said = stderr(&ran);
    assert!(
        said.contains("its `@context` is `https://example.org/vex"),
        "{said}"
    );
    assert!(!said.contains("not an advisory"), "{said}");
}
