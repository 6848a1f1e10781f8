//! Sticks that someone prepared to do harm: nothing outside them is touched, nothing waits for them, and
//! each entry that cannot be used is named.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use outhaul_bundle::report::ReportEvent;
use outhaul_test_kit::{Centre, Draft};
use outhaul_tests::Checked as _;

use crate::service::Service;
use crate::site::{Site, assert_reports, code, stderr, stdout, tree};

/// A site on which bundle 1 runs, a stick, and beside it what must stay as it is.
struct Fixture {
    centre: Centre,
    site: Site,
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let centre = Centre::new();
        let site = Site::new(&centre, "drone-7");
        site.take(&centre.publish(&Draft::hello("one")));
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("stick")).unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        fs::write(folder.path().join("outside/file"), "kept").unwrap();
        site.configure(&format!("watch = [{:?}]", folder.path().join("stick")));
        Self {
            centre,
            site,
            folder,
        }
    }

    fn stick(&self, name: &str) -> PathBuf {
        self.folder.path().join("stick").join(name)
    }

    fn make(&self, folder: &str) {
        fs::create_dir_all(self.stick(folder)).unwrap();
    }

    fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    fn fifo(&self, name: &str) {
        let done = Command::new("mkfifo").arg(self.stick(name)).status();
        assert!(done.unwrap().success());
    }

    fn good_bundle(&self) {
        let bundle = self.centre.publish(&Draft::hello("two"));
        fs::copy(bundle, self.stick("good.outhaul")).unwrap();
    }

    /// Runs a command on the stick. One that waits for the stick is ended, with a separate code.
    fn run(&self, arguments: &[&str]) -> Output {
        let command = self.site.command(arguments);
        let mut bounded = Command::new("timeout");
        bounded.args(["--signal=KILL", "120"]);
        bounded.arg(command.get_program()).args(command.get_args());
        for (name, _) in command.get_envs() {
            bounded.env_remove(name);
        }
        bounded.checked().unwrap()
    }

    fn on_stick(&self, command: &str) -> Output {
        self.run(&[command, self.stick("").to_str().unwrap()])
    }

    #[track_caller]
    fn assert_untouched(&self) {
        let outside: Vec<_> = tree(&self.outside()).into_iter().collect();
        assert_eq!(outside, [("file".to_owned(), b"kept".to_vec())]);
    }
}

#[test]
fn temporary_names_that_are_links_destroy_nothing() {
    let fixture = Fixture::new();
    // Which files an export writes is known to whoever held the stick before.
    let before = tempfile::tempdir().unwrap();
    fixture
        .site
        .ok(&["export", before.path().to_str().unwrap()]);
    let names: Vec<_> = tree(before.path()).into_keys().collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for name in &names {
        let (folder, file) = name.split_once('/').unwrap();
        fixture.make(folder);
        let planted = fixture.stick(&format!("{folder}/.{file}.tmp"));
        symlink(fixture.outside().join("file"), planted).unwrap();
    }
    fixture.good_bundle();
    assert_reports(&fixture.run(&["run", "--once"]), 0, &["reports written"]);
    assert_eq!(fixture.site.active(), Some(2));
    let printed = fixture.on_stick("export");
    assert_reports(&printed, 0, &["safe to remove now"]);
    fixture.assert_untouched();
    assert!(fixture.stick("requests/drone-7.request").is_file());
}

#[test]
fn folders_that_are_links_are_named_and_not_followed() {
    for name in ["reports", "requests"] {
        let fixture = Fixture::new();
        symlink(fixture.outside(), fixture.stick(name)).unwrap();
        let words = [
            name,
            "a symbolic link, not a folder",
            "help: remove or rename",
        ];
        assert_reports(&fixture.on_stick("export"), 3, &words);
        fixture.good_bundle();
        let printed = fixture.run(&["run", "--once"]);
        if name == "reports" {
            assert_reports(
                &printed,
                3,
                &["reports were not written", words[1], "tries again"],
            );
        }
        // What came is taken all the same.
        assert_eq!(fixture.site.active(), Some(2));
        fixture.assert_untouched();
    }
}

#[test]
fn files_where_folders_and_folders_where_files_belong_are_named() {
    let fixture = Fixture::new();
    fs::write(fixture.stick("requests"), "").unwrap();
    let words = ["requests`: it is a regular file, not a folder", "help:"];
    assert_reports(&fixture.on_stick("export"), 3, &words);
    fs::remove_file(fixture.stick("requests")).unwrap();
    fixture.make("requests/drone-7.request");
    let words = ["drone-7.request`: it is a folder, not a regular file"];
    assert_reports(&fixture.on_stick("export"), 3, &words);
    fixture.make("acks/drone-7.acks");
    fixture.good_bundle();
    let words = ["skipped", "drone-7.acks`: it is a folder"];
    assert_reports(&fixture.on_stick("import"), 0, &words);
}

/// Every kind of entry that is not a file, under every name that is looked for.
fn plant_everything(fixture: &Fixture) -> UnixListener {
    fixture.make("acks");
    fixture.fifo("acks/drone-7.acks");
    fixture.fifo("fifo.outhaul");
    fixture.fifo("fifo.slip");
    symlink("/dev/zero", fixture.stick("zero.outhaul")).unwrap();
    symlink(fixture.outside().join("file"), fixture.stick("out.slip")).unwrap();
    symlink(fixture.outside(), fixture.stick("folder")).unwrap();
    symlink(fixture.stick(""), fixture.stick("loop")).unwrap();
    UnixListener::bind(fixture.stick("socket.outhaul")).unwrap()
}

#[test]
fn what_is_no_file_is_named_and_nothing_waits_for_it() {
    let fixture = Fixture::new();
    let _socket = plant_everything(&fixture);
    let words = [
        "drone-7.acks`: it is a FIFO",
        "fifo.outhaul`: it is a FIFO",
        "fifo.slip`: it is a FIFO",
        "zero.outhaul`: it is a symbolic link",
        "out.slip`: it is a symbolic link",
        "socket.outhaul`: it is a socket",
    ];
    assert_reports(&fixture.on_stick("import"), 1, &words);
    for name in ["fifo.outhaul", "zero.outhaul", "socket.outhaul"] {
        let path = fixture.stick(name);
        for command in ["import", "plan"] {
            let printed = fixture.run(&[command, path.to_str().unwrap()]);
            assert_reports(&printed, 3, &[name, "not a regular file", "help:"]);
        }
    }
    let kit = fixture.stick("fifo.slip");
    let printed = fixture.run(&["enrol", kit.to_str().unwrap()]);
    assert_reports(&printed, 3, &["fifo.slip", "a FIFO"]);
    // A good bundle between them is taken.
    fixture.good_bundle();
    assert_reports(&fixture.on_stick("import"), 0, &words);
    assert_eq!(fixture.site.active(), Some(2));
    fixture.assert_untouched();
}

#[test]
fn the_service_ends_when_it_is_asked_to_whatever_the_stick_is() {
    let fixture = Fixture::new();
    let _socket = plant_everything(&fixture);
    symlink(fixture.outside(), fixture.stick("reports")).unwrap();
    let mut service = Service::start(&fixture.site);
    service.wait_for("STATUS=bundle 1 is active");
    assert!(service.terminate().success());
    fixture.assert_untouched();
    let status = fixture.site.status();
    let visit = status["media"].as_array().unwrap().last().unwrap();
    let printed = visit["text"].as_str().unwrap();
    assert!(printed.contains("a FIFO"), "{printed}");
    assert_eq!(visit["busy"], false);
}

#[test]
fn a_name_with_escape_sequences_reaches_no_terminal() {
    let fixture = Fixture::new();
    let name = "\u{1b}]0;owned\u{7}\u{202e}.outhaul";
    fs::write(fixture.stick(name), "no bundle").unwrap();
    fixture.fifo("\u{1b}[2Jx.slip");
    let raw = |text: &str| text.contains(['\u{1b}', '\u{7}', '\u{202e}']);
    let printed = fixture.on_stick("import");
    assert_reports(&printed, 4, &["\\u{1b}]0;owned\\u{7}", "\\u{1b}[2Jx.slip"]);
    assert!(!raw(&stderr(&printed)));
    for output in [fixture.run(&["run", "--once"]), fixture.run(&["status"])] {
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("owned") && !raw(&text), "{text}");
    }
    let printed: Vec<_> = fixture
        .site
        .reports()
        .iter()
        .filter_map(|report| match &report.event {
            ReportEvent::Refusal { source, .. } => Some(source.clone()),
            _ => None,
        })
        .collect();
    assert!(
        !printed.is_empty() && printed.iter().all(|name| !raw(name)),
        "{printed:?}"
    );
}

#[test]
fn a_stick_with_very_many_names_is_looked_at_up_to_a_bound_and_says_so() {
    let fixture = Fixture::new();
    fixture.make("many");
    let first = fixture.stick("many/0.slip");
    fs::write(&first, "").unwrap();
    // Names alone: links to one file, so that no disk is filled.
    for n in 1..2_100 {
        fs::hard_link(&first, fixture.stick(&format!("many/{n}.slip"))).unwrap();
    }
    fixture.good_bundle();
    let printed = fixture.on_stick("import");
    assert_reports(
        &printed,
        0,
        &["it holds more than", "name the folder or file"],
    );
    assert_eq!(fixture.site.active(), Some(2));
    // Each is named here; the hub gets the first ones, and of the rest the number by rule.
    let printed = stderr(&printed);
    assert!(printed.contains("the same rule, `"), "{printed}");
    for n in [0, 7, 1999] {
        assert!(printed.contains(&format!("`{n}.slip`")), "{printed}");
    }
    assert!(printed.lines().count() < 100, "{printed}");
    let reports = fixture.site.reports();
    let refusals: Vec<_> = reports
        .iter()
        .filter_map(|report| match &report.event {
            ReportEvent::Refusal {
                source,
                rule,
                message,
            } => Some((source, rule, message)),
            _ => None,
        })
        .collect();
    assert_eq!(refusals.len(), 17, "{refusals:?}");
    let (source, rule, message) = refusals[16];
    assert_eq!(rule, "more-refused");
    assert!(
        source.ends_with(" more files of the same medium"),
        "{source}"
    );
    assert!(message.contains(" by rule `"), "{message}");
}

/// The attack: each copy has the metadata of a genuine newer bundle, and is refused only when its content is read.
#[test]
fn attack_copies_of_a_genuine_bundle_damaged_late_leave_as_few_reports_as_forgeries() {
    let fixture = Fixture::new();
    let bundle = fixture.centre.publish(&Draft::hello("two"));
    let mut bytes = fs::read(&bundle).unwrap();
    // The last byte of the last blob; after it a tar has zeros only.
    let at = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[at] ^= 1;
    fixture.make("many");
    let first = fixture.stick("many/0.outhaul");
    fs::write(&first, bytes).unwrap();
    for n in 1..40 {
        fs::hard_link(&first, fixture.stick(&format!("many/{n}.outhaul"))).unwrap();
    }
    assert_reports(
        &fixture.on_stick("import"),
        4,
        &["refused 30 more: ", "`39.outhaul`"],
    );
    let reports = fixture.site.reports();
    let refusals = reports.iter().filter_map(|report| match &report.event {
        ReportEvent::Refusal { source, rule, .. } => Some((source.as_str(), rule.as_str())),
        _ => None,
    });
    let refusals: Vec<_> = refusals.collect();
    assert_eq!(refusals.len(), 17, "{refusals:?}");
    assert_eq!(
        refusals[16],
        ("24 more files of the same medium", "more-refused")
    );
    // Beside them the whole one is found, and its copy is not an older one.
    fs::copy(&bundle, fixture.stick("good.outhaul")).unwrap();
    fs::copy(&bundle, fixture.stick("copy.outhaul")).unwrap();
    let printed = fixture.on_stick("import");
    assert_reports(
        &printed,
        0,
        &["bundle 2 is the one that was imported already"],
    );
    assert_eq!(fixture.site.active(), Some(2));
}

/// The attack: a kit that makes a site which can never reach its hub, or proves itself with nothing.
#[test]
fn attack_a_kit_with_no_usable_hub_or_token_is_refused_where_it_can_be_made_again() {
    let fixture = Fixture::new();
    for (url, token, word) in [
        (
            "file:///etc/passwd",
            "a token",
            "the hub's URL in the kit is not",
        ),
        (
            "http://hub.example.org",
            "a token",
            "the hub's URL in the kit is not",
        ),
        (
            "https://user:word@hub.example.org",
            "a token",
            "the hub's URL in the kit is not",
        ),
        ("", " ", "empty token"),
    ] {
        let change = |kit: &mut outhaul_signer::Kit| url.clone_into(&mut kit.hub_url);
        let kit = fixture.centre.kit_with("drone-7", token, change);
        let printed = fixture.run(&["enrol", kit.to_str().unwrap()]);
        assert_reports(&printed, 2, &[word, "`outhaul site enrol` at the centre"]);
    }
}

/// The line of the journal about one stick.
fn line(output: &Output, place: &Path) -> String {
    let printed = stderr(output);
    let of_place = format!("`{}`:", place.display());
    let lines: Vec<_> = printed
        .lines()
        .filter(|line| line.contains(&of_place))
        .collect();
    assert_eq!(lines.len(), 1, "{printed}");
    lines[0].to_owned()
}

#[test]
fn each_stick_leaves_one_line_in_the_journal_and_in_status() {
    let fixture = Fixture::new();
    let sticks = tempfile::tempdir().unwrap();
    let stick = |name: &str, bundle: &Path| {
        let place = sticks.path().join(name);
        fs::create_dir(&place).unwrap();
        fs::copy(bundle, place.join(format!("{name}.outhaul"))).unwrap();
        place
    };
    let old = fixture.centre.publish(&Draft::hello("two"));
    let good = fixture.centre.publish(&Draft::hello("three"));
    let stranger = Centre::new();
    let foreign = stranger.publish(&Draft::hello("four"));
    let whole = fs::read(&good).unwrap();
    let cut = sticks.path().join("cut.part");
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let places = [
        (stick("cut", &cut), "refused"),
        (stick("foreign", &foreign), "refused"),
        (stick("good", &good), "bundle 3 is active"),
        (stick("old", &old), "skipped"),
    ];
    let watched: Vec<_> = places.iter().map(|(place, _)| place).collect();
    fixture.site.configure(&format!("watch = {watched:?}"));
    let output = fixture.run(&["run", "--once"]);
    let status = fixture.site.status();
    let media = status["media"].as_array().unwrap();
    for (place, what) in &places {
        let shown = place.to_str().unwrap();
        let visit = media.iter().find(|visit| visit["place"] == shown).unwrap();
        let line = line(&output, place);
        for printed in [line.as_str(), visit["text"].as_str().unwrap()] {
            assert!(printed.contains(what), "{printed}");
            assert!(printed.ends_with("it is safe to remove now"), "{printed}");
        }
    }
    // Refusals are in `status`, too, after their reports have left; that of a copy of the bundle that runs by now is over.
    let refusals = status["refusals"].as_array().unwrap();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    let shown = fixture.run(&["status"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("refused: `foreign.outhaul`"), "{shown}");
}

/// What a stick may be called by whoever wrote it: bytes that are no text, and what acts on a terminal.
const NO_TEXT: &[u8] = b"\x1b[31m\nd\xff";

#[test]
fn a_folder_whose_name_is_no_text_is_named_with_signs_in_its_place() {
    use std::os::unix::ffi::OsStrExt as _;
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let stick = tempfile::tempdir().unwrap();
    let folder = stick.path().join(std::ffi::OsStr::from_bytes(NO_TEXT));
    fs::create_dir(&folder).unwrap();
    let bundle = centre.publish(&Draft::hello("one"));
    fs::copy(&bundle, folder.join("drone-1.outhaul")).unwrap();
    for command in ["plan", "import", "import"] {
        let mut typed = site.command(&[command]);
        let done = typed.arg(stick.path()).checked().unwrap();
        assert_eq!(code(&done), 0, "{}", stderr(&done));
        let printed = format!("{}{}", stdout(&done), stderr(&done));
        assert!(!printed.contains('\u{1b}'), "{printed:?}");
    }
    assert_eq!(site.active(), Some(1));
    let mut typed = site.command(&["export"]);
    let done = typed.arg(&folder).checked().unwrap();
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    let json: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap_or_default();
    let printed = format!("{json}{}{}", stdout(&done), stderr(&done));
    assert!(!printed.contains('\u{1b}'), "{printed:?}");
}

#[test]
fn what_somebody_put_into_the_state_folder_is_named_and_nothing_else_is_removed() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let generations = site.state().join("generations");
    // Another name is nobody's generation.
    fs::create_dir_all(generations.join("lost+found/keep")).unwrap();
    fs::write(generations.join("readme"), "mine").unwrap();
    fs::write(generations.join("2"), "in the way").unwrap();
    site.take(&centre.publish(&Draft::hello("two")));
    assert!(generations.join("lost+found/keep").is_dir() && generations.join("readme").is_file());
    // A link leads elsewhere, and a FIFO keeps whoever opens it waiting.
    let elsewhere = tempfile::tempdir().unwrap();
    fs::create_dir_all(elsewhere.path().join("7/precious")).unwrap();
    let aside = site.state().join("aside");
    fs::rename(&generations, &aside).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), &generations).unwrap();
    let three = centre.publish(&Draft::hello("three"));
    let words = ["it is a symbolic link, not the agent's own file or folder"];
    assert_reports(&site.import(&three), 3, &words);
    assert!(elsewhere.path().join("7/precious").is_dir());
    fs::remove_file(&generations).unwrap();
    fs::rename(&aside, &generations).unwrap();
    let pulled = site.state().join("pulled.json");
    assert!(
        Command::new("mkfifo")
            .arg(&pulled)
            .status()
            .unwrap()
            .success()
    );
    for arguments in [&["status"][..], &["import", three.to_str().unwrap()]] {
        assert_reports(
            &site.run(arguments),
            3,
            &["it is a FIFO, not the agent's own"],
        );
    }
    fs::remove_file(pulled).unwrap();
    site.take(&three);
}
