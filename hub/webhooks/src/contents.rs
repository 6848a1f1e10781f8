//! One digest over the files of an assignment, the same for a record of a commit and for the index of a bundle.
//!
//! What comes in: paths and the digests of their contents, in any order. What goes out: a digest. Pure: no file is read.

use std::collections::BTreeMap;

use outhaul_bundle::Digest;

/// One digest over files by their paths. Every part is preceded by its length, so that no two lists give the same text.
pub(crate) fn digest_of<'a>(files: impl IntoIterator<Item = (&'a str, &'a Digest)>) -> Digest {
    let files: BTreeMap<_, _> = files.into_iter().collect();
    let mut text = String::new();
    for (path, digest) in files {
        text.push_str(&format!("{}:{path} {digest}\n", path.len()));
    }
    Digest::of(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_files_depends_on_each_path_and_content_and_on_no_order() {
        let (x, y) = (Digest::of(b"x"), Digest::of(b"y"));
        let one = digest_of([("a", &x), ("b", &y)]);
        assert_eq!(one, digest_of([("b", &y), ("a", &x)]));
        assert_ne!(one, digest_of([("a", &y), ("b", &x)]));
        assert_ne!(one, digest_of([("a", &x)]));
        assert_ne!(one, digest_of([("a", &x), ("c", &y)]));
    }
}
