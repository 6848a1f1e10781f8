//! Bundles of the tests' centre where others put them.
//!
//! What comes in: a bundle. What goes out: its members as a web server has them, and files beside it.

use std::path::{Path, PathBuf};

use outhaul_bundle::index::Content;
use outhaul_bundle::{BundleReader, Digest, Limits};
use outhaul_test_kit::MemoryBlobs;

/// A bundle as a web server has it: the same members, unpacked.
pub fn unpack_for_web(bundle: &Path, folder: &Path) {
    let mut reader = BundleReader::new(std::fs::File::open(bundle).unwrap(), Limits::default());
    let put = |path: String, bytes: &[u8]| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let metadata = reader.read_metadata().unwrap();
    let role = metadata.values().find_map(|bytes| {
        let value: serde_json::Value = serde_json::from_slice(bytes).ok()?;
        let targets = value["signed"]["targets"].as_object()?.clone();
        let (path, target) = targets
            .iter()
            .find(|(path, _)| path.ends_with("/index.json"))?;
        let digest = target["hashes"]["sha256"].as_str()?.to_owned();
        let role = path.split('/').next()?.to_owned();
        Some((role, digest, target["length"].as_u64()?))
    });
    let (role, digest, size) = role.unwrap();
    for (name, bytes) in &metadata {
        put(format!("metadata/{name}"), bytes);
    }
    let content = Content {
        digest: Digest::from_hex(&digest).unwrap(),
        size,
    };
    let (index, bytes) = reader.read_index(&content).unwrap();
    put(format!("targets/{role}/{digest}.index.json"), &bytes);
    if let Some(bytes) = reader.index_compressed() {
        put(format!("targets/{role}/{digest}.index.json.zst"), &bytes);
    }
    let mut blobs = MemoryBlobs::default();
    reader.read_blobs(&index, &mut blobs).unwrap();
    for (digest, bytes) in &blobs.by_digest {
        put(format!("blobs/sha256/{}", digest.hex()), bytes);
    }
}

/// Writes `bytes` beside `bundle` under another name.
pub fn beside(bundle: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = bundle.with_file_name(name);
    std::fs::write(&path, bytes).unwrap();
    path
}
