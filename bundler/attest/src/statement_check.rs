//! What the fleet's own statement in a bundle is worth.
//!
//! What comes in: an index that was verified, the attestations of its bundle, and the fleet's keys. What goes out: whether the fleet
//! signed for exactly these contents, and else what is wrong. It reads and decides nothing else.

use std::collections::BTreeMap;

use outhaul_bundle::{Digest, Index};
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::PublicKey;
use serde_json::Value;

use crate::images::is_of_image;
use crate::{PROVENANCE, SBOM, statement};

/// What the fleet's own statement in the bundle is worth.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Statement {
    /// The bundle has none.
    Absent,
    /// It is there and nothing was given to check its signature with.
    Unchecked,
    /// Signed by the fleet, about exactly these contents.
    Holds,
    /// It is not what it should be: how.
    Wrong(String),
}

impl Statement {
    /// Whether the fleet vouches for these contents, and so for what else is stated about them.
    pub fn holds(&self) -> bool {
        *self == Self::Holds
    }

    /// Whether it is not what it should be: worse than none.
    pub fn is_wrong(&self) -> bool {
        matches!(self, Self::Wrong(_))
    }
}

/// Judges the statement among `attestations`. `keys`: the fleet's, `None` when they are not known.
pub fn check(
    index: &Index,
    attestations: &BTreeMap<String, Vec<u8>>,
    keys: Option<&[PublicKey]>,
) -> Statement {
    let Some(bytes) = attestations.get(PROVENANCE) else {
        return Statement::Absent;
    };
    let Some(keys) = keys else {
        return Statement::Unchecked;
    };
    let judged = Envelope::from_json(bytes.trim_ascii_end()).and_then(|envelope| {
        let payload = envelope.verify(statement::PAYLOAD_TYPE, keys)?;
        Ok(payload.to_vec())
    });
    let payload = match judged {
        Ok(payload) => payload,
        Err(error) => return Statement::Wrong(error.to_string()),
    };
    let said: Value = serde_json::from_slice(&payload).unwrap_or_default();
    let digest = |at: usize| {
        said["subject"][at]["digest"]["sha256"]
            .as_str()
            .unwrap_or_default()
    };
    if digest(0) != Digest::of(statement::contents_list(index).as_bytes()).hex() {
        return Statement::Wrong("it is about other contents".to_owned());
    }
    let sbom = attestations.get(SBOM).map(|bytes| Digest::of(bytes).hex());
    match sbom {
        Some(sbom) if sbom == digest(1) => {}
        Some(_) => return Statement::Wrong("it is about another bill of materials".to_owned()),
        None => {
            let why = "the bill of materials that it names is not there";
            return Statement::Wrong(why.to_owned());
        }
    }
    let named = |file: &str, bytes: &[u8]| {
        let subjects = said["subject"].as_array().into_iter().flatten();
        let mut subjects = subjects.filter(|subject| subject["name"] == file);
        subjects.any(|subject| subject["digest"]["sha256"] == Digest::of(bytes).hex())
    };
    let is_named = |file: &str| is_of_image(file) || file.ends_with(outhaul_vex::ENDING);
    let mut others = attestations.iter().filter(|(file, _)| is_named(file));
    match others.find(|(file, bytes)| !named(file, bytes)) {
        Some((file, _)) => Statement::Wrong(format!("it does not name `{file}` as it is here")),
        None => Statement::Holds,
    }
}

#[cfg(test)]
mod tests {
    use outhaul_bundle::fake::FakeBundle;
    use outhaul_signer::key::SigningKey;

    use super::*;

    #[test]
    fn a_statement_counts_when_the_fleet_signed_it_about_this_bundle() {
        let key = SigningKey::generate().unwrap();
        let index = FakeBundle::new(1, &[("a.yaml", b"a"), ("b.yaml", b"b")])
            .unwrap()
            .index;
        let sign = |index: &Index| {
            let payload = statement::statement(index, &[(SBOM.to_owned(), b"sbom".to_vec())], &[]);
            Envelope::sign(statement::PAYLOAD_TYPE, payload, &key).to_json()
        };
        let with = |provenance: Vec<u8>, sbom: &[u8]| {
            BTreeMap::from([
                (PROVENANCE.to_owned(), provenance),
                (SBOM.to_owned(), sbom.to_vec()),
            ])
        };
        let keys = [key.public()];
        let verdict = |files: &BTreeMap<_, _>, keys| check(&index, files, keys);
        let good = with(sign(&index), b"sbom");
        assert_eq!(verdict(&good, Some(&keys[..])), Statement::Holds);
        assert_eq!(verdict(&good, None), Statement::Unchecked);
        assert_eq!(
            verdict(&BTreeMap::new(), Some(&keys[..])),
            Statement::Absent
        );
        let other = [SigningKey::generate().unwrap().public()];
        assert!(matches!(
            verdict(&good, Some(&other[..])),
            Statement::Wrong(_)
        ));
        let about_another = FakeBundle::new(1, &[("a.yaml", b"x")]).unwrap().index;
        for bad in [
            with(sign(&about_another), b"sbom"),
            with(sign(&index), b"other"),
        ] {
            assert!(matches!(
                verdict(&bad, Some(&keys[..])),
                Statement::Wrong(_)
            ));
        }
    }
}
