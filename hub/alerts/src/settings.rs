//! The file that names destinations: who gets to know what, and how.
//!
//! What comes in: YAML. What goes out: [`AlertSettings`], or what is wrong with it and where. Unknown keys are refused: a filter that
//! is misspelt would send everything, or nothing. Secrets are in files of their own, which are read when they are used.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::change::{AlertKind, Condition};

/// Most destinations.
const MAX_DESTINATIONS: usize = 32;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    expecting = "a map with `destinations`"
)]
pub struct AlertSettings {
    /// Where the hub's pages are, for people who get a mail.
    #[serde(default)]
    pub hub: Option<String>,
    /// How often the hub looks, in seconds.
    #[serde(default = "a_minute")]
    pub look_seconds: u32,
    /// Who gets messages.
    pub destinations: Vec<DestinationSettings>,
}

/// One destination.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    expecting = "a map with `name`, and `webhook` or `mail`"
)]
pub struct DestinationSettings {
    /// Its name, under which what it gets is kept.
    pub name: String,
    /// Only alerts of these environments, and those that have none; empty for all.
    #[serde(default)]
    pub environments: BTreeSet<String>,
    /// Only these kinds; empty for all.
    #[serde(default)]
    pub kinds: BTreeSet<AlertKind>,
    /// The shortest time between two messages, in seconds.
    #[serde(default = "a_minute")]
    pub every_seconds: u32,
    /// A web address that takes JSON.
    #[serde(default)]
    pub webhook: Option<WebhookSettings>,
    /// A mail server.
    #[serde(default)]
    pub mail: Option<MailSettings>,
}

/// How a webhook is called.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    expecting = "a map with `url`"
)]
pub struct WebhookSettings {
    /// `https://…`, or `http://` to this machine.
    pub url: String,
    /// The authority of its certificate, PEM; without it, the system's.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// The secret that signs each body.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
}

/// How mail is handed over.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    expecting = "a map with `server`, `from` and `to`"
)]
pub struct MailSettings {
    /// `HOST:PORT` of the server.
    pub server: String,
    /// How the connection is protected.
    #[serde(default)]
    pub tls: MailTls,
    /// The authority of its certificate, PEM; without it, the system's.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// Who logs in.
    #[serde(default)]
    pub user: Option<String>,
    /// Its password.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// The sender's address.
    pub from: String,
    /// The readers' addresses.
    pub to: Vec<String>,
}

/// How a connection to a mail server is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailTls {
    /// STARTTLS, or no mail.
    #[default]
    Starttls,
    /// TLS from the beginning.
    Tls,
    /// None: to this machine only.
    None,
}

/// What a parser says, without the texts that it quotes: an address may hold a secret.
fn without_values(text: &str) -> String {
    let Some((before, rest)) = text.split_once("string \"") else {
        return text.to_owned();
    };
    let after = rest
        .rsplit_once("\", expected")
        .map_or("", |(_, after)| after);
    format!("{before}text, expected{after}")
}

/// Whether `text` is a mail address.
fn is_address(text: &str) -> bool {
    text.parse::<lettre::Address>().is_ok()
}

fn a_minute() -> u32 {
    60
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

impl AlertSettings {
    /// The files with secrets that it names.
    pub fn secret_files(&self) -> impl Iterator<Item = &Path> {
        self.destinations.iter().flat_map(|one| {
            let webhook = one
                .webhook
                .as_ref()
                .and_then(|it| it.secret_file.as_deref());
            let mail = one.mail.as_ref().and_then(|it| it.password_file.as_deref());
            webhook.into_iter().chain(mail)
        })
    }

    /// Reads and checks the text of `path`.
    ///
    /// # Errors
    /// [`SettingsError`] with line and column, or the destination.
    pub fn parse(path: &Path, text: &str) -> Result<Self, SettingsError> {
        let wrong = |problem: String| SettingsError {
            path: path.to_owned(),
            problem,
        };
        let settings: Self = serde_yaml::from_str(text)
            .map_err(|error| wrong(without_values(&error.to_string())))?;
        settings
            .problem()
            .map_or(Ok(settings.clone()), |problem| Err(wrong(problem)))
    }

    fn problem(&self) -> Option<String> {
        if self.destinations.is_empty() {
            return Some("`destinations` is empty: no alert would be sent".into());
        }
        if self.destinations.len() > MAX_DESTINATIONS {
            return Some(format!("more than {MAX_DESTINATIONS} destinations"));
        }
        if !(1..=3600).contains(&self.look_seconds) {
            return Some("`lookSeconds` is 1 to 3600".into());
        }
        let mut names = BTreeSet::new();
        self.destinations.iter().find_map(|one| {
            let name = &one.name;
            let at = |problem: &str| Some(format!("destination `{name}`: {problem}"));
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if name.is_empty() || name.len() > 64 || !name.chars().all(is_name) {
                return at("a name is 1 to 64 letters, digits, `-`, `_` and `.`");
            }
            if !names.insert(name) {
                return at("two destinations have this name");
            }
            if one.every_seconds > 86_400 {
                return at("`everySeconds` is 0 to 86400");
            }
            match (&one.webhook, &one.mail) {
                (Some(_), Some(_)) | (None, None) => at("give either `webhook` or `mail`"),
                (Some(webhook), None) => {
                    let problem = outhaul_http::is_tls(&webhook.url).err()?;
                    at(&format!("`webhook.url`: {problem}"))
                }
                (None, Some(mail)) => mail.problem().and_then(|problem| at(&problem)),
            }
        })
    }
}

impl MailSettings {
    /// Host and port.
    pub fn address(&self) -> Option<(&str, u16)> {
        let (host, port) = self.server.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        (!host.is_empty()).then_some((host, port.parse().ok()?))
    }

    fn problem(&self) -> Option<String> {
        let Some((host, _)) = self.address() else {
            return Some("`mail.server` is `HOST:PORT`, such as `smtp.example.org:587`".into());
        };
        if self.tls == MailTls::None && !outhaul_http::is_loopback(host) {
            return Some(format!(
                "`mail.tls: none` to `{host}`: without TLS mail goes to this machine only"
            ));
        }
        if self.user.is_some() != self.password_file.is_some() {
            return Some("`mail.user` and `mail.passwordFile` belong together".into());
        }
        if self.to.is_empty() {
            return Some("`mail.to` has no address".into());
        }
        let mut all = self.to.iter().chain([&self.from]);
        let wrong = all.find(|address| !is_address(address))?;
        Some(format!("`{wrong}` is not a mail address"))
    }
}

impl DestinationSettings {
    /// Whether it gets what is about `condition`. That the hub cannot look is for everyone: nothing else will come.
    pub fn wants(&self, condition: &Condition) -> bool {
        let of_environment = match &condition.environment {
            Some(name) => self.environments.is_empty() || self.environments.contains(name),
            None => true,
        };
        let of_kind = self.kinds.is_empty() || self.kinds.contains(&condition.kind);
        condition.kind == AlertKind::Hub || (of_environment && of_kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<AlertSettings, String> {
        AlertSettings::parse(Path::new("alerts.yaml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_with_both_kinds_is_read_and_filters_are_kept() {
        let settings = parsed(
            "hub: https://hub.example\ndestinations:\n- name: on-call\n  kinds: [site, gate]\n  environments: [prod]\n  \
             webhook: {url: 'https://hooks.example/a', secretFile: /run/secret}\n- name: team\n  everySeconds: 900\n  \
             mail: {server: 'smtp.example:587', from: hub@example.org, to: [a@example.org]}\n",
        )
        .unwrap();
        assert_eq!(settings.look_seconds, 60);
        let site = |environment: &str, kind| Condition {
            kind,
            key: "a".into(),
            subject: "a".into(),
            environment: Some(environment.to_owned()),
            status: "stale".into(),
            message: String::new(),
        };
        let on_call = &settings.destinations[0];
        assert!(on_call.wants(&site("prod", AlertKind::Site)));
        assert!(!on_call.wants(&site("dev", AlertKind::Site)));
        assert!(!on_call.wants(&site("prod", AlertKind::Act)));
        assert!(settings.destinations[1].wants(&site("dev", AlertKind::Act)));
    }

    #[test]
    fn the_documents_example_is_one() {
        let page = include_str!("../../../docs/hub-alerts.md");
        let block = page.split("```yaml\n").nth(1).unwrap();
        let settings = parsed(block.split("```").next().unwrap()).unwrap();
        assert_eq!(settings.destinations.len(), 2);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place_or_its_destination() {
        let webhook =
            |url: &str| format!("destinations:\n- name: a\n  webhook: {{url: '{url}'}}\n");
        let mail = |more: &str| {
            format!(
                "destinations:\n- name: a\n  mail: {{server: 'smtp.example:25', from: h@example.org, to: [a@example.org]{more}}}\n"
            )
        };
        for (text, words) in [
            ("destinations: []\n".to_owned(), "no alert would be sent"),
            (
                "destination: []\n".to_owned(),
                "unknown field `destination`",
            ),
            (
                webhook("http://hooks.example/"),
                "destination `a`: `webhook.url`",
            ),
            (
                webhook("https://x/").replace("name: a", "name: a b"),
                "a name is 1 to 64",
            ),
            (
                format!(
                    "{0}{1}",
                    webhook("https://x/"),
                    "- name: a\n  webhook: {url: 'https://y/'}\n"
                ),
                "two destinations",
            ),
            (
                "destinations:\n- name: a\n".to_owned(),
                "either `webhook` or `mail`",
            ),
            (mail(", tls: none"), "goes to this machine only"),
            (mail(", user: x"), "belong together"),
            (
                mail("").replace("to: [a@example.org]", "to: []"),
                "has no address",
            ),
            (
                mail("").replace("a@example.org", "a"),
                "`a` is not a mail address",
            ),
            (
                mail("").replace("smtp.example:25", "smtp.example"),
                "`HOST:PORT`",
            ),
            (
                webhook("https://x/").replace("  webhook", "  kinds: [sites]\n  webhook"),
                "sites",
            ),
        ] {
            let error = parsed(&text).unwrap_err();
            assert!(
                error.starts_with("`alerts.yaml`: ") && error.contains(words),
                "{error}"
            );
        }
        let error = parsed("destinations:\n- name: a\n  webhook: https://x/token\n").unwrap_err();
        assert_eq!(
            error,
            "`alerts.yaml`: destinations[0].webhook: invalid type: text, expected a map with `url` at line 3 column 12"
        );
        let error = parsed("destinations:\n- name: a\n  web: {}\n").unwrap_err();
        assert!(error.contains("line 3 column 3"), "{error}");
    }
}
