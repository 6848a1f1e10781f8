//! Twins in the store and in a generation: what is taken back, pruned, placed and put back.
//!
//! What comes in: a store with a layer `L`, an archive and statements. What must come out: only what a copy added is removed, and no stored
//! blob is written to.

use std::fs;
use std::time::{Duration, SystemTime};

use outhaul_bundle::BlobSink as _;
use outhaul_bundle::fake::FakeBundle;
use outhaul_bundle::index::served::{Image, Served};

use super::*;
use crate::generation::{self, StoredContent};
use crate::intact::{self, Look};
use crate::serving;
use crate::state_folder::StateFolder;

const LAYER: &[u8] = b"compressed";
const ARCHIVE: &[u8] = b"the archive";

fn content(bytes: &[u8]) -> Content {
    Content {
        digest: Digest::of(bytes),
        size: bytes.len() as u64,
    }
}

fn blob(bytes: &[u8]) -> Blob {
    Blob {
        digest: Digest::of(bytes),
        size: bytes.len() as u64,
        encoding: Encoding::Identity,
        contents: vec![content(bytes)],
        sealed: None,
    }
}

/// A store that has `ARCHIVE` in the place of `LAYER`.
struct Case {
    folder: StateFolder,
    _root: tempfile::TempDir,
}

impl Case {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let folder = StateFolder::new(root.path());
        for path in [folder.blobs(), folder.partial_blobs(), folder.generations()] {
            fs::create_dir_all(path).unwrap();
        }
        let case = Self {
            folder,
            _root: root,
        };
        case.put(ARCHIVE);
        state(
            &case.blobs().twin_path(&Digest::of(LAYER)),
            &content(ARCHIVE),
        )
        .unwrap();
        case
    }

    fn blobs(&self) -> Blobs {
        Blobs::new(&self.folder)
    }

    fn put(&self, bytes: &[u8]) {
        fs::write(self.blobs().path(&Digest::of(bytes)), bytes).unwrap();
    }

    /// The layer itself comes with a copy.
    fn bring(&self, blobs: &mut Blobs) {
        let layer = blob(LAYER);
        let mut out = blobs.begin(&layer).unwrap().unwrap();
        out.write_all(LAYER).unwrap();
        out.flush().unwrap();
        drop(out);
        blobs.commit(&layer).unwrap();
    }
}

/// An index that serves an image of `LAYER`, whose config states `diff_id`.
fn served(case: &Case, diff_id: &Digest) -> Index {
    let of = |bytes: &[u8]| {
        let content = content(bytes);
        serde_json::json!({ "mediaType": "m", "digest": content.digest.to_string(), "size": content.size })
    };
    let config = serde_json::json!({ "rootfs": { "diff_ids": [diff_id.to_string()] } });
    let config = config.to_string().into_bytes();
    let manifest = serde_json::json!({ "config": of(&config), "layers": [of(LAYER)] });
    let manifest = manifest.to_string().into_bytes();
    let mut index = FakeBundle::new(1, &[]).unwrap().index;
    index.blobs = vec![blob(LAYER), blob(&config), blob(&manifest)];
    index.served = Served {
        images: vec![Image {
            name: "registry.example/a:1".to_owned(),
            media_type: "i".to_owned(),
            manifest: content(&manifest),
            blobs: vec![content(&config), content(LAYER)],
        }],
        repositories: Vec::new(),
    };
    case.put(&config);
    case.put(&manifest);
    index
}

#[test]
fn attack_a_refused_copy_that_brings_the_layer_takes_back_that_and_not_the_twin() {
    let case = Case::new();
    let mut blobs = case.blobs();
    case.bring(&mut blobs);
    assert!(blobs.twin(&blob(LAYER)).is_none());
    blobs.take_back().unwrap();
    assert_eq!(blobs.twin(&blob(LAYER)), Some(content(ARCHIVE)));
    blobs
        .retain(&BTreeSet::from([Digest::of(LAYER).hex()]))
        .unwrap();
    assert_eq!(blobs.twin(&blob(LAYER)), Some(content(ARCHIVE)));
}

#[test]
fn an_archive_is_pruned_once_its_layer_is_here() {
    let case = Case::new();
    let mut blobs = case.blobs();
    case.bring(&mut blobs);
    blobs
        .retain(&BTreeSet::from([Digest::of(LAYER).hex()]))
        .unwrap();
    let left = durable::list(&case.folder.blobs()).unwrap();
    assert_eq!(left, [blobs.path(&Digest::of(LAYER))]);
}

#[test]
fn only_the_statements_of_a_copy_that_was_interrupted_are_taken_back() {
    let case = Case::new();
    let mut blobs = case.blobs();
    let made = case.folder.partial_blobs().join("made");
    fs::write(&made, b"another").unwrap();
    let other = Digest::of(b"other layer");
    blobs
        .keep_twin(&other, &content(b"another"), &made)
        .unwrap();
    blobs.take_back_twins().unwrap();
    assert!(!blobs.twin_path(&other).exists());
    assert!(blobs.path(&Digest::of(b"another")).exists());
    assert!(blobs.twin(&blob(LAYER)).is_some());
}

#[test]
fn attack_an_archive_that_the_config_does_not_state_is_wrong_and_puts_nothing_back() {
    let case = Case::new();
    let index = served(&case, &Digest::of(ARCHIVE));
    assert!(case.blobs().wrong_twins(&index).unwrap().is_empty());
    let damages = intact::damages(&case.folder, &index, Look::Every);
    assert!(intact::can_be_put_back(&case.folder, &index, &damages));

    let index = served(&case, &Digest::of(b"another archive"));
    let wrong = case.blobs().wrong_twins(&index).unwrap();
    assert_eq!(wrong.len(), 1);
    assert_eq!(wrong[0].layer, Digest::of(LAYER));
    assert!(!intact::can_be_put_back(&case.folder, &index, &damages));
    case.blobs().forget_twin(&wrong[0].layer).unwrap();
    assert!(!case.blobs().has(&blob(LAYER)));
}

#[test]
fn an_archive_that_was_checked_is_not_read_again() {
    let case = Case::new();
    let path = case.blobs().path(&Digest::of(ARCHIVE));
    fs::hard_link(&path, case.folder.generations().join("link")).unwrap();
    // Of its size, so that only reading it shows the damage.
    fs::write(&path, b"the_archive").unwrap();
    let later = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 33);
    let dropped = |checked| case.blobs().drop_damaged([&blob(LAYER)], checked).unwrap();
    assert_eq!(dropped(Some(later)), 0);
    assert_eq!(dropped(None), 1);
    assert!(!path.exists());
}

#[test]
fn attack_an_archive_that_the_index_also_serves_is_not_written_to() {
    let case = Case::new();
    let mut index = served(&case, &Digest::of(ARCHIVE));
    // After the layer: its archive is placed first.
    index.blobs.push(blob(ARCHIVE));
    index.served.images[0].blobs.push(content(ARCHIVE));
    let folder = case.folder.generation(1);
    let places = generation::places(&index);
    let write =
        || generation::write_contents(&folder, &case.blobs(), &index, &places, &Limits::default());
    write().unwrap();
    let placed = folder.join(serving::archive_path(&Digest::of(ARCHIVE)));
    assert_eq!(fs::read(&placed).unwrap(), ARCHIVE);
    let stored = case.blobs().path(&Digest::of(ARCHIVE));
    assert_eq!(fs::read(&stored).unwrap(), ARCHIVE);
}

#[test]
fn the_statement_goes_when_the_layer_itself_is_put_back() {
    let case = Case::new();
    let index = served(&case, &Digest::of(ARCHIVE));
    let folder = case.folder.generation(1);
    let places: Vec<StoredContent> = generation::places(&index);
    generation::write_contents(&folder, &case.blobs(), &index, &places, &Limits::default())
        .unwrap();
    let stated = folder.join(serving::twin_path(&Digest::of(LAYER)));
    assert!(stated.exists());
    fs::remove_file(folder.join(serving::archive_path(&Digest::of(ARCHIVE)))).unwrap();
    case.bring(&mut case.blobs());
    let of_files = || {
        let mut all = intact::damages(&case.folder, &index, Look::Every);
        // The descriptions that a whole generation has are not written here.
        all.retain(|damage| {
            intact::sentence(1, std::slice::from_ref(damage)).contains(" of image ")
        });
        all
    };
    let damages = of_files();
    assert_eq!(damages.len(), 1);
    intact::put_back(&case.folder, &index, &Limits::default(), &damages).unwrap();
    assert!(!stated.exists());
    assert!(of_files().is_empty());
}
