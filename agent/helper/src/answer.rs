//! One request: who asks, what they ask for, and the answer.
//!
//! What comes in: the connection that systemd puts on standard input (`Accept=yes`,
//! `StandardInput=socket`). What goes out: one answer on it, and a line for the journal. Nothing is read of
//! a peer that is neither the owner of the agent's folder nor root. While work goes on an empty line says
//! every few seconds that it does, so that a helper that hangs is distinguished from one that is busy.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use outhaul_kit::heartbeat::Heartbeat;
use outhaul_reconcilers::remote::protocol::{
    FORMAT, HelperAnswer, HelperRequest, MAX_REQUEST_BYTES,
};
use outhaul_signer::trust::MAX_VERSION;

use super::{Helper, RequestFailure, refused};
use crate::durable::at;
use crate::error::AgentError;

/// How long a peer may take to say what it wants, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often work under way says so.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);

/// Answers the request on standard input.
///
/// # Errors
/// [`AgentError`] when standard input is not a socket, or breaks. What is refused is an answer.
pub fn run(folder: &Path, agent: &Path) -> Result<(), AgentError> {
    let stream = connection()?;
    let broken = |error: io::Error| AgentError::Network {
        url: "the agent's connection".to_owned(),
        problem: error.to_string(),
    };
    let wait = Some(PATIENCE);
    stream.set_read_timeout(wait).map_err(broken)?;
    stream.set_write_timeout(wait).map_err(broken)?;
    let answer = match request(&stream, agent) {
        // Someone looked whether anything answers here.
        Ok(None) => return Ok(()),
        Ok(Some(request)) => {
            let heartbeat = Heartbeat::default();
            // What changes something is brought to its end, whoever listens; a mere look is not.
            let ends = (!request.verb.changes()).then(|| heartbeat.clone());
            let (done, living) = heartbeat_lines(&stream, ends).map_err(broken)?;
            let verb = request.verb.as_str();
            let number = request.number;
            tracing::info!(number, "{verb} `{}`", request.assignment);
            // The lock and the database are given back before the answer: the next request may follow it.
            let answer = Helper::open(folder, agent, heartbeat)
                .and_then(|mut helper| helper.perform(&request));
            drop(done);
            let _ = living.join();
            answer
        }
        Err(problem) => Err(problem),
    };
    let answer = answer.unwrap_or_else(|problem| match problem {
        RequestFailure::Refused { rule, message } => HelperAnswer::Refused { rule, message },
        RequestFailure::Unable { problem, help } => HelperAnswer::Unable { problem, help },
    });
    match &answer {
        HelperAnswer::Refused { rule, message } => {
            tracing::warn!("refused ({rule}): {message}; nothing was changed");
        }
        HelperAnswer::Unable { problem, .. } => tracing::warn!("cannot do it: {problem}"),
        HelperAnswer::Result(_) | HelperAnswer::Applied { .. } | HelperAnswer::Removed { .. } => {}
    }
    let mut line = crate::state::to_json(&answer);
    line.push('\n');
    (&stream).write_all(line.as_bytes()).map_err(broken)
}

/// Standard input, if it is a socket.
fn connection() -> Result<UnixStream, AgentError> {
    let usage = |problem: String| AgentError::Usage {
        message: format!("standard input is not a connection of the agent: {problem}"),
        help: "`outhaul-apply.socket` starts this; enable it with `systemctl enable --now`".into(),
    };
    let own = io::stdin().as_fd().try_clone_to_owned();
    let stream = UnixStream::from(own.map_err(|error| usage(error.to_string()))?);
    match stream.local_addr() {
        Ok(_) => Ok(stream),
        Err(error) => Err(usage(error.to_string())),
    }
}

/// What an allowed peer asks for; `None` when it went away without a word.
fn request(stream: &UnixStream, agent: &Path) -> Result<Option<HelperRequest>, RequestFailure> {
    let peer = rustix::net::sockopt::socket_peercred(stream).map_err(|error| {
        refused(
            "peer",
            format!("the caller cannot be identified ({error}), and gets no answer"),
        )
    })?;
    let uid = peer.uid.as_raw();
    let owner = std::fs::symlink_metadata(agent)
        .map_err(at("look at", agent))?
        .uid();
    if uid != owner && uid != 0 {
        return Err(refused(
            "peer",
            format!(
                "user {uid} asks; only the owner of `{}` (user {owner}) and root may",
                agent.display()
            ),
        ));
    }
    let mut bytes = Vec::new();
    let mut reader = BufReader::new(stream.take(MAX_REQUEST_BYTES + 1));
    let read = reader.read_until(b'\n', &mut bytes);
    if let Err(error) = read {
        return Err(refused("request", format!("it cannot be read: {error}")));
    }
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.len() as u64 > MAX_REQUEST_BYTES {
        let message = format!("it is larger than {MAX_REQUEST_BYTES} bytes");
        return Err(refused("request", message));
    }
    let request: HelperRequest = serde_json::from_slice(&bytes)
        .map_err(|error| refused("request", format!("it is not understood: {error}")))?;
    if request.format != FORMAT {
        return Err(refused(
            "request",
            format!("its format is not `{FORMAT}`: update agent and helper together"),
        ));
    }
    if request.number > MAX_VERSION {
        return Err(refused("request", "its number is out of range"));
    }
    Ok(Some(request))
}

/// A thread that says every few seconds that work goes on, until its sender is dropped. When nobody listens any
/// more, it asks the work behind `ends` to stop.
fn heartbeat_lines(
    stream: &UnixStream,
    ends: Option<Heartbeat>,
) -> io::Result<(Sender<()>, JoinHandle<()>)> {
    let mut stream = stream.try_clone()?;
    let (done, ended) = mpsc::channel::<()>();
    let thread = thread::Builder::new().spawn(move || {
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(SIGN_OF_LIFE) {
            if stream.write_all(b"\n").is_err() {
                if let Some(heartbeat) = &ends {
                    heartbeat.cancel();
                }
                return;
            }
        }
    })?;
    Ok((done, thread))
}
