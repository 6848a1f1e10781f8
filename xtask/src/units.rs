//! `cargo xtask units`: asks systemd whether the files of `systemd/` are right.
//!
//! What comes in: units, `sysusers.d` and `tmpfiles.d` as they are shipped. What goes out: what
//! `systemd-analyze verify`, its security review, `systemd-sysusers` and `systemd-tmpfiles` object to.
//! They see copies in which our programs stand for themselves: the host needs not have them installed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::repository::root;

/// Highest exposure that systemd's review may find, times ten; each with its reason in the unit.
const EXPOSURE: [(&str, u32); 10] = [
    ("outhaul-agent.service", 50),
    ("outhaul-agent-sync.service", 50),
    ("outhaul-hub.service", 15),
    ("outhaul-serve.service", 15),
    // The agent with the drop-in for sites with a reconciler that needs no root.
    (UNPRIVILEGED, 15),
    // The mirror, and the same as the user of such an agent.
    ("outhaul-mirror.service", 20),
    (MIRROR_UNPRIVILEGED, 15),
    // The half that applies: files in a folder; with the drop-in, playbooks.
    ("outhaul-apply@.service", 15),
    (APPLY_ANSIBLE, 50),
    // With the other one, a cluster's API server: own user, no folder of the host.
    (APPLY_KUBERNETES, 20),
];
const UNPRIVILEGED: &str = "outhaul-agent-unprivileged.service";
const MIRROR_UNPRIVILEGED: &str = "outhaul-mirror-unprivileged.service";
const APPLY_KUBERNETES: &str = "outhaul-apply-kubernetes@.service";
const APPLY_ANSIBLE: &str = "outhaul-apply-ansible@.service";
/// Since this version `systemd-tmpfiles` can be asked without doing anything.
const TMPFILES_DRY_RUN: u32 = 256;

/// Asks systemd whether units, users and folders are right.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: cargo xtask units")]
pub struct Args {}

impl Args {
    #[expect(clippy::unused_self, reason = "called as every subcommand is")]
    /// Asks, and returns the objections.
    pub fn run(&self) -> Result<Vec<String>> {
        let findings = findings()?;
        if findings.is_empty() {
            eprintln!("systemd has no objections");
        }
        Ok(findings)
    }
}

/// What systemd objects to; nothing, with a note, where there is no systemd to ask.
pub fn findings() -> Result<Vec<String>> {
    let Some(version) = version() else {
        eprintln!("no systemd here: its units were not checked");
        return Ok(Vec::new());
    };
    let folder = tempfile::tempdir()?;
    let units = copies(folder.path())?;
    let mut findings = Vec::new();
    let mut command = Command::new("systemd-analyze");
    findings.extend(verify(
        command.args(["verify", "--man=no"]).args(units.values()),
    )?);
    for (name, threshold) in EXPOSURE {
        let Some(path) = units.get(name) else {
            findings.push(format!("systemd/: there is no {name}"));
            continue;
        };
        let mut review = Command::new("systemd-analyze");
        review
            .args([
                "security",
                "--offline=true",
                &format!("--threshold={threshold}"),
            ])
            .arg(path);
        let done = review.output().context("cannot run systemd-analyze")?;
        let text = String::from_utf8_lossy(&done.stdout);
        let verdict = text
            .lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches(['→', ' ']);
        eprintln!("{name}: {verdict}");
        if !done.status.success() {
            findings.push(format!(
                "systemd/{name}: exposed more than {:.1}: {verdict}",
                f64::from(threshold) / 10.0
            ));
        }
    }
    findings.extend(users_and_folders(&folder.path().join("root"), version)?);
    Ok(findings)
}

/// What `sysusers.d` and `tmpfiles.d` meet, on a separate root or without doing anything.
fn users_and_folders(new_root: &Path, version: u32) -> Result<Vec<String>> {
    let (users, folders) = (all_in("sysusers.d")?, all_in("tmpfiles.d")?);
    fs::create_dir_all(new_root.join("etc"))?;
    let elsewhere = format!("--root={}", new_root.display());
    let mut findings = Vec::new();
    // Giving folders to users needs root; without it, only what can be asked is asked.
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let how = if is_root {
        elsewhere.as_str()
    } else {
        "--dry-run"
    };
    let mut command = Command::new("systemd-sysusers");
    findings.extend(failure("systemd-sysusers", command.arg(how).args(users))?);
    if is_root || version >= TMPFILES_DRY_RUN {
        let mut command = Command::new("systemd-tmpfiles");
        findings.extend(failure(
            "systemd-tmpfiles",
            command.args(["--create", how]).args(folders),
        )?);
    } else {
        eprintln!("systemd {version} tries tmpfiles.d as root only: not checked");
    }
    Ok(findings)
}

/// The files of a folder of `systemd/`, by name.
fn all_in(folder: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(root().join("systemd").join(folder))?;
    let mut files = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

/// What a program printed, if it failed.
fn failure(what: &str, command: &mut Command) -> Result<Option<String>> {
    let done = command
        .output()
        .with_context(|| format!("cannot run {what}"))?;
    let printed = String::from_utf8_lossy(&done.stderr);
    Ok((!done.status.success()).then(|| format!("{what}: {}", printed.trim())))
}

/// The version of the systemd that is here.
fn version() -> Option<u32> {
    let done = Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .ok()?;
    String::from_utf8_lossy(&done.stdout)
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// What `systemd-analyze verify` reports about our units; it also looks at those of the host.
fn verify(command: &mut Command) -> Result<Vec<String>> {
    let done = command.output().context("cannot run systemd-analyze")?;
    let printed = String::from_utf8_lossy(&done.stderr);
    let ours = printed.lines().filter(|line| line.contains("outhaul"));
    let mut lines: Vec<String> = ours
        .map(|line| format!("systemd-analyze: {line}"))
        .collect();
    if !done.status.success() && lines.is_empty() {
        lines.push(format!(
            "systemd-analyze: {}: {}",
            done.status,
            printed.trim()
        ));
    }
    Ok(lines)
}

/// Copies of the units that name programs which exist.
fn copies(folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let stub = folder.join("stub");
    fs::create_dir(&stub)?;
    for program in ["outhaul", "outhaul-agent", "outhaul-hub", "outhaul-mirror"] {
        let path = stub.join(program);
        fs::write(&path, "#!/bin/sh\n")?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    let mut copies = BTreeMap::new();
    let source = root().join("systemd");
    let mut write = |name: String, text: &str| -> Result<()> {
        let text = text.replace("/usr/bin/outhaul", &format!("{}/outhaul", stub.display()));
        let path = folder.join(&name);
        fs::write(&path, text)?;
        copies.insert(name, path);
        Ok(())
    };
    for entry in fs::read_dir(&source)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_unit = [".service", ".timer", ".path", ".socket"]
            .iter()
            .any(|e| name.ends_with(e));
        if is_unit {
            let text = fs::read_to_string(source.join(&name))?;
            write(name, &text)?;
        }
    }
    // A unit and its drop-in, as systemd would join them.
    let dropin = fs::read_to_string(source.join("unprivileged.conf"))?;
    for (name, unit) in [
        (UNPRIVILEGED, "outhaul-agent.service"),
        (MIRROR_UNPRIVILEGED, "outhaul-mirror.service"),
    ] {
        let unit = fs::read_to_string(source.join(unit))?;
        write(name.to_owned(), &format!("{unit}\n{dropin}"))?;
    }
    let apply = fs::read_to_string(source.join("outhaul-apply@.service"))?;
    for (name, dropin) in [
        (APPLY_ANSIBLE, "outhaul-apply-ansible.conf"),
        (APPLY_KUBERNETES, "outhaul-apply-kubernetes.conf"),
    ] {
        let dropin = fs::read_to_string(source.join(dropin))?;
        write(name.to_owned(), &format!("{apply}\n{dropin}"))?;
    }
    Ok(copies)
}
