//! A centre for tests: a real fleet with real keys, that writes real bundles.
//!
//! What comes in: a [`Draft`] of what a bundle is to say. What goes out: a signed `.outhaul` file in
//! the centre's folder, and kits for sites. Keys are made per test; none lies in the repository.
#![expect(clippy::too_many_lines, reason = "one index, field by field")]

use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::{SignedDuration, Timestamp};
use outhaul_bundle::digest::Digest;
use outhaul_bundle::encode::{ContentToEncode, encode_blob, plan_blobs};
use outhaul_bundle::fake::{FakeBundle, MemoryBlobs};
use outhaul_bundle::index::{AgentRelease, Assignment, Content, File, Overlay, Stream, format_of};
use outhaul_bundle::write::write_bundle;
use outhaul_bundle::{BundleReader, Index, Limits, Order};
use outhaul_signer::Kit;
use outhaul_signer::ceremony::{RootChange, StreamChange};
use outhaul_signer::enrol::{FORMAT, KitStream, kit_key};
use outhaul_signer::fleet::{Fleet, InitOptions};
use outhaul_signer::key::Secret;
use outhaul_signer::publish::SignRequest;

pub use crate::draft::{Draft, Load};

/// The one-time token of the kits that do not ask for another.
pub const TOKEN: &str = "00000000000000000000000000000000";

#[derive(Debug)]
pub struct Centre {
    fleet: Fleet,
    pub folder: tempfile::TempDir,
}

/// Bytes that do not compress, the same on every call.
pub fn noise(count: usize) -> Vec<u8> {
    let next = |state: &mut u64| {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        Some((*state >> 56) as u8)
    };
    std::iter::repeat(())
        .scan(7, |state, ()| next(state))
        .take(count)
        .collect()
}

/// The real time: the program under test reads its clock, too.
#[expect(
    clippy::disallowed_methods,
    reason = "signatures must be valid when the program looks"
)]
pub fn now() -> Timestamp {
    Timestamp::now()
}

fn secret() -> Secret {
    Secret::new("a passphrase of the tests".to_owned())
}

impl Centre {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = InitOptions::new(secret(), now());
        let fleet = Fleet::init(&folder.path().join("fleet"), options).unwrap();
        Self { fleet, folder }
    }

    /// Who stole all that the centre has: the same fleet, with the same keys.
    pub fn thief(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let from = self.folder.path().join("fleet");
        let mut copy = Command::new("cp");
        let copied = copy.arg("-a").arg(from).arg(folder.path()).status();
        assert!(copied.unwrap().success());
        let fleet = Fleet::open(&folder.path().join("fleet")).unwrap();
        Self { fleet, folder }
    }

    /// The fleet's id.
    pub fn fleet_id(&self) -> &str {
        self.fleet.id()
    }

    pub fn kit(&self, site: &str) -> PathBuf {
        self.kit_with_hub(site, "")
    }

    /// A kit that names the key of a hub, as PEM.
    pub fn kit_with_hub(&self, site: &str, hub_key: &str) -> PathBuf {
        self.kit_with(site, TOKEN, |kit| hub_key.clone_into(&mut kit.hub_key))
    }

    /// A kit with a separate token and whatever `change` makes of it.
    pub fn kit_with(&self, site: &str, token: &str, change: impl FnOnce(&mut Kit)) -> PathBuf {
        let mut kit = Kit {
            format: FORMAT.to_owned(),
            fleet: self.fleet.id().to_owned(),
            site: site.to_owned(),
            stream: KitStream {
                role: self.fleet.role("dev", "drone"),
                environment: "dev".to_owned(),
                cluster_type: "drone".to_owned(),
            },
            earlier_roots: Vec::new(),
            root: String::from_utf8(self.fleet.root_bytes().unwrap()).unwrap(),
            hub_url: String::new(),
            hub_key: String::new(),
            hub_ca: String::new(),
            token: token.to_owned(),
        };
        change(&mut kit);
        let path = self.folder.path().join(format!("{site}.kit"));
        std::fs::write(&path, kit.to_bytes()).unwrap();
        path
    }

    /// The stream `dev/<cluster_type>`.
    pub fn stream(&self, cluster_type: &str) -> Stream {
        Stream {
            role: self.fleet.role("dev", cluster_type).parse().unwrap(),
            environment: "dev".parse().unwrap(),
            cluster_type: cluster_type.parse().unwrap(),
        }
    }

    /// Signs and writes the next bundle of the draft's stream.
    pub fn publish(&self, draft: &Draft) -> PathBuf {
        let role = self.fleet.role("dev", &draft.cluster_type);
        self.publish_as(draft, self.fleet.next_number(&role).unwrap())
    }

    /// The same under a number of the caller's choice.
    pub fn publish_as(&self, draft: &Draft, number: u64) -> PathBuf {
        let role = self.fleet.role("dev", &draft.cluster_type);
        let (index, mut blobs) = self.index(draft, number);
        let index_bytes = index.to_bytes();
        let issued = now();
        let request = SignRequest {
            role: &role,
            number,
            index_bytes: &index_bytes,
            issued,
            expires: issued + SignedDuration::from_hours(24 * 90),
        };
        let signed = self.fleet.sign_bundle(request, &secret()).unwrap();
        let bytes = write_bundle(Vec::new(), &signed.files, &index_bytes, &index, &mut blobs);
        self.fleet.commit(&signed).unwrap();
        let path = self
            .folder
            .path()
            .join(format!("{}-{number}.outhaul", draft.cluster_type));
        std::fs::write(&path, bytes.unwrap()).unwrap();
        path
    }

    /// The same bundle again, under metadata that was signed since.
    pub fn publish_again(&self, draft: &Draft, number: u64) -> PathBuf {
        let role = self.fleet.role("dev", &draft.cluster_type);
        let expires = now() + SignedDuration::from_hours(24 * 90);
        let made = self
            .fleet
            .slip(&role, 0, now(), expires, &secret())
            .unwrap();
        self.fleet.commit(&made.metadata).unwrap();
        let (index, mut blobs) = self.index(draft, number);
        let first = self
            .folder
            .path()
            .join(format!("{}-{number}.outhaul", draft.cluster_type));
        let first = std::fs::File::open(first).unwrap();
        let mut files = BundleReader::new(first, Limits::default())
            .read_metadata()
            .unwrap();
        files.retain(|name, _| !name.ends_with(".snapshot.json"));
        files.extend(made.metadata.files.clone());
        let files: Vec<_> = files.into_iter().collect();
        let bytes = write_bundle(Vec::new(), &files, &index.to_bytes(), &index, &mut blobs);
        let path = self.folder.path().join("again.outhaul");
        std::fs::write(&path, bytes.unwrap()).unwrap();
        path
    }

    /// Writes a freshness slip for `dev/<cluster_type>`, signed now.
    pub fn slip(&self, cluster_type: &str) -> PathBuf {
        self.slip_issued(
            cluster_type,
            now(),
            now() + SignedDuration::from_hours(24 * 90),
        )
    }

    /// A freshness slip with its own dates.
    pub fn slip_issued(
        &self,
        cluster_type: &str,
        issued: Timestamp,
        expires: Timestamp,
    ) -> PathBuf {
        let role = self.fleet.role("dev", cluster_type);
        let made = self
            .fleet
            .slip(&role, 0, issued, expires, &secret())
            .unwrap();
        self.fleet.commit(&made.metadata).unwrap();
        let version = made.versions["timestamp"];
        let path = self
            .folder
            .path()
            .join(format!("{cluster_type}-{version}.slip"));
        std::fs::write(&path, made.slip.to_bytes()).unwrap();
        path
    }

    /// The key that signed the bundles of `dev/drone` is stolen: another one signs from now on.
    pub fn replace_stream_key(&self) {
        let role = self.fleet.role("dev", "drone");
        let changes = [StreamChange::Rekey];
        self.fleet
            .change_stream(&role, &changes, now(), &secret())
            .unwrap();
    }

    /// The keys of snapshot and timestamp are replaced: what the old ones signed of time does not count.
    pub fn rotate_online_keys(&self) {
        let changes = [RootChange::RotateOnline];
        self.fleet.change_root(&changes, now(), &secret()).unwrap();
    }

    pub fn index(&self, draft: &Draft, number: u64) -> (Index, MemoryBlobs) {
        let (mut contents, mut blobs) = (MemoryBlobs::default(), MemoryBlobs::default());
        let mut candidates = Vec::new();
        let mut index = FakeBundle::new(number, &[]).unwrap().index;
        index.fleet = self.fleet.id().parse().unwrap();
        index.stream = Stream {
            role: self.fleet.role("dev", &draft.cluster_type).parse().unwrap(),
            environment: "dev".parse().unwrap(),
            cluster_type: draft.cluster_type.parse().unwrap(),
        };
        index.reconciler.drift = draft.drift;
        index.waves.clone_from(&draft.waves);
        index.orders = draft
            .orders
            .iter()
            .map(|(token, order)| {
                let key = kit_key(self.fleet.id(), order.site.as_str(), token);
                Order {
                    enrolment: Digest::from_hex(&key.public().id()).unwrap(),
                    ..order.clone()
                }
            })
            .collect();
        index.reconciler.kind = draft.kind.parse().unwrap();
        index.recipients = draft
            .recipients
            .iter()
            .map(|name| name.parse().unwrap())
            .collect();
        let mut listed = |files: &[(String, Vec<u8>)]| {
            let mut listed: Vec<_> = files
                .iter()
                .map(|(path, bytes)| {
                    let (digest, size) = (contents.put(bytes.clone()), bytes.len() as u64);
                    candidates.push(ContentToEncode {
                        digest,
                        size,
                        path: path.clone(),
                    });
                    let path = path.parse().unwrap();
                    File {
                        path,
                        content: digest,
                        size,
                        executable: false,
                    }
                })
                .collect();
            listed.sort_unstable_by(|a, b| a.path.cmp(&b.path));
            listed
        };
        index.assignments = draft
            .loads
            .iter()
            .map(|load| Assignment {
                name: load.name.parse().unwrap(),
                workload: load.name.clone(),
                workspace: "kaizen".to_owned(),
                policies: vec!["default".to_owned()],
                config_version: Digest::of(load.name.as_bytes()),
                files: listed(&load.files),
                payload: listed(&load.payload),
                sites: load
                    .sites
                    .as_ref()
                    .map(|sites| sites.iter().map(|site| site.parse().unwrap()).collect()),
                overlays: load
                    .overlays
                    .iter()
                    .map(|(site, files)| Overlay {
                        sites: [site.parse().unwrap()].into(),
                        config_version: Digest::of(site.as_bytes()),
                        files: listed(files),
                    })
                    .collect(),
                site_values: load.site_values.clone(),
                bootstrap: load.bootstrap.map(|kind| kind.parse().unwrap()),
            })
            .collect();
        if let Some((version, program)) = &draft.agent {
            let (digest, size) = (contents.put(program.clone()), program.len() as u64);
            let path = "agent".to_owned();
            candidates.push(ContentToEncode { digest, size, path });
            index.agent = Some(AgentRelease {
                version: (*version).to_owned(),
                programs: [(std::env::consts::ARCH.to_owned(), Content { digest, size })].into(),
            });
        }
        index
            .assignments
            .sort_unstable_by(|a, b| a.name.cmp(&b.name));
        index.format = format_of(
            &index.assignments,
            &index.served,
            index.waves.as_ref(),
            index.agent.as_ref(),
        )
        .to_owned();
        index.blobs.clear();
        for plan in plan_blobs(&candidates) {
            let (blob, bytes) = encode_blob(&plan, &mut contents, Vec::new()).unwrap();
            blobs.put(bytes);
            index.blobs.push(blob);
        }
        (index, blobs)
    }
}

/// A bundle as a web server has it: the same members, unpacked.
pub fn unpack_for_web(bundle: &Path, folder: &Path) {
    let mut reader = BundleReader::new(std::fs::File::open(bundle).unwrap(), Limits::default());
    let put = |path: String, bytes: &[u8]| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let metadata = reader.read_metadata().unwrap();
    let role = metadata.values().find_map(|bytes| {
        let value: serde_json::Value = serde_json::from_slice(bytes).ok()?;
        let targets = value["signed"]["targets"].as_object()?.clone();
        let (path, target) = targets
            .iter()
            .find(|(path, _)| path.ends_with("/index.json"))?;
        let digest = target["hashes"]["sha256"].as_str()?.to_owned();
        let role = path.split('/').next()?.to_owned();
        Some((role, digest, target["length"].as_u64()?))
    });
    let (role, digest, size) = role.unwrap();
    for (name, bytes) in &metadata {
        put(format!("metadata/{name}"), bytes);
    }
    let content = Content {
        digest: Digest::from_hex(&digest).unwrap(),
        size,
    };
    let (index, bytes) = reader.read_index(&content).unwrap();
    put(format!("targets/{role}/{digest}.index.json"), &bytes);
    let mut blobs = MemoryBlobs::default();
    reader.read_blobs(&index, &mut blobs).unwrap();
    for (digest, bytes) in &blobs.by_digest {
        put(format!("blobs/sha256/{}", digest.hex()), bytes);
    }
}

/// Writes `bytes` beside `bundle` under another name.
pub fn beside(bundle: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = bundle.with_file_name(name);
    std::fs::write(&path, bytes).unwrap();
    path
}
