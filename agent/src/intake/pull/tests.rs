//! Servers that are slow, from a server that holds each connection until the agent lets go of it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use outhaul_bundle::index::Encoding;
use outhaul_pace::PullLimits;

use super::*;
use crate::state_folder::StateFolder;
use outhaul_host::http::ServerClient;

/// Far shorter than a part is in the field; nothing here measures it.
const PART: Duration = Duration::from_millis(300);

/// Where a request wants to begin.
fn offset_of(stream: &TcpStream) -> u64 {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let range = head.iter().find_map(|line| {
        let line = line.to_ascii_lowercase();
        let from = line.strip_prefix("range: bytes=")?;
        from.trim_end_matches('-').parse().ok()
    });
    range.unwrap_or(0)
}

/// Answers each request with `most` bytes from where it begins, and then says no more until the agent ends
/// the connection. Returns its address.
fn serve(content: Vec<u8>, most: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let from = usize::try_from(offset_of(&stream)).unwrap();
            let status = if from > 0 {
                "206 Partial Content"
            } else {
                "200 OK"
            };
            let rest = &content[from..];
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n",
                rest.len()
            );
            drop(stream.write_all(head.as_bytes()));
            drop(stream.write_all(&rest[..most.min(rest.len())]));
            drop(stream.read(&mut [0]));
        }
    });
    format!("http://{address}")
}

fn repository(url: &str, folder: &std::path::Path, limits: PullLimits) -> BundleRepository {
    BundleRepository {
        name: url.to_owned(),
        role: "s-1".to_owned(),
        client: Box::new(ServerClient::new(url, None, "").unwrap().with_part(PART)),
        limits: Limits::default(),
        heartbeat: Heartbeat::default(),
        max_issued_age_h: None,
        pace: Pace::of(folder, limits),
        since: (0, Instant::now()),
    }
}

/// Answers for the compressed index with `compressed`, and for the index itself with the content, or that there is none.
fn serve_index(compressed: &'static str, index: Option<Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let (status, body) = match (first.contains(".zst "), &index) {
                (true, _) => (compressed, &[][..]),
                (false, Some(index)) => ("200 OK", &index[..]),
                (false, None) => ("404 Not Found", &[][..]),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            drop(stream.write_all(head.as_bytes()));
            drop(stream.write_all(body));
        }
    });
    format!("http://{address}")
}

#[test]
fn a_compressed_index_that_does_not_come_is_asked_for_again_and_refused_only_for_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let content = vec![b'x'; 5000];
    let listed = ListedIndex {
        index: Content {
            digest: Digest::of(&content),
            size: 5000,
        },
        compressed: Some(Content {
            digest: Digest::of(b"compressed"),
            size: 10,
        }),
    };
    let bytes = |compressed, index| {
        let url = serve_index(compressed, index);
        repository(&url, folder.path(), PullLimits::default()).index_bytes(&listed)
    };
    let busy = "503 Service Unavailable";
    assert_eq!(bytes(busy, Some(content.clone())).unwrap(), content);
    let error = bytes(busy, None).unwrap_err();
    assert!(matches!(error, AgentError::Network { .. }), "{error}");
    // Nothing is what it has: that is another file than the signed one.
    let error = bytes("200 OK", None).unwrap_err();
    assert!(matches!(error, AgentError::Refused { .. }), "{error}");
}

fn pull(content: &[u8], most: usize) -> Result<Digest, AgentError> {
    let folder = tempfile::tempdir().unwrap();
    pull_within(&folder, content, most, PullLimits::default())
}

/// The same into `folder`, within limits.
fn pull_within(
    folder: &tempfile::TempDir,
    content: &[u8],
    most: usize,
    limits: PullLimits,
) -> Result<Digest, AgentError> {
    let state_folder = StateFolder::new(folder.path());
    state_folder.create().unwrap();
    let mut store = Blobs::new(&state_folder);
    let url = serve(content.to_vec(), most);
    let mut repository = repository(&url, folder.path(), limits);
    let blob = Blob {
        digest: Digest::of(content),
        size: content.len() as u64,
        encoding: Encoding::Identity,
        contents: Vec::new(),
        sealed: None,
    };
    let meter = Meter::new("downloading", Unit::Bytes, None);
    let done = repository.download(&blob, &mut store, &meter);
    repository.pace.save().unwrap();
    done?;
    assert!(store.has(&blob));
    Ok(blob.digest)
}

#[test]
fn a_server_that_lets_bytes_drip_does_not_hold_the_pull() {
    let content = vec![7; 300_000];
    let error = pull(&content, 10).unwrap_err().to_string();
    assert!(error.contains("too slow: 10 bytes came"), "{error}");
}

#[test]
fn a_slow_server_is_read_part_by_part() {
    let content: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    pull(&content, 100_000).unwrap();
}

#[test]
fn a_day_that_is_used_up_keeps_what_came_and_the_next_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let limits = PullLimits {
        max_kib_per_s: None,
        max_mib_per_day: Some(1),
    };
    let content: Vec<u8> = (0..1_500_000_u32).map(|at| (at % 251) as u8).collect();
    let error = pull_within(&folder, &content, usize::MAX, limits).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains(
            "1048576 bytes came today (UTC), which is all of `repository.max_mib_per_day`"
        ),
        "{error}"
    );
    // Asked again on the same day nothing comes.
    let again = pull_within(&folder, &content, usize::MAX, limits).unwrap_err();
    assert_eq!(
        again.to_string().replace(char::is_numeric, ""),
        error.replace(char::is_numeric, "")
    );
    std::fs::remove_file(folder.path().join(outhaul_pace::FILE)).unwrap();
    pull_within(&folder, &content, usize::MAX, limits).unwrap();
}
