//! `--output json` of every command: one envelope on standard output, on success and on failure.
//!
//! What comes in: the commands of all programs, from their own help. What must come out: for each a line in
//! the table below that works and one that fails, both with one envelope that says what the exit code says.
//! A command that is not in the table fails the test.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use outhaul_test_kit::folder;
use outhaul_tests::{Ran, envelope, program};
use serde_json::Value;

use super::system::SystemFixture;

mod elsewhere;
mod signer;
mod table;

use elsewhere::ELSEWHERE;
use signer::SIGNER;
use table::TABLE;

const PROGRAMS: [&str; 4] = ["outhaul", "outhaul-agent", "outhaul-hub", "outhaul-signer"];

/// Commands that do something: those without subcommands, as typed.
fn commands(fixture: &SystemFixture, name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![name.to_owned()];
    while let Some(command) = waiting.pop() {
        let help = typed(fixture, &format!("{command} --help"), "");
        assert_eq!(help.code, Some(0), "{command}: {}", help.everything());
        let listed = help.stdout.split("\nCommands:\n").nth(1);
        let listed = listed
            .into_iter()
            .filter_map(|rest| rest.split("\n\n").next());
        let names: Vec<&str> = listed
            .flat_map(str::lines)
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help")
            .collect();
        if names.is_empty() {
            assert!(
                help.stdout.contains("--output <"),
                "{command} has no `--output`: {}",
                help.stdout
            );
            found.insert(command);
        } else {
            // The one command whose argument comes before its subcommands.
            let folder = if command == "outhaul-signer root" {
                " third"
            } else {
                ""
            };
            waiting.extend(names.iter().map(|name| format!("{command}{folder} {name}")));
        }
    }
    found
}

/// Types a line in the scene's folder, with `input` on standard input.
fn typed(fixture: &SystemFixture, line: &str, input: &str) -> Ran {
    let mut words = line.split_whitespace();
    let mut command = fixture.command(&program(words.next().unwrap()).unwrap());
    command
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Who reads nothing may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[track_caller]
fn checked(fixture: &SystemFixture, line: &str, input: &str) -> (Ran, Value) {
    let ran = typed(fixture, &format!("{line} --output json"), input);
    match envelope(&ran.stdout, ran.code) {
        Ok(envelope) => (ran, envelope),
        Err(error) => panic!("{line}: {error}\n{}", ran.everything()),
    }
}

#[test]
fn what_cannot_be_parsed_has_an_envelope_in_every_command() {
    let fixture = SystemFixture::new();
    for name in PROGRAMS {
        let all = commands(&fixture, name);
        assert!(all.len() >= 10, "{all:?}");
        for command in all.iter().map(String::as_str).chain([name]) {
            let (ran, envelope) = checked(&fixture, &format!("{command} --no-such-option"), "");
            assert_eq!(ran.code, Some(2), "{command}: {}", ran.everything());
            assert_eq!(envelope["command"], command.replace(" third", ""));
            let error = &envelope["errors"][0];
            assert_eq!(error["kind"], "usage", "{command}: {envelope}");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("--no-such-option"), "{command}: {message}");
            assert!(
                ran.stderr.contains("--no-such-option"),
                "{}",
                ran.everything()
            );
        }
    }
}

#[test]
fn findings_are_where_the_text_says() {
    let fixture = SystemFixture::new();
    fixture.run("outhaul", 0, &["init", "cp", "--environments", "dev"]);
    fixture.on_branch("cp", "dev", |folder| {
        fs::write(folder.join("scheduling/x.yaml"), "kind: SchedulingPolicy\n").unwrap();
    });
    for command in ["check", "render --out out", "schedule"] {
        let line = format!("outhaul {command} --environment dev --control-plane cp");
        let (_, envelope) = checked(&fixture, &line, "");
        let text = typed(&fixture, &line, "");
        let text = text.stdout + &text.stderr;
        let findings = envelope["findings"].as_array().unwrap();
        assert!(!findings.is_empty(), "{command}: {envelope}");
        for finding in findings
            .iter()
            .filter(|finding| !finding["location"].is_null())
        {
            let at = &finding["location"];
            let place = format!(
                "{}:{}:{}",
                at["file"].as_str().unwrap(),
                at["line"],
                at["column"]
            );
            assert!(text.contains(&place), "{command}: {place} is not in {text}");
        }
    }
}

/// What a command gets; in the order in which it is typed.
struct Case {
    command: &'static str,
    /// Arguments with which it does something; `None` shows why not here.
    works: Result<&'static str, &'static str>,
    /// What is on standard input then.
    input: &'static str,
    /// Arguments with which it fails.
    fails: &'static str,
}

const fn case(command: &'static str, works: &'static str, fails: &'static str) -> Case {
    Case {
        command,
        works: Ok(works),
        input: "",
        fails,
    }
}

const fn not_here(command: &'static str, why: &'static str, fails: &'static str) -> Case {
    Case {
        command,
        works: Err(why),
        input: "",
        fails,
    }
}

#[test]
fn every_command_has_one_envelope_when_it_works_and_when_it_fails() {
    let fixture = SystemFixture::new();
    fixture.run(
        "outhaul",
        0,
        &["init", "control-plane", "--environments", "dev"],
    );
    fixture.fleet();
    fixture.site("edge-1", "dev", "edge");
    fixture.bundle("dev");
    prepare(&fixture);
    let listed: BTreeSet<String> = TABLE
        .iter()
        .chain(SIGNER)
        .chain(ELSEWHERE)
        .map(|case| case.command.to_owned())
        .collect();
    let known: BTreeSet<String> = PROGRAMS
        .iter()
        .flat_map(|name| commands(&fixture, name))
        // It takes files, and has a command below it as well.
        .chain(["outhaul-hub import".to_owned()])
        .collect();
    assert_eq!(listed, known, "each command has a line in the table");
    for case in TABLE.iter().chain(SIGNER).chain(ELSEWHERE) {
        if let Ok(arguments) = case.works {
            let line = format!("{} {arguments}", case.command);
            let (ran, envelope) = checked(&fixture, &line, case.input);
            // Some say by their exit code what they found.
            assert!(
                matches!(ran.code, Some(0 | 1)),
                "{line}: {}",
                ran.everything()
            );
            assert!(
                ran.code == Some(1) || envelope["errors"] == Value::Array(Vec::new()),
                "{line}: {envelope}"
            );
            assert!(
                !envelope["result"].is_null(),
                "{line}: {envelope}\n{}",
                ran.stderr
            );
            assert_eq!(envelope["command"], case.command.replace(" third", ""));
        }
        let line = format!("{} {}", case.command, case.fails);
        let (ran, envelope) = checked(&fixture, &line, "");
        assert!(
            !matches!(ran.code, None | Some(0)),
            "{line}: {}",
            ran.everything()
        );
        let said = envelope["errors"].as_array().unwrap().len();
        let found = envelope["findings"].as_array().unwrap().len();
        assert!(said + found > 0, "{line}: {envelope}");
        for error in envelope["errors"].as_array().unwrap() {
            let first = error["message"].as_str().unwrap().lines().next().unwrap();
            let reported = ran.stderr.contains(first) || first.contains("see `findings`");
            assert!(reported, "{line}: `{first}` is not in {}", ran.stderr);
        }
    }
}

/// Types a line into pipes that nobody reads: standard output, or both.
fn unread(fixture: &SystemFixture, line: &str, input: &str, both: bool) -> Option<i32> {
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    let mut words = line.split_whitespace();
    let mut command = fixture.command(&program(words.next().unwrap()).unwrap());
    command.args(words).stdin(Stdio::piped()).stdout(closed());
    command.stderr(if both { closed() } else { Stdio::null() });
    let mut child = command.spawn().unwrap();
    // Who reads nothing may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait().unwrap().code()
}

#[test]
fn no_command_minds_that_nobody_reads_what_it_prints() {
    let fixture = SystemFixture::new();
    let init = ["init", "control-plane", "--environments", "dev"];
    fixture.run("outhaul", 0, &init);
    fixture.fleet();
    fixture.site("edge-1", "dev", "edge");
    fixture.bundle("dev");
    prepare(&fixture);
    for (at, case) in TABLE.iter().chain(SIGNER).chain(ELSEWHERE).enumerate() {
        let json = if at % 3 == 0 { " --output json" } else { "" };
        if let Ok(arguments) = case.works {
            let line = format!("{} {arguments}{json}", case.command);
            let code = unread(&fixture, &line, case.input, at % 2 == 0);
            // A panic is 101, an abort none; some say by their exit code what they found.
            assert!(matches!(code, Some(0 | 1)), "{line}: {code:?}");
        }
        let line = format!("{} {}{json}", case.command, case.fails);
        let code = unread(&fixture, &line, "", at % 2 == 1);
        assert!(matches!(code, Some(1..=5)), "{line}: {code:?}");
        let line = format!("{} --help", case.command);
        assert_eq!(unread(&fixture, &line, "", true), Some(0), "{line}");
    }
}

/// What the lines of the table need beside the scene.
fn prepare(fixture: &SystemFixture) {
    fs::write(fixture.path("recipients"), "").unwrap();
    let alerts = "destinations:\n- name: on-call\n  webhook: {url: 'http://127.0.0.1:9/'}\n";
    fs::write(fixture.path("alerts.yaml"), alerts).unwrap();
    let advisory = r#"{"id":"DSA-1","modified":"","withdrawn":"2026-01-01T00:00:00Z"}"#;
    fs::write(fixture.path("advisory.json"), advisory).unwrap();
    folder::copy(&fixture.path("control-plane"), &fixture.path("copy"));
    fixture.git("copy", &["checkout", "--quiet", "main"]);
    folder::copy(&fixture.path("copy"), &fixture.path("on-dev"));
    fixture.git("on-dev", &["checkout", "--quiet", "dev"]);
    fs::create_dir(fixture.path("app")).unwrap();
    fixture.git("app", &["init", "--quiet", "--initial-branch=main"]);
    fixture.git(
        "app",
        &["commit", "--quiet", "--allow-empty", "-m", "nothing"],
    );
    fs::create_dir(fixture.path("www")).unwrap();
    fs::create_dir(fixture.path("platform.git")).unwrap();
    fixture.git("platform.git", &["init", "--quiet", "--bare"]);
    let serve = format!(
        "state = \"{0}/serve\"\ncontrol_plane = \"{0}/control-plane\"\n\n[[environment]]\nname = \"dev\"\n\
         bundle = {{ fleet = \"{0}/fleet\", passphrase_file = \"{0}/passphrase\", out = \"{0}/served\" }}\n",
        fixture.path("").display().to_string().trim_end_matches('/')
    );
    fs::write(fixture.path("serve.toml"), serve).unwrap();
}
