//! The words of a slip's spelling: texts that metadata repeats, each written as one byte.
//!
//! A word's number is its place in the list, so the list only ever grows at its end; to change or drop a
//! word is a new version of the spelling.

/// Texts that cost one byte. At most 128.
pub(super) const WORDS: [&str; 52] = [
    "_type",
    "consistent_snapshot",
    "custom",
    "delegations",
    "ed25519",
    "expires",
    "hashes",
    "issued",
    "keyid",
    "keyids",
    "keys",
    "keytype",
    "keyval",
    "length",
    "meta",
    "name",
    "number",
    "paths",
    "public",
    "roles",
    "root",
    "scheme",
    "sha256",
    "sig",
    "signatures",
    "signed",
    "snapshot",
    "snapshot.json",
    "spec_version",
    "targets",
    "targets.json",
    "terminating",
    "threshold",
    "timestamp",
    "version",
    "1.0.34",
    "environment",
    "cluster_type",
    "dev",
    "test",
    "qa",
    "staging",
    "stage",
    "prod",
    "production",
    "factory",
    "store",
    "edge",
    "small",
    "medium",
    "large",
    "default",
];

/// Texts around the 16 hexadecimal digits of a stream's role. At most 16.
pub(super) const SHAPES: [(&str, &str); 4] = [
    ("s-", ""),
    ("s-", ".json"),
    ("s-", "/*"),
    ("s-", "/index.json"),
];

/// Raw bytes between the two texts of a shape.
pub(super) const SHAPE_BYTES: usize = 8;

/// The number of the word `text`.
pub(super) fn number_of(text: &str) -> Option<u8> {
    let at = WORDS.iter().position(|word| *word == text)?;
    u8::try_from(at).ok()
}

/// The shape of `text` and the digits in it.
pub(super) fn shape_of(text: &str) -> Option<(u8, &str)> {
    let found = SHAPES.iter().enumerate().find_map(|(at, (before, after))| {
        let digits = text.strip_prefix(before)?.strip_suffix(after)?;
        (digits.len() == 2 * SHAPE_BYTES).then_some((at, digits))
    });
    let (at, digits) = found?;
    Some((u8::try_from(at).ok()?, digits))
}
