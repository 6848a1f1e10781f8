//! A manifest as a registry has it, and whether an answer is one at all.
//!
//! What comes in: the bytes of an answer with its media type. What goes out: what is wrong where they are no manifest, index or list of
//! referrers: the page of a proxy that wants a login, for instance, which comes with status 200 for whatever is asked. Which image it is of,
//! and whether it is the wanted one, is not decided here.

use outhaul_bundle::Digest;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A manifest or an index, as the registry has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Its media type.
    pub media_type: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Their digest.
    pub digest: Digest,
    /// Which host answered: the registry, or a mirror of it.
    pub host: String,
}

/// What each of them has a part of.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape {
    media_type: Option<String>,
    config: Option<IgnoredAny>,
    manifests: Option<IgnoredAny>,
}

/// What keeps an answer from being a manifest or an index, as the end of a sentence.
pub(crate) fn no_manifest(media_type: &str, bytes: &[u8]) -> Option<String> {
    let shape = match shape(media_type, "manifest", bytes) {
        Ok(shape) => shape,
        Err(problem) => return Some(problem),
    };
    let named = shape.media_type.as_deref().unwrap_or(media_type);
    let problem = || format!("is of type `{named}`, which names neither platforms nor a config");
    (shape.config.is_none() && shape.manifests.is_none()).then(problem)
}

/// What keeps an answer from being a list of referrers.
pub(crate) fn no_list(media_type: &str, bytes: &[u8]) -> Option<String> {
    match shape(media_type, "list", bytes) {
        Ok(shape) => shape
            .manifests
            .is_none()
            .then(|| "is not a list: it has no `manifests`".to_owned()),
        Err(problem) => Some(problem),
    }
}

fn shape(media_type: &str, what: &str, bytes: &[u8]) -> Result<Shape, String> {
    serde_json::from_slice(bytes).map_err(|error| match media_type {
        "" => format!("is not a {what}: {error}"),
        _ => format!("is not a {what}, but an answer of type `{media_type}`: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_manifest_by_what_it_has_and_not_by_its_status() {
        for text in [
            r#"{"config": {}, "layers": []}"#,
            r#"{"manifests": []}"#,
            r#"{"mediaType": "x", "schemaVersion": 2, "config": {"digest": "y"}}"#,
        ] {
            assert_eq!(no_manifest("", text.as_bytes()), None, "{text}");
        }
        let page = b"<html>Sign in</html>";
        let said = no_manifest("text/html", page).unwrap();
        assert!(
            said.starts_with("is not a manifest, but an answer of type `text/html`: "),
            "{said}"
        );
        let said = no_manifest("application/json", br#"{"error": "sign in"}"#).unwrap();
        assert!(said.starts_with("is of type `application/json`, which names"));
        assert!(no_list("text/html", page).is_some());
        assert!(no_list("", br#"{"config": {}}"#).is_some());
        assert_eq!(no_list("", br#"{"manifests": []}"#), None);
    }
}
