//! Eclipse Symphony as the conformance scenarios need it: the example hook program, and a stand-in for Symphony's REST API.
//!
//! What comes in: `examples/hooks/symphony`. What goes out: a [`Fixture`]. The program is the real one; Symphony cannot be built
//! from a package registry, so that a thread answers in its place: it keeps objects by their routes, and says of an instance
//! what Symphony's summary says. With the real API server the program was tried by hand (`examples/hooks/README.md`).

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use outhaul_test_kit::Load;
use outhaul_tests::{available_or_skip, workspace_root};
use serde_json::{Value, json};

use crate::reconcilers::{Fixture, There};

const ROOT: &str = "/v1alpha2/";

/// What the stand-in keeps.
#[derive(Default)]
struct Kept {
    objects: Mutex<BTreeMap<String, Value>>,
    goes: AtomicBool,
    stop: AtomicBool,
}

/// The example program and a stand-in for Symphony.
pub struct Symphony {
    kept: Arc<Kept>,
    port: u16,
    thread: Option<JoinHandle<()>>,
    program: PathBuf,
}

impl Drop for Symphony {
    fn drop(&mut self) {
        self.end();
    }
}

impl Symphony {
    #[track_caller]
    pub fn new() -> Option<Self> {
        if !available_or_skip("python3") {
            return None;
        }
        let mut this = Self {
            kept: Arc::default(),
            port: 0,
            thread: None,
            program: workspace_root().join("examples/hooks/symphony"),
        };
        this.begin();
        Some(this)
    }

    fn begin(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        self.port = listener.local_addr().unwrap().port();
        let kept = Arc::clone(&self.kept);
        kept.stop.store(false, Ordering::Relaxed);
        self.thread = Some(std::thread::spawn(move || {
            while !kept.stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => drop(answer(&kept, stream)),
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
        }));
    }

    fn end(&mut self) {
        self.kept.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    fn with(&self, name: &str, content: &str, slow: bool) -> Load {
        let version = json!({"kind": "SolutionVersion", "metadata": {"name": name},
            "spec": {"rootResource": name, "components": [{"name": "web", "properties": {"content": content}}]}});
        let instance = json!({"kind": "Instance", "metadata": {"name": name},
            "spec": {"solutionversion": name, "target": {"name": "bench"}, "slow": slow}});
        Load::new(name)
            .file("version.json", version.to_string())
            .file("instance.json", instance.to_string())
    }
}

/// Answers one request as Symphony would.
fn answer(kept: &Kept, stream: TcpStream) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split(' ').map(ToOwned::to_owned);
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim().split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (code, reported) = reported(kept, &method, path.trim_start_matches(ROOT), &body);
    let text = reported.to_string();
    write!(
        &stream,
        "HTTP/1.1 {code} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}

fn reported(kept: &Kept, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
    let mut objects = kept.objects.lock().unwrap();
    if let Some(name) = path.strip_prefix("solutionversion/queue?instance=") {
        let Some(found) = objects.get(&format!("instances/{name}")) else {
            return (404, Value::Null);
        };
        let done = found["spec"]["slow"] != true || kept.goes.load(Ordering::Relaxed);
        let state = if done { 2 } else { 1 };
        return (
            200,
            json!({"state": state, "summary": {"allAssignedDeployed": done}}),
        );
    }
    match method {
        _ if path == "users/auth" => (200, json!({"accessToken": "of a stand-in"})),
        "POST" => {
            objects.insert(
                path.to_owned(),
                serde_json::from_slice(body).unwrap_or_default(),
            );
            (200, json!({}))
        }
        "DELETE" => (200, objects.remove(path).map_or(Value::Null, |_| json!({}))),
        _ => objects
            .get(path)
            .map_or((404, Value::Null), |found| (200, found.clone())),
    }
}

impl Fixture for Symphony {
    fn kind(&self) -> &'static str {
        "symphony"
    }

    fn clean(&mut self) {
        self.kept.objects.lock().unwrap().clear();
        self.kept.goes.store(false, Ordering::Relaxed);
    }

    fn settings(&self) -> String {
        format!(
            "reconciler = \"symphony\"\n[hook]\nprogram = \"{}\"\n\
             environment = {{ SYMPHONY_URL = \"http://127.0.0.1:{}/v1alpha2\" }}\n",
            self.program.display(),
            self.port
        )
    }

    fn load(&self, name: &str, content: &str) -> Load {
        self.with(name, content, false)
    }

    fn broken(&self, name: &str) -> Load {
        self.load(name, "never").file(
            "press.json",
            r#"{"kind": "Press", "metadata": {"name": "a"}}"#,
        )
    }

    /// An instance that Symphony has not deployed yet.
    fn slow(&self, name: &str, content: &str) -> Option<Load> {
        Some(self.with(name, content, true))
    }

    fn at_work(&self) -> bool {
        let objects = self.kept.objects.lock().unwrap();
        objects.values().any(|found| found["spec"]["slow"] == true)
    }

    fn let_go(&self) {
        self.kept.goes.store(true, Ordering::Relaxed);
    }

    fn there(&self) -> There {
        let objects = self.kept.objects.lock().unwrap();
        let versions = objects.iter().filter_map(|(path, found)| {
            let name = path.strip_prefix("solutionversions/")?;
            let content = found["spec"]["components"][0]["properties"]["content"].as_str()?;
            Some((name.to_owned(), content.to_owned()))
        });
        versions.collect()
    }

    fn spoil(&self, name: &str) {
        let mut objects = self.kept.objects.lock().unwrap();
        let found = objects
            .get_mut(&format!("solutionversions/{name}"))
            .unwrap();
        found["spec"]["components"][0]["properties"]["content"] = "spoilt".into();
    }

    fn absent(&mut self, absent: bool) {
        match absent {
            true => self.end(),
            false => self.begin(),
        }
    }

    fn said_when_absent(&self) -> &'static [&'static str] {
        &[
            "cannot do it now: Symphony at http://127.0.0.1:",
            "help: see what the program",
        ]
    }

    fn removing(&self) -> &'static [&'static str] {
        &["hook-removed"]
    }

    fn instants(&self) -> &'static [&'static str] {
        &["inventory-intended", "hook-applied", "step-applied"]
    }
}
