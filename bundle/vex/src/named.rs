//! What a document says that a product or a part of one is.
//!
//! What comes in: names, identifiers and digests as they are written, or as a record of before has them. What goes out: the same, each by
//! itself. It compares nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// What a document says that something is: all of it has to fit, and it is nothing where it says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "RecordedProduct")]
pub struct ProductIdentifiers {
    /// Names and package URLs.
    pub names: BTreeSet<String>,
    /// Digests, by the algorithm as it is written.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hashes: BTreeMap<String, String>,
    /// Identifiers of other kinds, which are in no bill of materials: each as its kind and itself.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub others: BTreeSet<String>,
}

/// As it is on record; of before, a component was a name.
#[derive(Deserialize)]
#[serde(untagged)]
enum RecordedProduct {
    Name(String),
    Whole {
        names: BTreeSet<String>,
        #[serde(default)]
        hashes: BTreeMap<String, String>,
        #[serde(default)]
        others: BTreeSet<String>,
    },
}

impl ProductIdentifiers {
    /// What has a name alone.
    pub(crate) fn by(name: &str) -> Self {
        Self {
            names: BTreeSet::from([name.to_owned()]),
            ..Self::default()
        }
    }
}

impl From<RecordedProduct> for ProductIdentifiers {
    fn from(kept: RecordedProduct) -> Self {
        match kept {
            RecordedProduct::Name(name) => Self::by(&name),
            RecordedProduct::Whole {
                names,
                hashes,
                others,
            } => Self {
                names,
                hashes,
                others,
            },
        }
    }
}
