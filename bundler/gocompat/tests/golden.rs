//! Finds and reads the golden vectors.

use outhaul_gocompat::{Decoder, GoValue, decode_json, decode_yaml};
use serde_json::Value;

/// The vectors of one file, or nothing when there are none on this machine.
pub fn vectors(file: &str) -> Option<Vec<Value>> {
    let path = outhaul_tests::kalypso_or_skip("golden")?
        .join("golden")
        .join(file);
    let text = std::fs::read_to_string(&path).expect("the vectors can be read");
    let vectors: Vec<Value> = serde_json::from_str(&text).expect("the vectors are JSON");
    assert!(!vectors.is_empty(), "{file} holds no vector");
    Some(vectors)
}

/// The text of a field, or an empty one.
pub fn field<'v>(vector: &'v Value, name: &str) -> &'v str {
    vector[name].as_str().unwrap_or("")
}

/// The expected bytes; `None` when an error is expected.
pub fn expected(vector: &Value) -> Option<Vec<u8>> {
    if vector["error"] == true {
        return None;
    }
    match vector["output_base64"].as_str() {
        Some(encoded) => Some(from_base64(encoded)),
        None => Some(field(vector, "output").as_bytes().to_vec()),
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::new();
    let (mut value, mut bits) = (0_u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let digit = alphabet
            .iter()
            .position(|known| *known == byte)
            .expect("base64");
        value = value << 6 | u32::try_from(digit).expect("small");
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push(u8::try_from(value >> bits & 0xff).expect("a byte"));
        }
    }
    out
}

/// The input value of a vector of `yaml.json`, `stringify.json` or `hash.json`.
pub fn input(vector: &Value) -> Result<GoValue, String> {
    let yaml = |decoder| decode_yaml(field(vector, "yaml"), decoder).map_err(|e| e.to_string());
    match field(vector, "decoder") {
        "json" => decode_json(field(vector, "json")).map_err(|e| e.to_string()),
        "yaml.v2" => yaml(Decoder::V2),
        "yaml.v3" => yaml(Decoder::V3),
        "config" => yaml(Decoder::Config),
        other => panic!("unknown decoder {other}"),
    }
}

/// Fails with every difference at once.
pub fn report(file: &str, total: usize, differences: &[String]) {
    println!(
        "{file}: {} of {total} vectors agree",
        total - differences.len()
    );
    assert!(
        differences.is_empty(),
        "{file}: {} differ\n{}",
        differences.len(),
        differences.join("\n")
    );
}
