//! What became of the streams of one run, in lines for people who read no terminal, such as the log of a service.
//!
//! What comes in: a [`Production`], and what else is found when bundles are new. What goes out: what was done, each line once, and what is
//! wrong for as long as it is so. The lines that commands print in the same words are made here, too. It decides nothing.

use std::collections::BTreeSet;
use std::path::Path;

use outhaul_control::Diagnostics;
use outhaul_kit::format_count::assignments;
use outhaul_record::isolation;

use super::{AwaitedSignature, Produced, Production};

/// A run in lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// What was done.
    pub lines: Vec<String>,
    /// What is wrong, in every run until it is mended.
    pub problems: BTreeSet<String>,
}

impl Produced {
    /// Why it was not made, was made again, or what of the published folder was: a sentence each, without the stream's name.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        remarks.extend((self.suppressed.iter()).map(|why| format!("no bundle, it {why}")));
        remarks.extend(self.restored.iter().cloned());
        let number = self.number;
        let again = |why| format!("{why}; number {number} is made in its place");
        remarks.extend(self.because.as_ref().map(again));
        remarks
    }

    /// What is current now, without the stream's name; `None` where no bundle is made of it, or one waits for signatures.
    pub fn sentence(&self) -> Option<String> {
        if self.suppressed.is_some() || self.waiting.is_some() {
            return None;
        }
        let number = self.number;
        Some(match &self.file {
            None => format!("unchanged, number {number} is current"),
            Some(file) if !self.changed => format!(
                "unchanged, number {number} again, {} bytes: {}",
                self.bytes,
                file.display()
            ),
            Some(file) => format!(
                "number {number}, {}, {} bytes of content in {} bytes: {}",
                assignments(self.assignments),
                self.content_bytes,
                self.bytes,
                file.display()
            ),
        })
    }
}

impl AwaitedSignature {
    /// What the bundle of this number waits for, without the stream's name.
    pub fn sentence(&self, number: u64) -> String {
        format!(
            "number {number} waits for signatures: {} of {} are there, the request is `{}`",
            self.found,
            self.threshold,
            self.request.display()
        )
    }

    /// What to do next, with the fleet's folder.
    pub fn help(&self, fleet: &Path) -> String {
        let replace = format!("`outhaul-signer revoke {} {}`", fleet.display(), self.role);
        match self.threshold {
            1 => format!(
                "the stream's key is not here: restore it from a backup, or, if it is lost, give the stream a new one: {replace}; then \
                 run this again"
            ),
            _ => format!(
                "`outhaul-signer countersign` it where another key of the stream is, put the answer beside it, and run this again: it \
                 ships the bundle that was signed; if a key is lost: {replace}"
            ),
        }
    }
}

impl Production {
    /// What was in the last bundle of a stream and is not in the new one: the cluster type, and a sentence.
    pub fn removals(&self) -> impl Iterator<Item = (&str, String)> {
        self.removed.iter().map(|(id, why)| {
            let text = format!("removed `{}`: {why}", id.target);
            (id.cluster_type.as_str(), text)
        })
    }

    /// The streams that sites follow and the environment does not have any more, and a sentence about each.
    pub fn without_bundle(&self) -> impl Iterator<Item = (&str, String)> {
        self.orphans.iter().map(|(stream, sites)| {
            let names: Vec<String> = sites.iter().map(|site| format!("`{site}`")).collect();
            let (environment, cluster_type) = stream.split_once('/').unwrap_or_default();
            let keep = match names.len() {
                1 => "keeps what it has",
                _ => "keep what they have",
            };
            let text = format!(
                "no bundle, `{environment}` has no cluster type `{cluster_type}`; it is followed by {}, which {keep}",
                names.join(", ")
            );
            (stream.as_str(), text)
        })
    }

    /// The lines. `beside` gives what is found about the environment when one of its bundles is new.
    pub fn summary(&self, beside: impl FnOnce() -> Diagnostics) -> Summary {
        let mut summary = Summary::default();
        for one in &self.streams {
            summary.stream(one);
        }
        let removals = self.removals();
        let removals = removals.map(|(cluster_type, text)| format!("{cluster_type}: {text}"));
        summary.lines.extend(removals);
        for (stream, text) in self.without_bundle() {
            let cluster_type = stream.rsplit('/').next().unwrap_or_default();
            summary.problems.insert(format!("{cluster_type}: {text}"));
        }
        // What nobody reads a terminal for: with each new bundle, as long as it is so.
        if self.uncertain.has_errors() {
            let findings = isolation::one_line_each(&self.uncertain);
            summary.problems.extend(findings.lines().map(str::to_owned));
        }
        if self.streams.iter().any(|one| one.changed) {
            let mut noted = self.uncertain.clone();
            noted.append(beside());
            let findings = isolation::one_line_each(&noted);
            summary.lines.extend(findings.lines().map(str::to_owned));
        }
        summary
    }
}

impl Summary {
    fn stream(&mut self, one: &Produced) {
        let stream = &one.cluster_type;
        let remarks = one.remarks().into_iter();
        (self.lines).extend(remarks.map(|text| format!("{stream}: {text}")));
        if let Some(waiting) = &one.waiting {
            let text = waiting.sentence(one.number);
            self.problems.insert(format!("{stream}: {text}"));
        }
        let text = one.sentence().map(|text| format!("{stream}: {text}"));
        self.lines.extend(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(cluster_type: &str) -> Produced {
        Produced {
            cluster_type: cluster_type.to_owned(),
            number: 3,
            changed: false,
            file: None,
            bytes: 9,
            content_bytes: 9,
            assignments: 1,
            suppressed: None,
            because: None,
            restored: Vec::new(),
            waiting: None,
        }
    }

    #[test]
    fn what_was_done_is_told_once_and_what_is_wrong_apart_from_it() {
        let waiting = AwaitedSignature {
            role: "s-1".to_owned(),
            request: "request.json".into(),
            threshold: 2,
            found: 1,
        };
        let production = Production {
            streams: vec![
                made("press"),
                Produced {
                    changed: true,
                    file: Some("dev-drone-3.outhaul".into()),
                    because: Some("the root has a newer version".to_owned()),
                    ..made("drone")
                },
                Produced {
                    waiting: Some(waiting),
                    ..made("lamp")
                },
                Produced {
                    suppressed: Some("is held back".to_owned()),
                    ..made("bench")
                },
            ],
            orphans: [(
                "dev/mill".to_owned(),
                BTreeSet::from(["mill-1".parse().unwrap()]),
            )]
            .into(),
            ..Production::default()
        };
        let summary = production.summary(Diagnostics::new);
        assert_eq!(
            summary.lines,
            [
                "press: unchanged, number 3 is current",
                "drone: the root has a newer version; number 3 is made in its place",
                "drone: number 3, 1 assignment, 9 bytes of content in 9 bytes: dev-drone-3.outhaul",
                "bench: no bundle, it is held back",
            ]
        );
        let problems: Vec<_> = summary.problems.iter().map(String::as_str).collect();
        assert_eq!(
            problems,
            [
                "lamp: number 3 waits for signatures: 1 of 2 are there, the request is `request.json`",
                "mill: no bundle, `dev` has no cluster type `mill`; it is followed by `mill-1`, which keeps what it has",
            ]
        );
    }

    #[test]
    fn nothing_is_looked_for_beside_bundles_that_are_as_they_were() {
        let production = Production {
            streams: vec![made("press")],
            ..Production::default()
        };
        let summary = production.summary(|| panic!("it was looked for"));
        assert_eq!(summary.lines.len(), 1);
    }
}
