//! Liveness while queries are slow: asked over a real socket, with every connection of the queries in use.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc;

use outhaul_listen::accept;
use outhaul_test_kit::Centre;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::*;

/// The status line that the hub answers `path` with.
fn ask(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.lines().next().unwrap_or_default().to_owned()
}

fn hub(folder: &Path) -> Hub {
    let root = std::fs::read(Centre::new().root()).unwrap();
    Hub::init(&folder.join("hub"), &root, None, None, None).unwrap()
}

/// A hub that answers, with its folder, and what its answers run in.
fn started() -> (tempfile::TempDir, Arc<Shared>, tokio::runtime::Runtime) {
    let folder = tempfile::tempdir().unwrap();
    let hub = hub(folder.path());
    let shared = Shared::new(hub, &folder.path().join("hub"), true, false).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    (folder, Arc::new(shared), runtime)
}

/// What is answered to `path`: the status line and the body.
fn answer(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.lines().next().unwrap_or_default().to_owned();
    (status, body.to_owned())
}

#[test]
fn a_full_store_is_told_by_healthz_until_it_can_be_written_again() {
    let (_folder, shared, runtime) = started();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    let router = api::router(Arc::clone(&shared));
    let routes = move |peer| service(&router, peer);
    let serving = runtime.spawn(accept(listener, None, LIMITS, routes, stopped));
    let health = || answer(address, "/healthz");
    assert_eq!(health().1, r#"{"status":"ok"}"#);

    // No page more than there is: what a full disk answers.
    let limit = |pages: &'static str| {
        let set = shared.change(move |hub| {
            let text = format!("PRAGMA max_page_count = {pages}");
            let set = hub.store.connection().query_row(&text, [], |_| Ok(()));
            Ok(set.map_err(crate::store::StoreError::from)?)
        });
        runtime.block_on(set).unwrap();
    };
    limit("1");
    let large = "x".repeat(1024 * 1024);
    let written = shared.change(move |hub| {
        Ok(hub
            .store
            .write(|session| session.set_setting("large", &large))?)
    });
    assert!(runtime.block_on(written).is_err());
    for _ in 0..2 {
        let (status, body) = health();
        assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
        assert!(body.contains("\"status\":\"degraded\""), "{body}");
        assert!(body.contains("cannot be written"), "{body}");
    }
    limit("1000000");
    assert_eq!(
        health(),
        ("HTTP/1.1 200 OK".into(), r#"{"status":"ok"}"#.into())
    );
    stop.send_replace(true);
    runtime.block_on(serving).unwrap();
}

#[test]
fn liveness_is_answered_over_http_while_every_query_is_slow() {
    let (_folder, shared, runtime) = started();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    let router = api::router(Arc::clone(&shared));
    let routes = move |peer| service(&router, peer);
    let serving = runtime.spawn(accept(listener, None, LIMITS, routes, stopped));

    // Queries that take until they are let go: more than there are connections for them.
    let (started, starting) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(std::sync::Mutex::new(released));
    let slow: Vec<_> = (0..shared::READERS + 4)
        .map(|_| {
            let (shared, started) = (Arc::clone(&shared), started.clone());
            let released = Arc::clone(&released);
            runtime.spawn(async move {
                shared
                    .look(move |_, _| {
                        let _ = started.send(());
                        // Ends when the test lets go of its end.
                        let _ = released.lock().map(|released| released.recv());
                        Ok(())
                    })
                    .await
            })
        })
        .collect();
    for _ in 0..shared::READERS {
        starting.recv().unwrap();
    }
    // A page has to wait for them …
    let page = std::thread::spawn(move || ask(address, "/"));
    // … and whether the hub lives is answered.
    for _ in 0..3 {
        assert_eq!(ask(address, "/healthz"), "HTTP/1.1 200 OK");
    }
    assert!(
        !page.is_finished(),
        "a page needs a connection of the queries"
    );
    drop(release);
    assert_eq!(page.join().unwrap(), "HTTP/1.1 200 OK");
    for query in slow {
        runtime.block_on(query).unwrap().unwrap();
    }
    stop.send_replace(true);
    runtime.block_on(serving).unwrap();
}

#[test]
fn explanations_that_take_long_keep_no_report_from_being_checked() {
    let (_folder, shared, runtime) = started();
    let (started, starting) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(std::sync::Mutex::new(released));
    let slow: Vec<_> = (0..4)
        .map(|_| {
            let (shared, started) = (Arc::clone(&shared), started.clone());
            let released = Arc::clone(&released);
            runtime.spawn(async move {
                let work = move || {
                    let _ = started.send(());
                    // Ends when the test says so.
                    let _ = released.lock().map(|released| released.recv());
                    Ok(())
                };
                shared.check_explanation(work).await
            })
        })
        .collect();
    starting.recv().unwrap();
    // More of them than there are connections for reports, and each of those is free.
    for _ in 0..4 {
        runtime.block_on(shared.check(|_, _| Ok(()))).unwrap();
    }
    assert!(starting.try_recv().is_err(), "one at a time");
    drop(release);
    for one in slow {
        runtime.block_on(one).unwrap().unwrap();
    }
}
