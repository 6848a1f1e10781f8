//! Statements about exploitability, as `OpenVEX` 0.2 has them, and 0.0.1.
//!
//! What comes in: a document that nobody has looked at. What goes out: its statements. It decides neither who may make one nor what one
//! means for a component.

mod named;

pub use named::ProductIdentifiers;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// How the file name of a document in a bundle ends.
pub const ENDING: &str = ".openvex.json";
/// Largest document, in bytes.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Most bytes of the names of all statements, where each vulnerability of one is kept by itself and each product has all subcomponents
/// that are its own or its statement's.
const MAX_NAMES_BYTES: usize = 4 * MAX_BYTES;
/// What a name takes beside its bytes.
const ONE_BYTES: usize = 32;
/// Longest text that is kept, in characters.
const MAX_TEXT: usize = 300;

/// Every `@context` that is read. The first is of version 0.0.1, as documents of it have it mostly.
pub const CONTEXTS: [&str; 3] = [
    "https://openvex.dev/ns",
    "https://openvex.dev/ns/v0.0.1",
    "https://openvex.dev/ns/v0.2.0",
];
/// Every `justification` that `OpenVEX` has.
pub const JUSTIFICATIONS: [&str; 5] = [
    "component_not_present",
    "vulnerable_code_not_present",
    "vulnerable_code_not_in_execute_path",
    "vulnerable_code_cannot_be_controlled_by_adversary",
    "inline_mitigations_already_exist",
];

/// What a statement says of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is affected.
    Affected,
    /// It has what fixes it.
    Fixed,
    /// It is not affected.
    NotAffected,
    /// Nobody knows yet.
    UnderInvestigation,
}

impl Status {
    /// Whether what it is about is not affected.
    pub fn clears(self) -> bool {
        matches!(self, Self::Fixed | Self::NotAffected)
    }

    /// Its word in a document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Affected => "affected",
            Self::Fixed => "fixed",
            Self::NotAffected => "not_affected",
            Self::UnderInvestigation => "under_investigation",
        }
    }
}

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// The names of the vulnerability.
    pub vulnerabilities: BTreeSet<String>,
    /// What it is about.
    pub products: Vec<Product>,
    /// What it says.
    pub status: Status,
    /// Why a product is not affected, as the document says it; may be empty.
    pub reason: String,
    /// Who says so.
    pub author: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

/// A product.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    /// What it is.
    #[serde(flatten)]
    pub named: ProductIdentifiers,
    /// The components that the statement is about; all of them where there is none.
    pub components: Vec<ProductIdentifiers>,
}

/// Why a document cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VexError {
    /// Not JSON of this form.
    #[error("it is not a document in the form of OpenVEX: {0}")]
    Json(#[from] serde_json::Error),
    /// Of another form, or of a version that nobody here knows.
    #[error("its `@context` is `{found}`, which is not supported: {}", listed(&CONTEXTS))]
    Context {
        /// As it is written.
        found: String,
    },
    /// A reason that is no word of `OpenVEX`.
    #[error(
        "statement {number} has the justification `{found}`, which OpenVEX does not have: {}; text of your own belongs into \
         `impact_statement`",
        listed(&JUSTIFICATIONS)
    )]
    Justification {
        /// Which, from 1.
        number: usize,
        /// As it is written.
        found: String,
    },
    /// A status that must have a reason, without one.
    #[error(
        "statement {number} says `not_affected` without a justification or an impact statement"
    )]
    Reason {
        /// Which, from 1.
        number: usize,
    },
    /// A date that is none.
    #[error("the date `{text}` cannot be read")]
    Date {
        /// As it is written.
        text: String,
    },
    /// A statement of a time to come.
    #[error("a statement is of {0}, which is in the future")]
    Future(Timestamp),
    /// It says of too many vulnerabilities too much.
    #[error(
        "its statements name too much: by vulnerability, product and subcomponent the names come to more than {MAX_NAMES_BYTES} bytes; \
         split it"
    )]
    TooMuch,
    /// Larger than any real one.
    #[error("it has {0} bytes, the limit is {MAX_BYTES}")]
    TooLarge(usize),
}

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "@context")]
    context: serde_json::Value,
    #[serde(default)]
    author: String,
    timestamp: String,
    last_updated: Option<String>,
    #[serde(default)]
    statements: Vec<StatementJson>,
}

#[derive(Deserialize)]
struct StatementJson {
    vulnerability: Vulnerability,
    #[serde(default)]
    products: Vec<WrittenProduct>,
    /// Of version 0.0.1: of all products.
    #[serde(default)]
    subcomponents: Vec<WrittenProduct>,
    status: Status,
    #[serde(default)]
    justification: String,
    #[serde(default)]
    impact_statement: String,
    timestamp: Option<String>,
    last_updated: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Vulnerability {
    Named {
        #[serde(default)]
        name: String,
        #[serde(default)]
        aliases: Vec<String>,
    },
    /// Of version 0.0.1.
    Name(String),
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum WrittenProduct {
    Described {
        #[serde(rename = "@id", default)]
        id: String,
        #[serde(default)]
        identifiers: BTreeMap<String, String>,
        #[serde(default)]
        hashes: BTreeMap<String, String>,
        // Not compared: who supplies it says nothing of what it is.
        #[serde(rename = "supplier", default)]
        _supplier: serde_json::Value,
        #[serde(default)]
        subcomponents: Vec<WrittenProduct>,
    },
    /// Of version 0.0.1.
    Id(String),
}

/// Whether bytes look like such a document rather than an advisory: they name a context or make statements, and have none of the dates
/// that each advisory has; or their context is one of `OpenVEX`.
pub fn is_vex(bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Looked {
        #[serde(rename = "@context")]
        context: Option<serde_json::Value>,
        statements: Option<IgnoredAny>,
        modified: Option<IgnoredAny>,
    }
    let Ok(found) = serde_json::from_slice::<Looked>(bytes) else {
        return false;
    };
    let context = found.context.as_ref().and_then(|one| one.as_str());
    let is_either = found.context.is_some() || found.statements.is_some();
    context.is_some_and(|text| text.contains("openvex")) || (is_either && found.modified.is_none())
}

/// Reads a document of which no statement is of a time to come, with a day for clocks that differ: the newest counts, and one of next
/// year would count against all that follow. `now_ms`: milliseconds since 1970.
///
/// # Errors
/// [`VexError`]
pub fn read_until(bytes: &[u8], now_ms: i64) -> Result<Vec<Statement>, VexError> {
    until(read(bytes)?, now_ms)
}

/// The same of a document that a signed index lists: also one from before words were checked.
///
/// # Errors
/// [`VexError`]
pub fn read_listed(bytes: &[u8], now_ms: i64) -> Result<Vec<Statement>, VexError> {
    until(read_on_record(bytes)?, now_ms)
}

fn until(statements: Vec<Statement>, now_ms: i64) -> Result<Vec<Statement>, VexError> {
    let limit_ms = now_ms.saturating_add(DAY_MS);
    let later = statements.iter().find(|one| one.at_ms > limit_ms);
    match later.and_then(|one| Timestamp::from_millisecond(one.at_ms).ok()) {
        Some(at) => Err(VexError::Future(at)),
        None => Ok(statements),
    }
}

/// Reads a document.
///
/// # Errors
/// [`VexError`]
pub fn read(bytes: &[u8]) -> Result<Vec<Statement>, VexError> {
    read_words(bytes, true)
}

/// Reads a document that is on record, also one from before words were checked.
///
/// # Errors
/// [`VexError`]
pub fn read_on_record(bytes: &[u8]) -> Result<Vec<Statement>, VexError> {
    read_words(bytes, false)
}

fn read_words(bytes: &[u8], are_known: bool) -> Result<Vec<Statement>, VexError> {
    if bytes.len() > MAX_BYTES {
        return Err(VexError::TooLarge(bytes.len()));
    }
    let document: Document = serde_json::from_slice(bytes)?;
    let context = match document.context.as_str() {
        Some(text) => text.to_owned(),
        None => document.context.to_string(),
    };
    if are_known && !CONTEXTS.contains(&context.as_str()) {
        let found = plain(&context);
        return Err(VexError::Context { found });
    }
    let of_document = document
        .last_updated
        .as_ref()
        .unwrap_or(&document.timestamp);
    let of_document = date(of_document)?;
    let bytes = document.statements.iter().map(StatementJson::names_bytes);
    if bytes.fold(0_usize, usize::saturating_add) > MAX_NAMES_BYTES {
        return Err(VexError::TooMuch);
    }
    let mut statements = Vec::new();
    for (at, written) in document.statements.into_iter().enumerate() {
        let at_ms = match written.last_updated.as_ref().or(written.timestamp.as_ref()) {
            Some(text) => date(text)?,
            None => of_document,
        };
        let justification = written.justification.as_str();
        if are_known && !justification.is_empty() && !JUSTIFICATIONS.contains(&justification) {
            return Err(VexError::Justification {
                number: at + 1,
                found: plain(justification),
            });
        }
        let reason = [written.justification, written.impact_statement];
        let reason = reason
            .iter()
            .map(|text| text.trim())
            .filter(|text| !text.is_empty());
        let reason = plain(&reason.collect::<Vec<_>>().join(": "));
        if written.status == Status::NotAffected && reason.is_empty() {
            return Err(VexError::Reason { number: at + 1 });
        }
        statements.push(Statement {
            vulnerabilities: written.vulnerability.names(),
            products: products(written.products, &written.subcomponents),
            status: written.status,
            reason,
            author: plain(&document.author),
            at_ms,
        });
    }
    Ok(statements)
}

fn products(written: Vec<WrittenProduct>, all: &[WrittenProduct]) -> Vec<Product> {
    let written = written.into_iter();
    written.map(|product| product.product(all)).collect()
}

impl StatementJson {
    /// How many bytes its names come to, in each product and for each vulnerability; before any is copied.
    fn names_bytes(&self) -> usize {
        let of = |all: &[WrittenProduct]| all.iter().map(WrittenProduct::own_bytes).sum::<usize>();
        let shared = of(&self.subcomponents);
        let each = self.products.iter().map(|product| {
            let own = match product {
                WrittenProduct::Described { subcomponents, .. } => of(subcomponents),
                WrittenProduct::Id(_) => 0,
            };
            product.own_bytes() + own + shared
        });
        let products = each.fold(0_usize, usize::saturating_add);
        products.saturating_mul(self.vulnerability.count())
    }
}

impl Vulnerability {
    fn count(&self) -> usize {
        match self {
            Self::Named { aliases, .. } => aliases.len() + 1,
            Self::Name(_) => 1,
        }
    }

    fn names(self) -> BTreeSet<String> {
        let names = match self {
            Self::Named { name, mut aliases } => {
                aliases.push(name);
                aliases
            }
            Self::Name(name) => vec![name],
        };
        names.into_iter().filter(|name| !name.is_empty()).collect()
    }
}

impl WrittenProduct {
    /// Bytes of its names, and what one takes in memory.
    fn own_bytes(&self) -> usize {
        match self {
            Self::Described {
                id,
                identifiers,
                hashes,
                ..
            } => {
                let names = identifiers.iter().chain(hashes);
                let names = names.map(|(kind, name)| kind.len() + name.len());
                id.len() + names.sum::<usize>() + ONE_BYTES
            }
            Self::Id(id) => id.len() + ONE_BYTES,
        }
    }

    /// What it says that it is. The `@id` of something that has identifiers may be an address for the document's own use.
    fn named(&self) -> ProductIdentifiers {
        let (id, identifiers, hashes) = match self {
            Self::Id(id) => return ProductIdentifiers::by(id),
            Self::Described {
                id,
                identifiers,
                hashes,
                ..
            } => (id, identifiers, hashes),
        };
        let mut named = ProductIdentifiers {
            hashes: hashes.clone(),
            ..ProductIdentifiers::default()
        };
        for (kind, value) in identifiers {
            match kind.as_str() {
                "purl" => named.names.insert(value.clone()),
                _ => named.others.insert(format!("{kind} {value}")),
            };
        }
        if id.starts_with("cpe:") {
            named.others.insert(format!("@id {id}"));
        } else if !id.is_empty() && (identifiers.is_empty() || !is_address(id)) {
            named.names.insert(id.clone());
        }
        named
    }

    /// `all`: the subcomponents of every product of its statement.
    fn product(self, all: &[Self]) -> Product {
        let own = match &self {
            Self::Described { subcomponents, .. } => subcomponents.as_slice(),
            Self::Id(_) => &[],
        };
        let components: BTreeSet<ProductIdentifiers> =
            own.iter().chain(all).map(Self::named).collect();
        Product {
            named: self.named(),
            components: components.into_iter().collect(),
        }
    }
}

/// Whether a text is an address that names nothing but itself: of a page, or a URN.
fn is_address(text: &str) -> bool {
    ["https://", "http://", "urn:"]
        .iter()
        .any(|scheme| text.starts_with(scheme))
}

fn listed(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

fn date(text: &str) -> Result<i64, VexError> {
    let parsed: Result<Timestamp, _> = text.parse();
    parsed
        .map(Timestamp::as_millisecond)
        .map_err(|_| VexError::Date { text: plain(text) })
}

fn plain(text: &str) -> String {
    let text = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    text.take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests;
