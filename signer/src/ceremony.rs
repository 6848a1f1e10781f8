//! Ceremonies: changing which signatures count, with keys that may lie in different places.
//!
//! What comes in: changes, and the keys that are here. What goes out: the next root metadata, published
//! together with whatever must be signed again because of it, or a request for the signatures that
//! are still missing. A root counts when enough of the old *and* of the new root keys signed it.
//! Private keys that no longer count stay where they are: destroying them is a person's act.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;

use crate::durable::{self, PUBLIC_MODE};
use crate::fleet::{Fleet, FleetError, PublishedRoles};
use crate::key::{PublicKey, Secret};
use crate::metadata::{self, Holder, Holders, Key, MetadataSignature, RoleKeys, Root, is_label};
use crate::publish::{Online, named};
use crate::request::{MAX_BYTES, SigningRequest};
use crate::review;
use crate::trust::walk::Walk;

mod first;
mod status;
mod stream;

pub use status::{KeyStatus, RoleStatus, Status};
pub use stream::StreamChange;

/// One change of the root metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RootChange {
    /// A further root key, made elsewhere.
    AddRootKey(PublicKey),
    /// What people call a root key and who holds it, by its id or the beginning of it.
    NameKey {
        /// The id.
        id: String,
        /// Name and holder.
        called: Holder,
    },
    /// A root key less, by id or the beginning of its id.
    RemoveRootKey(String),
    /// A later expiry and nothing else.
    Renew,
    /// A new key in place of all present keys of snapshot and timestamp.
    RotateOnline,
    /// A new key in place of each root key of which the private half is here.
    RotateRoot,
    /// A new key in place of all present keys of targets.
    RotateTargets,
    /// How many root keys must sign.
    Threshold(usize),
}

/// Where a change of the root metadata stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ceremony {
    /// It is published.
    Done {
        /// The new root version.
        version: u64,
    },
    /// Signatures are missing: answer the request with other root keys, then finish.
    Waiting {
        /// The request's file.
        request: PathBuf,
        /// The root version that it is about.
        version: u64,
        /// Signatures there.
        found: usize,
        /// Files beside it that are called answers and do not answer it, each with why.
        others: Vec<(PathBuf, String)>,
    },
}

impl Fleet {
    /// Changes the root metadata.
    ///
    /// # Errors
    /// [`FleetError`] when another change still waits for signatures, a change makes no sense, or files
    /// and keys cannot be used.
    pub fn change_root(
        &self,
        changes: &[RootChange],
        now: Timestamp,
        secret: &Secret,
    ) -> Result<Ceremony, FleetError> {
        let _lock = self.lock()?;
        let published = self.published()?;
        let version = published.root.version + 1;
        let request = self.root_request(version);
        if request.exists() {
            let problem = format!(
                "root version {version} already waits for signatures in `{}`\nhelp: finish it, or \
                 delete that file to drop the change",
                request.display()
            );
            return Err(FleetError::Option { problem });
        }
        // What keeps it from being published is found before a key is made for it.
        self.marks()?;
        let known = &published.root.roles["root"].keyids;
        let mut held = self.ring().entries()?.into_iter();
        if let Some(entry) = held.find(|entry| entry.present && known.contains(&entry.public.id()))
        {
            entry.open(secret)?;
        }
        let mut root = published.root.clone();
        root.version = version;
        root.expires = metadata::days_after(now, self.settings.root_days);
        for change in changes {
            self.apply(&mut root, change, secret)?;
        }
        let used: Vec<_> = root
            .roles
            .values()
            .flat_map(|role| role.keyids.clone())
            .collect();
        root.keys.retain(|id, _| used.contains(id));
        root.holders.retain(|id, _| used.contains(id));
        let payload = named(
            &format!("{version}.root.json"),
            metadata::signed_bytes(&root),
        )?;
        self.sign_root(&published, &root, &payload, now, secret)
    }

    /// Finishes a change that waited for signatures, with the answers beside its request.
    ///
    /// # Errors
    /// [`FleetError`] when nothing waits, or files and keys cannot be used.
    pub fn finish_root(&self, now: Timestamp, secret: &Secret) -> Result<Ceremony, FleetError> {
        let _lock = self.lock()?;
        let published = self.published()?;
        let path = self.root_request(published.root.version + 1);
        let nothing = |problem: String| FleetError::Option { problem };
        let bytes = durable::read_if_present(&path, MAX_BYTES as u64)?
            .ok_or_else(|| nothing("no change of the root waits for signatures".to_owned()))?;
        let payload = SigningRequest::from_bytes(&bytes)
            .and_then(|request| request.payload_bytes())
            .map_err(|error| nothing(format!("`{}`: {error}", path.display())))?;
        let root: Root = serde_json::from_slice(&payload)
            .map_err(|error| nothing(format!("`{}`: {error}", path.display())))?;
        if !root.is_complete() || root.version != published.root.version + 1 {
            return Err(nothing(format!(
                "`{}` is not the next root",
                path.display()
            )));
        }
        self.sign_root(&published, &root, &payload, now, secret)
    }

    fn root_request(&self, version: u64) -> PathBuf {
        self.request_folder()
            .join(format!("{version}.root.json.request"))
    }

    fn apply(
        &self,
        root: &mut Root,
        change: &RootChange,
        secret: &Secret,
    ) -> Result<(), FleetError> {
        let refuse = |problem: &str| {
            Err(FleetError::Option {
                problem: problem.to_owned(),
            })
        };
        match change {
            RootChange::AddRootKey(key) => {
                if root.roles["root"].keyids.contains(&key.id()) {
                    return refuse("this key is a root key already");
                }
                replace(root, &["root"], &[], key);
            }
            RootChange::NameKey { id, called } => {
                let ids = &root.roles["root"].keyids;
                let mut found = ids.iter().filter(|found| found.starts_with(id));
                let (Some(one), None) = (found.next().cloned(), found.next()) else {
                    return refuse("the id must be of exactly one root key");
                };
                name_key(&mut root.holders, one, called)?;
            }
            RootChange::RemoveRootKey(prefix) => {
                let role = role_of(root, "root");
                let before = role.keyids.len();
                let found = role
                    .keyids
                    .iter()
                    .filter(|id| id.starts_with(prefix))
                    .count();
                if found != 1 {
                    return refuse("the id must be of exactly one root key");
                }
                role.keyids.retain(|id| !id.starts_with(prefix));
                if role.threshold >= before {
                    return refuse("fewer root keys than must sign: lower the threshold first");
                }
            }
            RootChange::Renew => {}
            RootChange::RotateOnline => {
                let both = ["snapshot", "timestamp"].map(|role| root.roles[role].keyids.clone());
                let old = both.concat();
                let key = self.ring().make("online", secret)?.public();
                replace(root, &["snapshot", "timestamp"], &old, &key);
            }
            RootChange::RotateRoot => {
                let here = self.ring().entries()?;
                let ids = root.roles["root"].keyids.clone();
                let present =
                    |id: &&String| here.iter().any(|e| e.present && e.public.id() == **id);
                let old: Vec<_> = ids.iter().filter(present).cloned().collect();
                if old.is_empty() {
                    return refuse(
                        "none of the root keys is here\nhelp: leave `root` out (`rotate FLEET online targets`); a \
                         root key that lies elsewhere is replaced by `root FLEET add-key` and `remove-key`",
                    );
                }
                for id in old {
                    let key = self.ring().make("root", secret)?.public();
                    // It is made in the same place, by the same people.
                    if let Some(called) = root.holders.get(&id).cloned() {
                        root.holders.insert(key.id(), called);
                    }
                    replace(root, &["root"], &[id], &key);
                }
            }
            RootChange::RotateTargets => {
                let old = root.roles["targets"].keyids.clone();
                let key = self.ring().make("targets", secret)?.public();
                replace(root, &["targets"], &old, &key);
            }
            RootChange::Threshold(count) => {
                let role = role_of(root, "root");
                if !(1..=role.keyids.len()).contains(count) {
                    return refuse("the threshold must be between 1 and the number of root keys");
                }
                role.threshold = *count;
            }
        }
        Ok(())
    }

    /// Signs with what is here and what was answered; publishes when that is enough.
    fn sign_root(
        &self,
        published: &PublishedRoles,
        root: &Root,
        payload: &[u8],
        now: Timestamp,
        secret: &Secret,
    ) -> Result<Ceremony, FleetError> {
        let file = format!("{}.root.json", root.version);
        let (old, new) = (&published.root.roles["root"], &root.roles["root"]);
        let all = published.root.keys.iter().chain(&root.keys);
        let counts = |id: &String| old.keyids.contains(id) || new.keyids.contains(id);
        let keys: BTreeMap<String, Key> = all
            .filter(|(id, _)| counts(id))
            .map(|(id, key)| (id.clone(), key.clone()))
            .collect();
        let request = SigningRequest::new(self.id(), "root", payload, keys)
            .with_published(self.published_roots()?);
        let mut signatures: BTreeMap<String, MetadataSignature> = BTreeMap::new();
        for entry in self.ring().entries()? {
            if entry.present && counts(&entry.public.id()) {
                let signature = metadata::sign_one(payload, &entry.open(secret)?);
                signatures.insert(entry.public.id(), named(&file, signature)?);
            }
        }
        let (answered, others) = self.answers_to(&request)?;
        for signature in answered {
            signatures.insert(signature.keyid.clone(), signature);
        }
        let signed_by = |role: &RoleKeys| {
            role.keyids
                .iter()
                .filter(|id| signatures.contains_key(*id))
                .count()
                >= role.threshold
        };
        let path = self.root_request(root.version);
        if !(signed_by(old) && signed_by(new)) {
            if let Some(problem) = review::too_few_kept(&published.root, root) {
                let problem = format!(
                    "{problem}\nhelp: no co-signer signs that; replace root keys one after another"
                );
                return Err(FleetError::Option { problem });
            }
            durable::create_folder(&self.request_folder())?;
            durable::write(&path, &request.to_bytes(), PUBLIC_MODE)?;
            let found = signatures.len();
            return Ok(Ceremony::Waiting {
                request: path,
                version: root.version,
                found,
                others,
            });
        }
        let signatures: Vec<_> = signatures.into_values().collect();
        let bytes = named(&file, metadata::assemble(payload, &signatures))?;
        self.publish_root(published, root, &file, bytes, now, secret)?;
        self.drop_request(&file)?;
        Ok(Ceremony::Done {
            version: root.version,
        })
    }

    /// Publishes a new root and, in the same step, what its new keys must sign again.
    fn publish_root(
        &self,
        published: &PublishedRoles,
        root: &Root,
        file: &str,
        bytes: Vec<u8>,
        now: Timestamp,
        secret: &Secret,
    ) -> Result<(), FleetError> {
        let changed = |role: &str| root.roles[role] != published.root.roles[role];
        let mut files = vec![(file.to_owned(), bytes)];
        if ["snapshot", "targets", "timestamp"]
            .into_iter()
            .any(changed)
        {
            let next = PublishedRoles {
                root: root.clone(),
                ..published.clone()
            };
            let mut marks = self.marks()?;
            let mut online = Online::on(self, &next, secret);
            if changed("targets") {
                online.set_targets(published.targets.clone());
            }
            let expires = published.snapshot.expires;
            online.renew_targets(&mut marks, now, now)?;
            files.extend(online.finish_lower(&mut marks, now, expires)?);
            self.write_marks(&marks)?;
        }
        // What no site would follow is not published: a root that does not continue the chain.
        let newest = self.newest_root_bytes()?;
        let link: BTreeMap<String, Vec<u8>> = files.iter().cloned().collect();
        Walk::from_root(&newest)
            .and_then(|mut walk| walk.update_root(&link, &mut |_| {}))
            .map_err(|source| FleetError::WouldBeRefused { source })?;
        self.publish_together(&files)
    }
}

/// Notes what people call the key `id`; both texts empty forget it.
pub(crate) fn name_key(
    holders: &mut Holders,
    id: String,
    called: &Holder,
) -> Result<(), FleetError> {
    for label in [&called.name, &called.holder] {
        if !label.is_empty() && !is_label(label) {
            let problem = format!(
                "`{}` is not a name for a key: 1 to 64 letters, digits, blanks and `. , _ - + @ ' ( ) / :`",
                label.escape_debug().take(80).collect::<String>()
            );
            return Err(FleetError::Option { problem });
        }
    }
    if *called == Holder::default() {
        holders.remove(&id);
    } else {
        holders.insert(id, called.clone());
    }
    Ok(())
}

/// Puts `key` in the place of the keys `old` of each of `roles`.
fn replace(root: &mut Root, roles: &[&str], old: &[String], key: &PublicKey) {
    root.keys.insert(key.id(), Key::new(key));
    for role in roles {
        let keyids = &mut role_of(root, role).keyids;
        keyids.retain(|id| !old.contains(id));
        keyids.push(key.id());
        keyids.sort_unstable();
    }
}

fn role_of<'a>(root: &'a mut Root, role: &str) -> &'a mut RoleKeys {
    let none = || RoleKeys {
        keyids: Vec::new(),
        threshold: 1,
    };
    root.roles.entry(role.to_owned()).or_insert_with(none)
}
