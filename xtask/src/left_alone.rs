//! `cargo xtask left-alone`: each sentence that something was left alone is compared by a test.
//!
//! What comes in: the programs' sources, the list in `tests/left-alone.txt`, and the record of a test run
//! (`OUTHAUL_LEFT_ALONE`). What goes out: sentences without a line in the list, lines without a sentence or
//! test, and lines whose test did not come to the sentence. `cargo xtask check` does what needs no record.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::repository::{files, text};
use crate::sentences::{self, Sentence};

const LIST: &str = "tests/left-alone.txt";

/// Where the programs' sources lie.
const SOURCES: [&str; 6] = ["agent/", "bundle/", "bundler/", "hub/", "kit/", "signer/"];

/// Compares the list of sentences with the record of a test run.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  OUTHAUL_LEFT_ALONE=$PWD/record cargo test --workspace\n  cargo xtask left-alone record"
)]
pub struct Args {
    /// The record that the tests wrote.
    record: PathBuf,
    /// Prints each sentence with the tests that came to it, as lines of the list, instead of findings.
    #[arg(long)]
    list: bool,
}

/// A line of the list.
#[derive(Debug, PartialEq, Eq)]
enum Held {
    /// The test that comes to it.
    By(String),
    /// Why none does.
    Not(String),
}

impl Args {
    /// The findings.
    ///
    /// # Errors
    /// When the repository or the record cannot be read.
    pub fn run(&self) -> Result<Vec<String>> {
        let record = std::fs::read(&self.record)
            .with_context(|| format!("cannot read {}", self.record.display()))?;
        let record = String::from_utf8_lossy(&record).into_owned();
        let runs = runs(&record);
        let list = list()?;
        if self.list {
            return Ok(proposed(&sources()?, &list, &runs));
        }
        let mut findings = findings()?;
        let (mut held, mut not) = (0, 0);
        for (sentence, how) in &list {
            match how {
                Held::By(test) if reached(&runs, test, &sentence.text) => held += 1,
                Held::By(test) => findings.push(format!(
                    "{LIST}: `{test}` did not come to `{}` ({})",
                    sentence.text, sentence.place
                )),
                Held::Not(_) => not += 1,
            }
        }
        eprintln!(
            "{} sentences: {held} compared by the test that is named, {not} with a reason why not",
            list.len()
        );
        Ok(findings)
    }
}

/// The findings that need no record.
///
/// # Errors
/// When the repository cannot be read.
pub fn findings() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let mut listed: BTreeMap<Sentence, usize> = BTreeMap::new();
    let tests = tests()?;
    for (sentence, how) in list()? {
        if let Held::By(test) = &how
            && !tests.contains(test)
        {
            findings.push(format!("{LIST}: there is no test `{test}`"));
        }
        *listed.entry(sentence).or_default() += 1;
    }
    for sentence in sources()? {
        match listed.get_mut(&sentence) {
            Some(count) if *count > 0 => *count -= 1,
            _ => findings.push(format!(
                "{}: `{}` states that something was left alone: write a test whose run is compared \
                 (`outhaul_tests::Checked`) and add a line with its name to {LIST}",
                sentence.place, sentence.text
            )),
        }
    }
    let stale = listed.into_iter().filter(|(_, count)| *count > 0);
    findings.extend(stale.map(|(sentence, _)| {
        format!(
            "{LIST}: `{}` is not in {} any more",
            sentence.text, sentence.place
        )
    }));
    Ok(findings)
}

fn list() -> Result<Vec<(Sentence, Held)>> {
    let all = text(LIST)?.unwrap_or_default();
    all.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            parsed(line).with_context(|| format!("{LIST}: not `place | sentence | test`: {line}"))
        })
        .collect()
}

fn parsed(line: &str) -> Option<(Sentence, Held)> {
    let (place, rest) = line.split_once(" | ")?;
    let (text, how) = rest.rsplit_once(" | ")?;
    let how = match how.strip_prefix("not: ") {
        Some(reason) => Held::Not(reason.to_owned()),
        None => Held::By(how.to_owned()),
    };
    let sentence = Sentence {
        place: place.to_owned(),
        text: text.to_owned(),
    };
    Some((sentence, how))
}

fn sources() -> Result<Vec<Sentence>> {
    let mut found = Vec::new();
    for name in files()? {
        let ours = SOURCES.iter().any(|folder| name.starts_with(folder)) && name.ends_with(".rs");
        let is_test =
            name.contains("/tests/") || name.ends_with("tests.rs") || name.contains("/benches/");
        if ours
            && !is_test
            && let Some(text) = text(&name)?
        {
            found.extend(sentences::of(&name, &text));
        }
    }
    found.sort();
    Ok(found)
}

/// The names of all tests.
fn tests() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for name in files()?.iter().filter(|name| name.ends_with(".rs")) {
        let text = text(name)?.unwrap_or_default();
        for after in text.split("fn ").skip(1) {
            let end = after.find(|c: char| !c.is_alphanumeric() && c != '_');
            names.insert(after[..end.unwrap_or(after.len())].to_owned());
        }
        // A table of tests, of which a macro makes the functions.
        if text.contains("fn $") {
            let rows = text
                .lines()
                .filter_map(|line| line.trim().split_once(", \""));
            names.extend(rows.map(|(name, _)| name.to_owned()));
        }
    }
    Ok(names)
}

/// What runs printed, with the test of each.
fn runs(record: &str) -> Vec<(&str, &str)> {
    let lines = record.lines();
    lines
        .filter_map(|line| {
            let mut cells = line.splitn(4, '\t');
            let test = cells.next()?.rsplit("::").next()?;
            Some((test, cells.nth(2)?))
        })
        .collect()
}

fn reached(runs: &[(&str, &str)], test: &str, sentence: &str) -> bool {
    let is_in = |printed: &str| {
        sentences::is_in(sentence, printed) || sentences::is_in(sentence, &without_state(printed))
    };
    runs.iter()
        .any(|(of, printed)| *of == test && is_in(printed))
}

/// What was printed, its advice without the folder that the command itself was given.
fn without_state(printed: &str) -> String {
    let mut parts = printed.split(" --state ");
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        made.push_str(part.find(' ').map_or("", |end| &part[end..]));
    }
    made
}

/// Lines of the list: as they stand, and for what is new the tests that came to it.
fn proposed(sources: &[Sentence], list: &[(Sentence, Held)], runs: &[(&str, &str)]) -> Vec<String> {
    let mut left: Vec<_> = list.iter().collect();
    let mut line = |sentence: &Sentence| {
        if let Some(at) = left.iter().position(|(known, _)| known == sentence) {
            let (_, how) = left.remove(at);
            return match how {
                Held::By(test) => test.clone(),
                Held::Not(reason) => format!("not: {reason}"),
            };
        }
        let tests = runs
            .iter()
            .filter(|(_, printed)| sentences::is_in(&sentence.text, printed));
        let tests: BTreeSet<&str> = tests.map(|(test, _)| *test).collect();
        let tests: Vec<&str> = tests.into_iter().take(8).collect();
        format!("? {}", tests.join(" "))
    };
    let hows: Vec<String> = sources.iter().map(&mut line).collect();
    sources
        .iter()
        .zip(hows)
        .map(|(sentence, how)| format!("{} | {} | {how}", sentence.place, sentence.text))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_place_a_sentence_and_a_test_or_a_reason() {
        let (sentence, how) = parsed("a.rs f | x | y; nothing was done | a_test").unwrap();
        assert_eq!(
            (sentence.place.as_str(), sentence.text.as_str()),
            ("a.rs f", "x | y; nothing was done")
        );
        assert_eq!(how, Held::By("a_test".to_owned()));
        let (_, how) = parsed("a.rs | nothing was done | not: a help text").unwrap();
        assert_eq!(how, Held::Not("a help text".to_owned()));
        assert!(parsed("a.rs").is_none());
    }

    /// Without such a phrase the run of its test is never compared, whatever it prints.
    #[test]
    fn every_sentence_with_a_test_has_a_phrase_that_tests_compare() {
        let list = list().unwrap();
        let held = list.iter().filter(|(_, how)| matches!(how, Held::By(_)));
        let without: Vec<_> = held
            .filter(|(one, _)| !outhaul_tests::sentences().any(|phrase| one.text.contains(phrase)))
            .map(|(one, _)| one)
            .collect();
        assert!(list.len() > 100, "{}", list.len());
        assert_eq!(without, Vec::<&Sentence>::new());
    }

    #[test]
    fn advice_with_the_folder_of_the_command_is_the_sentence_of_the_source() {
        let printed =
            "help: `outhaul-hub --state /tmp/a token list` lists them; nothing was changed";
        let sentence = "`outhaul-hub token list` lists them; nothing was changed";
        assert!(reached(&[("t", printed)], "t", sentence));
        assert!(!reached(&[("u", printed)], "t", sentence));
    }

    #[test]
    fn a_test_that_did_not_come_to_a_sentence_is_distinguished_from_one_that_did() {
        let record = "runner::media::a_test\toutbox\t4\terror: `x` is refused, nothing was changed\nother\tp\t0\tfine\n";
        let runs = runs(record);
        assert!(reached(
            &runs,
            "a_test",
            "`{n}` is refused, nothing was changed"
        ));
        assert!(!reached(&runs, "other", "nothing was changed"));
        assert!(!reached(&runs, "a_test", "nothing was written"));
    }
}
