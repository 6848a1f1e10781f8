//! Jinja templates that could fill the memory, rendered in a separate process.
//!
//! What comes in: a template's text and the data of one assignment. What goes out: its text, or what is
//! wrong with it. The engine counts steps, and no bytes: a few of them double a text until the memory is
//! full, and nobody can stop them from within. A process with little memory and little time ends alone:
//! that is the failure of one assignment, and the next one gets a new process. Templates that only write
//! values down cannot do that, and are rendered here. A program that did not call [`isolate_in`] (a test)
//! renders all of them here.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use outhaul_gocompat::{GoMap, GoValue, MapKind, TemplateView};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::jinja::{self, Problem};

/// The argument with which the program becomes such a process.
pub const ARGUMENT: &str = "__render-jinja";
/// Memory of the process in bytes, the program itself included.
const MAX_MEMORY: u64 = 1 << 30;
/// Processor time that one text may take, in seconds: not elapsed time, which a busy machine uses up.
const MAX_SECONDS: u64 = 10;
/// How often a text that is not there yet is asked for.
const LOOK: Duration = Duration::from_millis(250);
/// Most looks for one text, five minutes: for a process that waits and works no more.
const MAX_LOOKS: u32 = 1200;
/// Ticks of processor time in a second, as `/proc` counts them (`USER_HZ`).
const TICKS: u64 = 100;
/// After so many stops a template is not tried again in this run: thousands of assignments may share it.
const MAX_STOPS: usize = 2;
/// Longest question or answer in bytes.
const MAX_LINE: u64 = 128 << 20;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Renders such templates by starting `program` with [`ARGUMENT`] from now on.
pub fn isolate_in(program: PathBuf) {
    let _ = PROGRAM.set(program);
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Text(String),
    Problem(Problem),
}

/// The process, started when it is first needed.
#[derive(Debug, Default)]
pub(super) struct Process(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    running: Option<Running>,
    /// How often each template was stopped.
    stops: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    questions: ChildStdin,
    answers: Receiver<Vec<u8>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a template does more than write values down.
pub(super) fn is_needed(text: &str) -> bool {
    PROGRAM.get().is_some() && may_grow(text)
}

fn may_grow(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "block",
        "call",
        "do",
        "extends",
        "filter",
        "from",
        "import",
        "include",
        "macro",
        "recursive",
        "set",
        "with",
    ];
    let mut rest = text;
    while let Some(at) = rest.find("{{").into_iter().chain(rest.find("{%")).min() {
        let (open, after) = rest.split_at(at + 2);
        let close = if open.ends_with("{{") { "}}" } else { "%}" };
        let (code, after) = after.split_once(close).unwrap_or((after, ""));
        rest = after;
        // The closing sign may lie in a text, and the code go on behind it.
        let (single, double) = (code.matches('\'').count(), code.matches('"').count());
        if single % 2 == 1 || double % 2 == 1 || (single > 0 && double > 0) {
            return true;
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || " \t\r\n_.|=!<>,:-\"'/[]".contains(c);
        let listed = code.match_indices('[').any(|(at, _)| {
            let inside = code.get(at + 1..).unwrap_or_default().trim_start();
            !inside.starts_with(['"', '\''])
        });
        let words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        if !code.chars().all(plain) || listed || words.into_iter().any(|word| WORDS.contains(&word))
        {
            return true;
        }
    }
    false
}

impl Process {
    /// The text of `template`.
    pub fn render(&self, template: &str, data: TemplateView<'_>) -> Result<String, Problem> {
        let problem = |what: &str| Problem {
            line: 1,
            start: None,
            what: what.to_owned(),
        };
        let stopped = || {
            problem(&format!(
                "it needs more than {} MiB of memory or {MAX_SECONDS} s of processor time, and was stopped",
                MAX_MEMORY >> 20,
            ))
        };
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state
            .stops
            .get(template)
            .is_some_and(|stops| *stops >= MAX_STOPS)
        {
            return Err(stopped());
        }
        if state.running.is_none() {
            let started = Running::start()
                .map_err(|error| problem(&format!("no process to render it in: {error}")))?;
            state.running = Some(started);
        }
        let answer = state.running.as_mut().and_then(|running| {
            let question = json!({"template": template, "data": outgoing(data)});
            writeln!(running.questions, "{question}").ok()?;
            running.questions.flush().ok()?;
            let line = running.answer()?;
            serde_json::from_slice(&line).ok()
        });
        match answer {
            Some(Answer::Text(text)) => Ok(text),
            Some(Answer::Problem(problem)) => Err(problem),
            None => {
                state.running = None;
                *state.stops.entry(template.to_owned()).or_default() += 1;
                Err(stopped())
            }
        }
    }
}

impl Running {
    fn start() -> std::io::Result<Self> {
        let program = PROGRAM.get().ok_or(std::io::ErrorKind::NotFound)?;
        let mut child = Command::new(program)
            .arg(ARGUMENT)
            // The allocator would set 1 GiB of addresses aside at its start, which is the limit.
            .env("MIMALLOC_ARENA_RESERVE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (Some(questions), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(std::io::Error::other("it has no pipes"));
        };
        let (send, answers) = mpsc::channel();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let mut line = Vec::new();
                let read = output.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
                if !read.is_ok_and(|read| read > 0) || send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            child,
            questions,
            answers,
        })
    }

    /// The next answer; `None` when the process ended or used up its time.
    fn answer(&self) -> Option<Vec<u8>> {
        let begun = self.ticks()?;
        for _ in 0..MAX_LOOKS {
            match self.answers.recv_timeout(LOOK) {
                Ok(line) => return Some(line),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.ticks()?.saturating_sub(begun) >= MAX_SECONDS * TICKS {
                return None;
            }
        }
        None
    }

    /// Processor time of the process up to now: fields 14 and 15 of its `stat` (proc(5)).
    fn ticks(&self) -> Option<u64> {
        let mut stat = String::new();
        std::fs::File::open(format!("/proc/{}/stat", self.child.id()))
            .and_then(|file| file.take(4096).read_to_string(&mut stat))
            .ok()?;
        // The name in field 2 may hold anything, a bracket included.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace().skip(11);
        let user: u64 = fields.next()?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        Some(user + system)
    }
}

/// The other side: limits itself, then answers questions until there are none.
///
/// The limit is set here and not by the parent, which could come at any instant of the start.
pub fn serve() {
    let limit = Rlimit {
        current: Some(MAX_MEMORY),
        maximum: Some(MAX_MEMORY),
    };
    if setrlimit(Resource::As, limit).is_err() {
        return;
    }
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    let mut known: Option<(String, jinja::One)> = None;
    loop {
        let mut line = Vec::new();
        let read = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        if !read.is_ok_and(|read| read > 0) {
            return;
        }
        let Ok(question) = serde_json::from_slice::<Value>(&line) else {
            return;
        };
        let text = question
            .get("template")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if known.as_ref().is_none_or(|(known, _)| known != text) {
            known = Some((text.to_owned(), jinja::One::new(text)));
        }
        let data = incoming(question.get("data").unwrap_or(&Value::Null));
        let answer = match known.as_ref().map(|(_, one)| one.render(&data)) {
            Some(Ok(text)) => Answer::Text(text),
            Some(Err(problem)) => Answer::Problem(problem),
            None => return,
        };
        let Ok(answer) = serde_json::to_string(&answer) else {
            return;
        };
        if writeln!(output, "{answer}")
            .and_then(|()| output.flush())
            .is_err()
        {
            return;
        }
    }
}

fn outgoing(data: TemplateView<'_>) -> Value {
    json!({
        "deployment_target_name": data.deployment_target_name,
        "namespace": data.namespace,
        "environment": data.environment,
        "workspace": data.workspace,
        "workload": data.workload,
        "labels": data.labels,
        "manifests": data.manifests,
        "cluster_type": data.cluster_type,
        "config_data": packed(data.config_data),
    })
}

fn incoming(value: &Value) -> outhaul_gocompat::TemplateData {
    let text = |key: &str| {
        let text = value.get(key).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let map = |key: &str| {
        let map = value.get(key)?.as_object()?;
        let pairs = map
            .iter()
            .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()));
        Some(pairs.collect())
    };
    outhaul_gocompat::TemplateData {
        deployment_target_name: text("deployment_target_name"),
        namespace: text("namespace"),
        environment: text("environment"),
        workspace: text("workspace"),
        workload: text("workload"),
        labels: map("labels"),
        manifests: map("manifests"),
        cluster_type: text("cluster_type"),
        config_data: unpacked(value.get("config_data").unwrap_or(&Value::Null)),
    }
}

/// A value with its type beside it, because JSON has fewer.
fn packed(value: &GoValue) -> Value {
    match value {
        GoValue::Null => json!(["n"]),
        GoValue::Bool(value) => json!(["b", value]),
        GoValue::Int(value) => json!(["i", value]),
        GoValue::Uint(value) => json!(["u", value]),
        // JSON has no infinity, and some readers round.
        GoValue::Float(value) => json!(["f", value.to_bits()]),
        GoValue::Str(value) => json!(["s", &**value]),
        GoValue::Time(value) => json!(["t", value]),
        GoValue::Bytes(value) => json!(["x", hex::encode(value)]),
        GoValue::List(items) => json!(["l", items.iter().map(packed).collect::<Vec<_>>()]),
        GoValue::Map(map) => {
            let any = map.kind == MapKind::Any;
            let pairs = map
                .iter()
                .map(|(key, value)| json!([packed(key), packed(value)]));
            json!(["m", pairs.collect::<Vec<_>>(), any])
        }
    }
}

fn unpacked(value: &Value) -> GoValue {
    let at = |index: usize| value.get(index).unwrap_or(&Value::Null);
    let text = || at(1).as_str().unwrap_or_default().to_owned();
    let items = || at(1).as_array().into_iter().flatten();
    match at(0).as_str().unwrap_or_default() {
        "b" => GoValue::Bool(at(1).as_bool().unwrap_or_default()),
        "i" => GoValue::Int(at(1).as_i64().unwrap_or_default()),
        "u" => GoValue::Uint(at(1).as_u64().unwrap_or_default()),
        "f" => GoValue::Float(f64::from_bits(at(1).as_u64().unwrap_or_default())),
        "s" => GoValue::Str(text().into()),
        "t" => GoValue::Time(text()),
        "x" => GoValue::Bytes(hex::decode(text()).unwrap_or_default()),
        "l" => GoValue::List(items().map(unpacked).collect()),
        "m" => {
            let any = at(2).as_bool().unwrap_or_default();
            let mut map = GoMap::new(if any { MapKind::Any } else { MapKind::Str });
            for pair in items() {
                let part = |index: usize| unpacked(pair.get(index).unwrap_or(&Value::Null));
                map.entries.insert(part(0), part(1));
            }
            GoValue::Map(map)
        }
        _ => GoValue::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_through_as_it_was() {
        let mut map = GoMap::new(MapKind::Any);
        for (key, value) in [
            (GoValue::Int(-1), GoValue::Null),
            (GoValue::from("a\n\u{1f600}"), GoValue::Float(f64::INFINITY)),
            (GoValue::Bool(true), GoValue::Uint(u64::MAX)),
            (GoValue::Float(0.1), GoValue::Bytes(vec![0, 255])),
            (
                GoValue::from("l"),
                GoValue::List(vec![GoValue::Time("2026".into())]),
            ),
        ] {
            map.entries.insert(key, value);
        }
        let value = GoValue::Map(map);
        assert_eq!(unpacked(&packed(&value)), value);
    }

    #[test]
    fn what_only_writes_values_down_needs_no_process() {
        for text in [
            "namespace: {{ Namespace }}\nx: {{ ConfigData[\"A\"] | quote }}",
            "{% for key in ConfigData %}{{ key }}: {{ ConfigData.x|to_yaml }}{% endfor %}",
            "{%- if Labels.purpose == 'test' -%}a{%- endif -%}",
            "a ~ b * c",
        ] {
            assert!(!may_grow(text), "{text}");
        }
        for text in [
            "{{ 'x' * 100000000 }}",
            "{% set x = x ~ x %}",
            "{{ [1, 2]|to_json }}",
            "{{ range(9) }}",
            "{% with a = b %}{% endwith %}",
            "{% for x in y recursive %}{% endfor %}",
            "{% macro f() %}{% endmacro %}",
            "{{ 'a'|replace('a', b) }}",
            "{{ {1: 2} }}",
            "{{ \"}}\" ~ x ~ x }}",
            "{{ '\"' ~ \"}}\" ~ x }}",
            "{# {{ #}{{ x ~ x }}",
            "{# {% #}{{ x ~ x }}%}",
        ] {
            assert!(may_grow(text), "{text}");
        }
    }
}
