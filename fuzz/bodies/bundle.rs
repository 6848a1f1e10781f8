//! What fuzzing does with foreign bytes that claim to be a bundle, a blob, an index, orders, a report, an
//! acknowledgement or an explanation.
//!
//! What comes in: any bytes. What goes out: nothing; each body must neither panic nor hold more than a
//! few buffers. cargo-fuzz runs them from `fuzz/targets`, proptest from `bundle/tests`.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::OnceLock;

use outhaul_bundle::fake::FakeBundle;
use outhaul_bundle::hub_api::PlatformExplanation;
use outhaul_bundle::index::{Blob, Content, Encoding};
use outhaul_bundle::patch::{Patch, PatchError, PatchSources, Source};
use outhaul_bundle::report::Ack;
use outhaul_bundle::volume::MAX_PARITY_PARTS;
use outhaul_bundle::{
    BlobSink, BundleReader, Digest, Index, Instruction, Limits, Order, Parity, Report, decode,
};

/// A sink that keeps nothing.
struct Void;

impl BlobSink for Void {
    fn begin(&mut self, _: &Blob) -> io::Result<Option<Box<dyn Write + '_>>> {
        Ok(Some(Box::new(io::sink())))
    }

    fn commit(&mut self, _: &Blob) -> io::Result<()> {
        Ok(())
    }

    fn discard(&mut self, _: &Blob) {}
}

/// Reads a bundle to its end; its index is taken at its word, as if metadata listed it.
pub fn bundle(bytes: &[u8]) {
    let mut first = BundleReader::new(bytes, Limits::default());
    if first.read_metadata().is_err() {
        return;
    }
    // Where the index lies is where the metadata ended: its header gives the size to expect.
    let start = usize::try_from(first.offset()).unwrap_or(usize::MAX);
    let header = bytes
        .get(start.saturating_sub(512)..start)
        .unwrap_or_default();
    let octal = header
        .get(124..135)
        .and_then(|field| std::str::from_utf8(field).ok());
    let size = octal
        .and_then(|text| usize::from_str_radix(text, 8).ok())
        .unwrap_or(0);
    let content = bytes
        .get(start..start.saturating_add(size))
        .unwrap_or_default();
    let expected = Content {
        digest: Digest::of(content),
        size: size as u64,
    };
    if let Ok((index, raw)) = first.read_index(&expected) {
        assert_eq!(raw, content);
        first.read_blobs(&index, &mut Void).ok();
    }
}

/// Decodes bytes in each encoding, against a list of contents that the first bytes choose.
pub fn blob(bytes: &[u8]) {
    let (sizes, carried) = bytes.split_at(bytes.len().min(4));
    for encoding in [Encoding::Identity, Encoding::Pack, Encoding::Zstd] {
        let contents = sizes
            .iter()
            .map(|size| Content {
                digest: Digest::of(&[0; 255][..usize::from(*size)]),
                size: u64::from(*size),
            })
            .collect();
        let blob = Blob {
            digest: Digest::of(carried),
            size: carried.len() as u64,
            encoding,
            contents,
            sealed: None,
        };
        let mut each = |_: &Content| Ok(Some(Box::new(io::sink()) as Box<dyn Write>));
        decode::decode(&blob, carried, &Limits::default(), &mut each).ok();
    }
}

/// The 3,000 bytes that patches build on here, and the 2,000 that a right one makes: some of them, in another order.
pub fn patched_bytes() -> (Vec<u8>, Vec<u8>) {
    let old: Vec<u8> = (0..3_000u32)
        .map(|at| (at * at / 7).to_le_bytes()[0])
        .collect();
    let new = [&old[2_000..], &old[..990], b"ten bytes."].concat();
    (old, new)
}

struct Old(Vec<u8>);

impl PatchSources for Old {
    fn read(&mut self, source: &Source, offset: u64, buffer: &mut [u8]) -> Result<(), PatchError> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.0.get(from..from.saturating_add(buffer.len()));
        let bytes = bytes.ok_or_else(|| PatchError::Base {
            blob: source.blob,
            problem: "which has fewer bytes".to_owned(),
        })?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

/// Applies a patch; whether it made the bytes of [`patched_bytes`], which is all that it may make.
pub fn patch(bytes: &[u8]) -> bool {
    let (old, new) = patched_bytes();
    let blob = Blob {
        digest: Digest::of(&new),
        size: new.len() as u64,
        encoding: Encoding::Identity,
        contents: vec![Content {
            digest: Digest::of(&new),
            size: new.len() as u64,
        }],
        sealed: None,
    };
    let (mut input, mut out) = (bytes, Vec::new());
    let read = Patch::read(&mut input, bytes.len() as u64);
    let applied = read.and_then(|patch| {
        // What makes an archive in the place of the layer makes what it states, however little that is.
        let twin = patch.twin(&blob)?;
        let made = patch.apply(
            twin.as_ref().unwrap_or(&blob),
            &mut input,
            &mut Old(old),
            &mut out,
        );
        made.map(|()| twin)
    });
    match &applied {
        Ok(None) => assert!(out == new),
        Ok(Some(twin)) => assert_eq!(twin.digest, Digest::of(&out)),
        Err(_) => {}
    }
    matches!(applied, Ok(None))
}

/// Parses `parity.json` against an index of five blobs; what is accepted is written the same way, is of parts that hold each blob
/// once, and costs no more than a few times what the bundle has.
pub fn parity(bytes: &[u8]) -> bool {
    static INDEX: OnceLock<Option<Index>> = OnceLock::new();
    let Some(index) = INDEX.get_or_init(index_of_five) else {
        return false;
    };
    let Ok(parity) = Parity::from_bytes(bytes, index) else {
        return false;
    };
    assert_eq!(parity.to_bytes(), bytes);
    assert!((1..=parity.of()).contains(&parity.part()) && parity.of() <= MAX_PARITY_PARTS);
    let layout = parity.layout(index);
    let held: Vec<usize> = (0..layout.parts())
        .flat_map(|part| layout.blobs(part).map(|(place, _)| place))
        .collect();
    assert_eq!(held, (0..index.blobs.len()).collect::<Vec<_>>());
    let all: u64 = index.blobs.iter().map(|blob| blob.size + 1024).sum();
    assert!(layout.bytes() * layout.parts() as u64 <= 3 * all);
    true
}

fn index_of_five() -> Option<Index> {
    let contents: Vec<(String, Vec<u8>)> = (0u8..5)
        .map(|at| {
            (
                format!("{at}.gz"),
                vec![at; 70_000 + usize::from(at) * 9_000],
            )
        })
        .collect();
    let files: Vec<(&str, &[u8])> = contents
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
        .collect();
    Some(FakeBundle::new(1, &files).ok()?.index)
}

/// A right `parity.json` for [`parity`].
pub fn right_parity() -> Vec<u8> {
    br#"{"format":"outhaul.dev/parity/v1","part":2,"of":3,"blobs":[5]}
"#
    .to_vec()
}

/// Parses an index; what is accepted must survive a round trip, and so must what it says to each site.
pub fn index(bytes: &[u8]) {
    if let Ok(index) = Index::from_bytes(bytes, &Limits::default()) {
        let again = Index::from_bytes(&index.to_bytes(), &Limits::default());
        assert_eq!(again.ok().as_ref(), Some(&index));
        let overlays = index.assignments.iter().flat_map(|a| &a.overlays);
        let sites: Vec<_> = overlays.flat_map(|o| &o.sites).take(8).collect();
        for site in sites {
            let own = index.clone().for_site(site);
            let again = Index::from_bytes(&own.to_bytes(), &Limits::default());
            assert_eq!(again.ok(), Some(own));
        }
    }
}

/// Parses one order, and takes the bytes for the orders of an index that is right but for them. What is
/// accepted survives a round trip, says each thing once, and is all that a site can find its own in.
pub fn orders(bytes: &[u8]) {
    if let Ok(order) = serde_json::from_slice::<Order>(bytes) {
        let again = serde_json::to_vec(&order).map(|text| serde_json::from_slice::<Order>(&text));
        assert!(matches!(again, Ok(Ok(again)) if again == order));
    }
    let Some(index) = index_with_orders(bytes) else {
        return;
    };
    let again = Index::from_bytes(&index.to_bytes(), &Limits::default());
    assert_eq!(again.ok().as_ref(), Some(&index));
    let mut seen = BTreeSet::new();
    for order in &index.orders {
        assert!(order.number > 0);
        assert!(!matches!(order.what, Instruction::Move { first: 0, .. }));
        assert!(seen.insert((&order.site, order.enrolment, order.number)));
        assert!(["approve", "move", "rekey", "revoke"].contains(&order.what.as_str()));
        let own = index.clone().for_site(&order.site);
        assert!(own.orders.contains(order));
    }
}

/// The index with these bytes as its orders, if it is one.
fn index_with_orders(bytes: &[u8]) -> Option<Index> {
    static AROUND: OnceLock<Option<(Vec<u8>, Vec<u8>)>> = OnceLock::new();
    let (before, after) = AROUND.get_or_init(index_around_orders).as_ref()?;
    let text = [before.as_slice(), bytes, after.as_slice()].concat();
    Index::from_bytes(&text, &Limits::default()).ok()
}

/// A right index, cut where its orders stand.
fn index_around_orders() -> Option<(Vec<u8>, Vec<u8>)> {
    let mut index = FakeBundle::new(1, &[("a", b"alpha")]).ok()?.index;
    index.orders = vec![Order {
        site: "mark".parse().ok()?,
        number: 1,
        enrolment: Digest::of(b"mark"),
        what: Instruction::Rekey,
    }];
    let mark = serde_json::to_value(&index.orders).ok()?.to_string();
    let text = String::from_utf8(index.to_bytes()).ok()?;
    let (before, after) = text.split_once(&mark)?;
    Some((before.into(), after.into()))
}

/// Whether orders that are right reach the end of [`orders`].
pub fn right_orders_are_accepted(bytes: &[u8]) -> bool {
    index_with_orders(bytes).is_some_and(|index| !index.orders.is_empty())
}

/// Parses a report; what is accepted must survive a round trip.
pub fn report(bytes: &[u8]) {
    if let Ok(report) = Report::from_bytes(bytes) {
        // Written again it may be longer than it was, and then too long.
        if let Ok(again) = Report::from_bytes(&report.to_bytes()) {
            assert_eq!(again, report);
        }
    }
}

/// Parses what a rendering was made of; what is accepted is accepted again when it is written again.
pub fn explanation(bytes: &[u8]) {
    if let Ok(document) = PlatformExplanation::read(bytes) {
        let text = serde_json::to_vec(&document).unwrap_or_default();
        assert!(PlatformExplanation::read(&text).is_ok());
    }
}

/// Parses what a hub acknowledges; what is accepted must survive a round trip.
pub fn acknowledgement(bytes: &[u8]) {
    if let Ok(ack) = serde_json::from_slice::<Ack>(bytes) {
        let again = serde_json::to_vec(&ack).map(|bytes| serde_json::from_slice::<Ack>(&bytes));
        assert!(matches!(again, Ok(Ok(again)) if again == ack));
    }
}
