//! One test per attack on a bundle: what it changes in a right bundle, and the rule that refuses it.
//!
//! Every attack starts from the same small bundle. `refusal` reads it the way an agent does, with the
//! index that metadata vouches for; nothing may be committed that was not right.

use outhaul_bundle::decode::decode;
use outhaul_bundle::fake::{FakeBundle, MemoryBlobs};
use outhaul_bundle::index::{Blob, Content, Encoding};
use outhaul_bundle::{BundleReader, Digest, Limits, ReadError};

use outhaul_test_kit::archive::{BLOCK, archive, member, members, with_checksum};

fn sample() -> FakeBundle {
    let large: Vec<u8> = (0..70_000u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let files: [(&str, &[u8]); 3] = [
        ("namespace.yaml", b"kind: Namespace\n"),
        ("empty", b""),
        ("tool.gz", &large[..]),
    ];
    FakeBundle::new(7, &files).unwrap()
}

/// A bundle of a few KiB.
fn tiny() -> FakeBundle {
    FakeBundle::new(
        7,
        &[("namespace.yaml", b"kind: Namespace\n"), ("empty", b"")],
    )
    .unwrap()
}

/// Reads `bytes` as an agent would that trusts `sample`'s index. What was stored, and the verdict.
fn read(bytes: &[u8], sample: &FakeBundle) -> (MemoryBlobs, Result<(), ReadError>) {
    let mut store = MemoryBlobs::default();
    let mut reader = BundleReader::new(bytes, Limits::default());
    let verdict = reader.read_metadata().and_then(|_| {
        let (index, _) = reader.read_index(&sample.expected_index())?;
        reader.read_blobs(&index, &mut store)
    });
    (store, verdict)
}

/// The rule that refuses `bytes`.
fn refusal(bytes: &[u8], sample: &FakeBundle) -> &'static str {
    let (store, verdict) = read(bytes, sample);
    for digest in store.by_digest.keys() {
        assert!(
            sample.blobs.by_digest.contains_key(digest),
            "a foreign blob was kept"
        );
    }
    let error = verdict.expect_err("the attack was not noticed");
    let message = error.on_site();
    assert!(message.contains("what runs is untouched"), "{message}");
    // It is read at the centre, too, where nothing runs.
    assert!(!error.to_string().contains("what runs"), "{error}");
    error.rule()
}

/// The right bundle with `extra` put before the first member, and with it put after the last.
fn smuggled(extra: &[u8]) -> [Vec<u8>; 2] {
    let mut members = members(&sample().to_bytes().unwrap());
    members.insert(0, extra.to_vec());
    let first = archive(&members);
    members.rotate_left(1);
    [first, archive(&members)]
}

fn refused_wherever_smuggled(extra: &[u8], rule: &str) {
    for bytes in smuggled(extra) {
        assert_eq!(refusal(&bytes, &sample()), rule);
    }
}

#[test]
fn the_right_bundle_is_read() {
    let sample = sample();
    let (store, verdict) = read(&sample.to_bytes().unwrap(), &sample);
    verdict.unwrap();
    assert_eq!(store.by_digest, sample.blobs.by_digest);
}

#[test]
fn attack_path_traversal() {
    for name in [
        "../etc/passwd",
        "metadata/../../x",
        "blobs/sha256/../../../x",
        "metadata/a/b",
    ] {
        refused_wherever_smuggled(&member(name, tar::EntryType::Regular, b"x"), "member-name");
    }
}

#[test]
fn attack_absolute_path() {
    for name in ["/etc/passwd", "C:\\x", "\\\\host\\share", "//x"] {
        refused_wherever_smuggled(&member(name, tar::EntryType::Regular, b"x"), "member-name");
    }
}

#[test]
fn attack_symbolic_link() {
    let mut link = member("metadata/1.root.json", tar::EntryType::Symlink, b"");
    refused_wherever_smuggled(&link, "member-kind");
    // Even without a target, and with the type of a file, a link's name gives it away.
    link[156] = b'0';
    link[157] = b'x';
    refused_wherever_smuggled(&with_checksum(link), "header");
}

#[test]
fn attack_hard_link() {
    refused_wherever_smuggled(
        &member("index.json", tar::EntryType::Link, b""),
        "member-kind",
    );
}

#[test]
fn attack_device() {
    for kind in [
        tar::EntryType::Char,
        tar::EntryType::Block,
        tar::EntryType::Fifo,
    ] {
        refused_wherever_smuggled(&member("metadata/timestamp.json", kind, b""), "member-kind");
    }
}

#[test]
fn attack_folder() {
    refused_wherever_smuggled(
        &member("metadata/", tar::EntryType::Directory, b""),
        "member-kind",
    );
}

#[test]
fn attack_extension_headers() {
    for flag in [b'x', b'g', b'L', b'K', b'S', b'V', b'M', b'7', b'A'] {
        let kind = tar::EntryType::new(flag);
        let extra = member("metadata/1.root.json", kind, b"30 path=/etc/passwd\n");
        refused_wherever_smuggled(&extra, "member-kind");
    }
    // The type that old tars give to regular files is a second spelling.
    let mut old = member("metadata/1.root.json", tar::EntryType::Regular, b"");
    old[156] = 0;
    refused_wherever_smuggled(&with_checksum(old), "member-kind");
}

#[test]
fn attack_gnu_header() {
    let mut gnu = tar::Header::new_gnu();
    gnu.set_path("metadata/1.root.json").unwrap();
    gnu.set_size(0);
    gnu.set_mode(0o644);
    gnu.set_entry_type(tar::EntryType::Regular);
    gnu.set_cksum();
    refused_wherever_smuggled(gnu.as_bytes(), "header");
}

#[test]
fn attack_name_in_the_prefix_field() {
    let mut extra = member("metadata/1.root.json", tar::EntryType::Regular, b"");
    extra[345..348].copy_from_slice(b"../");
    refused_wherever_smuggled(&with_checksum(extra), "header");
}

#[test]
fn attack_name_that_ends_early() {
    let mut extra = member("metadata/1.root.json", tar::EntryType::Regular, b"");
    extra[40..44].copy_from_slice(b"evil");
    refused_wherever_smuggled(&with_checksum(extra), "header");
}

#[test]
fn attack_duplicate_name() {
    let whole = members(&sample().to_bytes().unwrap());
    let rules: Vec<&str> = (0..whole.len())
        .map(|at| {
            let mut doubled = whole.clone();
            doubled.insert(at, whole[at].clone());
            refusal(&archive(&doubled), &sample())
        })
        .collect();
    assert_eq!(rules, ["duplicate", "duplicate", "order", "order", "order"]);
}

#[test]
fn attack_case_folded_name() {
    for name in [
        "metadata/1.ROOT.json",
        "Metadata/1.root.json",
        "INDEX.JSON",
        "index.json ",
    ] {
        refused_wherever_smuggled(&member(name, tar::EntryType::Regular, b"x"), "member-name");
    }
    let upper = format!("blobs/sha256/{}", Digest::of(b"x").hex().to_uppercase());
    refused_wherever_smuggled(
        &member(&upper, tar::EntryType::Regular, b"x"),
        "member-name",
    );
}

#[test]
fn attack_entry_bomb() {
    let entry = |n: usize| {
        member(
            &format!("metadata/{n}.root.json"),
            tar::EntryType::Regular,
            b"",
        )
    };
    let bytes = archive(&(1..=5_000).map(entry).collect::<Vec<_>>());
    assert_eq!(refusal(&bytes, &sample()), "limit");
}

#[test]
fn attack_size_bomb() {
    let sizes = [600 * 1024, 1 << 33, 1 << 40, u64::MAX];
    for size in sizes {
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes().copy_from_slice(&member(
            "metadata/1.root.json",
            tar::EntryType::Regular,
            b"",
        ));
        header.set_size(size);
        header.set_cksum();
        assert_eq!(refusal(header.as_bytes(), &sample()), "limit", "{size}");
    }
    // Many files that are small enough each.
    let half = vec![b' '; 500 * 1024];
    let entry = |n: usize| {
        member(
            &format!("metadata/{n}.root.json"),
            tar::EntryType::Regular,
            &half,
        )
    };
    let bytes = archive(&(1..=20).map(entry).collect::<Vec<_>>());
    assert_eq!(refusal(&bytes, &sample()), "limit");
}

#[test]
fn attack_other_size_than_vouched_for() {
    let sample = sample();
    let whole = members(&sample.to_bytes().unwrap());
    for at in 2..whole.len() {
        let mut changed = whole.clone();
        // One block more, all zeros, and a header that states it.
        let digits = std::str::from_utf8(&changed[at][124..135]).unwrap();
        let size = u64::from_str_radix(digits, 8).unwrap() + 512;
        changed[at][124..135].copy_from_slice(format!("{size:011o}").as_bytes());
        changed[at] = with_checksum(changed[at].clone());
        changed[at].extend_from_slice(&[0; BLOCK]);
        assert_eq!(refusal(&archive(&changed), &sample), "size");
    }
}

#[test]
fn attack_decompression_bomb() {
    let bomb = zstd::bulk::compress(&vec![0; 16 << 20], 3).unwrap();
    let claimed = Content {
        digest: Digest::of(&[0; 100]),
        size: 100,
    };
    for encoding in [Encoding::Zstd, Encoding::Pack] {
        let (digest, size) = (Digest::of(&bomb), bomb.len() as u64);
        let blob = Blob {
            digest,
            size,
            encoding,
            contents: vec![claimed],
            sealed: None,
        };
        let mut each = |_: &Content| Ok(None);
        let error = decode(&blob, bomb.as_slice(), &Limits::default(), &mut each).unwrap_err();
        assert_eq!(error.rule(), "bomb");
    }
}

#[test]
fn attack_window_bomb() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(30).unwrap();
    std::io::Write::write_all(&mut encoder, b"x").unwrap();
    let bytes = encoder.finish().unwrap();
    let contents = vec![Content {
        digest: Digest::of(b"x"),
        size: 1,
    }];
    let (digest, size) = (Digest::of(&bytes), bytes.len() as u64);
    let blob = Blob {
        digest,
        size,
        encoding: Encoding::Zstd,
        contents,
        sealed: None,
    };
    let mut each = |_: &Content| Ok(None);
    let error = decode(&blob, bytes.as_slice(), &Limits::default(), &mut each).unwrap_err();
    assert_eq!(error.rule(), "encoding");
}

#[test]
fn attack_truncated_anywhere() {
    let sample = tiny();
    let bytes = sample.to_bytes().unwrap();
    for length in 0..bytes.len() {
        assert_eq!(
            refusal(&bytes[..length], &sample),
            "truncated",
            "{length} bytes"
        );
    }
}

#[test]
fn attack_extended() {
    let bytes = sample().to_bytes().unwrap();
    for extra in [&[0u8][..], &[1], &[0; BLOCK], &bytes] {
        assert_eq!(refusal(&[&bytes, extra].concat(), &sample()), "extended");
    }
}

#[test]
fn attack_reordered_members() {
    let whole = members(&sample().to_bytes().unwrap());
    for a in 0..whole.len() {
        for b in 0..a {
            let mut swapped = whole.clone();
            swapped.swap(a, b);
            assert_eq!(
                refusal(&archive(&swapped), &sample()),
                "order",
                "{b} and {a}"
            );
        }
    }
}

#[test]
fn attack_left_out_members() {
    let whole = members(&sample().to_bytes().unwrap());
    let rules: Vec<&str> = (2..whole.len())
        .map(|at| {
            let mut fewer = whole.clone();
            fewer.remove(at);
            refusal(&archive(&fewer), &sample())
        })
        .collect();
    assert_eq!(rules, ["order", "order", "missing"]);
}

#[test]
fn attack_flipped_bit_in_every_byte() {
    let sample = tiny();
    let right = sample.to_bytes().unwrap();
    for at in 0..right.len() {
        let bit = at % 8;
        let mut bytes = right.clone();
        bytes[at] ^= 1 << bit;
        let mut reader = BundleReader::new(bytes.as_slice(), Limits::default());
        // The signatures over the metadata are the signer's to check: here, that it differs.
        let refused = match reader.read_metadata() {
            Err(_) => true,
            Ok(files) => {
                files.into_iter().ne(sample.metadata.clone()) || read(&bytes, &sample).1.is_err()
            }
        };
        assert!(
            refused,
            "bit {bit} of byte {at} was flipped and nobody noticed"
        );
    }
}

#[test]
fn attack_wrong_checksum() {
    let mut bytes = sample().to_bytes().unwrap();
    bytes[148..154].copy_from_slice(b"000001");
    assert_eq!(refusal(&bytes, &sample()), "checksum");
}

#[test]
fn attack_blob_of_another_bundle() {
    let other = FakeBundle::new(7, &[("namespace.yaml", b"kind: Evil\n")]).unwrap();
    let mut mixed = members(&sample().to_bytes().unwrap());
    let foreign = members(&other.to_bytes().unwrap()).pop().unwrap();
    // Under its own name …
    let named = mixed.len() - 2;
    let own_header = mixed[named][..BLOCK].to_vec();
    mixed[named].clone_from(&foreign);
    assert_eq!(refusal(&archive(&mixed), &sample()), "order");
    // … and under the name of the right one, with its size.
    let digits = std::str::from_utf8(&own_header[124..135]).unwrap();
    let size = usize::from_str_radix(digits, 8).unwrap();
    let mut content = foreign[BLOCK..].to_vec();
    content.resize(size, 0);
    content.resize(size.div_ceil(BLOCK) * BLOCK, 0);
    mixed[named] = [own_header, content].concat();
    assert_eq!(refusal(&archive(&mixed), &sample()), "digest");
}

#[test]
fn attack_index_of_another_bundle() {
    let other = FakeBundle::new(8, &[("namespace.yaml", b"kind: Namespace\n")]).unwrap();
    let mut mixed = members(&sample().to_bytes().unwrap());
    mixed[2] = members(&other.to_bytes().unwrap()).swap_remove(2);
    assert!(["size", "digest"].contains(&refusal(&archive(&mixed), &sample())));
}

#[test]
fn a_damaged_blob_is_discarded_and_the_ones_before_are_kept() {
    let sample = sample();
    let mut bytes = sample.to_bytes().unwrap();
    let last = sample.index.blobs.last().unwrap();
    let at = bytes.len() - 3 * BLOCK;
    bytes[at] ^= 1;
    let (store, verdict) = read(&bytes, &sample);
    assert_eq!(verdict.unwrap_err().rule(), "digest");
    assert_eq!(store.discarded, [last.digest]);
    assert_eq!(store.by_digest.len(), sample.index.blobs.len() - 1);
}
