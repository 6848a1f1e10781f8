//! The fuzz bodies as property tests: no bytes whatever make the readers of signed things panic.
//! `PROPTEST_CASES` sets the number of cases.

use proptest::prelude::*;

#[path = "../../fuzz/bodies/signer.rs"]
mod bodies;

/// JSON of the words that metadata is made of, so that parsing gets somewhere.
fn json_like() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just("\"_type\":"),
        Just("\"targets\""),
        Just("\"root\""),
        Just("\"snapshot\""),
        Just("\"timestamp\""),
        Just("\"version\":"),
        Just("1"),
        Just("18446744073709551616"),
        Just("-1"),
        Just("1e400"),
        Just("\"expires\":"),
        Just("\"2027-06-01T00:00:00Z\""),
        Just("\"2027-13-01T00:00:00Z\""),
        Just("\"meta\":"),
        Just("\"keys\":"),
        Just("\"roles\":"),
        Just("\"spec_version\":"),
        Just("\"1.0.34\""),
        Just("{"),
        Just("}"),
        Just("["),
        Just("]"),
        Just(","),
        Just("null"),
        Just("true"),
        Just("\"hashes\":"),
        Just("\"sha256\":"),
        Just("\"length\":"),
        Just("\"custom\":"),
        Just("\"delegations\":"),
        Just("\"\\ud800\""),
    ];
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat().into_bytes())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![prop::collection::vec(any::<u8>(), 0..512), json_like()]
}

#[test]
fn the_fleet_that_fuzzing_bends_is_right() {
    assert!(bodies::unbent_metadata_is_accepted());
}

/// A right slip with one byte changed is refused, or is spelled like another slip in every byte.
#[test]
fn fuzz_slip_starts_from_a_right_one() {
    let slip = bodies::right_slip().unwrap();
    let bytes = slip.to_bytes();
    bodies::slip(&bytes);
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        bodies::slip(&changed);
        bodies::slip(&changed[4..changed.len() - 4]);
    }
}

proptest! {
    #[test]
    fn fuzz_envelope(bytes in bytes()) {
        bodies::envelope(&bytes);
    }

    #[test]
    fn fuzz_kit(bytes in bytes()) {
        bodies::kit(&bytes);
    }

    #[test]
    fn fuzz_request(bytes in bytes()) {
        bodies::request(&bytes);
    }

    #[test]
    fn fuzz_slip(bytes in bytes()) {
        bodies::slip(&bytes);
    }

    #[test]
    fn fuzz_metadata(choice in any::<u8>(), bytes in bytes()) {
        bodies::metadata(&[&[choice], bytes.as_slice()].concat());
    }

    #[test]
    fn fuzz_signed_metadata_with_one_value_changed(
        file in 0u8..5,
        key in prop_oneof![
            Just("version"), Just("expires"), Just("meta"), Just("targets"), Just("delegations"),
            Just("_type"), Just("spec_version"), Just("roles"), Just("keys"), Just("issued"),
        ],
        value in prop_oneof![
            Just("null"), Just("0"), Just("-1"), Just("1.5"), Just("18446744073709551615"),
            Just("{}"), Just("[]"), Just("\"\""), Just("{\"snapshot.json\":{}}"),
        ],
    ) {
        let kind = ["targets", "targets", "snapshot", "timestamp", "root"][usize::from(file)];
        let fields = [("_type", format!("{kind:?}")), ("spec_version", "\"1.0.34\"".into()),
            ("version", "1".into()), ("expires", "\"2027-06-01T00:00:00Z\"".into())];
        let mut fields: std::collections::BTreeMap<&str, String> = fields.into();
        fields.insert(key, value.to_owned());
        let fields: Vec<String> = fields.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect();
        let signed = format!("{{{}}}", fields.join(","));
        bodies::metadata(&[&[file], signed.as_bytes()].concat());
    }
}
