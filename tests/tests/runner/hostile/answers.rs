//! What a peer says, byte by byte, as a script says it.
//!
//! What comes in: a script: lines of a word and a text in quotes as in JSON. What goes out: the bytes, on a real
//! socket, as fast or as slowly as the script wants. A web server of a folder is one of the words. It ends
//! with the test's process, and knows nothing of what it says.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Between two bytes of a peer that only just lives.
const DRIP: Duration = Duration::from_millis(500);
/// Most bytes of what has no end: whoever takes that much has no bound.
const ENDLESS: usize = 4 << 30;

/// Says `script` on `stream`; an error is a peer that would hear no more.
pub fn say(mut stream: &TcpStream, script: &str, folder: &Path) -> io::Result<()> {
    for line in script.lines().filter(|line| !line.is_empty()) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let quoted = |text: &str| -> Vec<u8> {
            serde_json::from_str::<String>(text)
                .unwrap_or_else(|error| panic!("{line}: {error}"))
                .into_bytes()
        };
        match word {
            "text" => stream.write_all(&quoted(rest))?,
            "bytes" => stream.write_all(&hex(rest))?,
            "repeat" => {
                let (count, text) = rest.split_once(' ').unwrap();
                let bytes = match text.strip_prefix("file ") {
                    Some(name) => fs::read(folder.join(name))?,
                    None => quoted(text),
                };
                for _ in 0..count.parse::<usize>().unwrap() {
                    stream.write_all(&bytes)?;
                }
            }
            "endless" => {
                let bytes = quoted(rest).repeat(4096);
                for _ in 0..ENDLESS / bytes.len() {
                    stream.write_all(&bytes)?;
                }
            }
            "drip" => loop {
                stream.write_all(&quoted(rest))?;
                std::thread::sleep(DRIP);
            },
            // Until the other side gives up.
            "hang" => drop(stream.read(&mut [0; 1])?),
            "file" => stream.write_all(&fs::read(folder.join(rest))?)?,
            other => panic!("nobody knows how to say `{other}`"),
        }
    }
    stream.flush()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks(2).map(|two| str::from_utf8(two).unwrap());
    pairs
        .map(|two| u8::from_str_radix(two, 16).unwrap())
        .collect()
}

/// A peer that answers everyone with `script`; returns `HOST:PORT`. `served`, when there is one, is a folder
/// that is handed out as a web server would.
pub fn peer(script: String, folder: PathBuf, served: Option<PathBuf>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (script, folder) = (Arc::new(script), Arc::new(folder));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (script, folder, served) =
                (Arc::clone(&script), Arc::clone(&folder), served.clone());
            // A client that goes away is its own business.
            std::thread::spawn(move || {
                let _ = match served {
                    None => heard(&stream).and_then(|_| say(&stream, &script, &folder)),
                    Some(served) => hand_out(&stream, &served),
                };
            });
        }
    });
    address
}

/// Reads a request's head and body; returns its first line.
fn heard(stream: &TcpStream) -> io::Result<String> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        // What is not HTTP, a TLS greeting for example, has no such end.
        if reader.read_line(&mut line).is_err() || line.trim().is_empty() {
            break;
        }
        if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = text.trim().parse().unwrap_or(0);
        }
    }
    io::copy(&mut reader.take(length), &mut io::sink())?;
    stream.set_read_timeout(None)?;
    Ok(first)
}

fn hand_out(mut stream: &TcpStream, folder: &Path) -> io::Result<()> {
    let first = heard(stream)?;
    let path = first.split(' ').nth(1).unwrap_or_default();
    let found = fs::read(folder.join(path.trim_start_matches('/')));
    let (status, bytes) = match found {
        Ok(bytes) => ("200 OK", bytes),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let length = bytes.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(&bytes)
}
