//! A client that sends what it is asked to, and reports what came back, byte by byte.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::site::Server;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.get(name);
        found.unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The code of the first error in the body.
    pub fn code(&self) -> String {
        let body = self.json();
        let code = body["errors"][0]["code"].as_str().unwrap();
        assert!(code.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'));
        assert!(body["errors"][0]["message"].is_string());
        code.to_owned()
    }

    /// Whether as many bytes came as were announced.
    pub fn is_whole(&self) -> bool {
        self.header("content-length") == self.body.len().to_string()
    }
}

impl Server {
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        // Only so that a broken server fails the test.
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream
    }

    /// Sends bytes and reads until the connection ends.
    pub fn send(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        // The server may refuse before it has read everything.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let mut piece = vec![0; 65536];
        loop {
            match stream.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => answer.extend_from_slice(&piece[..count]),
                Err(error) => {
                    let waited = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
                    assert!(!waited.contains(&error.kind()), "no answer");
                    break;
                }
            }
        }
        answer
    }

    #[track_caller]
    pub fn request(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
        let mut text = format!("{method} {target} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            text.push_str("Host: mirror.invalid\r\n");
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        let answer = self.send(format!("{text}\r\n").as_bytes());
        read(&answer)
    }

    #[track_caller]
    pub fn get(&self, target: &str) -> Answer {
        self.request("GET", target, &[])
    }

    #[track_caller]
    pub fn head(&self, target: &str) -> Answer {
        self.request("HEAD", target, &[])
    }
}

#[track_caller]
pub fn read(answer: &[u8]) -> Answer {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(answer)));
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let pair = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_ascii_lowercase(), value.to_owned())
    };
    Answer {
        status: status.parse().unwrap(),
        headers: lines.map(pair).collect(),
        body: answer[end + 4..].to_vec(),
    }
}
