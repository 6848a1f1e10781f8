//! What a cluster shows of a repository that its own Flux or Argo CD follows.
//!
//! What comes in: the site's kubeconfig and the repository's address. What goes out: the objects that follow it, each
//! with a named state. It only reads: no object is annotated, and no controller is asked to look.

pub use outhaul_kubernetes::platform::{Controller, Follower, FollowerStatus};

use outhaul_kubernetes::platform;

use super::Kubernetes;
use crate::error::ApplyError;

impl Kubernetes {
    /// All that follows `repository` on this cluster; `None` when it has neither Flux nor Argo CD.
    ///
    /// # Errors
    /// [`ApplyError::Cluster`]
    pub fn follows(
        &self,
        repository: &str,
    ) -> Result<Option<(Controller, Vec<Follower>)>, ApplyError> {
        Ok(platform::look(&self.cluster()?, repository)?)
    }
}
