//! Attested content: what a bundle was rendered from, and what it carries, said by the fleet itself.
//!
//! What comes in: an index whose contents are settled, and the contents. What goes out: files that
//! travel in the bundle: an in-toto statement in a signed envelope, a bill of materials of the bundle
//! (`CycloneDX` 1.6), one of each image that it carries, and statements about exploitability as they were written. All are pure functions of index and contents: no time, no random number, no
//! name of a machine, so that the same bundle gets the same files. They are for people and their tools;
//! what a site installs is decided by the signed metadata alone. [`inspect`] reads a bundle file for people; it decides nothing.

use std::collections::BTreeMap;
use std::io;

use outhaul_bundle::Index;
use outhaul_bundle::encode::ContentSource;
pub use outhaul_bundle::index::SBOM;
use outhaul_signer::fleet::StatementSigner;

use images::CarriedImage;
use verified::VerifiedImage;

pub mod contents;
mod cyclonedx;
pub mod image;
pub mod images;
pub mod inspect;
pub mod materials;
pub mod sbom;
pub mod statement;
pub mod statement_check;
pub mod verified;

/// File name of the signed statement: what the bundle was rendered from.
pub const PROVENANCE: &str = "provenance.intoto.json";

/// Why a bundle could not be attested.
#[derive(Debug, thiserror::Error)]
#[error("cannot read `{path}` for the bill of materials")]
pub struct AttestError {
    path: String,
    source: io::Error,
}

/// The attestations of a bundle, by file name. `vex`: documents of statements about exploitability, by name; `verified`: the images whose
/// signatures were verified.
///
/// # Errors
/// [`AttestError`] when a content cannot be read.
pub fn attest(
    index: &Index,
    contents: &mut dyn ContentSource,
    (images, vex, verified): (&[CarriedImage], &BTreeMap<String, String>, &[VerifiedImage]),
    signer: &StatementSigner,
) -> Result<Vec<(String, Vec<u8>)>, AttestError> {
    let sbom = sbom::sbom(index, contents, images)?;
    let mut materials = vec![(SBOM.to_owned(), sbom)];
    let each = images.iter();
    materials.extend(each.map(|image| (image.file.clone(), image.bytes.clone())));
    let documents = vex.iter();
    materials.extend(documents.map(|(name, text)| {
        (
            format!("{name}{}", outhaul_vex::ENDING),
            text.clone().into(),
        )
    }));
    let statement = statement::statement(index, &materials, verified);
    let envelope = signer.sign(statement::PAYLOAD_TYPE, statement);
    let mut provenance = envelope.to_json();
    provenance.push(b'\n');
    materials.insert(0, (PROVENANCE.to_owned(), provenance));
    Ok(materials)
}

impl AttestError {
    fn at(path: &str) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self {
            path: path.to_owned(),
            source,
        }
    }
}
