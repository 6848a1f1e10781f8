//! People log in at a real identity provider, decide, and are logged out; what an attacker tries on the way; several hubs.

use std::fs;

use outhaul_bundle::report::ComplianceStatus as C;
use outhaul_test_kit::Centre;
use outhaul_test_kit::plain::NEW;
use outhaul_tests::postgres;
use serde_json::json;

use crate::access::{get, login, posted, token};
use crate::gate_rules::{report, world};
use crate::postgresql;
use crate::program::{Hub, Server, code, stderr};
use crate::provider::{Browser, Gitea, free_port};

const GRANTS: &str = "- {claim: groups, values: [ops], scopes: [read, approve]}\n- {claim: email, values: [bob@example.org], scopes: [read]}";

fn serve(hub: &Hub, port: u16, settings: &str) -> Server {
    let listen = format!("127.0.0.1:{port}");
    hub.serve_in(&["--listen", &listen, "--oidc", settings], &[])
}

/// Begins at the hub, agrees at the provider, and returns where the browser is sent.
#[track_caller]
fn sent_back(browser: &mut Browser, gitea: &Gitea, who: &str, hub: &str) -> String {
    let begun = browser.get(&format!("{hub}/login/oidc?next=%2Fenvironments%2Fdev"));
    assert_eq!(begun.status, 303, "{}", begun.body);
    let kept = begun.header("set-cookie");
    assert!(
        kept.contains("HttpOnly; SameSite=Lax") && kept.contains("Max-Age=600"),
        "{kept}"
    );
    browser.agree(gitea, who, begun.header("location"))
}

#[track_caller]
fn logged_in(browser: &mut Browser, gitea: &Gitea, who: &str, hub: &str) {
    let back = sent_back(browser, gitea, who, hub);
    let done = browser.led_to(&back);
    assert_eq!(done.status, 200, "{}", done.body);
    assert!(
        done.body
            .contains(&format!("logged in as <strong>oidc:{who}</strong>")),
        "{}",
        done.body
    );
}

#[test]
fn a_person_logs_in_at_gitea_approves_on_the_page_and_the_record_names_the_person() {
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let Some(gitea) = Gitea::or_skip(&["ann", "bob", "eve"], &url) else {
        return;
    };
    gitea.api("ann", "POST /api/v1/orgs", &json!({"username": "ops"}));
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let server = serve(&hub, port, &gitea.settings(&url, GRANTS));
    let mut ann = Browser::default();
    let page = ann.get(&format!("{url}/login?next=/environments/dev"));
    assert!(
        page.body
            .contains("href=\"/login/oidc?next=%2Fenvironments%2Fdev\">Log in with Gitea</a>"),
        "{}",
        page.body
    );

    let back = sent_back(&mut ann, &gitea, "ann", &url);
    let again = ann.copy();
    let done = ann.led_to(&back);
    let set = done.all("set-cookie");
    let session = set
        .iter()
        .find(|set| set.starts_with("outhaul_session="))
        .unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=3600"] {
        assert!(session.contains(part), "{session}");
    }
    // The provider's page leads here, so a redirect would come without the session: this page continues automatically.
    assert_eq!((done.status, done.header("location")), (200, ""));
    let goes_on = "http-equiv=\"refresh\" content=\"0;url=&#x2f;environments&#x2f;dev\"";
    assert!(done.body.contains(goes_on), "{}", done.body);

    // The same answer once more, with the cookies of before: a code is used once.
    let mut replayed = again;
    let refused = replayed.led_to(&back);
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("was used before"), "{}", refused.body);
    assert_eq!(replayed.cookie(&url, "outhaul_session"), None);

    let board = ann.get(&format!("{url}/environments/dev"));
    assert!(
        board
            .body
            .contains("logged in as <strong>oidc:ann</strong>"),
        "{}",
        board.body
    );
    let act = format!("{url}/act?kind=approve&environment=dev&commit={NEW}");
    let page = ann.get(&act);
    let (form, seen) = (page.field("form"), page.field("seen"));
    let fields = [
        ("form", &*form),
        ("seen", &seen),
        ("kind", "approve"),
        ("environment", "dev"),
        ("commit", NEW),
        ("reason", "signed off"),
    ];
    let approved = ann.post(&format!("{url}/act"), &fields);
    assert_eq!(approved.status, 303, "{}", approved.body);
    assert_eq!(hub.json(&["approvals"])[0]["by"], "oidc:ann");

    // Bob may look, by his verified address, and not decide; Eve may nothing, and nobody passes for a token.
    let mut bob = Browser::default();
    logged_in(&mut bob, &gitea, "bob", &url);
    assert_eq!(bob.get(&act).status, 403);
    let mut eve = Browser::default();
    let back = sent_back(&mut eve, &gitea, "eve", &url);
    let refused = eve.led_to(&back);
    assert_eq!(refused.status, 403);
    let words = "<code>oidc:eve</code>, and this hub&#x27;s settings give you nothing: ask the hub&#x27;s operator";
    assert!(refused.body.contains(words), "{}", refused.body);
    assert_eq!(eve.get(&format!("{url}/sites")).status, 303);
    // Each time is on record, and counted: with the replayed answer above these are ten.
    for _ in 0..8 {
        let back = sent_back(&mut eve, &gitea, "eve", &url);
        assert_eq!(eve.led_to(&back).status, 403);
    }
    let back = sent_back(&mut eve, &gitea, "eve", &url);
    assert_eq!(eve.led_to(&back).status, 429);

    let log = hub.json(&["audit", "access"]);
    let entries: Vec<_> = log
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            (
                text("who"),
                text("how"),
                text("action"),
                entry["allowed"].as_bool().unwrap_or_default(),
            )
        })
        .collect();
    let oidc = "oidc".to_owned();
    for (who, action, allowed) in [
        ("oidc:ann", "login", true),
        ("oidc:ann", "approve", true),
        ("oidc:bob", "approve", false),
        ("oidc:eve", "login", false),
        ("", "login", false),
    ] {
        let entry = (who.to_owned(), oidc.clone(), action.to_owned(), allowed);
        assert!(entries.contains(&entry), "{entry:?}: {entries:?}");
    }

    // Whoever ends a session ends it at once, on the page and on the hub's machine.
    let ended = hub.json(&["person", "end", "oidc:bob"]);
    assert_eq!(ended, json!({"name": "oidc:bob", "ended": 1}));
    assert_eq!(bob.get(&format!("{url}/sites")).status, 303);
    let people = hub.json(&["person", "list"]);
    let sessions: Vec<_> = people
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["name"].as_str().unwrap(),
                one["sessions"].as_i64().unwrap(),
            )
        })
        .collect();
    assert_eq!(sessions, [("oidc:ann", 1), ("oidc:bob", 0)]);
    let mut copy = ann.copy();
    let form = ann.get(&format!("{url}/sites")).field("form");
    assert_eq!(
        ann.post(&format!("{url}/logout"), &[("form", &form)])
            .status,
        303
    );
    assert_eq!(
        copy.get(&format!("{url}/sites")).status,
        303,
        "a copy of the cookie is worth nothing"
    );
    drop(server);
}

#[test]
fn what_the_settings_take_away_is_gone_after_a_restart_and_a_name_stays_with_whoever_had_it() {
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let Some(mut gitea) = Gitea::or_skip(&["ann", "bob"], &url) else {
        return;
    };
    let both = "- {claim: email, values: [ann@example.org, bob@example.org], scopes: [read]}";
    let (hub, _, _) = world(&[]);
    let reader = token(&hub, "reader", "read");
    let server = serve(&hub, port, &gitea.settings(&url, both));
    let (mut ann, mut bob) = (Browser::default(), Browser::default());
    logged_in(&mut ann, &gitea, "ann", &url);
    logged_in(&mut bob, &gitea, "bob", &url);

    // Bob gets Ann's name at the provider: he does not get it here until someone frees it.
    for (who, name) in [("ann", "anna"), ("bob", "ann")] {
        let rename = format!("POST /api/v1/admin/users/{who}/rename");
        let by = if who == "ann" { "ann" } else { "anna" };
        gitea.api(by, &rename, &json!({"new_username": name}));
    }
    let mut renamed = Browser::default();
    let back = sent_back(&mut renamed, &gitea, "ann", &url);
    let refused = renamed.led_to(&back);
    assert_eq!(refused.status, 403);
    for words in [
        "<code>oidc:ann</code> is someone else",
        "person forget oidc:ann",
    ] {
        assert!(refused.body.contains(words), "{}", refused.body);
    }
    // Ann's account keeps her name here, and is nobody under the new one: one account decides as one person.
    let mut anna = Browser::default();
    let back = sent_back(&mut anna, &gitea, "anna", &url);
    let refused = anna.led_to(&back);
    assert_eq!(refused.status, 403);
    for words in [
        "logged in here as <code>oidc:ann</code> before, and the provider calls it <code>oidc:anna</code> now",
        "person forget oidc:ann",
    ] {
        assert!(refused.body.contains(words), "{}", refused.body);
    }
    assert_eq!(anna.cookie(&url, "outhaul_session"), None);
    let people = hub.json(&["person", "list"]);
    let names = people.as_array().unwrap().iter().map(|one| &one["name"]);
    assert_eq!(names.collect::<Vec<_>>(), ["oidc:ann", "oidc:bob"]);
    drop(server);

    let by_mail = gitea.settings(&url, both);
    let text = fs::read_to_string(&by_mail).unwrap();
    fs::write(
        &by_mail,
        text.replace("bob@example.org", "carl@example.org"),
    )
    .unwrap();
    let server = serve(&hub, port, &by_mail);
    assert_eq!(
        ann.get(&format!("{url}/sites")).status,
        200,
        "what nobody took away stays"
    );
    assert_eq!(
        bob.get(&format!("{url}/sites")).status,
        303,
        "the session allows nothing any more"
    );
    drop(server);

    // Another client of the provider is another hub; without a provider there are no people.
    fs::write(&by_mail, text.replace("clientId: ", "clientId: x")).unwrap();
    let server = serve(&hub, port, &by_mail);
    assert_eq!(ann.get(&format!("{url}/sites")).status, 303);
    drop(server);
    fs::write(&by_mail, &text).unwrap();

    // The provider goes away: the hub starts, sessions and tokens go on, and the page says what to do.
    gitea.stop();
    let server = serve(&hub, port, &by_mail);
    assert_eq!(ann.get(&format!("{url}/sites")).status, 200);
    let mut other = Browser::default();
    let failed = other.get(&format!("{url}/login/oidc"));
    assert_eq!(failed.status, 502);
    for words in [
        "The provider cannot be reached: ",
        "log in with a token",
        "Tokens still work",
    ] {
        assert!(failed.body.contains(words), "{}", failed.body);
    }
    assert_eq!(
        failed.field("next"),
        "&#x2f;",
        "the form for a token is there"
    );
    let session = login(&server, &reader);
    assert_eq!(get(&server, "/sites", &session).status, 200);
    let unknown = hub.run(&["person", "end", "oidc:carl"]);
    assert_eq!(code(&unknown), 2, "{}", stderr(&unknown));
    let forgotten = hub.json(&["person", "forget", "oidc:ann"]);
    assert_eq!(forgotten["forgotten"], true);
    assert_eq!(ann.get(&format!("{url}/sites")).status, 303);
}

#[test]
fn another_browsers_answer_another_sites_page_and_an_open_redirect_begin_nothing() {
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let Some(gitea) = Gitea::or_skip(&["ann", "mallory"], &url) else {
        return;
    };
    let grants = "- {claim: email, values: [ann@example.org, mallory@example.org], scopes: [read]}";
    let (hub, _, _) = world(&[]);
    let server = serve(&hub, port, &gitea.settings(&url, grants));
    // Login CSRF: Mallory has Ann's browser finish Mallory's login.
    let (mut mallory, mut ann) = (Browser::default(), Browser::default());
    let his = sent_back(&mut mallory, &gitea, "mallory", &url);
    for has_begun in [false, true] {
        if has_begun {
            ann.get(&format!("{url}/login/oidc"));
        }
        let refused = ann.led_to(&his);
        assert_eq!(refused.status, 403);
        assert!(
            refused
                .body
                .contains("not for a login that this browser began"),
            "{}",
            refused.body
        );
        assert_eq!(ann.cookie(&url, "outhaul_session"), None);
    }
    // It cost Ann nothing: her own login goes on, and Mallory's as well.
    let hers = sent_back(&mut ann, &gitea, "ann", &url);
    ann.led_to(&his);
    assert_eq!(ann.led_to(&hers).status, 200);
    assert_eq!(mallory.led_to(&his).status, 200);
    // The session was not there before the login, and another one replaces it.
    let first = ann.cookie(&url, "outhaul_session").unwrap().to_owned();
    logged_in(&mut ann, &gitea, "ann", &url);
    assert_ne!(ann.cookie(&url, "outhaul_session").unwrap(), first);

    // A code of Mallory's in the answer for Ann: the verifier of her login does not fit.
    let mut ann = Browser::default();
    let hers = sent_back(&mut ann, &gitea, "ann", &url);
    let his = sent_back(&mut Browser::default(), &gitea, "mallory", &url);
    let part = |url: &str, name: &str| {
        let rest = url.split(&format!("{name}=")).nth(1).unwrap();
        rest.split('&').next().unwrap().to_owned()
    };
    let injected = hers.replace(&part(&hers, "code"), &part(&his, "code"));
    let refused = ann.led_to(&injected);
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert!(
        refused.body.contains("did not take the code"),
        "{}",
        refused.body
    );
    // Another provider's answer.
    let mut ann = Browser::default();
    let hers = sent_back(&mut ann, &gitea, "ann", &url);
    let mixed = ann.led_to(&format!("{hers}&iss=https%3A%2F%2Fevil.example"));
    assert_eq!(mixed.status, 403);
    assert!(
        mixed.body.contains("not from the provider"),
        "{}",
        mixed.body
    );

    for next in [
        "https%3A%2F%2Fevil.example",
        "%2F%2Fevil.example",
        "%2F%5Cevil.example",
        "%2Flogin%2Foidc",
    ] {
        let mut ann = Browser::default();
        let begun = ann.get(&format!("{url}/login/oidc?next={next}"));
        let back = ann.agree(&gitea, "ann", begun.header("location"));
        let done = ann.led_to(&back);
        assert!(
            done.body.contains("content=\"0;url=&#x2f;\""),
            "{next}: {}",
            done.body
        );
    }
    // A page elsewhere that leads here begins no login.
    let from = "Sec-Fetch-Site: cross-site\r\n";
    let led = crate::access::ask(&server, "GET /login/oidc?next=%2Fsites", from, "");
    assert_eq!(
        (led.status, led.header("location")),
        (303, "/login?next=%2Fsites")
    );
    assert!(led.all("set-cookie").is_empty());
    // Without a cookie nobody is locked out, however often someone leads here.
    for _ in 0..30 {
        assert_eq!(Browser::default().led_to(&hers).status, 403);
    }
    let wrong = posted(&server, "/login", "", &[("token", "x")]);
    assert_eq!(wrong.status, 403, "and not 429");
    drop(server);

    // Behind a proxy with TLS the cookie is one that no other host of the domain can set.
    let server = serve(
        &hub,
        port,
        &gitea.settings("https://hub.example.org", grants),
    );
    let begun = get(&server, "/login/oidc", "");
    let kept = begun.header("set-cookie");
    assert!(kept.starts_with("__Host-outhaul_oidc="), "{kept}");
    assert!(
        kept.contains("; Path=/;") && kept.ends_with("; Secure") && !kept.contains("Domain"),
        "{kept}"
    );
    let redirect = "redirect_uri=https%3A%2F%2Fhub.example.org%2Flogin%2Foidc%2Freturn";
    assert!(
        begun.header("location").contains(redirect),
        "{}",
        begun.head
    );
}

#[test]
fn a_login_begun_at_one_hub_is_finished_at_another_of_the_same_database_and_once() {
    let Some(database) = postgres::shared_or_skip().map(postgres::Postgres::database) else {
        return;
    };
    let ports = [free_port(), free_port()];
    let urls = ports.map(|port| format!("http://127.0.0.1:{port}"));
    let Some(gitea) = Gitea::or_skip(&["ann"], &urls[0]) else {
        return;
    };
    let (first, second) = (Hub::new(), Hub::new());
    let centre = Centre::new();
    assert_eq!(code(&postgresql::init(&first, &centre, &database)), 0);
    fs::create_dir_all(second.state()).unwrap();
    fs::copy(
        first.state().join("hub.key"),
        second.state().join("hub.key"),
    )
    .unwrap();
    assert_eq!(code(&postgresql::init(&second, &centre, &database)), 0);
    let grants = "- {claim: email, values: [ann@example.org], scopes: [read]}";
    // Both have the URL of what is before them.
    let settings = gitea.settings(&urls[0], grants);
    let (one, other) = (
        serve(&first, ports[0], &settings),
        serve(&second, ports[1], &settings),
    );
    let mut ann = Browser::default();
    let back = sent_back(&mut ann, &gitea, "ann", &urls[0]);
    let path = back.strip_prefix(&*urls[0]).unwrap();
    let name = "outhaul_oidc";
    let held = format!("{name}={}", ann.cookie(&urls[0], name).unwrap());
    let done = get(&other, path, &held);
    assert_eq!(done.status, 200, "{}", done.body);
    let session = crate::access::cookie(&done, "outhaul_session");
    for server in [&one, &other] {
        assert_eq!(get(server, "/sites", &session).status, 200);
    }
    let again = get(&one, path, &held);
    assert_eq!(again.status, 403);
    assert!(again.body.contains("was used before"), "{}", again.body);
    first.json(&["person", "end", "oidc:ann"]);
    for server in [&one, &other] {
        assert_eq!(get(server, "/sites", &session).status, 303);
    }
}
