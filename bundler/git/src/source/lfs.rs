//! Git LFS: files of which a repository holds a pointer only.
//!
//! What comes in: the content of a file. What goes out: whether it is such a pointer, by the grammar of Git LFS. It
//! fetches nothing: the content lies on a separate server, and is not part of any commit.

use std::io::{self, Read};

/// Largest pointer in bytes, as Git LFS has it.
const MAX_POINTER_BYTES: usize = 1024;
/// How a pointer begins; the second is what Git LFS was called before.
const OPENINGS: [&str; 2] = [
    "version https://git-lfs.github.com/spec/",
    "version https://hawser.github.com/spec/",
];

/// Whether `bytes` are a pointer of Git LFS, and not what it stands for.
pub fn is_pointer(bytes: &[u8]) -> bool {
    let text = str::from_utf8(bytes).unwrap_or_default();
    bytes.len() < MAX_POINTER_BYTES
        && OPENINGS.iter().any(|opening| text.starts_with(opening))
        && text.lines().any(|line| line.starts_with("oid "))
        && text.lines().any(|line| line.starts_with("size "))
}

/// The beginning of a content, as much as shows whether it is a pointer.
///
/// # Errors
/// Of `content`.
pub fn opening(content: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    content
        .take(MAX_POINTER_BYTES as u64)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_distinguished_from_a_text_about_one() {
        let pointer = "version https://git-lfs.github.com/spec/v1\noid \
                       sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
        assert!(is_pointer(pointer.as_bytes()));
        for other in [
            &pointer[1..],
            "version https://git-lfs.github.com/spec/v1 is how a pointer begins\n",
            "",
        ] {
            assert!(!is_pointer(other.as_bytes()), "{other}");
        }
        assert!(!is_pointer(pointer.repeat(20).as_bytes()));
    }
}
