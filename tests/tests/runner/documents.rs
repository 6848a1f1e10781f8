//! What the documents tell people to type, typed; and what they say that it prints.
//!
//! What comes in: a page of `docs/`. Its blocks marked `sh` are run in order in one folder, each as one
//! script; `exit=N` behind the mark is the expected exit code, `background` means a second terminal. Each
//! block marked `text` must be what the block before it printed, line by line; `…` stands for lines left out,
//! and digests, keys and dates may differ. What goes out: a verdict.

use std::path::Path;
use std::process::{Child, Stdio};

use outhaul_tests::{Ran, program, run, workspace_root};

use super::scene::Scene;

/// What is in the documents where this test has something else.
const PORT: &str = "8420";
const FOLDER: &str = "~/tutorial";

enum Block {
    Typed { code: i32, script: String },
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
                let code = rest.iter().find_map(|word| word.strip_prefix("exit="));
                let code = code.map_or(0, |code| code.parse().unwrap());
                found.push(Block::Typed { code, script });
            }
            Some("text") => found.push(Block::Printed(body)),
            _ => {}
        }
    }
    found
}

/// Words that two runs may print differently, made equal; columns may be of other widths.
fn normal(line: &str) -> String {
    let is_date =
        |word: &str| word.len() >= 20 && word.get(4..5) == Some("-") && word.contains('Z');
    let differs = |part: &str| {
        let hex = part.len() >= 7
            && part
                .bytes()
                .all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase());
        let number = part.len() >= 4 && part.bytes().all(|b| b.is_ascii_digit());
        hex || number || part.starts_with("age1") && part.len() > 40
    };
    let word = |word: &str| {
        if is_date(word) {
            return "#".to_owned();
        }
        let mut made = String::new();
        for part in word.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
            let end = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            made.push_str(if differs(end) { "#" } else { end });
            made.push_str(&part[end.len()..]);
        }
        made
    };
    line.split_whitespace()
        .map(word)
        .collect::<Vec<_>>()
        .join(" ")
}

/// The lines of the document stand in what was printed, in order; nothing is left out but at `…`.
fn compare(page: &str, printed: &str, told: &[String]) {
    let printed: Vec<String> = printed.trim_end().lines().map(normal).collect();
    let mut at = 0;
    let mut may_skip = false;
    for line in told {
        if line.trim() == "…" {
            may_skip = true;
            continue;
        }
        let wanted = normal(line);
        let found = printed[at..].iter().position(|line| *line == wanted);
        match found {
            Some(0) => at += 1,
            Some(skipped) if may_skip => at += skipped + 1,
            _ => panic!(
                "{page}: not printed here: `{line}`\nprinted:\n{}",
                printed[at..].join("\n")
            ),
        }
        may_skip = false;
    }
    assert!(
        may_skip || at == printed.len(),
        "{page}: more was printed:\n{}",
        printed[at..].join("\n")
    );
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

fn shell(scene: &Scene, script: &str) -> std::process::Command {
    let programs = program("outhaul").unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", programs.parent().unwrap().display());
    let mut shell = scene.command(Path::new("sh"));
    shell.arg("-c").arg(script).env("PATH", path);
    shell.current_dir(scene.path("tutorial"));
    shell
}

/// Types a page. Returns how many blocks it had.
fn typed(page: &str) -> usize {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("tutorial")).unwrap();
    let folder = scene.path("tutorial").canonicalize().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let here = |script: &str| script.replace(PORT, &port.to_string());
    let mut ending = Ending(Vec::new());
    let mut printed = String::new();
    let blocks = blocks(page);
    for block in &blocks {
        match block {
            Block::Typed { code, script } => {
                let script = format!("exec 2>&1\nset -eu\n{}\n", here(script));
                let ran: Ran = run(&mut shell(&scene, &script)).unwrap();
                assert_eq!(
                    ran.code,
                    Some(*code),
                    "{page}: {script}\n{}",
                    ran.everything()
                );
                let text = ran.stdout.replace(&*folder.to_string_lossy(), FOLDER);
                printed = text.replace(&port.to_string(), PORT);
            }
            Block::Background(script) => {
                let mut shell = shell(&scene, &format!("exec {}", here(script)));
                let mut child = shell
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap();
                // It prints its address when it is ready, and nothing before.
                let out = child.stdout.take().unwrap();
                let mut line = String::new();
                std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
                assert!(!line.is_empty(), "{page}: {script} does not start");
                ending.0.push(child);
            }
            Block::Printed(told) => compare(page, &printed, told),
        }
    }
    blocks.len()
}

#[test]
fn the_tutorial_prints_what_it_says() {
    assert!(typed("tutorial.md") > 30);
}

#[test]
fn the_application_teams_page_prints_what_it_says() {
    assert!(typed("application-team.md") > 10);
}
