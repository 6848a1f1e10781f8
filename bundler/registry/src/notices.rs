//! Messages while registries are asked: which mirror was skipped and why, and which server is waited for.
//!
//! What comes in: what the mirrors of an image answered before another place had it; a request that may take long, with its limit. What goes
//! out: lines on standard error, each skipped mirror once for each kind of reason. It asks nobody and decides nothing.

use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use outhaul_kit::console;
use outhaul_kit::text::printable_lines;

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
                console::message(&printable_lines(&text));
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
        Some(format!(
            "{kind}: mirror `{at}` of `{of}`: {error}; `{from}` was asked instead (reported once)"
        ))
    }
}

/// Does what waits for `host`; when that takes long, a message says for what and until when.
pub(crate) fn waiting<T>(host: &str, what: &str, most: Duration, work: impl FnOnce() -> T) -> T {
    let says = format!(
        "waiting for `{host}`: {what}; it is given up after {} s",
        most.as_secs()
    );
    console::waiting(&printable_lines(&says), work)
}

/// Reports that a connection broke and that the rest is asked for.
pub(crate) fn asked_again(host: &str, problem: &str, from: u64, what: &str) {
    let text = format!("warning: `{host}`: {problem}; asking again from byte {from} of {what}");
    console::message(&printable_lines(&text));
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
}
