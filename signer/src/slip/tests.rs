//! The spelling of slips: there and back byte for byte, bounded on anything else, kind to typists.
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::canonical;
use crate::key::SigningKey;
use crate::metadata::Key;

const FLEET: &str = "0123456789abcdef";
const ROLE: &str = "s-00112233445566ff";

fn slip_of(documents: &[Vec<u8>]) -> Slip {
    let named = documents.iter().enumerate();
    let files: Vec<_> = named
        .map(|(at, bytes)| (format!("{}.root.json", at + 1), bytes.clone()))
        .collect();
    Slip::new(FLEET, ROLE, &files, 0).unwrap()
}

/// Texts of the kinds that have a separate spelling, and others.
fn texts() -> impl Strategy<Value = String> {
    let digits = prop::collection::vec(any::<u8>(), 0..70).prop_map(hex::encode);
    let role = any::<[u8; 8]>().prop_map(|raw| format!("s-{}", hex::encode(raw)));
    let around = prop::sample::select(vec!["", ".json", "/*", "/index.json", "x"]);
    let words = prop::sample::select(words::WORDS.to_vec()).prop_map(str::to_owned);
    let time = (-99_999_999_999i64..253_402_207_200)
        .prop_map(|seconds| jiff::Timestamp::from_second(seconds).unwrap().to_string());
    let odd = prop::sample::select(vec![
        "2026-06-01T00:00:00+00:00",
        "2026-06-01T00:00:00.5Z",
        "2026-06-01t00:00:00z",
        "00112233445566FF",
        "001122334455667",
        "s-00112233445566FF",
        "",
    ]);
    prop_oneof![
        digits,
        (role, around).prop_map(|(role, around)| role + around),
        words,
        time,
        odd.prop_map(str::to_owned),
        "[^\\x00-\\x1f]{0,12}",
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-70i64..70).prop_map(Value::from),
        texts().prop_map(Value::from),
        prop::collection::vec(any::<[u8; 32]>(), 1..3).prop_map(key_map),
    ];
    leaf.prop_recursive(5, 60, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
            prop::collection::btree_map(texts(), inner, 0..20).prop_map(|map| json!(map)),
        ]
    })
}

/// A map of keys under their ids; the bytes need not be points on the curve.
fn key_map(keys: Vec<[u8; 32]>) -> Value {
    let entry = |raw: [u8; 32]| {
        let mut key = json!(Key::new(&SigningKey::generate().unwrap().public()));
        key["keyval"]["public"] = hex::encode(raw).into();
        let id = hex::encode(Sha256::digest(canonical::to_bytes(&key).unwrap()));
        (id, key)
    };
    Value::Object(keys.into_iter().map(entry).collect())
}

fn documents() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let document = (values(), any::<bool>(), any::<bool>()).prop_map(|(value, signed, line)| {
        let value = if signed {
            json!({"signatures": [], "signed": value})
        } else {
            value
        };
        let mut bytes = canonical::to_bytes(&value).unwrap();
        bytes.extend(line.then_some(b'\n'));
        bytes
    });
    prop::collection::vec(document, 0..4)
}

/// Arbitrary bytes behind a right head and before a right checksum: what the checksum keeps out otherwise.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut bytes = [&MAGIC, body].concat();
    let checksum = checksum(&bytes);
    bytes.extend(checksum);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_canonical_document_comes_back_byte_for_byte(documents in documents()) {
        let slip = slip_of(&documents);
        let bytes = slip.to_bytes();
        prop_assert_eq!(&Slip::from_bytes(&bytes).unwrap(), &slip);
        prop_assert_eq!(&Slip::from_text(&slip.to_text()).unwrap(), &slip);
        for (at, document) in documents.iter().enumerate() {
            prop_assert_eq!(&slip.source()[&format!("{}.root.json", at + 1)], document);
        }
    }

    #[test]
    fn any_other_bytes_come_back_as_well(file in prop::collection::vec(any::<u8>(), 0..200)) {
        let slip = slip_of(&[file]);
        prop_assert_eq!(Slip::from_bytes(&slip.to_bytes()).unwrap(), slip);
    }

    #[test]
    fn arbitrary_bytes_give_a_slip_of_that_one_spelling_or_an_error(
        body in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        drop(Slip::from_bytes(&body));
        let bytes = sealed(&body);
        if let Ok(slip) = Slip::from_bytes(&bytes) {
            prop_assert_eq!(slip.to_bytes(), bytes);
            let size: usize = slip.source().values().map(Vec::len).sum();
            prop_assert!(size <= MAX_FILES_BYTES);
        }
    }

    #[test]
    fn a_bent_slip_gives_a_slip_of_that_one_spelling_or_an_error(
        documents in documents(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let bytes = slip_of(&documents).to_bytes();
        let mut body = bytes[MAGIC.len()..bytes.len() - CHECKSUM_BYTES].to_vec();
        *at.get_mut(&mut body[..]) = byte;
        let bent = sealed(&body);
        if let Ok(slip) = Slip::from_bytes(&bent) {
            prop_assert_eq!(slip.to_bytes(), bent);
        }
    }

    #[test]
    fn arbitrary_text_is_a_slip_or_an_error(text in "\\PC{0,200}") {
        drop(Slip::from_text(&text));
    }
}

#[test]
fn repeated_digits_are_spelled_once() {
    let id = "ab".repeat(32);
    let long = slip_of(&[canonical::to_bytes(&json!([id, "cd".repeat(32)])).unwrap()]);
    let short = slip_of(&[canonical::to_bytes(&json!([id, id])).unwrap()]);
    assert_eq!(long.to_bytes().len() - short.to_bytes().len(), 31);
}

#[test]
fn a_file_s_digest_costs_two_bytes_in_the_files_after_it() {
    let first = b"{}".to_vec();
    let digest = hex::encode(Sha256::digest(&first));
    let pin = |digest: &str| canonical::to_bytes(&json!({"sha256": digest})).unwrap();
    let known = slip_of(&[first.clone(), pin(&digest)]).to_bytes().len();
    let unknown = slip_of(&[first, pin(&"cd".repeat(32))]).to_bytes().len();
    assert_eq!(unknown - known, 31);
}

#[test]
fn a_small_slip_cannot_ask_for_much_memory() {
    // Known digits put out thirty times what they take in; twenty thousand of them do not get past
    // the bound.
    let mut writer = json::Writer::new(Vec::new());
    writer.text(FLEET);
    writer.text(ROLE);
    writer.count(1);
    for byte in [4, 0, 1, 0x8c] {
        writer.byte(byte);
    }
    writer.count(20_001);
    writer.text(&"ab".repeat(32));
    for _ in 0..20_000 {
        writer.text(&"ab".repeat(32));
    }
    let bytes = sealed(&writer.into_bytes());
    assert!(bytes.len() < MAX_SLIP_BYTES);
    let refusal = Slip::from_bytes(&bytes).map(drop).unwrap_err();
    assert!(
        refusal.to_string().contains("larger than a slip's"),
        "{refusal}"
    );
}

#[test]
fn values_too_deep_in_one_another_are_refused_and_such_files_stay_as_they_are() {
    let deep = [vec![b'['; 100], vec![b']'; 100]].concat();
    let slip = slip_of(std::slice::from_ref(&deep));
    let bytes = slip.to_bytes();
    assert!(bytes.len() > 200);
    assert_eq!(
        Slip::from_bytes(&bytes).unwrap().source()["1.root.json"],
        deep
    );

    let mut writer = json::Writer::new(Vec::new());
    writer.text(FLEET);
    writer.text(ROLE);
    let mut body = writer.into_bytes();
    body.extend([1, 0, 1, 1]);
    body.extend([0xa1; 5000]);
    let refusal = Slip::from_bytes(&sealed(&body)).unwrap_err();
    assert!(refusal.to_string().contains("too deep"), "{refusal}");
}

#[test]
fn a_second_spelling_of_the_same_files_is_refused() {
    let slip = slip_of(&[]);
    let bytes = slip.to_bytes();
    let body = &bytes[MAGIC.len()..bytes.len() - CHECKSUM_BYTES];
    // The number of files, 0, with a superfluous digit.
    let longer = [&body[..body.len() - 1], &[0x80, 0]].concat();
    let refusal = Slip::from_bytes(&sealed(&longer)).unwrap_err();
    assert!(refusal.to_string().contains("one form"), "{refusal}");
}

#[test]
fn a_damaged_file_says_so() {
    let mut bytes = slip_of(&[b"{\"a\":1}".to_vec()]).to_bytes();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    let refusal = Slip::from_bytes(&bytes).unwrap_err();
    assert_eq!(refusal.rule(), "damaged-slip");
    let text = refusal.to_string();
    assert!(
        text.contains("checksum") && text.contains("help: copy, scan or type"),
        "{text}"
    );
}

#[test]
fn what_is_no_slip_and_what_is_of_a_later_version_is_distinguished() {
    for bytes in [
        &b""[..],
        b"hello, this is a letter",
        b"\x89PNG\r\n\x1a\n\x00",
        b"{}",
        b"OHS",
    ] {
        assert_eq!(
            Slip::from_bytes(bytes).unwrap_err().rule(),
            "not-a-slip",
            "{bytes:?}"
        );
    }
    let mut later = slip_of(&[]).to_bytes();
    later[3] = 2;
    assert_eq!(
        Slip::from_bytes(&later).unwrap_err().rule(),
        "unknown-version"
    );
    let too_large = [&MAGIC[..], &vec![0; MAX_SLIP_BYTES]].concat();
    assert_eq!(
        Slip::from_bytes(&too_large).unwrap_err().rule(),
        "oversized"
    );
}

#[test]
fn only_metadata_of_its_stream_goes_into_a_slip() {
    for name in [
        "evil.json",
        "01.root.json",
        "1.s-other.json",
        "../1.root.json",
        "root.json",
        "",
    ] {
        let files = [(name.to_owned(), Vec::new())];
        assert_eq!(
            Slip::new(FLEET, ROLE, &files, 0).unwrap_err().rule(),
            "malformed",
            "{name}"
        );
    }
}

fn long_text() -> (Slip, String) {
    let value = json!({"a text": "that is long enough", "for": "four lines or five", "of": "text",
        "digits": hex::encode(Sha256::digest(b"digits"))});
    let slip = slip_of(&[canonical::to_bytes(&value).unwrap()]);
    let text = slip.to_text();
    assert!(text.lines().count() >= 4, "{text}");
    (slip, text)
}

#[test]
fn typing_may_be_sloppy_where_it_does_not_matter() {
    let (slip, text) = long_text();
    let typed = text
        .to_lowercase()
        .replace(' ', "")
        .replace('0', "o")
        .replace('1', "l");
    assert_eq!(Slip::from_text(&typed).unwrap(), slip);
    assert_eq!(
        Slip::from_text(&text.replace(' ', " - \r\n")).unwrap(),
        slip
    );
    assert_eq!(
        Slip::from_bytes(text.as_bytes()).unwrap(),
        slip,
        "a scanned text in a file"
    );
    assert_eq!(Slip::from_text(&slip.to_line()).unwrap(), slip);
    assert_eq!(
        Slip::from_text(&slip.to_line().to_lowercase()).unwrap(),
        slip
    );
    let plain = |c: char| c.is_ascii_digit() || c.is_ascii_uppercase() || c == ':';
    assert!(
        slip.to_line().chars().all(plain),
        "alphanumeric mode of a QR code"
    );
}

#[test]
fn a_typing_error_is_found_in_its_line() {
    let (_, text) = long_text();
    let lines: Vec<&str> = text.lines().collect();
    for line in 0..lines.len() {
        for at in 0..lines[line].len() {
            let typed = lines[line].as_bytes()[at];
            if typed == b' ' || (line == 0 && at < 4) {
                continue;
            }
            let wrong = if typed == b'7' { "8" } else { "7" };
            let mut bent: Vec<String> = lines.iter().map(ToString::to_string).collect();
            bent[line].replace_range(at..=at, wrong);
            match Slip::from_text(&bent.join("\n")).unwrap_err() {
                SlipError::Typing { line: found, .. } => assert_eq!(found, line + 1),
                // One of a thousand errors fits a line's check; the checksum of the whole finds it.
                other => assert_eq!(other.rule(), "damaged-slip"),
            }
        }
    }
}

#[test]
fn missing_exchanged_and_repeated_lines_are_found() {
    let (_, text) = long_text();
    let lines: Vec<&str> = text.lines().collect();
    let swapped = [lines[0], lines[2], lines[1]].join("\n");
    let refusal = Slip::from_text(&swapped).unwrap_err().to_string();
    assert!(refusal.starts_with("line 2 of the slip"), "{refusal}");
    let missing = lines[..lines.len() - 1].join("\n");
    assert_eq!(
        Slip::from_text(&missing).unwrap_err().rule(),
        "damaged-slip"
    );
    let repeated = [lines[0], lines[1], lines[1]].join("\n");
    assert!(
        Slip::from_text(&repeated)
            .unwrap_err()
            .to_string()
            .starts_with("line 3")
    );
    let foreign = text.replacen(lines[1], &lines[1].replace(' ', "!"), 1);
    let refusal = Slip::from_text(&foreign).unwrap_err().to_string();
    assert!(
        refusal.contains("line 2") && refusal.contains("`!` is not used"),
        "{refusal}"
    );
}
