//! Canonical JSON as The Update Framework signs it: one value, one sequence of bytes.
//!
//! What comes in: a value. What goes out: its bytes, with sorted keys, no spaces and integers only.
//! Of securesystemslib's form it writes only the part that is also plain JSON: a control character in
//! a text is refused instead of being written raw, so that the signed bytes can be shipped as they are.

use serde::Serialize;
use serde_json::Value;

/// A value that has no canonical form here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CanonicalError {
    /// A number with a fraction or exponent.
    #[error("canonical JSON has no number `{number}` (integers only)")]
    Fraction {
        /// The number.
        number: String,
    },
    /// A control character in a text.
    #[error("control character in the text {text:?}")]
    ControlCharacter {
        /// The text.
        text: String,
    },
    /// Not a JSON value at all.
    #[error("cannot be written as JSON")]
    NotJson {
        /// The error of the serialiser.
        source: serde_json::Error,
    },
}

/// The canonical bytes of `value`.
///
/// # Errors
/// [`CanonicalError`] for fractions and for control characters in texts.
pub fn to_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>, CanonicalError> {
    let value = serde_json::to_value(value).map_err(|source| CanonicalError::NotJson { source })?;
    let mut out = Vec::new();
    encode(&value, &mut out)?;
    Ok(out)
}

fn encode(value: &Value, out: &mut Vec<u8>) -> Result<(), CanonicalError> {
    match value {
        Value::Null => out.extend(b"null"),
        Value::Bool(flag) => out.extend(if *flag { &b"true"[..] } else { &b"false"[..] }),
        Value::Number(number) if number.is_i64() || number.is_u64() => {
            out.extend(number.to_string().as_bytes());
        }
        Value::Number(number) => {
            return Err(CanonicalError::Fraction {
                number: number.to_string(),
            });
        }
        Value::String(text) => encode_text(text, out)?,
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                encode(item, out)?;
            }
            out.push(b']');
        }
        Value::Object(map) => {
            // Sorted here and not by the map's type: a feature of serde_json can change that.
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            out.push(b'{');
            for (at, (key, item)) in entries.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                encode_text(key, out)?;
                out.push(b':');
                encode(item, out)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

fn encode_text(text: &str, out: &mut Vec<u8>) -> Result<(), CanonicalError> {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            0..=0x1f => {
                return Err(CanonicalError::ControlCharacter {
                    text: text.to_owned(),
                });
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_sorted_and_nothing_is_spaced() {
        let bytes = to_bytes(&json!({"b": [1, -2, true, null], "a": "q\"\\é"})).unwrap();
        assert_eq!(bytes, r#"{"a":"q\"\\é","b":[1,-2,true,null]}"#.as_bytes());
    }

    #[test]
    fn what_could_be_written_in_two_ways_is_refused() {
        assert!(to_bytes(&json!(1.5)).is_err());
        assert!(to_bytes(&json!({"k": "line\nline"})).is_err());
        assert!(to_bytes(&json!({"k\u{1}": 1})).is_err());
    }

    proptest! {
        #[test]
        fn canonical_bytes_are_json_of_the_same_value(keys in prop::collection::btree_map("[^\\x00-\\x1f]{0,8}", any::<i64>(), 0..6)) {
            let bytes = to_bytes(&keys).unwrap();
            let back: std::collections::BTreeMap<String, i64> = serde_json::from_slice(&bytes).unwrap();
            prop_assert_eq!(back, keys);
        }
    }
}
