//! Tests of `decode`: exactly one frame, exactly the contents, and nothing else.
use super::*;

fn content(bytes: &[u8]) -> Content {
    Content {
        digest: Digest::of(bytes),
        size: bytes.len() as u64,
    }
}

fn blob(encoding: Encoding, carried: &[u8], contents: &[&[u8]]) -> Blob {
    let contents = contents.iter().map(|bytes| content(bytes)).collect();
    Blob {
        digest: Digest::of(carried),
        size: carried.len() as u64,
        encoding,
        contents,
        sealed: None,
    }
}

/// Decodes without keeping anything.
fn run(blob: &Blob, carried: &[u8]) -> Result<(), DecodeError> {
    decode(blob, carried, &Limits::default(), &mut |_| Ok(None))
}

fn frame(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 3).unwrap()
}

#[test]
fn a_pack_is_cut_into_its_contents() {
    let carried = frame(b"onetwo");
    let blob = blob(Encoding::Pack, &carried, &[b"", b"one", b"", b"two", b""]);
    let mut asked = Vec::new();
    decode(
        &blob,
        carried.as_slice(),
        &Limits::default(),
        &mut |content| {
            asked.push(*content);
            Ok(None)
        },
    )
    .unwrap();
    assert_eq!(asked, blob.contents);
}

#[test]
fn an_empty_pack_is_a_frame_of_nothing() {
    let carried = frame(b"");
    run(&blob(Encoding::Pack, &carried, &[]), &carried).unwrap();
    let more = frame(b"x");
    assert_eq!(
        run(&blob(Encoding::Pack, &more, &[]), &more)
            .unwrap_err()
            .rule(),
        "bomb"
    );
}

#[test]
fn a_second_frame_or_other_bytes_behind_the_first_are_refused() {
    let one = frame(b"one");
    for extra in [
        frame(b""),
        frame(b"two"),
        vec![0],
        b"\x50\x2a\x4d\x18\0\0\0\0".to_vec(),
    ] {
        let carried = [one.clone(), extra].concat();
        let error = run(&blob(Encoding::Zstd, &carried, &[b"one"]), &carried).unwrap_err();
        assert_eq!(error.rule(), "encoding");
    }
}

#[test]
fn a_frame_that_ends_early_is_refused() {
    let carried = frame(b"one");
    for length in 0..carried.len() {
        let short = &carried[..length];
        let error = run(&blob(Encoding::Zstd, short, &[b"one"]), short).unwrap_err();
        assert_eq!(error.rule(), "encoding", "{length} bytes");
    }
}

#[test]
fn more_or_fewer_bytes_than_listed_are_refused() {
    for encoding in [Encoding::Identity, Encoding::Zstd] {
        let carried = if encoding == Encoding::Zstd {
            frame(b"one")
        } else {
            b"one".to_vec()
        };
        let longer = run(&blob(encoding, &carried, &[b"on"]), &carried).unwrap_err();
        assert_eq!(longer.rule(), "bomb");
        let shorter = run(&blob(encoding, &carried, &[b"ones"]), &carried).unwrap_err();
        assert_eq!(shorter.rule(), "size");
        let other = run(&blob(encoding, &carried, &[b"two"]), &carried).unwrap_err();
        assert_eq!(other.rule(), "digest");
    }
}

#[test]
fn a_store_that_changed_the_blobs_size_is_noticed() {
    let right = blob(Encoding::Identity, b"one", &[b"one"]);
    assert!(run(&right, b"one").is_ok());
    assert_eq!(run(&right, b"onex").unwrap_err().rule(), "encoding");
    assert_eq!(run(&right, b"on").unwrap_err().rule(), "encoding");
}

#[test]
fn a_failing_store_ends_the_decoding() {
    let right = blob(Encoding::Identity, b"one", &[b"one"]);
    let full = || io::Error::from(io::ErrorKind::StorageFull);
    let error = decode(&right, b"one".as_slice(), &Limits::default(), &mut |_| {
        Err(full())
    })
    .unwrap_err();
    assert!(error.is_environment() && error.rule() == "store");
}
