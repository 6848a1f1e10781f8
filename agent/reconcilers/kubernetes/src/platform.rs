//! What a cluster shows of a repository that its own Flux or Argo CD follows.
//!
//! What comes in: the objects of Flux or Argo CD as the API server gives them, and the repository's address. What goes
//! out: one [`Follower`] per object that follows it, with the commit that it shows and a named state, and one for each object of
//! Flux or Argo CD that such an object made. Nothing is asked of a controller and nothing is changed. It is pure; [`look`] alone asks
//! the API server.

use outhaul_kit::url::{commit_of, is_same_repository};
use serde_json::Value;

use crate::client::ClientError;
use crate::cluster::Cluster;
use crate::health::Health;
use crate::manifest::Key;
use crate::{argocd, flux};

mod made;

/// Who applies on a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// Flux.
    Flux,
    /// Argo CD.
    ArgoCd,
}

impl Controller {
    /// `flux`, `argocd`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Flux => "flux",
            Self::ArgoCd => "argocd",
        }
    }
}

/// How one object stands, from well to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FollowerStatus {
    /// It is ready, at the commit that was fetched.
    Synced,
    /// It is under way.
    InProgress,
    /// What is applied is another revision than the one that was fetched.
    OtherRevision,
    /// Its controller has not looked at what is asked for now.
    Stale,
    /// A person suspended it.
    Suspended,
    /// It failed.
    Failing,
}

/// One object that follows the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Follower {
    /// Kind, namespace and name.
    pub name: String,
    /// The folder of the repository that it applies; `None` when it only fetches, or shows no commit.
    pub path: Option<String>,
    /// Whether it applies what lies in folders below that one, too.
    pub below: bool,
    /// The commit that it shows.
    pub commit: Option<String>,
    /// The name of the follower that made it; `None` for an object that follows the repository itself.
    pub made_by: Option<String>,
    /// How it stands.
    pub status: FollowerStatus,
    /// In the words of its controller.
    pub message: String,
}

/// Asks the API server for all that follows `repository`. `None`: the cluster has neither Flux nor Argo CD.
///
/// # Errors
/// [`ClientError`]
pub fn look(
    cluster: &Cluster,
    repository: &str,
) -> Result<Option<(Controller, Vec<Follower>)>, ClientError> {
    let mut found = None;
    if let Some(sources) = cluster.list(flux::SOURCE, "GitRepository", None)? {
        let mut objects = Vec::new();
        for (group, kind) in [
            (flux::KUSTOMIZE, "Kustomization"),
            (flux::HELM, "HelmRelease"),
        ] {
            objects.extend(cluster.list(group, kind, None)?.unwrap_or_default());
        }
        let mut others = Vec::new();
        for kind in ["OCIRepository", "HelmRepository", "Bucket"] {
            others.extend(cluster.list(flux::SOURCE, kind, None)?.unwrap_or_default());
        }
        let all = of_flux(&sources, &objects, &others, repository);
        found = Some((Controller::Flux, all));
    }
    let is_empty = found.as_ref().is_none_or(|(_, all)| all.is_empty());
    if is_empty && let Some(objects) = cluster.list(argocd::GROUP, "Application", None)? {
        let sets = cluster.list(argocd::GROUP, "ApplicationSet", None)?;
        let all = of_argocd(&objects, &sets.unwrap_or_default(), repository);
        if found.is_none() || !all.is_empty() {
            found = Some((Controller::ArgoCd, all));
        }
    }
    Ok(found)
}

/// What Flux shows of `repository`: its sources, what is made from them, and what that made in turn. `others` are sources that are no
/// `GitRepository`.
pub fn of_flux(
    sources: &[Value],
    objects: &[Value],
    others: &[Value],
    repository: &str,
) -> Vec<Follower> {
    let all: Vec<&Value> = sources.iter().chain(objects).chain(others).collect();
    let sources: Vec<&Value> = sources
        .iter()
        .filter(|source| is_same_repository(text(&source["spec"]["url"]), repository))
        .collect();
    let fetched = sources.iter().map(|source| Follower {
        name: name_of(source),
        path: None,
        below: false,
        commit: commit_of(text(&source["status"]["artifact"]["revision"])),
        made_by: None,
        status: flux_status(source, None),
        message: flux_message(source, None),
    });
    let source_of = |object: &Value| {
        let mut sources = sources.iter().copied();
        sources.find(|source| is_made_from(object, source))
    };
    let roots: Vec<&Value> = (objects.iter())
        .filter(|object| source_of(object).is_some())
        .collect();
    let made = made::of_flux(&all, &roots);
    let applied = roots.iter().filter_map(|object| {
        let source = source_of(object)?;
        let applies = object["kind"] == "Kustomization";
        let revision = text(&object["status"]["lastAppliedRevision"]);
        Some(Follower {
            name: name_of(object),
            path: applies.then(|| plain_path(text(&object["spec"]["path"]))),
            below: true,
            commit: commit_of(revision).filter(|_| applies),
            made_by: None,
            status: flux_status(object, Some(source)),
            message: flux_message(object, Some(source)),
        })
    });
    fetched.chain(applied).chain(made).collect()
}

/// Whether `object` of Flux is made from the `GitRepository` `source`.
fn is_made_from(object: &Value, source: &Value) -> bool {
    let own = text(&object["metadata"]["namespace"]);
    let chart = &object["spec"]["chart"]["spec"]["sourceRef"];
    let key = flux::source_of(object).or_else(|| {
        (chart["kind"] == "GitRepository").then(|| Key {
            group: flux::SOURCE.to_owned(),
            kind: "GitRepository".to_owned(),
            namespace: Some(chart["namespace"].as_str().unwrap_or(own).to_owned()),
            name: text(&chart["name"]).to_owned(),
        })
    });
    key.is_some_and(|key| {
        key.kind == "GitRepository"
            && source["metadata"]["name"] == *key.name
            && source["metadata"]["namespace"] == *key.namespace.unwrap_or_default()
    })
}

fn flux_status(object: &Value, source: Option<&Value>) -> FollowerStatus {
    if flux::is_suspended(object) {
        return FollowerStatus::Suspended;
    }
    let health = flux::health(object, source);
    match health {
        Health::Failed(_) | Health::Failing(_) => FollowerStatus::Failing,
        Health::Silent(_) => FollowerStatus::Stale,
        _ if is_behind(object, source) => FollowerStatus::OtherRevision,
        Health::Waiting(_) => FollowerStatus::InProgress,
        // Ready, and of nothing that anybody could name.
        Health::Ready if fetches(object) && object["status"]["artifact"]["revision"].is_null() => {
            FollowerStatus::InProgress
        }
        Health::Ready => FollowerStatus::Synced,
    }
}

/// Whether an object of Flux holds what it fetched: a registry of charts only holds an address.
fn fetches(object: &Value) -> bool {
    ["Bucket", "GitRepository", "OCIRepository"].contains(&text(&object["kind"]))
}

/// Whether a `Kustomization` has applied something else than its source has.
fn is_behind(object: &Value, source: Option<&Value>) -> bool {
    let Some(source) = source.filter(|_| object["kind"] == "Kustomization") else {
        return false;
    };
    object["status"]["lastAppliedRevision"] != source["status"]["artifact"]["revision"]
}

fn flux_message(object: &Value, source: Option<&Value>) -> String {
    match (flux_status(object, source), flux::health(object, source)) {
        (FollowerStatus::Suspended, _) => {
            "it is suspended: the repository is not followed".to_owned()
        }
        (FollowerStatus::OtherRevision, _) => {
            let applied = text(&object["status"]["lastAppliedRevision"]);
            let fetched = source.map(|source| text(&source["status"]["artifact"]["revision"]));
            format!(
                "it has applied {}, and its source has {}",
                named(applied),
                named(fetched.unwrap_or_default())
            )
        }
        (
            _,
            Health::Failed(words)
            | Health::Failing(words)
            | Health::Silent(words)
            | Health::Waiting(words),
        ) => words,
        (_, Health::Ready) => flux::status_text(object),
    }
}

fn named(revision: &str) -> &str {
    match revision {
        "" => "nothing",
        other => other,
    }
}

/// What Argo CD shows of `repository`: each source of an `Application` that is of it, and what these applications made in turn.
pub fn of_argocd(objects: &[Value], sets: &[Value], repository: &str) -> Vec<Follower> {
    let mut found = Vec::new();
    let mut roots = Vec::new();
    for object in objects {
        let of_it = of_application(object, repository);
        if !of_it.is_empty() {
            roots.push(object);
        }
        found.extend(of_it);
    }
    found.extend(made::of_argocd(objects, sets, &roots));
    found
}

fn of_application(object: &Value, repository: &str) -> Vec<Follower> {
    let (spec, sync) = (&object["spec"], &object["status"]["sync"]);
    let ended = &object["status"]["operationState"]["syncResult"];
    let several = spec["sources"].as_array();
    let sources: Vec<(&Value, &Value, &Value)> = match several {
        Some(all) => {
            let revision = |at: usize| (&sync["revisions"][at], &ended["revisions"][at]);
            let with = |(at, source)| (source, revision(at).0, revision(at).1);
            all.iter().enumerate().map(with).collect()
        }
        None => vec![(&spec["source"], &sync["revision"], &ended["revision"])],
    };
    let health = argocd::health(object);
    let skips = &object["metadata"]["annotations"]["argocd.argoproj.io/skip-reconcile"];
    let status = match &health {
        _ if *skips == "true" => FollowerStatus::Suspended,
        Health::Failed(_) | Health::Failing(_) => FollowerStatus::Failing,
        Health::Silent(_) => FollowerStatus::Stale,
        Health::Waiting(_) if sync["status"] == "OutOfSync" => FollowerStatus::OtherRevision,
        Health::Waiting(_) => FollowerStatus::InProgress,
        Health::Ready => FollowerStatus::Synced,
    };
    let message = match health {
        _ if status == FollowerStatus::Suspended => {
            "it is not processed (`argocd.argoproj.io/skip-reconcile`)".to_owned()
        }
        Health::Ready => argocd::status_text(object),
        Health::Failed(words)
        | Health::Failing(words)
        | Health::Silent(words)
        | Health::Waiting(words) => words,
    };
    sources
        .into_iter()
        .filter(|(source, _, _)| is_same_repository(text(&source["repoURL"]), repository))
        .map(|(source, compared, synced)| Follower {
            name: name_of(object),
            path: source["path"].as_str().map(plain_path),
            below: source["directory"]["recurse"] == true,
            // What was compared is what runs only where nothing differs.
            commit: commit_of(text(match status {
                FollowerStatus::Synced => compared,
                _ => synced,
            })),
            made_by: None,
            status,
            message: message.clone(),
        })
        .collect()
}

/// A folder without `./` before it and a slash behind it; empty for the root.
fn plain_path(path: &str) -> String {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    parts.collect::<Vec<_>>().join("/")
}

fn name_of(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!(
        "{} {}/{}",
        text(&object["kind"]),
        text(&metadata["namespace"]),
        text(&metadata["name"])
    )
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
