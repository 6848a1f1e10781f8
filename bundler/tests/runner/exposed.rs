//! What would get to where it must not be: a secret into git and bundles, a bundle into what bundles are made from.
//!
//! What comes in: a control plane that `outhaul init` wrote, and commands with such a value or folder. What must come out: a refusal or a
//! warning that names the key or the folder and prints no secret; the control plane as it was.

use super::gate::GateFixture;
use super::repositories::git;

#[test]
fn a_bundle_is_not_written_into_a_control_plane() {
    let made = GateFixture::new();
    let line =
        "bundle --control-plane cp --environment dev --fleet fleet --passphrase-file passphrase";
    for more in [
        "--out cp/bundles",
        "--out bundles --publish cp/web",
        "--out fleet/bundles",
    ] {
        let (_, _, err) = made.ends(2, &format!("{line} {more}"));
        assert!(err.contains("where Outhaul writes nothing"), "{err}");
    }
    // What stands for a repository is read, and what lies in it would travel.
    let line = format!("{line} --source https://git.example.org/app=app");
    std::fs::create_dir(made.path("app")).unwrap();
    let (_, _, err) = made.ends(2, &format!("{line} --out app/bundles"));
    assert!(err.contains("nothing was written"), "{err}");
    assert!(!made.path("cp/bundles").exists() && !made.path("bundles").exists());
    assert!(!made.path("app/bundles").exists());
}

#[test]
fn no_command_writes_over_what_is_of_another_kind_or_into_a_fleet_or_a_control_plane() {
    let made = GateFixture::new();
    let signing = "--fleet fleet --passphrase-file passphrase";
    made.ok(&format!(
        "bundle --control-plane cp --environment dev {signing} --out stick"
    ));
    // The branch of an environment has no list of environments.
    git(
        &made.path("cp"),
        &["worktree", "add", "--quiet", "../dev", "dev"],
    );
    let slip = format!("slip {signing} --environment dev --cluster-type edge");
    let enrol = "site enrol edge-1 --fleet fleet --environment dev --cluster-type edge";
    let verify = "verify stick/dev-edge-1.outhaul --fleet fleet";
    let trees = || ["cp", "dev", "fleet"].map(|name| tree(&made.path(name)));
    let before = trees();
    let passphrase = std::fs::read(made.path("passphrase")).unwrap();
    let no_slip = "is not a slip";
    let of_fleet = "the folder of a fleet's keys";
    let of_plane = "in the control plane in";
    for (line, words) in [
        (format!("{slip} --out passphrase"), no_slip),
        (format!("{slip} --out cp/configs/common.yaml"), no_slip),
        (
            format!("{slip} --out new.slip --png passphrase"),
            "is not a picture of a QR code",
        ),
        (
            format!("{slip} --out new.slip --png new.slip"),
            "name one file",
        ),
        (format!("{slip} --out fleet/keys/new.pem"), of_fleet),
        (format!("{slip} --out cp/new.slip"), of_plane),
        (format!("{slip} --out dev/new.slip"), of_plane),
        (format!("{enrol} --out fleet/fleet.json"), "is not a kit"),
        (format!("{enrol} --out fleet/edge-1.kit"), of_fleet),
        (format!("{enrol} --out dev/edge-1.kit"), of_plane),
        (format!("{verify} --attestations fleet/att"), of_fleet),
        (format!("{verify} --attestations dev/att"), of_plane),
        ("schema --out fleet".to_owned(), of_fleet),
        (
            "key init --passphrase-file passphrase --fleet cp".to_owned(),
            of_plane,
        ),
        (
            "key init --passphrase-file passphrase --fleet dev/fleet".to_owned(),
            of_plane,
        ),
        (
            "secret keygen --out fleet/keys/new.age".to_owned(),
            of_fleet,
        ),
        ("secret keygen --out dev/new.age".to_owned(), of_plane),
        ("init fleet/cp".to_owned(), of_fleet),
        ("init dev/cp".to_owned(), of_plane),
        ("demo --keep dev/demo".to_owned(), of_plane),
        ("copy --fleet fleet --to dev".to_owned(), of_plane),
        ("publish web --fleet fleet --to dev".to_owned(), of_plane),
        (
            "check --environment dev --control-plane cp --cache fleet/cache".to_owned(),
            of_fleet,
        ),
    ] {
        let (_, _, err) = made.ends(2, &line);
        assert!(
            err.contains(words) && err.contains("help: "),
            "{line}: {err}"
        );
    }
    assert_eq!(before, trees());
    assert_eq!(std::fs::read(made.path("passphrase")).unwrap(), passphrase);
    assert!(!made.path("new.slip").exists());
    // What is of the kind that is written is replaced, and schemas are for a control plane.
    for _ in 0..2 {
        made.ok(&format!("{slip} --out new.slip --png new.png"));
        made.ok("schema --out cp/.schemas");
    }
    made.ok(&format!("{enrol} --out edge-1.kit"));
    made.ok(&format!("{enrol} --again --out edge-1.kit"));
    std::fs::write(made.path("cp/.schemas/outhaul.schema.json"), "{}").unwrap();
    let (_, _, err) = made.ends(2, "schema --out cp/.schemas");
    assert!(err.contains("is not a JSON Schema"), "{err}");
}

#[test]
fn the_state_of_the_service_is_not_kept_in_what_it_reads_or_signs_with() {
    let made = GateFixture::new();
    let before = ["cp", "fleet"].map(|name| tree(&made.path(name)));
    for (folder, words) in [
        ("state = \"cp/state\"", "in the control plane"),
        ("state = \"fleet/state\"", "the folder of a fleet's keys"),
        (
            "state = \"own\"\ncache = \"cp/cache\"",
            "in the control plane",
        ),
    ] {
        let config = format!(
            "{folder}\ncontrol_plane = \"cp\"\n[[environment]]\nname = \"dev\"\ngit = {{ to = \"platform.git\" }}\n"
        );
        std::fs::write(made.path("serve.toml"), config).unwrap();
        let (_, _, err) = made.ends(2, "serve --config serve.toml --once");
        assert!(err.contains(words), "{err}");
    }
    assert_eq!(before, ["cp", "fleet"].map(|name| tree(&made.path(name))));
    assert!(!made.path("own").exists());
}

#[test]
fn a_rendering_is_not_published_to_a_branch_that_the_control_plane_is_read_from() {
    let made = GateFixture::new();
    git(
        &made.path("."),
        &["clone", "--quiet", "--bare", "cp", "cp.git"],
    );
    let heads = || git(&made.path("cp.git"), &["for-each-ref", "refs/heads"]);
    let before = heads();
    let line = "publish git --environment dev --control-plane cp.git --to cp.git";
    for branch in ["dev", "stage", "main"] {
        let (_, _, err) = made.ends(2, &format!("{line} --branch {branch}"));
        assert!(
            err.contains("is one that the control plane is read from"),
            "{err}"
        );
    }
    let config = "state = \"own\"\ncontrol_plane = \"cp.git\"\n[[environment]]\nname = \"dev\"\ngit = { to = \"cp.git\" }\n";
    std::fs::write(made.path("serve.toml"), config).unwrap();
    let (_, _, err) = made.ends(1, "serve --config serve.toml --once");
    assert!(
        err.contains("is one that the control plane is read from"),
        "{err}"
    );
    assert_eq!(heads(), before);
    // Another branch beside them is a place of its own.
    made.ok(&format!("{line} --branch rendered-dev"));
}

/// Every file below `folder` and its content, but for git's own.
fn tree(folder: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(next) = left.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true if path.ends_with(".git") => {}
                true => left.push(path),
                false => found.push((path.display().to_string(), std::fs::read(path).unwrap())),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn what_is_no_bundle_of_this_fleet_is_said_to_be_what_it_is() {
    let made = GateFixture::new();
    let signing = "--fleet fleet --passphrase-file passphrase";
    made.ok(&format!(
        "bundle --control-plane cp --environment dev {signing} --out stick"
    ));
    made.ok(&format!(
        "slip {signing} --environment dev --cluster-type edge --out new.slip"
    ));
    made.ok("key init --fleet other --passphrase-file passphrase");
    for command in ["inspect", "verify"] {
        let (_, _, err) = made.ends(2, &format!("{command} new.slip --fleet fleet"));
        assert!(err.contains("it is a freshness slip"), "{err}");
        let foreign = format!("{command} stick/dev-edge-1.outhaul --fleet other");
        let (_, _, err) = made.ends(4, &foreign);
        assert!(err.contains("is of another fleet"), "{err}");
        assert!(
            !err.contains("no site accepts") && !err.contains("damaged"),
            "{err}"
        );
    }
}

#[test]
fn the_address_of_a_hub_that_no_agent_takes_is_not_put_into_kits() {
    let made = GateFixture::new();
    let before = std::fs::read(made.path("fleet/fleet.json")).unwrap();
    for url in [
        "http://hub.example",
        "hub.example",
        "https://me:hunter2@hub.example",
    ] {
        for line in [
            format!("key set-hub --fleet fleet --hub-key hub.pem --hub-url {url}"),
            format!("key init --fleet new --passphrase-file passphrase --hub-url {url}"),
        ] {
            let (_, _, err) = made.ends(2, &line);
            assert!(err.contains("starts with https://"), "{err}");
            assert!(!err.contains("hunter2"), "{err}");
        }
    }
    assert_eq!(
        std::fs::read(made.path("fleet/fleet.json")).unwrap(),
        before
    );
    assert!(!made.path("new").exists());
    // What `init` writes is committed.
    let (_, _, err) = made.ends(2, "init new --url https://me:hunter2@git.example.org/cp");
    assert!(err.contains("was given with a password or token"), "{err}");
    assert!(
        !err.contains("hunter2") && !made.path("new").exists(),
        "{err}"
    );
}

#[test]
fn a_url_with_a_secret_is_not_written_into_a_control_plane() {
    let made = GateFixture::new();
    for line in [
        "registration app --workspace team --repo https://ghp_0123456789@git.example.org/app --in cp",
        "workload app --environments dev --manifests https://me:hunter2@git.example.org/app --in cp",
    ] {
        let (_, out, err) = made.ends(2, &format!("new {line}"));
        assert!(
            err.contains("was given with a password or token; nothing was written"),
            "{err}"
        );
        let said = format!("{out}{err}");
        assert!(
            !said.contains("hunter2") && !said.contains("0123456789"),
            "{said}"
        );
    }
    assert_eq!(git(&made.path("cp"), &["status", "--porcelain"]), "");
}

#[test]
fn a_secret_in_clear_is_named_and_never_printed() {
    let made = GateFixture::new();
    let (_, _, err) = made.ok("check --control-plane cp --environment dev");
    assert!(!err.contains("secret-in-clear"), "{err}");
    let (_, _, err) =
        made.ok("new config access --set DB_PASSWORD=hunter2 --label region=east --in cp");
    assert!(
        err.contains("warning[secret-in-clear]: `DB_PASSWORD`") && !err.contains("hunter2"),
        "{err}"
    );
    super::repositories::commit(&made.path("cp"), "a password");
    made.ok("promote --control-plane cp --to dev");
    let (_, out, err) = made.ok("check --control-plane cp --environment dev --output json");
    assert!(
        out.contains("secret-in-clear") && out.contains("DB_PASSWORD"),
        "{out}{err}"
    );
    let (_, out, err) = made.ok("check --control-plane cp --environment dev");
    let said = format!("{out}{err}");
    assert!(said.contains("configs/access.yaml:9:16"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

/// A control plane with this config and templates, and what the commands print of it.
fn printed(config: &str, template: Option<(&str, &str)>, commands: &[&[&str]]) -> String {
    let fixture = super::cli::PlaneFixture::new();
    fixture.edit("dev/config.yaml", "  REGION: East US\n", config);
    if let Some((from, to)) = template {
        fixture.edit("main/templates.yaml", from, to);
    }
    let all = commands.iter().map(|command| fixture.run(command));
    all.collect::<Vec<_>>().concat()
}

#[test]
fn no_finding_and_no_command_that_shows_values_prints_a_secret() {
    let check: &[&[&str]] = &[&["check"], &["check", "--output", "json"]];
    for (name, config, template) in [
        ("wrong-type", "  DB_PASSWORD: 20041\n  REGION: a\n", None),
        (
            "duplicate-key",
            "  REGION: a\n  DB_PASSWORD: hunter2\n  DB_PASSWORD: hunter20041\n",
            None,
        ),
        (
            "syntax",
            "  REGION: a\n  DB_PASSWORD: \"hunter2\" 20041\n",
            None,
        ),
        (
            "template",
            "  REGION: a\n  DB_PASSWORD: hunter2\n",
            Some((
                "repository: {{ .Manifests.repo }}",
                "x: {{ .ConfigData.DB_PASSWORD | fail }}",
            )),
        ),
    ] {
        let said = printed(config, template, check);
        assert!(said.contains(name), "{name}: {said}");
        assert!(
            !said.contains("hunter2") && !said.contains("20041"),
            "{name}: {said}"
        );
    }
    let config = "  REGION: a\n  DB_PASSWORD: hunter2\n";
    let explain = ["explain", "hello-test", "drone"];
    let json = ["explain", "hello-test", "drone", "--output", "json"];
    let key = ["explain", "--key", "DB_PASSWORD"];
    let said = printed(config, None, &[&explain, &json, &key]);
    assert!(said.contains("DB_PASSWORD = "), "{said}");
    assert!(said.contains("looks like a secret: not shown"), "{said}");
    assert!(
        said.contains("REGION = ") && !said.contains("hunter2"),
        "{said}"
    );
}

#[test]
fn a_secret_in_a_workloads_manifests_is_named_by_check_and_bundle_and_never_printed() {
    let fleet = super::kept::Fleet::new();
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData:\n  password: hunter2\n";
    fleet.fixture.write("manifests/here/secret.yaml", secret);
    super::repositories::commit(&fleet.path("manifests"), "a secret");
    let source = "https://git.example.org/manifests=manifests";
    let check = fleet.fixture.run(&["check", "--source", source]);
    for said in [check, fleet.bundle(&[])] {
        assert!(said.starts_with("exit code 0"), "{said}");
        assert!(
            said.contains("warning[secret-in-manifest]: Secret `db` has `password` in clear"),
            "{said}"
        );
        assert!(said.contains("here/secret.yaml:5:13"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_finding_in_a_list_or_map_of_secrets_or_with_a_key_that_holds_one_prints_none() {
    for (name, config) in [
        ("wrong-type", "  DB_PASSWORD: [hunter2a, 1]\n"),
        ("wrong-type", "  DB_PASSWORD: {a: hunter2a}\n"),
        ("wrong-type", "  DB_PASSWORD:\n    a: hunter2a\n"),
        ("wrong-type", "  DB_PASSWORD:\n  - hunter2a\n"),
        ("yaml-syntax", "  DB_PASSWORD: {a: hunter2a\n"),
        ("yaml-syntax", "  X: [{name: DB_PASSWORD, value: hunter2a\n"),
        ("yaml-syntax", "  X: [ # password: hunter2a\n"),
        (
            "duplicate-key",
            "  DB_PASSWORD=hunter2a: a\n  DB_PASSWORD=hunter2a: b\n",
        ),
        (
            "duplicate-key",
            "  \"password: hunter2a\": a\n  \"password: hunter2a\": b\n",
        ),
    ] {
        let commands: &[&[&str]] = &[
            &["check"],
            &["check", "--output", "json"],
            &["check", "--output", "sarif"],
            &["check", "--output", "lines"],
            &["render", "--out", "out"],
            &["explain", "hello-test", "drone"],
            &["schedule"],
        ];
        let said = printed(config, None, commands);
        assert!(said.contains(name), "{config}: {said}");
        assert!(said.contains("dev/config.yaml:"), "{config}: {said}");
        assert!(!said.contains("hunter2a"), "{config}: {said}");
    }
}

#[test]
fn a_private_key_and_a_list_of_secrets_are_in_no_explanation_and_no_difference() {
    let pem = "-----BEGIN PRIVATE KEY-----\n    MEECAQhunter2a\n    -----END PRIVATE KEY-----\n";
    let config = |last: &str| {
        let list = format!("\"[hunter2a, {last}]\"");
        format!(
            "  REGION: {last}\n  IDENTITY: AGE-SECRET-KEY-1HUNTER2A{last}\n  TLS: |\n    {pem}  DB_PASSWORDS: {list}\n  \
             DB_PASSWORD: |\n    a: hunter2a{last}\n  AUTH: Bearer hunter2a{last}\n"
        )
    };
    let fixture = super::cli::PlaneFixture::new();
    fixture.edit("dev/config.yaml", "  REGION: East US\n", &config("a"));
    let mut said = String::new();
    for out in ["markdown", "json", "text"] {
        let explain = ["explain", "hello-test", "drone", "--output", out];
        said += &fixture.run(&explain);
    }
    for key in ["IDENTITY", "TLS", "DB_PASSWORDS", "DB_PASSWORD", "AUTH"] {
        said += &fixture.run(&["explain", "--key", key]);
    }
    assert!(said.contains("IDENTITY = "), "{said}");
    said += &fixture.run(&["render", "--out", "before"]);
    for file in ["types.yaml", "policy.yaml", "config.yaml"] {
        let text = std::fs::read_to_string(fixture.folder.path().join("dev").join(file));
        fixture.write(&format!("dev-before/{file}"), &text.unwrap());
    }
    fixture.edit("dev/config.yaml", &config("a"), &config("b"));
    said += &fixture.run(&["render", "--out", "after"]);
    for out in ["markdown", "json", "text"] {
        let differs = fixture.run_only(&["diff", "before", "after", "--output", out]);
        assert!(differs.contains("IDENTITY"), "{differs}");
        let planes = "diff dev-before dev --environment dev --base-dir main --source https://git.example.org/app=app --cache cache --output";
        let planes: Vec<&str> = planes.split(' ').chain([out]).collect();
        let values = fixture.run_only(&planes);
        assert!(
            values.contains("IDENTITY") && values.contains("REGION"),
            "{values}"
        );
        said += &format!("{differs}{values}");
    }
    for secret in ["hunter2a", "1HUNTER2A", "MEECAQ"] {
        let mut lines = said.lines();
        let line = lines.find(|line| line.contains(secret));
        assert_eq!(line, None, "{said}");
    }
}

#[test]
fn of_a_manifest_that_may_be_a_secret_no_line_is_shown() {
    let fleet = super::kept::Fleet::new();
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\ndata: {p: aHVudGVyMg==, q: hunter2q\n";
    fleet.fixture.write("manifests/here/secret.yaml", secret);
    super::repositories::commit(&fleet.path("manifests"), "a broken secret");
    let source = "https://git.example.org/manifests=manifests";
    let check = fleet.fixture.run(&["check", "--source", source]);
    let estimate = [
        "bundle",
        "--estimate",
        "--fleet",
        "fleet",
        "--source",
        source,
    ];
    let estimate = fleet.fixture.run(&estimate);
    for said in [check, fleet.bundle(&[]), estimate] {
        assert!(said.contains("manifest-not-read"), "{said}");
        assert!(said.contains("here/secret.yaml:"), "{said}");
        let is_shown = said.contains("hunter2q") || said.contains("aHVudGVyMg");
        assert!(!is_shown, "{said}");
    }
}

#[test]
fn a_token_in_the_query_of_a_url_is_refused_at_its_line_and_never_printed() {
    for query in [
        "?access_token=hunter2a",
        "?a=1&token=hunter2a",
        "?sig=hunter2a",
        "?private_token=hunter2a",
        "?X-Amz-Signature=hunter2a",
    ] {
        let fixture = super::cli::PlaneFixture::new();
        let url = "repo: https://git.example.org/manifests";
        fixture.edit("app/workload.yaml", url, &format!("{url}{query}"));
        let check = fixture.run(&["check"]);
        assert!(check.starts_with("exit code 1"), "{check}");
        assert!(check.contains("app/workload.yaml:7"), "{check}");
        assert!(check.contains("password or token"), "{check}");
        let json = fixture.run(&["check", "--output", "json"]);
        let render = fixture.run(&["render", "--out", "out"]);
        let said = format!("{check}{json}{render}");
        assert!(!said.contains("hunter2a"), "{said}");
    }
}
