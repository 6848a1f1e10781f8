//! Man pages, completions, and the examples of every `--help`.
//!
//! What comes in: the command lines of the programs. What must come out: pages and scripts that the
//! tools which read them accept, and for each subcommand an example that its own program takes.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command as Process;

use clap::Command;
use clap::error::ErrorKind;
use outhaul_manuals::{programs, write};
use outhaul_tests::available;

/// The files of `folder` with an ending.
fn files(folder: &Path, is_one: impl Fn(&str) -> bool) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths
        .filter(|path| is_one(path.file_name().unwrap().to_str().unwrap()))
        .collect();
    paths.sort();
    paths
}

#[test]
fn every_program_has_pages_and_completions_that_are_read_without_complaint() {
    let folder = tempfile::tempdir().unwrap();
    let written = write(folder.path()).unwrap();
    let (pages, completions) = (
        folder.path().join("man1"),
        folder.path().join("completions"),
    );
    for program in ["outhaul", "outhaul-agent", "outhaul-hub", "outhaul-signer"] {
        let page = std::fs::read_to_string(pages.join(format!("{program}.1"))).unwrap();
        assert!(page.contains("SYNOPSIS"), "{page}");
        for script in [
            format!("{program}.bash"),
            format!("_{program}"),
            format!("{program}.fish"),
        ] {
            assert!(completions.join(&script).is_file(), "{script}");
        }
    }
    assert!(pages.join("outhaul-site-enrol.1").is_file());
    assert!(written > 60, "{written}");
    for script in files(&completions, |name| name.ends_with(".bash")) {
        let read = Process::new("bash")
            .arg("-n")
            .arg(&script)
            .output()
            .unwrap();
        assert!(read.status.success(), "{script:?}: {read:?}");
    }
    for (shell, ending) in [("zsh", "_"), ("fish", ".fish")] {
        // Only bash is everywhere; the others read theirs where they are installed.
        if !available(shell) {
            continue;
        }
        for script in files(&completions, |name| name.contains(ending)) {
            let read = Process::new(shell).arg("-n").arg(&script).output().unwrap();
            assert!(read.status.success(), "{script:?}: {read:?}");
        }
    }
    if available("groff") {
        for page in files(&pages, |name| name.ends_with(".1")) {
            let read = Process::new("groff")
                .args(["-Kutf8", "-man", "-Tutf8", "-ww", "-Wbreak", "-z"])
                .arg(&page)
                .output()
                .unwrap();
            let complaints = String::from_utf8_lossy(&read.stderr);
            assert!(
                read.status.success() && complaints.is_empty(),
                "{page:?}: {complaints}"
            );
        }
    }
}

/// What a person would paste: the words of each simple command of a line, as a shell takes it apart.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut chars = line.chars().peekable();
    let mut skip_next = false;
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                while let Some(inner) = chars.next() {
                    match inner {
                        _ if inner == c => break,
                        '\\' if c == '"' => word.extend(chars.next()),
                        _ => word.push(inner),
                    }
                }
            }
            '$' if chars.peek() == Some(&'(') => {
                let inner: String = chars.by_ref().skip(1).take_while(|c| *c != ')').collect();
                all.splice(0..0, commands(&inner));
                word.get_or_insert_default()
                    .push_str(&"0123456789".repeat(4));
            }
            ' ' | '\n' | ';' | '|' | '&' | '>' | '<' | '(' | ')' => {
                if let Some(word) = word.take()
                    && !std::mem::take(&mut skip_next)
                {
                    all.last_mut().unwrap().push(word);
                }
                match c {
                    ' ' => {}
                    '>' | '<' => skip_next = true,
                    _ => all.push(Vec::new()),
                }
            }
            '#' if word.is_none() => break,
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c => word.get_or_insert_default().push(c),
        }
    }
    if let Some(word) = word
        && !skip_next
    {
        all.last_mut().unwrap().push(word);
    }
    all.retain(|words| !words.is_empty());
    all
}

/// The lines of a help text that are commands.
fn examples(help: &str) -> Vec<String> {
    let mut found = Vec::new();
    let help = help.replace("\\\n", " ");
    for line in help.lines() {
        let typed = line.trim().trim_start_matches("$ ");
        let begins = |text: &str| {
            text.starts_with("outhaul") || text.contains("| outhaul") || text.contains("; outhaul")
        };
        if line.starts_with("  ") && begins(typed) {
            found.push(typed.to_owned());
        }
    }
    for part in help.split("Example: `").skip(1) {
        let end = part.find('`').expect("a closing `");
        found.push(part[..end].replace('\n', " "));
    }
    found
}

/// Checks the examples of one subcommand and of those below it.
fn walk(command: &Command, path: &[String], problems: &mut String) {
    let texts = [
        command.get_after_help(),
        command.get_after_long_help(),
        command.get_about(),
        command.get_long_about(),
    ];
    let texts: Vec<String> = texts
        .into_iter()
        .flatten()
        .map(ToString::to_string)
        .collect();
    let mut typed: Vec<String> = texts.iter().flat_map(|text| examples(text)).collect();
    typed.sort();
    typed.dedup();
    let mut own = false;
    for line in &typed {
        for words in commands(line) {
            let Some(program) = programs()
                .into_iter()
                .find(|one| one.get_name() == words[0])
            else {
                continue;
            };
            let below: Vec<&String> = words.iter().filter(|word| path.contains(*word)).collect();
            own |= path.iter().all(|step| below.contains(&step));
            match program.try_get_matches_from(&words) {
                Ok(_) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
                    ) => {}
                Err(error) => {
                    let first = error.to_string();
                    let first = first.lines().take(3).collect::<Vec<_>>().join(" ");
                    let _ = writeln!(problems, "{}: `{line}`: {first}", path.join(" "));
                }
            }
        }
    }
    let is_leaf = command
        .get_subcommands()
        .all(|one| one.get_name() == "help");
    if is_leaf && !own && command.get_name() != "help" && !command.is_hide_set() {
        let _ = writeln!(problems, "{}: no example", path.join(" "));
    }
    for below in command.get_subcommands() {
        if below.get_name() != "help" {
            let mut path = path.to_vec();
            path.push(below.get_name().to_owned());
            walk(below, &path, problems);
        }
    }
}

#[test]
fn every_example_of_a_help_text_is_taken_by_its_program() {
    let mut problems = String::new();
    for program in programs() {
        let name = program.get_name().to_owned();
        walk(&program, &[name], &mut problems);
    }
    assert!(problems.is_empty(), "\n{problems}");
}

#[test]
fn help_is_a_command_of_every_program_and_takes_a_subcommand() {
    for program in programs() {
        let name = program.get_name().to_owned();
        let first = program.get_subcommands().next().unwrap();
        let first = first.get_name().to_owned();
        for words in [vec![name.as_str(), "help"], vec![&name, "help", &first]] {
            let shown = program.clone().try_get_matches_from(&words).unwrap_err();
            assert_eq!(shown.kind(), ErrorKind::DisplayHelp, "{words:?}: {shown}");
        }
    }
}
