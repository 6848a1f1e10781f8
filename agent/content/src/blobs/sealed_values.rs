//! Values in a bundle's files that this site cannot open: found before anything is applied.
//!
//! What comes in: the texts of a rehearsal, as they stream past. What goes out: one sentence for each file with a value that
//! was sealed for others, for somewhere else, or that does not fit. The texts are sealed and are forgotten with the
//! rehearsal; no opened value is kept or reported.

use std::collections::BTreeSet;
use std::io::{self, Write};

use outhaul_bundle::decode::InMemory;
use outhaul_bundle::index::Content;
use outhaul_bundle::{Digest, Index};
use outhaul_reconcilers::sealed::Binding;

use crate::secrets::{MAX_TEXT_BYTES, Secrets};

/// Most bytes of texts that one rehearsal keeps; what is beyond is not looked at, which is reported.
const MAX_KEPT_BYTES: u64 = 64 * 1024 * 1024;
/// Most sentences.
const MAX_REPORTED: usize = 50;

/// The texts of a bundle that may have sealed values.
#[derive(Debug, Default)]
pub(super) struct SealedTexts {
    texts: InMemory<Digest>,
    kept: u64,
    left_out: u64,
}

impl SealedTexts {
    /// Where a content goes that is read: kept when it may be a text, else nowhere.
    pub(super) fn sink(&mut self, content: &Content) -> Box<dyn Write> {
        if content.size > MAX_TEXT_BYTES {
            return Box::new(io::sink());
        }
        if self.kept.saturating_add(content.size) > MAX_KEPT_BYTES {
            self.left_out += 1;
            return Box::new(io::sink());
        }
        self.kept += content.size;
        self.texts.writer(content.digest)
    }

    /// What of the files of `index` this site cannot open with its keys, a sentence each.
    pub(super) fn unopened(&self, index: &Index, secrets: &Secrets) -> Vec<String> {
        let mut found = BTreeSet::new();
        for assignment in &index.assignments {
            let here = Binding {
                fleet: index.fleet.as_str(),
                environment: index.stream.environment.as_str(),
                workload: &assignment.workload,
            };
            let files = assignment.files.iter().chain(&assignment.payload);
            for file in files {
                let problem = self.texts.with(&file.content, |bytes| {
                    secrets.unopened(bytes, file.path.as_str(), &here)
                });
                found.extend(
                    problem
                        .flatten()
                        .map(|problem| format!("`{}`: {problem}", assignment.name)),
                );
            }
        }
        let more = found.len().saturating_sub(MAX_REPORTED);
        let mut reported: Vec<String> = found.into_iter().take(MAX_REPORTED).collect();
        if more > 0 {
            reported.push(format!("{more} more files"));
        }
        if self.left_out > 0 {
            reported.push(format!(
                "{} files were not searched: together they are too large",
                self.left_out
            ));
        }
        reported
    }
}
