//! What a site that reports by webhook is registered with.
//!
//! What comes in: what someone on the hub's machine wrote. What goes out: [`WebhookSettings`] within bounds, as JSON in the store. The
//! objects are named here and by no event: what is not named here changes nothing.

use std::path::PathBuf;
use std::str::FromStr;

use outhaul_bundle::index::Stream;
use outhaul_bundle::report::WebhookSender;
use outhaul_kit::url::{UrlParts, check_port};
use serde::{Deserialize, Serialize};

use crate::event::{object, shortened};
use crate::folder::folder;

/// Most objects of one site.
const MAX_OBJECTS: usize = 50;
/// Schemes of addresses from which Flux and Argo CD fetch.
const SCHEMES: [&str; 5] = ["https", "http", "ssh", "git", "oci"];
/// Most bytes of the repository's address.
const MAX_ADDRESS_BYTES: usize = 1_000;
/// What stands for the commit in the record's address.
const COMMIT: &str = "{commit}";
/// For how long nothing may come of one object while others report, in hours.
const SILENCE_HOURS: std::ops::RangeInclusive<u32> = 1..=8_760;

/// A site's registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    /// The stream that it belongs to.
    pub stream: Stream,
    /// The address of the platform repository, as the cluster has it.
    pub repository: String,
    /// The address of a commit's `.outhaul/platform.json`, with `{commit}` in it.
    pub record: String,
    /// A file with the certificate authority of that address; the system's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// The objects that apply the platform repository on the cluster.
    pub objects: Vec<FollowedObject>,
    /// For how long nothing may come of one of them, in hours.
    pub silence_hours: u32,
}

/// An object that applies the platform repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FollowedObject {
    /// `KIND/NAMESPACE/NAME`.
    pub name: String,
    /// The folder of the repository that it applies, with all that lies below; of a release of a chart none.
    pub path: Option<String>,
}

impl FromStr for FollowedObject {
    type Err = String;

    /// `KIND/NAMESPACE/NAME=PATH`, or without a path.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = match text.split_once('=') {
            Some((name, path)) => (name, Some(path)),
            None => (text, None),
        };
        let mut parts = name.splitn(3, '/');
        let mut next = || parts.next().unwrap_or_default();
        let name = object(next(), next(), next()).map_err(|_| {
            format!("`{text}` is not `KIND/NAMESPACE/NAME` or `KIND/NAMESPACE/NAME=PATH`")
        })?;
        let path = path.map(folder).transpose();
        let path = path.map_err(|why| format!("the folder of `{text}` {why}"))?;
        Ok(Self { name, path })
    }
}

impl FollowedObject {
    /// Whether it applies `folder` of the repository.
    pub(crate) fn covers(&self, folder: &str) -> bool {
        self.path.as_deref().is_some_and(|path| {
            let below = folder.strip_prefix(path);
            path.is_empty() || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

impl WebhookSettings {
    /// Checks every bound, and that the objects are some of what `sender` reports.
    ///
    /// # Errors
    /// The first problem, in words.
    pub fn check(&self, sender: WebhookSender) -> Result<(), String> {
        let kinds: &[&str] = match sender {
            WebhookSender::Flux => &["Kustomization", "HelmRelease"],
            WebhookSender::Argocd => &["Application"],
        };
        let known = match sender {
            WebhookSender::Flux => "a `Kustomization` or `HelmRelease`",
            WebhookSender::Argocd => "an `Application`",
        };
        if self.objects.is_empty() || self.objects.len() > MAX_OBJECTS {
            return Err(format!("a site has 1 to {MAX_OBJECTS} objects"));
        }
        for (at, one) in self.objects.iter().enumerate() {
            let kind = one.name.split('/').next().unwrap_or_default();
            if !kinds.contains(&kind) {
                return Err(format!("`{}` is not {known}", one.name));
            }
            if kind == "HelmRelease" && one.path.is_some() {
                return Err(format!(
                    "`{}` is a release of a chart and applies no folder of the repository: leave `=` and what follows out",
                    one.name
                ));
            }
            if self.objects[..at]
                .iter()
                .any(|other| other.name == one.name)
            {
                return Err(format!("`{}` is named twice", one.name));
            }
        }
        if !self.objects.iter().any(|one| one.path.is_some()) {
            return Err(
                "no object has a path: nothing is known to apply the repository".to_owned(),
            );
        }
        if !SILENCE_HOURS.contains(&self.silence_hours) {
            let (least, most) = (SILENCE_HOURS.start(), SILENCE_HOURS.end());
            return Err(format!("a silence is {least} to {most} hours"));
        }
        check_repository(&self.repository)?;
        let address = self.record_of(&"0".repeat(40));
        if !self.record.contains(COMMIT) || outhaul_http::check_url(&address).is_err() {
            return Err(format!(
                "`{}` is not an address with `{COMMIT}` in it, such as \
                 `https://git.example.org/platform/raw/commit/{COMMIT}/.outhaul/platform.json`",
                self.record
            ));
        }
        Ok(())
    }

    /// The address of the record of `commit`, which was checked to be the id of one.
    pub(crate) fn record_of(&self, commit: &str) -> String {
        self.record.replace(COMMIT, commit)
    }

    /// Whether `other` is the same repository, as an agent compares them.
    pub(crate) fn is_repository(&self, other: &str) -> bool {
        outhaul_kit::url::is_same_repository(&self.repository, other)
    }
}

/// Whether a text is the address of a repository as Flux or Argo CD has it.
fn check_repository(address: &str) -> Result<(), String> {
    let is_address = match UrlParts::of(address) {
        Some(parts) => {
            SCHEMES.iter().any(|scheme| parts.is(scheme))
                && !parts.host().is_empty()
                && check_port(parts.port()).is_ok()
                && !parts.path().trim_matches('/').is_empty()
                && !parts.rest.contains(['?', '#'])
        }
        // As `ssh` has it.
        None => address.split_once(':').is_some_and(|(host, path)| {
            let host = host.rsplit('@').next().unwrap_or_default();
            !host.is_empty() && !host.contains('/') && !path.trim_matches('/').is_empty()
        }),
    };
    let user = UrlParts::of(address).and_then(|parts| parts.user);
    if user.is_some_and(|user| user.contains(':')) {
        return Err("the address of the repository has a password in it: leave it out".to_owned());
    }
    if is_address
        && address.len() <= MAX_ADDRESS_BYTES
        && address.chars().all(|c| c.is_ascii_graphic())
    {
        return Ok(());
    }
    Err(format!(
        "`{}` is not the address of a repository, such as `https://git.example.org/platform` or `git@git.example.org:team/platform`",
        shortened(address)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_three_names_and_perhaps_a_path() {
        let read = |text: &str| text.parse::<FollowedObject>().ok();
        let found = read("Kustomization/flux-system/platform=./store/").unwrap();
        assert_eq!(found.name, "Kustomization/flux-system/platform");
        assert_eq!(found.path.as_deref(), Some("store"));
        assert!(found.covers("store") && found.covers("store/web"));
        assert!(!found.covers("storehouse/web") && !found.covers("other"));
        for whole in ["Kustomization/a/b=.", "Kustomization/a/b=./"] {
            assert!(read(whole).unwrap().covers("store/web"), "{whole}");
        }
        assert!(!read("HelmRelease/a/b").unwrap().covers("store"));
        for wrong in ["", "Kustomization", "a/b", "a/b/c/d", "a//c", "a/b/ c"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        for (wrong, says) in [
            ("a/b/c=", "names no folder"),
            ("a/b/c=/edge", "leave the first `/` out"),
            ("a/b/c=../edge", "without `..`"),
        ] {
            let refused = wrong.parse::<FollowedObject>().unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
    }

    #[test]
    fn a_repository_is_an_address_that_a_cluster_fetches_from() {
        for good in [
            "https://git.example/platform",
            "https://GIT.example:8443/a/b.git",
            "ssh://git@git.example/a/b",
            "git@git.example:a/b.git",
            "oci://registry.example/a",
        ] {
            assert_eq!(check_repository(good), Ok(()), "{good}");
        }
        for wrong in [
            "",
            " ",
            "r",
            "https://",
            "https://git.example",
            "https://git.example/",
            "https://git.example:0/a",
            "https://git.example/a b",
            "https://git.example/a?x",
            "https://git.example/\u{1b}[2J",
            "https://bot:secret@git.example/a",
            "file:///srv/platform",
            "javascript:alert(1)//\u{7f}",
            "/srv/platform",
        ] {
            let refused = check_repository(wrong).unwrap_err();
            assert!(
                !refused.contains('\u{1b}') && !refused.contains("secret@"),
                "{refused}"
            );
        }
    }
}
