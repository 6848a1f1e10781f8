//! Which blobs of an earlier bundle a new one resembles: by what the indexes call their contents.
//!
//! What comes in: two indexes. What goes out: for a blob of the newer one the blobs of the earlier one that have the same
//! contents, files of the same assignments under the same paths, other layers of the same image, or else files with
//! the same names; those with most in common first. It is pure, and reads no blob.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::Digest;
use outhaul_bundle::index::{Blob, Index};

/// Most blobs that one is compared with.
pub const MAX_LIKE: usize = 16;

/// What the contents of an index are called.
#[derive(Debug)]
pub struct Names {
    of: BTreeMap<Digest, BTreeSet<String>>,
}

impl Names {
    /// The names in `index`.
    pub fn of(index: &Index) -> Self {
        let mut names = Self {
            of: BTreeMap::new(),
        };
        for one in &index.assignments {
            for (kind, files) in [("files", &one.files), ("payload", &one.payload)] {
                for file in files {
                    names.add(file.content, format!("{}/{kind}/{}", one.name, file.path));
                }
            }
            for file in one.overlays.iter().flat_map(|overlay| &overlay.files) {
                names.add(file.content, format!("{}/files/{}", one.name, file.path));
            }
        }
        for file in &index.attestations {
            names.add(file.content, format!("attestations/{}", file.path));
        }
        for image in &index.served.images {
            for content in std::iter::once(&image.manifest).chain(&image.blobs) {
                names.add(
                    content.digest,
                    format!("image {}", without_tag(&image.name)),
                );
            }
        }
        for one in &index.served.repositories {
            names.add(one.pack.digest, format!("repository {}", one.url));
        }
        names
    }

    fn add(&mut self, content: Digest, name: String) {
        self.of.entry(content).or_default().insert(name);
    }

    /// What a blob is called, for people: its first content's first name.
    pub fn shown(&self, blob: &Blob) -> String {
        let names = blob
            .contents
            .iter()
            .filter_map(|one| self.of.get(&one.digest));
        let first = names.flatten().next().cloned();
        let first = first.unwrap_or_else(|| format!("blob {}", blob.digest.short()));
        match blob.contents.len() {
            0 | 1 => first,
            count => format!("{first} and {} more", count - 1),
        }
    }
}

/// The name of an image without its tag or digest.
fn without_tag(name: &str) -> &str {
    let name = name.split('@').next().unwrap_or(name);
    let from = name.rfind('/').map_or(0, |at| at + 1);
    let last = name.get(from..).unwrap_or_default();
    match last.find(':') {
        Some(at) => name.get(..from + at).unwrap_or(name),
        None => name,
    }
}

/// The last part of a name, without digits, which are versions more often than not.
fn last(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    last.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// The blobs of an earlier bundle, by what they are called.
#[derive(Debug)]
pub struct Likely<'a> {
    blob_of: BTreeMap<Digest, &'a Blob>,
    by_name: BTreeMap<String, BTreeSet<Digest>>,
    by_last: BTreeMap<String, BTreeSet<Digest>>,
}

impl<'a> Likely<'a> {
    /// Those of `index` that `is_there`, and can be read without a key.
    pub fn of(index: &'a Index, is_there: &dyn Fn(&Blob) -> bool) -> Self {
        let mut likely = Self {
            blob_of: BTreeMap::new(),
            by_name: BTreeMap::new(),
            by_last: BTreeMap::new(),
        };
        let blobs = index.blobs.iter().filter(|blob| blob.sealed.is_none());
        for blob in blobs.filter(|blob| is_there(blob)) {
            let contents = blob.contents.iter();
            likely
                .blob_of
                .extend(contents.map(|one| (one.digest, blob)));
        }
        for (content, names) in Names::of(index).of {
            for name in names {
                likely
                    .by_last
                    .entry(last(&name))
                    .or_default()
                    .insert(content);
                likely.by_name.entry(name).or_default().insert(content);
            }
        }
        likely
    }

    /// What `blob` resembles, at most [`MAX_LIKE`] blobs.
    pub fn like(&self, blob: &Blob, names: &Names) -> Vec<&'a Blob> {
        let mut votes: BTreeMap<Digest, (u64, &Blob)> = BTreeMap::new();
        let mut vote = |content: &Digest, weight: u64| {
            if let Some(blob) = self.blob_of.get(content) {
                votes.entry(blob.digest).or_insert((0, blob)).0 += weight + 1;
            }
        };
        for content in &blob.contents {
            vote(&content.digest, content.size);
            let known = names.of.get(&content.digest).into_iter().flatten();
            for name in known {
                let same = self.by_name.get(name);
                let same = same.or_else(|| self.by_last.get(&last(name)));
                for one in same.into_iter().flatten() {
                    vote(one, content.size);
                }
            }
        }
        let mut found: Vec<(u64, &Blob)> = votes.into_values().collect();
        found.sort_by_key(|(votes, blob)| (std::cmp::Reverse(*votes), blob.digest));
        found.truncate(MAX_LIKE);
        found.into_iter().map(|(_, blob)| blob).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_digests_and_versions_are_no_part_of_a_name() {
        assert_eq!(
            without_tag("docker.io/library/nginx:1.27"),
            "docker.io/library/nginx"
        );
        assert_eq!(without_tag("localhost:5000/a/b"), "localhost:5000/a/b");
        assert_eq!(
            without_tag("localhost:5000/a/b@sha256:00"),
            "localhost:5000/a/b"
        );
        assert_eq!(
            last("press/payload/libx-1.2.3.so"),
            last("press/payload/lib/libx-1.2.14.so")
        );
    }
}
