//! Messages while registries are asked: which mirror was skipped and why, and which server is waited for.
//!
//! What comes in: what the mirrors of an image answered before another place had it; a request that may take long, with its limit. What goes
//! out: lines on standard error without the secrets of URLs, each skipped mirror once for each kind of reason. It asks nobody and decides nothing.

use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use outhaul_kit::console;
use outhaul_kit::text::printable_lines;
use outhaul_kit::url::UrlParts;
use outhaul_kit::url_secrets::without_secrets;

use crate::error::RegistryError;
use crate::reference::ImageReference;

/// Mirrors that were reported as skipped.
#[derive(Debug, Default)]
pub(crate) struct SkippedMirrors(Mutex<HashSet<(String, Discriminant<RegistryError>)>>);

impl SkippedMirrors {
    /// Reports the mirrors that were `tried` before `from` had what was wanted of `image`.
    pub(crate) fn report(
        &self,
        image: &ImageReference,
        tried: &[(ImageReference, RegistryError)],
        from: &ImageReference,
    ) {
        for (mirror, error) in tried {
            if let Some(text) = self.noted(image, (mirror, error), from) {
                console::message(&text);
            }
        }
    }

    /// The mirrors of which something was reported.
    #[cfg(test)]
    pub(crate) fn reported(&self) -> Vec<String> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.iter().map(|(at, _)| at.clone()).collect()
    }

    /// The message about one mirror; `None` where one about it with this kind of reason was printed.
    fn noted(
        &self,
        image: &ImageReference,
        (mirror, error): (&ImageReference, &RegistryError),
        from: &ImageReference,
    ) -> Option<String> {
        let own = image.repository.as_str();
        let path = mirror.repository.strip_suffix(own).unwrap_or_default();
        let at = format!("{}/{path}", mirror.registry);
        let at = at.trim_end_matches('/').to_owned();
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !noted.insert((at.clone(), discriminant(error))) {
            return None;
        }
        // A mirror may hold a part of its registry only.
        let kind = match error {
            RegistryError::Missing { .. } => "note",
            _ => "warning",
        };
        let (of, from) = (image.host(), from.host());
        Some(line(&format!(
            "{kind}: mirror `{at}` of `{of}`: {error}; `{from}` was asked instead (reported once)"
        )))
    }
}

/// Does what waits for `host`; when that takes long, a message says for what and until when.
pub(crate) fn waiting<T>(host: &str, what: &str, most: Duration, work: impl FnOnce() -> T) -> T {
    let says = format!(
        "waiting for `{host}`: {what}; it is given up after {} s",
        most.as_secs()
    );
    console::waiting(&line(&says), work)
}

/// Reports that a connection broke and that the rest is asked for.
pub(crate) fn asked_again(host: &str, problem: &str, from: u64, what: &str) {
    console::message(&broken_off(host, problem, from, what));
}

fn broken_off(host: &str, problem: &str, from: u64, what: &str) -> String {
    line(&format!(
        "warning: `{host}`: {problem}; asking again from byte {from} of {what}"
    ))
}

/// What is being fetched from `url`: its host and the last part of its path. The path between them may be long, and a query a secret.
pub(crate) fn fetching(url: &str) -> String {
    let what = match UrlParts::of(url) {
        None => url.to_owned(),
        Some(parts) => match parts.path().rsplit_once('/') {
            Some(("", name)) => format!("{}/{name}", parts.authority),
            Some((_, name)) => format!("{}/…/{name}", parts.authority),
            None => parts.authority.to_owned(),
        },
    };
    line(&format!("fetching {what}"))
}

/// A text as it may stand on standard error: what servers and other people wrote is in it.
fn line(text: &str) -> String {
    printable_lines(&without_secrets(text)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_is_named_once_for_each_kind_of_reason() {
        let skipped = SkippedMirrors::default();
        let image: ImageReference = "nginx:1.27".parse().unwrap();
        let mirror: ImageReference = "mirror.example/hub/library/nginx:1.27".parse().unwrap();
        let missing = || RegistryError::Missing {
            host: "mirror.example".to_owned(),
            what: "hub/library/nginx:1.27".to_owned(),
        };
        let refused = RegistryError::Unreachable {
            host: "mirror.example".to_owned(),
            problem: "connection refused".to_owned(),
        };
        let noted = |error: &RegistryError| skipped.noted(&image, (&mirror, error), &image);
        assert_eq!(
            noted(&missing()).unwrap(),
            "note: mirror `mirror.example/hub` of `registry-1.docker.io`: `mirror.example` has no \
             `hub/library/nginx:1.27`; `registry-1.docker.io` was asked instead (reported once)"
        );
        assert_eq!(noted(&missing()), None);
        let text = noted(&refused).unwrap();
        assert!(text.starts_with("warning: mirror `mirror.example/hub`"));
        assert!(text.contains("connection refused"), "{text}");
        assert_eq!(noted(&refused), None);
    }
    #[test]
    fn what_is_secret_in_a_url_stands_in_no_line() {
        let skipped = SkippedMirrors::default();
        let image: ImageReference = "nginx:1.27".parse().unwrap();
        let mirror: ImageReference = "mirror.example/hub/library/nginx:1.27".parse().unwrap();
        let denied = RegistryError::Denied {
            host: "mirror.example".to_owned(),
            what: "hub/library/nginx:1.27".to_owned(),
            problem: "its tokens are at `http://robot:hunter2@auth.example/token`, not https"
                .to_owned(),
        };
        let url = "https://files.example/a/b/c.tgz?token=hunter2";
        for (seen, kept) in [
            (
                skipped.noted(&image, (&mirror, &denied), &image).unwrap(),
                "@auth.example/token`, not https",
            ),
            (
                broken_off("files.example", "timeout", 9, &format!("`{url}`")),
                "byte 9 of `https://files.example/a/b/c.tgz?token=",
            ),
            (fetching(url), "fetching files.example/…/c.tgz"),
        ] {
            assert!(seen.contains(kept), "{seen}");
            assert!(!seen.contains("hunter2"), "{seen}");
        }
        let user = fetching("https://robot:hunter2@files.example/c.tgz");
        assert_eq!(user, "fetching files.example/c.tgz");
        assert_eq!(fetching("https://files.example"), "fetching files.example");
    }
}
