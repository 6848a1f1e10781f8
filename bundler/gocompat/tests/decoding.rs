//! YAML, stringify and hash against what the Go libraries gave.

use crate::golden::{expected, field, input, report, vectors};
use outhaul_gocompat::{Decoder, GoValue, decode_yaml, hash, stringify, to_yaml};

fn check(file: &str, run: fn(&GoValue) -> String) {
    let Some(vectors) = vectors(file) else { return };
    let mut differences = Vec::new();
    for vector in &vectors {
        let result = input(vector).map(|value| run(&value).into_bytes());
        let agrees = match (&result, expected(vector)) {
            (Ok(output), Some(wanted)) => *output == wanted,
            (Err(_), None) => true,
            _ => false,
        };
        if !agrees {
            let shown = result.map(|output| String::from_utf8_lossy(&output).into_owned());
            differences.push(format!("{}: {shown:?}\n  {vector}", field(vector, "id")));
        }
    }
    report(file, vectors.len(), &differences);
}

#[test]
fn yaml_is_written_as_yaml_v3_writes_it() {
    check("yaml.json", to_yaml);
}

#[test]
fn stringify_agrees_with_kalypso() {
    check("stringify.json", stringify);
}

#[test]
fn hashes_agree_with_hashstructure() {
    check("hash.json", hash);
}

/// What the Go libraries gave, run by hand: `.nan` is Go's own NaN to a hash, and nothing is found under it as a key.
#[test]
fn no_number_is_hashed_and_written_as_go_does() {
    let read = |text| decode_yaml(text, Decoder::V2).unwrap();
    assert_eq!(hash(&read(".nan\n")), "16390187459646237341");
    let map = read("{A: <<, .nan: 0.10, 2024-05-06: {}}\n");
    assert_eq!(to_yaml(&map), ".nan: null\n\"2024-05-06\": {}\nA: <<\n");
    assert_eq!(hash(&map), "13999741631668825636");
}
