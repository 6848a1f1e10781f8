//! A JSON object as one of our types.
//!
//! What comes in: a text. What goes out: the value. An array is not taken for an object: the parser would read one as a structure's fields in
//! their order, and name that structure in its errors. It does not bound the text: the caller has.

use serde::de::DeserializeOwned;

/// Reads an object.
///
/// # Errors
/// What is wrong, in words for who wrote the text.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    match bytes.trim_ascii_start().first() {
        Some(b'{') => serde_json::from_slice(bytes).map_err(|error| error.to_string()),
        None => Err("it is empty, where a JSON object (`{…}`) is expected".to_owned()),
        Some(b'[') => Err("it is a JSON array, where an object (`{…}`) is expected".to_owned()),
        Some(_) => Err("it is not a JSON object (`{…}`)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use crate::hub_api::CheckRequest;

    #[test]
    fn attack_an_array_is_no_object_and_no_internal_name_is_shown() {
        let whole = r#"["dev","1","scan","passed","",""]"#;
        for (text, says) in [
            ("[]", "it is a JSON array"),
            (whole, "it is a JSON array"),
            (" ", "it is empty"),
            ("3", "it is not a JSON object"),
            ("{", "EOF while parsing"),
            ("{}", "missing field"),
        ] {
            let error = super::read::<CheckRequest>(text.as_bytes()).unwrap_err();
            assert!(error.contains(says) && !error.contains("struct"), "{error}");
        }
    }
}
