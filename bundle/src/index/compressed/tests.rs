//! Tests of compressed indexes: what travels, and what an untrusted change of it does.
use super::*;
use crate::fake::{FakeBundle, MemoryBlobs};
use crate::limits::Limits;
use crate::member::{BLOCK, Member};
use crate::read::{BundleReader, ReadError};
use crate::write::write_bundle;

/// A bundle with a large index, and metadata that lists `of` as its compressed form.
struct Large {
    bundle: FakeBundle,
    index_bytes: Vec<u8>,
}

impl Large {
    fn new() -> Self {
        let names: Vec<String> = (0..1000).map(|n| format!("folder/file-{n}")).collect();
        let files: Vec<(&str, &[u8])> = names
            .iter()
            .map(|name| (name.as_str(), name.as_bytes()))
            .collect();
        let bundle = FakeBundle::new(7, &files).unwrap();
        let index_bytes = bundle.index.to_bytes();
        assert!(index_bytes.len() >= MIN_COMPRESSED_BYTES);
        Self {
            bundle,
            index_bytes,
        }
    }

    fn content(&self) -> Content {
        self.bundle.expected_index()
    }

    fn form(&self) -> Vec<u8> {
        compressed(&self.index_bytes).unwrap().unwrap()
    }

    fn listing(&self, form: Option<&[u8]>) -> Vec<u8> {
        let custom = form.map_or_else(
            || serde_json::json!({ "number": 7 }),
            |bytes| {
                let sha256 = Digest::of(bytes).hex();
                serde_json::json!({ "number": 7, "zstd": { "length": bytes.len(), "sha256": sha256 } })
            },
        );
        serde_json::json!({ "signed": { "targets": { "s-0011223344556677/index.json": {
            "length": self.index_bytes.len(),
            "hashes": { "sha256": self.content().digest.hex() },
            "custom": custom,
        } } } })
        .to_string()
        .into_bytes()
    }

    /// The file, with these metadata files of the stream.
    fn written(&self, listings: &[Vec<u8>]) -> Vec<u8> {
        let mut metadata = self.bundle.metadata.clone();
        for (version, listing) in listings.iter().enumerate() {
            metadata.push((
                format!("{}.s-0011223344556677.json", version + 7),
                listing.clone(),
            ));
        }
        let mut blobs = self.bundle.blobs.clone();
        let index = &self.bundle.index;
        write_bundle(Vec::new(), &metadata, &self.index_bytes, index, &mut blobs).unwrap()
    }

    fn read(&self, file: &[u8]) -> Result<(), ReadError> {
        let mut reader = BundleReader::new(file, Limits::default());
        reader.read_metadata()?;
        let (index, bytes) = reader.read_index(&self.content())?;
        assert_eq!(bytes, self.index_bytes);
        reader.read_blobs(&index, &mut MemoryBlobs::default())
    }
}

fn has(file: &[u8], name: &str) -> bool {
    file.windows(name.len() + 1)
        .any(|window| window == format!("{name}\0").as_bytes())
}

/// The file with `bytes` as `index.json.zst` in the place of a member of `size` bytes.
fn with_compressed(file: &[u8], was: &Member, size: usize, bytes: &[u8]) -> Vec<u8> {
    let header = was.header(size as u64);
    let mut windows = file.windows(BLOCK);
    let at = windows.position(|window| window == header).unwrap();
    let filled = |size: usize| size.next_multiple_of(BLOCK);
    let mut out = file[..at].to_vec();
    out.extend(Member::CompressedIndex.header(bytes.len() as u64));
    out.extend(bytes);
    out.resize(at + BLOCK + filled(bytes.len()), 0);
    out.extend(&file[at + BLOCK + filled(size)..]);
    out
}

#[test]
fn a_large_index_travels_compressed_where_metadata_lists_that() {
    let large = Large::new();
    let form = large.form();
    assert!(form.len() * 2 < large.index_bytes.len());
    let small = large.written(&[large.listing(Some(&form))]);
    assert!(has(&small, "index.json.zst") && !has(&small, "index.json"));
    large.read(&small).unwrap();
    assert_eq!(small, large.written(&[large.listing(Some(&form))]));
    let plain = large.written(&[large.listing(None)]);
    assert!(has(&plain, "index.json") && !has(&plain, "index.json.zst"));
    large.read(&plain).unwrap();
    assert!(plain.len() - small.len() > large.index_bytes.len() / 2);
    // A form that this program does not make is not written, and a reader needs none.
    let other = zstd::bulk::compress(&large.index_bytes, 19).unwrap();
    assert_ne!(other, form);
    let file = large.written(&[large.listing(Some(&other))]);
    assert!(has(&file, "index.json"));
    large.read(&file).unwrap();
}

#[test]
fn a_small_index_is_not_compressed() {
    let bundle = FakeBundle::new(1, &[("one", b"1")]).unwrap();
    assert_eq!(compressed(&bundle.index.to_bytes()).unwrap(), None);
    let noise: Vec<u8> = (0u32..40_000)
        .flat_map(|n| Digest::of(&n.to_le_bytes()).as_bytes()[..2].to_vec())
        .collect();
    assert_eq!(compressed(&noise).unwrap(), None);
}

#[test]
fn attack_a_compressed_index_that_is_not_signed_is_not_decompressed() {
    let large = Large::new();
    let form = large.form();
    let signed = large.listing(Some(&form));
    let file = large.written(std::slice::from_ref(&signed));
    // Bytes that make the right index, and are not those that are signed.
    let other = zstd::bulk::compress(&large.index_bytes, 19).unwrap();
    let mut damaged = form.clone();
    *damaged.last_mut().unwrap() ^= 1;
    for (bytes, rule) in [(other, "size"), (damaged, "digest"), (Vec::new(), "size")] {
        let changed = with_compressed(&file, &Member::CompressedIndex, form.len(), &bytes);
        assert_eq!(large.read(&changed).unwrap_err().rule(), rule);
    }
    // A listing that nobody signed beside the one that is: whichever comes first, nothing is decompressed.
    let bomb = zstd::bulk::compress(&vec![0; 1 << 20], 3).unwrap();
    let forged = large.listing(Some(&bomb));
    let renamed = with_compressed(&file, &Member::CompressedIndex, form.len(), &bomb);
    for listings in [[&signed, &forged], [&forged, &signed]] {
        let mut forms = CompressedForms::default();
        for listing in listings {
            forms.add(listing);
        }
        assert_eq!(forms.of(&large.content().digest), None);
    }
    assert!(large.read(&renamed).is_err());
    // No listing at all.
    let plain = large.listing(None);
    let mut forms = CompressedForms::default();
    forms.add(&plain);
    assert_eq!(forms.of(&large.content().digest), None);
    // What comes out is as large as is signed, and never larger.
    let error = decompress(&bomb, 1000).unwrap_err();
    assert!(!error.is_empty());
    assert_eq!(
        decompress(&bomb, (1 << 20) + 1).unwrap_err(),
        "1048576 bytes came out, 1048577 are signed"
    );
}

/// A verifier that knows a timestamp looks at no file behind it: what it verified says what may be decompressed, and not the file that came.
#[test]
fn attack_a_form_that_only_an_unverified_file_lists_is_not_decompressed() {
    let large = Large::new();
    let form = large.form();
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 3).unwrap();
    let signed = large.written(&[large.listing(Some(&form))]);
    let mut file = large.written(&[large.listing(Some(&bomb))]);
    file = with_compressed(&file, &Member::Index, large.index_bytes.len(), &bomb);
    let read = |file: &[u8], compressed: Option<&[u8]>| {
        let mut reader = BundleReader::new(file, Limits::default());
        reader.read_metadata().unwrap();
        let listed = compressed.map(|bytes| Content {
            digest: Digest::of(bytes),
            size: bytes.len() as u64,
        });
        let read = reader.read_verified_index(&large.content(), listed);
        read.map(drop).map_err(|error| error.rule())
    };
    assert_eq!(
        large.read(&file).unwrap_err().rule(),
        "index",
        "what the file lists is opened"
    );
    assert_eq!(read(&file, Some(&form)), Err("size"));
    assert_eq!(read(&file, None), Err("index"));
    assert_eq!(read(&signed, Some(&form)), Ok(()));
    assert_eq!(read(&signed, Some(&bomb)), Err("size"));
}

#[test]
fn a_signed_form_of_another_index_is_refused() {
    let large = Large::new();
    let mut other = large.index_bytes.clone();
    *other.last_mut().unwrap() = b' ';
    let other = zstd::bulk::compress(&other, 3).unwrap();
    // This program does not make that form, and writes the index as it is.
    let file = large.written(&[large.listing(Some(&other))]);
    let file = with_compressed(&file, &Member::Index, large.index_bytes.len(), &other);
    let error = large.read(&file).unwrap_err();
    assert_eq!(error.rule(), "index");
    assert!(error.to_string().contains("is signed"), "{error}");
}
