//! Asking programs, URLs and files of this site: may what waits be applied, is this site well.
//!
//! What comes in: what `agent.toml` names. What goes out: yes; no, with what was answered; that there was no answer; or that this machine cannot
//! ask at all. Each question has its time, and each answer its bound. It decides nothing: what an answer means is its caller's business.

mod condition;
pub mod settings;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use outhaul_http::{Authority, ClientSettings, HttpError, Method, TimeLimits};
use outhaul_kit::durable::{self, FileError};
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_reconcilers::settings::KubernetesConfig;
use outhaul_reconcilers::watched::{self, RunEnd, RunError, RunLimits};
use outhaul_reconcilers::{ApplyError, hook};

use crate::settings::AskConfig;

/// Most of an answer that is read, in bytes.
const MAX_BYTES: u64 = 4096;
/// Most files of a folder that are read.
const MAX_FILES: usize = 32;

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// Yes: exit code 0, or a status of 200 to 299.
    Yes,
    /// Anything else, with what was answered.
    No(String),
    /// Nobody listens at the URL.
    Absent(String),
    /// It did not answer, not in time, or with too much.
    Silent(String),
    /// This machine cannot ask: the program, or what is needed to ask, is not there or is not to be used. It says nothing of what was to be asked
    /// about.
    Unasked(Lacks),
}

/// Why this machine cannot ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacks {
    /// What lacks.
    pub problem: String,
    /// What to do about it.
    pub way_out: String,
}

impl Lacks {
    fn of(one: &AskConfig, problem: String) -> Self {
        let way_out = match (&one.url, &one.object) {
            (Some(_), _) => "put what is named there in its place",
            (None, Some(_)) => {
                "correct `[kubernetes]` in agent.toml, or put the file that it names in its place"
            }
            (None, None) => "see why the program does not start, such as by running it by hand",
        };
        Self {
            problem,
            way_out: way_out.to_owned(),
        }
    }
}

impl From<hook::NotRunnable> for Lacks {
    fn from(lacks: hook::NotRunnable) -> Self {
        Self {
            problem: lacks.problem,
            way_out: lacks.way_out,
        }
    }
}

impl Answered {
    fn unasked(one: &AskConfig, problem: String) -> Self {
        Self::Unasked(Lacks::of(one, problem))
    }
}

/// Asks a program, a URL, or the cluster about an object. Programs that run are locked in `locks`, which is made.
pub fn ask(
    one: &AskConfig,
    cluster: &KubernetesConfig,
    locks: &Path,
    heartbeat: &Heartbeat,
) -> Answered {
    match (&one.url, &one.object) {
        (Some(url), _) => ask_url(one, url),
        (None, Some(object)) => condition::ask(one, object, cluster, heartbeat),
        (None, None) => ask_program(one, locks, heartbeat),
    }
}

/// Whether this machine can ask it: the program is there, may be executed, and nobody but root and this user may change it; what is needed to
/// reach the URL or the cluster can be read. Starts nothing, and connects to nothing.
///
/// # Errors
/// [`ApplyError::Program`] says who may change it, [`ApplyError::Health`] what lacks.
pub fn can_ask(one: &AskConfig, cluster: &KubernetesConfig) -> Result<(), ApplyError> {
    let lacks = match (&one.url, &one.object, one.program.first()) {
        (Some(url), _, _) => client(one, url).map(drop).map_err(|e| e.to_string()),
        (None, Some(object), _) => condition::can_ask(object, cluster),
        (None, None, Some(program)) => {
            let program = Path::new(program);
            hook::runnable(program, None).map_err(|lacks| cannot_ask(one, lacks.into()))?;
            return hook::started(program, None).map(drop);
        }
        (None, None, None) => Ok(()),
    };
    lacks.map_err(|problem| cannot_ask(one, Lacks::of(one, problem)))
}

/// Why what counts as health cannot be asked, with the way out.
pub fn cannot_ask(one: &AskConfig, lacks: Lacks) -> ApplyError {
    ApplyError::Health {
        problem: lacks.problem,
        help: format!(
            "{}, or correct `{}` under `[health]` in agent.toml; then repeat the command",
            lacks.way_out, one.name
        ),
        name: one.name.clone(),
    }
}

fn ask_program(one: &AskConfig, locks: &Path, heartbeat: &Heartbeat) -> Answered {
    let Some((program, arguments)) = one.program.split_first() else {
        return Answered::unasked(one, "no program is named".to_owned());
    };
    if let Err(error) = durable::make_folder(locks) {
        return Answered::unasked(one, error.to_string());
    }
    // What the system says of a script without its interpreter is that the script is not there.
    if let Err(lacks) = hook::runnable(Path::new(program), None) {
        return Answered::Unasked(lacks.into());
    }
    // Whoever may change it decides what runs on this host.
    let file = match hook::started(Path::new(program), None) {
        Ok(Some(file)) => file,
        Ok(None) => program.into(),
        Err(ApplyError::Program { problem, help, .. }) => {
            return Answered::unasked(one, format!("`{program}`: {problem}; {help}"));
        }
        Err(error) => return Answered::unasked(one, error.to_string()),
    };
    let mut command = Command::new(file);
    command.args(arguments).current_dir("/");
    let bounds = RunLimits {
        input: b"",
        lock: &locks.join(&one.name),
        timeout: Duration::from_secs(one.timeout_s()),
        kept: usize::try_from(MAX_BYTES).unwrap_or(usize::MAX),
        no_more: true,
        whole: true,
    };
    let ran = match watched::run(command, &bounds, heartbeat) {
        Ok(ran) => ran,
        Err(RunError::File(error)) => return Answered::unasked(one, error.to_string()),
        Err(RunError::Program(error)) => {
            return Answered::unasked(one, format!("`{program}` cannot be run: {error}"));
        }
    };
    match ran.end {
        RunEnd::Exited(status) if status.success() => Answered::Yes,
        RunEnd::Exited(status) => {
            let said = [ran.stdout, ran.stderr].into_iter();
            let said = said.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
            let said = said.into_iter().find(|said| !said.is_empty());
            Answered::No(said.unwrap_or_else(|| format!("`{program}` ended with {status}")))
        }
        RunEnd::TooMuch => {
            Answered::Silent(format!("`{program}` printed more than {MAX_BYTES} bytes"))
        }
        RunEnd::TooLong | RunEnd::Busy | RunEnd::Stopped => {
            let seconds = one.timeout_s();
            Answered::Silent(format!("`{program}` did not answer within {seconds} s"))
        }
    }
}

/// What asks the URL.
fn client(one: &AskConfig, url: &str) -> Result<outhaul_http::Client, HttpError> {
    let authority = Authority::of(outhaul_http::is_tls(url).unwrap_or(true), one.ca.as_deref());
    let limit = Some(Duration::from_secs(one.timeout_s()));
    let user_agent = concat!("outhaul-agent/", env!("CARGO_PKG_VERSION"));
    outhaul_http::Client::new(&ClientSettings {
        limits: TimeLimits {
            connect: limit,
            answer: limit,
            body: limit,
            whole: limit,
        },
        ..ClientSettings::new(user_agent, authority)
    })
}

fn ask_url(one: &AskConfig, url: &str) -> Answered {
    let client = match client(one, url) {
        Ok(client) => client,
        Err(error) => return Answered::unasked(one, error.to_string()),
    };
    let answer = match client.request(Method::GET, url).send() {
        Ok(answer) => answer,
        Err(error) => {
            let problem = error.problem();
            return match error {
                HttpError::Refused { .. } => Answered::Absent(problem),
                _ => Answered::Silent(problem),
            };
        }
    };
    if (200..300).contains(&answer.status()) {
        return Answered::Yes;
    }
    let status = answer.status_text();
    let said = answer.excerpt(MAX_BYTES).trim().to_owned();
    Answered::No(match said.is_empty() {
        true => format!("it answers {status}"),
        false => said,
    })
}

/// The files of a folder, by name, without hidden ones; of each the beginning.
///
/// # Errors
/// [`FileError`], also when the folder is not there: what would lie in it cannot ask for anything.
pub fn files(folder: &Path) -> Result<Vec<(String, String)>, FileError> {
    let mut found = Vec::new();
    std::fs::metadata(folder).map_err(durable::at("look at", folder))?;
    for path in durable::list(folder)? {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.starts_with('.') || found.len() >= MAX_FILES {
            continue;
        }
        // Nothing but a plain file is opened: a pipe would never end.
        let plain = std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file());
        let text = match plain {
            true => match durable::read(&path, MAX_BYTES) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(error) => format!("the file cannot be read: {error}"),
            },
            false => "it is not a plain file".to_owned(),
        };
        found.push((name, text));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn program(arguments: &[&str]) -> AskConfig {
        AskConfig {
            name: "press".to_owned(),
            program: arguments.iter().map(ToString::to_string).collect(),
            timeout_s: Some(1),
            ..AskConfig::default()
        }
    }

    #[test]
    fn a_program_answers_by_its_exit_code_within_its_time_and_bound() {
        let folder = tempfile::tempdir().unwrap();
        let answer = |arguments: &[&str]| {
            ask(
                &program(arguments),
                &KubernetesConfig::default(),
                folder.path(),
                &Heartbeat::default(),
            )
        };
        let shell = |text: &str| answer(&["/bin/sh", "-c", text]);
        assert_eq!(answer(&["/bin/true"]), Answered::Yes);
        assert_eq!(
            shell("echo batch 7; echo more; exit 1"),
            Answered::No("batch 7\nmore".to_owned())
        );
        assert_eq!(
            shell("echo no power >&2; exit 75"),
            Answered::No("no power".to_owned())
        );
        let silent = [shell("sleep 600"), shell("yes | head -c 100000; exit 0")];
        for (answered, words) in silent.iter().zip(["within 1 s", "more than 4096"]) {
            let Answered::Silent(problem) = answered else {
                panic!("{answered:?}")
            };
            assert!(problem.contains(words), "{problem}");
        }
    }

    #[test]
    fn a_program_that_cannot_be_run_is_told_apart_from_one_that_answers_no_and_is_found_before_it_is_asked()
     {
        let folder = tempfile::tempdir().unwrap();
        let cluster = KubernetesConfig::default();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let write = |name: &str, text: &str, mode: u32| {
            fs::write(at(name), text).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        write("plain", "#!/bin/sh\n", 0o644);
        write("lost", "#!/nowhere/sh\n", 0o755);
        write("right", "#!/bin/sh\n", 0o755);
        fs::create_dir(at("folder")).unwrap();
        let asked = |name: &str| {
            let one = program(&[&at(name)]);
            let can = can_ask(&one, &cluster);
            let answered = ask(
                &one,
                &cluster,
                &folder.path().join("locks"),
                &Heartbeat::default(),
            );
            (can, answered)
        };
        for (name, lacks) in [
            ("gone", "is not there"),
            ("plain", "cannot be executed"),
            ("lost", "the interpreter of "),
            ("folder", "is not a file"),
        ] {
            let (can, answered) = asked(name);
            let Err(ApplyError::Health { problem, .. }) = can else {
                panic!("{name}: {can:?}")
            };
            assert!(problem.contains(lacks), "{name}: {problem}");
            assert!(
                matches!(answered, Answered::Unasked(_)),
                "{name}: {answered:?}"
            );
        }
        let (can, answered) = asked("right");
        can.unwrap();
        assert_eq!(answered, Answered::Yes);
        let url = AskConfig {
            url: Some("https://127.0.0.1:1/".to_owned()),
            ca: Some(at("no.pem").into()),
            ..program(&[])
        };
        assert!(matches!(
            can_ask(&url, &cluster),
            Err(ApplyError::Health { .. })
        ));
        let answered = ask(&url, &cluster, folder.path(), &Heartbeat::default());
        assert!(matches!(answered, Answered::Unasked(_)), "{answered:?}");
    }

    #[test]
    fn a_url_answers_by_its_status_and_one_at_which_nobody_listens_is_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/idle", listener.local_addr().unwrap());
        let one = AskConfig {
            url: Some(url.clone()),
            ..program(&[])
        };
        let folder = tempfile::tempdir().unwrap();
        let answers = std::thread::spawn(move || {
            for said in [
                "204 No Content\r\n\r\n",
                "503 Busy\r\nContent-Length: 7\r\n\r\nbatch 7",
            ] {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 1024]).unwrap();
                write!(stream, "HTTP/1.1 {said}").unwrap();
            }
        });
        let answer = |one: &AskConfig| {
            ask(
                one,
                &KubernetesConfig::default(),
                folder.path(),
                &Heartbeat::default(),
            )
        };
        assert_eq!(answer(&one), Answered::Yes);
        assert_eq!(answer(&one), Answered::No("batch 7".to_owned()));
        answers.join().unwrap();
        // A port at which nothing ever listens.
        let nobody = AskConfig {
            url: Some("http://127.0.0.1:1/".to_owned()),
            ..one
        };
        let answered = answer(&nobody);
        assert!(matches!(answered, Answered::Absent(_)), "{answered:?}");
    }

    #[test]
    fn of_a_folder_only_plain_files_are_opened_and_hidden_ones_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("press"), "batch 7\n").unwrap();
        std::fs::write(at(".press.new"), "half").unwrap();
        std::fs::write(at("long"), [b'x'; 5000]).unwrap();
        let pipe = Command::new("mkfifo").arg(at("pipe")).status();
        assert!(pipe.unwrap().success());
        let found = files(folder.path()).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["long", "pipe", "press"]);
        assert!(found[0].1.contains("cannot be read"), "{found:?}");
        assert_eq!(found[1].1, "it is not a plain file");
        assert_eq!(found[2].1, "batch 7\n");
        files(&at("none")).unwrap_err();
    }
}
