//! Where attacks are made: a centre whose every part can be bent, real indexes and blobs, and tars
//! written member by member.
//!
//! What comes in: what a maker changes. What goes out: a [`Play`]: a site's kit, bundles that it takes
//! before, the attack, and bundles that it must still take after. Keys are made again for each play and
//! thrown away with it.

use outhaul_bundle::fake::FakeBundle;
use outhaul_bundle::index::{Assignment, Index, Stream};
use outhaul_bundle::{Digest, Limits};
use outhaul_test_kit::bent::{Centre, Files, ROLE, stream};
use outhaul_test_kit::{Contents, MemoryBlobs, kit_of, plain};

use outhaul_test_kit::archive::{archive, member};

/// The site that every kit is for.
pub const SITE: &str = "press-7";

/// One attack, as it is acted out on a site.
#[derive(Debug)]
pub struct Play {
    /// The site's kit.
    pub kit: Vec<u8>,
    /// What happens, in order.
    pub acts: Vec<Act>,
}

/// One thing that happens to the site.
#[derive(Debug)]
pub enum Act {
    /// A bundle that must become active.
    Take(Vec<u8>),
    /// A bundle that must be refused.
    Refuse(Vec<u8>),
    /// Files of the agent's state that are cut to nothing, as a power cut without fsync would.
    Empty(&'static str),
}

/// The centre and one site's kit of it.
#[derive(Debug)]
pub struct Stage {
    /// What publishes.
    pub centre: Centre,
    kit: Vec<u8>,
    fleet: String,
}

/// A bundle's parts before they are a tar.
#[derive(Debug, Clone)]
pub struct Parts {
    /// Metadata by file name.
    pub metadata: Files,
    /// The bytes of `index.json`.
    pub index: Vec<u8>,
    /// The index as a value.
    pub value: Index,
    /// The blobs.
    pub blobs: MemoryBlobs,
}

impl Stage {
    /// A fleet of two streams; number 1 is never given to a site.
    pub fn new() -> Self {
        let centre = Centre::new();
        let root = &centre.files["1.root.json"];
        let fleet = Digest::of(root).hex()[..16].to_owned();
        let kit = kit_of(&fleet, ROLE.to_owned(), SITE, root);
        Self {
            kit: kit.to_bytes(),
            centre,
            fleet,
        }
    }

    /// The site's kit.
    pub fn kit(&self) -> &[u8] {
        &self.kit
    }

    /// An index of this fleet's stream with one assignment that says `greeting`, and its blobs.
    pub fn index(&self, number: u64, greeting: &str) -> (Index, MemoryBlobs) {
        let mut contents = Contents::default();
        let files = contents.files(&[
            (
                "manifest.yaml".to_owned(),
                format!("greeting: {greeting}\n").into(),
            ),
            ("notes/read-me.txt".to_owned(), b"read me\n".to_vec()),
        ]);
        let (listed, blobs) = contents.encoded();
        let like = FakeBundle::new(number, &[]).unwrap().index;
        let index = Index {
            fleet: self.fleet.parse().unwrap(),
            stream: Stream {
                role: ROLE.parse().unwrap(),
                ..plain::stream("dev", "drone")
            },
            assignments: vec![Assignment {
                files,
                ..like.assignments[0].clone()
            }],
            blobs: listed,
            ..like
        };
        (index, blobs)
    }

    /// Publishes the next number with these index bytes, right or not.
    pub fn publish(&mut self, index: &[u8]) -> Files {
        let number = self.centre.streams[ROLE].version + 1;
        let signed = stream(ROLE, number, index);
        self.centre.streams.insert(ROLE.into(), signed);
        self.centre.publish();
        self.centre.bundle(ROLE)
    }

    /// Publishes the next number, right in everything.
    pub fn next(&mut self, greeting: &str) -> Parts {
        self.next_bent(greeting, |_| {})
    }

    /// Publishes the next number with an index that a bent bundler made and rightly signed.
    pub fn next_bent(&mut self, greeting: &str, bend: impl FnOnce(&mut Index)) -> Parts {
        let (mut value, blobs) = self.index(self.centre.streams[ROLE].version + 1, greeting);
        bend(&mut value);
        let index = value.to_bytes();
        self.parts(value, blobs, index)
    }

    /// Publishes the next number with index text that `bend` changed.
    pub fn next_text(&mut self, greeting: &str, bend: impl FnOnce(String) -> String) -> Parts {
        let (value, blobs) = self.index(self.centre.streams[ROLE].version + 1, greeting);
        let right = String::from_utf8(value.to_bytes()).unwrap();
        let bent = bend(right.clone());
        assert_ne!(right, bent, "the attack changes nothing");
        self.parts(value, blobs, bent.into_bytes())
    }

    fn parts(&mut self, value: Index, blobs: MemoryBlobs, index: Vec<u8>) -> Parts {
        Parts {
            metadata: self.publish(&index),
            index,
            value,
            blobs,
        }
    }

    /// The play in which the site takes `before` and refuses `attack`.
    pub fn refuses(self, before: &[&Parts], attack: &Parts) -> Play {
        self.refuses_bytes(before, &[attack.bytes()])
    }

    /// The play in which the site takes `before` and refuses each of `attacks`.
    pub fn refuses_bytes(self, before: &[&Parts], attacks: &[Vec<u8>]) -> Play {
        let taken = before.iter().map(|parts| Act::Take(parts.bytes()));
        let refused = attacks.iter().map(|bytes| Act::Refuse(bytes.clone()));
        Play {
            acts: taken.chain(refused).collect(),
            kit: self.kit,
        }
    }
}

impl Play {
    /// And afterwards the site takes this.
    pub fn then_takes(mut self, after: &Parts) -> Self {
        self.acts.push(Act::Take(after.bytes()));
        self
    }
}

impl Parts {
    /// The same bundle with other metadata.
    pub fn with_metadata(&self, metadata: Files) -> Self {
        Self {
            metadata,
            ..self.clone()
        }
    }

    /// The members of the tar, in the right order.
    pub fn members(&self) -> Vec<Vec<u8>> {
        let plain = tar::EntryType::Regular;
        let mut metadata: Vec<(&String, &Vec<u8>)> = self.metadata.iter().collect();
        metadata.sort_by_key(|(name, _)| rank(name));
        let mut all: Vec<_> = metadata
            .into_iter()
            .map(|(name, bytes)| member(&format!("metadata/{name}"), plain, bytes))
            .collect();
        all.push(member("index.json", plain, &self.index));
        all.extend(self.value.blobs.iter().map(|blob| {
            let bytes = &self.blobs.by_digest[&blob.digest];
            member(&format!("blobs/sha256/{}", blob.digest.hex()), plain, bytes)
        }));
        all
    }

    /// The tar.
    pub fn bytes(&self) -> Vec<u8> {
        archive(&self.members())
    }

    /// The position of `index.json` among the members.
    pub fn index_at(&self) -> usize {
        self.metadata.len()
    }
}

/// Roots by version, then timestamp, snapshot, targets, stream.
fn rank(name: &str) -> (u8, u64) {
    let version = name
        .split('.')
        .next()
        .and_then(|digits| digits.parse().ok());
    let group = match name {
        name if name.ends_with(".root.json") => 0,
        "timestamp.json" => 1,
        name if name.ends_with(".snapshot.json") => 2,
        name if name.ends_with(".targets.json") => 3,
        _ => 4,
    };
    (group, version.unwrap_or_default())
}

/// The bounds that readers keep.
pub fn limits() -> Limits {
    Limits::default()
}
