//! How much an index lists, counted before any of it is kept.
//!
//! What comes in: the bytes of an index. What goes out: how many entries its lists have, all lists of one
//! kind together, or the first one that is beyond what a site can need. A short entry costs a few bytes on
//! the wire and a hundred in memory: an index within its size could fill a site's memory by its lists
//! alone. This pass keeps nothing but sums. It trusts nothing: the index is read and checked after it.

use std::fmt;
use std::ops::AddAssign;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::limits::Limits;

/// What of an index is counted.
#[derive(Deserialize)]
pub(super) struct Shape {
    pub(super) format: String,
    #[serde(default)]
    recipients: Count,
    #[serde(default)]
    snapshot: SnapshotShape,
    #[serde(default)]
    reconciler: ReconcilerShape,
    #[serde(default)]
    waves: Option<WavesShape>,
    #[serde(default)]
    assignments: Sum<AssignmentShape>,
    #[serde(default)]
    served: ServedShape,
    #[serde(default)]
    kept: Count,
    #[serde(default)]
    orders: Count,
    #[serde(default)]
    attestations: Count,
    #[serde(default)]
    blobs: Sum<BlobShape>,
}

#[derive(Default, Deserialize)]
struct SnapshotShape {
    #[serde(default)]
    workloads: Count,
}

#[derive(Default, Deserialize)]
struct ReconcilerShape {
    #[serde(default)]
    settings: Count,
}

#[derive(Default, Deserialize)]
struct WavesShape {
    #[serde(default)]
    waves: Count,
}

#[derive(Default, Deserialize)]
struct ServedShape {
    #[serde(default)]
    images: Sum<ImageShape>,
    #[serde(default)]
    repositories: Sum<RepositoryShape>,
}

#[derive(Default, Deserialize)]
struct ImageShape {
    #[serde(default)]
    blobs: Count,
}

#[derive(Default, Deserialize)]
struct RepositoryShape {
    #[serde(default)]
    refs: Count,
    #[serde(default)]
    shallow: Count,
}

#[derive(Default, Deserialize)]
struct AssignmentShape {
    #[serde(default)]
    policies: Count,
    #[serde(default)]
    sites: Count,
    #[serde(default)]
    files: Count,
    #[serde(default)]
    payload: Count,
    #[serde(default)]
    overlays: Sum<OverlayShape>,
    #[serde(default)]
    site_values: Option<SiteValuesShape>,
}

#[derive(Default, Deserialize)]
struct SiteValuesShape {
    #[serde(default)]
    keys: Sum<RuleShape>,
}

#[derive(Default, Deserialize)]
struct RuleShape {
    #[serde(default, rename = "type")]
    allowed: Choices,
}

#[derive(Default, Deserialize)]
struct OverlayShape {
    #[serde(default)]
    sites: Count,
    #[serde(default)]
    files: Count,
}

#[derive(Default, Deserialize)]
struct BlobShape {
    #[serde(default)]
    contents: Count,
    #[serde(default)]
    sealed: Option<SealedShape>,
}

#[derive(Default, Deserialize)]
struct SealedShape {
    #[serde(default)]
    recipients: Count,
}

impl AddAssign for AssignmentShape {
    fn add_assign(&mut self, other: Self) {
        self.policies += other.policies;
        self.sites += other.sites;
        self.files += other.files;
        self.payload += other.payload;
        self.overlays += other.overlays;
        if let Some(more) = other.site_values {
            self.site_values.get_or_insert_default().keys += more.keys;
        }
    }
}

impl AddAssign for RuleShape {
    fn add_assign(&mut self, other: Self) {
        self.allowed.0 += other.allowed.0;
    }
}

impl AddAssign for ImageShape {
    fn add_assign(&mut self, other: Self) {
        self.blobs += other.blobs;
    }
}

impl AddAssign for RepositoryShape {
    fn add_assign(&mut self, other: Self) {
        self.refs += other.refs;
        self.shallow += other.shallow;
    }
}

impl AddAssign for OverlayShape {
    fn add_assign(&mut self, other: Self) {
        self.sites += other.sites;
        self.files += other.files;
    }
}

impl AddAssign for BlobShape {
    fn add_assign(&mut self, other: Self) {
        self.contents += other.contents;
        let more = other.sealed.unwrap_or_default();
        self.sealed.get_or_insert_default().recipients += more.recipients;
    }
}

impl Shape {
    /// The first list that is longer than a site can need: what it holds, how many, and the limit.
    pub(super) fn beyond(&self, limits: &Limits) -> Option<(&'static str, usize, usize)> {
        let assignments = &self.assignments.sum;
        let overlays = &assignments.overlays;
        let sealed = self.blobs.sum.sealed.as_ref();
        let served = &self.served;
        let files = [
            assignments.files.0,
            assignments.payload.0,
            overlays.sum.files.0,
            self.attestations.0,
            served.images.count,
            served.images.sum.blobs.0,
            served.repositories.count,
            served.repositories.sum.refs.0,
            served.repositories.sum.shallow.0,
        ];
        let names = [
            self.recipients.0,
            assignments.sites.0,
            overlays.sum.sites.0,
            sealed.map_or(0, |sealed| sealed.recipients.0),
        ];
        let open = assignments.site_values.as_ref().map(|open| &open.keys);
        let settings = [
            assignments.policies.0,
            self.reconciler.settings.0,
            open.map_or(0, |keys| keys.count),
            open.map_or(0, |keys| keys.sum.allowed.0.0),
            self.waves.as_ref().map_or(0, |waves| waves.waves.0),
        ];
        let sources = [self.snapshot.workloads.0, self.kept.0];
        let counted = [
            ("recipients", self.recipients.0, limits.max_recipients),
            ("names of sites", total(&names), limits.max_site_names),
            ("orders", self.orders.0, limits.max_orders),
            (
                "assignments",
                self.assignments.count,
                limits.max_assignments,
            ),
            ("overlays", overlays.count, limits.max_overlays),
            ("files", total(&files), limits.max_files),
            (
                "policies and settings",
                total(&settings),
                limits.max_settings,
            ),
            ("sources", total(&sources), limits.max_assignments * 2),
            ("blobs", self.blobs.count, limits.max_blobs),
            ("contents", self.blobs.sum.contents.0, limits.max_files),
        ];
        counted.into_iter().find(|(_, found, max)| found > max)
    }
}

fn total(counts: &[usize]) -> usize {
    counts.iter().fold(0, |sum, one| sum.saturating_add(*one))
}

/// How many entries a list or map has.
#[derive(Default)]
struct Count(usize);

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counting;
        impl<'de> Visitor<'de> for Counting {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list or a map")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }
        }
        deserializer.deserialize_any(Counting)
    }
}

/// How many entries a list has, and the sum of what they list in turn.
#[derive(Default)]
struct Sum<T> {
    count: usize,
    sum: T,
}

impl<T: AddAssign> AddAssign for Sum<T> {
    fn add_assign(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum += other.sum;
    }
}

impl<'de, T: Deserialize<'de> + Default + AddAssign> Deserialize<'de> for Sum<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Summing<T>(Sum<T>);
        impl<'de, T: Deserialize<'de> + AddAssign> Visitor<'de> for Summing<T> {
            type Value = Sum<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list or a map")
            }

            fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Sum<T>, A::Error> {
                while let Some(one) = list.next_element::<T>()? {
                    self.0.count += 1;
                    self.0.sum += one;
                }
                Ok(self.0)
            }

            fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Sum<T>, A::Error> {
                while let Some((_, one)) = map.next_entry::<IgnoredAny, T>()? {
                    self.0.count += 1;
                    self.0.sum += one;
                }
                Ok(self.0)
            }
        }
        deserializer.deserialize_any(Summing(Self::default()))
    }
}

/// How many choices a rule lists; every other rule lists none.
#[derive(Default)]
struct Choices(Count);

impl<'de> Deserialize<'de> for Choices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choosing;
        impl<'de> Visitor<'de> for Choosing {
            type Value = Choices;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rule")
            }

            fn visit_str<E>(self, _: &str) -> Result<Choices, E> {
                Ok(Choices::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Choices, A::Error> {
                let mut choices = Choices::default();
                while let Some((_, counted)) = map.next_entry::<IgnoredAny, Count>()? {
                    choices.0 += counted;
                }
                Ok(choices)
            }
        }
        deserializer.deserialize_any(Choosing)
    }
}
