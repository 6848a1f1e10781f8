//! Layers as tars: plain, compressed, with whiteouts, and as nobody should write them.

use std::io::Write as _;

use super::*;
use crate::materials::Contents;

const STATUS: &str =
    "Package: libc6\nStatus: install ok installed\nVersion: 2.36-9\nArchitecture: amd64\n";
const RELEASE: &str = "ID=debian\nVERSION_ID=\"12\"\n";

enum Entry {
    File(&'static str),
    Link(&'static str),
    Folder,
}

fn layer(entries: &[(&str, Entry)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, entry) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        match entry {
            Entry::File(text) => {
                header.set_size(text.len() as u64);
                builder
                    .append_data(&mut header, path, text.as_bytes())
                    .unwrap();
            }
            Entry::Link(to) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                builder.append_link(&mut header, path, to).unwrap();
            }
            Entry::Folder => {
                header.set_entry_type(tar::EntryType::Directory);
                header.set_size(0);
                builder.append_data(&mut header, path, &[][..]).unwrap();
            }
        }
    }
    builder.into_inner().unwrap()
}

fn facts(entries: &[(&str, Entry)]) -> LayerFacts {
    LayerFacts::read(&*layer(entries)).unwrap()
}

fn base() -> LayerFacts {
    facts(&[
        ("./var/", Entry::Folder),
        ("./var/lib/dpkg/status", Entry::File(STATUS)),
        ("usr/lib/os-release", Entry::File(RELEASE)),
        ("etc/os-release", Entry::Link("../usr/lib/os-release")),
        ("lib", Entry::Link("usr/lib")),
        ("etc/passwd", Entry::File("root")),
    ])
}

#[test]
fn databases_are_found_in_plain_and_compressed_layers() {
    let tar = layer(&[("var/lib/dpkg/status", Entry::File(STATUS))]);
    let plain = LayerFacts::read(&*tar).unwrap();
    assert_eq!(plain.files.len(), 1);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar).unwrap();
    let zstd = zstd::encode_all(&*tar, 1).unwrap();
    for compressed in [gzip.finish().unwrap(), zstd] {
        assert_eq!(LayerFacts::read(&*compressed).unwrap(), plain);
    }
    let kept = serde_json::to_vec(&plain).unwrap();
    assert_eq!(serde_json::from_slice::<LayerFacts>(&kept).unwrap(), plain);
}

#[test]
fn packages_and_distribution_are_those_of_all_layers() {
    let base = base();
    let contents = Contents::of([&base]);
    assert_eq!(contents.packages.len(), 1);
    assert_eq!(contents.release.as_ref().unwrap().version, "12");
    assert!(contents.has_database && contents.unread.is_empty());
    let next = facts(&[(
        "var/lib/dpkg/status",
        Entry::File("Package: curl\nVersion: 8\nArchitecture: amd64\n"),
    )]);
    let contents = Contents::of([&base, &next]);
    let names: Vec<_> = contents
        .packages
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names, ["curl"]);
}

#[test]
fn what_a_later_layer_removes_does_not_count() {
    let base = base();
    for entries in [
        vec![("var/lib/dpkg/.wh.status", Entry::File(""))],
        vec![("var/lib/dpkg/.wh..wh..opq", Entry::File(""))],
        vec![("var/.wh.lib", Entry::File(""))],
        vec![(".wh.var", Entry::File(""))],
        vec![(".wh..wh..opq", Entry::File(""))],
    ] {
        let path = entries[0].0;
        let contents = Contents::of([&base, &facts(&entries)]);
        assert!(!contents.has_database, "{path}");
    }
    // A whiteout is about lower layers only, wherever it stands in its own.
    let replaced = facts(&[
        ("var/lib/dpkg/status", Entry::File(STATUS)),
        ("var/lib/.wh.dpkg", Entry::File("")),
    ]);
    assert!(Contents::of([&base, &replaced]).has_database);
    let unrelated = facts(&[("var/lib/.wh.dpkg-other", Entry::File(""))]);
    assert!(Contents::of([&base, &unrelated]).has_database);
}

#[test]
fn what_is_not_read_is_named() {
    let odd = facts(&[
        ("var/lib/rpm/rpmdb.sqlite", Entry::File("x")),
        ("var/lib/pacman/local/ALPM_DB_VERSION", Entry::File("9")),
        ("lib/apk/db/installed", Entry::Link("/somewhere")),
        ("var/lib/dpkg", Entry::Link("/opt/dpkg")),
    ]);
    let contents = Contents::of([&odd]);
    assert_eq!(contents.unread.len(), 2, "{contents:?}");
    assert_eq!(contents.others.len(), 2, "{contents:?}");
    assert!(!contents.has_database);
}

#[test]
fn files_of_an_image_without_a_shell_are_read() {
    let one = facts(&[
        (
            "var/lib/dpkg/status.d/base",
            Entry::File("Package: base-files\nVersion: 12\nArchitecture: amd64\n"),
        ),
        ("var/lib/dpkg/status.d/base.md5sums", Entry::File("00 x\n")),
    ]);
    let two = facts(&[(
        "var/lib/dpkg/status.d/tzdata",
        Entry::File("Package: tzdata\nVersion: 2024a\nArchitecture: all\n"),
    )]);
    assert_eq!(Contents::of([&one, &two]).packages.len(), 2);
}

#[test]
fn long_paths_are_followed_and_bounded() {
    let long = format!("var/lib/dpkg/{}/x", "folder/".repeat(40));
    let tar = layer(&[
        (&long, Entry::File("x")),
        ("var/lib/dpkg/status", Entry::File(STATUS)),
    ]);
    assert!(Contents::of([&LayerFacts::read(&*tar).unwrap()]).has_database);
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size(1 << 40);
    header.set_path("././@LongLink").unwrap();
    header.set_cksum();
    let endless = header.as_bytes().chain(io::repeat(b'a'));
    let error = LayerFacts::read(endless).unwrap_err();
    assert!(error.to_string().contains("64 KiB"), "{error}");
}
