//! A web server for tests: a folder with ranges, a hub that signs, and a link that breaks.
//!
//! What comes in: a folder. What goes out: a URL on this very host, and what was asked for. It answers one
//! request per connection, in the order in which they come.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use outhaul_bundle::hub_api::{Enrolled, RequestAnswer};

/// What was asked for: method, path, first byte.
pub type Asked = (String, String, u64);
/// Answers a POST.
pub type Hub = Box<dyn Fn(&[u8]) -> Vec<u8> + Send>;

#[derive(Debug)]
pub struct Server {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    break_after: Arc<Mutex<Option<usize>>>,
}

impl Server {
    /// Serves `folder`; `hub` answers what is posted.
    pub fn start(folder: PathBuf, hub: Hub) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Self {
            url,
            asked: Arc::default(),
            break_after: Arc::default(),
        };
        let (asked, break_after) = (Arc::clone(&server.asked), Arc::clone(&server.break_after));
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that went away is its own business.
                let _ = answer(&stream, &folder, &hub, &asked, &break_after);
            }
        });
        server
    }

    pub fn files(folder: PathBuf) -> Self {
        Self::start(folder, Box::new(|_| Vec::new()))
    }

    /// The next blob of more than `count` bytes is cut off after them.
    pub fn break_next_blob_after(&self, count: usize) {
        *self.break_after.lock().unwrap() = Some(count);
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(
    stream: &TcpStream,
    folder: &std::path::Path,
    hub: &Hub,
    asked: &Mutex<Vec<Asked>>,
    break_after: &Mutex<Option<usize>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let path = words
        .next()
        .unwrap_or_default()
        .trim_start_matches('/')
        .to_owned();
    let (mut from, mut length) = (0, 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(range) = header.strip_prefix("range: bytes=") {
            from = range.trim_end_matches('-').parse().unwrap();
        }
        if let Some(text) = header.strip_prefix("content-length: ") {
            length = text.parse().unwrap();
        }
    }
    asked
        .lock()
        .unwrap()
        .push((method.clone(), path.clone(), from));
    let mut out = stream;
    if method == "POST" {
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let bytes = if path.ends_with("/requests") {
            serde_json::to_vec(&RequestAnswer {
                result: Enrolled::Waiting,
                fingerprint: String::new(),
            })?
        } else {
            hub(&body)
        };
        write!(
            out,
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            bytes.len()
        )?;
        return out.write_all(&bytes);
    }
    let Ok(bytes) = std::fs::read(folder.join(&path)) else {
        return out.write_all(
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
    };
    let bytes = &bytes[usize::try_from(from).unwrap().min(bytes.len())..];
    let status = if from > 0 {
        "206 Partial Content"
    } else {
        "200 OK"
    };
    write!(
        out,
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        bytes.len()
    )?;
    let mut break_after = break_after.lock().unwrap();
    let breaks = break_after.take_if(|count| path.starts_with("blobs/") && *count < bytes.len());
    out.write_all(&bytes[..breaks.unwrap_or(bytes.len()).min(bytes.len())])
}
