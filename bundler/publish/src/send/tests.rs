//! Tests of `send`: the order, what is sent twice, and targets that lie, over a fake target in memory.

use std::collections::BTreeMap;
use std::io::Read as _;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_kit::failure::{Classified as _, FailureClass};

use super::*;

/// A fake target: files in memory, and what is wrong with it.
#[derive(Default)]
struct FakeTarget {
    files: BTreeMap<String, Vec<u8>>,
    order: Vec<String>,
    /// Refuses everything after so many files.
    most: Option<usize>,
    /// Changes the last byte of what it takes under names that end so.
    spoils: Option<&'static str>,
}

impl Target for FakeTarget {
    fn place(&self, path: &str) -> String {
        format!("fake:{path}")
    }

    fn size(&mut self, path: &str) -> Result<Option<u64>, TargetError> {
        Ok(self.files.get(path).map(|bytes| bytes.len() as u64))
    }

    fn read(&mut self, path: &str, _: u64) -> Result<Option<Vec<u8>>, TargetError> {
        Ok(self.files.get(path).cloned())
    }

    fn digest(&mut self, path: &str) -> Result<Option<Digest>, TargetError> {
        Ok(self.files.get(path).map(|bytes| Digest::of(bytes)))
    }

    fn put(&mut self, object: &Object, sent: &dyn Fn(u64)) -> Result<(), TargetError> {
        if self.most == Some(self.order.len()) {
            let (place, problem) = (self.place(&object.path), "it went away".to_owned());
            return Err(TargetError::Unreachable { place, problem });
        }
        let mut bytes = Vec::new();
        let mut reader = object.open(0, object.content.size).unwrap();
        reader.read_to_end(&mut bytes).unwrap();
        sent(bytes.len() as u64);
        if self.spoils.is_some_and(|end| object.path.ends_with(end)) {
            *bytes.last_mut().unwrap() ^= 1;
        }
        self.order.push(object.path.clone());
        self.files.insert(object.path.clone(), bytes);
        Ok(())
    }
}

fn timestamp(version: u64, note: &str) -> Vec<u8> {
    format!("{{\"signed\":{{\"version\":{version},\"note\":\"{note}\"}}}}").into_bytes()
}

fn publication(folder: &std::path::Path, version: u64) -> Publication {
    let file = folder.join("bundle");
    std::fs::write(&file, b"..first.second").unwrap();
    let blob = |name: &str, bytes: &[u8], at| {
        let content = Content {
            digest: Digest::of(bytes),
            size: bytes.len() as u64,
        };
        Object::in_file(&format!("blobs/sha256/{name}"), content, &file, at)
    };
    Publication {
        objects: vec![
            blob("a", b"first", 2),
            blob("b", b"second", 8),
            Object::small("targets/s-1/x.index.json".to_owned(), b"{}"),
            Object::small("metadata/1.root.json".to_owned(), b"{}"),
            Object::small(TIMESTAMP.to_owned(), &timestamp(version, "ours")),
        ],
        version,
    }
}

fn send(publication: &Publication, target: &mut FakeTarget) -> Result<Sent, TargetError> {
    publish(publication, target, Options::default())
}

#[test]
fn what_leads_to_the_rest_comes_last_and_a_second_run_sends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = publication(folder.path(), 3);
    let mut target = FakeTarget::default();
    let sent = send(&wanted, &mut target).unwrap();
    let names: Vec<&str> = wanted.objects.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(target.order, names);
    assert_eq!((sent.files, sent.there), (5, 0));
    assert_eq!(target.files["blobs/sha256/b"], b"second");
    let again = send(&wanted, &mut target).unwrap();
    assert_eq!((again.files, again.there), (0, 5));
    assert_eq!(again.there_bytes, sent.bytes);
}

#[test]
fn an_interrupted_run_leads_nowhere_and_the_next_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = publication(folder.path(), 3);
    let mut target = FakeTarget {
        most: Some(2),
        ..FakeTarget::default()
    };
    let error = send(&wanted, &mut target).unwrap_err();
    assert_eq!(error.class(), FailureClass::Environment, "{error}");
    assert!(!target.files.contains_key(TIMESTAMP));
    target.most = None;
    let sent = send(&wanted, &mut target).unwrap();
    assert_eq!((sent.files, sent.there), (3, 2));
}

#[test]
fn what_is_there_with_another_size_is_sent_again_and_with_read_back_other_bytes_too() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = publication(folder.path(), 3);
    let mut target = FakeTarget::default();
    send(&wanted, &mut target).unwrap();
    target
        .files
        .insert("blobs/sha256/a".into(), b"fir".to_vec());
    target
        .files
        .insert("blobs/sha256/b".into(), b"SECOND".to_vec());
    assert_eq!(send(&wanted, &mut target).unwrap().files, 1);
    let options = Options { read_back: true };
    assert_eq!(publish(&wanted, &mut target, options).unwrap().files, 1);
    assert_eq!(target.files["blobs/sha256/b"], b"second");
}

#[test]
fn a_target_that_gives_back_other_bytes_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = publication(folder.path(), 3);
    for (end, read_back) in [
        ("index.json", false),
        ("timestamp.json", false),
        ("/b", true),
    ] {
        let mut target = FakeTarget {
            spoils: Some(end),
            ..FakeTarget::default()
        };
        let error = publish(&wanted, &mut target, Options { read_back }).unwrap_err();
        assert_eq!(error.class(), FailureClass::Trust, "{error}");
        assert!(error.to_string().contains(end), "{error}");
    }
}

#[test]
fn a_newer_publication_or_another_of_the_same_version_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = publication(folder.path(), 3);
    for (there, class) in [
        (timestamp(4, "ours"), FailureClass::Refused),
        (timestamp(3, "theirs"), FailureClass::Trust),
    ] {
        let mut target = FakeTarget::default();
        target.files.insert(TIMESTAMP.into(), there);
        let error = send(&wanted, &mut target).unwrap_err();
        assert_eq!((error.class(), target.order.len()), (class, 0), "{error}");
    }
    // What is no timestamp leads nobody anywhere.
    let mut target = FakeTarget::default();
    target.files.insert(TIMESTAMP.into(), b"half".to_vec());
    assert_eq!(send(&wanted, &mut target).unwrap().files, 5);
}

#[test]
fn a_bundle_that_changed_since_it_was_signed_is_not_written_into_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = publication(folder.path(), 3);
    std::fs::write(folder.path().join("bundle"), b"..first.SECOND").unwrap();
    let to = tempfile::tempdir().unwrap();
    let mut target = crate::WebFolder::open(to.path()).unwrap();
    let error = publish(&wanted, &mut target, Options::default()).unwrap_err();
    let text = format!(
        "{error}: {}",
        std::error::Error::source(&error).map_or_else(String::new, ToString::to_string)
    );
    assert!(text.contains("was changed since it was signed"), "{text}");
    assert!(!to.path().join("blobs/sha256/b").exists());
    assert!(!to.path().join(TIMESTAMP).exists());
}
