//! Which images must be signed, and by whom.
//!
//! What comes in: the entries of a policy, in their order. What goes out: the entry that is for an image. Whether a signature
//! holds is not decided here.

use super::Spanned;

mod identity;
mod pattern;
mod whole_name;

pub use identity::{SignerIdentity, bad_issuer, bad_subject, broad_subject, unknown_to};
use pattern::Fit;
pub use whole_name::never_fits;

/// Which images that travel must be signed: the first entry that fits an image's name counts.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageSignatures(pub Vec<SignatureRule>);

/// Of some images, who must have signed them.
#[derive(Debug, Clone)]
pub struct SignatureRule {
    /// Whole names of images, with `*` for any run of characters.
    pub images: String,
    /// Public keys in PEM, of which one may have signed.
    pub keys: Vec<Spanned<String>>,
    /// Who may have signed without a key pair.
    pub identities: Vec<SignerIdentity>,
    /// What certificates of identities are verified with; there where there are identities.
    pub root: Option<CarriedRoot>,
}

/// A trusted root of Sigstore, as the policy has it.
#[derive(Debug, Clone)]
pub struct CarriedRoot {
    /// What the policy calls it.
    pub name: String,
    /// The text of its `trusted_root.json`.
    pub json: Spanned<String>,
}

/// Two that say the same are equal, wherever they are written.
impl PartialEq for SignatureRule {
    fn eq(&self, other: &Self) -> bool {
        let keys = |one: &Self| -> Vec<String> {
            let keys = one.keys.iter();
            keys.map(|key| key.value.trim().to_owned()).collect()
        };
        let identities = |one: &Self| -> Vec<(String, String)> {
            let all = one.identities.iter();
            all.map(|one| (one.issuer.value.clone(), one.subject.value.clone()))
                .collect()
        };
        let root = |one: &Self| {
            let root = one.root.as_ref();
            root.map(|root| root.json.value.trim().to_owned())
        };
        self.images == other.images
            && keys(self) == keys(other)
            && identities(self) == identities(other)
            && root(self) == root(other)
    }
}

impl SignatureRule {
    /// Whether such images need no signature: nobody is named who had to sign them.
    pub fn may_be_unsigned(&self) -> bool {
        self.keys.is_empty() && self.identities.is_empty()
    }
}

impl ImageSignatures {
    /// The entry that is for the image with this whole name, however its registry is called: the first one. A default port, the other
    /// names of Docker Hub and a digest are no way past an entry.
    pub fn rule(&self, image: &str) -> Option<&SignatureRule> {
        let first = self.0.iter().find(|rule| rule.is_for(image).is_some())?;
        if first.is_for(image) == Some(Fit::Written) {
            return Some(first);
        }
        // Of several for one repository that want a signature, the one for the tag that is written.
        let written = self.0.iter().find(|rule| {
            !rule.may_be_unsigned()
                && pattern::same_repository(&rule.images, &first.images)
                && rule.is_for(image) == Some(Fit::Written)
        });
        written.or(Some(first))
    }
}

impl SignatureRule {
    fn is_for(&self, image: &str) -> Option<Fit> {
        match self.may_be_unsigned() {
            true => pattern::exempts(&self.images, image).then_some(Fit::Written),
            false => pattern::wants(&self.images, image),
        }
    }

    /// The entries of `before` that are for every whole name that this one is for, alone or together; none where this one counts for some.
    pub fn hidden_by<'b>(&self, before: &'b [Self]) -> Vec<&'b Self> {
        if let Some(one) = before.iter().rev().find(|one| one.hides(self)) {
            return vec![one];
        }
        if self.may_be_unsigned() {
            return Vec::new();
        }
        let parts = pattern::parts(&self.images);
        let of = |part: &String| before.iter().find(|one| one.is_for_all(part));
        let found: Option<Vec<&Self>> = parts.iter().map(of).collect();
        let mut each: Vec<&Self> = Vec::new();
        for one in found.unwrap_or_default() {
            if !each.iter().any(|known| std::ptr::eq(*known, one)) {
                each.push(one);
            }
        }
        each
    }

    /// Whether this one is for every name that `part` stands for, as it is written.
    fn is_for_all(&self, part: &str) -> bool {
        match self.may_be_unsigned() {
            true => pattern::exempts(&self.images, part),
            false => pattern::covers(&self.images, part),
        }
    }

    /// Whether every whole name that a later entry is for is one of this entry.
    fn hides(&self, later: &Self) -> bool {
        match self.may_be_unsigned() {
            true => pattern::exempts_all(&self.images, &later.images, !later.may_be_unsigned()),
            false => pattern::covers(&self.images, &later.images),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(all: &[(&str, bool)]) -> ImageSignatures {
        let file = std::sync::Arc::new(crate::diagnostic::SourceFile {
            name: "x.yaml".into(),
            text: String::new(),
        });
        let key = Spanned {
            value: "key".to_owned(),
            location: crate::diagnostic::Location::new(&file, 0..0),
        };
        let rule = |(images, signed): &(&str, bool)| SignatureRule {
            images: (*images).to_owned(),
            keys: signed.then(|| key.clone()).into_iter().collect(),
            identities: Vec::new(),
            root: None,
        };
        ImageSignatures(all.iter().map(rule).collect())
    }

    #[test]
    fn a_digest_leads_to_the_entry_that_wants_a_signature() {
        let all = rules(&[
            ("r.example/app:dev-*", false),
            ("r.example/app:1.*", true),
            ("r.example/app:2.*", true),
            ("*", false),
        ]);
        for (image, expected) in [
            ("r.example/app:dev-1", "r.example/app:dev-*"),
            ("r.example/app:dev-1@sha256:00", "r.example/app:1.*"),
            ("r.example/app@sha256:00", "r.example/app:1.*"),
            ("r.example/app:1.1@sha256:00", "r.example/app:1.*"),
            ("r.example/app:2.1@sha256:00", "r.example/app:2.*"),
            ("r.example/app:3@sha256:00", "r.example/app:1.*"),
            ("r.example/app:3", "*"),
            ("r.example/other@sha256:00", "*"),
        ] {
            let found = all.rule(image).map(|rule| rule.images.as_str());
            assert_eq!(found, Some(expected), "{image}");
        }
    }
}
