//! What is handed out of the published folder, and what is not, whatever lies in it.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::mpsc;

use axum::body;
use axum::http::{HeaderMap, Method};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

struct Asked {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
}

async fn asked(published: &Published, method: Method, path: &str, range: Option<&str>) -> Asked {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(range) = range {
        request = request.header(header::RANGE, range);
    }
    let request = request.body(Body::empty()).unwrap();
    let answer = answer(State(published.clone()), request).await;
    let (head, body) = answer.into_parts();
    Asked {
        status: head.status,
        headers: head.headers,
        body: body::to_bytes(body, usize::MAX).await.unwrap().to_vec(),
    }
}

fn get(published: &Published, path: &str) -> Asked {
    runtime().block_on(asked(published, Method::GET, path, None))
}

/// A folder `published` beside a `secret`.
fn folder() -> (tempfile::TempDir, Published) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("published/blobs")).unwrap();
    fs::create_dir(folder.path().join("hub")).unwrap();
    fs::write(folder.path().join("hub/hub.key"), "a secret").unwrap();
    let published = Published::new(folder.path().join("published"), 4, WITHIN);
    (folder, published)
}

#[test]
fn regular_files_are_handed_out_whole_in_parts_and_by_their_heads() {
    let (folder, published) = folder();
    let content: Vec<u8> = (0..=250).cycle().take(3 * PIECE + 17).collect();
    fs::write(folder.path().join("published/blobs/one"), &content).unwrap();
    fs::write(folder.path().join("published/empty file"), "").unwrap();
    let whole = get(&published, "/blobs/one");
    assert_eq!(
        (whole.status, whole.body == content),
        (StatusCode::OK, true)
    );
    runtime().block_on(async {
        let range = format!("bytes={}-{}", PIECE - 3, 2 * PIECE);
        let part = asked(&published, Method::GET, "/blobs/one", Some(&range)).await;
        assert_eq!(part.status, StatusCode::PARTIAL_CONTENT);
        assert!(part.body == content[PIECE - 3..=2 * PIECE]);
        let head = asked(&published, Method::HEAD, "/blobs/one", None).await;
        assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0));
        assert_eq!(
            head.headers[header::CONTENT_LENGTH],
            content.len().to_string()
        );
        let post = asked(&published, Method::POST, "/blobs/one", None).await;
        assert_eq!(post.status, StatusCode::METHOD_NOT_ALLOWED);
    });
    let empty = get(&published, "/empty%20file");
    assert_eq!((empty.status, empty.body.len()), (StatusCode::OK, 0));
    for nothing in [
        "/",
        "/blobs",
        "/blobs/",
        "/blobs/two",
        "/blobs/one/two",
        "/blobs/one/",
        "/../hub/hub.key",
    ] {
        assert_eq!(
            get(&published, nothing).status,
            StatusCode::NOT_FOUND,
            "{nothing}"
        );
    }
    // The folder itself may be reached through a link: it is what the person named.
    symlink("published", folder.path().join("link")).unwrap();
    let linked = Published::new(folder.path().join("link"), 4, WITHIN);
    assert_eq!(get(&linked, "/blobs/one").status, StatusCode::OK);
}

#[test]
fn attack_a_link_in_the_published_folder_leads_nobody_out_of_it() {
    let (folder, published) = folder();
    let at = folder.path().join("published");
    symlink("../../hub", at.join("blobs/hub")).unwrap();
    symlink("../hub/hub.key", at.join("key")).unwrap();
    fs::write(at.join("blobs/one"), "one").unwrap();
    symlink("blobs", at.join("inside")).unwrap();
    for path in [
        "/blobs/hub/hub.key",
        "/blobs/hub",
        "/key",
        "/inside/one",
        "/blobs%2Fhub%2Fhub.key",
    ] {
        let asked = get(&published, path);
        assert_eq!(
            (asked.status, asked.body.len()),
            (StatusCode::NOT_FOUND, 0),
            "{path}"
        );
    }
    assert_eq!(get(&published, "/blobs/one").body, b"one");
}

#[test]
fn attack_fifos_and_devices_in_the_published_folder_keep_no_thread() {
    let (folder, published) = folder();
    let at = folder.path().join("published");
    let mode = Mode::from_raw_mode(0o644);
    mknodat(CWD, at.join("fifo"), FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at.join("socket")).unwrap();
    fs::write(at.join("blobs/one"), "one").unwrap();
    // More than there are threads, at once.
    runtime().block_on(async {
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..560 {
            for path in ["/fifo", "/socket", "/fifo/"] {
                let published = published.clone();
                all.spawn(async move { asked(&published, Method::GET, path, None).await.status });
            }
        }
        for status in all.join_all().await {
            assert_eq!(status, StatusCode::NOT_FOUND);
        }
        let one = asked(&published, Method::GET, "/blobs/one", None).await;
        assert_eq!(one.body, b"one");
    });
    assert_eq!(published.0.threads.available_permits(), 4);
}

#[test]
fn attack_a_disk_that_hangs_keeps_its_own_threads_and_no_others() {
    let (folder, _) = folder();
    let at = folder.path().join("published");
    fs::write(at.join("blobs/one"), "one").unwrap();
    let published = Published::new(at, 2, Duration::from_millis(50));
    let (end, ended) = mpsc::channel::<()>();
    let ended = Arc::new(Mutex::new(ended));
    let runtime = runtime();
    runtime.block_on(async {
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..600 {
            let (published, ended) = (published.clone(), Arc::clone(&ended));
            all.spawn(async move {
                let hangs = move || {
                    let _ = ended.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    Ok(())
                };
                published.work(hangs).await
            });
        }
        for done in all.join_all().await {
            assert_eq!(done.unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
        assert_eq!(published.0.threads.available_permits(), 0, "two hang still");
        let late = asked(&published, Method::GET, "/blobs/one", None).await;
        assert_eq!(late.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(late.headers.contains_key(header::RETRY_AFTER));
        // What the rest of the hub does off its loop goes on.
        let other = tokio::task::spawn_blocking(|| 7).await;
        assert_eq!(other.unwrap(), 7);
        drop(end);
        let _all = published.0.threads.acquire_many(2).await.unwrap();
    });
    let patient = Published(Arc::new(Inner {
        folder: published.0.folder.clone(),
        threads: Arc::clone(&published.0.threads),
        within: WITHIN,
        logged: Mutex::new(None),
    }));
    assert_eq!(get(&patient, "/blobs/one").status, StatusCode::OK);
}
