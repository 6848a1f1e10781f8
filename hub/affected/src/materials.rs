//! A bill of materials, as a bundle carries it.
//!
//! What comes in: a `CycloneDX` document, whose digest a signed index lists. What goes out: the components that advisories
//! can be about, the images that it names, and what it says is not known. It reads what the centre writes, and of any other
//! document what has a package URL.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::purl::Purl;
use crate::release::Distribution;

/// Largest bill of materials, in bytes.
pub const MAX_BILL_BYTES: usize = 64 * 1024 * 1024;

/// What kind of component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ComponentKind {
    /// A package of apk.
    Apk,
    /// A package of dpkg.
    Deb,
    /// An image.
    Image,
}

impl ComponentKind {
    /// Its name in the store and in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apk => "apk",
            Self::Deb => "deb",
            Self::Image => "image",
        }
    }

    /// From its name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Apk, Self::Deb, Self::Image]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}

/// A component that advisories can be about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// What kind.
    pub kind: ComponentKind,
    /// Of which distribution; its parts are empty where that is not known.
    pub distribution: Distribution,
    /// Its name; of an image the repository.
    pub name: String,
    /// Its version; of an image the tag or digest.
    pub version: String,
    /// The source that it was built from, where another one is named: name and version.
    pub source: Option<(String, String)>,
    /// Its package URL; empty without one.
    pub purl: String,
    /// The assignments that it is for, as far as the document names them.
    pub assignments: BTreeSet<String>,
}

impl Component {
    /// The name that advisories use.
    pub fn advised_name(&self) -> &str {
        self.source.as_ref().map_or(&self.name, |(name, _)| name)
    }

    /// Of an image: its repository and tag or digest.
    pub(crate) fn image_name(&self) -> String {
        image_name(&self.name, &self.version)
    }

    /// The digest of an image that is asked for by it, in hexadecimal digits.
    pub(crate) fn digest(&self) -> Option<&str> {
        self.version.strip_prefix("sha256:")
    }

    /// The version that advisories use.
    pub fn advised_version(&self) -> &str {
        let source = self.source.as_ref();
        source.map_or(&self.version, |(_, version)| version)
    }
}

/// An image that a bundle's document names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedImage {
    /// Its repository and tag or digest.
    pub name: String,
    /// Its package URL.
    pub purl: String,
    /// File name of its own bill of materials; `None` when it does not travel.
    pub document: Option<String>,
    /// The assignments that need it.
    pub assignments: BTreeSet<String>,
}

impl CarriedImage {
    /// The digest by which an image is asked for, or by which its own bill of materials is named, in hexadecimal digits.
    pub(crate) fn digest(&self) -> Option<&str> {
        if let Some((_, digest)) = self.name.split_once("@sha256:") {
            return Some(digest);
        }
        let document = self.document.as_ref()?;
        let digest = document.strip_prefix("image-")?.strip_suffix(".cdx.json")?;
        let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        (digest.len() == 64 && digest.bytes().all(is_digit)).then_some(digest)
    }
}

fn image_name(name: &str, version: &str) -> String {
    match version.starts_with("sha256:") {
        true => format!("{name}@{version}"),
        false => format!("{name}:{version}"),
    }
}

/// What a document lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Materials {
    /// The components.
    pub components: Vec<Component>,
    /// The images, with the documents that list what they hold.
    pub images: Vec<CarriedImage>,
    /// What it says is not known, each as one sentence.
    pub unknown: BTreeSet<String>,
}

/// Why a document cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MaterialsError {
    /// Not JSON.
    #[error("it is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Of another form.
    #[error("it is not a bill of materials in the form of CycloneDX")]
    Form,
    /// Larger than any real one.
    #[error("it has {0} bytes, the limit is {MAX_BILL_BYTES}")]
    TooLarge(usize),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    bom_format: String,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    components: Vec<ComponentJson>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    component: Option<ComponentJson>,
}

#[derive(Deserialize)]
struct ComponentJson {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    purl: String,
    #[serde(default)]
    properties: Vec<Property>,
}

#[derive(Deserialize)]
struct Property {
    #[serde(default)]
    name: String,
    #[serde(default)]
    value: Value,
}

impl Materials {
    /// Reads a document.
    ///
    /// # Errors
    /// [`MaterialsError`]
    pub fn read(bytes: &[u8]) -> Result<Self, MaterialsError> {
        if bytes.len() > MAX_BILL_BYTES {
            return Err(MaterialsError::TooLarge(bytes.len()));
        }
        let document: Document = serde_json::from_slice(bytes)?;
        if document.bom_format != "CycloneDX" {
            return Err(MaterialsError::Form);
        }
        let mut materials = Self::default();
        if let Some(about) = &document.metadata.component {
            materials.unknown = unknown_of(about);
        }
        for written in document.components {
            materials.add(written);
        }
        Ok(materials)
    }

    fn add(&mut self, written: ComponentJson) {
        if written.kind == "file" {
            let all = [
                ("outhaul:unreadable", "could not be read"),
                ("outhaul:not-opened", "is not searched"),
                ("outhaul:fetched", "is not all there is"),
            ];
            for (name, what) in all {
                let found = written.values(name);
                let found = found.map(|why| format!("`{}` {what}: {why}", written.name));
                self.unknown.extend(found);
            }
            return;
        }
        let purl = Purl::parse(&written.purl);
        let assignments: BTreeSet<String> = written
            .values("outhaul:assignment")
            .map(str::to_owned)
            .collect();
        if written.kind == "container" {
            self.images.push(CarriedImage {
                name: image_name(&written.name, &written.version),
                purl: written.purl.clone(),
                document: written.values("outhaul:sbom").next().map(str::to_owned),
                assignments: assignments.clone(),
            });
        }
        let kind = match (&purl, written.kind.as_str()) {
            (_, "container") => ComponentKind::Image,
            (Some(purl), _) if purl.kind == "deb" => ComponentKind::Deb,
            (Some(purl), _) if purl.kind == "apk" => ComponentKind::Apk,
            // A package whose distribution is not known: the centre writes no package URL then.
            (None, "library") => ComponentKind::Deb,
            _ => return,
        };
        let source = written.values("outhaul:source").next();
        let source = source.and_then(|text| text.split_once(' '));
        let source = source.map(|(name, version)| (name.to_owned(), version.to_owned()));
        let distribution = purl.as_ref().map(distribution).unwrap_or_default();
        self.components.push(Component {
            kind,
            distribution,
            source,
            purl: written.purl,
            name: written.name,
            version: written.version,
            assignments,
        });
    }
}

fn distribution(purl: &Purl) -> Distribution {
    match purl.qualifiers.get("distro") {
        Some(text) => Distribution::of_qualifier(text),
        None => Distribution {
            id: purl.namespace.clone(),
            release: String::new(),
        },
    }
}

/// What an image's document says is not known of it.
fn unknown_of(about: &ComponentJson) -> BTreeSet<String> {
    let image = match about.kind.as_str() {
        "container" => format!("image `{}`", about.name),
        _ => return BTreeSet::new(),
    };
    let unread = about
        .values("outhaul:unread")
        .map(|why| format!("{image} could not be read whole: {why}"));
    let others = about
        .values("outhaul:unread-packages")
        .map(|what| format!("{image} has packages that are not read: {what}"));
    let without = about
        .values("outhaul:no-packages")
        .map(|platform| format!("{image} has no package database for {platform}"));
    unread.chain(others).chain(without).collect()
}

impl ComponentJson {
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let all = self.properties.iter();
        all.filter(move |property| property.name == name)
            .filter_map(|property| property.value.as_str())
    }
}

#[cfg(test)]
mod tests;
