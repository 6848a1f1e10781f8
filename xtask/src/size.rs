//! `cargo xtask size`: what the agent costs a site, beside the aims.
//!
//! What comes in: the agent's sources, which are built with the profile `site`. What goes out: bytes of the
//! program, number of crates in it, and its memory once it has notified systemd that it is ready. The agent
//! runs on a state folder of its own that is thrown away, as a site of a fleet that has no keys any more
//! (`fixtures/idle.kit`) and no hub.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::repository::{cargo, normal_dependencies, root};

/// Aim for the program, in bytes.
const AIM_BYTES: u64 = 5_000_000;
/// Aim for idle memory, in KiB.
const AIM_KIB: u64 = 10 * 1024;
/// How long the agent may take to be ready.
const PATIENCE: Duration = Duration::from_secs(20);

/// Builds the agent and prints its size, crate count and idle memory.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: cargo xtask size --strict")]
pub struct Args {
    /// Exit with 1 when an aim is missed.
    #[arg(long)]
    strict: bool,
}

impl Args {
    /// Builds, measures and prints.
    pub fn run(&self) -> Result<Vec<String>> {
        let program = build()?;
        let bytes = std::fs::metadata(&program)?.len();
        // The agent itself is in the list.
        let crates = normal_dependencies("outhaul-agent")?.len() - 1;
        println!(
            "agent binary   {:>8.2} MB   aim {:.2} MB",
            mega(bytes),
            mega(AIM_BYTES)
        );
        println!("agent crates   {crates:>8}");
        let kib = idle_memory(Path::new(&program));
        match &kib {
            Ok(kib) => println!(
                "idle memory    {:>8.2} MiB  aim {:.2} MiB",
                mebi(*kib),
                mebi(AIM_KIB)
            ),
            Err(error) => println!("idle memory    not measured: {error:#}"),
        }
        let mut findings = Vec::new();
        if self.strict && bytes > AIM_BYTES {
            findings.push(format!(
                "the agent has {bytes} bytes, the aim is {AIM_BYTES}"
            ));
        }
        if self.strict {
            let kib = kib?;
            if kib > AIM_KIB {
                findings.push(format!("the agent takes {kib} KiB, the aim is {AIM_KIB}"));
            }
        }
        Ok(findings)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a figure with two digits after the point"
)]
fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a figure with two digits after the point"
)]
fn mebi(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// Builds the agent with the profile that sites get and returns its path.
fn build() -> Result<String> {
    eprintln!("building the agent as a site gets it (profile `site`) …");
    let done = Command::new(cargo())
        .args([
            "build",
            "--locked",
            "--profile",
            "site",
            "--package",
            "outhaul-agent",
        ])
        .args([
            "--bin",
            "outhaul-agent",
            "--message-format",
            "json-render-diagnostics",
        ])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !done.status.success() {
        bail!("the agent does not build");
    }
    // One JSON object a line; the one with the program has `"executable":"<path>"`.
    let text = String::from_utf8_lossy(&done.stdout);
    let path = text
        .rsplit_once("\"executable\":\"")
        .and_then(|(_, rest)| rest.split('"').next());
    Ok(path
        .context("cargo does not say where the agent lies")?
        .to_owned())
}

/// Resident memory of an idle agent, in KiB.
fn idle_memory(program: &Path) -> Result<u64> {
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state");
    let enrolled = Command::new(program)
        .arg("--state")
        .arg(&state)
        .arg("enrol")
        .arg(root().join("xtask/fixtures/idle.kit"))
        .output()
        .context("cannot start the agent")?;
    if !enrolled.status.success() {
        bail!(
            "the agent cannot be enrolled: {}",
            String::from_utf8_lossy(&enrolled.stderr).trim()
        );
    }
    let socket_path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&socket_path)?;
    let mut agent = Command::new(program)
        .arg("--state")
        .arg(&state)
        .arg("run")
        .env("NOTIFY_SOCKET", &socket_path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start the agent")?;
    let measured = wait_until_ready(&socket, &mut agent).and_then(|()| resident(agent.id()));
    agent.kill().ok();
    let output = agent.wait_with_output()?;
    measured.with_context(|| {
        let printed = String::from_utf8_lossy(&output.stderr);
        format!("the agent printed: {}", printed.trim())
    })
}

fn wait_until_ready(socket: &UnixDatagram, agent: &mut Child) -> Result<()> {
    // Short waits, so that an agent that ends is noticed.
    let step = Duration::from_millis(200);
    socket.set_read_timeout(Some(step))?;
    let mut waited = Duration::ZERO;
    let mut message = [0; 4096];
    while waited < PATIENCE {
        match socket.recv(&mut message) {
            Ok(count) => {
                let text = String::from_utf8_lossy(&message[..count]);
                if text.lines().any(|line| line == "READY=1") {
                    return Ok(());
                }
            }
            Err(_) => waited += step,
        }
        if let Some(status) = agent.try_wait()? {
            bail!("the agent ended with {status} before it was ready");
        }
    }
    bail!("the agent was not ready after {} s", PATIENCE.as_secs())
}

fn resident(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.context("the system does not report the agent's memory")
}
