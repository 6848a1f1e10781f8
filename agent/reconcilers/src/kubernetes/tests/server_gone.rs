//! A server that goes at any moment, and what the inventory knows then.
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Stands between the agent and the server on `port`, and is gone once the agent has spoken `allowed` times
/// after an answer.
fn server_that_goes(port: u16, allowed: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut turns = 0;
        loop {
            let (mut client, _) = listener.accept().unwrap();
            let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut answers, mut to_client) =
                (server.try_clone().unwrap(), client.try_clone().unwrap());
            let answered = Arc::new(AtomicBool::new(false));
            let answers_now = Arc::clone(&answered);
            std::thread::spawn(move || {
                let mut bytes = [0; 16384];
                while let Ok(read @ 1..) = answers.read(&mut bytes) {
                    answers_now.store(true, Ordering::SeqCst);
                    if to_client.write_all(&bytes[..read]).is_err() {
                        break;
                    }
                }
                let _ = to_client.shutdown(Shutdown::Both);
            });
            let mut bytes = [0; 16384];
            while let Ok(read @ 1..) = client.read(&mut bytes) {
                turns += usize::from(answered.swap(false, Ordering::SeqCst));
                if turns > allowed {
                    let _ = client.shutdown(Shutdown::Both);
                    let _ = server.shutdown(Shutdown::Both);
                    return;
                }
                server.write_all(&bytes[..read]).unwrap();
            }
        }
    });
    own
}

#[test]
fn a_server_that_goes_at_any_request_leaves_nothing_that_is_not_in_the_inventory() {
    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    fixture.namespace("app");
    let settings = FORCE.replace("force", "refuse");
    let maps = NAMES.map(|name| config_map(name, "1")).join("---\n");
    let files = [("settings.yaml", settings.as_str()), ("maps.yaml", &maps)];
    let direct = fixture.kubeconfig.clone();
    let config = fs::read_to_string(&direct).unwrap();
    let port = fixture.server.port;
    let mut partly = 0;
    for allowed in 0..200 {
        let other = fixture.server.kubeconfig_with("cut", "");
        let own = server_that_goes(port, allowed);
        let config = config.replace(&format!(":{port}'"), &format!(":{own}'"));
        fs::write(&other, config).unwrap();
        fixture.kubeconfig = other;
        let ended = fixture.try_apply(&files);
        fixture.kubeconfig.clone_from(&direct);
        let there = NAMES.map(|name| fixture.map(name).is_some());
        match ended {
            Ok(result) => {
                assert_eq!(result.status, ComplianceStatus::Compliant, "{result:?}");
                assert_eq!(there, [true; 6]);
                assert!(partly > 0, "no cut was between two objects");
                return;
            }
            Err(ApplyError::Cluster { problem, .. }) => {
                assert!(problem.contains("cannot be used"), "{problem}");
                let listed = fixture.memory.0.len();
                assert!(
                    listed == 6 || there == [false; 6],
                    "{listed} rows, {there:?}"
                );
                assert!(there.is_sorted_by(|a, b| a >= b), "in order: {there:?}");
                partly += usize::from(there[0] && !there[5]);
            }
            other => unreachable!("{other:?}"),
        }
        fixture.apply(&files);
        let removed = fixture.remove();
        let gone = removed.iter().all(|(_, status, _)| status == "removed");
        assert!(gone, "{removed:?}");
    }
    unreachable!("six objects take fewer requests");
}
