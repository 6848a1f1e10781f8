//! A server that goes at any moment, and what the inventory knows then.
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};

use super::*;

/// Stands between the agent and the server on `port`, and is gone after it was given bytes `allowed` times.
fn server_that_goes(port: u16, allowed: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut given = 0;
        loop {
            let (mut client, _) = listener.accept().unwrap();
            let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut answers, mut to_client) =
                (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut answers, &mut to_client);
                let _ = to_client.shutdown(Shutdown::Both);
            });
            let mut bytes = [0; 16384];
            while let Ok(read @ 1..) = client.read(&mut bytes) {
                given += 1;
                if given > allowed {
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
    let Some(mut bench) = Bench::new() else {
        return;
    };
    bench.namespace("app");
    let settings = FORCE.replace("force", "refuse");
    let (first, second) = (config_map("first", "1"), config_map("second", "1"));
    let files = [
        ("a.yaml", settings.as_str()),
        ("b.yaml", &first),
        ("c.yaml", &second),
    ];
    let direct = bench.kubeconfig.clone();
    let config = fs::read_to_string(&direct).unwrap();
    let port = bench.server.port;
    let mut half = 0;
    for allowed in 0..200 {
        let other = bench.server.kubeconfig_with("cut", "");
        let own = server_that_goes(port, allowed);
        fs::write(
            &other,
            config.replace(&format!(":{port}'"), &format!(":{own}'")),
        )
        .unwrap();
        bench.kubeconfig = other;
        let ended = bench.try_apply(&files);
        bench.kubeconfig.clone_from(&direct);
        let there = ["first", "second"].map(|name| bench.map(name).is_some());
        match ended {
            Ok(result) => {
                assert_eq!(result.status, ComplianceStatus::Compliant, "{result:?}");
                assert!(
                    there == [true, true] && half > 0,
                    "at least one cut was between the two"
                );
                return;
            }
            Err(ApplyError::Cluster { problem, .. }) => {
                assert!(problem.contains("cannot be asked"), "{problem}");
                let listed = bench.memory.0.len();
                assert!(
                    listed == 2 || there == [false, false],
                    "{listed} rows, {there:?}"
                );
                half += usize::from(there == [true, false]);
            }
            other => unreachable!("{other:?}"),
        }
        bench.apply(&files);
        let removed = bench.remove();
        assert!(
            removed.iter().all(|(_, status, _)| status == "removed"),
            "{removed:?}"
        );
    }
    unreachable!("two objects take fewer requests");
}
