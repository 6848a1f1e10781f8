//! Tests of attesting and sealing a bundle, up to the contents that come out of it on site.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::rc::Rc;

use outhaul_bundle::Digest;
use outhaul_bundle::decode::{DecodeError, decode_sealed};
use outhaul_bundle::fake::FakeBundle;
use outhaul_bundle::index::{Content, Encoding};
use outhaul_bundle::write::BlobSource;
use outhaul_seal::{Identities, Identity};
use outhaul_signer::envelope::Envelope;
use outhaul_signer::fleet::statement_keys;
use outhaul_signer::trust::TrustedMetadata;
use outhaul_test_kit::{Centre, secret};

use super::*;
use crate::assemble::{BundleSources, Spool, assemble};
use outhaul_attest::contents::Keys;
use outhaul_plane::render::RenderedAssignment;

fn signer(centre: &Centre) -> StatementSigner {
    centre.fleet.statement_signer(&secret()).unwrap()
}

fn bundle(large: &[u8]) -> UnsignedBundle {
    let like = FakeBundle::new(1, &[]).unwrap().index;
    let files = [
        ("reconciler.yaml", &b"image: nginx:1\n"[..]),
        ("data.bin", large),
    ];
    let rendered = RenderedAssignment {
        workload: "hello".into(),
        workspace: "kaizen".into(),
        policies: vec![],
        namespace: "n".into(),
        config_version: Digest::of(b"c"),
        files: files
            .map(|(name, bytes)| (name.to_owned(), bytes.to_vec()))
            .into(),
        manifests: BTreeMap::new(),
        sites: None,
        overlays: Vec::new(),
        site_values: None,
        bootstrap: None,
    };
    let assignments = BTreeMap::from([("hello-test".to_owned(), std::sync::Arc::new(rendered))]);
    let contents = BundleSources {
        fleet: like.fleet.as_str(),
        stream: like.stream.clone(),
        number: 1,
        reconciler: like.reconciler.clone(),
        snapshot: like.snapshot.clone(),
        assignments: &assignments,
        recipients: BTreeSet::new(),
        payloads: BTreeMap::new(),
        served: outhaul_bundle::index::Served::default(),
        kept: BTreeMap::new(),
        orders: Vec::new(),
        waves: None,
        agent: None,
    };
    assemble(contents, Spool::new(&std::env::temp_dir()).unwrap()).unwrap()
}

fn reader(name: &str, key: &Identity) -> NamedRecipient {
    NamedRecipient {
        name: name.parse().unwrap(),
        key: key.recipient(),
    }
}

/// Every content that `keys` get out of the bundle.
fn opened(
    bundle: &mut UnsignedBundle,
    keys: &Keys,
) -> Result<BTreeMap<Digest, Vec<u8>>, DecodeError> {
    let mut found = BTreeMap::new();
    for blob in bundle.index.blobs.clone() {
        let mut bytes = Vec::new();
        BlobSource::open(bundle, &blob)
            .unwrap()
            .read_to_end(&mut bytes)
            .unwrap();
        assert_eq!(
            (Digest::of(&bytes), bytes.len() as u64),
            (blob.digest, blob.size)
        );
        let kept: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
        let mut each = |_: &Content| {
            kept.borrow_mut().push(Vec::new());
            Ok(Some(Box::new(Last(kept.clone())) as Box<dyn Write>))
        };
        decode_sealed(&blob, &*bytes, &Limits::default(), keys, &mut each)?;
        let contents = blob.contents.iter().map(|content| content.digest);
        found.extend(contents.zip(kept.take()));
    }
    Ok(found)
}

struct Last(Rc<RefCell<Vec<Vec<u8>>>>);

impl Write for Last {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .borrow_mut()
            .last_mut()
            .unwrap()
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where an encoded blob lies.
fn blob_path(spool: &Spool, blob: &Blob) -> std::path::PathBuf {
    spool.folder().join(format!("blob-{}", blob.digest.hex()))
}

#[test]
fn attestations_travel_as_content_and_change_nothing_else() {
    let centre = Centre::new();
    let signer = signer(&centre);
    let plain = bundle(&vec![1; 100_000]);
    let mut attested = bundle(&vec![1; 100_000])
        .attest(&[], &BTreeMap::new(), &[], &signer)
        .unwrap();
    assert_eq!(attested.index.assignments, plain.index.assignments);
    let again = bundle(&vec![1; 100_000])
        .attest(&[], &BTreeMap::new(), &[], &signer)
        .unwrap();
    assert_eq!(
        attested.index_bytes, again.index_bytes,
        "the same input gives the same bytes"
    );
    let names: Vec<_> = attested
        .index
        .attestations
        .iter()
        .map(|f| f.path.to_string())
        .collect();
    assert_eq!(names, [attest::PROVENANCE, attest::SBOM]);

    let files = attested.index.attestations.clone();
    let contents = opened(&mut attested, &Keys::default()).unwrap();
    let envelope = Envelope::from_json(contents[&files[0].content].trim_ascii_end()).unwrap();
    let root = TrustedMetadata::enrol(&centre.fleet.root_bytes().unwrap()).unwrap();
    let kind = attest::statement::PAYLOAD_TYPE;
    let statement = envelope.verify(kind, &statement_keys(&root)).unwrap();
    let statement: serde_json::Value = serde_json::from_slice(statement).unwrap();
    let list = attest::statement::contents_list(&attested.index);
    assert_eq!(
        statement["subject"][0]["digest"]["sha256"],
        Digest::of(list.as_bytes()).hex()
    );
    assert_eq!(
        statement["subject"][1]["digest"]["sha256"],
        files[1].content.hex()
    );
}

#[test]
fn a_sealed_bundle_gives_its_readers_everything_and_others_nothing() {
    let centre = Centre::new();
    let signer = signer(&centre);
    let [site, stream, other] = [(); 3].map(|()| Identity::generate());
    let large = vec![b'x'; 200_000];
    let mut plain = bundle(&large)
        .attest(&[], &BTreeMap::new(), &[], &signer)
        .unwrap();
    let all = opened(&mut plain, &Keys::default()).unwrap();
    let readers = [reader("press-7", &site), reader("stage-press", &stream)];
    let mut sealed = plain.seal(&readers).unwrap();
    for key in [site, stream] {
        let keys = Keys(Identities::new(vec![key]));
        assert_eq!(opened(&mut sealed, &keys).unwrap(), all);
    }
    let keys = Keys(Identities::new(vec![other.clone()]));
    let error = opened(&mut sealed, &keys).unwrap_err();
    assert_eq!(error.rule(), "recipient");
    let reported = error.to_string();
    for part in ["`press-7`", "`stage-press`", &other.recipient().id()] {
        assert!(reported.contains(part), "{reported}");
    }
    for blob in &sealed.index.blobs {
        let bytes = std::fs::read(blob_path(&sealed.spool, blob)).unwrap();
        assert!(
            !bytes
                .windows(5)
                .any(|part| part == b"nginx" || part == b"xxxxx")
        );
    }
}

#[test]
fn content_that_is_stored_as_it_is_can_be_sealed() {
    let gzip = [&[0x1f, 0x8b, 8, 0][..], &vec![7; 100_000]].concat();
    let key = Identity::generate();
    let mut sealed = bundle(&gzip).seal(&[reader("a", &key)]).unwrap();
    assert!(
        sealed
            .index
            .blobs
            .iter()
            .any(|blob| blob.encoding == Encoding::Identity)
    );
    let found = opened(&mut sealed, &Keys(Identities::new(vec![key]))).unwrap();
    assert_eq!(found[&Digest::of(&gzip)], gzip);
}

#[test]
fn attack_sealed_blobs_exchanged() {
    let key = Identity::generate();
    let readers = [reader("a", &key)];
    let mut ours = bundle(b"one").seal(&readers).unwrap();
    let theirs = bundle(b"two").seal(&readers).unwrap();
    let (from, to) = (&theirs.index.blobs[0], &ours.index.blobs[0]);
    std::fs::copy(blob_path(&theirs.spool, from), blob_path(&ours.spool, to)).unwrap();
    let (blob, digest) = (to.clone(), from.digest);
    let mut bytes = Vec::new();
    BlobSource::open(&mut ours, &blob)
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    // A site hashes first: this is where it ends.
    assert_ne!(Digest::of(&bytes), blob.digest);
    assert_eq!(Digest::of(&bytes), digest);
    let blob = Blob {
        size: bytes.len() as u64,
        ..blob
    };
    let keys = Keys(Identities::new(vec![key]));
    let mut each = |_: &Content| Ok(None);
    assert!(decode_sealed(&blob, &*bytes, &Limits::default(), &keys, &mut each).is_err());
}

#[test]
fn nobody_is_no_reader_and_the_same_key_counts_once() {
    assert!(matches!(
        bundle(b"x").seal(&[]).unwrap_err(),
        AttestSealError::Seal(SealError::Recipients { count: 0 })
    ));
    let key = Identity::generate();
    let sealed = bundle(b"x")
        .seal(&[reader("a", &key), reader("b", &key)])
        .unwrap();
    assert_eq!(
        sealed.index.blobs[0]
            .sealed
            .as_ref()
            .unwrap()
            .recipients
            .len(),
        1
    );
}
