//! Fake packages: what tests of packages read.
//!
//! What comes in: the text of a control file. What goes out: the bytes of a package with it and without any content, as
//! `dpkg-deb -Zgzip` would make it. No program ships one.

use std::io::Write as _;

pub(super) fn tar(name: &str, content: &[u8]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in [("./md5sums", &b"x"[..]), (name, content)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        let path = name;
        let _ = builder.append_data(&mut header, path, content);
    }
    builder.into_inner().unwrap_or_default()
}

pub(super) fn ar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, content) in members {
        let _ = writeln!(
            bytes,
            "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`",
            0,
            0,
            0,
            100_644,
            content.len()
        );
        bytes.extend_from_slice(content);
        if content.len() % 2 == 1 {
            bytes.push(b'\n');
        }
    }
    bytes
}

/// A package with this `control`, as `dpkg-deb -Zgzip` would make it.
pub fn deb(control: &str) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let _ = gz.write_all(&tar("control", control.as_bytes()));
    let control = gz.finish().unwrap_or_default();
    ar(&[
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", &control),
        ("data.tar", b""),
    ])
}
