//! Images that must be signed: whether they are, and the signatures that travel with them.
//!
//! What comes in: an image that was brought, and what the policies of its cluster type say. What goes out: the signature that
//! holds, to be carried beside the image and pinned in the lock, and who made it; or why the image may not travel. An image that no
//! entry is for travels unverified, and is named. Keys and trusted roots are read in the policy, signatures out of the image's own registry.

mod signers;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use outhaul_attest::verified::{ImageSigner, VerifiedImage};
use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_bundle::index::Served;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location};
use outhaul_control::model::{ImageSignatures, SignatureRule};
use outhaul_cosign::{
    self as cosign, Identities, MAX_BYTES, SIMPLE, SignatureKey, SignedBy, Trusted, TrustedRoot,
};
use outhaul_kit::durable;
use outhaul_plane::delivery::Sourced;

use super::images::not_brought;
use super::{CollectError, CollectedImage, Collector, ImageError, ImageSource};

pub use signers::signers;

/// What policies say of the images that are collected now, and what came of it.
#[derive(Debug, Default)]
pub(super) struct Signatures {
    rules: Option<Sourced<ImageSignatures>>,
    /// Images that no entry is for, each with the policy that has none.
    unverified: BTreeSet<(String, String)>,
    /// What is kept from an earlier bundle and was not verified.
    kept: Diagnostics,
    /// Images whose signatures travel with them, with whose they are.
    signed: BTreeSet<VerifiedImage>,
    /// Those of what is collected by the present rules: a stream says the same whichever others are made with it.
    signed_now: BTreeSet<VerifiedImage>,
    /// The trusted roots that were needed so far, by the digests of their texts: each is parsed once.
    roots: BTreeMap<Digest, Rc<TrustedRoot>>,
}

impl Signatures {
    pub(super) fn follow(&mut self, rules: Option<&Sourced<ImageSignatures>>) {
        self.rules = rules.cloned();
        self.signed_now.clear();
    }

    /// The trusted root of an entry that names identities.
    fn root(&mut self, rule: &SignatureRule) -> Result<Option<Rc<TrustedRoot>>, ImageError> {
        let Some(carried) = &rule.root else {
            return Ok(None);
        };
        let text = Digest::of(carried.json.value.as_bytes());
        if let Some(known) = self.roots.get(&text) {
            return Ok(Some(Rc::clone(known)));
        }
        let parsed = TrustedRoot::parse(&carried.json.value).map_err(|error| ImageError {
            message: format!(
                "the trusted root `{}` at {} cannot verify its signature: {error}",
                carried.name,
                carried.json.location.file_line()
            ),
            is_environment: false,
            help: Some(signers::HELP.to_owned()),
        })?;
        let parsed = Rc::new(parsed);
        self.roots.insert(text, Rc::clone(&parsed));
        Ok(Some(parsed))
    }

    /// The images that travel unverified, though a policy says of others that they must be signed.
    pub(super) fn unverified(&self) -> impl Iterator<Item = Diagnostic> {
        self.unverified.iter().map(|(image, policy)| {
            let message = format!("image `{image}` is not verified: no entry of `imageSignatures` in {policy} is for it");
            Diagnostic::warning("image-not-verified", message).help(
                "add an entry for it; one with `images: \"*\"` at the end is for all others (`keys: []` where they may be unsigned)",
            )
        }).chain(self.kept.iter().cloned())
    }
}

/// The repository of a whole name, without tag and digest.
fn repository(whole: &str) -> &str {
    let name = whole.split('@').next().unwrap_or_default();
    match name.rsplit_once(':') {
        Some((before, tag)) if !tag.contains('/') => before,
        _ => name,
    }
}

impl Collector<'_> {
    /// Notes that something is kept from an earlier bundle and was not verified.
    pub(crate) fn note_unverified(&mut self, finding: Diagnostic) {
        self.signatures.kept.push(finding);
    }

    /// The images whose signatures were verified, with whose they are.
    pub fn signed(&self) -> Vec<VerifiedImage> {
        self.signatures.signed.iter().cloned().collect()
    }

    /// Those of the present stream that a site is to serve.
    pub(crate) fn signed_of(&self, served: &Served) -> Vec<VerifiedImage> {
        let is_served = |one: &&VerifiedImage| {
            let mut images = served.images.iter();
            images.any(|image| image.name == one.image && image.manifest.digest == one.digest)
        };
        self.signatures
            .signed_now
            .iter()
            .filter(is_served)
            .cloned()
            .collect()
    }

    /// The signature of an image, by its whole name; none where it need not be signed.
    ///
    /// # Errors
    /// [`CollectError`] when it must be, and no signature holds.
    pub(super) fn signature(
        &mut self,
        assignment: &str,
        (shown, whole): (&str, &str),
        brought: &CollectedImage,
        at: Option<&Location>,
    ) -> Result<Option<(String, CollectedImage)>, CollectError> {
        let (Some(source), Some(rules)) = (self.images, self.signatures.rules.clone()) else {
            return Ok(None);
        };
        let Some(rule) = rules.value.rule(whole) else {
            let unverified = (whole.to_owned(), rules.by());
            self.signatures.unverified.insert(unverified);
            return Ok(None);
        };
        if rule.may_be_unsigned() {
            return Ok(None);
        }
        let refused = |error: ImageError| not_brought(assignment, shown, at, false, error);
        let wanted = format!(
            "it must be signed by {} of `{}` in {}",
            who(rule),
            rule.images,
            rules.by()
        );
        let keys = keys(rule).map_err(&refused)?;
        let root = self.signatures.root(rule).map_err(&refused)?;
        let image = brought.manifest.digest;
        let pin = format!("{}:{}", repository(whole), cosign::tag(&image));
        let mut problems = Vec::new();
        // What was carried last is verified again: keys may have changed.
        let pinned = self.lock.image(&pin);
        let known = pinned.map(|digest| format!("{}@{digest}", repository(whole)));
        let mut asked = None;
        let mut candidates: Vec<String> = known.into_iter().collect();
        loop {
            for name in std::mem::take(&mut candidates) {
                let found = self.brought_signature(source, &name);
                let found = match found {
                    Ok(found) => found,
                    Err(error) if error.is_environment => return Err(refused(error)),
                    Err(error) => {
                        problems.push(error.message);
                        continue;
                    }
                };
                match verified(&image, &found, rule, (&keys, root.as_deref())) {
                    Ok(by) => {
                        let verified = VerifiedImage {
                            image: whole.to_owned(),
                            digest: image,
                            by: match by {
                                SignedBy::Key(at) => ImageSigner::Key(keys[at].fingerprint()),
                                SignedBy::Identity(by) => ImageSigner::Identity(by),
                            },
                        };
                        self.signatures.signed_now.insert(verified.clone());
                        self.signatures.signed.insert(verified);
                        self.lock.pin_image(&pin, found.manifest.digest);
                        self.lock.carries_image(&pin);
                        return Ok(Some(travels(&pin, whole, found)));
                    }
                    Err(why) => problems.extend(why),
                }
            }
            if asked.is_some() {
                break;
            }
            candidates = source.signatures(whole, &image).map_err(&refused)?;
            asked = Some(candidates.len());
        }
        problems.dedup();
        let why = match problems.is_empty() {
            true => "its registry has no signature of it".to_owned(),
            false => problems.join("; "),
        };
        Err(refused(ImageError {
            message: format!("{wanted}, and is not: {why}"),
            is_environment: false,
            help: Some(help(rule)),
        }))
    }

    /// That nothing that cannot be signed is taken where a signature is wanted.
    ///
    /// # Errors
    /// [`CollectError`] when it is.
    pub(super) fn unsignable(
        &mut self,
        assignment: &str,
        (shown, whole): (&str, &str),
        at: Option<&Location>,
    ) -> Result<(), CollectError> {
        let Some(rules) = &self.signatures.rules else {
            return Ok(());
        };
        let Some(rule) = rules.value.rule(whole) else {
            let unverified = (whole.to_owned(), rules.by());
            self.signatures.unverified.insert(unverified);
            return Ok(());
        };
        if rule.may_be_unsigned() {
            return Ok(());
        }
        let error = ImageError {
            message: format!(
                "it must be signed by {} of `{}` in {}, and what comes from a chart repository has no signature that \
                 could be verified",
                who(rule),
                rule.images,
                rules.by()
            ),
            is_environment: false,
            help: Some(
                "publish it in a registry (`helm push`) and sign it there, or give it an entry with `keys: []`"
                    .to_owned(),
            ),
        };
        Err(not_brought(assignment, shown, at, false, error))
    }

    /// What lies under the name of a signature; where it cannot be had, as it was shipped last.
    fn brought_signature(
        &self,
        source: &dyn ImageSource,
        name: &str,
    ) -> Result<CollectedImage, ImageError> {
        let first = source.bring_signature(name);
        let digest = name.rsplit_once('@');
        let digest = digest.and_then(|(_, digest)| digest.parse::<Digest>().ok());
        match (&first, digest, self.earlier) {
            (Err(_), Some(digest), Some(earlier))
                if earlier.bring_image(digest, source.folder()) =>
            {
                source.bring_signature(name)
            }
            _ => first,
        }
    }
}

/// Who must have signed by an entry.
fn who(rule: &SignatureRule) -> &'static str {
    match (rule.keys.is_empty(), rule.identities.is_empty()) {
        (_, true) => "a key",
        (true, false) => "an identity",
        (false, false) => "a key or an identity",
    }
}

/// What to do where nobody did.
fn help(rule: &SignatureRule) -> String {
    let signs = match (rule.keys.is_empty(), rule.identities.is_empty()) {
        (_, true) => {
            "have it signed (`cosign sign --key`), or see that the key in the policy is that of whoever signs it"
        }
        (true, false) => {
            "have it signed (`cosign sign`) by one of the identities in the policy, or see that they and the trusted root there are those of \
             whoever signs it"
        }
        (false, false) => {
            "have it signed (`cosign sign`), or see that a key or an identity in the policy, and its trusted root, are those of whoever signs \
             it"
        }
    };
    format!("{signs}; an image that may be unsigned gets an entry with `keys: []` before this one")
}

fn keys(rule: &SignatureRule) -> Result<Vec<SignatureKey>, ImageError> {
    let parsed = rule.keys.iter().map(|key| {
        SignatureKey::parse(&key.value).map_err(|error| ImageError {
            message: format!(
                "the key at {} cannot verify its signature: {error}",
                key.location.file_line()
            ),
            is_environment: false,
            help: Some(signers::KEY_HELP.to_owned()),
        })
    });
    parsed.collect()
}

fn read(found: &CollectedImage, content: Content) -> Option<Vec<u8>> {
    let path = found.folder.join(content.digest.hex());
    durable::read(&path, MAX_BYTES).ok()
}

fn verified(
    image: &Digest,
    found: &CollectedImage,
    rule: &SignatureRule,
    (keys, root): (&[SignatureKey], Option<&TrustedRoot>),
) -> Result<SignedBy, Vec<String>> {
    let manifest = read(found, found.manifest);
    let manifest = manifest.ok_or_else(|| vec!["a signature cannot be read".to_owned()])?;
    let blob = |content| read(found, content);
    let may_sign = |by: &cosign::Identity| {
        let mut all = rule.identities.iter();
        all.any(|one| one.is(&by.issuer, &by.subject))
    };
    let identities = root.map(|root| Identities {
        root,
        may_sign: &may_sign,
    });
    cosign::signed_by(image, &manifest, &blob, &Trusted { keys, identities })
}

/// Under which name a signature travels: the tag of the older form, by which it is looked for; the newer one is found as what refers
/// to the image.
fn travels(pin: &str, whole: &str, found: CollectedImage) -> (String, CollectedImage) {
    let manifest = read(&found, found.manifest).unwrap_or_default();
    let is_simple = String::from_utf8_lossy(&manifest).contains(SIMPLE);
    let name = match is_simple {
        true => pin.to_owned(),
        false => format!("{}@{}", repository(whole), found.manifest.digest),
    };
    (name, found)
}

#[cfg(test)]
mod tests {
    use super::repository;

    #[test]
    fn a_repository_is_its_name_without_tag_and_digest() {
        let digest = format!("sha256:{}", "0".repeat(64));
        for (name, expected) in [
            (
                "docker.io/library/nginx:1.27".to_owned(),
                "docker.io/library/nginx",
            ),
            (format!("localhost:5000/a@{digest}"), "localhost:5000/a"),
            (format!("localhost:5000/a:1@{digest}"), "localhost:5000/a"),
            ("localhost:5000/a".to_owned(), "localhost:5000/a"),
        ] {
            assert_eq!(repository(&name), expected);
        }
    }
}
