//! Images of one and of two platforms, their layers as tars, and a folder where what is known of them is kept.

use outhaul_bundle::fake::MemoryBlobs;
use outhaul_bundle::index::served::Image as ServedImage;
use serde_json::Value;

use super::*;

const OCI: &str = "application/vnd.oci.image.config.v1+json";

fn layer(package: &str) -> Vec<u8> {
    let status = format!("Package: {package}\nVersion: 1\nArchitecture: amd64\n");
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(status.len() as u64);
    header.set_mode(0o644);
    let path = "var/lib/dpkg/status";
    tar.append_data(&mut header, path, status.as_bytes())
        .unwrap();
    tar.into_inner().unwrap()
}

#[derive(Default)]
struct Registry {
    contents: MemoryBlobs,
    served: Served,
}

impl Registry {
    fn put(&mut self, bytes: Vec<u8>) -> Content {
        let size = bytes.len() as u64;
        let digest = self.contents.put(bytes);
        Content { digest, size }
    }

    fn image(&mut self, name: &str, layer: Vec<u8>, media_type: &str) -> Content {
        let layer = self.put(layer);
        let config = self.put(br#"{"os":"linux","architecture":"amd64"}"#.to_vec());
        let manifest = serde_json::json!({
            "config": {"mediaType": media_type, "digest": config.digest, "size": config.size},
            "layers": [{"digest": layer.digest, "size": layer.size}],
        });
        let manifest = self.put(manifest.to_string().into_bytes());
        self.served.images.push(ServedImage {
            name: name.to_owned(),
            media_type: "application/vnd.oci.image.manifest.v1+json".to_owned(),
            manifest,
            blobs: vec![config, layer],
        });
        layer
    }

    fn found(&mut self, known: &mut KnownLayers) -> Result<Vec<CarriedImage>, AttestError> {
        let users = BTreeMap::from([(
            "docker.io/library/a:1".to_owned(),
            ["shop".to_owned()].into(),
        )]);
        known.of_images(&self.served, &users, &mut self.contents)
    }
}

fn packages(image: &CarriedImage) -> Vec<String> {
    let document: Value = serde_json::from_slice(&image.bytes).unwrap();
    let all = document["components"].as_array().unwrap().iter();
    all.map(|one| one["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn one_document_per_image_whatever_its_names_and_none_of_a_chart() {
    let mut registry = Registry::default();
    registry.image("docker.io/library/a:1", layer("curl"), OCI);
    registry.image("docker.io/library/b:1", layer("curl"), OCI);
    let chart = "application/vnd.cncf.helm.config.v1+json";
    registry.image("docker.io/charts/c:1", b"chart".to_vec(), chart);
    let found = registry.found(&mut KnownLayers::default()).unwrap();
    let [image] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((image.names.len(), image.users.len()), (2, 1));
    assert_eq!(packages(image), ["curl"]);
    assert!(is_of_image(&image.file), "{}", image.file);
}

#[test]
fn what_is_known_of_a_layer_is_kept_and_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let images = folder.path().join("sha256");
    let mut registry = Registry::default();
    let layer = registry.image("docker.io/library/a:1", layer("curl"), OCI);
    let first = registry
        .found(&mut KnownLayers::beside(Some(&images)))
        .unwrap();
    let kept = folder.path().join(FOLDER).join(layer.digest.hex());
    assert!(kept.is_file());
    // The layer is not needed any more.
    registry.contents.by_digest.remove(&layer.digest);
    let again = registry
        .found(&mut KnownLayers::beside(Some(&images)))
        .unwrap();
    assert_eq!(first, again);
    // What was torn is made again, and that needs it.
    std::fs::write(&kept, b"{").unwrap();
    let error = registry
        .found(&mut KnownLayers::beside(Some(&images)))
        .unwrap_err();
    assert!(
        error.to_string().contains(&layer.digest.to_string()),
        "{error}"
    );
}

#[test]
fn a_layer_with_other_bytes_is_an_error_and_one_that_is_no_tar_is_named() {
    let mut registry = Registry::default();
    let good = registry.image("docker.io/library/a:1", layer("curl"), OCI);
    registry
        .contents
        .by_digest
        .insert(good.digest, layer("nothing"));
    let error = registry.found(&mut KnownLayers::default()).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("do not match its digest"), "{cause}");
    let mut registry = Registry::default();
    registry.image("docker.io/library/a:1", vec![7; 2048], OCI);
    let found = registry.found(&mut KnownLayers::default()).unwrap();
    let text = String::from_utf8_lossy(&found[0].bytes).into_owned();
    assert!(text.contains("cannot be unpacked"), "{text}");
}
