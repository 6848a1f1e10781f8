//! Accepting a bundle: from the agent's folder, which another user writes to, into the helper's own.
//!
//! What comes in: a number and the digest of an index. What goes out: a generation in the helper's folder
//! that the fleet's metadata accounts for: signatures from the root of this site's enrolment on, stream and
//! recipient, expiry, a number not below the highest ever accepted (or the very bundle that was accepted
//! before), and each blob against its digest while it is copied. Files are opened without following links,
//! regular files only, and read up to what is signed. Nothing is applied here.

use outhaul_signer::key::MAX_KEY_BYTES;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use outhaul_bundle::digest::Hasher;
use outhaul_bundle::index::{Blob, Stream};
use outhaul_bundle::{BlobSink as _, Digest, Index, Instruction};
use outhaul_kit::media::{Bounds, Media, Unexpected};
use outhaul_kit::text::chain;
use outhaul_seal::Identity;
use outhaul_signer::trust::{self, SourceError, TrustError};
use outhaul_signer::{Acceptance, MetadataSource};

use super::{Helper, RequestFailure, generation, refused};
use crate::blobs::Blobs;
use crate::cut;
use crate::durable::{self, FileError};
use crate::facilities::Facilities as _;
use crate::generation::{self as unpacked, GenerationError};
use crate::host::Host;
use crate::machine::State;
use crate::state::clock;
use crate::state::generations::{self, Generation, is_taken_back};
use crate::state::{Note, StateError, floors, inventory};

/// Bundles that are kept beside those of which something is on this host.
const KEPT: usize = 2;
/// Most keys that are taken from the agent's folder.
const MAX_KEYS: usize = 64;
const COPY_BYTES: usize = 256 * 1024;

/// The metadata that the agent accepted, as it lies beside its generation: unverified.
struct HandedOver<'a> {
    agent: &'a Media,
    number: u64,
}

impl MetadataSource for HandedOver<'_> {
    fn fetch(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, SourceError> {
        let plain = name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if !plain {
            return Ok(None);
        }
        let versioned = name
            .split_once('.')
            .filter(|(version, _)| version.bytes().all(|b| b.is_ascii_digit()));
        let path = match versioned {
            Some((_, "root.json")) => Path::new("roots").join(name),
            Some((_, bare)) => generation(self.number).join("metadata").join(bare),
            None => generation(self.number).join("metadata").join(name),
        };
        self.agent
            .read(&path, max_bytes)
            .map_err(|error| SourceError::Unreadable {
                name: name.to_owned(),
                reason: error.to_string(),
            })
    }
}

/// What was found where the agent's file should be: a trick, or a disk that fails.
pub(super) fn of_the_agent(error: FileError) -> RequestFailure {
    let source = error.source.get_ref();
    let trick = source.is_some_and(<dyn std::error::Error + Send + Sync>::is::<Unexpected>);
    if trick {
        refused("handed-over", error.to_string())
    } else {
        error.into()
    }
}

fn missing(path: &Path) -> RequestFailure {
    refused(
        "handed-over",
        format!("`{}` is not in the agent's folder", path.display()),
    )
}

impl Helper {
    /// The index of a bundle as this site gets it; accepts the bundle first where that is still to be done.
    pub(super) fn accepted(
        &mut self,
        number: u64,
        digest: &Digest,
    ) -> Result<Index, RequestFailure> {
        let row = generations::one(self.store.read(), number)?;
        let row = row.filter(|row| row.index == *digest);
        if let Some(row) = row {
            if let Ok(index) =
                unpacked::read_index(&self.state_folder, number, digest, &self.limits)
            {
                return Ok(index.for_site(&self.site.name));
            }
            // Its folder was lost. The digest was accepted, so that the same content is, too.
            let (index, bytes) = self.handed_over(number, digest)?;
            self.copy(&index, &bytes)?;
            tracing::info!(number = row.number, "its folder was brought back");
            return Ok(index);
        }
        let (index, bytes) = self.handed_over(number, digest)?;
        self.follows(&index)?;
        let acceptance = self.verify(number, digest)?;
        self.check(&index, &acceptance)?;
        self.copy(&index, &bytes)?;
        self.commit(&index, *digest, &acceptance)?;
        Ok(index)
    }

    /// The index that the agent has under a number, if it is the one that is meant.
    fn handed_over(
        &self,
        number: u64,
        digest: &Digest,
    ) -> Result<(Index, Vec<u8>), RequestFailure> {
        let path = generation(number).join("index.json");
        let bytes = self
            .agent
            .read(&path, self.limits.max_index_bytes)
            .map_err(of_the_agent)?
            .ok_or_else(|| missing(&path))?;
        let found = Digest::of(&bytes);
        if found != *digest {
            return Err(refused(
                "content",
                format!("the index of bundle {number} is {found}, asked for is {digest}"),
            ));
        }
        let index = Index::from_bytes(&bytes, &self.limits)
            .map_err(|error| refused("content", format!("the index: {error}")))?;
        Ok((index.for_site(&self.site.name), bytes))
    }

    /// Whether the helper was set up for the stream that an index names. The agent may follow another one since,
    /// by an order that the helper does not take from it: no bundle's fault, and root's to say.
    fn follows(&self, index: &Index) -> Result<(), RequestFailure> {
        let own = &self.site.stream;
        if index.stream == *own {
            return Ok(());
        }
        let name = |stream: &Stream| format!("{}/{}", stream.environment, stream.cluster_type);
        Err(RequestFailure::Unable {
            problem: format!(
                "bundle {} is for {}, the apply helper was set up for {}",
                index.number,
                name(&index.stream),
                name(own)
            ),
            help: "after a move set it up again, as root: `outhaul-agent apply-helper init --again`; the work goes on \
                   by itself then"
                .into(),
        })
    }

    /// What the fleet's metadata says of the site's stream.
    fn verify(&self, number: u64, digest: &Digest) -> Result<Acceptance, RequestFailure> {
        let db = self.store.read();
        let floors = floors::floors(db, &self.state_folder.floors())?;
        let trusted = floors::trusted(db)?;
        let now = clock::now(db, Host.clocks(&self.config.clock))?.policy();
        let source = HandedOver {
            agent: &self.agent,
            number,
        };
        let role = self.site.stream.role.as_str();
        let acceptance =
            trust::verify(&trusted, &floors, &source, role, now).map_err(|e| refusal(&e))?;
        let signed = Digest::from_bytes(acceptance.index_sha256);
        if (acceptance.number, signed) != (number, *digest) {
            return Err(refused(
                "mix-and-match",
                format!(
                    "the signed metadata is of bundle {} with the index {signed}, asked for is bundle {number} \
                     with {digest}",
                    acceptance.number
                ),
            ));
        }
        if let Some(why) = acceptance.refused_as_new() {
            return Err(refused("expired", format!("bundle {number}: {why}")));
        }
        Ok(acceptance)
    }

    /// Whether a signed index is for this site.
    fn check(&self, index: &Index, acceptance: &Acceptance) -> Result<(), RequestFailure> {
        let site = &self.site;
        let number = index.number;
        if index.fleet != site.fleet {
            let message = format!(
                "it is of fleet `{}`, this site is of `{}`",
                index.fleet, site.fleet
            );
            return Err(refused("fleet", message));
        }
        if !index.recipients.is_empty() && !index.recipients.contains(&site.name) {
            let message = format!("bundle {number} is not for `{}`", site.name);
            return Err(refused("recipient", message));
        }
        if index.number != acceptance.number || index.requires.is_some() {
            return Err(refused("mix-and-match", "the index is of another bundle"));
        }
        let revoked = index.orders.iter().any(|order| {
            order.site == site.name
                && Some(order.enrolment) == site.enrolment
                && order.what == Instruction::Revoke
        });
        if revoked {
            return Err(refused(
                "revoked",
                format!("bundle {number} revokes this site"),
            ));
        }
        let other = generations::one(self.store.read(), number)?;
        if other.is_some_and(|row| !is_taken_back(&row, &acceptance.trusted)) {
            let message = format!("another bundle {number} was accepted before");
            return Err(refused("mix-and-match", message));
        }
        Ok(())
    }

    /// Copies what an index needs, each blob against its digest, and unpacks it: whole or not at all.
    pub(super) fn copy(&mut self, index: &Index, bytes: &[u8]) -> Result<(), RequestFailure> {
        let mut blobs = Blobs::new(&self.state_folder);
        blobs.clear_partial()?;
        self.check_space(blobs.missing_bytes(&index.blobs), index)?;
        for blob in &index.blobs {
            self.copy_blob(&mut blobs, blob)?;
        }
        blobs.sync()?;
        let keys = self.copy_keys()?;
        let none = BTreeMap::default();
        let done = unpacked::unpack(
            &self.state_folder,
            &blobs,
            index,
            bytes,
            &none,
            &self.limits,
        );
        // Only the unpacked files are needed from now on.
        blobs.retain(&BTreeSet::new())?;
        done.map_err(|error| match error {
            GenerationError::File(_) | GenerationError::Secrets(_) => error.into(),
            other if other.is_environment() => other.into(),
            other => refused(other.rule(), other.to_string()),
        })?;
        self.drop_other_keys(keys.as_ref())
    }

    fn copy_blob(&self, blobs: &mut Blobs, blob: &Blob) -> Result<(), RequestFailure> {
        let path = Path::new("blobs/sha256").join(blob.digest.hex());
        if self.copy_plain(blobs, blob)? {
            return Ok(());
        }
        let disk = |error: std::io::Error| durable::at("copy", &path)(error);
        let file = self.agent.open_file(&path).map_err(of_the_agent)?;
        let mut from = file
            .ok_or_else(|| missing(&path))?
            .take(blob.size.saturating_add(1));
        let mut hasher = Hasher::new();
        let mut length = 0;
        {
            let Some(mut to) = blobs.begin(blob).map_err(disk)? else {
                return Ok(());
            };
            let mut buffer = vec![0; COPY_BYTES];
            loop {
                let count = from.read(&mut buffer).map_err(disk)?;
                let Some(read) = buffer.get(..count).filter(|read| !read.is_empty()) else {
                    break;
                };
                length += read.len() as u64;
                hasher.write_all(read).map_err(disk)?;
                to.write_all(read).map_err(disk)?;
            }
            to.flush().map_err(disk)?;
        }
        if (length, hasher.finish().0) != (blob.size, blob.digest) {
            blobs.discard(blob);
            let message = format!("`{}` is not what the signed index names", path.display());
            return Err(refused("content", message));
        }
        Ok(blobs.commit(blob).map_err(disk)?)
    }

    /// Keys that open what is sealed say nothing about whom to trust: the helper has those of the agent's
    /// folder, as they are now, without what is not a key. Returns them; `None` when that folder is not there.
    /// None is removed here: what is refused afterwards must find the keys that open what runs.
    fn copy_keys(&self) -> Result<Option<BTreeSet<PathBuf>>, RequestFailure> {
        let bounds = Bounds {
            depth: 0,
            entries: 4 * MAX_KEYS,
            kept: MAX_KEYS,
        };
        let from = self.agent.subfolder("identities").map_err(of_the_agent)?;
        let Some(from) = from else {
            return Ok(None);
        };
        let found = from.files(bounds, |name| name.as_bytes().ends_with(b".age"))?;
        let own = self.state_folder.identities();
        durable::make_folder(&own)?;
        let mut kept = BTreeSet::new();
        for name in &found.files {
            let Ok(Some(bytes)) = from.read(name, MAX_KEY_BYTES) else {
                continue;
            };
            let to = own.join(format!("{:.32}.age", Digest::of(&bytes).hex()));
            if !to.exists() {
                let new = own.join("key.new");
                durable::write(&new, &bytes, 0o600)?;
                if Identity::load(&new).is_err() {
                    continue;
                }
                durable::rename(&new, &to)?;
            }
            kept.insert(to);
        }
        Ok(Some(kept))
    }

    /// Removes the keys that the agent's folder has no more, once a bundle was copied whole without them.
    fn drop_other_keys(&self, kept: Option<&BTreeSet<PathBuf>>) -> Result<(), RequestFailure> {
        let Some(kept) = kept else { return Ok(()) };
        for known in durable::list(&self.state_folder.identities())? {
            if !kept.contains(&known) {
                durable::remove_file(&known)?;
            }
        }
        Ok(())
    }

    fn check_space(&self, missing: u64, index: &Index) -> Result<(), RequestFailure> {
        const MIB: u64 = 1024 * 1024;
        let reserve = self.config.min_free_mb.saturating_mul(MIB);
        let needed = unpacked::unpacked_bytes(index)
            .saturating_add(missing)
            .saturating_add(reserve);
        let free = durable::free_bytes(self.state_folder.root())?;
        if free >= needed {
            return Ok(());
        }
        Err(RequestFailure::Unable {
            problem: format!(
                "not enough space in `{}`: {} MiB are needed, {} MiB are free",
                self.state_folder.root().display(),
                needed.div_ceil(MIB),
                free / MIB
            ),
            help: "free that much; the agent tries again".into(),
        })
    }

    /// Floors first, in the file and then with everything else in one transaction.
    fn commit(
        &mut self,
        index: &Index,
        digest: Digest,
        found: &Acceptance,
    ) -> Result<(), RequestFailure> {
        floors::write_sidecar(
            self.store.read(),
            &self.state_folder.floors(),
            &found.versions,
        )?;
        cut::here("helper-floors-raised");
        let mut reading = clock::now(self.store.read(), Host.clocks(&self.config.clock))?;
        let row = row(
            index,
            digest,
            found.trusted.stream_signers(index.stream.role.as_str()),
        );
        let kept = self.store.commit(|db| {
            floors::store(db, &found.versions)?;
            floors::store_trusted(db, &found.trusted)?;
            reading.accept(db, found)?;
            generations::put(db, &row)?;
            let used: BTreeSet<u64> = inventory::items(db, None)?
                .into_iter()
                .map(|item| item.generation)
                .collect();
            let mut others = KEPT;
            let mut kept = BTreeSet::new();
            for known in generations::all(db)? {
                // A higher number than the newest accepted was signed by a key that is gone.
                let keep = known.number == row.number
                    || used.contains(&known.number)
                    || (known.number < row.number && others > 0);
                if keep {
                    if known.number < row.number {
                        others = others.saturating_sub(1);
                    }
                    kept.insert(known.number);
                } else {
                    generations::forget(db, known.number)?;
                }
            }
            Ok::<_, StateError>(kept)
        })?;
        cut::here("helper-accepted");
        for (number, path) in unpacked::on_disk(&self.state_folder)? {
            if !kept.contains(&number) {
                unpacked::remove(&path)?;
            }
        }
        Ok(())
    }
}

/// The row of an accepted bundle.
pub(super) fn row(index: &Index, digest: Digest, signers: BTreeSet<String>) -> Generation {
    Generation {
        number: index.number,
        index: digest,
        state: State::Staged,
        stream: index.stream.clone(),
        snapshot: index.snapshot.clone(),
        source: String::new(),
        note: Note::default(),
        good: false,
        whole: true,
        signers,
    }
}

/// What the verifier said, with its causes.
fn refusal(error: &TrustError) -> RequestFailure {
    refused(error.rule(), chain(error))
}
