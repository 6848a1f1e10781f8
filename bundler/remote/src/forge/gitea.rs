//! Gitea's API, which Forgejo shares: pull requests, and labels by number.
//!
//! What comes in: a [`Caller`] and a project. What goes out: the requests of Gitea's API, version 1.
//! Its list of pull requests cannot be asked for one branch, so it is read page by page.

use serde::Deserialize;
use serde_json::json;

use super::caller::PullRequestEntry;
use super::{Caller, Draft, Forge, ForgeError, LABEL_COLOUR, Method, PullRequest, encoded};

/// Entries per page; Gitea's own default maximum.
const PAGE: usize = 50;
/// Most pages: more open pull requests than people could look through.
const MAX_PAGES: usize = 200;

/// A project on Gitea or Forgejo.
#[derive(Debug)]
pub struct Gitea {
    caller: Caller,
    /// `/repos/OWNER/NAME`.
    base: String,
}

/// What a list has of a pull request, besides what both forges have.
#[derive(Debug, Deserialize)]
struct ListedPullRequest {
    #[serde(flatten)]
    entry: PullRequestEntry,
    head: Side,
    base: Side,
}

#[derive(Debug, Deserialize)]
struct Side {
    #[serde(rename = "ref")]
    branch: String,
    repo_id: i64,
}

#[derive(Debug, Deserialize)]
struct Label {
    id: i64,
    name: String,
}

impl Gitea {
    pub(super) fn new(caller: Caller, owner: &str, name: &str) -> Self {
        Self {
            caller,
            base: format!("/repos/{}/{}", encoded(owner), encoded(name)),
        }
    }

    /// The first entry of a list, page by page, that `wanted` accepts.
    fn search<T: serde::de::DeserializeOwned>(
        &self,
        list: &str,
        wanted: impl Fn(&T) -> bool,
    ) -> Result<Option<T>, ForgeError> {
        for page in 1..=MAX_PAGES {
            let path = format!("{}/{list}limit={PAGE}&page={page}", self.base);
            let found: Vec<T> = self.caller.ask(Method::GET, &path, None)?;
            // A server may be set to give out fewer at once; an empty page is the end.
            let end = found.is_empty();
            if let Some(found) = found.into_iter().find(&wanted) {
                return Ok(Some(found));
            }
            if end {
                break;
            }
        }
        Ok(None)
    }

    fn label_id(&self, name: &str) -> Result<Option<i64>, ForgeError> {
        let found = self.search("labels?", |label: &Label| label.name == name)?;
        Ok(found.map(|label| label.id))
    }
}

impl Forge for Gitea {
    type Error = ForgeError;

    fn find(&self, head: &str, base: &str) -> Result<Option<PullRequest>, ForgeError> {
        let found = self.search("pulls?state=open&", |found: &ListedPullRequest| {
            found.head.branch == head
                && found.base.branch == base
                && found.head.repo_id == found.base.repo_id
        })?;
        Ok(found.map(|found| found.entry.into()))
    }

    fn open(&self, draft: &Draft<'_>) -> Result<PullRequest, ForgeError> {
        self.caller.open_pull(&self.base, draft)
    }

    fn update(&self, number: u64, draft: &Draft<'_>) -> Result<PullRequest, ForgeError> {
        let body = json!({"title": draft.title, "body": draft.body});
        self.caller.change_pull(&self.base, number, &body)
    }

    fn label(&self, number: u64, label: &str, wanted: bool) -> Result<(), ForgeError> {
        let path = format!("{}/issues/{number}/labels", self.base);
        match (self.label_id(label)?, wanted) {
            (Some(id), true) => {
                let body = json!({"labels": [id]});
                self.caller.send_only(Method::POST, &path, Some(&body))
            }
            (None, true) => {
                let new = json!({"name": label, "color": LABEL_COLOUR});
                let all = format!("{}/labels", self.base);
                let made: Label = self.caller.ask(Method::POST, &all, Some(&new))?;
                let body = json!({"labels": [made.id]});
                self.caller.send_only(Method::POST, &path, Some(&body))
            }
            (Some(id), false) => {
                let path = format!("{path}/{id}");
                self.caller.send_only(Method::DELETE, &path, None)
            }
            (None, false) => Ok(()),
        }
    }

    fn close(&self, number: u64) -> Result<(), ForgeError> {
        let path = format!("{}/pulls/{number}", self.base);
        let body = json!({"state": "closed"});
        self.caller.send_only(Method::PATCH, &path, Some(&body))
    }
}
