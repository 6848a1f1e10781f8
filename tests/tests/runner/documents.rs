//! What the documents tell people to type, typed; and what they say that it prints.
//!
//! What comes in: a page of `docs/`. Its blocks marked `sh` are run in order, each as one script; `in=NAME`
//! behind the mark is the machine, a separate folder with nothing in common with the others but the stick,
//! `exit=N` the expected exit code, `background` means a second terminal. Each block marked `text` must be
//! what the block before it printed, line by line; `…` stands for lines left out, and digests, keys and dates
//! may differ. What a page was shown to print it may type later: a fingerprint in a command becomes the one
//! that this run printed in its place. What goes out: a verdict.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use outhaul_tests::{Ran, program, run_script, workspace_root};

use super::system::SystemFixture;

/// What is in the documents where this test has something else.
const PORT: &str = "8420";
const FOLDER: &str = "~/tutorial";
const STICK: &str = "/media/stick";
const STATES: &str = "/var/lib/";

enum Block {
    Typed {
        code: i32,
        machine: String,
        script: String,
    },
    Background(String),
    Printed(Vec<String>),
}

fn blocks(page: &str) -> Vec<Block> {
    let text = std::fs::read_to_string(workspace_root().join("docs").join(page)).unwrap();
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(mark) = line.strip_prefix("```") else {
            continue;
        };
        let body: Vec<String> = lines
            .by_ref()
            .take_while(|line| *line != "```")
            .map(str::to_owned)
            .collect();
        let mut words = mark.split(' ');
        match words.next() {
            Some("sh") => {
                let rest: Vec<&str> = words.collect();
                let script = body.join("\n");
                if rest.contains(&"background") {
                    found.push(Block::Background(script));
                    continue;
                }
                let value = |name: &str| rest.iter().find_map(|word| word.strip_prefix(name));
                let code = value("exit=").map_or(0, |code| code.parse().unwrap());
                let machine = value("in=").unwrap_or_default().to_owned();
                found.push(Block::Typed {
                    code,
                    machine,
                    script,
                });
            }
            Some("text") => found.push(Block::Printed(body)),
            _ => {}
        }
    }
    found
}

/// A word's parts, each with what ends it.
fn parts(word: &str) -> impl Iterator<Item = (&str, &str)> {
    word.split_inclusive(|c: char| !c.is_ascii_alphanumeric())
        .map(|part| {
            let end = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            part.split_at(end.len())
        })
}

fn is_digest(part: &str) -> bool {
    let hex = |b: u8| b.is_ascii_hexdigit() && !b.is_ascii_uppercase();
    part.len() >= 7 && part.bytes().all(hex) || part.starts_with("age1") && part.len() > 40
}

/// Words that two runs may print differently, made equal; columns may be of other widths.
fn normal(line: &str) -> String {
    let is_date = |word: &str| {
        let word = word.trim_start_matches('(');
        word.len() >= 20 && word.get(4..5) == Some("-") && word.contains('Z')
    };
    let is_number = |part: &str| part.len() >= 4 && part.bytes().all(|b| b.is_ascii_digit());
    let word = |word: &str| {
        if is_date(word) {
            return "#".to_owned();
        }
        let mut made = String::new();
        for (part, end) in parts(word) {
            let differs = is_digest(part) || is_number(part);
            made.push_str(if differs { "#" } else { part });
            made.push_str(end);
        }
        made
    };
    line.split_whitespace()
        .map(word)
        .collect::<Vec<_>>()
        .join(" ")
}

/// What this run printed where the page has a digest, fingerprint or key.
#[derive(Default)]
struct Learnt(BTreeMap<String, String>);

impl Learnt {
    fn learn(&mut self, reported: &str, printed: &str) {
        for (reported, printed) in reported.split_whitespace().zip(printed.split_whitespace()) {
            for ((reported, _), (printed, _)) in parts(reported).zip(parts(printed)) {
                if is_digest(reported) && reported.len() == printed.len() {
                    let known = self.0.entry(reported.to_owned());
                    known.or_insert_with(|| printed.to_owned());
                }
            }
        }
    }

    /// A script with this run's digests in place of the page's; a beginning stands for the whole.
    fn apply(&self, script: &str) -> String {
        let mut made = String::new();
        for (part, end) in parts(script) {
            let whole = is_digest(part)
                .then(|| {
                    self.0
                        .iter()
                        .find(|(reported, _)| reported.starts_with(part))
                })
                .flatten();
            made.push_str(whole.map_or(part, |(_, printed)| &printed[..part.len()]));
            made.push_str(end);
        }
        made
    }
}

/// The lines of the document stand in what was printed, in order; nothing is left out but at `…`.
fn compare(page: &str, printed: &str, reported: &[String], learnt: &mut Learnt) {
    let lines: Vec<&str> = printed.trim_end().lines().collect();
    let printed: Vec<String> = lines.iter().map(|line| normal(line)).collect();
    let mut at = 0;
    let mut may_skip = false;
    for line in reported {
        if line.trim() == "…" {
            may_skip = true;
            continue;
        }
        let wanted = normal(line);
        let found = printed[at..].iter().position(|line| *line == wanted);
        match found {
            Some(skipped) if may_skip || skipped == 0 => at += skipped + 1,
            _ => panic!(
                "{page}: not printed here: `{line}`\nprinted:\n{}",
                lines[at..].join("\n")
            ),
        }
        learnt.learn(line, lines[at - 1]);
        may_skip = false;
    }
    assert!(
        may_skip || at == printed.len(),
        "{page}: more was printed:\n{}",
        lines[at..].join("\n")
    );
}

/// The `console` blocks of a page: what was typed behind `$ ` or `# `, and what it printed.
fn consoles(page: &str) -> Vec<(String, Vec<String>)> {
    let text = std::fs::read_to_string(workspace_root().join("docs").join(page)).unwrap();
    let blocks = text.split("\n```console\n").skip(1);
    blocks
        .map(|block| {
            let mut lines = block.lines().take_while(|line| *line != "```");
            let typed = lines.next().unwrap()[2..].to_owned();
            (typed, lines.map(str::to_owned).collect())
        })
        .collect()
}

/// Compares what was printed with what a page has below the command that begins with `typed`.
pub fn is_printed_in(page: &str, typed: &str, printed: &str) {
    let blocks = consoles(page);
    let block = blocks
        .iter()
        .find(|(command, _)| command.starts_with(typed));
    let (_, reported) = block.unwrap_or_else(|| panic!("{page} has no block for `{typed}`"));
    compare(page, printed, reported, &mut Learnt::default());
}

struct Ending(Vec<Child>);

impl Drop for Ending {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The folder in which pages are typed, and the names that pages have for what is in it.
struct Desk {
    fixture: SystemFixture,
    folder: PathBuf,
    port: String,
}

impl Desk {
    fn new() -> Self {
        let fixture = SystemFixture::new();
        std::fs::create_dir(fixture.path("tutorial")).unwrap();
        let folder = fixture.path("tutorial").canonicalize().unwrap();
        let port = outhaul_tests::ports::free_port().unwrap();
        Self {
            fixture,
            folder,
            port: port.to_string(),
        }
    }

    fn names(&self, machine: &str) -> [(&'static str, String); 3] {
        let states = self.folder.join(machine).join("var/lib");
        [
            (STATES, format!("{}/", states.display())),
            (STICK, self.folder.join("stick").display().to_string()),
            (PORT, self.port.clone()),
        ]
    }

    fn here(&self, machine: &str, script: &str) -> String {
        let names = self.names(machine);
        names.iter().fold(script.to_owned(), |text, (page, own)| {
            text.replace(page, own)
        })
    }

    fn there(&self, machine: &str, printed: &str) -> String {
        let names = self.names(machine);
        let text = names.iter().fold(printed.to_owned(), |text, (page, own)| {
            text.replace(own, page)
        });
        text.replace(&*self.folder.to_string_lossy(), FOLDER)
    }

    fn shell(&self, machine: &str, script: &str) -> std::process::Command {
        let programs = program("outhaul").unwrap();
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", programs.parent().unwrap().display());
        let own = self.folder.join(machine);
        std::fs::create_dir_all(&own).unwrap();
        if !machine.is_empty() {
            std::fs::create_dir_all(self.folder.join("stick")).unwrap();
            // As every machine has it.
            std::fs::create_dir_all(own.join("var/lib")).unwrap();
        }
        let mut shell = self.fixture.command(Path::new("sh"));
        shell.arg("-c").arg(script).env("PATH", path);
        if !machine.is_empty() {
            shell
                .env("HOME", &own)
                .env("XDG_CACHE_HOME", own.join(".cache"))
                .env("OUTHAUL_STATE", own.join("var/lib/outhaul-agent"))
                .env("OUTHAUL_HUB_STATE", own.join("var/lib/outhaul-hub"));
        }
        shell.current_dir(own);
        shell
    }
}

/// Types pages, one after the other. Returns how many blocks they had.
fn typed(pages: &[&str]) -> usize {
    typed_at(&Desk::new(), pages)
}

/// Waits until the clock shows another second: signed times are whole seconds, and no person types two
/// commands that sign within one.
fn next_second() {
    let second = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let began = second();
    while second() == began {
        std::thread::yield_now();
    }
}

fn typed_at(desk: &Desk, pages: &[&str]) -> usize {
    let mut ending = Ending(Vec::new());
    let mut count = 0;
    for page in pages {
        let mut printed = String::new();
        let mut learnt = Learnt::default();
        let blocks = blocks(page);
        count += blocks.len();
        for block in &blocks {
            match block {
                Block::Typed {
                    code,
                    machine,
                    script,
                } => {
                    if script.contains("outhaul bundle") {
                        next_second();
                    }
                    let script = learnt.apply(&desk.here(machine, script));
                    let script = format!("exec 2>&1\nset -eu\n{script}\n");
                    let ran: Ran = run_script(&mut desk.shell(machine, &script)).unwrap();
                    assert_eq!(
                        ran.code,
                        Some(*code),
                        "{page}: {script}\n{}",
                        ran.everything()
                    );
                    printed = desk.there(machine, &ran.stdout);
                }
                Block::Background(script) => {
                    let script = format!("exec {}", desk.here("", script));
                    let mut child = desk
                        .shell("", &script)
                        .stdout(Stdio::piped())
                        .stderr(Stdio::null())
                        .spawn()
                        .unwrap();
                    // It prints its address when it is ready, and nothing before.
                    let out = child.stdout.take().unwrap();
                    let mut line = String::new();
                    let mut out = std::io::BufReader::new(out);
                    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
                    assert!(!line.is_empty(), "{page}: {script} does not start");
                    ending.0.push(child);
                }
                Block::Printed(reported) => compare(page, &printed, reported, &mut learnt),
            }
        }
    }
    count
}

#[test]
fn the_tutorial_prints_what_it_says() {
    assert!(typed(&["tutorial.md"]) > 30);
}

#[test]
fn the_application_teams_page_prints_what_it_says() {
    assert!(typed(&["application-team.md"]) > 10);
}

#[test]
fn the_platform_engineers_page_prints_what_it_says() {
    assert!(typed(&["platform-engineer.md"]) > 8);
}

const FIRST: &str = "runbooks/first-ceremony.md";

#[test]
fn runbook_first_ceremony() {
    assert!(typed(&[FIRST]) > 15);
}

#[test]
fn runbook_rotation() {
    assert!(typed(&[FIRST, "runbooks/rotation.md"]) > 60);
}

#[test]
fn runbook_theft() {
    assert!(typed(&[FIRST, "runbooks/theft.md"]) > 40);
}

#[test]
fn runbook_countersigning() {
    assert!(typed(&[FIRST, "runbooks/countersigning.md"]) > 25);
}

#[test]
fn runbook_site_replaced() {
    assert!(typed(&[FIRST, "runbooks/site-replaced.md"]) > 20);
}

#[test]
fn runbook_site_restored() {
    assert!(typed(&[FIRST, "runbooks/site-restored.md"]) > 20);
}

#[test]
fn runbook_centre_restored() {
    assert!(typed(&[FIRST, "runbooks/centre-restored.md"]) > 20);
}

#[test]
fn runbook_hub_lost() {
    assert!(typed(&[FIRST, "runbooks/hub-lost.md"]) > 20);
}

#[test]
fn runbook_stick_lost() {
    assert!(typed(&[FIRST, "runbooks/stick-lost.md"]) > 20);
}

#[test]
fn the_operators_page_works_as_typed() {
    let desk = Desk::new();
    typed_at(&desk, &[FIRST]);
    let kit = "outhaul site enrol press-7 --fleet fleet --environment dev --cluster-type edge \
               --out ../press-7-again/press-7.kit --again";
    std::fs::create_dir(desk.folder.join("press-7-again")).unwrap();
    let made = run_script(&mut desk.shell("centre", kit)).unwrap();
    assert_eq!(made.code, Some(0), "{}", made.everything());
    typed_at(&desk, &["operator.md"]);
}

/// A page that nobody types is a page that nobody knows to be true.
#[test]
fn every_runbook_is_typed_by_a_test() {
    let own = concat!(include_str!("documents.rs"), include_str!("first_stick.rs"));
    let folder = workspace_root().join("docs/runbooks");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "README.md" {
            let named = own.contains(&format!("runbooks/{name}"));
            assert!(named, "{name} is typed by no test");
        }
    }
}

#[test]
fn a_digest_in_a_command_is_the_one_that_this_run_printed() {
    let mut learnt = Learnt::default();
    let reported = ["fingerprint: 0123456789abcdef".to_owned()];
    compare(
        "a page",
        "fingerprint: fedcba9876543210",
        &reported,
        &mut learnt,
    );
    assert_eq!(
        learnt.apply("add --fingerprint 0123456789ab x-0123456789abcdef.pem aaaaaaaa"),
        "add --fingerprint fedcba987654 x-fedcba9876543210.pem aaaaaaaa"
    );
    let other = ["fingerprint: none".to_owned()];
    let compared = std::panic::catch_unwind(|| {
        compare("a page", "fingerprint: ff", &other, &mut Learnt::default());
    });
    assert!(compared.is_err());
}
