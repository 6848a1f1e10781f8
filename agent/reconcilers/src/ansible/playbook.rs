//! One run of `ansible-playbook`: started, watched, bounded, and its results read back.
//!
//! What comes in: a playbook, its folder, variables, a time limit. What goes out: each task's result and
//! the end of what was printed, as [`watched`] kept it. It decides nothing about the results.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use outhaul_bundle::report::StepResult;
use outhaul_kit::durable;
use outhaul_kit::heartbeat::Heartbeat;
use serde::Deserialize;

use crate::error::ApplyError;
use crate::hook;
use crate::outcome::step;
use crate::settings::AnsibleConfig;
use crate::watched::{self, RunEnd, RunError, RunLimits};

/// Our own callback, written into the state folder because ansible-core has none that gives JSON.
pub const CALLBACK: &str = include_str!("outhaul_results.py");
/// The callback's name.
const CALLBACK_NAME: &str = "outhaul_results";
/// Most bytes of results that are read back.
const MAX_RESULT_BYTES: u64 = 8 * 1024 * 1024;
/// Bytes kept of what the program prints: the end, where the reason stands.
const MAX_OUTPUT_BYTES: usize = 16 * 1024;

/// Where roles of a machine are by default.
const ROLES: [&str; 2] = ["/usr/share/ansible/roles", "/etc/ansible/roles"];
/// Where collections of a machine are by default, beside those of the Python that runs Ansible.
const COLLECTIONS: [&str; 1] = ["/usr/share/ansible/collections"];

/// What to run.
#[derive(Debug)]
pub struct PlaybookRun<'a> {
    /// `ansible-playbook`
    pub program: &'a Path,
    /// The playbooks' files, in the order in which they run.
    pub playbooks: Vec<PathBuf>,
    /// Where it runs: relative paths in the playbook start here.
    pub folder: &'a Path,
    /// The workload's own files, which may bring roles and collections.
    pub payload: &'a Path,
    /// Files with passwords of vaults.
    pub vaults: Vec<PathBuf>,
    /// Extra variables, as one JSON object.
    pub variables: String,
    /// Only look (`--check`).
    pub check: bool,
    /// Longest time.
    pub timeout: Duration,
    /// Ansible's own folders, below the state folder.
    pub home: &'a Path,
    /// Locked while it runs.
    pub lock: &'a Path,
}

/// What came of it.
#[derive(Debug)]
pub struct PlaybookOutput {
    /// Each task's result, in order.
    pub steps: Vec<StepResult>,
    /// Whether the program itself said that all is well.
    pub success: bool,
    /// Why not, in one sentence, from the results or the end of the output.
    pub reason: String,
}

#[derive(Deserialize)]
struct Line {
    task: String,
    status: String,
    message: String,
    /// A play in which no host matched, where none was to be expected: Ansible itself counts that as success.
    #[serde(default)]
    no_hosts: bool,
}

/// Runs playbooks to their end, or to the end of the first that fails.
///
/// # Errors
/// [`ApplyError::Program`] when it does not start, [`ApplyError::File`] for the state folder.
pub fn run(run: &PlaybookRun<'_>, heartbeat: &Heartbeat) -> Result<PlaybookOutput, ApplyError> {
    let plugins = run.home.join("plugins");
    let results = run.home.join("results.jsonl");
    durable::make_folder(&plugins)?;
    if let Some(folder) = run.lock.parent() {
        durable::make_folder(folder)?;
    }
    let plugin = plugins.join(format!("{CALLBACK_NAME}.py"));
    if durable::read_if_present(&plugin, MAX_RESULT_BYTES)?.as_deref() != Some(CALLBACK.as_bytes())
    {
        durable::write(&plugin, CALLBACK.as_bytes(), 0o600)?;
    }
    durable::remove_file(&results)?;

    let bounds = RunLimits {
        input: b"",
        lock: run.lock,
        timeout: run.timeout,
        kept: MAX_OUTPUT_BYTES,
        no_more: false,
        // A task may leave something running on purpose.
        whole: false,
    };
    let ran = watched::run(command(run, &plugins, &results), &bounds, heartbeat);
    let ran = ran.map_err(|lost| match lost {
        RunError::File(error) => error.into(),
        RunError::Program(error) => gone(run.program, &error.to_string()),
    })?;

    let bytes = durable::read_if_present(&results, MAX_RESULT_BYTES)?.unwrap_or_default();
    let steps = parse(&bytes);
    let reason = match ran.end {
        RunEnd::Exited(status)
            if status.success()
                && let Some(play) = unmatched(&bytes) =>
        {
            play
        }
        RunEnd::Exited(status) if status.success() => {
            return Ok(PlaybookOutput {
                steps,
                success: true,
                reason: String::new(),
            });
        }
        RunEnd::Stopped => return Err(ApplyError::Stopped),
        RunEnd::Busy => {
            return Err(ApplyError::Busy {
                program: run.program.display().to_string(),
            });
        }
        RunEnd::TooLong | RunEnd::TooMuch => {
            format!("stopped after {} s, its time limit", run.timeout.as_secs())
        }
        RunEnd::Exited(status) => reason(&steps, [&ran.stdout, &ran.stderr], status),
    };
    Ok(PlaybookOutput {
        steps,
        success: false,
        reason,
    })
}

/// Where Ansible looks for `name` (roles, collections): the bundle's own first, then the machine's. Nothing is fetched.
fn search_path(run: &PlaybookRun<'_>, name: &str, variable: &str, machine: &[&str]) -> OsString {
    let own = [run.payload, run.folder].map(|folder| folder.join(name));
    let set = std::env::var_os(variable);
    let of_machine: Vec<PathBuf> = match &set {
        Some(set) => std::env::split_paths(set).collect(),
        None => machine.iter().map(PathBuf::from).collect(),
    };
    // A path with a colon in it cannot be given: then only those of the machine are looked at.
    std::env::join_paths(own.iter().chain(&of_machine))
        .or_else(|_| std::env::join_paths(&of_machine))
        .unwrap_or_default()
}

fn command(run: &PlaybookRun<'_>, plugins: &Path, results: &Path) -> Command {
    let roles = search_path(run, "roles", "ANSIBLE_ROLES_PATH", &ROLES);
    let collections = search_path(run, "collections", "ANSIBLE_COLLECTIONS_PATH", &COLLECTIONS);
    let mut command = Command::new(run.program);
    for vault in &run.vaults {
        command.arg("--vault-password-file").arg(vault);
    }
    command
        .arg("-i")
        .arg("localhost,")
        .args(["-c", "local", "-e", &run.variables])
        .args(run.check.then_some("--check"))
        .args(&run.playbooks)
        .current_dir(run.folder)
        .env("ANSIBLE_CALLBACK_PLUGINS", plugins)
        .env("ANSIBLE_CALLBACKS_ENABLED", CALLBACK_NAME)
        .env("OUTHAUL_TASK_RESULTS", results)
        .env("ANSIBLE_HOME", run.home.join("home"))
        .env("ANSIBLE_ROLES_PATH", roles)
        .env("ANSIBLE_COLLECTIONS_PATH", collections)
        .env("ANSIBLE_LOCAL_TEMP", run.home.join("tmp"))
        .env("ANSIBLE_REMOTE_TEMP", run.home.join("tmp"))
        .env("ANSIBLE_NOCOLOR", "1")
        .env("ANSIBLE_NOCOWS", "1")
        .env("ANSIBLE_RETRY_FILES_ENABLED", "0")
        .env("ANSIBLE_LOCALHOST_WARNING", "0")
        .env("ANSIBLE_INVENTORY_UNPARSED_WARNING", "0")
        .env("ANSIBLE_DEPRECATION_WARNINGS", "0")
        // Ansible refuses to run under a locale that is not UTF-8; services have none.
        .env("LC_ALL", "C.UTF-8");
    command
}

/// Results from the callback's lines; a torn last line (the program was killed) is left out.
pub(super) fn parse(bytes: &[u8]) -> Vec<StepResult> {
    lines(bytes)
        .map(|line| step(line.task, &line.status, line.message))
        .collect()
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = Line> {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok())
}

/// The first play of which nothing was run, because no host matched.
pub(super) fn unmatched(bytes: &[u8]) -> Option<String> {
    let play = lines(bytes).find(|line| line.no_hosts)?;
    Some(format!("{}: {}", play.task, play.message))
}

fn reason(steps: &[StepResult], printed: [&[u8]; 2], status: ExitStatus) -> String {
    let bad = |step: &&StepResult| matches!(step.status.as_str(), "failed" | "unreachable");
    if let Some(step) = steps.iter().rev().find(bad) {
        return format!("task `{}`: {}", step.name, step.message);
    }
    // No task failed: the playbook itself is wrong, and the error stands in the output.
    let [stdout, stderr] = printed.map(String::from_utf8_lossy);
    let text = if stderr.trim().is_empty() {
        stdout
    } else {
        stderr
    };
    let lines: Vec<_> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let from = lines
        .iter()
        .position(|line| line.contains("ERROR"))
        .unwrap_or(0);
    let reported = lines[from.min(lines.len())..].join(" ");
    if reported.is_empty() {
        format!("ended with {status}")
    } else {
        reported
    }
}

/// The Python that runs Ansible's modules on this host: the first that starts.
///
/// # Errors
/// [`ApplyError::Program`] for one that others may change: it is not started, to see whether it works, either.
pub fn python(set: Option<&Path>) -> Result<Option<PathBuf>, ApplyError> {
    if let Some(set) = set {
        return Ok(Some(set.to_owned()));
    }
    let usual = ["/usr/bin/python3", "/usr/local/bin/python3", "python3"];
    for python in usual.map(Path::new) {
        let Some(python) = hook::started(python, None)? else {
            continue;
        };
        if hook::runnable(&python, None).is_err() {
            continue;
        }
        let mut command = Command::new(&python);
        command.args(["-c", "import json"]).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        if command.status().is_ok_and(|status| status.success()) {
            return Ok(Some(python));
        }
    }
    Ok(None)
}

/// Largest file with a password, in bytes.
const MAX_VAULT_BYTES: u64 = 16 * 1024 * 1024;

/// The site's own file with the password of vaults. Ansible runs one that may be executed, and the password decides which vaults open: looked at
/// as a program is.
///
/// # Errors
/// [`ApplyError::Vault`] for one that others may change, [`ApplyError::File`] for one that cannot be read.
pub fn vault(config: &AnsibleConfig) -> Result<Option<&Path>, ApplyError> {
    let Some(vault) = config.vault_password_file.as_deref() else {
        return Ok(None);
    };
    durable::read(vault, MAX_VAULT_BYTES)?;
    let refused = |problem, help| ApplyError::Vault {
        path: vault.to_owned(),
        problem,
        help: format!("{help}; then repeat the command"),
    };
    let is_program = vault
        .metadata()
        .is_ok_and(|found| found.permissions().mode() & 0o111 != 0);
    if let Some(hook::Changeable { problem, way_out }) = hook::changeable_by_others(vault, None) {
        let help = format!("{}, then {way_out}", hook::LOOK_FIRST);
        return Err(refused(problem, help));
    }
    if is_program && let Err(lacks) = hook::runnable(vault, None) {
        return Err(refused(lacks.problem, lacks.way_out));
    }
    Ok(Some(vault))
}

/// A program of Ansible's that is not there, or does not start.
pub fn gone(program: &Path, problem: &str) -> ApplyError {
    ApplyError::Program {
        program: program.display().to_string(),
        problem: problem.to_owned(),
        help: "install ansible-core on this host, or set `ansible.playbook_program` (and `ansible.python`) in agent.toml; then \
               repeat the command"
            .into(),
    }
}
