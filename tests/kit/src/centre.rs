//! A centre: a real fleet with real keys in a folder of its own, that writes real bundles.
//!
//! What comes in: a [`Draft`] of what a bundle is to say, or the commit of a bundle that carries nothing. What goes out:
//! signed bundles, kits for sites and freshness slips. The folder ends with the value.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use outhaul_bundle::fake::MemoryBlobs;
use outhaul_bundle::index::{IndexBytes, Stream, compressed};
use outhaul_bundle::write::{BlobSource, write_bundle};
use outhaul_bundle::{BundleReader, Index, Limits, Volume, write_part};
use outhaul_signer::Kit;
use outhaul_signer::ceremony::{RootChange, StreamChange};
use outhaul_signer::enrol::{FORMAT, KitStream};
use outhaul_signer::fleet::{Fleet, InitOptions};
use outhaul_signer::key::Secret;
use outhaul_signer::publish::SignRequest;

use crate::plain::{self, name};
use crate::{Draft, Site, TOKEN, folder};

/// A fleet, and the folder that its bundles, kits and slips are written to.
#[derive(Debug)]
pub struct Centre {
    /// For what no method here does.
    pub fleet: Fleet,
    folder: tempfile::TempDir,
}

/// The real time: the programs under test read their clock, too.
#[expect(
    clippy::disallowed_methods,
    reason = "signatures must be valid when a program looks"
)]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// What the fleet's keys rest under.
pub fn secret() -> Secret {
    Secret::new("a passphrase of the tests".to_owned())
}

/// When something that is issued now expires.
fn in_90_days() -> Timestamp {
    now() + SignedDuration::from_hours(24 * 90)
}

/// The metadata in a bundle's file, or in a part's.
pub fn metadata(bundle: &Path) -> Vec<(String, Vec<u8>)> {
    let bundle = std::fs::File::open(bundle).unwrap();
    let mut reader = BundleReader::new(bundle, Limits::default());
    reader.read_metadata().unwrap().into_iter().collect()
}

/// The kit of a site of `dev/drone`, for a fleet with this root.
pub fn kit_of(fleet: &str, role: String, site: &str, root: &[u8]) -> Kit {
    Kit {
        format: FORMAT.to_owned(),
        fleet: fleet.to_owned(),
        site: site.to_owned(),
        stream: KitStream {
            role,
            environment: "dev".to_owned(),
            cluster_type: "drone".to_owned(),
        },
        earlier_roots: Vec::new(),
        root: String::from_utf8(root.to_vec()).unwrap(),
        hub_url: String::new(),
        hub_key: String::new(),
        hub_ca: String::new(),
        token: TOKEN.to_owned(),
    }
}

impl Centre {
    /// A fleet of today.
    pub fn new() -> Self {
        Self::made_at(now())
    }

    /// A fleet that was made at a time of its own.
    pub fn made_at(time: Timestamp) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = InitOptions::new(secret(), time);
        let fleet = Fleet::init(&folder.path().join("fleet"), options).unwrap();
        Self { fleet, folder }
    }

    /// Who stole all that the centre has: the same fleet, with the same keys.
    pub fn thief(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stolen = folder.path().join("fleet");
        folder::copy(&self.folder().join("fleet"), &stolen);
        let fleet = Fleet::open(&stolen).unwrap();
        Self { fleet, folder }
    }

    /// The fleet's folder lies in it, as `fleet`, beside what was written.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The fleet's first root.
    pub fn root(&self) -> PathBuf {
        self.fleet.metadata_folder().join("1.root.json")
    }

    /// A stream of the fleet.
    pub fn stream(&self, environment: &str, cluster_type: &str) -> Stream {
        Stream {
            role: name(&self.fleet.role(environment, cluster_type)),
            ..plain::stream(environment, cluster_type)
        }
    }

    /// A site of the fleet, that signs.
    pub fn site(&self, name: &str, stream: &Stream) -> Site {
        let (environment, cluster_type) = (&stream.environment, &stream.cluster_type);
        let mut site = Site::new(name, environment.as_str(), cluster_type.as_str());
        site.stream = stream.clone();
        self.fleet.id().clone_into(&mut site.fleet);
        site
    }

    /// A kit for a site of `dev/drone`.
    pub fn kit(&self, site: &str) -> PathBuf {
        self.kit_with(site, TOKEN, |_| ())
    }

    /// A kit with a separate token and whatever `change` makes of it.
    pub fn kit_with(&self, site: &str, token: &str, change: impl FnOnce(&mut Kit)) -> PathBuf {
        let root = self.fleet.root_bytes().unwrap();
        let role = self.fleet.role("dev", "drone");
        let mut kit = kit_of(self.fleet.id(), role, site, &root);
        token.clone_into(&mut kit.token);
        change(&mut kit);
        self.put(&format!("{site}.kit"), &kit.to_bytes())
    }

    /// Signs an index that is right or wrong, and writes the bundle.
    pub fn write<W: Write>(&self, out: W, index: &Index, blobs: &mut impl BlobSource) -> W {
        let index_bytes = index.to_bytes();
        let compressed = compressed::compressed(&index_bytes).unwrap();
        let request = SignRequest {
            role: index.stream.role.as_str(),
            number: index.number,
            index_bytes: &index_bytes,
            index_compressed: compressed.as_deref(),
            issued: now(),
            expires: in_90_days(),
        };
        let signed = self.fleet.sign_bundle(request, &secret()).unwrap();
        let out = write_bundle(out, &signed.files, &index_bytes, index, blobs).unwrap();
        self.fleet.commit(&signed).unwrap();
        out
    }

    /// Index of a bundle of this fleet that carries nothing; the sites' reports name its digest.
    pub fn plain_index(&self, stream: &Stream, number: u64, commit: &str) -> Index {
        Index {
            fleet: name(self.fleet.id()),
            ..plain::index(stream, number, commit)
        }
    }

    /// Bundle `number` of a stream, that carries nothing.
    pub fn bundle(&self, stream: &Stream, number: u64, commit: &str) -> Vec<u8> {
        let index = self.plain_index(stream, number, commit);
        self.write(Vec::new(), &index, &mut MemoryBlobs::default())
    }

    /// The index of a draft, and its blobs.
    pub fn index(&self, draft: &Draft, number: u64) -> (Index, MemoryBlobs) {
        let stream = self.stream("dev", &draft.cluster_type);
        draft.index(self.fleet.id(), stream, number)
    }

    /// Signs and writes the next bundle of the draft's stream.
    pub fn publish(&self, draft: &Draft) -> PathBuf {
        let role = self.fleet.role("dev", &draft.cluster_type);
        self.publish_as(draft, self.fleet.next_number(&role).unwrap())
    }

    /// The same under a number of the caller's choice.
    pub fn publish_as(&self, draft: &Draft, number: u64) -> PathBuf {
        let (index, mut blobs) = self.index(draft, number);
        let bytes = self.write(Vec::new(), &index, &mut blobs);
        self.put(&format!("{}-{number}.outhaul", draft.cluster_type), &bytes)
    }

    /// Writes one part of bundle `number`, or what it says to be one, under that bundle's metadata.
    pub fn part(
        &self,
        index: &Index,
        volume: &Volume,
        blobs: &mut impl BlobSource,
        name: &str,
    ) -> PathBuf {
        let (of, number) = (&index.stream.cluster_type, index.number);
        let metadata = metadata(&self.folder().join(format!("{of}-{number}.outhaul")));
        let bytes = IndexBytes::listed_in(&index.to_bytes(), &metadata);
        let part = write_part(Vec::new(), &metadata, &bytes, index, volume, blobs);
        self.put(name, &part.unwrap())
    }

    /// The same bundle again, under metadata that was signed since.
    pub fn publish_again(&self, draft: &Draft, number: u64) -> PathBuf {
        let role = self.fleet.role("dev", &draft.cluster_type);
        let slip = self.fleet.slip(&role, 0, now(), in_90_days(), &secret());
        let made = slip.unwrap();
        self.fleet.commit(&made.metadata).unwrap();
        let (index, mut blobs) = self.index(draft, number);
        let first = format!("{}-{number}.outhaul", draft.cluster_type);
        let mut files = BTreeMap::from_iter(metadata(&self.folder().join(first)));
        files.retain(|name, _| !name.ends_with(".snapshot.json"));
        files.extend(made.metadata.files);
        let files: Vec<_> = files.into_iter().collect();
        let bytes = write_bundle(Vec::new(), &files, &index.to_bytes(), &index, &mut blobs);
        self.put("again.outhaul", &bytes.unwrap())
    }

    /// Writes a freshness slip for `dev/<cluster_type>`, signed now.
    pub fn slip(&self, cluster_type: &str) -> PathBuf {
        self.slip_issued(cluster_type, now(), in_90_days())
    }

    /// A freshness slip with its own dates.
    pub fn slip_issued(
        &self,
        cluster_type: &str,
        issued: Timestamp,
        expires: Timestamp,
    ) -> PathBuf {
        let role = self.fleet.role("dev", cluster_type);
        let slip = self.fleet.slip(&role, 0, issued, expires, &secret());
        let made = slip.unwrap();
        self.fleet.commit(&made.metadata).unwrap();
        let version = made.versions["timestamp"];
        self.put(
            &format!("{cluster_type}-{version}.slip"),
            &made.slip.to_bytes(),
        )
    }

    /// The key that signed the bundles of a stream of `dev` is stolen: another one signs from now on.
    pub fn replace_stream_key(&self, cluster_type: &str) {
        let role = self.fleet.role("dev", cluster_type);
        let changes = [StreamChange::Rekey];
        let changed = self.fleet.change_stream(&role, &changes, now(), &secret());
        changed.unwrap();
    }

    /// The keys of snapshot and timestamp are replaced: what the old ones signed of time does not count.
    pub fn rotate_online_keys(&self) {
        let changes = [RootChange::RotateOnline];
        self.fleet.change_root(&changes, now(), &secret()).unwrap();
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}
