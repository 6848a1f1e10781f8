//! Forges: where a commit waits for people before it is merged.
//!
//! What comes in: a branch with a commit, and what to say about it. What goes out: one open pull
//! request, by the documented API of Gitea (and Forgejo), GitHub or GitLab. The token goes into one
//! header of requests to that API, into no message, no argument and no file. Nothing but pull requests
//! from the branch that was asked for is ever touched.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use zeroize::Zeroizing;

use crate::http::{HttpError, Method, RemoteClient};
use outhaul_git::address::{Address, Scheme};
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_ship::branch::forge::{Draft, Forge, PullRequest};

pub mod access;
mod caller;
mod gitea;
mod github;
mod gitlab;

use caller::{Caller, encoded};
pub use gitea::Gitea;
pub use github::GitHub;
pub use gitlab::GitLab;

/// Largest token in bytes.
const MAX_TOKEN_BYTES: u64 = 4096;
/// Colour of a label that has to be made: the green of what went through.
const LABEL_COLOUR: &str = "#0e8a16";

/// Why a forge was of no use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForgeError {
    /// It answered something else than its documentation says.
    #[error("`{url}` does not answer like {kind}: {problem}\nhelp: check `--forge` and `--api`")]
    Answer {
        /// The URL that was asked.
        url: String,
        /// Which forge it should be.
        kind: ForgeKind,
        /// What is wrong.
        problem: String,
    },
    /// The repository's URL does not say which project it is.
    #[error(
        "`{url}` does not say which project it is\nhelp: give `--project OWNER/NAME` and `--api URL`"
    )]
    NoProject {
        /// The repository.
        url: String,
    },
    /// A pull request needs a token.
    #[error(
        "a pull request needs a token of the forge\nhelp: give `--token-file FILE` (for `outhaul serve`: `token_file`), \
         or set OUTHAUL_FORGE_TOKEN"
    )]
    NoToken,
    /// Neither its host nor anybody says which forge it is.
    #[error(
        "it is not known which forge `{url}` is on\nhelp: give `--forge gitea`, `--forge github` or `--forge gitlab` \
         (for `outhaul serve`: `forge`)"
    )]
    Unnamed {
        /// The repository.
        url: String,
    },
    /// The token does not allow it.
    #[error(
        "`{url}` does not accept the token ({status}): {text}\nhelp: check that it has not expired and may write \
         pull requests and the repository"
    )]
    Token {
        /// The URL that was asked.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        text: String,
    },
    /// The token's file cannot be used.
    #[error("cannot use the token in `{}`: {problem}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// There is no answer, or it is no.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// No such forge.
    #[error(
        "`{text}` is not a known forge\nhelp: it is gitea (also for Forgejo), github or gitlab"
    )]
    Unknown {
        /// What was given.
        text: String,
    },
}

/// Which API a forge has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgeKind {
    /// Gitea and Forgejo.
    Gitea,
    /// GitHub, also on premises.
    GitHub,
    /// GitLab.
    GitLab,
}

impl fmt::Display for ForgeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gitea => "Gitea",
            Self::GitHub => "GitHub",
            Self::GitLab => "GitLab",
        })
    }
}

impl FromStr for ForgeKind {
    type Err = ForgeError;

    fn from_str(text: &str) -> Result<Self, ForgeError> {
        match text {
            "gitea" | "forgejo" => Ok(Self::Gitea),
            "github" => Ok(Self::GitHub),
            "gitlab" => Ok(Self::GitLab),
            _ => Err(ForgeError::Unknown {
                text: text.to_owned(),
            }),
        }
    }
}

impl ForgeKind {
    /// The forge that a well-known host is.
    pub fn of_host(url: &str) -> Option<Self> {
        match Project::of(url)?.host.as_str() {
            "github.com" => Some(Self::GitHub),
            "gitlab.com" => Some(Self::GitLab),
            "codeberg.org" | "gitea.com" => Some(Self::Gitea),
            _ => None,
        }
    }

    /// The user's name under which git gives a token to this forge.
    pub fn git_user(self) -> &'static str {
        match self {
            Self::Gitea => "outhaul",
            Self::GitHub => "x-access-token",
            Self::GitLab => "oauth2",
        }
    }

    /// Where its API is, by default, for a repository at `url`.
    fn api(self, project: &Project) -> String {
        let base = format!("{}://{}", project.scheme, project.authority);
        match self {
            Self::Gitea => format!("{base}/api/v1"),
            Self::GitHub if project.host == "github.com" => "https://api.github.com".to_owned(),
            Self::GitHub => format!("{base}/api/v3"),
            Self::GitLab => format!("{base}/api/v4"),
        }
    }
}

/// Which forge, which project, and with which token.
pub struct Access<'a> {
    /// Which API it has.
    pub kind: ForgeKind,
    /// The platform repository's URL.
    pub repository: &'a str,
    /// The API's URL, instead of the usual one on the repository's host.
    pub api: Option<&'a str>,
    /// `owner/name`, instead of what the repository's URL says.
    pub project: Option<&'a str>,
    /// The token.
    pub token: Zeroizing<String>,
    /// A PEM file, when a private authority signed the server's certificate.
    pub authority: Option<&'a Path>,
}

impl fmt::Debug for Access<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the token.
        write!(f, "Access({} for {})", self.kind, self.repository)
    }
}

/// The forge that `access` describes; nothing is asked yet.
///
/// # Errors
/// [`ForgeError`] when project or address are not known.
pub fn connect(access: Access<'_>) -> Result<Box<dyn Forge<Error = ForgeError>>, ForgeError> {
    let unknown = || ForgeError::NoProject {
        url: access.repository.to_owned(),
    };
    let of_url = Project::of(access.repository);
    let path = match (access.project, &of_url) {
        (Some(given), _) => given.to_owned(),
        (None, Some(project)) => project.path.clone(),
        (None, None) => return Err(unknown()),
    };
    let api = match (access.api, &of_url) {
        (Some(given), _) => given.trim_end_matches('/').to_owned(),
        (None, Some(project)) => access.kind.api(project),
        (None, None) => return Err(unknown()),
    };
    let caller = Caller {
        kind: access.kind,
        client: RemoteClient::new(access.authority)?,
        api,
        token: access.token,
    };
    let two_parts = || path.split_once('/').filter(|(_, name)| !name.contains('/'));
    Ok(match access.kind {
        ForgeKind::GitLab => Box::new(GitLab::new(caller, &path)),
        ForgeKind::Gitea => {
            let (owner, name) = two_parts().ok_or_else(unknown)?;
            Box::new(Gitea::new(caller, owner, name))
        }
        ForgeKind::GitHub => {
            let (owner, name) = two_parts().ok_or_else(unknown)?;
            Box::new(GitHub::new(caller, owner, name))
        }
    })
}

impl Classified for ForgeError {
    fn class(&self) -> FailureClass {
        match self {
            Self::NoProject { .. }
            | Self::NoToken
            | Self::Token { .. }
            | Self::TokenFile { .. }
            | Self::Unknown { .. }
            | Self::Unnamed { .. }
            | Self::Http(HttpError::Plain { .. } | HttpError::Authority { .. }) => {
                FailureClass::Usage
            }
            _ => FailureClass::Environment,
        }
    }
}

/// Reads a token from a file.
///
/// # Errors
/// [`ForgeError::TokenFile`] when it cannot be read or holds no token.
pub fn read_token(path: &Path) -> Result<Zeroizing<String>, ForgeError> {
    let bad = |problem: String| ForgeError::TokenFile {
        path: path.to_owned(),
        problem,
    };
    let bytes = outhaul_signer::durable::read_secret(path, MAX_TOKEN_BYTES)
        .map(Zeroizing::new)
        .map_err(|error| bad(error.to_string()))?;
    let text = std::str::from_utf8(&bytes).map_err(|error| bad(error.to_string()))?;
    checked_token(text).ok_or_else(|| bad("it holds no token in one line".to_owned()))
}

/// The token: of `file`, or else the one that this process was given.
///
/// # Errors
/// [`ForgeError::TokenFile`] when the file holds none.
pub fn token(file: Option<&Path>) -> Result<Option<Zeroizing<String>>, ForgeError> {
    match file {
        Some(file) => read_token(file).map(Some),
        None => token_from_env(),
    }
}

/// The token that this process was given: in `OUTHAUL_FORGE_TOKEN`, or by systemd as the credential
/// `forge-token`. `None` when it was given none.
///
/// # Errors
/// [`ForgeError::TokenFile`] when systemd's file holds no token.
fn token_from_env() -> Result<Option<Zeroizing<String>>, ForgeError> {
    if let Ok(text) = std::env::var("OUTHAUL_FORGE_TOKEN")
        && let Some(token) = checked_token(&text)
    {
        return Ok(Some(token));
    }
    let Some(folder) = std::env::var_os("CREDENTIALS_DIRECTORY") else {
        return Ok(None);
    };
    let file = Path::new(&folder).join("forge-token");
    if file.exists() {
        read_token(&file).map(Some)
    } else {
        Ok(None)
    }
}

/// `text` without space around it, when it can be a token.
fn checked_token(text: &str) -> Option<Zeroizing<String>> {
    let text = text.trim();
    let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then(|| Zeroizing::new(text.to_owned()))
}

/// What a repository's URL says of its host and project.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Project {
    scheme: &'static str,
    /// Host and port.
    authority: String,
    host: String,
    /// `owner/name`, without `.git`.
    path: String,
}

impl Project {
    fn of(url: &str) -> Option<Self> {
        let address = Address::parse(url).ok()?;
        let host = address.host().to_owned();
        let (scheme, authority) = match address.scheme() {
            Scheme::Http => ("http", address.authority()),
            Scheme::Https => ("https", address.authority()),
            // The port is that of ssh; the pages are at the usual one.
            Scheme::Ssh => ("https", host.clone()),
            Scheme::Git | Scheme::File => return None,
        };
        let path = address.path().trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path).to_owned();
        (!host.is_empty() && path.contains('/')).then_some(Self {
            scheme,
            authority,
            host,
            path,
        })
    }
}

#[cfg(test)]
mod tests;
