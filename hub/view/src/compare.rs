//! What runs in two environments, by cluster type and assignment.
//!
//! What comes in: the store, two environments, from which cluster type on, and the time. What goes out: for each assignment what the sites of
//! either side run, and whether it is the same content. It compares digests of what bundles bring, knows no content of a file, and
//! decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_gate::time;
use outhaul_store::{BundleOnRecord, Session, StoreError, StreamOnRecord};
use serde::Serialize;

use crate::contents::{FileChange, FileRow, digest_of, file_changes, files};
use crate::indexes::{FOR_A_LIST_BYTES, IndexResult, Indexes};

/// Cluster types on one page, and assignments of each.
const TYPES_SHOWN: usize = 10;
/// Assignments and files after which a page has no further cluster type: what is there is whole, and what follows has its own page.
const ROWS_SHOWN: usize = 1_000;
const ASSIGNMENTS_SHOWN: usize = 200;
/// Bundles of a stream that are looked at: those that most sites run.
const BUNDLES_COMPARED: usize = 3;
/// Files that differ, listed of one assignment.
const FILES_SHOWN: usize = 20;

/// Two environments beside each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The one.
    pub from: String,
    /// The other.
    pub to: String,
    /// Every environment that can be chosen.
    pub environments: Vec<String>,
    /// The cluster types of either, by name.
    pub types: Vec<ComparedType>,
    /// After which cluster type the next page begins.
    pub next: Option<String>,
    /// The cluster type that the page begins after.
    pub after: String,
    /// When this was read, RFC 3339.
    pub read_at: String,
}

/// One cluster type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComparedType {
    /// Its name.
    pub cluster_type: String,
    /// What is known of it on either side.
    pub from: ComparedStream,
    /// The other.
    pub to: ComparedStream,
    /// Its assignments, by name, as many as are shown.
    pub assignments: Vec<ComparedAssignment>,
    /// How many more there are.
    pub more: usize,
    /// How many are the same, other, only here, only there, not known.
    pub counts: BTreeMap<&'static str, usize>,
}

/// The stream of one side, or all of them where the cluster type has several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ComparedStream {
    /// The bundles that are looked at.
    pub bundles: Vec<ComparedBundle>,
    /// Whether no site runs any, so that the newest on record of each stream is looked at instead.
    pub is_desired: bool,
    /// How many sites run other bundles, which are not looked at.
    pub others: u64,
    /// Why something is not known, each sentence once.
    pub unknown: BTreeSet<String>,
}

/// A bundle, and how many sites run it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComparedBundle {
    /// Its number.
    pub number: u64,
    /// The signing role of its stream, where the cluster type has several streams.
    pub role: Option<String>,
    /// The base commit.
    pub commit: String,
    /// How many sites run it.
    pub sites: u64,
    /// Whether it is on record with the content that they report.
    pub on_record: bool,
}

/// One assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComparedAssignment {
    /// Its name.
    pub assignment: String,
    /// Its name on the other side, where that is another target of the same workload.
    pub also: Option<String>,
    /// `same`, `other`, `only_from`, `only_to`, `unknown`.
    pub result: &'static str,
    /// What it is on the one side.
    pub from: Vec<Variant>,
    /// On the other.
    pub to: Vec<Variant>,
    /// The files that differ between what most sites of either side run.
    pub files: Vec<FileChange>,
    /// How many more differ.
    pub more: usize,
}

/// An assignment as some bundles of a side have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Variant {
    /// The bundles.
    pub bundles: Vec<u64>,
    /// The base commit of the first.
    pub commit: String,
    /// Digest of its config.
    pub config: String,
    /// Digest of the paths and contents of its files; absent without an index.
    pub content: Option<String>,
    /// How many sites run them.
    pub sites: u64,
    #[serde(skip)]
    workspace: String,
    #[serde(skip)]
    workload: String,
    #[serde(skip)]
    files: Option<Vec<FileRow>>,
}

impl Comparison {
    /// Reads two environments; `None` where nothing is known of one, with those that are known.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn of(
        session: &Session<'_>,
        (from, to): (&str, &str),
        after: &str,
        now_ms: i64,
    ) -> Result<Result<Self, Vec<String>>, StoreError> {
        let environments = session.environments()?;
        if ![from, to]
            .iter()
            .all(|name| environments.iter().any(|one| one == name))
        {
            return Ok(Err(environments));
        }
        let streams = session.streams_on_record()?;
        // One cluster type may have had several streams, each with its signing role: a stream that was begun again.
        let of_side = |side: &str| -> BTreeMap<&str, Vec<&StreamOnRecord>> {
            let mut found: BTreeMap<&str, Vec<&StreamOnRecord>> = BTreeMap::new();
            for one in streams.iter().filter(|one| one.environment == side) {
                found.entry(&one.cluster_type).or_default().push(one);
            }
            found
        };
        let (here, there) = (of_side(from), of_side(to));
        let names: BTreeSet<&str> = here
            .keys()
            .chain(there.keys())
            .copied()
            .filter(|name| *name > after)
            .collect();
        let all = names.len();
        let mut indexes = Indexes::new(session, FOR_A_LIST_BYTES);
        let (mut types, mut rows) = (Vec::new(), 0);
        for name in names.into_iter().take(TYPES_SHOWN) {
            if rows >= ROWS_SHOWN {
                break;
            }
            let of = |side: &BTreeMap<&str, Vec<_>>| side.get(name).cloned().unwrap_or_default();
            let from = Side::read(session, &mut indexes, &of(&here))?;
            let to = Side::read(session, &mut indexes, &of(&there))?;
            let one = compared(name, from, to);
            let listed = one.assignments.iter().map(|one| 1 + one.files.len());
            rows += listed.sum::<usize>();
            types.push(one);
        }
        Ok(Ok(Self {
            from: from.to_owned(),
            to: to.to_owned(),
            environments,
            next: types
                .last()
                .filter(|_| all > types.len())
                .map(|last| last.cluster_type.clone()),
            types,
            after: after.to_owned(),
            read_at: time::rfc3339(now_ms),
        }))
    }
}

/// A bundle that is looked at: the digest of its index as sites report it, and how many run it.
#[derive(Debug)]
struct LookedAt<'a> {
    role: &'a str,
    number: u64,
    index: Option<String>,
    sites: u64,
}

/// What is known of a stream: what its sites run, and each assignment of that.
#[derive(Debug, Default)]
struct Side {
    stream: ComparedStream,
    assignments: BTreeMap<String, Vec<Variant>>,
}

impl Side {
    fn read(
        session: &Session<'_>,
        indexes: &mut Indexes<'_, '_>,
        streams: &[&StreamOnRecord],
    ) -> Result<Self, StoreError> {
        let mut side = Self::default();
        let mut looked_at = Vec::new();
        for stream in streams {
            let running = session.running_in_stream(&stream.role)?.into_iter();
            looked_at.extend(running.map(|(number, index, sites)| LookedAt {
                role: &stream.role,
                number,
                index: Some(index),
                sites,
            }));
        }
        side.stream.is_desired = looked_at.is_empty();
        if looked_at.is_empty() {
            looked_at.extend(streams.iter().map(|stream| LookedAt {
                role: &stream.role,
                number: stream.newest,
                index: None,
                sites: 0,
            }));
        }
        // Those that most sites run first, of whichever stream; the order within a stream stays.
        looked_at.sort_by_key(|one| std::cmp::Reverse(one.sites));
        let others = looked_at.split_off(looked_at.len().min(BUNDLES_COMPARED));
        side.stream.others = others.iter().map(|one| one.sites).sum();
        if side.stream.is_desired && !others.is_empty() {
            let count = others.len();
            side.stream.unknown.insert(format!(
                "{count} more streams of this cluster type are on record, and no site runs any of their bundles"
            ));
        }
        for one in looked_at {
            let number = one.number;
            let bundle = session
                .bundle_on_record(one.role, number)?
                .filter(|bundle| {
                    let is_it = |index: &String| *index == bundle.index;
                    one.index.as_ref().is_none_or(is_it)
                });
            side.stream.bundles.push(ComparedBundle {
                number,
                role: (streams.len() > 1).then(|| one.role.to_owned()),
                commit: bundle
                    .as_ref()
                    .map(|one| one.snapshot.base.commit.clone())
                    .unwrap_or_default(),
                sites: one.sites,
                on_record: bundle.is_some(),
            });
            match bundle {
                Some(bundle) => side.add(session, indexes, &bundle, one.sites)?,
                None => {
                    let sites = one.sites;
                    side.stream.unknown.insert(format!(
                        "bundle {number} is not on record with the content that {sites} of its sites report"
                    ));
                }
            }
        }
        Ok(side)
    }

    fn add(
        &mut self,
        session: &Session<'_>,
        indexes: &mut Indexes<'_, '_>,
        bundle: &BundleOnRecord,
        sites: u64,
    ) -> Result<(), StoreError> {
        let known: IndexResult = indexes.of(bundle)?;
        let mut of_index: BTreeMap<&str, Vec<FileRow>> = BTreeMap::new();
        match &known {
            Err(why) => {
                self.stream.unknown.insert(why.clone());
            }
            Ok(index) => {
                let named = index
                    .assignments
                    .iter()
                    .map(|one| (one.name.as_str(), files(one)));
                of_index.extend(named);
            }
        }
        for one in session.bundle_assignments(&bundle.role, bundle.number)? {
            let files = of_index.remove(one.assignment.as_str());
            let content = files.as_deref().map(digest_of);
            let variants = self.assignments.entry(one.assignment).or_default();
            let alike = |known: &&mut Variant| {
                (&known.config, &known.content) == (&one.config_version, &content)
            };
            match variants.iter_mut().find(alike) {
                Some(known) => {
                    // Two streams have the same numbers.
                    if !known.bundles.contains(&bundle.number) {
                        known.bundles.push(bundle.number);
                    }
                    known.sites += sites;
                }
                None => variants.push(Variant {
                    bundles: vec![bundle.number],
                    commit: bundle.snapshot.base.commit.clone(),
                    config: one.config_version,
                    content,
                    sites,
                    workspace: one.workspace,
                    workload: one.workload,
                    files,
                }),
            }
        }
        Ok(())
    }
}

/// Which assignments are compared: those of one name; then, of a workload that has one left on either side, these two, because
/// targets are often named for their environment; then those that one side alone has.
fn pairs(from: &Side, to: &Side) -> Vec<(Option<String>, Option<String>)> {
    let only = |mine: &Side, other: &Side| -> BTreeMap<(String, String), Vec<String>> {
        let mut found: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
        for (name, variants) in &mine.assignments {
            if let Some(one) = variants
                .first()
                .filter(|_| !other.assignments.contains_key(name))
            {
                let workload = (one.workspace.clone(), one.workload.clone());
                found.entry(workload).or_default().push(name.clone());
            }
        }
        found
    };
    let mut pairs: Vec<(Option<String>, Option<String>)> = from
        .assignments
        .keys()
        .filter(|name| to.assignments.contains_key(*name))
        .map(|name| (Some(name.clone()), Some(name.clone())))
        .collect();
    let mut there = only(to, from);
    for (workload, mut here) in only(from, to) {
        let others = there.get_mut(&workload);
        if let (1, Some(others)) = (here.len(), others.filter(|others| others.len() == 1)) {
            pairs.push((here.pop(), others.pop()));
        }
        pairs.extend(here.into_iter().map(|name| (Some(name), None)));
    }
    let left = there.into_values().flatten();
    pairs.extend(left.map(|name| (None, Some(name))));
    pairs.sort_by(|a, b| {
        a.0.as_ref()
            .or(a.1.as_ref())
            .cmp(&b.0.as_ref().or(b.1.as_ref()))
    });
    pairs
}

fn compared(cluster_type: &str, mut from: Side, mut to: Side) -> ComparedType {
    let mut assignments = Vec::new();
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    for (here_named, there_named) in pairs(&from, &to) {
        let take = |side: &mut Side, name: &Option<String>| {
            let name = name.as_ref();
            name.and_then(|name| side.assignments.remove(name))
                .unwrap_or_default()
        };
        let here = take(&mut from, &here_named);
        let there = take(&mut to, &there_named);
        let (name, also) = match (here_named, there_named) {
            (Some(here), there) => (here.clone(), there.filter(|there| *there != here)),
            (None, there) => (there.unwrap_or_default(), None),
        };
        let result = result(&here, &there);
        *counts.entry(result).or_default() += 1;
        let (files, more) = match (files_of_first(&here), files_of_first(&there)) {
            (Some(here), Some(there)) => file_changes(here, there, FILES_SHOWN),
            _ => (Vec::new(), 0),
        };
        assignments.push(ComparedAssignment {
            assignment: name,
            also,
            result,
            from: here,
            to: there,
            files,
            more,
        });
    }
    // What differs first; the order by name stays within.
    assignments.sort_by_key(|one| match one.result {
        "other" => 0,
        "only_from" => 1,
        "only_to" => 2,
        "unknown" => 3,
        _ => 4,
    });
    let more = assignments.len().saturating_sub(ASSIGNMENTS_SHOWN);
    assignments.truncate(ASSIGNMENTS_SHOWN);
    ComparedType {
        cluster_type: cluster_type.to_owned(),
        from: from.stream,
        to: to.stream,
        assignments,
        more,
        counts,
    }
}

fn files_of_first(side: &[Variant]) -> Option<&[FileRow]> {
    side.first()?.files.as_deref()
}

/// The same content where every bundle that is looked at brings it, on both sides.
fn result(from: &[Variant], to: &[Variant]) -> &'static str {
    if to.is_empty() {
        return "only_from";
    }
    if from.is_empty() {
        return "only_to";
    }
    let contents: BTreeSet<Option<&String>> = from
        .iter()
        .chain(to)
        .map(|one| one.content.as_ref())
        .collect();
    match (contents.len(), contents.contains(&None)) {
        (1, false) => "same",
        (_, true) if contents.len() <= 2 => "unknown",
        _ => "other",
    }
}
