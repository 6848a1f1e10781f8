//! What stands between applied objects and what is to be made of them: nothing, or a controller such as Flux.
//!
//! What comes in: objects that are wanted, and objects as the cluster has them. What goes out: what the agent
//! changes in the ones, and what the others come to, in the controller's own words. Applying, the inventory and
//! the order are the same for all, and are not here.

use std::fmt;

use outhaul_bundle::Digest;
use outhaul_kubernetes::{ClientError, Cluster, Health, Key, Object, Resource, health};
use serde_json::Value;

use super::objects::{DesiredObjects, PayloadUse};
use crate::error::ApplyError;

/// One kind of stream that goes to a cluster.
pub trait ManifestController: fmt::Debug {
    /// Its name in the index and the inventory.
    fn kind(&self) -> &'static str;

    /// What becomes of the workload's own files.
    fn payload(&self) -> PayloadUse {
        PayloadUse::Applied
    }

    /// Puts the workload's own files into what is wanted, where they are handed on.
    ///
    /// # Errors
    /// One sentence: they cannot be.
    fn hand_on(&self, _all: &mut DesiredObjects) -> Result<(), String> {
        Ok(())
    }

    /// Whether it looks at objects of `key`'s kind: what is deleted of these is waited for.
    fn watches(&self, _key: &Key) -> bool {
        false
    }

    /// The kind of `object` in another version that the cluster has, where that makes no difference.
    ///
    /// # Errors
    /// [`ClientError`] of the server.
    fn other_version(
        &self,
        _cluster: &Cluster,
        _object: &Object,
    ) -> Result<Option<Resource>, ClientError> {
        Ok(None)
    }

    /// Why nothing can be applied on this cluster, which lacks the kind of `object`. `None`: the assignment is
    /// to blame.
    fn missing(&self, _object: &Object) -> Option<ApplyError> {
        None
    }

    /// Changes what is wanted, by what this site says of itself. Each object is in its namespace.
    ///
    /// # Errors
    /// One sentence: the site's settings cannot be used.
    fn adapt(&self, _all: &mut DesiredObjects) -> Result<(), ApplyError> {
        Ok(())
    }

    /// The annotation by which an object is asked for attention with each generation.
    fn request(&self, _key: &Key) -> Option<&'static str> {
        None
    }

    /// Whether the controller has looked at `found` since it was asked with the annotation's present value.
    fn has_answered(&self, _found: &Value) -> bool {
        true
    }

    /// What the controller made of the object `key` with `uid` that is asked, looked at and waited for with it.
    ///
    /// # Errors
    /// [`ClientError`] of the server.
    fn made(
        &self,
        _cluster: &Cluster,
        _key: &Key,
        _uid: &str,
    ) -> Result<Vec<(Key, Value)>, ClientError> {
        Ok(Vec::new())
    }

    /// What is taken apart only when the object `found` and what the controller made of it are gone, and is waited for, too. It
    /// is looked up before the object is deleted.
    ///
    /// # Errors
    /// [`ClientError`] of the server.
    fn outlasting(
        &self,
        _cluster: &Cluster,
        _key: &Key,
        _found: &Value,
    ) -> Result<Vec<(Key, Value)>, ClientError> {
        Ok(Vec::new())
    }

    /// Why what is fetched on this site cannot be had by anybody, whatever bundle says so.
    fn nothing_to_fetch_from(&self) -> Option<ApplyError> {
        None
    }

    /// `object` with what the controller writes into it, or leaves out, without a difference.
    fn as_written(&self, _key: &Key, object: Value) -> Value {
        object
    }

    /// Digest of what `object` means to the controller, where that writes whole objects back: its fields are then the
    /// controller's by name, though nobody has changed them.
    fn meaning(&self, _key: &Key, _object: &Value) -> Option<Digest> {
        None
    }

    /// How an object does.
    ///
    /// # Errors
    /// [`ClientError`] of the server.
    fn health(&self, _cluster: &Cluster, _key: &Key, found: &Value) -> Result<Health, ClientError> {
        Ok(health::health(found))
    }

    /// What someone changed in what the controller made of an object, in the controller's own words, where it is to
    /// leave that as it is.
    ///
    /// # Errors
    /// [`ClientError`] of the server.
    fn drifted(
        &self,
        _cluster: &Cluster,
        _key: &Key,
        _found: &Value,
    ) -> Result<Option<String>, ClientError> {
        Ok(None)
    }

    /// What the controller says of an object that is well.
    ///
    /// # Errors
    /// [`ClientError`] of the server.
    fn status_text(
        &self,
        _cluster: &Cluster,
        _key: &Key,
        _found: &Value,
    ) -> Result<String, ClientError> {
        Ok(String::new())
    }

    /// What stays on the cluster though `found` is deleted.
    fn remains_after(&self, _found: &Value) -> Option<String> {
        None
    }

    /// Why nothing goes on: nobody answers for the object of which `why` says so.
    fn not_responding(&self, why: &str) -> ApplyError {
        ApplyError::Cluster {
            problem: why.to_owned(),
            help: "see that its controller runs; the agent tries again automatically".into(),
        }
    }
}

/// Plain manifests: nothing but the cluster itself.
#[derive(Debug)]
pub struct PlainManifests;

impl ManifestController for PlainManifests {
    fn kind(&self) -> &'static str {
        super::KIND
    }
}
