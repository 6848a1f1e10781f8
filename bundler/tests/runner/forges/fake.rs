//! `FakeGitHub` and `FakeGitLab`: servers on this machine that know the documented requests and nothing
//! else. Neither is the real thing: they check that what is sent is what the documentation asks for,
//! and keep pull requests in memory. Any other request is answered 404, or 401 without the token.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

pub const TOKEN: &str = "test-token";

/// One request as it came in.
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: BTreeMap<String, String>,
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

/// A pull request in a fake's memory.
#[derive(Debug, Clone)]
pub struct Pull {
    pub number: u64,
    pub title: String,
    pub body: String,
    pub head: String,
    pub base: String,
    pub open: bool,
    pub labels: BTreeSet<String>,
}

pub type Pulls = Arc<Mutex<Vec<Pull>>>;
/// How a fake answers a request; `None` for what its documentation does not have.
type Fake = fn(&Request, &mut Vec<Pull>) -> Option<(u16, Value)>;

/// A server that answers as `fake` says.
pub fn serve(fake: Fake) -> (String, Pulls) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let pulls = Pulls::default();
    let memory = Arc::clone(&pulls);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), fake, &memory);
        }
    });
    (url, pulls)
}

fn answer(mut stream: TcpStream, fake: Fake, pulls: &Pulls) {
    let Some(request) = read(&stream) else { return };
    let (status, body) = fake(&request, &mut pulls.lock().unwrap()).unwrap_or_else(|| {
        let what = format!(
            "{} {}: not in the documentation",
            request.method, request.path
        );
        (404, json!({"message": what}))
    });
    let text = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let _ = write!(
        stream,
        "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers
        .get("content-length")
        .map_or(0, |n| n.parse().unwrap());
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let query = pairs.map(|(name, value)| (name.to_owned(), decoded(value)));
    Some(Request {
        method,
        path: path.to_owned(),
        query: query.collect(),
        headers,
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    })
}

fn decoded(text: &str) -> String {
    text.replace("%2F", "/").replace("%3A", ":")
}

fn text(body: &Value, field: &str) -> String {
    body[field].as_str().unwrap_or_default().to_owned()
}

fn next_number(pulls: &[Pull]) -> u64 {
    pulls.len() as u64 + 1
}

impl Request {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The query is exactly this, in any order.
    fn asks(&self, names: &[&str]) -> bool {
        self.query
            .keys()
            .map(String::as_str)
            .eq(names.iter().copied())
    }
}

/// `docs.github.com/rest`, version 2022-11-28, of the project `team/platform`.
pub fn fake_git_hub(request: &Request, pulls: &mut Vec<Pull>) -> Option<(u16, Value)> {
    if request.header("authorization") != format!("Bearer {TOKEN}") {
        return Some((401, json!({"message": "Bad credentials"})));
    }
    let sound = request.header("accept") == "application/vnd.github+json"
        && request.header("x-github-api-version") == "2022-11-28"
        && !request.header("user-agent").is_empty();
    if !sound {
        return Some((403, json!({"message": "headers"})));
    }
    let show = |pull: &Pull| {
        let labels: Vec<_> = pull
            .labels
            .iter()
            .map(|name| json!({"name": name}))
            .collect();
        json!({"number": pull.number, "html_url": format!("https://x/{}", pull.number),
            "title": pull.title, "body": pull.body, "labels": labels})
    };
    let path = request.path.strip_prefix("/repos/team/platform/")?;
    let parts: Vec<&str> = path.split('/').collect();
    match (request.method.as_str(), parts.as_slice()) {
        ("GET", ["pulls"]) if request.asks(&["base", "head", "state"]) => {
            let found = pulls.iter().filter(|pull| {
                pull.open
                    && request.query["state"] == "open"
                    && request.query["head"] == format!("team:{}", pull.head)
                    && request.query["base"] == pull.base
            });
            Some((200, found.map(show).collect()))
        }
        ("POST", ["pulls"]) => {
            let pull = Pull {
                number: next_number(pulls),
                title: text(&request.body, "title"),
                body: text(&request.body, "body"),
                head: text(&request.body, "head"),
                base: text(&request.body, "base"),
                open: true,
                labels: BTreeSet::new(),
            };
            pulls.push(pull.clone());
            Some((201, show(&pull)))
        }
        ("PATCH", ["pulls", number]) => {
            let pull = pulls.iter_mut().find(|p| p.number.to_string() == *number)?;
            if let Some(title) = request.body["title"].as_str() {
                title.clone_into(&mut pull.title);
                pull.body = text(&request.body, "body");
            }
            pull.open = pull.open && request.body["state"] != "closed";
            Some((200, show(pull)))
        }
        ("POST", ["issues", number, "labels"]) => {
            let pull = pulls.iter_mut().find(|p| p.number.to_string() == *number)?;
            let names = request.body["labels"].as_array()?;
            pull.labels
                .extend(names.iter().map(|n| n.as_str().unwrap().to_owned()));
            Some((200, json!([])))
        }
        ("DELETE", ["issues", number, "labels", name]) => {
            let pull = pulls.iter_mut().find(|p| p.number.to_string() == *number)?;
            pull.labels.remove(*name).then(|| (200, json!([])))
        }
        _ => None,
    }
}

/// `docs.gitlab.com/api/merge_requests`, of the project `team/platform`.
pub fn fake_git_lab(request: &Request, pulls: &mut Vec<Pull>) -> Option<(u16, Value)> {
    if request.header("authorization") != format!("Bearer {TOKEN}") {
        return Some((401, json!({"message": "401 Unauthorized"})));
    }
    let show = |pull: &Pull| {
        json!({"iid": pull.number, "web_url": format!("https://x/{}", pull.number),
            "title": pull.title, "description": pull.body, "labels": pull.labels,
            "source_project_id": 7, "target_project_id": 7})
    };
    let path = request
        .path
        .strip_prefix("/projects/team%2Fplatform/merge_requests")?;
    match (request.method.as_str(), path.strip_prefix('/')) {
        ("GET", None) if request.asks(&["source_branch", "state", "target_branch"]) => {
            let found = pulls.iter().filter(|pull| {
                pull.open
                    && request.query["state"] == "opened"
                    && request.query["source_branch"] == pull.head
                    && request.query["target_branch"] == pull.base
            });
            Some((200, found.map(show).collect()))
        }
        ("POST", None) => {
            let pull = Pull {
                number: next_number(pulls),
                title: text(&request.body, "title"),
                body: text(&request.body, "description"),
                head: text(&request.body, "source_branch"),
                base: text(&request.body, "target_branch"),
                open: true,
                labels: BTreeSet::new(),
            };
            pulls.push(pull.clone());
            Some((201, show(&pull)))
        }
        ("PUT", Some(number)) => {
            let pull = pulls.iter_mut().find(|p| p.number.to_string() == number)?;
            for (field, value) in request.body.as_object()? {
                let value = value.as_str()?.to_owned();
                match field.as_str() {
                    "title" => pull.title = value,
                    "description" => pull.body = value,
                    "add_labels" => drop(pull.labels.insert(value)),
                    "remove_labels" => drop(pull.labels.remove(&value)),
                    "state_event" => pull.open = value != "close",
                    _ => return None,
                }
            }
            Some((200, show(pull)))
        }
        _ => None,
    }
}
