//! A hub that is asked: what it decides about one environment and one commit, and what is not well at a site.
//!
//! What comes in: the hub's address, an environment, a commit, and what the promotion policy asks for.
//! What goes out: the hub's [`Decision`], or why there is none. No answer never counts as a yes.

use std::path::Path;
use std::time::Duration;

use outhaul_bundle::hub_api::{
    ErrorAnswer, GateAnswer, GateQuery, GateRules, SiteFaults, escaped, path,
};
use zeroize::Zeroizing;

use super::answer::{self, Question};
use super::{Decision, clock};
use outhaul_control::model::PromotionPolicy;
use outhaul_kit::commit_id::{HOW_TO_GIVE, is_commit_id};
use outhaul_kit::console;
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::text::printable;
use outhaul_kit::url_secrets::without_secrets;
use outhaul_remote::forge::{ForgeError, read_token};
use outhaul_remote::http::{self, HttpError};

mod closed;

pub use closed::ways_to_open;

/// How long sending may take: as long as a hub waits for a body.
const SENDING: Duration = Duration::from_secs(600);

/// Why there is no decision.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// It answered something else.
    #[error("`{hub}` does not answer like a hub: {problem}")]
    Answer {
        /// The hub.
        hub: String,
        /// What is wrong.
        problem: String,
    },
    /// It answered, and what it says cannot be used for this step.
    #[error(
        "the answer of `{hub}` counts as none: {problem}\nhelp: see that this is the address of your hub, that nothing between keeps or \
         changes its answers (a cache, a proxy), that both clocks are right, and that hub and `outhaul` are of one version"
    )]
    Unusable {
        /// The hub.
        hub: String,
        /// What is wrong.
        problem: String,
    },
    /// It refused the question.
    #[error("`{hub}` says: {problem}")]
    Refused {
        /// The hub.
        hub: String,
        /// Why.
        problem: String,
    },
    /// A commit goes into a URL and into YAML: only a full id is taken.
    #[error("`{commit}` is not a full commit id\nhelp: {HOW_TO_GIVE}")]
    NoCommit {
        /// What was given.
        commit: String,
    },
    /// What is sent is on record under the name of a token.
    #[error(
        "sending to a hub needs a token, and none is named\nhelp: `outhaul-hub token create NAME --scope ingest` on the hub's machine makes \
         one; put it into a file and name that in `$OUTHAUL_HUB_TOKEN_FILE`"
    )]
    NoToken,
    /// What was sent got no answer.
    #[error(
        "no answer from `{hub}`: {problem}; it may have kept what was sent\nhelp: see that it runs and that the address is right, and send it \
         again: what is on record already is kept once"
    )]
    NoAnswer {
        /// The hub.
        hub: String,
        /// What happened.
        problem: String,
    },
    /// It does not let who asks ask.
    #[error(
        "`{hub}` does not answer this: {problem}\nhelp: have `$OUTHAUL_HUB_TOKEN_FILE` name a file with a token of the right scope: `outhaul-hub token \
         create NAME {scopes}` on the hub's machine makes one"
    )]
    NotAllowed {
        /// The hub.
        hub: String,
        /// Why.
        problem: String,
        /// The options for a token that may.
        scopes: &'static str,
    },
    /// The file with the hub's token cannot be used.
    #[error("cannot read the hub's token that `$OUTHAUL_HUB_TOKEN_FILE` names: {0}")]
    Token(#[from] ForgeError),
    /// It cannot be reached.
    #[error(transparent)]
    Http(#[from] HttpError),
}

impl Classified for GateError {
    fn class(&self) -> FailureClass {
        match self {
            Self::NoCommit { .. }
            | Self::NotAllowed { .. }
            | Self::Refused { .. }
            | Self::NoToken => FailureClass::Usage,
            _ => FailureClass::Environment,
        }
    }
}

/// Where the hub is.
#[derive(Debug, Clone, Copy)]
pub struct HubConnection<'a> {
    /// Its URL.
    pub url: &'a str,
    /// A PEM file, when a private authority signed its certificate.
    pub authority: Option<&'a Path>,
}

/// What a gate is asked for; what is not said is as the hub has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateRule {
    /// The environment that is to be moved.
    pub to: Option<String>,
    /// The oldest report that counts, in hours, as a person asks for it.
    pub max_age_hours: Option<u32>,
    /// What the policy of the step asks for; empty without one.
    pub rules: Option<GateRules>,
}

impl GateRule {
    /// What `policy` asks for.
    pub fn of(policy: &PromotionPolicy) -> Self {
        Self {
            to: Some(policy.to.value.clone()),
            max_age_hours: None,
            rules: Some(policy.rules.clone()),
        }
    }

    /// The same, but reports may be no older than `hours`: a person can only ask for more.
    #[must_use]
    pub fn no_older_than(self, hours: Option<u32>) -> Self {
        let of_policy = self.rules.as_ref().and_then(|rules| rules.max_age_hours);
        let both = [self.max_age_hours, of_policy, hours];
        Self {
            max_age_hours: both.into_iter().flatten().min(),
            ..self
        }
    }
}

impl HubConnection<'_> {
    /// Asks whether `commit` may leave `environment`.
    ///
    /// # Errors
    /// [`GateError`] when there is no decision.
    pub fn ask(
        &self,
        environment: &str,
        commit: &str,
        rule: &GateRule,
    ) -> Result<Decision, GateError> {
        if !is_commit_id(commit) {
            let commit = commit.to_owned();
            return Err(GateError::NoCommit { commit });
        }
        let hub = self.url.trim_end_matches('/');
        let rules = rule.rules.as_ref();
        let problem = |error: serde_json::Error| GateError::Answer {
            hub: hub.to_owned(),
            problem: error.to_string(),
        };
        // An age and a share have their own parameters, which an earlier hub knows.
        let rest = rules.map(|rules| GateRules {
            max_age_hours: None,
            quorum_percent: None,
            ..rules.clone()
        });
        let query = GateQuery {
            environment: environment.to_owned(),
            commit: commit.to_owned(),
            max_age_hours: rule
                .max_age_hours
                .or_else(|| rules.and_then(|rules| rules.max_age_hours)),
            quorum_percent: rules.and_then(|rules| rules.quorum_percent),
            to: rule.to.clone(),
            rules: rest
                .map(|rest| serde_json::to_string(&rest))
                .transpose()
                .map_err(problem)?,
        };
        let bytes = self.get(&query.path(), "--scope record --scope check")?;
        let mut answer: GateAnswer = serde_json::from_slice(&bytes).map_err(problem)?;
        // A hub of before does not know rules, and answers without them.
        let decided = |rules: &GateRules| rules.is_simple() || !answer.decision.rules.is_empty();
        if !rules.is_none_or(decided) {
            return Err(GateError::Answer {
                hub: hub.to_owned(),
                problem: "it did not apply the rules of the promotion policy: this hub is too old for them"
                    .to_owned(),
            });
        }
        let question = Question {
            environment,
            commit,
            to: rule.to.as_deref(),
            max_age_hours: query.max_age_hours,
            rules,
        };
        let unusable = |problem: String| GateError::Unusable {
            hub: hub.to_owned(),
            problem,
        };
        if answer.what_if {
            return Err(unusable(
                "it is about rules that are only tried out".to_owned(),
            ));
        }
        answer::check(&question, &answer.decision, clock::now_ms()).map_err(unusable)?;
        answer.decision.notes.extend(answer.rules_on_record);
        answer::in_lines(&mut answer.decision);
        Ok(answer.decision)
    }

    /// Asks what is not well at a site and since when.
    ///
    /// # Errors
    /// [`GateError`] when there is no answer.
    pub fn faults(&self, site: &str) -> Result<SiteFaults, GateError> {
        let bytes = self.fetch(&format!("{}?site={}", path::FAULTS, escaped(site)))?;
        serde_json::from_slice(&bytes).map_err(|error| GateError::Answer {
            hub: self.url.to_owned(),
            problem: error.to_string(),
        })
    }

    /// The reports of a site's present numbering that are older than `before`, the newest first, as it signed them: lines, of which
    /// nothing was verified here. Empty when there are none.
    ///
    /// # Errors
    /// [`GateError`] when there is no answer.
    pub fn reports(&self, site: &str, before: Option<u64>) -> Result<Vec<u8>, GateError> {
        let before = before.map_or_else(String::new, |before| format!("&before={before}"));
        self.fetch(&format!("{}?site={}{before}", path::REPORTS, escaped(site)))
    }

    /// What the hub answers to a path and query, with the token that this program was given.
    ///
    /// # Errors
    /// [`GateError`] when there is no answer.
    pub fn fetch(&self, path: &str) -> Result<Vec<u8>, GateError> {
        self.get(path, "--scope read")
    }

    /// The same; `scopes` are the options for a token that may ask for it.
    fn get(&self, path: &str, scopes: &'static str) -> Result<Vec<u8>, GateError> {
        let hub = self.url.trim_end_matches('/');
        let url = format!("{hub}{path}");
        let token = token()?;
        let token = token.as_deref().map(String::as_str);
        let said = |text: &str| serde_json::from_str::<ErrorAnswer>(text).ok();
        let asked = waiting(hub, http::LIMIT, || {
            http::fetch_as(&url, self.authority, token)
        });
        asked.map_err(|error| {
            let HttpError::Status { status, text, .. } = &error else {
                return error.into();
            };
            let hub = hub.to_owned();
            match (status, said(text).map(|answer| answer.error)) {
                (400, Some(problem)) => GateError::Refused { hub, problem },
                // A hub's own words name a token for whoever reads it; what is asked here needs another one.
                (401, Some(_)) if token.is_none() => GateError::NotAllowed {
                    hub,
                    problem: "it answers only with a token, and none is named".to_owned(),
                    scopes,
                },
                (401 | 403, Some(problem)) => GateError::NotAllowed {
                    hub,
                    problem,
                    scopes,
                },
                _ => error.into(),
            }
        })
    }

    /// Sends what needs a token, and returns what the hub answers.
    ///
    /// # Errors
    /// [`GateError`] when it was not taken; without an answer ([`GateError::NoAnswer`]) the hub may have it all the same.
    pub fn send(&self, path: &str, body: Vec<u8>) -> Result<Vec<u8>, GateError> {
        let url = format!("{}{path}", self.url.trim_end_matches('/'));
        let Some(token) = token()? else {
            return Err(GateError::NoToken);
        };
        let bearer = Zeroizing::new(format!("Bearer {}", token.as_str()));
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
        ];
        let client = http::RemoteClient::with_limit(self.authority, SENDING)?;
        let answer = waiting(self.url, SENDING, || {
            client.send(http::Method::POST, &url, &headers, Some(body))
        });
        let answer = answer.map_err(|error| match error {
            HttpError::NoAnswer { problem, .. } => GateError::NoAnswer {
                hub: self.url.to_owned(),
                problem,
            },
            other => other.into(),
        })?;
        if answer.status == 200 {
            return Ok(answer.bytes);
        }
        match serde_json::from_slice::<ErrorAnswer>(&answer.bytes) {
            Ok(said) if (400..500).contains(&answer.status) => Err(GateError::Refused {
                hub: self.url.to_owned(),
                problem: said.error,
            }),
            _ => Err(answer.refused(&url).into()),
        }
    }
}

/// Does what waits for `hub`; when that takes long, a message says for what and until when.
fn waiting<T>(hub: &str, most: Duration, work: impl FnOnce() -> T) -> T {
    let says = format!(
        "waiting for the hub `{hub}`: no answer yet; it is given up after {} s",
        most.as_secs()
    );
    console::waiting(&printable(&without_secrets(&says)), work)
}

/// Names the file with the token under which the hub records the decisions of this program.
const TOKEN_FILE_VARIABLE: &str = "OUTHAUL_HUB_TOKEN_FILE";

/// The token; without one the hub answers all the same and records nothing.
fn token() -> Result<Option<Zeroizing<String>>, GateError> {
    match std::env::var_os(TOKEN_FILE_VARIABLE) {
        Some(path) => Ok(Some(read_token(Path::new(&path))?)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
