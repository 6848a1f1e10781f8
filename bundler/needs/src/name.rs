//! The parts of an image's name as it is written.
//!
//! What comes in: a text. What goes out: its name, tag and digest. It decides nothing about it.

/// An image's name, tag and digest.
pub fn parts(image: &str) -> (&str, Option<&str>, Option<&str>) {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    // A colon before a slash is that of a port.
    match rest.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')) {
        Some((name, tag)) => (name, Some(tag), digest),
        None => (rest, None, digest),
    }
}
