//! Tests of `member`: names, the one header, and the messages about foreign blocks.
use super::*;

fn name(text: &str) -> MetadataName {
    MetadataName::parse(text).unwrap()
}

#[test]
fn names_round_trip() {
    let blob = format!("blobs/sha256/{}", Digest::of(b"x").hex());
    for text in [
        "metadata/1.root.json",
        "metadata/timestamp.json",
        "metadata/9223372036854775807.snapshot.json",
        "metadata/12.s-0123456789abcdef.json",
        "index.json",
        &blob,
        &blob.replace("blobs", "patches"),
    ] {
        assert_eq!(Member::parse(text).unwrap().to_string(), text);
    }
}

#[test]
fn other_names_are_none() {
    for text in [
        "",
        "metadata/",
        "metadata/root.json",
        "metadata/0.root.json",
        "metadata/01.root.json",
        "metadata/1.timestamp.json",
        "metadata/1.a.b.json",
        "metadata/1..json",
        "metadata/1.-a.json",
        "metadata/+1.root.json",
        "metadata/99999999999999999999.root.json",
        "metadata/1.root.json/",
        "./index.json",
        "index.json\n",
        "blobs/sha256/00",
        "blobs/sha512/00",
        "patches/sha256/../index.json",
    ] {
        assert_eq!(Member::parse(text), None, "{text}");
    }
}

#[test]
fn metadata_is_ordered_for_a_client() {
    let mut names: Vec<MetadataName> = [
        "3.s-aa.json",
        "2.targets.json",
        "10.root.json",
        "timestamp.json",
        "7.snapshot.json",
        "9.root.json",
    ]
    .map(name)
    .into();
    names.sort();
    let texts: Vec<String> = names.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "9.root.json",
            "10.root.json",
            "timestamp.json",
            "7.snapshot.json",
            "2.targets.json",
            "3.s-aa.json"
        ]
    );
}

#[test]
fn a_header_is_read_back_at_any_size() {
    for size in [0, 1, 511, 512, (1 << 33) - 1, 1 << 33, 64 << 30] {
        let block = Member::Index.header(size);
        assert_eq!(parse(&block).unwrap(), Block::Member(Member::Index, size));
    }
}

#[test]
fn a_second_spelling_is_refused_with_its_field() {
    let with = |change: &dyn Fn(&mut [u8; BLOCK])| {
        let mut block = Member::Index.header(5);
        change(&mut block);
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes().copy_from_slice(&block);
        header.set_cksum();
        parse(header.as_bytes()).unwrap_err()
    };
    let field = |error| match error {
        HeaderError::NotCanonical { field, .. } => field,
        other => panic!("{other}"),
    };
    assert_eq!(field(with(&|b| b[106] = b'5')), "mode");
    assert_eq!(field(with(&|b| b[146] = b'1')), "modification time");
    assert_eq!(
        field(with(
            &|b| b[124..136].copy_from_slice(b"5\0\0\0\0\0\0\0\0\0\0\0")
        )),
        "size"
    );
    assert_eq!(field(with(&|b| b[124] = b'9')), "size");
    // 5 in base 256, which is for larger sizes only.
    assert_eq!(
        field(with(
            &|b| b[124..136].copy_from_slice(b"\x80\0\0\0\0\0\0\0\0\0\0\x05")
        )),
        "size"
    );
    assert_eq!(field(with(&|b| b[265] = b'r')), "user name");
    assert_eq!(field(with(&|b| b[511] = 1)), "prefix or padding");
}

#[test]
fn messages_show_foreign_names_without_control_characters() {
    assert_eq!(printable(b"a\x1b[31m\n"), "a\\u{1b}[31m\\n");
    assert_eq!(printable(&[b'x'; 500]).len(), 120);
}
