//! Which images of a bundle have a signature that was verified when the bundle was made, and whose it is: as provenance states it.
//!
//! What comes in: images with who signed them, or the provenance of a bundle. What goes out: entries of the provenance's dependencies, or
//! the images. It verifies nothing: whoever reads a provenance has seen that a signed index lists it.

use jiff::Timestamp;
use outhaul_bundle::Digest;
use outhaul_cosign::Identity;
use serde::Deserialize;
use serde_json::{Value, json};

/// The annotation of a dependency.
const ANNOTATION: &str = "outhaul.dev/signed-by";

/// An image whose signature was verified.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VerifiedImage {
    /// The image's whole name.
    pub image: String,
    /// Its digest.
    pub digest: Digest,
    /// Who signed it.
    pub by: ImageSigner,
}

/// Who signed an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageSigner {
    /// The key with this SHA-256 of its DER form (`openssl pkey -pubin -outform DER | sha256sum`).
    Key(Digest),
    /// An identity that had a certificate for a short time.
    Identity(Identity),
}

impl ImageSigner {
    /// Who it was, after "signed by".
    pub fn sentence(&self) -> String {
        match self {
            Self::Key(digest) => format!("the key {digest}"),
            Self::Identity(by) => {
                let known = match by.is_logged {
                    true => "in a transparency log",
                    false => "by a timestamp authority",
                };
                format!("`{}` of `{}` at {}, {known}", by.subject, by.issuer, by.at)
            }
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Key(digest) => json!({"key": digest}),
            Self::Identity(by) => json!({
                "subject": by.subject, "issuer": by.issuer, "at": by.at, "logged": by.is_logged,
            }),
        }
    }
}

impl VerifiedImage {
    /// For programs: the image, its digest, and who signed it.
    pub fn json(&self) -> Value {
        let mut value = self.by.json();
        value["image"] = json!(self.image);
        value["digest"] = json!(self.digest);
        value
    }

    /// A dependency of a provenance.
    pub(crate) fn dependency(&self) -> Value {
        json!({
            "name": self.image,
            "uri": format!("oci://{}", self.image),
            "digest": {"sha256": self.digest.hex()},
            "annotations": {ANNOTATION: self.by.json()},
        })
    }
}

#[derive(Deserialize)]
struct Provenance {
    predicate: Predicate,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Predicate {
    build_definition: BuildDefinition,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BuildDefinition {
    resolved_dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    digest: Value,
    #[serde(default)]
    annotations: Value,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Stated {
    Key {
        key: Digest,
    },
    Identity {
        subject: String,
        issuer: String,
        at: Timestamp,
        logged: bool,
    },
}

/// The images that a statement of provenance names as verified; an entry that an earlier or later version wrote in other words is none.
///
/// # Errors
/// Why the text is no such statement.
pub fn verified(statement: &[u8]) -> Result<Vec<VerifiedImage>, String> {
    let read: Provenance = serde_json::from_slice(statement).map_err(|error| error.to_string())?;
    let all = read.predicate.build_definition.resolved_dependencies;
    Ok(all.into_iter().filter_map(image).collect())
}

fn image(one: Dependency) -> Option<VerifiedImage> {
    let stated = one.annotations.get(ANNOTATION)?.clone();
    let by = match serde_json::from_value(stated).ok()? {
        Stated::Key { key } => ImageSigner::Key(key),
        Stated::Identity {
            subject,
            issuer,
            at,
            logged,
        } => ImageSigner::Identity(Identity {
            issuer,
            subject,
            at,
            is_logged: logged,
        }),
    };
    let digest = Digest::from_hex(one.digest["sha256"].as_str()?).ok()?;
    Some(VerifiedImage {
        image: one.name,
        digest,
        by,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_provenance_states_of_images_is_read_again_and_sources_are_none() {
        let of = |name: &str, by| VerifiedImage {
            image: name.to_owned(),
            digest: Digest::of(name.as_bytes()),
            by,
        };
        let identity = Identity {
            issuer: "https://issuer.example".into(),
            subject: "release@example.org".into(),
            at: Timestamp::UNIX_EPOCH,
            is_logged: true,
        };
        let all = [
            of("r.example/a:1", ImageSigner::Key(Digest::of(b"key"))),
            of("r.example/b:1", ImageSigner::Identity(identity)),
        ];
        let index = outhaul_bundle::fake::FakeBundle::new(7, &[("a.yaml", b"a")])
            .unwrap()
            .index;
        let statement = crate::statement::statement(&index, &[], &all);
        assert_eq!(verified(&statement).unwrap(), all);
        let without = crate::statement::statement(&index, &[], &[]);
        assert_eq!(verified(&without).unwrap(), []);
        assert!(verified(b"{}").is_err());
        let text = String::from_utf8(statement).unwrap();
        let odd = text.replace("\"logged\":true", "\"logged\":\"perhaps\"");
        assert_eq!(verified(odd.as_bytes()).unwrap(), all[..1]);
    }
}
