//! A stream that needs two signatures, on two machines, and bundles that are sealed for nobody.
//!
//! What comes in: the programs as two people type them, the second with a key, a passphrase and a separate
//! root in another folder. What must come out: number after number on the stick, each accepted on site,
//! with the content that was signed; and no bundle at all where a list of readers names nobody.

use std::fs;
use std::path::PathBuf;

use outhaul_test_kit::folder::paths;
use serde_json::Value;

use super::system::{SystemFixture, TO_STICK};

/// A control plane, a fleet and a site that took number 1.
fn first_bundle() -> SystemFixture {
    let fixture = SystemFixture::new();
    let init = ["init", "control-plane", "--environments", "dev"];
    fixture.run("outhaul", 0, &init);
    fixture.fleet();
    fixture.site("edge-1", "dev", "edge");
    fixture.bundle("dev");
    fixture.carry("edge-1");
    fixture
}

fn greet(fixture: &SystemFixture, greeting: &str) {
    fixture.on_branch("control-plane", "dev", |folder| {
        let config = folder.join("configs/greeting.yaml");
        let _ = fs::remove_file(config);
        let set = format!("NOTE={greeting}");
        let new = [
            "new",
            "config",
            "greeting",
            "--in",
            "control-plane",
            "--set",
            &set,
        ];
        fixture.run("outhaul", 0, &new);
    });
}

fn bundle(fixture: &SystemFixture, code: i32, more: &[&str]) -> Value {
    let keys = TO_STICK;
    let json = ["--output", "json"];
    let ran = fixture.plane(code, "bundle", "dev", &[&keys[..], &json, more].concat());
    match outhaul_tests::result(&ran.stdout) {
        Value::Null => Value::String(ran.stderr),
        reported => reported,
    }
}

/// The second person: takes the request over, reads it, signs it by its digest, hands the answer back.
fn countersign(fixture: &SystemFixture, request: &str) -> Value {
    let carried = "auditor/the.request";
    fs::copy(fixture.path(request), fixture.path(carried)).unwrap();
    let common = [
        "--passphrase-file",
        "auditor/passphrase",
        "--output",
        "json",
    ];
    let line = [
        "countersign",
        carried,
        "--root",
        "auditor/1.root.json",
        "--key",
        "auditor/auditor.pem",
    ];
    let show = [&common[..], &line, &["--show"]].concat();
    let shown = outhaul_tests::result(&fixture.run("outhaul-signer", 0, &show).stdout);
    let digest = shown["digest"].as_str().unwrap();
    let sign = [&common[..], &line, &["--digest", digest]].concat();
    let answered = outhaul_tests::result(&fixture.run("outhaul-signer", 0, &sign).stdout);
    let answer = PathBuf::from(answered["answer"].as_str().unwrap());
    let home = format!("{request}.auditor.answer");
    fs::rename(fixture.path(answer.to_str().unwrap()), fixture.path(&home)).unwrap();
    shown["review"].clone()
}

fn two_signatures(fixture: &SystemFixture) -> String {
    fs::create_dir(fixture.path("auditor")).unwrap();
    let pass = fixture.path("auditor/passphrase");
    fs::write(&pass, "of the second person alone\n").unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(pass, private).unwrap();
    let first = "1.root.json";
    fs::copy(
        fixture.path("fleet/metadata/1.root.json"),
        fixture.path("auditor").join(first),
    )
    .unwrap();
    let key = [
        "--passphrase-file",
        "auditor/passphrase",
        "key",
        "auditor/auditor",
    ];
    fixture.run("outhaul-signer", 0, &key);
    let status = ["key", "status", "--fleet", "fleet", "--output", "json"];
    let status = outhaul_tests::result(&fixture.run("outhaul", 0, &status).stdout);
    let role = status["streams"][0]["role"].as_str().unwrap().to_owned();
    let change = [
        "--passphrase-file",
        "passphrase",
        "stream",
        "fleet",
        &role,
        "--add-key",
        "auditor/auditor.pub",
        "--threshold",
        "2",
    ];
    fixture.run("outhaul-signer", 1, &change);
    let review = countersign(fixture, &format!("fleet/requests/1.{role}.json.request"));
    assert_eq!(review["again"], true, "{review}");
    fixture.run("outhaul-signer", 0, &change);
    role
}

#[test]
fn a_stream_of_two_signatures_ships_number_after_number() {
    let fixture = first_bundle();
    two_signatures(&fixture);
    let recipients = ["site", "list", "--fleet", "fleet", "--recipients"];
    fixture.run("outhaul", 1, &recipients);
    let request = paths(&fixture.path("sites/edge-1"))
        .into_iter()
        .find(|path| path.to_string_lossy().contains("request"))
        .unwrap();
    let status = fixture.agent("edge-1", 0, &["--output", "json", "status"]);
    let status = outhaul_tests::result(&status.stdout);
    let approve = [
        "site",
        "approve",
        request.to_str().unwrap(),
        "--fleet",
        "fleet",
        "--fingerprint",
        status["key"].as_str().unwrap(),
    ];
    fixture.run("outhaul", 0, &approve);
    let keys = fixture.run("outhaul", 0, &recipients).stdout;
    fs::write(fixture.path("sites.keys"), keys).unwrap();
    // The third is sealed: no two seals are alike, so what was signed can only ship as it was kept.
    for (number, seal) in [(2, &[][..]), (3, &["--seal-for", "sites.keys"])] {
        let greeting = format!("hello {number}");
        greet(&fixture, &greeting);
        let asked = bundle(&fixture, 1, seal);
        let waiting = &asked["bundles"][0];
        assert_eq!(
            (&waiting["number"], &waiting["waiting"]["found"]),
            (&number.into(), &1.into()),
            "{asked}"
        );
        assert_eq!(waiting["file"], Value::Null);
        assert_eq!(bundle(&fixture, 1, seal), asked, "the request stands");
        let request = waiting["waiting"]["request"].as_str().unwrap();
        let review = countersign(&fixture, request);
        assert_eq!(
            (&review["number_before"], &review["number"]),
            (&(number - 1).into(), &number.into())
        );
        assert!(
            review["contents"]["assignments"]["hello-dev"].is_string(),
            "{review}"
        );
        assert_eq!(review["contents"]["sealed"], !seal.is_empty());
        // The control plane goes on meanwhile; what was signed is what ships.
        greet(&fixture, "not yet");
        let shipped = bundle(&fixture, 0, seal);
        assert_eq!(shipped["bundles"][0]["number"], number, "{shipped}");
        assert!(shipped["bundles"][0]["file"].is_string(), "{shipped}");
        assert_eq!(
            fs::read_dir(fixture.path("fleet/requests"))
                .unwrap()
                .count(),
            0
        );
        fixture.carry("edge-1");
        let applied = paths(&fixture.path("sites/edge-1/applied/hello-dev"));
        let applied: Vec<_> = applied
            .iter()
            .map(|path| fs::read_to_string(path).unwrap())
            .collect();
        assert!(
            applied.iter().any(|text| text.contains(&greeting)),
            "{applied:?}"
        );
    }
    let status = fixture.agent("edge-1", 0, &["status"]).stdout;
    assert!(status.contains('3'), "{status}");
}

#[test]
fn what_waited_sealed_for_a_site_that_was_revoked_since_is_shipped_by_nobody() {
    let fixture = first_bundle();
    two_signatures(&fixture);
    let request = paths(&fixture.path("sites/edge-1"))
        .into_iter()
        .find(|path| path.to_string_lossy().contains("request"))
        .unwrap();
    let status = fixture.agent("edge-1", 0, &["--output", "json", "status"]);
    let status = outhaul_tests::result(&status.stdout);
    let approve = ["site", "approve", request.to_str().unwrap()];
    let by = [
        "--fleet",
        "fleet",
        "--fingerprint",
        status["key"].as_str().unwrap(),
    ];
    fixture.run("outhaul", 0, &[&approve[..], &by].concat());
    let recipients = ["site", "list", "--fleet", "fleet", "--recipients"];
    let keys = fixture.run("outhaul", 0, &recipients).stdout;
    let key = fixture
        .run("outhaul", 0, &["secret", "keygen", "--out", "k.age"])
        .stdout;
    fs::write(fixture.path("sites.keys"), format!("{keys}spare {key}")).unwrap();
    fs::write(fixture.path("spare.keys"), format!("spare {key}")).unwrap();
    let asked = bundle(&fixture, 1, &["--seal-for", "sites.keys"]);
    let request = asked["bundles"][0]["waiting"]["request"].as_str().unwrap();
    countersign(&fixture, request);
    let revoke = ["site", "revoke", "edge-1", "--fleet", "fleet"];
    fixture.run("outhaul", 0, &revoke);

    let before = paths(&fixture.path("stick"));
    // The list from before it was revoked.
    let named = bundle(&fixture, 1, &["--seal-for", "sites.keys"]);
    let named = named.as_str().unwrap();
    assert!(named.contains("`edge-1` is revoked by order"), "{named}");
    let none = bundle(&fixture, 1, &[]);
    let none = none.as_str().unwrap();
    assert!(
        none.contains("sealed for keys that count no longer"),
        "{none}"
    );
    let serve = "state = \"serving\"\ncontrol_plane = \"control-plane\"\n[[environment]]\nname = \"dev\"\nbundle = { \
                 fleet = \"fleet\", passphrase_file = \"passphrase\", out = \"stick\" }\n";
    fs::write(fixture.path("serve.toml"), serve).unwrap();
    let line = ["serve", "--config", "serve.toml", "--once"];
    let served = fixture.run("outhaul", 1, &line).stderr;
    assert!(served.contains("`edge-1` is revoked by order"), "{served}");
    assert!(served.contains("--seal-for FILE"), "{served}");
    assert_eq!(paths(&fixture.path("stick")), before);
    // Others are named: it is made for them, and asked for again.
    let again = bundle(&fixture, 1, &["--seal-for", "spare.keys"]);
    let waits = &again["bundles"][0];
    assert_eq!(waits["waiting"]["found"], 1, "{again}");
    assert_ne!(waits["waiting"]["request"], request, "{again}");
}

#[test]
fn other_content_is_asked_for_anew_and_nothing_ships_by_an_older_answer() {
    let fixture = first_bundle();
    two_signatures(&fixture);
    greet(&fixture, "first thought");
    let first = bundle(&fixture, 1, &[]);
    let first = first["bundles"][0]["waiting"]["request"].as_str().unwrap();
    let old = fs::read(fixture.path(first)).unwrap();
    greet(&fixture, "second thought");
    let second = bundle(&fixture, 1, &[]);
    assert_eq!(second["bundles"][0]["number"], 3, "{second}");
    assert!(!fixture.path(first).exists());
    fs::write(fixture.path("stale.request"), old).unwrap();
    countersign(&fixture, "stale.request");
    fs::copy(
        fixture.path("stale.request.auditor.answer"),
        fixture.path("fleet/requests/stale.answer"),
    )
    .unwrap();
    assert_eq!(
        bundle(&fixture, 1, &[])["bundles"][0]["waiting"]["found"],
        1
    );
    assert_eq!(
        fs::read_dir(fixture.path("stick"))
            .unwrap()
            .filter(|entry| {
                entry
                    .as_ref()
                    .unwrap()
                    .path()
                    .extension()
                    .is_some_and(|end| end == "outhaul")
            })
            .count(),
        1
    );
}

#[test]
fn a_list_of_readers_that_names_nobody_seals_nothing_and_writes_nothing() {
    let fixture = first_bundle();
    greet(&fixture, "a secret plan");
    let before = paths(&fixture.path("stick"));
    for text in ["", "# edge-1 age1...\n\n", "\n \n"] {
        fs::write(fixture.path("sites.keys"), text).unwrap();
        let said = bundle(&fixture, 2, &["--seal-for", "sites.keys"]);
        let said = said.as_str().unwrap().to_owned();
        assert!(said.contains("names no recipient"), "{said}");
        assert_eq!(paths(&fixture.path("stick")), before);
    }
    // One that names someone does not make up for one that names nobody.
    let key = fixture
        .run("outhaul", 0, &["secret", "keygen", "--out", "k.age"])
        .stdout;
    fs::write(fixture.path("good.keys"), format!("edge-1 {key}")).unwrap();
    bundle(
        &fixture,
        2,
        &["--seal-for", "good.keys", "--seal-for", "sites.keys"],
    );
    assert_eq!(paths(&fixture.path("stick")), before);
}

#[test]
fn a_stream_whose_key_is_lost_says_how_it_gets_another() {
    let fixture = first_bundle();
    let lost = paths(&fixture.path("fleet/keys")).into_iter().find(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("stream-") && name.ends_with(".pem")
    });
    fs::remove_file(lost.unwrap()).unwrap();
    greet(&fixture, "hello");
    let keys = TO_STICK;
    let reported = fixture.plane(1, "bundle", "dev", &keys).stderr;
    let (_, command) = reported
        .split_once("`outhaul-signer revoke fleet ")
        .unwrap();
    let (role, _) = command.split_once('`').unwrap();
    let revoke = ["--passphrase-file", "passphrase", "revoke", "fleet", role];
    fixture.run("outhaul-signer", 0, &revoke);
    fixture.plane(0, "bundle", "dev", &keys);
    fixture.carry("edge-1");
    let status = fixture.agent("edge-1", 0, &["status"]).stdout;
    assert!(status.contains("active: bundle 3"), "{status}");
}

/// Where the record of the one stream lies below `folder`.
fn record_below(fixture: &SystemFixture, folder: &str) -> PathBuf {
    let all = fs::read_dir(fixture.path(folder).join("rendered")).unwrap();
    let mut all = all.map(|entry| entry.unwrap().path());
    let is_last = |path: &PathBuf| !path.to_string_lossy().ends_with("before.json");
    all.find(is_last).unwrap()
}

#[test]
fn attack_the_record_of_a_bundle_that_waits_is_not_signed_when_it_says_something_else() {
    let fixture = first_bundle();
    let role = two_signatures(&fixture);
    greet(&fixture, "hello");
    let waiting = bundle(&fixture, 1, &[]);
    let request = waiting["bundles"][0]["waiting"]["request"]
        .as_str()
        .unwrap();
    let folder = format!("fleet/requests/2.{role}.contents");
    let record = record_below(&fixture, &folder);
    let mut changed: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    let all = changed["stream"]["assignments"].as_object_mut().unwrap();
    let one = all.values_mut().next().unwrap();
    one["rendered"]["workspace"] = "evil".into();
    fs::write(&record, changed.to_string()).unwrap();
    countersign(&fixture, request);
    let refused = bundle(&fixture, 2, &[]).to_string();
    assert!(
        refused.contains("is not what the bundle has that waits for signatures"),
        "{refused}"
    );
    assert!(!fixture.path("stick/dev-edge-2.outhaul").exists());
    // The way out, as it is named.
    fs::remove_dir_all(fixture.path(&folder)).unwrap();
    let again = bundle(&fixture, 1, &[]);
    let request = again["bundles"][0]["waiting"]["request"].as_str().unwrap();
    countersign(&fixture, request);
    bundle(&fixture, 0, &[]);
}

#[test]
fn attack_a_record_signed_by_a_key_that_was_taken_away_counts_no_more() {
    let fixture = first_bundle();
    let rotate = [
        "--passphrase-file",
        "passphrase",
        "rotate",
        "fleet",
        "online",
    ];
    fixture.run("outhaul-signer", 0, &rotate);
    let kept = fixture.path("fleet/bundles");
    let aside = fixture.path("aside");
    fs::rename(&kept, &aside).unwrap();
    greet(&fixture, "hello");
    let refused = bundle(&fixture, 2, &[]).to_string();
    assert!(refused.contains("is not signed by the fleet"), "{refused}");
    // With the bundle that it is of it is compared, and the next record is signed by the new key.
    fs::rename(&aside, &kept).unwrap();
    bundle(&fixture, 0, &[]);
    fs::remove_dir_all(&kept).unwrap();
    greet(&fixture, "hello again");
    let made = bundle(&fixture, 0, &[]);
    assert_eq!(made["bundles"][0]["number"], 3, "{made}");
}
