//! Programs of the system, run for real: what they print, how long they take, and what they leave behind.
//!
//! What comes in: small shell programs. What goes out: how each run ended. Nothing is waited for by the clock
//! but the bound that the test itself sets.
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

struct Fixture {
    folder: TempDir,
    heartbeat: Heartbeat,
    timeout: Duration,
    whole: bool,
}

impl Fixture {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            heartbeat: Heartbeat::default(),
            timeout: Duration::from_secs(60),
            whole: true,
        }
    }

    fn lock(&self) -> PathBuf {
        self.folder.path().join("lock")
    }

    fn run(&self, script: &str) -> RunOutput {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(&self.folder);
        let bounds = RunLimits {
            input: b"a question\n",
            lock: &self.lock(),
            timeout: self.timeout,
            kept: 64,
            no_more: true,
            whole: self.whole,
        };
        run(command, &bounds, &self.heartbeat).unwrap()
    }

    /// Waits until nobody has the group of the process whose id a script wrote to `pid`.
    fn wait_for_the_end_of(&self, file: &str) {
        let id = fs::read_to_string(self.folder.path().join(file)).unwrap();
        let alive = || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
            // A zombie that nobody has waited for is gone.
            !stat.is_empty() && !stat.contains(") Z ")
        };
        while alive() {
            thread::yield_now();
        }
    }
}

#[test]
fn what_is_asked_is_read_and_what_is_printed_is_kept() {
    let fixture = Fixture::new();
    let ran = fixture.run("cat; echo one >&2; echo two >&2; exit 7");
    assert!(matches!(ran.end, RunEnd::Exited(status) if status.code() == Some(7)));
    assert_eq!(ran.stdout, b"a question\n");
    assert_eq!(output_tail(&ran.stderr), "one; two");
    // The next question is shorter than nothing that the file had.
    assert_eq!(fixture.run("cat").stdout, b"a question\n");
}

#[test]
fn whoever_takes_too_long_or_prints_too_much_is_ended_with_all_that_it_started() {
    let mut fixture = Fixture::new();
    let ran = fixture.run("sleep 1000 & echo $! > pid; yes");
    assert_eq!(ran.end, RunEnd::TooMuch);
    fixture.wait_for_the_end_of("pid");
    let ran = fixture.run("sleep 1000 & echo $! > pid; echo done");
    assert!(
        matches!(ran.end, RunEnd::Exited(status) if status.success()),
        "{ran:?}"
    );
    fixture.wait_for_the_end_of("pid");
    fixture.timeout = Duration::from_millis(1);
    let ran = fixture.run("trap '' TERM; sleep 1000 & echo $! > pid; wait");
    assert_eq!(ran.end, RunEnd::TooLong);
}

#[test]
fn a_request_to_stop_ends_it_and_is_distinguished_from_its_own_failure() {
    let fixture = Fixture::new();
    fixture.heartbeat.cancel();
    assert_eq!(fixture.run("sleep 1000").end, RunEnd::Stopped);
}

#[test]
fn what_an_agent_left_behind_is_waited_for() {
    let mut fixture = Fixture::new();
    // As after an agent that was killed: the program has the file, and nobody waits for it.
    fs::write(fixture.lock(), "").unwrap();
    let input = File::open(fixture.lock()).unwrap();
    input.try_lock().unwrap();
    let mut command = Command::new("sleep");
    command.arg("1000").stdin(Stdio::from(input));
    let mut left = command.spawn().unwrap();
    // The agent that was killed has nothing open any more.
    drop(command);
    // A process that another test is starting has this test's files open until its program is loaded.
    let started = Instant::now();
    while holders(&fixture.lock()) != [left.id()] && started.elapsed() < Duration::from_secs(60) {
        thread::yield_now();
    }
    assert_eq!(holders(&fixture.lock()), [left.id()]);
    let reported = waits_for(&holders(&fixture.lock()), Duration::from_secs(1800));
    let id = left.id();
    assert!(
        reported.contains(&format!("(process {id}) is still at work")),
        "{reported}"
    );
    assert!(
        reported.contains(&format!("at most 1800 s; `kill {id}` ends it")),
        "{reported}"
    );
    fixture.timeout = Duration::from_millis(200);
    assert_eq!(fixture.run("echo two").end, RunEnd::Busy);
    fixture.timeout = Duration::from_secs(60);
    left.kill().unwrap();
    left.wait().unwrap();
    assert_eq!(fixture.run("echo two").stdout, b"two\n");
}

#[test]
fn whoever_outlives_it_keeps_nobody_waiting() {
    let mut fixture = Fixture::new();
    fixture.whole = false;
    let ran = fixture.run("setsid sleep 1000 & echo $! > pid; echo started");
    assert_eq!(ran.stdout, b"started\n");
    assert_eq!(fixture.run("echo next").stdout, b"next\n");
    let id: i32 = fs::read_to_string(fixture.folder.path().join("pid"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let _ = rustix::process::kill_process(
        rustix::process::Pid::from_raw(id).unwrap(),
        rustix::process::Signal::KILL,
    );
}
