//! GitLab's API: merge requests.
//!
//! What comes in: a [`Caller`] and a project's whole path. What goes out: the requests of GitLab's REST
//! reference, version 4. A label that the project lacks is made by GitLab itself.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::json;

use super::{Caller, Draft, Forge, ForgeError, Method, PullRequest, encoded};

/// A project on GitLab.
#[derive(Debug)]
pub struct GitLab {
    caller: Caller,
    /// `/projects/GROUP%2FNAME/merge_requests`.
    base: String,
}

#[derive(Debug, Deserialize)]
struct MergeRequestEntry {
    iid: u64,
    web_url: String,
    title: String,
    description: Option<String>,
    #[serde(default)]
    labels: BTreeSet<String>,
    source_project_id: Option<u64>,
    target_project_id: Option<u64>,
}

impl From<MergeRequestEntry> for PullRequest {
    fn from(found: MergeRequestEntry) -> Self {
        Self {
            number: found.iid,
            url: found.web_url,
            title: found.title,
            body: found.description.unwrap_or_default(),
            labels: found.labels,
        }
    }
}

impl GitLab {
    pub(super) fn new(caller: Caller, path: &str) -> Self {
        Self {
            caller,
            base: format!("/projects/{}/merge_requests", encoded(path)),
        }
    }

    fn change(
        &self,
        number: u64,
        body: &serde_json::Value,
    ) -> Result<MergeRequestEntry, ForgeError> {
        let path = format!("{}/{number}", self.base);
        self.caller.ask(Method::PUT, &path, Some(body))
    }
}

impl Forge for GitLab {
    type Error = ForgeError;

    fn find(&self, head: &str, base: &str) -> Result<Option<PullRequest>, ForgeError> {
        let path = format!(
            "{}?state=opened&source_branch={}&target_branch={}",
            self.base,
            encoded(head),
            encoded(base)
        );
        let found: Vec<MergeRequestEntry> = self.caller.ask(Method::GET, &path, None)?;
        // A fork's branch may have the same name.
        let ours =
            |request: &MergeRequestEntry| request.source_project_id == request.target_project_id;
        Ok(found.into_iter().find(ours).map(Into::into))
    }

    fn open(&self, draft: &Draft<'_>) -> Result<PullRequest, ForgeError> {
        let body = json!({"source_branch": draft.head, "target_branch": draft.base,
            "title": draft.title, "description": draft.body});
        let made: MergeRequestEntry = self.caller.ask(Method::POST, &self.base, Some(&body))?;
        Ok(made.into())
    }

    fn update(&self, number: u64, draft: &Draft<'_>) -> Result<PullRequest, ForgeError> {
        let body = json!({"title": draft.title, "description": draft.body});
        self.change(number, &body).map(Into::into)
    }

    fn label(&self, number: u64, label: &str, wanted: bool) -> Result<(), ForgeError> {
        let what = if wanted {
            "add_labels"
        } else {
            "remove_labels"
        };
        self.change(number, &json!({what: label})).map(drop)
    }

    fn close(&self, number: u64) -> Result<(), ForgeError> {
        self.change(number, &json!({"state_event": "close"}))
            .map(drop)
    }
}
