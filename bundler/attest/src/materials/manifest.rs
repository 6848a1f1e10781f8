//! Which platforms an image has, and the layers of each.
//!
//! What comes in: the bytes of its manifest or index, and someone who reads a small content by its digest. What goes out: the
//! platforms. Artifacts that are no image (charts, signatures, attestations) have none.

use outhaul_kit::bounds::MAX_IMAGE_INDEX_DEPTH;
use std::io;

use outhaul_bundle::Digest;
use outhaul_cosign::SIMPLE;
use serde::Deserialize;

/// Most platforms and layers of one image.
const MAX_LAYERS: usize = 20_000;

/// One platform of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// `linux/amd64`, `linux/arm/v7` …
    pub name: String,
    /// Its layers, the lowest first.
    pub layers: Vec<Digest>,
}

/// Why the platforms of an image are not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// A content could not be read.
    #[error("{digest} cannot be read: {source}")]
    Io {
        /// Which.
        digest: Digest,
        /// Why.
        source: io::Error,
    },
    /// Not what it should be.
    #[error("{digest} {problem}")]
    Malformed {
        /// Which.
        digest: Digest,
        /// What is wrong, to follow its name.
        problem: String,
    },
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    manifests: Vec<Descriptor>,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    variant: String,
}

/// The platforms of an image, in the order of its index.
///
/// # Errors
/// [`ManifestError`]
pub fn platforms(
    manifest: Digest,
    read: &mut dyn FnMut(&Digest) -> io::Result<Vec<u8>>,
) -> Result<Vec<Platform>, ManifestError> {
    let mut found = Vec::new();
    let mut layers = 0;
    add(manifest, read, &mut found, &mut layers, 0)?;
    Ok(found)
}

fn add(
    manifest: Digest,
    read: &mut dyn FnMut(&Digest) -> io::Result<Vec<u8>>,
    found: &mut Vec<Platform>,
    layers: &mut usize,
    depth: usize,
) -> Result<(), ManifestError> {
    let malformed = |problem: &str| {
        Err(ManifestError::Malformed {
            digest: manifest,
            problem: problem.to_owned(),
        })
    };
    let document: Document = parsed(manifest, read)?;
    if depth > MAX_IMAGE_INDEX_DEPTH {
        return malformed("is nested too deep");
    }
    for child in &document.manifests {
        let digest = digest(manifest, &child.digest)?;
        match add(digest, read, found, layers, depth + 1) {
            // An index may name platforms that do not travel.
            Err(ManifestError::Io {
                digest: missing,
                source,
            }) if missing == digest && source.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    let Some(config) = &document.config else {
        return Ok(());
    };
    if !is_image_config(&config.media_type) {
        return Ok(());
    }
    // A signature has the config of an image, and nothing that a runtime unpacks.
    let is_signature = |layer: &Descriptor| layer.media_type == SIMPLE;
    if !document.layers.is_empty() && document.layers.iter().all(is_signature) {
        return Ok(());
    }
    let config: Config = parsed(digest(manifest, &config.digest)?, read)?;
    // Attestations that stand beside an image in its index.
    if config.os == "unknown" && config.architecture == "unknown" {
        return Ok(());
    }
    let (os, architecture) = (plain(&config.os), plain(&config.architecture));
    let mut name = format!("{os}/{architecture}");
    if !config.variant.is_empty() {
        name = format!("{name}/{}", plain(&config.variant));
    }
    *layers += document.layers.len() + 1;
    if *layers > MAX_LAYERS {
        return malformed("has more than 20,000 layers");
    }
    let digests = document.layers.iter();
    let digests = digests.map(|layer| digest(manifest, &layer.digest));
    found.push(Platform {
        name,
        layers: digests.collect::<Result<_, _>>()?,
    });
    Ok(())
}

fn is_image_config(media_type: &str) -> bool {
    matches!(
        media_type,
        "application/vnd.oci.image.config.v1+json"
            | "application/vnd.docker.container.image.v1+json"
    )
}

fn plain(text: &str) -> String {
    let is_allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let text: String = text.chars().filter(is_allowed).take(64).collect();
    match text.is_empty() {
        true => "unknown".to_owned(),
        false => text,
    }
}

fn digest(of: Digest, text: &str) -> Result<Digest, ManifestError> {
    text.parse().map_err(|_| ManifestError::Malformed {
        digest: of,
        problem: "names a content that has no SHA-256 digest".to_owned(),
    })
}

fn parsed<T: for<'a> Deserialize<'a>>(
    digest: Digest,
    read: &mut dyn FnMut(&Digest) -> io::Result<Vec<u8>>,
) -> Result<T, ManifestError> {
    let bytes = read(&digest).map_err(|source| ManifestError::Io { digest, source })?;
    serde_json::from_slice(&bytes).map_err(|error| ManifestError::Malformed {
        digest,
        problem: format!("is not what an image names there: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Default)]
    struct Contents(BTreeMap<Digest, Vec<u8>>);

    impl Contents {
        fn put(&mut self, text: &str) -> Digest {
            let digest = Digest::of(text.as_bytes());
            self.0.insert(digest, text.as_bytes().to_vec());
            digest
        }

        fn platforms(&self, manifest: Digest) -> Result<Vec<Platform>, ManifestError> {
            platforms(manifest, &mut |digest| {
                let found = self.0.get(digest).cloned();
                found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
            })
        }
    }

    const OCI: &str = "application/vnd.oci.image.config.v1+json";

    fn image(contents: &mut Contents, config: &str, media_type: &str) -> (Digest, Digest) {
        let layer = Digest::of(config.as_bytes());
        let config = contents.put(config);
        let text = format!(
            r#"{{"config":{{"mediaType":"{media_type}","digest":"{config}"}},"layers":[{{"digest":"{layer}"}}]}}"#
        );
        (contents.put(&text), layer)
    }

    #[test]
    fn an_index_gives_its_platforms_and_no_attestation() {
        let mut all = Contents::default();
        let (amd, layer) = image(&mut all, r#"{"os":"linux","architecture":"amd64"}"#, OCI);
        let arm = r#"{"os":"linux","architecture":"arm","variant":"v7"}"#;
        let (arm, _) = image(&mut all, arm, OCI);
        let (attested, _) = image(
            &mut all,
            r#"{"os":"unknown","architecture":"unknown"}"#,
            OCI,
        );
        let list = [amd, arm, attested].map(|digest| format!(r#"{{"digest":"{digest}"}}"#));
        let index = all.put(&format!(r#"{{"manifests":[{}]}}"#, list.join(",")));
        let found = all.platforms(index).unwrap();
        let names: Vec<_> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["linux/amd64", "linux/arm/v7"]);
        assert_eq!(found[0].layers, [layer]);
    }

    #[test]
    fn a_platform_that_was_left_out_is_not_listed() {
        let mut all = Contents::default();
        let (amd, _) = image(&mut all, r#"{"os":"linux","architecture":"amd64"}"#, OCI);
        let left_out = Digest::of(b"left out");
        let list = [left_out, amd].map(|digest| format!(r#"{{"digest":"{digest}"}}"#));
        let index = all.put(&format!(r#"{{"manifests":[{}]}}"#, list.join(",")));
        let found = all.platforms(index).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "linux/amd64");
    }

    #[test]
    fn a_chart_is_not_an_image() {
        let mut all = Contents::default();
        let (chart, _) = image(&mut all, "{}", "application/vnd.cncf.helm.config.v1+json");
        assert!(all.platforms(chart).unwrap().is_empty());
    }

    #[test]
    fn what_is_malformed_or_missing_is_named() {
        let mut all = Contents::default();
        let missing = Digest::of(b"nowhere");
        let text = all.platforms(missing).unwrap_err().to_string();
        assert!(text.contains("cannot be read"), "{text}");
        let text = all.put("[]");
        let text = all.platforms(text).unwrap_err().to_string();
        assert!(text.contains("is not what an image names there"), "{text}");
        let md5 = all.put(r#"{"manifests":[{"digest":"md5:00"}]}"#);
        let text = all.platforms(md5).unwrap_err().to_string();
        assert!(text.contains("no SHA-256 digest"), "{text}");
    }
}
