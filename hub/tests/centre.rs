//! A centre for tests: a real fleet with real keys, that writes real bundles carrying no blobs.

use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use outhaul_bundle::Index;
use outhaul_bundle::index::{Blob, Stream};
use outhaul_bundle::write::{BlobSource, write_bundle};
use outhaul_signer::ceremony::{RootChange, StreamChange};
use outhaul_signer::fleet::{Fleet, InitOptions};

use outhaul_signer::key::Secret;
use outhaul_signer::publish::SignRequest;

use crate::fake::{self, Site};

#[derive(Debug)]
pub struct Centre {
    fleet: Fleet,
    folder: PathBuf,
}

struct NoBlobs;

impl BlobSource for NoBlobs {
    fn open(&mut self, _: &Blob) -> std::io::Result<Box<dyn std::io::Read + '_>> {
        Err(std::io::Error::other(
            "no bundle of these tests carries a blob",
        ))
    }
}

/// The real time: the program under test reads its clock too.
#[expect(
    clippy::disallowed_methods,
    reason = "signatures must be valid when the program looks"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

fn secret() -> Secret {
    Secret::new("a passphrase of the tests".to_owned())
}

impl Centre {
    pub fn new(folder: &Path) -> Self {
        let options = InitOptions::new(secret(), now());
        let fleet = Fleet::init(&folder.join("fleet"), options).unwrap();
        std::fs::write(folder.join("1.root.json"), fleet.root_bytes().unwrap()).unwrap();
        Self {
            fleet,
            folder: folder.to_owned(),
        }
    }

    /// Who stole all that the centre has: the same fleet, with the same keys.
    pub fn thief(&self, folder: &Path) -> Self {
        let mut copy = std::process::Command::new("cp");
        let from = self.folder.join("fleet");
        let copied = copy.arg("-a").arg(from).arg(folder).status();
        assert!(copied.unwrap().success());
        Self {
            fleet: Fleet::open(&folder.join("fleet")).unwrap(),
            folder: folder.to_owned(),
        }
    }

    /// What a fleet does after a theft: new online keys, and a new key for the stream; those of before are revoked.
    pub fn replace_keys(&self, stream: &Stream) {
        let online = [RootChange::RotateOnline];
        self.fleet.change_root(&online, now(), &secret()).unwrap();
        let role = stream.role.as_str();
        let changes = [StreamChange::Rekey];
        self.fleet
            .change_stream(role, &changes, now(), &secret())
            .unwrap();
    }

    pub fn root(&self) -> PathBuf {
        self.folder.join("1.root.json")
    }

    pub fn stream(&self, environment: &str, cluster_type: &str) -> Stream {
        let role = self.fleet.role(environment, cluster_type);
        Stream {
            role: fake::name(&role),
            ..fake::stream(environment, cluster_type)
        }
    }

    pub fn site(&self, name: &str, stream: &Stream) -> Site {
        let mut site = Site::new(
            name,
            stream.environment.as_str(),
            stream.cluster_type.as_str(),
        );
        site.stream = stream.clone();
        self.fleet.id().clone_into(&mut site.fleet);
        site
    }

    /// Index of a bundle of this fleet; the sites' reports name its digest.
    pub fn index(&self, stream: &Stream, number: u64, commit: &str) -> Index {
        Index {
            fleet: fake::name(self.fleet.id()),
            ..fake::index(stream, number, commit)
        }
    }

    /// Signs and writes bundle `number` of a stream.
    pub fn bundle(&mut self, stream: &Stream, number: u64, commit: &str) -> Vec<u8> {
        let index = self.index(stream, number, commit);
        let index_bytes = index.to_bytes();
        let now = now();
        let request = SignRequest {
            role: stream.role.as_str(),
            number,
            index_bytes: &index_bytes,
            issued: now,
            expires: now + SignedDuration::from_hours(24 * 90),
        };
        let signed = self.fleet.sign_bundle(request, &secret()).unwrap();
        let bytes = write_bundle(
            Vec::new(),
            &signed.files,
            &index_bytes,
            &index,
            &mut NoBlobs,
        )
        .unwrap();
        self.fleet.commit(&signed).unwrap();
        bytes
    }
}
