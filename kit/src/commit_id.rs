//! Ids of git's commits.
//!
//! What comes in: any text. What goes out: whether it is the full id of a commit, by SHA-1 or SHA-256, as git writes it: in lower case; and
//! that form of what people typed, which may be in upper case. It opens no repository: whether there is such a commit is not looked at.

/// What to give where a commit is recorded as it is given.
pub const HOW_TO_GIVE: &str =
    "give the full id, all 40 (or 64) hexadecimal digits: `git rev-parse HEAD` prints it";

/// Whether `text` is the full id of a commit, as git writes it.
pub fn is_commit_id(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    matches!(text.len(), 40 | 64) && text.bytes().all(is_digit)
}

/// The full id of a commit that somebody typed, in upper or lower case, as git writes it: git takes both, and what is on record is compared
/// byte by byte. `None` for any other text.
pub fn typed_commit_id(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    is_commit_id(&lower).then_some(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_id_is_one_and_typed_in_capitals_it_is_the_same() {
        for text in ["main", "1234567", "", &"g".repeat(40), &"1".repeat(41)] {
            assert!(!is_commit_id(text), "{text}");
            assert_eq!(typed_commit_id(text), None);
        }
        for digits in [40, 64] {
            let id = "a".repeat(digits);
            assert!(is_commit_id(&id));
            assert!(!is_commit_id(&"A".repeat(digits)));
            assert_eq!(typed_commit_id(&"A".repeat(digits)), Some(id));
        }
    }
}
