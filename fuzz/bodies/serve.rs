//! What fuzzing does with foreign bytes that claim to be a request to what a site serves.
//!
//! What comes in: any bytes. What goes out: nothing; no body may panic. What is understood holds to its
//! grammar, so that nothing that a client sends becomes a path.

use outhaul_serve::git::pktline::{self, Packet, Packets};
use outhaul_serve::git::request::{self, UploadPackRequest};
use outhaul_serve::route::{self, ImageRequest, Route};
use outhaul_serve::{charts, git, layout, name, packages, range};

/// The target of a request, `PATH?QUERY`.
pub fn target(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    match route::parse(path, query) {
        Ok(Route::Image { name, ns, what }) => {
            assert!(name::is_requested(&name) && !name.contains(".."));
            assert!(ns.is_none_or(|ns| name::normal_registry(&ns).is_some()));
            if let ImageRequest::Blob(digest) | ImageRequest::Manifest(digest) = what {
                let path = layout::blob_path(&digest);
                assert_eq!(path.components().count(), 3);
                assert!(path.starts_with("blobs/sha256"));
            }
        }
        Ok(Route::Refs { repository, .. } | Route::UploadPack { repository }) => {
            let text = repository.to_string();
            assert!(!text.starts_with('/') && !text.split('/').any(|part| part == ".."));
        }
        Ok(Route::Chart { path }) => {
            assert!(charts::is_path(&path) && !path.split('/').any(|part| part == ".."));
        }
        Ok(Route::Package { repository, path }) => {
            assert!(packages::is_name(&repository) && packages::is_path(&path));
            assert!(!path.split('/').any(|part| part == ".."));
        }
        Ok(Route::Ping) | Err(_) => {}
    }
    if let Some((image, tag)) = name::ImageName::reference(text) {
        assert!(name::is_repository(&image.repository));
        assert!(tag.is_none_or(|tag| name::is_tag(&tag)));
    }
    if let range::ByteRange::Part { first, last } = range::wanted(text, 1000) {
        assert!(first <= last && last < 1000);
    }
    let _ = git::RepositoryAddress::of_url(text);
}

/// The body of a request of git.
pub fn packets(bytes: &[u8]) {
    let mut written = Vec::new();
    let mut is_whole = true;
    for packet in Packets(bytes) {
        match packet {
            Ok(Packet::Data(content)) => {
                written.extend_from_slice(&pktline::header(content.len()));
                written.extend_from_slice(content);
            }
            Ok(Packet::Flush) => written.extend_from_slice(pktline::FLUSH),
            Ok(Packet::Delimiter) => written.extend_from_slice(pktline::DELIMITER),
            Ok(Packet::End) => written.extend_from_slice(b"0002"),
            Err(_) => is_whole = false,
        }
    }
    // Lengths may be written with capitals.
    assert!(!is_whole || written.eq_ignore_ascii_case(bytes));
    for parsed in [request::parse(bytes), request::parse_v2(bytes, "sha1")] {
        if let Ok(UploadPackRequest::Fetch(fetch)) = parsed {
            assert!(
                fetch
                    .wants
                    .iter()
                    .chain(&fetch.shallow)
                    .all(|id| git::is_id(id))
            );
        }
    }
}
