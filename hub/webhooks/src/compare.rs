//! Whether the record of a commit is of what the hub verified: the base commit, and the digests of each assignment's files.
//!
//! What comes in: what a forge gave as the record of a commit, which nobody signed, and the signed bundles of the same base commit. What
//! goes out: the bundle that it agrees with, or the first difference. Pure. The environment's commit and those of workloads may differ
//! where that changed no file.

use std::collections::BTreeMap;

use outhaul_bundle::index::Source;
use outhaul_bundle::{Digest, Index};
use outhaul_kit::url::is_same_repository;

use crate::contents::digest_of;
use crate::event::shortened;
use crate::record::KnownRecord;

/// Hexadecimal digits of a commit that a message shows.
const SHOWN_DIGITS: usize = 12;

/// Why `record` is not of `index`; `None` where it is.
pub(crate) fn difference(record: &KnownRecord, index: &Index) -> Option<String> {
    let number = index.number;
    let (found, signed) = (&record.snapshot.base, &index.snapshot.base);
    if !is_same_base(record, index) {
        let (found, signed) = (source(found), source(signed));
        return Some(format!(
            "the record names base {found}, and bundle {number} is of {signed}"
        ));
    }
    let bundled: BTreeMap<&str, Digest> = index
        .assignments
        .iter()
        // What is for some sites alone lies elsewhere in the repository, and what has no files nowhere.
        .filter(|one| one.sites.is_none() && !one.files.is_empty())
        .map(|one| {
            let files = one.files.iter();
            let files = files.map(|file| (file.path.as_str(), &file.content));
            (one.name.as_str(), digest_of(files))
        })
        .collect();
    for (name, digest) in &record.contents {
        let name = shortened(name);
        match bundled.get(name.as_str()) {
            None => {
                return Some(format!(
                    "the record has assignment `{name}`, and bundle {number} has not"
                ));
            }
            Some(signed) if signed != digest => {
                return Some(format!(
                    "the record has other files of assignment `{name}` than bundle {number}"
                ));
            }
            Some(_) => {}
        }
    }
    let absent = bundled
        .keys()
        .find(|name| !record.contents.contains_key(**name));
    absent.map(|name| format!("the record has no assignment `{name}`, and bundle {number} has it"))
}

/// Whether both are of one commit of one base repository.
pub(crate) fn is_same_base(record: &KnownRecord, index: &Index) -> bool {
    let (found, signed) = (&record.snapshot.base, &index.snapshot.base);
    found.commit == signed.commit && is_same_repository(&found.repo, &signed.repo)
}

/// What is said where bundles of the base commit hold other files, and none was rendered from the same commits.
pub(crate) fn other_commits(record: &KnownRecord, difference: &str) -> String {
    let commit = short(&record.snapshot.environment.commit);
    format!(
        "{difference}; this hub has no bundle that was rendered from commit {commit} of the environment: import it; the next event counts then"
    )
}

/// What is said where no bundle of the base commit is on record.
pub(crate) fn unknown_base(record: &KnownRecord) -> String {
    let commit = short(&record.snapshot.base.commit);
    format!(
        "this hub has no bundle of base {commit} for this site, with which the record of the commit is compared: import it; the next event \
         counts then"
    )
}

fn source(source: &Source) -> String {
    format!("{} of `{}`", short(&source.commit), shortened(&source.repo))
}

fn short(commit: &str) -> String {
    commit.chars().take(SHOWN_DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use outhaul_bundle::index::File;
    use outhaul_test_kit::plain::{self, NEW, OLD};

    use super::*;

    /// The record of what bundle 1 holds.
    fn record(index: &Index) -> KnownRecord {
        let contents = index.assignments.iter().map(|one| {
            let files = one.files.iter();
            let files = files.map(|file| (file.path.as_str(), &file.content));
            (one.name.to_string(), digest_of(files))
        });
        let contents: BTreeMap<String, Digest> = contents.collect();
        KnownRecord {
            commit: "c".to_owned(),
            environment: "dev".to_owned(),
            snapshot: index.snapshot.clone(),
            assignments: contents.keys().cloned().collect(),
            contents,
            same_as: None,
            other_than: None,
        }
    }

    #[test]
    fn attack_a_record_of_other_files_or_of_another_base_is_not_the_bundles() {
        let mut index = plain::index(&plain::stream("dev", "drone"), 1, NEW);
        // What has no files lies nowhere in a repository, and is not compared.
        for one in &mut index.assignments {
            one.files.push(File {
                path: "manifest.yaml".parse().unwrap(),
                content: Digest::of(one.name.as_str().as_bytes()),
                size: 1,
                executable: false,
            });
        }
        let good = record(&index);
        assert_eq!(difference(&good, &index), None);
        let mut spelt = good.clone();
        spelt.snapshot.base.repo += ".git";
        // Another commit of the environment that changed no file.
        spelt.snapshot.environment.commit = "9".repeat(40);
        assert_eq!(difference(&spelt, &index), None);
        let says = |change: &dyn Fn(&mut KnownRecord)| {
            let mut other = good.clone();
            change(&mut other);
            difference(&other, &index).unwrap()
        };
        let base = says(&|one| one.snapshot.base.repo = "https://git.example/other".to_owned());
        assert!(
            base.contains("`https://git.example/other`, and bundle 1"),
            "{base}"
        );
        let commit = says(&|one| one.snapshot.base.commit = OLD.to_owned());
        assert!(commit.contains("names base 111111111111 of"), "{commit}");
        let files = says(&|one| {
            one.contents.insert("maps-uat".to_owned(), Digest::of(b"x"));
        });
        assert!(
            files.contains("other files of assignment `maps-uat` than bundle 1"),
            "{files}"
        );
        let less = says(&|one| {
            one.contents.remove("maps-uat");
        });
        assert!(less.contains("no assignment `maps-uat`"), "{less}");
        let more = says(&|one| {
            one.contents.insert("extra".to_owned(), Digest::of(b"x"));
        });
        assert!(
            more.contains("assignment `extra`, and bundle 1 has not"),
            "{more}"
        );
    }
}
