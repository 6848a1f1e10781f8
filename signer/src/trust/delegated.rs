//! Which keys a stream has, and which of them signed what a site accepts of it.
//!
//! What comes in: metadata that was accepted. What goes out: public keys, by their value. Whether they
//! signed rightly was verified when the metadata was accepted; here nothing is verified again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::TrustedMetadata;

impl TrustedMetadata {
    /// The public keys that the fleet's targets metadata delegates the stream `role` to; `None` when it
    /// delegates no such stream.
    pub fn stream_keys(&self, role: &str) -> Option<BTreeSet<String>> {
        self.keys_by_id(role)
            .map(|keys| keys.into_values().collect())
    }

    /// The keys of the stream `role` that signed its metadata.
    pub fn stream_signers(&self, role: &str) -> BTreeSet<String> {
        let (Some(keys), Some(file)) = (self.keys_by_id(role), self.file(&format!("{role}.json")))
        else {
            return BTreeSet::new();
        };
        let signatures = file["signatures"].as_array().into_iter().flatten();
        let ids = signatures.filter_map(|signature| signature["keyid"].as_str());
        ids.filter_map(|id| keys.get(id).cloned()).collect()
    }

    fn keys_by_id(&self, role: &str) -> Option<BTreeMap<String, String>> {
        let targets = self.file("targets.json")?;
        let delegations = &targets["signed"]["delegations"];
        let roles = delegations["roles"].as_array()?;
        let delegated = roles.iter().find(|one| one["name"] == role)?;
        let ids = delegated["keyids"].as_array().into_iter().flatten();
        let public = |id: &str| delegations["keys"][id]["keyval"]["public"].as_str();
        let keys = ids.filter_map(Value::as_str).filter_map(|id| {
            let key = public(id)?.trim().to_ascii_lowercase();
            Some((id.to_owned(), key))
        });
        Some(keys.collect())
    }

    fn file(&self, name: &str) -> Option<Value> {
        serde_json::from_slice(self.0.get(name)?).ok()
    }
}
