//! GitHub's API: pull requests, and labels of the issues that they are.
//!
//! What comes in: a [`Caller`] and a project. What goes out: the requests of GitHub's REST reference,
//! version 2022-11-28. A label that the repository lacks is made by GitHub itself.

use serde_json::json;

use super::caller::PullRequestEntry;
use super::{Caller, Draft, Forge, ForgeError, Method, PullRequest, encoded};

/// A project on GitHub.
#[derive(Debug)]
pub struct GitHub {
    caller: Caller,
    owner: String,
    /// `/repos/OWNER/NAME`.
    base: String,
}

impl GitHub {
    pub(super) fn new(caller: Caller, owner: &str, name: &str) -> Self {
        Self {
            caller,
            owner: owner.to_owned(),
            base: format!("/repos/{}/{}", encoded(owner), encoded(name)),
        }
    }
}

impl Forge for GitHub {
    type Error = ForgeError;

    fn find(&self, head: &str, base: &str) -> Result<Option<PullRequest>, ForgeError> {
        // `head` is `user:branch`; only a branch of this repository is asked for.
        let path = format!(
            "{}/pulls?state=open&head={}&base={}",
            self.base,
            encoded(&format!("{}:{head}", self.owner)),
            encoded(base)
        );
        let found: Vec<PullRequestEntry> = self.caller.ask(Method::GET, &path, None)?;
        Ok(found.into_iter().next().map(Into::into))
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
        if wanted {
            let body = json!({"labels": [label]});
            return self.caller.send_only(Method::POST, &path, Some(&body));
        }
        let path = format!("{path}/{}", encoded(label));
        self.caller.send_only(Method::DELETE, &path, None)
    }

    fn close(&self, number: u64) -> Result<(), ForgeError> {
        let path = format!("{}/pulls/{number}", self.base);
        let body = json!({"state": "closed"});
        self.caller.send_only(Method::PATCH, &path, Some(&body))
    }
}
