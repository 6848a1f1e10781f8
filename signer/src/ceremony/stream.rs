//! Changes of one stream's keys: a stolen one replaced, a second signature asked for, a stream ended.
//!
//! What comes in: changes, the targets key and the stream's new keys. What goes out: targets metadata that
//! states which signatures count for the stream, and the stream's newest bundle signed by them again, in
//! one step. The number stays: sites that have it need no new bundle.

use jiff::Timestamp;

use crate::fleet::{Fleet, FleetError};
use crate::key::{PublicKey, Secret};
use crate::metadata::{DelegatedRole, Holder, Key, RoleKeys};
use crate::publish::{Online, StreamRequirements, delegated};

/// One change of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamChange {
    /// A further key, made elsewhere.
    AddKey(PublicKey),
    /// The stream ends: its sites accept no further bundle. What runs there goes on.
    End,
    /// A new key in place of all present ones.
    Rekey,
    /// What people call a key of the stream, and who holds it.
    NameKey {
        /// Its id.
        id: String,
        /// Name and holder.
        called: Holder,
    },
    /// A key less, by id or the beginning of its id.
    RemoveKey(String),
    /// How many of its keys must sign.
    Threshold(usize),
}

impl Fleet {
    /// Changes which signatures count for the stream `role`, and publishes that.
    ///
    /// # Errors
    /// [`FleetError`] when there is no such stream, a change makes no sense, a signature is still needed
    /// (then run it again once the answer is there), or files and keys cannot be used.
    pub fn change_stream(
        &self,
        role: &str,
        changes: &[StreamChange],
        now: Timestamp,
        secret: &Secret,
    ) -> Result<(), FleetError> {
        let _lock = self.lock()?;
        let published = self.published()?;
        let mut marks = self.marks()?;
        let mut targets = published.targets.clone();
        let refuse = |problem: &str| FleetError::Option {
            problem: problem.to_owned(),
        };
        if delegated(&targets, role).is_none() {
            return Err(refuse("this fleet has no such stream"));
        }
        let delegations = targets.delegations.get_or_insert_default();
        for change in changes {
            if *change == StreamChange::End {
                delegations.roles.retain(|delegated| delegated.name != role);
                continue;
            }
            if let StreamChange::NameKey { id, called } = change {
                super::name_key(&mut delegations.holders, id.clone(), called)?;
                continue;
            }
            let (keys, roles) = (&mut delegations.keys, &mut delegations.roles);
            let Some(stream) = roles.iter_mut().find(|delegated| delegated.name == role) else {
                return Err(refuse("a stream that ends has no keys to change"));
            };
            if let Some(key) = self.apply_to_stream(stream, change, secret)? {
                keys.insert(key.id(), Key::new(&key));
            }
        }
        let all_keys = delegations.keys.clone();
        let keys = delegated(&targets, role).map(|stream| RoleKeys {
            keyids: stream.keyids.clone(),
            threshold: stream.threshold,
        });
        let mut online = Online::on(self, &published, secret);
        online.set_targets(targets);
        let mut own = None;
        if let (Some(keys), Some((stream, _))) =
            (keys, published.stream(&self.metadata_folder(), role)?)
        {
            let asked = StreamRequirements {
                role,
                keys: &keys,
                key_objects: &all_keys,
                index: None,
            };
            let bytes = self.sign_stream(&asked, &stream, secret)?;
            online.pin(&format!("{role}.json"), stream.version, &bytes);
            own = Some((format!("{}.{role}.json", stream.version), bytes));
        }
        online.renew_targets(&mut marks, now, now)?;
        let mut files = online.finish_lower(&mut marks, now, published.snapshot.expires)?;
        self.write_marks(&marks)?;
        let own_file = own.as_ref().map(|(name, _)| name.clone());
        files.extend(own);
        self.publish_together(&files)?;
        own_file.map_or(Ok(()), |name| self.drop_request(&name))
    }

    /// Changes `stream`; gives the key that is new to it.
    fn apply_to_stream(
        &self,
        stream: &mut DelegatedRole,
        change: &StreamChange,
        secret: &Secret,
    ) -> Result<Option<PublicKey>, FleetError> {
        let refuse = |problem: &str| {
            Err(FleetError::Option {
                problem: problem.to_owned(),
            })
        };
        match change {
            StreamChange::AddKey(key) => {
                if stream.keyids.contains(&key.id()) {
                    return refuse("this key is the stream's already");
                }
                stream.keyids.push(key.id());
                stream.keyids.sort_unstable();
                return Ok(Some(key.clone()));
            }
            StreamChange::Rekey => {
                let key = self
                    .ring()
                    .make(&format!("stream-{}", stream.name), secret)?
                    .public();
                stream.keyids = vec![key.id()];
                stream.threshold = 1;
                return Ok(Some(key));
            }
            StreamChange::RemoveKey(prefix) => {
                let found = stream
                    .keyids
                    .iter()
                    .filter(|id| id.starts_with(prefix))
                    .count();
                if found != 1 {
                    return refuse("the id must be of exactly one of the stream's keys");
                }
                if stream.threshold >= stream.keyids.len() {
                    return refuse("fewer keys than must sign: lower the threshold first");
                }
                stream.keyids.retain(|id| !id.starts_with(prefix));
            }
            StreamChange::Threshold(count) => {
                if !(1..=stream.keyids.len()).contains(count) {
                    return refuse("the threshold must be between 1 and the number of keys");
                }
                stream.threshold = *count;
            }
            StreamChange::End | StreamChange::NameKey { .. } => {}
        }
        Ok(None)
    }
}
