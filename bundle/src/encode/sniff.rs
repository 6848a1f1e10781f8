//! Recognizes content that is compressed already, by its name or its first bytes.
//!
//! What comes in: a path, or the start of a content. What goes out: whether compressing it again is
//! lost time (about 1 % of its size to gain). A wrong answer costs size or time, never correctness.

/// Endings of names, lower case. `deb` holds compressed archives inside a plain one.
const ENDINGS: [&str; 29] = [
    "7z", "apk", "br", "bz2", "deb", "gif", "gz", "jar", "jpeg", "jpg", "lz4", "lzma", "mp3",
    "mp4", "ogg", "pdf", "png", "rpm", "snap", "squashfs", "tbz2", "tgz", "txz", "tzst", "webm",
    "webp", "whl", "xz", "zst",
];

/// First bytes of compressed formats.
const MAGICS: [&[u8]; 10] = [
    b"\x1f\x8b\x08",           // gzip
    b"\x28\xb5\x2f\xfd",       // zstd
    b"\xfd7zXZ\0",             // xz
    b"BZh",                    // bzip2
    b"\x04\x22\x4d\x18",       // lz4
    b"PK\x03\x04",             // zip, jar, wheel
    b"\x89PNG\r\n",            // png
    b"\xff\xd8\xff",           // jpeg
    b"hsqs",                   // squashfs, snap
    b"!<arch>\ndebian-binary", // deb
];

pub(super) fn compressed_by_name(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').is_some_and(|(stem, ending)| {
        !stem.is_empty() && ENDINGS.contains(&ending.to_ascii_lowercase().as_str())
    })
}

pub(super) fn compressed_by_content(start: &[u8]) -> bool {
    MAGICS.iter().any(|magic| start.starts_with(magic))
}
