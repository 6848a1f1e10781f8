//! The folder of a repository that an object applies, in the one spelling in which two are compared.
//!
//! What comes in: what a person wrote, or what a controller states. What goes out: the folder without `./` before and `/` behind it,
//! empty for the whole repository, or why it is none. Pure: no folder is opened.

/// Most bytes of a folder.
const MAX_BYTES: usize = 1_000;

/// The folder that `text` names.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub(crate) fn folder(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err(
            "names no folder: write `=.` for the whole repository, or no `=` for an object that applies none of it",
        );
    }
    if text.starts_with('/') {
        return Err("is not relative to the repository: leave the first `/` out");
    }
    let plain = |c: char| !c.is_control() && !c.is_whitespace() && c != '\\';
    if text.len() > MAX_BYTES || !text.chars().all(plain) {
        return Err("is no folder of a repository");
    }
    let inner = text
        .strip_prefix("./")
        .unwrap_or(text)
        .trim_end_matches('/');
    if inner.is_empty() || inner == "." {
        return Ok(String::new());
    }
    match inner.split('/').any(|part| matches!(part, "" | "." | "..")) {
        true => Err("is not the plain path of a folder: write it without `..`, `.` and `//`"),
        false => Ok(inner.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_lies_in_the_repository_and_has_one_spelling() {
        for (text, expected) in [
            (".", ""),
            ("./", ""),
            ("store", "store"),
            ("./store/", "store"),
            ("a/b//", "a/b"),
        ] {
            assert_eq!(folder(text).as_deref(), Ok(expected), "{text}");
        }
        for wrong in [
            "", "/", "/edge", "..", "../edge", "a/../b", "a//b", "a/./b", "a\\b", "a b", "a\u{1b}",
        ] {
            assert!(folder(wrong).is_err(), "{wrong}");
        }
    }
}
