//! The file that names the provider: whom the hub asks, and who may do what.
//!
//! What comes in: YAML. What goes out: [`OidcSettings`], or what is wrong with it and where. Unknown keys are refused: a grant
//! that is misspelt would give more, or less, than was meant. Nobody has a scope that no grant gives. The secret is in a file of
//! its own, which is read when it is used.

use std::path::{Path, PathBuf};

use outhaul_access::Scope;
use outhaul_http::BaseUrl;
use serde::{Deserialize, Deserializer};

/// Most grants, and most values of one.
const MAX_GRANTS: usize = 64;
const MAX_VALUES: usize = 256;
/// Longest value, name of a claim, and label, in bytes.
const MAX_TEXT_BYTES: usize = 256;
/// The longest session, in minutes: what a session of a token lasts.
const MAX_SESSION_MINUTES: u32 = 12 * 60;
/// The shortest one.
const MIN_SESSION_MINUTES: u32 = 5;
/// Where the provider sends the browser back to, below the hub's URL.
pub const RETURN: &str = "/login/oidc/return";

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    expecting = "a map with `issuer`, `clientId`, `clientSecretFile`, `hub`, `name` and `grants`"
)]
pub struct OidcSettings {
    /// The provider, exactly as it names itself.
    pub issuer: String,
    /// What the hub is called there.
    pub client_id: String,
    /// The secret that the provider gave for it.
    pub client_secret_file: PathBuf,
    /// The hub's own URL, as browsers reach it.
    pub hub: String,
    /// The authority of the provider's certificate, PEM; without it, the system's.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// What the button says after "Log in with"; without it, the provider's host.
    #[serde(default)]
    pub label: Option<String>,
    /// The claim that names the person.
    pub name: String,
    /// The provider's scopes that are asked for besides `openid`.
    #[serde(default = "usual_scopes")]
    pub request_scopes: Vec<String>,
    /// How long a session lasts, in minutes.
    #[serde(default = "longest_session")]
    pub session_minutes: u32,
    /// Who may do what.
    pub grants: Vec<Grant>,
}

/// What people of whom the provider says something may do.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    expecting = "a map with `claim`, `values` and `scopes`"
)]
pub struct Grant {
    /// The claim of the ID token.
    pub claim: String,
    /// Its values; one of them is enough. A claim that is a list has to hold one.
    pub values: Vec<String>,
    /// What these people may do.
    pub scopes: Vec<PersonScope>,
}

/// A scope that a person can have: those of programs are for tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PersonScope(pub Scope);

impl<'de> Deserialize<'de> for PersonScope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.parse() {
            Ok(scope @ (Scope::Read | Scope::Approve | Scope::Admin)) => Ok(Self(scope)),
            _ => Err(serde::de::Error::custom(format!(
                "`{text}` is not a scope of people: read, approve and admin are"
            ))),
        }
    }
}

fn usual_scopes() -> Vec<String> {
    vec!["profile".to_owned(), "email".to_owned()]
}

fn longest_session() -> u32 {
    MAX_SESSION_MINUTES
}

/// What is wrong with the file.
#[derive(Debug, thiserror::Error)]
#[error("`{path}`: {problem}", path = path.display())]
pub struct SettingsError {
    /// The file.
    pub path: PathBuf,
    /// What, and where.
    pub problem: String,
}

impl OidcSettings {
    /// Reads and checks the text of `path`.
    ///
    /// # Errors
    /// [`SettingsError`] with line and column, or the key.
    pub fn parse(path: &Path, text: &str) -> Result<Self, SettingsError> {
        let wrong = |problem: String| SettingsError {
            path: path.to_owned(),
            problem,
        };
        let settings: Self =
            serde_yaml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        match settings.problem() {
            Some((key, problem)) => {
                let place =
                    line_of(text, key).map_or_else(String::new, |line| format!(" at line {line}"));
                Err(wrong(format!("{problem}{place}")))
            }
            None => Ok(settings),
        }
    }

    /// Where the provider sends the browser back to.
    pub fn redirect_url(&self) -> String {
        let hub = self.hub.parse::<BaseUrl>();
        hub.map_or_else(|_| self.hub.clone(), |hub| hub.join(RETURN))
    }

    /// Whether browsers reach the hub over TLS, by a proxy or by itself.
    pub fn is_tls(&self) -> bool {
        outhaul_http::is_tls(&self.hub) == Ok(true)
    }

    /// What the button says after "Log in with".
    pub fn shown_label(&self) -> &str {
        self.label.as_deref().unwrap_or_else(|| {
            let rest = self.issuer.split("//").nth(1).unwrap_or(&self.issuer);
            rest.split('/').next().unwrap_or(rest)
        })
    }

    /// How long a session lasts, in milliseconds.
    pub fn session_ms(&self) -> i64 {
        i64::from(self.session_minutes.min(MAX_SESSION_MINUTES)) * 60 * 1000
    }

    /// What is wrong, and the key that it is about.
    fn problem(&self) -> Option<(&'static str, String)> {
        for (key, url) in [("issuer", &self.issuer), ("hub", &self.hub)] {
            if let Err(expected) = outhaul_http::check_url(url) {
                return Some((key, format!("`{key}`: give {expected}")));
            }
        }
        let texts = [("clientId", &self.client_id), ("name", &self.name)];
        for (key, text) in texts {
            if !is_text(text) {
                return Some((key, format!("`{key}`: {TEXT}")));
            }
        }
        if let Some(label) = self.label.as_ref().filter(|label| !is_text(label)) {
            return Some((
                "label",
                format!("`label`: `{}`: {TEXT}", label.escape_debug()),
            ));
        }
        // RFC 6749, section 3.3.
        let is_scope = |text: &String| {
            is_text(text)
                && text
                    .bytes()
                    .all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
        };
        if self.request_scopes.len() > MAX_GRANTS || !self.request_scopes.iter().all(is_scope) {
            let problem = "`requestScopes`: a scope is a word, such as `groups`".to_owned();
            return Some(("requestScopes", problem));
        }
        if !(MIN_SESSION_MINUTES..=MAX_SESSION_MINUTES).contains(&self.session_minutes) {
            let problem =
                format!("`sessionMinutes` is {MIN_SESSION_MINUTES} to {MAX_SESSION_MINUTES}");
            return Some(("sessionMinutes", problem));
        }
        self.problem_of_grants().map(|problem| ("grants", problem))
    }

    fn problem_of_grants(&self) -> Option<String> {
        if self.grants.is_empty() {
            return Some("`grants` is empty: no one could log in".to_owned());
        }
        if self.grants.len() > MAX_GRANTS {
            return Some(format!("`grants` has more than {MAX_GRANTS} entries"));
        }
        self.grants.iter().enumerate().find_map(|(at, grant)| {
            let wrong = |problem: &str| Some(format!("grants[{at}]: {problem}"));
            if !is_text(&grant.claim) || !grant.values.iter().all(|value| is_text(value)) {
                return wrong(TEXT);
            }
            if grant.values.is_empty() || grant.values.len() > MAX_VALUES {
                return wrong(&format!("`values` has 1 to {MAX_VALUES} entries"));
            }
            match grant.scopes.is_empty() {
                true => wrong("`scopes` is empty: it would allow nothing"),
                false => None,
            }
        })
    }
}

/// What a text of the file is.
const TEXT: &str = "a text has 1 to 256 bytes, no space at its ends, and no control characters";

fn is_text(text: &str) -> bool {
    (1..=MAX_TEXT_BYTES).contains(&text.len())
        && text.trim() == text
        && !text.chars().any(char::is_control)
}

/// The line of a key of the whole file, from 1; `None` in a form of YAML that has no lines.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let begins = |line: &str| {
        line.strip_prefix(key)
            .is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    text.lines().position(begins).map(|at| at + 1)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const GOOD: &str = "issuer: https://id.example.org\nclientId: hub\nclientSecretFile: /run/secret\n\
        hub: https://hub.example.org/\nname: preferred_username\nrequestScopes: [profile, email, groups]\ngrants:\n\
        - {claim: groups, values: [fleet, ops], scopes: [read]}\n\
        - {claim: email, values: [ann@example.org], scopes: [approve]}\n";

    pub(crate) fn parsed(text: &str) -> Result<OidcSettings, String> {
        OidcSettings::parse(Path::new("oidc.yaml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_read_and_what_it_leaves_out_is_what_is_usual() {
        let settings = parsed(GOOD).unwrap();
        assert_eq!(
            settings.redirect_url(),
            "https://hub.example.org/login/oidc/return"
        );
        assert_eq!(settings.shown_label(), "id.example.org");
        assert_eq!(settings.session_ms(), 12 * 60 * 60 * 1000);
        assert!(settings.is_tls());
        assert_eq!(settings.grants[1].scopes, [PersonScope(Scope::Approve)]);
    }

    #[test]
    fn the_documents_example_is_one() {
        let page = include_str!("../../../docs/hub-login.md");
        let block = page.split("```yaml\n").nth(1).unwrap();
        let settings = parsed(block.split("```").next().unwrap()).unwrap();
        assert!(settings.grants.len() > 1);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (from, to, words) in [
            (
                "issuer: https",
                "issuer: http",
                "`issuer`: give a URL that starts with https:// (http:// only for 127.0.0.1, [::1] \
              or localhost), without a user, a password, `?` or `#` at line 1",
            ),
            (
                "hub: https://hub.example.org/",
                "hub: https://a:b@hub.example.org/",
                "at line 4",
            ),
            ("clientId: hub", "clientID: hub", "unknown field `clientID`"),
            (
                "clientId: hub",
                "clientId: ''",
                "`clientId`: a text has 1 to 256 bytes",
            ),
            (
                "scopes: [read]",
                "scopes: [record]",
                "`record` is not a scope of people: read, approve and admin are",
            ),
            (
                "scopes: [read]",
                "scopes: [ingest]",
                "`ingest` is not a scope of people",
            ),
            (
                "scopes: [read]",
                "scopes: []",
                "grants[0]: `scopes` is empty: it would allow nothing at line 7",
            ),
            (
                "values: [fleet, ops]",
                "values: []",
                "grants[0]: `values` has 1 to 256 entries",
            ),
            ("claim: groups", "claims: groups", "unknown field `claims`"),
            ("name: preferred_username\n", "", "missing field `name`"),
            (
                "grants:",
                "sessionMinutes: 721\ngrants:",
                "`sessionMinutes` is 5 to 720 at line 7",
            ),
            ("groups]\n", "'a b']\n", "a scope is a word"),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{from}");
            let error = parsed(&text).unwrap_err();
            assert!(
                error.starts_with("`oidc.yaml`: ") && error.contains(words),
                "{error}"
            );
        }
        let error = parsed(&GOOD.replace("scopes: [read]", "scopes: [reed]")).unwrap_err();
        assert!(error.contains("line 8 column"), "{error}");
        let none = GOOD.split("grants:").next().unwrap().to_owned() + "grants: []\n";
        assert!(parsed(&none).unwrap_err().contains("no one could log in"));
    }
}
