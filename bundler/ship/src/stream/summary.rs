//! What became of the streams of one run, in lines for people who read no terminal, such as the log of a service.
//!
//! What comes in: a [`Production`], and what else is found when bundles are new. What goes out: what was done, each line once, and what is
//! wrong for as long as it is so. The lines that commands print in the same words are made here, too. It decides nothing.

use std::collections::BTreeSet;

use outhaul_bundle::name::Name;
use outhaul_control::Diagnostics;
use outhaul_kit::format_count::assignments;
use outhaul_record::isolation;

use super::{Produced, Production};

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
}

impl Production {
    /// What was in the last bundle of a stream and is not in the new one: the cluster type, and a sentence.
    pub fn removals(&self) -> impl Iterator<Item = (&str, String)> {
        self.removed.iter().map(|(id, why)| {
            let text = format!("removed `{}`: {why}", id.target);
            (id.cluster_type.as_str(), text)
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
        for (stream, sites) in &self.orphans {
            let names: Vec<&str> = sites.iter().map(Name::as_str).collect();
            let cluster_type = stream.rsplit('/').next().unwrap_or_default();
            // As `outhaul bundle` has it.
            summary.problems.insert(format!(
                "{cluster_type}: no bundle, the environment has no such cluster type; it is followed by {}",
                names.join(", ")
            ));
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
            self.problems.insert(format!(
                "{stream}: bundle {} waits for signatures ({} of {}): {}",
                one.number,
                waiting.found,
                waiting.threshold,
                waiting.request.display()
            ));
        }
        if let Some(file) = one.file.as_ref().filter(|_| one.changed) {
            self.lines.push(format!(
                "{stream}: bundle {}, {}, {} bytes: {}",
                one.number,
                assignments(one.assignments),
                one.bytes,
                file.display()
            ));
        }
        if !one.changed && one.suppressed.is_none() && one.waiting.is_none() {
            self.lines.push(match &one.file {
                Some(file) => format!("{stream}: bundle {} again: {}", one.number, file.display()),
                None => format!("{stream}: unchanged, bundle {} is current", one.number),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::AwaitedSignature;
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
                "press: unchanged, bundle 3 is current",
                "drone: the root has a newer version; number 3 is made in its place",
                "drone: bundle 3, 1 assignment, 9 bytes: dev-drone-3.outhaul",
                "bench: no bundle, it is held back",
            ]
        );
        let problems: Vec<_> = summary.problems.iter().map(String::as_str).collect();
        assert_eq!(
            problems,
            [
                "lamp: bundle 3 waits for signatures (1 of 2): request.json",
                "mill: no bundle, the environment has no such cluster type; it is followed by mill-1",
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
