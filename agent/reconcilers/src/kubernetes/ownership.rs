//! By what the inventory knows an object again: whose it is, and which one.
//!
//! What comes in: an inventory row's digest, and objects as the API server gives them. What goes out: a
//! [`OwnershipRecord`], and whether an object is the one that was meant. The name of an object is not enough: someone
//! may have removed it and made another. It is pure.

use outhaul_bundle::Digest;
use outhaul_kubernetes::cluster::is_applied_by_us;
use serde_json::Value;

use crate::assignment::Desired;

/// The annotation that says which assignment an object belongs to.
pub const ANNOTATION: &str = "outhaul.dev/assignment";
/// The annotation that says which site applies it: a cluster belongs to one site.
pub const SITE_ANNOTATION: &str = "outhaul.dev/site";

/// Whose an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Fleet, environment and assignment, as they stand in [`ANNOTATION`].
    pub assignment: String,
    /// The site, as it stands in [`SITE_ANNOTATION`]. Rows of earlier agents do not name it.
    pub site: Option<String>,
}

impl Owner {
    /// Who a desired assignment belongs to.
    pub fn of(desired: &Desired) -> Self {
        let (fleet, environment) = (&desired.fleet, &desired.environment);
        Self {
            assignment: format!("{fleet}/{environment}/{}", desired.assignment.name),
            site: Some(desired.site.to_string()),
        }
    }

    /// The other site that applies `found`, when it is not this one.
    pub fn other_site<'a>(&self, found: &'a Value) -> Option<&'a str> {
        let site = self.site.as_deref()?;
        site_of(found).filter(|other| *other != site && is_applied_by_us(found))
    }
}

/// How an object came to be ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ownership {
    /// It is about to be made.
    New,
    /// We made it; its uid.
    Made(String),
    /// Someone else made it, and the stream said to take it over; its uid. It is never removed.
    Took(String),
}

/// What the inventory keeps of an object, as the digest of its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnershipRecord {
    /// Digest of the file that it is from.
    pub content: Digest,
    /// How it came to be ours.
    pub origin: Ownership,
    /// Whose it is.
    pub owner: Owner,
    /// Digest of what it meant to its controller when it was applied, where the controller writes whole objects back: while
    /// it means the same, fields that the controller has set are nobody's change.
    pub meaning: Option<Digest>,
}

impl OwnershipRecord {
    /// As it is kept.
    pub fn to_text(&self) -> String {
        let origin = match &self.origin {
            Ownership::New => "new".to_owned(),
            Ownership::Made(uid) => format!("made:{uid}"),
            Ownership::Took(uid) => format!("took:{uid}"),
        };
        let mut text = format!("{} {origin} {}", self.content, self.owner.assignment);
        if let Some(site) = &self.owner.site {
            text.push(' ');
            text.push_str(site);
            if let Some(meaning) = &self.meaning {
                text.push(' ');
                text.push_str(&meaning.to_string());
            }
        }
        text
    }

    /// What [`OwnershipRecord::to_text`] wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (content, origin, owner) = (words.next()?, words.next()?, words.next()?);
        Some(Self {
            content: content.parse().ok()?,
            origin: match origin.split_once(':') {
                None if origin == "new" => Ownership::New,
                Some(("made", uid)) => Ownership::Made(uid.to_owned()),
                Some(("took", uid)) => Ownership::Took(uid.to_owned()),
                _ => return None,
            },
            owner: Owner {
                assignment: owner.to_owned(),
                site: words.next().map(ToOwned::to_owned),
            },
            // Rows of earlier agents have none.
            meaning: words.next().and_then(|word| word.parse().ok()),
        })
    }

    /// Whether `found` is the very object that this mark was made for, and still belongs to its assignment.
    pub fn is_of(&self, found: &Value) -> bool {
        let same = match &self.origin {
            // Cut off before its uid was known: our own annotation, set by ourselves, says so.
            Ownership::New => true,
            Ownership::Made(uid) | Ownership::Took(uid) => uid_of(found) == uid,
        };
        same && is_applied_by_us(found)
            && owner_of(found) == Some(self.owner.assignment.as_str())
            && self.owner.other_site(found).is_none()
    }
}

/// The uid of an object.
pub fn uid_of(found: &Value) -> &str {
    found["metadata"]["uid"].as_str().unwrap_or_default()
}

/// Which assignment an object says that it belongs to.
pub fn owner_of(found: &Value) -> Option<&str> {
    found["metadata"]["annotations"][ANNOTATION].as_str()
}

/// Which site an object says that it is applied by; objects of earlier agents do not.
pub fn site_of(found: &Value) -> Option<&str> {
    found["metadata"]["annotations"][SITE_ANNOTATION].as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mark_is_read_as_it_is_written_and_knows_its_object() {
        let of = |origin| OwnershipRecord {
            content: Digest::of(b"x"),
            origin,
            owner: Owner {
                assignment: "f/dev/app".into(),
                site: Some("drone-7".into()),
            },
            meaning: None,
        };
        let with = OwnershipRecord {
            meaning: Some(Digest::of(b"y")),
            ..of(Ownership::New)
        };
        assert_eq!(OwnershipRecord::parse(&with.to_text()), Some(with));
        for origin in [
            Ownership::New,
            Ownership::Made("u-1".into()),
            Ownership::Took("u-1".into()),
        ] {
            let mark = of(origin);
            assert_eq!(OwnershipRecord::parse(&mark.to_text()), Some(mark));
        }
        assert_eq!(OwnershipRecord::parse("sha256:00 made:u"), None);
        let earlier = of(Ownership::New).to_text().replace(" drone-7", "");
        assert_eq!(OwnershipRecord::parse(&earlier).unwrap().owner.site, None);
        let found = |uid: &str, manager: &str, owner: &str| {
            json!({"metadata": {"uid": uid, "annotations": {ANNOTATION: owner},
                "managedFields": [{"manager": manager, "operation": "Apply"}]}})
        };
        let made = of(Ownership::Made("u-1".into()));
        assert!(made.is_of(&found("u-1", "outhaul", "f/dev/app")));
        assert!(
            !made.is_of(&found("u-2", "outhaul", "f/dev/app")),
            "another object of this name"
        );
        assert!(
            !made.is_of(&found("u-1", "kubectl", "f/dev/app")),
            "nothing in it is ours"
        );
        assert!(
            !made.is_of(&found("u-1", "outhaul", "f/dev/other")),
            "another assignment has it"
        );
        assert!(of(Ownership::New).is_of(&found("u-9", "outhaul", "f/dev/app")));
        let mut of_site = found("u-1", "outhaul", "f/dev/app");
        of_site["metadata"]["annotations"][SITE_ANNOTATION] = "drone-7".into();
        assert!(made.is_of(&of_site));
        of_site["metadata"]["annotations"][SITE_ANNOTATION] = "drone-8".into();
        assert!(!made.is_of(&of_site), "another site applies it");
    }
}
