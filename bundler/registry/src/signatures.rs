//! Where signatures of an image lie in its registry.
//!
//! What comes in: an image and its digest. What goes out: the references under which signatures may lie, as far as the registry has
//! something there: what its list of referrers names (or the tag that takes the list's place), then the tag of cosign's
//! older form. Whether a signature holds is not decided here, and nothing but lists is fetched.

use outhaul_bundle::Digest;
use serde::Deserialize;

use crate::client::RegistryClient;
use crate::error::RegistryError;
use crate::reference::ImageReference;

/// Most references that are looked at.
const MAX_REFERENCES: usize = 100;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List {
    #[serde(default)]
    manifests: Vec<Referrer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Referrer {
    digest: String,
    #[serde(default)]
    artifact_type: Option<String>,
}

/// The references under which signatures of `image`, whose manifest has `digest`, may lie; `artifact_type` is that of a
/// manifest that refers to it, `tag` and `list` are the tags in the same repository.
///
/// # Errors
/// [`RegistryError`], but not for what is not there.
pub fn signatures(
    client: &RegistryClient,
    image: &ImageReference,
    digest: &Digest,
    artifact_type: &str,
    (list, tag): (&str, &str),
) -> Result<Vec<ImageReference>, RegistryError> {
    let referrers = present(client.referrers(image, digest))?;
    let referrers = match referrers {
        Some(list) => Some(list),
        None => present(client.manifest(image, list).map(|found| found.bytes))?,
    };
    let listed = referrers.map(|bytes| serde_json::from_slice::<List>(&bytes));
    let listed = listed.transpose().map_err(|error| RegistryError::Wrong {
        host: image.host().to_owned(),
        what: format!("the list of what refers to {digest}"),
        problem: format!("cannot be read: {error}"),
    })?;
    let of_type = |one: &Referrer| one.artifact_type.as_deref() == Some(artifact_type);
    let listed = listed
        .into_iter()
        .flat_map(|list| list.manifests)
        .filter(of_type);
    let mut found: Vec<ImageReference> = listed
        .filter_map(|one| one.digest.parse().ok())
        .take(MAX_REFERENCES)
        .map(|digest| ImageReference {
            tag: None,
            digest: Some(digest),
            ..image.clone()
        })
        .collect();
    if present(client.manifest(image, tag))?.is_some() {
        found.push(ImageReference {
            tag: Some(tag.to_owned()),
            digest: None,
            ..image.clone()
        });
    }
    Ok(found)
}

fn present<T>(asked: Result<T, RegistryError>) -> Result<Option<T>, RegistryError> {
    match asked {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_absent() => Ok(None),
        Err(RegistryError::AfterMirrors { last, .. }) if last.is_absent() => Ok(None),
        // Where only a mirror is reached, its answer is the one there is. An image without a signature is refused later, and nothing is
        // taken for signed because of it.
        Err(RegistryError::AfterMirrors { tried, last })
            if matches!(*last, RegistryError::Unreachable { .. })
                && tried.iter().any(RegistryError::is_absent) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
