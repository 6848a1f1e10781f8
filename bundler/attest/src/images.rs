//! The images that a bundle carries, each with a bill of materials.
//!
//! What comes in: what the site serves, the contents, and which assignments need which image. What goes out: one document per
//! image, by the digest of its manifest. What is known of a layer is kept under its digest, so that a layer is
//! unpacked once on a machine. A layer whose bytes are not its digest's is an error; one that cannot be unpacked
//! is named in the document.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use outhaul_bundle::Digest;
use outhaul_bundle::digest::HashingReader;
use outhaul_bundle::encode::ContentSource;
use outhaul_bundle::index::{Content, Served};
use outhaul_kit::durable;

use super::AttestError;
use crate::materials::{Contents, Image, LayerFacts, document, platforms};

/// Largest manifest, index or config of an image, in bytes.
const MAX_DOCUMENT_BYTES: u64 = 8 * 1024 * 1024;
/// Largest file of what is known of a layer, in bytes.
const MAX_FACTS_BYTES: u64 = 64 * 1024 * 1024;
/// The folder of what is known of layers, beside the images' own. The number is that of the format.
const FOLDER: &str = "layers-1";

/// An image that a bundle carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CarriedImage {
    /// Its whole names.
    pub names: BTreeSet<String>,
    /// The assignments that need it, as far as that is known.
    pub users: BTreeSet<String>,
    /// File name of its bill of materials.
    pub file: String,
    /// The bill of materials.
    pub bytes: Vec<u8>,
}

/// Each platform, with what it holds or why that is not known.
type OfPlatforms = Vec<(String, Result<Contents, String>)>;

/// What is known of layers.
#[derive(Debug, Default)]
pub struct KnownLayers {
    folder: Option<PathBuf>,
    known: BTreeMap<Digest, Rc<Result<LayerFacts, String>>>,
}

impl KnownLayers {
    /// Beside the folder where images lie; without one it is kept in memory.
    pub fn beside(images: Option<&Path>) -> Self {
        let folder = images.and_then(Path::parent);
        Self {
            folder: folder.map(|folder| folder.join(FOLDER)),
            known: BTreeMap::new(),
        }
    }

    /// The images among what is served, each with its bill of materials; charts and other artifacts are none.
    ///
    /// # Errors
    /// [`AttestError`] when a content cannot be read, or does not match its digest.
    pub fn of_images(
        &mut self,
        served: &Served,
        users: &BTreeMap<String, BTreeSet<String>>,
        contents: &mut dyn ContentSource,
    ) -> Result<Vec<CarriedImage>, AttestError> {
        let mut by_digest: BTreeMap<Digest, Vec<_>> = BTreeMap::new();
        for image in &served.images {
            let same = by_digest.entry(image.manifest.digest).or_default();
            same.push(image);
        }
        let mut carried = Vec::new();
        for (manifest, images) in by_digest {
            let parts = images.iter().flat_map(|one| {
                let parts = std::iter::once(&one.manifest).chain(&one.blobs);
                parts.map(|content| (content.digest, *content))
            });
            let parts: BTreeMap<Digest, Content> = parts.collect();
            let names: BTreeSet<String> = images.iter().map(|one| one.name.clone()).collect();
            let Some(found) = self.of_image(manifest, &parts, contents)? else {
                continue;
            };
            let users = names.iter().filter_map(|name| users.get(name)).flatten();
            let users = users.cloned().collect();
            let image = Image { names, manifest };
            carried.push(CarriedImage {
                bytes: document(&image, &found),
                names: image.names,
                users,
                file: file_name(&manifest),
            });
        }
        Ok(carried)
    }

    fn of_image(
        &mut self,
        manifest: Digest,
        parts: &BTreeMap<Digest, Content>,
        contents: &mut dyn ContentSource,
    ) -> Result<Option<OfPlatforms>, AttestError> {
        let mut read = |digest: &Digest| {
            let part = parts
                .get(digest)
                .filter(|part| part.size <= MAX_DOCUMENT_BYTES);
            let part = part.ok_or(match parts.contains_key(digest) {
                true => io::ErrorKind::FileTooLarge,
                false => io::ErrorKind::NotFound,
            })?;
            let mut bytes = Vec::new();
            let from = contents.open(part)?;
            from.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let found = match platforms(manifest, &mut read) {
            Ok(found) if found.is_empty() => return Ok(None),
            Ok(found) => found,
            // What the registry gave as an image, and cannot be read as one.
            Err(error) => {
                return Ok(Some(vec![("unknown".to_owned(), Err(error.to_string()))]));
            }
        };
        let mut all = Vec::new();
        for platform in found {
            let mut layers = Vec::new();
            let mut failed = None;
            for digest in &platform.layers {
                let Some(part) = parts.get(digest) else {
                    failed = Some(format!("layer {digest} is not carried"));
                    break;
                };
                let facts = self.of_layer(part, contents)?;
                if let Err(why) = &*facts {
                    failed = Some(format!("layer {digest}: {why}"));
                    break;
                }
                layers.push(facts);
            }
            let facts = layers
                .iter()
                .filter_map(|layer| layer.as_ref().as_ref().ok());
            let contents = failed.map_or_else(|| Ok(Contents::of(facts)), Err);
            all.push((platform.name, contents));
        }
        Ok(Some(all))
    }

    fn of_layer(
        &mut self,
        layer: &Content,
        contents: &mut dyn ContentSource,
    ) -> Result<Rc<Result<LayerFacts, String>>, AttestError> {
        if let Some(known) = self.known.get(&layer.digest) {
            return Ok(Rc::clone(known));
        }
        let name = format!("layer {}", layer.digest);
        let file = self
            .folder
            .as_ref()
            .map(|folder| folder.join(layer.digest.hex()));
        let kept = file.as_ref().and_then(|file| {
            let bytes = durable::read(file, MAX_FACTS_BYTES).ok()?;
            serde_json::from_slice(&bytes).ok()
        });
        let facts = match kept {
            Some(facts) => Ok(facts),
            None => {
                let from = contents.open(layer).map_err(AttestError::at(&name))?;
                let facts = read(from, layer).map_err(AttestError::at(&name))?;
                if let (Some(file), Ok(facts)) = (&file, &facts) {
                    keep(file, facts).map_err(AttestError::at(&name))?;
                }
                facts
            }
        };
        let facts = Rc::new(facts);
        self.known.insert(layer.digest, Rc::clone(&facts));
        Ok(facts)
    }
}

/// File name of an image's bill of materials, by the digest of its manifest or index.
pub fn file_name(manifest: &Digest) -> String {
    format!("image-{}.cdx.json", manifest.hex())
}

/// Whether an attestation is an image's bill of materials, by its file name.
pub fn is_of_image(file: &str) -> bool {
    file.starts_with("image-") && file.ends_with(".cdx.json")
}

fn keep(file: &Path, facts: &LayerFacts) -> io::Result<()> {
    let bytes = serde_json::to_vec(facts)?;
    let folder = file.parent().unwrap_or_else(|| Path::new(""));
    durable::make_folder(folder).map_err(io::Error::other)?;
    durable::write(file, &bytes, 0o644).map_err(io::Error::other)
}

/// What a layer holds, or why it cannot be unpacked; an error when its bytes are others.
fn read(from: impl Read, layer: &Content) -> io::Result<Result<LayerFacts, String>> {
    let mut source = Source { from, failed: None };
    let mut hashed = HashingReader::new(&mut source);
    let facts = LayerFacts::read(&mut hashed).map_err(|error| error.to_string());
    let rest = io::copy(&mut hashed, &mut io::sink());
    let (digest, _) = hashed.finish();
    if let Some(error) = source.failed {
        return Err(error);
    }
    rest?;
    if digest != layer.digest {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "its bytes do not match its digest",
        ));
    }
    Ok(facts)
}

/// Keeps the error of what it reads from: whoever unpacks a layer turns it into text.
struct Source<R> {
    from: R,
    failed: Option<io::Error>,
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.from.read(into) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                let same = io::Error::new(error.kind(), error.to_string());
                self.failed = Some(error);
                Err(same)
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests;
