//! The cluster, asked: what on it follows a repository.
//!
//! What comes in: the site's settings. What goes out: the objects of Flux or Argo CD, each with a named state; an agent
//! that was built without Kubernetes has none. It only reads.

use crate::agent::Agent;
use crate::error::AgentError;

#[cfg(feature = "kubernetes")]
pub use outhaul_reconcilers::kubernetes::follows::{Controller, Follower, FollowerStatus};

/// What follows `repository` on the site's cluster; `None` when it has neither Flux nor Argo CD.
///
/// # Errors
/// [`AgentError::Apply`] when the cluster cannot be asked.
#[cfg(feature = "kubernetes")]
pub fn look(
    agent: &Agent,
    repository: &str,
) -> Result<Option<(Controller, Vec<Follower>)>, AgentError> {
    use outhaul_reconcilers::kubernetes::Kubernetes;
    let site = std::rc::Rc::new(crate::apply::Context(agent.state_folder.clone()));
    let cluster = Kubernetes::new(&agent.config.kubernetes, site);
    Ok(cluster.follows(repository)?)
}

#[cfg(not(feature = "kubernetes"))]
pub use without::{Controller, Follower, FollowerStatus};

/// As above, of an agent without Kubernetes.
///
/// # Errors
/// [`AgentError::Usage`]
#[cfg(not(feature = "kubernetes"))]
pub fn look(_: &Agent, _: &str) -> Result<Option<(Controller, Vec<Follower>)>, AgentError> {
    Err(AgentError::Usage {
        message: "this agent was built without Kubernetes".to_owned(),
        help: "install the agent of the release, which has it".to_owned(),
    })
}

#[cfg(not(feature = "kubernetes"))]
mod without {
    //! The shapes that are never filled without Kubernetes.

    /// Who applies on a cluster.
    #[derive(Debug)]
    pub enum Controller {}

    impl Controller {
        /// Its word.
        pub fn as_str(&self) -> &'static str {
            match *self {}
        }
    }

    /// How one object stands.
    #[expect(dead_code, reason = "nothing is seen without Kubernetes")]
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum FollowerStatus {
        Synced,
        InProgress,
        OtherRevision,
        Stale,
        Suspended,
        Failing,
    }

    /// One object.
    #[derive(Debug)]
    pub struct Follower {
        pub name: String,
        pub path: Option<String>,
        pub below: bool,
        pub commit: Option<String>,
        pub made_by: Option<String>,
        pub status: FollowerStatus,
        pub message: String,
    }
}
