//! The archive that containerd imports: the twin of an image, and the image itself.
//!
//! What comes in: an image layout with archives in the places of layers, and what the configs state. What goes out: a tar file without a name, with
//! the twin (the same config, the archives as layers) under a name for the time of the import, and the image by its digest, without the layers
//! that are not here. Each archive is compared with its digest while it is copied; no compressed layer is made.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use outhaul_bundle::Digest;
use outhaul_bundle::digest::HashingReader;
use outhaul_bundle::index::served::Image;
use outhaul_bundle::layers::ImageLayers;
use outhaul_kit::carried::{CONTAINERD_NAME, IMAGE_MANIFEST as MANIFEST};
use outhaul_kit::durable;
use serde_json::{Value, json};

/// The media types of a config, and of an uncompressed layer.
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Where a blob lies in a layout.
pub(crate) fn blob(layout: &Path, digest: &Digest) -> std::path::PathBuf {
    layout.join("blobs/sha256").join(digest.hex())
}

/// Before the name of each twin; no registry is there.
const TWIN: &str = "twin.outhaul.dev/";

/// The name of a twin while it is imported.
pub(crate) fn twin_name(layers: &ImageLayers) -> String {
    format!("{TWIN}{}:import", layers.manifest.digest.hex())
}

/// Whether a name is that of a twin.
pub(crate) fn is_twin_name(name: &str) -> bool {
    name.starts_with(TWIN)
}

/// The names by which containerd has to know an image: its own, and that by its digest.
pub(crate) fn names(image: &Image) -> Vec<String> {
    let by_digest = by_digest(image);
    match image.name == by_digest {
        true => vec![by_digest],
        false => vec![image.name.clone(), by_digest],
    }
}

/// The name of an image by its digest.
pub(crate) fn by_digest(image: &Image) -> String {
    let (stem, _) = image.name.split_once('@').unwrap_or((&image.name, ""));
    let from = stem.rfind('/').map_or(0, |at| at + 1);
    let tag = stem.get(from..).and_then(|last| last.find(':'));
    let repository = tag.map_or(stem, |at| stem.get(..from + at).unwrap_or(stem));
    format!("{repository}@{}", image.manifest.digest)
}

/// Writes the archive for `image`, of which `twins` are the manifests with layers that are not here.
///
/// # Errors
/// When something cannot be read or written, or an archive has not its digest.
pub(crate) fn write(
    layout: &Path,
    image: &Image,
    twins: &[&ImageLayers],
    out: File,
) -> io::Result<File> {
    let mut archive = tar::Builder::new(out);
    let mut entries = Vec::new();
    let mut written = std::collections::BTreeSet::new();
    put(
        &mut archive,
        "oci-layout",
        br#"{"imageLayoutVersion":"1.0.0"}"#,
    )?;
    for layers in twins {
        let twin = manifest(layout, layers);
        entries.push(entry(MANIFEST, &twin, &twin_name(layers)));
        let path = format!("blobs/sha256/{}", Digest::of(&twin).hex());
        put(&mut archive, &path, &twin)?;
        for layer in &layers.layers {
            let digest = match blob(layout, &layer.carried.digest).exists() {
                true => layer.carried.digest,
                false => layer.diff_id,
            };
            if written.insert(digest) {
                copy(&mut archive, layout, &digest)?;
            }
        }
    }
    // What is small of the image itself: manifests and configs. Its layers, here or not, are not needed twice.
    let carried: std::collections::BTreeSet<Digest> = twins
        .iter()
        .flat_map(|layers| &layers.layers)
        .map(|layer| layer.carried.digest)
        .collect();
    let contents = std::iter::once(&image.manifest).chain(&image.blobs);
    for content in contents.filter(|content| !carried.contains(&content.digest)) {
        if blob(layout, &content.digest).exists() && written.insert(content.digest) {
            copy(&mut archive, layout, &content.digest)?;
        }
    }
    let top = durable::read(&blob(layout, &image.manifest.digest), image.manifest.size)
        .map_err(|error| error.source)?;
    entries.push(entry(&image.media_type, &top, &by_digest(image)));
    let index = json!({ "schemaVersion": 2, "manifests": entries }).to_string();
    put(&mut archive, "index.json", index.as_bytes())?;
    archive.into_inner()
}

/// The manifest of the twin.
fn manifest(layout: &Path, layers: &ImageLayers) -> Vec<u8> {
    let listed = layers.layers.iter().map(|layer| {
        let carried = &layer.carried;
        match blob(layout, &carried.digest).exists() {
            true => json!({
                "mediaType": layer.media_type, "digest": carried.digest.to_string(), "size": carried.size,
            }),
            false => {
                let size = std::fs::metadata(blob(layout, &layer.diff_id)).map_or(0, |meta| meta.len());
                json!({ "mediaType": LAYER, "digest": layer.diff_id.to_string(), "size": size })
            }
        }
    });
    let listed: Vec<Value> = listed.collect();
    let config = &layers.config;
    json!({
        "schemaVersion": 2, "mediaType": MANIFEST,
        "config": { "mediaType": CONFIG, "digest": config.digest.to_string(), "size": config.size },
        "layers": listed,
    })
    .to_string()
    .into_bytes()
}

fn entry(media_type: &str, bytes: &[u8], name: &str) -> Value {
    json!({
        "mediaType": media_type, "digest": Digest::of(bytes).to_string(), "size": bytes.len(),
        "annotations": { CONTAINERD_NAME: name },
    })
}

fn header(size: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_size(size);
    header.set_mode(0o644);
    header
}

fn put(archive: &mut tar::Builder<File>, path: &str, bytes: &[u8]) -> io::Result<()> {
    archive.append_data(&mut header(bytes.len() as u64), path, bytes)
}

fn copy(archive: &mut tar::Builder<File>, layout: &Path, digest: &Digest) -> io::Result<()> {
    let file = durable::open_file(&blob(layout, digest))?;
    let size = file.metadata()?.len();
    let mut input = HashingReader::new(file.take(size));
    let path = format!("blobs/sha256/{}", digest.hex());
    archive.append_data(&mut header(size), path, &mut input)?;
    match input.finish().0 == *digest {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the stored bytes of {digest} do not match it"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use outhaul_bundle::index::Content;

    use super::*;

    #[test]
    fn an_image_is_known_by_its_name_and_by_its_digest() {
        let digest = Digest::of(b"m");
        let named = |name: &str| {
            names(&Image {
                name: name.to_owned(),
                media_type: MANIFEST.to_owned(),
                manifest: Content { digest, size: 1 },
                blobs: Vec::new(),
            })
        };
        let by_digest = format!("r.example:5000/a/b@{digest}");
        assert_eq!(
            named("r.example:5000/a/b:1"),
            ["r.example:5000/a/b:1".to_owned(), by_digest.clone()]
        );
        assert_eq!(named(&by_digest), [by_digest]);
    }
}
