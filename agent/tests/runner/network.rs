//! The transports of a connected site: the same bundle pulled from a web server, the same reports sent to a hub.

use std::fs;
use std::path::PathBuf;

use outhaul_bundle::hub_api::ReportsAnswer;
use outhaul_bundle::report::{ACK_PAYLOAD_TYPE, Ack, Report};
use outhaul_signer::{Envelope, SigningKey};
use outhaul_test_kit::{Centre, Draft, Load, TOKEN};

use crate::server::Server;
use crate::site::{Site, assert_reports, code, stderr, stdout};
use crate::web::unpack_for_web;

/// How `status` begins to say that nothing came of a server.
const NOT_IMPORTED: &str = "a bundle could not be imported from";

struct Web {
    folder: tempfile::TempDir,
    server: Server,
}

impl Web {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::files(folder.path().to_owned());
        Self { folder, server }
    }

    /// Publishes a draft, and returns where its one large blob lies.
    fn publish(&self, centre: &Centre, draft: &Draft) -> PathBuf {
        unpack_for_web(&centre.publish(draft), self.folder.path());
        let blobs = fs::read_dir(self.folder.path().join("blobs/sha256")).unwrap();
        let paths = blobs.map(|entry| entry.unwrap().path());
        paths
            .max_by_key(|path| fs::metadata(path).unwrap().len())
            .unwrap()
    }

    fn site(&self, centre: &Centre) -> Site {
        let site = Site::new(centre, "drone-7");
        site.configure(&format!("[repository]\nurl = \"{}\"", self.server.url));
        site
    }
}

#[test]
fn a_repository_is_pulled_and_asked_again_it_has_nothing_new() {
    let (centre, web) = (Centre::new(), Web::new());
    web.publish(&centre, &Draft::hello("one"));
    let site = web.site(&centre);
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    assert_eq!(site.active(), Some(1));
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: one\n");
    let blobs = || {
        web.server
            .asked()
            .iter()
            .filter(|(_, path, _)| path.starts_with("blobs/"))
            .count()
    };
    let before = blobs();
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    web.publish(&centre, &Draft::hello("two"));
    assert_eq!(blobs(), before, "what is there is not fetched again");
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    assert_eq!(site.active(), Some(2));
    assert_eq!(blobs(), before + 1, "the large blob was there already");
}

/// A draft whose index is large.
fn many_files(word: &str) -> Draft {
    let file = |number| (format!("labels/{number}.txt"), format!("{word} {number}\n"));
    let mut load = Load::new("hello");
    for (name, text) in (0..800).map(file) {
        load = load.file(&name, text);
    }
    Draft::new([load])
}

#[test]
fn the_compressed_form_of_a_large_index_is_pulled_and_the_index_itself_where_it_is_missing() {
    let (centre, web) = (Centre::new(), Web::new());
    web.publish(&centre, &many_files("one"));
    let site = web.site(&centre);
    let indexes = |asked: &[crate::server::Asked]| -> Vec<String> {
        let paths = asked.iter().map(|(_, path, _)| path.clone());
        paths.filter(|path| path.starts_with("targets/")).collect()
    };
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    assert_eq!(site.active(), Some(1));
    let asked = indexes(&web.server.asked());
    assert!(
        asked.len() == 1 && asked[0].ends_with(".index.json.zst"),
        "{asked:?}"
    );
    assert_eq!(site.applied()["hello/labels/7.txt"], b"one 7\n");
    // A mirror that has what clients of The Update Framework know, and nothing else.
    web.publish(&centre, &many_files("two"));
    let removed = remove_compressed(&web);
    assert_eq!(removed, 2);
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    assert_eq!(site.active(), Some(2));
}

/// Removes every compressed index, and returns how many there were.
fn remove_compressed(web: &Web) -> usize {
    let mut removed = 0;
    for role in fs::read_dir(web.folder.path().join("targets")).unwrap() {
        for file in fs::read_dir(role.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "zst") {
                fs::remove_file(path).unwrap();
                removed += 1;
            }
        }
    }
    removed
}

/// Changes the last byte of every file below `targets/` whose name ends so, and returns how many there were.
fn damage_indexes(web: &Web, ending: &str) -> usize {
    let all = outhaul_test_kit::folder::paths(&web.folder.path().join("targets"));
    let wanted = all
        .iter()
        .filter(|path| path.to_string_lossy().ends_with(ending));
    let mut damaged = 0;
    for path in wanted {
        let mut bytes = fs::read(path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(path, bytes).unwrap();
        damaged += 1;
    }
    damaged
}

#[test]
fn attack_a_server_with_another_compressed_index_is_refused_before_it_is_decompressed() {
    let (centre, web) = (Centre::new(), Web::new());
    web.publish(&centre, &many_files("one"));
    assert_eq!(damage_indexes(&web, ".index.json.zst"), 1);
    let site = web.site(&centre);
    // Its digest is compared and not what would come out of it; the index itself is whole beside it.
    assert_reports(
        &site.run(&["run", "--once"]),
        0,
        &[
            "the compressed index cannot be used",
            ".index.json.zst`: it has",
            "are signed",
            "`outhaul publish`",
        ],
    );
    assert_eq!(site.active(), Some(1));
    assert_eq!(site.applied()["hello/labels/7.txt"], b"one 7\n");
    assert_eq!(site.event_log().join(" ").matches("refusal").count(), 0);
    // A longer file than is signed is not read to its end.
    web.publish(&centre, &many_files("two"));
    for path in outhaul_test_kit::folder::paths(&web.folder.path().join("targets")) {
        if path.extension().is_some_and(|ending| ending == "zst") {
            fs::write(path, vec![0; 1 << 20]).unwrap();
        }
    }
    let words = ["the compressed index cannot be used"];
    assert_reports(&site.run(&["run", "--once"]), 0, &words);
    assert_eq!(site.active(), Some(2));
}

#[test]
fn attack_a_server_with_another_index_in_both_forms_is_refused_and_both_are_named() {
    let (centre, web) = (Centre::new(), Web::new());
    web.publish(&centre, &many_files("one"));
    assert_eq!(damage_indexes(&web, ".index.json.zst"), 1);
    assert_eq!(damage_indexes(&web, ".index.json"), 1);
    let site = web.site(&centre);
    let words = [
        "is refused, nothing was changed",
        ".index.json.zst`: it has",
        "are signed; `targets/",
        ".index.json` has the digest",
    ];
    for _ in 0..2 {
        assert_reports(&site.run(&["run", "--once"]), 4, &words);
    }
    assert_eq!(site.active(), None);
    let refused = ["started", "started", "refusal digest", "started"];
    assert_eq!(site.event_log(), refused);
    // The compressed form alone, and that one damaged.
    let removed = outhaul_test_kit::folder::paths(&web.folder.path().join("targets"));
    for path in removed
        .iter()
        .filter(|path| path.extension().unwrap() == "json")
    {
        fs::remove_file(path).unwrap();
    }
    let words = [".index.json.zst`: it has", ".index.json` is missing"];
    assert_reports(&site.run(&["run", "--once"]), 4, &words);
    assert_eq!(site.active(), None);
}

#[test]
fn a_download_that_broke_off_goes_on_from_its_last_byte() {
    let (centre, web) = (Centre::new(), Web::new());
    web.publish(&centre, &Draft::hello("one"));
    web.server.break_next_blob_after(60_000);
    let site = web.site(&centre);
    assert_reports(
        &site.run(&["run", "--once"]),
        3,
        &["blobs/sha256/", "nothing is lost"],
    );
    assert_eq!(site.active(), None);
    assert!(site.applied().is_empty());
    assert_eq!(
        site.event_log(),
        ["started", "started"],
        "a broken link is no refusal"
    );
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    assert_eq!(site.active(), Some(1));
    let ranges: Vec<_> = web
        .server
        .asked()
        .iter()
        .map(|(_, _, from)| *from)
        .filter(|from| *from > 0)
        .collect();
    assert_eq!(ranges, [60_000]);
}

#[test]
fn attack_a_server_that_keeps_breaking_off_is_named_in_status_and_reported_once() {
    let (centre, web) = (Centre::new(), Web::new());
    web.publish(&centre, &Draft::hello("one"));
    let site = web.site(&centre);
    let named = || stdout(&site.run(&["status"])).contains(NOT_IMPORTED);
    for round in 0..4 {
        web.server.break_next_blob_after(1_000);
        assert_reports(&site.run(&["run", "--once"]), 3, &["blobs/sha256/"]);
        assert!(named(), "{round}");
    }
    let reported = || {
        let log = site.event_log();
        log.iter()
            .filter(|one| *one == "refusal not-received")
            .count()
    };
    assert_eq!(reported(), 1);
    let next = site.status()["next"].to_string();
    assert!(next.contains("ask the person who runs it"), "{next}");
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    assert_eq!(site.active(), Some(1));
    assert!(!named());
    assert_eq!(reported(), 1);
}

#[test]
fn a_blob_changed_on_the_server_is_refused_and_reported_once() {
    let (centre, web) = (Centre::new(), Web::new());
    let blob = web.publish(&centre, &Draft::hello("one"));
    let good = fs::read(&blob).unwrap();
    let mut bad = good.clone();
    bad[50_000] ^= 1;
    fs::write(&blob, bad).unwrap();
    let site = web.site(&centre);
    for _ in 0..2 {
        assert_reports(&site.run(&["run", "--once"]), 4, &["is refused", "digest"]);
    }
    assert!(site.applied().is_empty());
    assert_eq!(
        site.event_log(),
        ["started", "started", "refusal digest", "started"]
    );
    fs::write(&blob, good).unwrap();
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    assert_eq!(site.active(), Some(1));
}

#[test]
fn an_older_repository_put_back_is_refused_and_what_runs_goes_on() {
    let (centre, web) = (Centre::new(), Web::new());
    web.publish(&centre, &Draft::hello("one"));
    let old = fs::read(web.folder.path().join("metadata/timestamp.json")).unwrap();
    web.publish(&centre, &Draft::hello("two"));
    let site = web.site(&centre);
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    fs::write(web.folder.path().join("metadata/timestamp.json"), old).unwrap();
    assert_reports(
        &site.run(&["run", "--once"]),
        4,
        &["is refused", "timestamp.json"],
    );
    assert_eq!(site.active(), Some(2));
}

#[test]
fn a_server_that_is_not_there_changes_nothing() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    site.configure(
        "[repository]\nurl = \"http://127.0.0.1:1\"\n[hub]\nurl = \"http://127.0.0.1:1\"",
    );
    assert_reports(
        &site.run(&["run", "--once"]),
        3,
        &[
            "Connection refused",
            "what runs was not touched",
            "the hub does not answer: http://127.0.0.1:1/api/v1/",
        ],
    );
    assert_reports(
        &site.run(&["send"]),
        3,
        &["http://127.0.0.1:1/api/v1/requests", "nothing is lost"],
    );
    assert_eq!(site.active(), Some(1));
}

/// A hub that acknowledges the last report posted with `key`.
pub fn hub(key: SigningKey) -> Server {
    let answer = move |body: &[u8]| {
        let last = body
            .split(|b| *b == b'\n')
            .rfind(|line| !line.is_empty())
            .unwrap();
        let report = Envelope::from_json(last).unwrap();
        let report = Report::from_bytes(report.unverified_payload()).unwrap();
        let ack = Ack {
            fleet: report.fleet,
            site: report.site,
            epoch: report.epoch,
            number: report.number,
            digest: None,
            hub_time_ms: 4_070_908_800_000,
        };
        let ack = Envelope::sign(ACK_PAYLOAD_TYPE, serde_json::to_vec(&ack).unwrap(), &key);
        let ack: serde_json::Value = serde_json::from_slice(&ack.to_json()).unwrap();
        let answer = ReportsAnswer {
            acks: vec![ack],
            ..ReportsAnswer::default()
        };
        serde_json::to_vec(&answer).unwrap()
    };
    Server::start(PathBuf::new(), Box::new(answer))
}

#[test]
fn only_what_the_hubs_own_key_acknowledges_leaves_the_outbox() {
    let centre = Centre::new();
    let (key, stranger) = (
        SigningKey::generate().unwrap(),
        SigningKey::generate().unwrap(),
    );
    let kit = centre.kit_with("drone-7", TOKEN, |kit| kit.hub_key = key.public().to_pem());
    let site = Site::with_kit("drone-7", &kit);
    site.take(&centre.publish(&Draft::hello("one")));
    let waiting = site.status()["reports_waiting"].as_u64().unwrap();

    let false_hub = hub(stranger);
    site.configure(&format!("[hub]\nurl = \"{}\"", false_hub.url));
    let sent = site.ok(&["send"]);
    assert_eq!(
        (sent["sent"].as_u64(), sent["acknowledged"].as_u64()),
        (Some(waiting), Some(0))
    );
    assert_eq!(site.status()["reports_waiting"], waiting);

    let true_hub = hub(key);
    site.configure(&format!("[hub]\nurl = \"{}\"", true_hub.url));
    assert_eq!(site.ok(&["send"])["acknowledged"], waiting);
    let status = site.status();
    assert_eq!(status["reports_waiting"], 0);
    // The hub says that it is 2099: accepted within the slack, and not a second beyond, however often.
    let bound = || {
        site.status()["time_lower_bound"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let day = |days: i64| {
        (outhaul_test_kit::now() + jiff::SignedDuration::from_hours(24 * days)).to_string()
    };
    assert!(day(2) < bound() && bound() < day(4), "{}", bound());
    site.ok(&["send"]);
    assert!(bound() < day(4), "{}", bound());
    site.take(&centre.publish(&Draft::hello("two")));
}

#[test]
fn a_repository_without_all_blobs_is_reported_as_incomplete_once_and_taken_when_it_is_whole() {
    let (centre, web) = (Centre::new(), Web::new());
    let blob = web.publish(&centre, &Draft::hello("one"));
    let content = fs::read(&blob).unwrap();
    fs::remove_file(&blob).unwrap();
    let site = web.site(&centre);
    let name = blob.file_name().unwrap().to_str().unwrap();
    for _ in 0..2 {
        let words = [
            "cannot be completed",
            name,
            "is not there",
            "`blobs` before `metadata`",
        ];
        assert_reports(&site.run(&["run", "--once"]), 3, &words);
    }
    assert_eq!(site.active(), None);
    assert_eq!(
        site.event_log(),
        ["started", "started", "refusal incomplete", "started"]
    );
    let status = stdout(&site.run(&["status"]));
    let words = [
        NOT_IMPORTED,
        name,
        "ask the person who fills the repository",
    ];
    assert!(words.iter().all(|words| status.contains(words)), "{status}");
    fs::write(&blob, content).unwrap();
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    assert_eq!(site.active(), Some(1));
    assert!(!stdout(&site.run(&["status"])).contains(NOT_IMPORTED));
}

#[test]
fn a_hub_that_takes_its_time_is_said_to_be_waited_for() {
    let (centre, web) = (Centre::new(), Web::new());
    web.publish(&centre, &Draft::hello("one"));
    let site = web.site(&centre);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let settings = site.state().join("agent.toml");
    let before = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, format!("{before}\n[hub]\nurl = \"{url}\"\n")).unwrap();
    let mut send = site.command(&["send"]);
    let mut send = send
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Taken, and not answered before the agent has said something.
    let taken = listener.accept().unwrap();
    let mut said = String::new();
    let mut stderr = std::io::BufReader::new(send.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut stderr, &mut said).unwrap();
    assert!(
        said.contains(&format!("waiting for {url}/api/v1/")) && said.contains("stays in the queue"),
        "{said}"
    );
    drop((taken, listener));
    assert_eq!(send.wait().unwrap().code(), Some(3));
}

#[test]
fn a_round_whose_hub_does_not_answer_still_says_what_it_applied() {
    let (centre, web) = (Centre::new(), Web::new());
    web.publish(&centre, &Draft::hello("one"));
    let site = web.site(&centre);
    // Nobody listens there.
    let hub = "[hub]\nurl = \"http://127.0.0.1:1\"\n";
    let settings = site.state().join("agent.toml");
    let before = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, format!("{before}\n{hub}")).unwrap();
    let round = site.run(&["-q", "run", "--once"]);
    assert_reports(&round, 3, &["nothing is lost"]);
    let told = stdout(&round);
    assert!(told.starts_with("bundle 1 is active\n"), "{told}");
    web.publish(&centre, &Draft::hello("two"));
    let round = site.run(&["--output", "json", "run", "--once"]);
    let told: serde_json::Value = serde_json::from_str(&stdout(&round)).unwrap();
    assert_eq!(code(&round), 3);
    assert_eq!(told["result"]["active"], 2, "{told}");
    assert_eq!(told["result"]["changed"][1]["number"], 2, "{told}");
    assert_eq!(told["errors"][0]["kind"], "environment", "{told}");
}

#[test]
fn whatever_keeps_reports_from_the_hub_how_it_goes_on_is_said_alike() {
    let (centre, web) = (Centre::new(), Web::new());
    web.publish(&centre, &Draft::hello("one"));
    let site = web.site(&centre);
    let settings = site.state().join("agent.toml");
    let before = fs::read_to_string(&settings).unwrap();
    // A server that is no hub, and nobody.
    let other = tempfile::tempdir().unwrap();
    let other = Server::files(other.path().to_owned());
    for url in [other.url.as_str(), "http://127.0.0.1:1"] {
        fs::write(&settings, format!("{before}\n[hub]\nurl = \"{url}\"\n")).unwrap();
        let sent = site.run(&["send"]);
        // No service runs here: nothing continues automatically.
        let words = "nothing is lost: it goes on with the next `outhaul-agent run --once`, or by the service where it runs";
        assert_reports(&sent, 3, &[words]);
        assert!(!stderr(&sent).contains("tried again"), "{}", stderr(&sent));
    }
}
