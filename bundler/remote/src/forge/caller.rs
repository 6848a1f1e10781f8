//! One request to a forge's API, with its token, and its answer as JSON.
//!
//! What comes in: a method, a path below the API, a body. What goes out: what the forge answered, or an
//! error that distinguishes a refused token from a refused request. The token is in one header of the request
//! and in nothing that is printed.

use std::fmt;

use outhaul_kit::percent;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{Draft, ForgeError, ForgeKind, PullRequest};
use crate::http::{Method, RemoteClient};

/// One API with its token.
pub(super) struct Caller {
    pub kind: ForgeKind,
    pub client: RemoteClient,
    pub api: String,
    pub token: Zeroizing<String>,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the token.
        write!(f, "Caller({} at {})", self.kind, self.api)
    }
}

impl Caller {
    /// The answer of `path` below the API, as JSON.
    pub fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, ForgeError> {
        let url = format!("{}{path}", self.api);
        let bytes = self.send(method, &url, body)?;
        serde_json::from_slice(&bytes).map_err(|error| ForgeError::Answer {
            url,
            kind: self.kind,
            problem: error.to_string(),
        })
    }

    /// Sends something whose answer does not matter.
    pub fn send_only(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(), ForgeError> {
        let url = format!("{}{path}", self.api);
        self.send(method, &url, body).map(drop)
    }

    /// Opens a pull request of the project at `base`, as GitHub and, after it, Gitea have them.
    pub fn open_pull(&self, base: &str, draft: &Draft<'_>) -> Result<PullRequest, ForgeError> {
        let body = json!({"title": draft.title, "body": draft.body, "head": draft.head,
            "base": draft.base});
        let path = format!("{base}/pulls");
        let made: PullRequestEntry = self.ask(Method::POST, &path, Some(&body))?;
        Ok(made.into())
    }

    /// Changes a pull request of the project at `base`, in the same way.
    pub fn change_pull(
        &self,
        base: &str,
        number: u64,
        body: &Value,
    ) -> Result<PullRequest, ForgeError> {
        let path = format!("{base}/pulls/{number}");
        let changed: PullRequestEntry = self.ask(Method::PATCH, &path, Some(body))?;
        Ok(changed.into())
    }

    fn send(&self, method: Method, url: &str, body: Option<&Value>) -> Result<Vec<u8>, ForgeError> {
        let authorization = match self.kind {
            ForgeKind::Gitea => format!("token {}", self.token.as_str()),
            ForgeKind::GitHub | ForgeKind::GitLab => format!("Bearer {}", self.token.as_str()),
        };
        let authorization = Zeroizing::new(authorization);
        let accept = match self.kind {
            ForgeKind::GitHub => "application/vnd.github+json",
            ForgeKind::Gitea | ForgeKind::GitLab => "application/json",
        };
        let mut headers = vec![
            ("Accept", accept),
            ("Authorization", authorization.as_str()),
            // GitHub refuses requests without one.
            ("User-Agent", "outhaul"),
        ];
        if self.kind == ForgeKind::GitHub {
            headers.push(("X-GitHub-Api-Version", "2022-11-28"));
        }
        if body.is_some() {
            headers.push(("Content-Type", "application/json"));
        }
        let body = body.map(|value| value.to_string().into_bytes());
        let answer = self.client.send(method, url, &headers, body)?;
        match answer.status {
            200..=299 => Ok(answer.bytes),
            401 | 403 => Err(ForgeError::Token {
                url: url.to_owned(),
                status: answer.status,
                text: String::from_utf8_lossy(&answer.bytes)
                    .chars()
                    .take(200)
                    .collect(),
            }),
            _ => Err(answer.refused(url).into()),
        }
    }
}

/// A pull request as GitHub and, after it, Gitea list it.
#[derive(Debug, Deserialize)]
pub(super) struct PullRequestEntry {
    number: u64,
    html_url: String,
    title: String,
    body: Option<String>,
    labels: Option<Vec<LabelEntry>>,
}

#[derive(Debug, Deserialize)]
struct LabelEntry {
    name: String,
}

impl From<PullRequestEntry> for PullRequest {
    fn from(found: PullRequestEntry) -> Self {
        let labels = found.labels.unwrap_or_default();
        Self {
            number: found.number,
            url: found.html_url,
            title: found.title,
            body: found.body.unwrap_or_default(),
            labels: labels.into_iter().map(|label| label.name).collect(),
        }
    }
}

/// `text` as one part of a URL.
pub(super) fn encoded(text: &str) -> String {
    percent::encoded(text).to_string()
}
