//! A bundle that differs from the one before by a line of config, on its way to sites that have that one and to one that
//! has nothing.
//!
//! What comes in: a small control plane with a workload of 30 MB, and the real programs. What must come out: a copy of a
//! few kilobytes that gives a site what the whole bundle gives it, byte for byte, and a refusal by name elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use outhaul_bundle::index::Content;
use outhaul_bundle::{BundleReader, Limits};
use outhaul_test_kit::folder::paths;
use serde_json::Value;

use super::system::{BASE_COMMIT, KEYS, SystemFixture, in_folders};

/// Bytes of the payload; none of it can be compressed.
const PAYLOAD: usize = 30 * 1024 * 1024;

fn write(fixture: &SystemFixture, path: &str, text: impl AsRef<[u8]>) {
    let path = fixture.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub fn noise(count: usize) -> Vec<u8> {
    let mut state = 7u64;
    let bytes = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 32).to_le_bytes()
    });
    bytes
        .flat_map(|eight| [eight[0], eight[1], eight[2]])
        .take(count)
        .collect()
}

/// A fleet that has shipped bundle 1 with a payload of `count` bytes.
pub fn fixture(count: usize) -> SystemFixture {
    let fixture = SystemFixture::new();
    let kind = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind:";
    write(
        &fixture,
        "dev/bench.yaml",
        format!(
            "{kind} ClusterType\nmetadata:\n  name: bench\nspec:\n  reconciler: out\n  namespaceService: place\n"
        ),
    );
    write(
        &fixture,
        "dev/policy.yaml",
        "apiVersion: outhaul.dev/v1alpha1\nkind: SchedulingPolicy\nmetadata:\n  name: all\nspec:\n  \
         deploymentTargetSelector:\n    labelSelector:\n      matchLabels:\n        purpose: light\n  \
         clusterTypeSelector: {}\n",
    );
    write(
        &fixture,
        "main/lamp.yaml",
        format!(
            "{kind} WorkloadRegistration\nmetadata:\n  name: lamp\nspec:\n  workload:\n    repo: \
             https://git.example/lamp\n    branch: main\n    path: .\n  workspace: light\n"
        ),
    );
    let template = |name: &str, of: &str, more: &str, text: &str| {
        format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: Template\nmetadata:\n  name: {name}\nspec:\n  type: {of}\n{more}  \
             manifests:\n    - |\n      {text}\n"
        )
    };
    let out = template("out", "reconciler", "  reconciler: folder\n", "run: lamp");
    let place = template("place", "namespace", "", "name: place");
    write(
        &fixture,
        "main/templates.yaml",
        format!("{out}---\n{place}"),
    );
    write(
        &fixture,
        "lamp/workload.yaml",
        format!(
            "{kind} Workload\nmetadata:\n  name: lamp\nspec:\n  deploymentTargets:\n    - name: dim\n      environment: \
             dev\n      labels: {{purpose: light}}\n      manifests:\n        storage: git\n        repo: \
             https://git.example/files\n        branch: main\n        path: app\n"
        ),
    );
    write(&fixture, "files/app/model.gz", noise(count));
    write(&fixture, "files/app/config.yaml", "brightness: 10\n");
    fixture.fleet();
    bundle(&fixture, "out");
    fixture
}

/// Bundle 2: one line of config differs.
pub fn change(fixture: &SystemFixture) {
    write(fixture, "files/app/config.yaml", "brightness: 11\n");
    bundle(fixture, "out");
}

fn bundle(fixture: &SystemFixture, out: &str) -> String {
    let at = in_folders("bundle", "dev", BASE_COMMIT);
    let more = ["--source", "https://git.example/files=files", "--out", out];
    fixture
        .run("outhaul", 0, &[&at[..], &KEYS, &more].concat())
        .stdout
}

/// `outhaul copy` of the stream, with more arguments.
pub fn copy(fixture: &SystemFixture, to: &str, code: i32, more: &[&str]) -> String {
    fs::create_dir_all(fixture.path(to)).unwrap();
    let at = [
        "copy",
        "--fleet",
        "fleet",
        "--environment",
        "dev",
        "--to",
        to,
    ];
    let ran = fixture.run("outhaul", code, &[&at[..], more].concat());
    format!("{}{}", ran.stdout, ran.stderr)
}

/// What a site's reconciler wrote.
fn applied(fixture: &SystemFixture, site: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = fixture.path(&format!("sites/{site}/applied"));
    let read = |path: &Path| {
        let name = path.strip_prefix(&folder).unwrap().display().to_string();
        (name, fs::read(path).unwrap())
    };
    paths(&folder).iter().map(|path| read(path)).collect()
}

/// Bytes of a bundle file before its blobs: metadata and index.
fn fixed_bytes(path: &Path) -> u64 {
    let mut reader = BundleReader::new(fs::File::open(path).unwrap(), Limits::default());
    let metadata = reader.read_metadata().unwrap();
    // The stream's own role names the index.
    let index = metadata.values().find_map(|bytes| {
        let role: Value = serde_json::from_slice(bytes).unwrap();
        let targets = role["signed"]["targets"].as_object()?.clone();
        let mut named = targets.into_iter();
        named.find(|(name, _)| name.ends_with("/index.json"))
    });
    let (_, target) = index.unwrap();
    let expected = Content {
        digest: format!("sha256:{}", target["hashes"]["sha256"].as_str().unwrap())
            .parse()
            .unwrap(),
        size: target["length"].as_u64().unwrap(),
    };
    reader.read_index(&expected).unwrap();
    reader.offset()
}

#[test]
fn a_changed_line_of_config_is_a_few_kilobytes_to_a_site_that_has_the_bundle_before() {
    let fixture = fixture(PAYLOAD);
    let sites = ["bench-1", "bench-2", "bench-3"];
    for site in sites {
        fixture.site(site, "dev", "bench");
    }
    copy(&fixture, "stick", 0, &[]);
    for site in ["bench-1", "bench-2"] {
        fixture.carry(site);
    }
    change(&fixture);

    // 1: a copy for the sites that have bundle 1.
    let seen = copy(&fixture, "small", 0, &["--since", "1"]);
    for words in [
        "only for sites that have bundle 1 (",
        "left out, ",
        " as patches of ",
        "safe to remove",
    ] {
        assert!(seen.contains(words), "{seen}");
    }
    let file = "small/dev-bench-2.since1.outhaul";
    let small = fs::metadata(fixture.path(file)).unwrap().len();
    let whole = fs::metadata(fixture.path("out/dev-bench-2.outhaul"))
        .unwrap()
        .len();
    let metadata = fixed_bytes(&fixture.path(file));
    // `volume.json` and what ends a bundle's file. Statement and bill of materials change with every bundle, and count.
    let framing = 1024 + 1024;
    let beyond = small - metadata - framing;
    let figures = format!(
        "bytes: whole {whole}; copy {small}: metadata and index {metadata}, volume.json and the end {framing}, beyond \
         them {beyond}"
    );
    println!("{figures}");
    assert!(beyond <= 3 * 1024 && whole > PAYLOAD as u64, "{figures}");
    let again = copy(&fixture, "small", 0, &["--since", "1"]);
    assert!(again.contains("there already, read back"), "{again}");

    // 2: it is verified as what it is.
    let trust = ["--fleet", "fleet"];
    let complete = "complete only on a site that has bundle 1: 1 blob of ";
    for command in ["verify", "inspect"] {
        let seen = fixture
            .run("outhaul", 0, &[&[command, file], &trust[..]].concat())
            .stdout;
        assert!(
            seen.contains(complete) && seen.contains("signatures"),
            "{seen}"
        );
        assert!(!seen.contains("do not use"), "{seen}");
    }

    // 3: what runs is what the whole bundle gives.
    fixture.agent("bench-1", 0, &["import", "small"]);
    fixture.agent("bench-2", 0, &["import", "out"]);
    let expected = applied(&fixture, "bench-2");
    assert_eq!(applied(&fixture, "bench-1"), expected);
    let config = fixture.applied("bench-1", "lamp-dim/payload/config.yaml");
    assert_eq!(config, "brightness: 11\n");

    // 4: a site that never had bundle 1 refuses it by name, tells the hub, and takes the whole one.
    let refused = fixture.agent("bench-3", 1, &["import", "small"]);
    let words = "blob of bundle 1, and it is not here; this site has no bundle yet";
    assert!(refused.stderr.contains(words), "{}", refused.stderr);
    let status = fixture.agent("bench-3", 0, &["status"]).stdout;
    assert!(status.contains(words), "{status}");
    assert!(!fixture.path("sites/bench-3/applied/lamp-dim").exists());
    fixture.agent("bench-3", 0, &["import", "out"]);
    assert_eq!(applied(&fixture, "bench-3"), expected);
    // The hub learns of bundle 2 by the copy as by the whole one, and of the refusal.
    fixture.run("outhaul-hub", 0, &["--state", "hub", "import", "small"]);
    fs::create_dir(fixture.path("back")).unwrap();
    for site in sites {
        fixture.agent(site, 0, &["export", "back"]);
    }
    fixture.run("outhaul-hub", 0, &["--state", "hub", "import", "back"]);
    let commit = "1".repeat(40);
    let gate = [
        "--state",
        "hub",
        "gate",
        "--environment",
        "dev",
        "--commit",
        &commit,
    ];
    fixture.run("outhaul-hub", 0, &gate);
}

#[test]
fn an_earlier_bundle_that_is_not_known_is_named_and_its_file_takes_its_place() {
    let fixture = fixture(300_000);
    copy(&fixture, "stick", 0, &[]);
    change(&fixture);
    copy(&fixture, "small", 0, &["--since", "1"]);
    let file = "small/dev-bench-2.since1.outhaul";
    let seen = copy(&fixture, "other", 2, &["--since", "9"]);
    for words in [
        "what bundle 9 of dev/bench has is not known here",
        "known are 1, 2",
        "--since-file BUNDLE",
    ] {
        assert!(seen.contains(words), "{seen}");
    }
    let records = fs::read_dir(fixture.path("fleet/bundles")).unwrap();
    for path in records.map(|entry| entry.unwrap().path()) {
        if path.to_string_lossy().ends_with(".blobs.json") {
            fs::remove_file(path).unwrap();
        }
    }
    let seen = copy(&fixture, "other", 2, &["--since", "1"]);
    assert!(seen.contains("known are 2"), "{seen}");
    assert_eq!(fs::read_dir(fixture.path("other")).unwrap().count(), 0);
    let earlier = ["--since-file", "stick/dev-bench-1.outhaul"];
    copy(&fixture, "other", 0, &earlier);
    let same = fs::read(fixture.path("other/dev-bench-2.since1.outhaul")).unwrap();
    assert!(same == fs::read(fixture.path(file)).unwrap());
    // A file that was changed is not a ground to leave anything out.
    let mut forged = fs::read(fixture.path("stick/dev-bench-1.outhaul")).unwrap();
    forged[150_000] ^= 1;
    write(&fixture, "forged.outhaul", forged);
    let seen = copy(&fixture, "forged", 4, &["--since-file", "forged.outhaul"]);
    assert!(
        seen.contains("`forged.outhaul`, given as an earlier bundle"),
        "{seen}"
    );
    assert_eq!(fs::read_dir(fixture.path("forged")).unwrap().count(), 0);
    // Nobody waits for what is not a file.
    let made = std::process::Command::new("mkfifo")
        .arg(fixture.path("fifo"))
        .status();
    assert!(made.unwrap().success());
    let seen = copy(&fixture, "forged", 3, &["--since-file", "fifo"]);
    assert!(seen.contains("a FIFO"), "{seen}");
    // Since two bundles: what both have.
    copy(
        &fixture,
        "two",
        0,
        &[&earlier[..], &["--since", "2"]].concat(),
    );
    assert!(fixture.path("two/dev-bench-2.since1and2.outhaul").is_file());

    // Since itself there is nothing to bring.
    let seen = copy(&fixture, "none", 0, &["--since", "2"]);
    for words in [
        "dev/bench: number 2 is the newest: a site that has it needs no copy",
        "nothing was written",
    ] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
    assert_eq!(fs::read_dir(fixture.path("none")).unwrap().count(), 0);
}

#[test]
fn a_copy_for_a_site_leaves_out_what_its_own_reports_say_it_has() {
    let fixture = fixture(300_000);
    for site in ["bench-1", "bench-2"] {
        fixture.site(site, "dev", "bench");
    }
    copy(&fixture, "stick", 0, &[]);
    fixture.carry("bench-1");
    fixture.agent("bench-1", 0, &["export", "stick"]);
    change(&fixture);
    let small = "stick/dev-bench-2.since1.outhaul";
    let whole = "stick/dev-bench-2.outhaul";

    // Its reports are there, and nobody approved the key that signed them.
    let seen = copy(&fixture, "stick", 0, &["--for", "bench-1"]);
    for words in [
        "`bench-1` has reports that no key signed which is approved for it: the whole bundle is copied",
        "help: compare the fingerprint in its request",
    ] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
    assert!(fixture.path(whole).is_file() && !fixture.path(small).exists());
    fs::remove_file(fixture.path(whole)).unwrap();

    approve(&fixture, "bench-1");
    let seen = copy(&fixture, "stick", 0, &["--for", "bench-1"]);
    assert!(
        seen.contains("only for sites that have bundle 1 ("),
        "{seen}"
    );
    let bytes = fs::metadata(fixture.path(small)).unwrap().len();
    assert!(bytes < 60_000, "{bytes}");
    fixture.carry("bench-1");

    // Of another site nothing is known; together they need the whole bundle.
    let seen = copy(
        &fixture,
        "both",
        0,
        &["--for", "bench-1", "--for", "bench-2", "--reports", "stick"],
    );
    let words = "`bench-2` has no report of an active bundle there: the whole bundle is copied";
    assert!(seen.contains(words), "{seen}");
    assert!(fixture.path("both/dev-bench-2.outhaul").is_file());

    // What it has now is not brought again.
    fixture.agent("bench-1", 0, &["export", "stick"]);
    let seen = copy(
        &fixture,
        "again",
        0,
        &["--for", "bench-1", "--reports", "stick"],
    );
    for words in [
        "`bench-1` runs bundle 2 by its report",
        "nothing was written: these sites have what there is",
    ] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
    assert_eq!(fs::read_dir(fixture.path("again")).unwrap().count(), 0);
    let seen = copy(&fixture, "again", 2, &["--for", "bench-9"]);
    assert!(seen.contains("bench-9"), "{seen}");
    let missing = ["--for", "bench-1", "--reports", "stik"];
    let seen = copy(&fixture, "again", 3, &missing);
    assert!(seen.contains("did you mean `stick`?"), "{seen}");
    assert_eq!(fs::read_dir(fixture.path("again")).unwrap().count(), 0);
}

/// The centre approves the key of a site, from the stick.
pub fn approve(fixture: &SystemFixture, site: &str) {
    let request = format!("stick/requests/{site}.request");
    let status = fixture.agent(site, 0, &["--output", "json", "status"]);
    let status = outhaul_tests::result(&status.stdout);
    let key = status["key"].as_str().unwrap();
    let at = [
        "site",
        "approve",
        &request,
        "--fleet",
        "fleet",
        "--fingerprint",
        key,
    ];
    fixture.run("outhaul", 0, &at);
}

#[test]
fn a_copy_for_a_site_says_what_stands_against_it() {
    let fixture = fixture(300_000);
    fixture.site("bench-1", "dev", "bench");
    copy(&fixture, "stick", 0, &[]);
    fixture.agent("bench-1", 0, &["export", "stick"]);
    approve(&fixture, "bench-1");
    fixture.carry("bench-1");
    change(&fixture);
    copy(&fixture, "stick", 0, &[]);
    fixture.carry("bench-1");

    for folder in ["reports", "other"] {
        fs::create_dir(fixture.path(folder)).unwrap();
    }
    // It went back: the bundle is brought, and what it takes is said.
    fixture.agent("bench-1", 0, &["rollback", "--who", "ann"]);
    fixture.agent("bench-1", 0, &["export", "reports"]);
    let bring = ["--for", "bench-1", "--reports", "reports"];
    let seen = copy(&fixture, "back", 0, &bring);
    for words in [
        "`bench-1` runs bundle 1 by its report",
        "`bench-1` left bundle 2 or could not apply it",
        "it takes it again after `outhaul-agent approve 2` there",
    ] {
        assert!(seen.contains(words), "{words}: {seen}");
    }

    // A file that was cut, and one that is empty.
    let file = paths(&fixture.path("reports/reports")).remove(0);
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 40]).unwrap();
    fs::write(fixture.path("reports/reports/x.reports"), "").unwrap();
    let seen = copy(&fixture, "cut", 0, &bring);
    for words in [
        "1 line is no report; the file was cut or changed",
        "is empty: it has no report",
    ] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
    fs::write(&file, &whole).unwrap();

    // Another history under the same numbers: a state folder that was restored.
    let state = fixture.path("sites/bench-1");
    outhaul_test_kit::folder::fill(&state, &fixture.path("restored"));
    fixture.agent("bench-1", 0, &["hold", "--who", "ann"]);
    fixture.agent("bench-1", 0, &["export", "reports"]);
    fs::remove_dir_all(&state).unwrap();
    fs::rename(fixture.path("restored"), &state).unwrap();
    fixture.agent("bench-1", 0, &["hold", "--who", "bob"]);
    fixture.agent("bench-1", 0, &["export", "other"]);
    let both = [&bring[..], &["--reports", "other"]].concat();
    let seen = copy(&fixture, "twofold", 0, &both);
    assert!(
        seen.contains("`bench-1` has two reports of one number"),
        "{seen}"
    );

    // One that is sealed for someone else.
    fixture.run("outhaul", 0, &["secret", "keygen", "--out", "other.age"]);
    let key = fixture
        .run("outhaul", 0, &["secret", "keygen", "--out", "reader.age"])
        .stdout;
    write(&fixture, "readers", format!("someone {}\n", key.trim()));
    let at = in_folders("bundle", "dev", BASE_COMMIT);
    let more = [
        "--source",
        "https://git.example/files=files",
        "--out",
        "out",
        "--renew",
        "--seal-for",
        "readers",
    ];
    fixture.run("outhaul", 0, &[&at[..], &KEYS, &more].concat());
    let seen = copy(&fixture, "sealed", 1, &bring);
    for words in [
        "is sealed for `someone`, and not for the key that is approved for `bench-1`",
        "nothing was written",
    ] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
}
