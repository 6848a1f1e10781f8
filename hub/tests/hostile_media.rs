//! Sticks that someone prepared to do harm to a hub: nothing outside them is touched, nothing waits for
//! them, each entry that cannot be used is named, and what is good on them is taken in.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};

use outhaul_bundle::index::compressed::compressed;
use outhaul_test_kit::archive::with_unsigned_form;
use outhaul_test_kit::{Centre, Draft, Load};

use crate::http;
use crate::program::{Hub, code, stderr};

/// A hub that knows a site, and a stick with a report of it.
fn fixture() -> (Hub, PathBuf) {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let mut site = centre.site("drone-1", &centre.stream("dev", "drone"));
    fs::write(hub.path("r.request"), site.request()).unwrap();
    hub.add(&hub.path("r.request"), &site);
    let stick = hub.path("stick");
    fs::create_dir_all(stick.join("reports")).unwrap();
    fs::write(stick.join("reports/a.reports"), site.started()).unwrap();
    fs::create_dir(hub.path("outside")).unwrap();
    fs::write(hub.path("outside/file"), "kept").unwrap();
    (hub, stick)
}

#[track_caller]
fn assert_untouched(hub: &Hub) {
    let names: Vec<_> = fs::read_dir(hub.path("outside"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["file"]);
    assert_eq!(fs::read(hub.path("outside/file")).unwrap(), b"kept");
}

#[track_caller]
fn assert_reports(output: &Output, expected: i32, words: &[&str]) {
    let message = stderr(output);
    assert_eq!(code(output), expected, "{message}");
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
}

#[test]
fn acknowledgements_are_not_written_through_links() {
    let (hub, stick) = fixture();
    symlink(hub.path("outside"), stick.join("acks")).unwrap();
    let output = hub.run(&["import", stick.to_str().unwrap()]);
    let words = [
        "not acknowledged",
        "acks`: it is a symbolic link, not a folder",
    ];
    assert_reports(&output, 3, &words);
    let output = hub.run(&["acks", stick.to_str().unwrap()]);
    assert_reports(
        &output,
        3,
        &["a symbolic link", "what is on record is safe"],
    );
    assert_untouched(&hub);
    fs::remove_file(stick.join("acks")).unwrap();
    fs::create_dir(stick.join("acks")).unwrap();
    let planted = stick.join("acks/.drone-1.acks.tmp");
    symlink(hub.path("outside/file"), planted).unwrap();
    hub.json(&["acks", stick.to_str().unwrap()]);
    assert!(fs::metadata(stick.join("acks/drone-1.acks")).unwrap().len() > 100);
    assert_untouched(&hub);
}

#[test]
fn a_stick_that_cannot_be_written_still_brings_its_reports() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let mut site = centre.site("drone-1", &centre.stream("dev", "drone"));
    fs::write(hub.path("r.request"), site.request()).unwrap();
    hub.add(&hub.path("r.request"), &site);
    let stick = hub.path("stick");
    fs::create_dir_all(stick.join("reports")).unwrap();
    fs::write(stick.join("reports/a.reports"), site.started()).unwrap();
    // A file where the folder belongs: what even root cannot write through.
    fs::write(stick.join("acks"), "").unwrap();
    let output = hub.run(&["import", stick.to_str().unwrap()]);
    assert_eq!(code(&output), 3);
    assert!(
        stderr(&output).contains("not acknowledged"),
        "{}",
        stderr(&output)
    );
    fs::remove_file(stick.join("acks")).unwrap();
    hub.json(&["acks", stick.to_str().unwrap()]);
    assert!(stick.join("acks/drone-1.acks").exists());
}

#[test]
fn a_stick_that_can_be_written_hides_no_problem_of_the_one_before() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let stream = centre.stream("dev", "drone");
    let sticks = ["stick1", "stick2"].map(|name| hub.path(name));
    for (number, stick) in sticks.iter().enumerate() {
        let mut site = centre.site(&format!("drone-{number}"), &stream);
        let request = hub.path(&format!("{number}.request"));
        fs::write(&request, site.request()).unwrap();
        hub.add(&request, &site);
        fs::create_dir_all(stick.join("reports")).unwrap();
        fs::write(stick.join("reports/a.reports"), site.started()).unwrap();
    }
    let [first, second] = sticks.each_ref().map(|stick| stick.to_str().unwrap());
    fs::write(sticks[0].join("acks"), "").unwrap();
    let output = hub.run(&["import", first, second]);
    let text = stderr(&output);
    assert_eq!(code(&output), 3, "{text}");
    assert!(
        text.contains("not acknowledged") && text.contains("stick1/acks"),
        "{text}"
    );
    assert!(sticks[1].join("acks/drone-1.acks").exists());
}

#[test]
fn attack_what_is_planted_for_one_site_keeps_no_other_from_its_acknowledgements() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let stick = hub.path("stick");
    fs::create_dir_all(stick.join("reports")).unwrap();
    for name in ["drone-1", "drone-2"] {
        let mut site = centre.site(name, &centre.stream("dev", "drone"));
        fs::write(hub.path("r.request"), site.request()).unwrap();
        hub.add(&hub.path("r.request"), &site);
        let file = stick.join("reports").join(format!("{name}.reports"));
        fs::write(file, site.started()).unwrap();
    }
    fs::create_dir(hub.path("outside")).unwrap();
    fs::write(hub.path("outside/file"), "kept").unwrap();
    fs::create_dir(stick.join("acks")).unwrap();
    let planted = stick.join("acks/drone-1.acks");
    symlink(hub.path("outside/file"), &planted).unwrap();
    let output = hub.run(&["import", stick.to_str().unwrap()]);
    assert_reports(&output, 3, &["not acknowledged", "drone-1.acks"]);
    let of_later = stick.join("acks/drone-2.acks");
    assert!(fs::metadata(&of_later).unwrap().len() > 100);
    fs::remove_file(&of_later).unwrap();
    let output = hub.run(&["acks", stick.to_str().unwrap()]);
    assert_reports(
        &output,
        3,
        &["error: not written: ", "drone-1.acks", "Wrote 1 file."],
    );
    assert!(fs::metadata(&of_later).unwrap().len() > 100);
    assert_untouched(&hub);
    fs::remove_file(&planted).unwrap();
    let written = hub.json(&["acks", stick.to_str().unwrap()]);
    assert_eq!(written["acks"].as_array().unwrap().len(), 2, "{written}");
}

#[test]
fn reports_in_a_folder_of_somebody_are_taken_in_and_nothing_is_written_there() {
    for (marker, whose) in [
        ("agent.db", "the state folder of a site"),
        ("fleet.json", "the folder of a fleet's keys"),
        ("hub.key", "the state folder of a hub"),
    ] {
        let (hub, stick) = fixture();
        fs::write(stick.join(marker), b"").unwrap();
        let output = hub.run(&["import", stick.to_str().unwrap()]);
        let words = ["the reports are in, but not acknowledged on a stick", whose];
        assert_reports(&output, 3, &words);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("1 report imported"), "{said}");
        let output = hub.run(&["acks", stick.to_str().unwrap()]);
        assert_reports(&output, 2, &[whose, "help: name a folder outside it"]);
        assert!(!stick.join("acks").exists());
    }
}

#[test]
fn what_is_no_file_is_named_and_nothing_waits_for_it() {
    let (hub, stick) = fixture();
    for name in ["b.reports", "c.request", "d.outhaul", "\u{1b}[2J.reports"] {
        let made = Command::new("mkfifo").arg(stick.join(name)).status();
        assert!(made.unwrap().success());
    }
    symlink("/dev/zero", stick.join("e.reports")).unwrap();
    symlink(hub.path("outside"), stick.join("more")).unwrap();
    symlink(&stick, stick.join("loop")).unwrap();
    let output = hub.run(&["import", stick.to_str().unwrap()]);
    let words = [
        "b.reports: unusable-entry: it is a FIFO",
        "c.request: unusable-entry: it is a FIFO",
        "d.outhaul: unusable-entry: it is a FIFO",
        "e.reports: unusable-entry: it is a symbolic link",
        "\\u{1b}[2J.reports",
        "everything else was imported",
    ];
    assert_reports(&output, 1, &words);
    assert!(!stderr(&output).contains('\u{1b}'));
    let message = String::from_utf8(output.stdout).unwrap();
    assert!(message.contains("1 report imported"), "{message}");
    assert!(stick.join("acks/drone-1.acks").exists());
    let fifo = stick.join("b.reports");
    let output = hub.run(&["import", fifo.to_str().unwrap()]);
    assert_reports(&output, 3, &["b.reports", "a FIFO", "help:"]);
    assert_untouched(&hub);
}

#[test]
fn what_set_up_and_approval_are_given_is_a_regular_file_or_refused_at_once() {
    let hub = Hub::new();
    let centre = Centre::new();
    let fifo = hub.path("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    symlink(centre.root(), hub.path("link")).unwrap();
    for (name, what) in [
        (fifo.to_str().unwrap(), "a FIFO"),
        (hub.path("link").to_str().unwrap(), "a symbolic link"),
        ("/dev/zero", "a device"),
    ] {
        let output = hub.run(&["init", "--root", name, "--plain-key", "a test"]);
        assert_reports(&output, 3, &[name, what, "help:"]);
    }
    hub.init(&centre.root());
    for (name, what) in [
        (fifo.to_str().unwrap(), "a FIFO"),
        (hub.path("link").to_str().unwrap(), "a symbolic link"),
        ("/dev/zero", "a device"),
    ] {
        let output = hub.run(&["site", "add", name]);
        assert_reports(&output, 3, &[name, what, "help:"]);
    }
}

#[test]
fn a_file_of_reports_that_nobody_could_have_written_is_not_read() {
    let (hub, stick) = fixture();
    let sparse = fs::File::create(stick.join("reports/huge.reports")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let output = hub.run(&["import", stick.to_str().unwrap()]);
    let words = ["huge.reports: too-large", "nothing of it was read"];
    assert_reports(&output, 4, &words);
    let message = String::from_utf8(output.stdout).unwrap();
    assert!(message.contains("1 report imported"), "{message}");
}

#[test]
fn of_many_files_that_are_refused_for_one_reason_the_first_are_named_and_the_others_counted() {
    let (hub, stick) = fixture();
    for number in 0..200 {
        fs::write(
            stick.join(format!("junk-{number:03}.reports")),
            format!("junk {number}\n"),
        )
        .unwrap();
    }
    let output = hub.run(&["import", stick.to_str().unwrap()]);
    let message = String::from_utf8_lossy(&output.stderr);
    let named = message
        .lines()
        .filter(|line| line.contains("junk-"))
        .count();
    assert_eq!(named, 20, "{message}");
    assert!(message.contains("180 more: "), "{message}");
    let json = hub.run(&["import", stick.to_str().unwrap(), "--output", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["result"]["refused"].as_array().unwrap().len(), 200);
}

#[test]
fn attack_links_and_fifos_in_the_published_folder_give_no_key_and_keep_no_thread() {
    let hub = Hub::new();
    hub.init(&Centre::new().root());
    let published = hub.path("published");
    fs::create_dir_all(published.join("blobs")).unwrap();
    fs::write(published.join("blobs/one"), "one").unwrap();
    symlink(hub.state(), published.join("blobs/hub")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, published.join("fifo"), kind, mode, 0).unwrap();
    let server = hub.serve(&["--repository", published.to_str().unwrap()]);
    let get = |path: &str| http::plain(server.address(), &format!("GET {path}"), b"");
    assert_eq!(get("/repository/blobs/hub/hub.key"), (404, String::new()));
    for _ in 0..560 {
        assert_eq!(get("/repository/fifo").0, 404);
    }
    assert_eq!(get("/repository/blobs/one"), (200, "one".to_owned()));
    assert_eq!(get("/healthz").0, 200);
    assert_eq!(server.stop(), 0);
}

/// The hub knows the timestamp of this bundle, and looks at no metadata behind it again.
#[test]
fn attack_a_known_bundle_with_an_unsigned_compressed_index_is_not_opened() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let draft = |word: &str| {
        let mut load = Load::new("hello");
        for number in 0..800 {
            let path = format!("labels/{number}.txt");
            load = load.file(&path, format!("{word} {number}\n"));
        }
        Draft::new([load])
    };
    let bomb = compressed(&vec![0; 64 << 20]).unwrap().unwrap();
    let forged = |bundle: &PathBuf, name: &str| {
        let path = hub.path(name);
        fs::write(&path, with_unsigned_form(&fs::read(bundle).unwrap(), &bomb)).unwrap();
        path
    };
    let one = centre.publish(&draft("one"));
    hub.json(&["import", one.to_str().unwrap()]);
    // The newest one, whose timestamp is known, and an older one, which is looked up in the record.
    let file = forged(&one, "forged-1.outhaul");
    let printed = hub.run(&["import", file.to_str().unwrap()]);
    assert_reports(
        &printed,
        4,
        &["forged-1.outhaul: size: `index.json.zst`: expected "],
    );
    let two = centre.publish(&draft("two"));
    hub.json(&["import", two.to_str().unwrap()]);
    let printed = hub.run(&["import", file.to_str().unwrap()]);
    assert_reports(&printed, 4, &["forged-1.outhaul"]);
    assert!(!stderr(&printed).contains("uffer"), "{printed:?}");
    for good in [&one, &two] {
        hub.json(&["import", good.to_str().unwrap()]);
    }
}
