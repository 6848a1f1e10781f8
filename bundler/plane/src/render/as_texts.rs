//! How the files of an assignment are written down.
//!
//! What comes in: content by file name. What goes out: a map of texts; of a file that is no text, its bytes as numbers. The same is
//! read back. It reads and writes no files.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize)]
#[serde(untagged)]
enum ShownContent<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Bytes(Vec<u8>),
}

pub(super) fn serialize<S: Serializer>(
    files: &BTreeMap<String, Vec<u8>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(files.iter().map(|(name, bytes)| {
        let text = std::str::from_utf8(bytes);
        (
            name,
            text.map_or(ShownContent::Bytes(bytes), ShownContent::Text),
        )
    }))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Vec<u8>>, D::Error> {
    let files = BTreeMap::<String, Content>::deserialize(deserializer)?;
    let bytes = |content| match content {
        Content::Text(text) => text.into_bytes(),
        Content::Bytes(bytes) => bytes,
    };
    let files = files.into_iter();
    Ok(files.map(|(name, one)| (name, bytes(one))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Files(#[serde(with = "super")] BTreeMap<String, Vec<u8>>);

    #[test]
    fn texts_are_texts_and_other_bytes_come_back_as_they_were() {
        let files = [("a", "ä\n".as_bytes()), ("b", b"\xff\x00")];
        let files = files.map(|(name, bytes)| (name.to_owned(), bytes.to_owned()));
        let files = Files(BTreeMap::from(files));
        let written = serde_json::to_string(&files).unwrap();
        assert_eq!(written, r#"{"a":"ä\n","b":[255,0]}"#);
        assert_eq!(serde_json::from_str::<Files>(&written).unwrap(), files);
        assert!(serde_json::from_str::<Files>(r#"{"a":[256]}"#).is_err());
    }
}
