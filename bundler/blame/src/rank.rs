//! Which of the possible causes is the likeliest.
//!
//! What comes in: what changed and what was done between two reports, what the site says of the fault, and how other sites do with the
//! same. What goes out: causes with their shares. It is pure. A cause weighs more, the more of the words in the site's own report
//! stand in what it changed, and the fewer other causes have them; one that other sites have without harm weighs less.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::hub_api::SiteFault;

use crate::cause::{Cause, CauseKind, CommitCause};

/// Words shown of those that the report and the cause share.
const SHOWN: usize = 5;
/// The share of what was found, where nothing in the report speaks for it: something else is always possible.
const UNSUPPORTED: f64 = 0.9;
/// The same, where the report does.
const SUPPORTED: f64 = 0.99;
/// How much less certain an answer is when reports between the two are missing.
const WITH_MISSING: f64 = 0.85;
/// The same where the commits between them were not looked at.
const WITHOUT_COMMITS: f64 = 0.5;
/// How much heavier a change that someone made on site is than one that came with a bundle, where the site itself tells it.
const DRIFT: f64 = 30.0;
/// What is left for causes of which nothing is known, where the report speaks for one that is known.
const UNKNOWN: f64 = 0.05;
/// The same where the report has no word of any of them: then a change of no harm that came meanwhile is nearly as likely.
const UNSAID: f64 = 0.8;
/// Words that tell nothing.
const COMMON: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "can", "cannot", "did", "do", "does",
    "error", "exit", "failed", "for", "from", "has", "have", "in", "into", "is", "it", "its", "no",
    "not", "of", "on", "or", "site", "so", "that", "the", "there", "this", "to", "was", "well",
    "were", "which", "with",
];

/// A possible cause that has no share yet.
#[derive(Debug)]
pub(crate) struct Candidate {
    kind: CauseKind,
    text: String,
    commit: Option<CommitCause>,
    words: BTreeSet<String>,
}

impl Candidate {
    pub(crate) fn commit(commit: CommitCause) -> Self {
        let mut text = commit.lines.join("\n");
        for value in &commit.values {
            text.push('\n');
            text.push_str(&value.key);
            for side in [&value.before, &value.after].into_iter().flatten() {
                text.push('\n');
                text.push_str(&side.value);
            }
        }
        text.push('\n');
        text.push_str(&commit.files.join("\n"));
        Self {
            kind: CauseKind::Commit,
            text: format!(
                "commit {} of `{}`: {}",
                commit.short_id(),
                commit.source,
                commit.subject
            ),
            words: words(&text),
            commit: Some(commit),
        }
    }

    pub(crate) fn act(text: String) -> Self {
        Self {
            kind: CauseKind::Act,
            words: words(&text),
            text,
            commit: None,
        }
    }

    pub(crate) fn rollback(text: String) -> Self {
        Self {
            kind: CauseKind::Rollback,
            words: BTreeSet::new(),
            text,
            commit: None,
        }
    }

    pub(crate) fn content(before: u64, after: u64) -> Self {
        Self {
            kind: CauseKind::Content,
            words: BTreeSet::new(),
            text: format!(
                "an image, chart or file that the commits name by a tag: bundle {after} is of the same commits as bundle {before}"
            ),
            commit: None,
        }
    }

    pub(crate) fn drift() -> Self {
        Self {
            kind: CauseKind::Drift,
            words: BTreeSet::new(),
            text: "someone changed on site what was applied".to_owned(),
            commit: None,
        }
    }
}

/// What is said of the fault, in all its parts.
fn fault_texts(fault: &SiteFault) -> BTreeSet<String> {
    let mut text = fault.bad.message.clone();
    for detail in &fault.bad.details {
        text.push('\n');
        text.push_str(&detail.message);
        text.push('\n');
        text.push_str(&detail.steps.join("\n"));
    }
    let mut said = words(&text);
    // The names of assignments stand in every report and every path.
    for name in fault.bad.configs.keys() {
        said.remove(&name.to_lowercase());
        for part in name.split(['-', '.', '_']) {
            said.remove(&part.to_lowercase());
        }
    }
    said
}

/// The words of a text, whole and in parts, in lower case.
fn words(text: &str) -> BTreeSet<String> {
    let joins = |letter: char| matches!(letter, '.' | '_' | '-' | '/' | ':' | '@');
    let mut found = BTreeSet::new();
    for word in text.split(|letter: char| !letter.is_alphanumeric() && !joins(letter)) {
        let word = word.trim_matches(joins).to_lowercase();
        for part in std::iter::once(word.as_str()).chain(word.split(joins)) {
            let has_digit = part.chars().any(|letter| letter.is_ascii_digit());
            let is_telling = part.len() >= 3 || has_digit;
            if is_telling && !COMMON.contains(&part) {
                found.insert(part.to_owned());
            }
        }
    }
    found
}

/// How much a word tells that is in a report and in a change: names and numbers more than prose, and a digit little.
fn telling(word: &str) -> f64 {
    let is_name = word.chars().any(|letter| !letter.is_alphabetic());
    match (word.len(), is_name) {
        (1, _) => 0.3,
        (_, true) => 2.0,
        (_, false) => 1.0,
    }
}

/// The causes, the likeliest first. Where the commits were not compared (`is_compared`), what was done on site is less certain, and nothing
/// speaks for the site itself.
pub(crate) fn ranked(
    fault: &SiteFault,
    candidates: Vec<Candidate>,
    is_compared: bool,
) -> Vec<Cause> {
    let said = fault_texts(fault);
    let mut having: BTreeMap<&str, f64> = BTreeMap::new();
    for candidate in &candidates {
        for word in candidate.words.intersection(&said) {
            *having.entry(word).or_default() += 1.0;
        }
    }
    let (well, not_well) = fault.others.values().fold((0, 0), |(well, not), others| {
        (well + others.well, not + others.not_well)
    });
    let failed_elsewhere = not_well.max(fault.others_failed);
    let well_elsewhere = well > 0 && failed_elsewhere == 0;
    let commits = candidates
        .iter()
        .filter(|one| one.kind == CauseKind::Commit)
        .count();
    let mut weighed: Vec<(f64, bool, Cause)> = Vec::new();
    for candidate in &candidates {
        let mut shared: Vec<(&str, f64)> = candidate
            .words
            .intersection(&said)
            .map(|word| {
                (
                    word.as_str(),
                    telling(word) / having.get(word.as_str()).unwrap_or(&1.0),
                )
            })
            .collect();
        shared.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        let score: f64 = shared.iter().map(|(_, weight)| weight).sum();
        let mut weight = 2.0f64.mul_add(score, 1.0);
        let mut why = Vec::new();
        if !shared.is_empty() {
            let names: Vec<String> = shared
                .iter()
                .take(SHOWN)
                .map(|(word, _)| format!("`{word}`"))
                .collect();
            why.push(format!(
                "the site's report has {}, and so has this",
                names.join(", ")
            ));
        }
        match candidate.kind {
            CauseKind::Commit => {
                if commits == 1 {
                    why.push(
                        "no other commit between the two reports changes what this site gets"
                            .to_owned(),
                    );
                }
                if failed_elsewhere > 0 {
                    weight *= 2.0;
                    why.push(match failed_elsewhere {
                        1 => "another site is not well with the same".to_owned(),
                        many => format!("{many} other sites are not well with the same"),
                    });
                }
                if well_elsewhere {
                    weight *= 0.3;
                    why.push(are_well(well));
                }
            }
            CauseKind::Drift => {
                weight *= DRIFT;
                why.push("the site compared what runs with what it had applied".to_owned());
            }
            CauseKind::Rollback => {
                why.push("the site's own reports had the bundle well until then".to_owned());
            }
            CauseKind::Act | CauseKind::Content | CauseKind::Site => {}
        }
        let cause = Cause {
            kind: candidate.kind,
            confidence: 0,
            text: candidate.text.clone(),
            why,
            commit: candidate.commit.clone(),
        };
        weighed.push((weight, !shared.is_empty(), cause));
    }
    if is_compared {
        let is_said = weighed
            .iter()
            .any(|(_, is_supported, cause)| *is_supported || cause.kind == CauseKind::Drift);
        let is_done = candidates.iter().any(|one| one.kind == CauseKind::Rollback);
        // The site tells itself that a person left what ran.
        let is_decided = is_done && fault.left_by.is_some();
        weighed.push(site_itself(
            candidates.iter().all(|one| one.kind == CauseKind::Content),
            is_said || is_done,
            well_elsewhere.then_some(well).filter(|_| !is_decided),
        ));
    }
    shares(fault, weighed, is_compared)
}

fn are_well(elsewhere: u64) -> String {
    match elsewhere {
        1 => "another site has the same and is healthy".to_owned(),
        many => format!("{many} other sites have the same and are healthy"),
    }
}

/// That nothing which reached the site is the cause.
fn site_itself(is_alone: bool, is_said: bool, well_elsewhere: Option<u64>) -> (f64, bool, Cause) {
    let mut why = Vec::new();
    if is_alone {
        why.push("no commit, value or act between the two reports changes what it gets".to_owned());
    }
    if let Some(well) = well_elsewhere {
        why.push(are_well(well));
    }
    let weight = match (is_alone, well_elsewhere, is_said) {
        (true, ..) => 1.0,
        (false, Some(_), _) => 2.0,
        (false, None, true) => UNKNOWN,
        (false, None, false) => UNSAID,
    };
    let cause = Cause {
        kind: CauseKind::Site,
        confidence: 0,
        text: "the site itself: its machine, or what it depends on".to_owned(),
        why,
        commit: None,
    };
    (weight, false, cause)
}

fn shares(
    fault: &SiteFault,
    mut weighed: Vec<(f64, bool, Cause)>,
    is_compared: bool,
) -> Vec<Cause> {
    let all: f64 = weighed.iter().map(|(weight, ..)| weight).sum();
    // Of equals the newest first: it is the last that came.
    weighed.reverse();
    weighed.sort_by(|a, b| b.0.total_cmp(&a.0));
    let causes: Vec<Cause> = weighed
        .into_iter()
        .map(|(weight, is_supported, mut cause)| {
            let is_certain = matches!(cause.kind, CauseKind::Drift | CauseKind::Rollback);
            let mut bound = match is_supported || is_certain {
                true => SUPPORTED,
                false => UNSUPPORTED,
            };
            if !fault.missing.is_empty() {
                bound *= WITH_MISSING;
            }
            if !is_compared && cause.kind != CauseKind::Drift {
                bound *= WITHOUT_COMMITS;
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 0 and 100"
            )]
            let percent = (100.0 * bound * weight / all).round() as u8;
            cause.confidence = percent;
            cause
        })
        .collect();
    // Among very many commits none may have a whole percent: then they are all that can be named.
    let is_told = |cause: &Cause| cause.confidence > 0;
    match causes.iter().any(is_told) {
        true => causes.into_iter().filter(is_told).collect(),
        false => causes,
    }
}

#[cfg(test)]
mod tests;
