//! One condition of one object of this site's cluster: asked until it is as it is to be, or the time is over.
//!
//! What comes in: an object, the type of a condition, its status, and how the cluster is reached. What goes out: yes; no, with what
//! the object's controller says; or that the cluster cannot be asked. It only reads.

use outhaul_kit::heartbeat::Heartbeat;
use outhaul_reconcilers::settings::KubernetesConfig;

use crate::Answered;
use crate::settings::AskConfig;

#[cfg(feature = "kubernetes")]
pub(super) fn ask(
    one: &AskConfig,
    object: &str,
    config: &KubernetesConfig,
    heartbeat: &Heartbeat,
) -> Answered {
    use std::time::{Duration, Instant};

    /// How often it is looked at.
    const PAUSE: Duration = Duration::from_secs(1);

    let until = Instant::now() + Duration::from_secs(one.timeout_s());
    loop {
        heartbeat.beat();
        let found = look(one, object, config);
        let is_over = Instant::now() + PAUSE >= until;
        if found == Answered::Yes || is_over || heartbeat.is_cancelled() {
            return found;
        }
        std::thread::sleep(PAUSE);
    }
}

/// The cluster, which nobody has connected to yet.
#[cfg(feature = "kubernetes")]
fn cluster(config: &KubernetesConfig) -> Result<outhaul_kubernetes::Cluster, String> {
    use outhaul_kubernetes::Cluster;
    use outhaul_reconcilers::kubernetes::access;

    let access = access::of(config).map_err(|error| error.to_string())?;
    let timeout = std::time::Duration::from_secs(config.timeout_s);
    Cluster::new(&access, timeout).map_err(|error| error.to_string())
}

/// Whether it is known how the cluster is reached; it is not asked.
#[cfg(feature = "kubernetes")]
pub(super) fn can_ask(_object: &str, config: &KubernetesConfig) -> Result<(), String> {
    cluster(config).map(drop)
}

/// One look.
#[cfg(feature = "kubernetes")]
fn look(one: &AskConfig, object: &str, config: &KubernetesConfig) -> Answered {
    use outhaul_kubernetes::{ClientError, Key, condition};

    let (Some(key), Some(condition)) = (Key::parse(object), &one.condition) else {
        return Answered::Silent(format!("`{object}` names no object and condition"));
    };
    let cluster = match cluster(config) {
        Ok(cluster) => cluster,
        Err(problem) => return Answered::unasked(one, problem),
    };
    let found = || -> Result<_, ClientError> {
        match cluster.resource_of(&key)? {
            None => Ok(Err("the cluster does not have this kind".to_owned())),
            Some(resource) => Ok(cluster
                .get(&resource, &key)?
                .ok_or_else(|| "it is not there".to_owned())),
        }
    };
    let status = one.is.as_deref().unwrap_or("True");
    match found() {
        // A login program is asked only now.
        Err(trouble @ ClientError::Access(_)) => Answered::unasked(one, trouble.to_string()),
        Err(trouble) => Answered::Silent(trouble.to_string()),
        Ok(Err(problem)) => Answered::No(format!("`{object}`: {problem}")),
        Ok(Ok(value)) => match condition::has(&value, condition, status) {
            Ok(()) => Answered::Yes,
            Err(problem) => Answered::No(format!("`{object}`: {problem}")),
        },
    }
}

#[cfg(not(feature = "kubernetes"))]
pub(super) fn can_ask(object: &str, _config: &KubernetesConfig) -> Result<(), String> {
    Err(without_kubernetes(object))
}

#[cfg(not(feature = "kubernetes"))]
fn without_kubernetes(object: &str) -> String {
    format!("this agent was built without Kubernetes and cannot ask about `{object}`")
}

#[cfg(not(feature = "kubernetes"))]
pub(super) fn ask(
    one: &AskConfig,
    object: &str,
    _config: &KubernetesConfig,
    _heartbeat: &Heartbeat,
) -> Answered {
    Answered::unasked(one, without_kubernetes(object))
}
