//! The two rounds: a first deployment, then one changed value, each all the way round the loop.
//!
//! What comes in: the folders. What goes out: the transcript's lines, each from what a program answered. It
//! asserts what it prints: a site that does not become active, or a gate that does not open, ends the
//! demo with an error.

use serde_json::Value;

use super::folders::{BENCH, DemoFolders, PRESS, SOURCES, SiteOf, write};
use super::{DemoError, Transcript};
use outhaul_git::source::{Cache, SourceMap};
use outhaul_load::{LoadRequest, Origin, pipeline};
use outhaul_plane::compose::{self, Mode};

/// The value that the second round changes.
const OLD_TEXT: &str = "LABEL_TEXT: Made with care";
const NEW_TEXT: &str = "LABEL_TEXT: Made with even more care";

/// The first deployment.
pub fn first(folders: &mut DemoFolders, transcript: &mut Transcript) -> Result<(), DemoError> {
    transcript.round("Round 1: the first deployment");
    let commit = head(folders)?;
    promote_first(folders, transcript, &commit)?;
    transcript.why(&reasons(folders, BENCH)?);
    go_round(folders, transcript, &commit)
}

/// One changed value, and what the gate says before anybody reported it.
pub fn second(folders: &mut DemoFolders, transcript: &mut Transcript) -> Result<(), DemoError> {
    transcript.round("Round 2: the platform team changes one value");
    let path = folders.folder().join("control-plane/configs/common.yaml");
    let io = |doing| {
        let path = path.clone();
        move |error| DemoError::Io { doing, path, error }
    };
    let text = std::fs::read_to_string(&path).map_err(io("read"))?;
    write(&path, text.replace(OLD_TEXT, NEW_TEXT).as_bytes(), 0o644)?;
    folders
        .git()
        .args(["commit", "--quiet", "--all", "--message", "More care"])
        .run()?;
    let commit = head(folders)?;
    transcript.step(
        "main",
        &format!("{}: {OLD_TEXT:?} becomes {NEW_TEXT:?}", &commit[..8]),
    );
    promote_first(folders, transcript, &commit)?;
    go_round(folders, transcript, &commit)
}

/// From a promoted `dev` to reports of `stage`.
fn go_round(
    folders: &mut DemoFolders,
    transcript: &mut Transcript,
    commit: &str,
) -> Result<(), DemoError> {
    bundle(folders, transcript, BENCH)?;
    gate(folders, transcript, BENCH, commit, "closed")?;
    let pulled = folders.agent(BENCH).args(["run", "--once"]).run()?;
    tracing::debug!(pulled, "bench-1");
    applied(folders, transcript, BENCH, "over HTTP")?;
    transcript.hub(&sites(folders, BENCH)?, "over HTTP");
    gate(folders, transcript, BENCH, commit, "open")?;
    promote_next(folders, transcript, commit)?;

    bundle(folders, transcript, PRESS)?;
    folders.agent(PRESS).args(["import", "stick"]).run()?;
    applied(folders, transcript, PRESS, "from the stick")?;
    let exported = folders
        .agent(PRESS)
        .args(["--output", "json", "export", "stick"])
        .json()?;
    folders.hub().args(["import", "stick"]).run()?;
    transcript.step(
        PRESS.name,
        &format!("wrote {} reports to the stick", exported["reports"]),
    );
    transcript.hub(&sites(folders, PRESS)?, "on the stick");
    gate(folders, transcript, PRESS, commit, "open")
}

fn head(folders: &DemoFolders) -> Result<String, DemoError> {
    Ok(folders
        .git()
        .args(["rev-parse", "main"])
        .run()?
        .trim()
        .to_owned())
}

/// What every command needs to find the repositories without a network.
fn sources() -> Vec<&'static str> {
    SOURCES.iter().flat_map(|s| ["--source", *s]).collect()
}

fn promote_first(
    folders: &DemoFolders,
    transcript: &mut Transcript,
    commit: &str,
) -> Result<(), DemoError> {
    folders
        .outhaul()
        .args([
            "promote",
            "--control-plane",
            "control-plane",
            "--to",
            "dev",
            "--commit",
            commit,
        ])
        .args(sources())
        .run()?;
    transcript.step(
        "promote",
        &format!(
            "main {} goes to dev (the first environment has no gate before it)",
            &commit[..8]
        ),
    );
    Ok(())
}

fn promote_next(
    folders: &DemoFolders,
    transcript: &mut Transcript,
    commit: &str,
) -> Result<(), DemoError> {
    let hub = folders.hub_url().trim_end_matches('/').to_owned();
    let answer = folders
        .outhaul()
        .args([
            "promote",
            "--control-plane",
            "control-plane",
            "--to",
            "stage",
        ])
        .args(["--hub", &hub, "--output", "json"])
        .args(sources())
        .json()?;
    if answer["promoted"] != true {
        let command = "outhaul promote --to stage".to_owned();
        return Err(DemoError::Answer {
            command,
            problem: answer.to_string(),
        });
    }
    transcript.step(
        "promote",
        &format!(
            "main {} is promoted to stage, with the evidence in the commit",
            &commit[..8]
        ),
    );
    Ok(())
}

/// Why the assignments of `site`'s cluster type are what they are, from the stages themselves.
fn reasons(folders: &DemoFolders, site: SiteOf) -> Result<Vec<String>, DemoError> {
    let command = "outhaul schedule".to_owned();
    let failed = |problem: String| DemoError::Answer {
        command: command.clone(),
        problem,
    };
    let sources: Vec<String> = SOURCES
        .iter()
        .filter_map(|source| source.split_once('='))
        .map(|(url, folder)| format!("{url}={}", folders.folder().join(folder).display()))
        .collect();
    let request = LoadRequest {
        environment: site.environment.to_owned(),
        from: Origin::Repository {
            url: folders
                .folder()
                .join("control-plane")
                .to_string_lossy()
                .into_owned(),
            branch: None,
        },
        sources: SourceMap::parse(&sources).map_err(|error| failed(error.to_string()))?,
        cache: Cache::at(folders.folder().join("cache")),
        schedulers: outhaul_load::scheduler::Schedulers::default(),
    };
    let loaded = pipeline::load(&request, None).map_err(|found| failed(found.to_string()))?;
    let schedule = loaded.schedule();
    let control_plane = loaded.control_plane;
    let composition = compose::compose(&control_plane, &schedule, Mode::default());
    let mut lines = Vec::new();
    for (id, assignment) in &schedule.assignments {
        for policy in &assignment.policies {
            let wanted = control_plane.policies.get(policy).map(|policy| {
                let workspace = policy
                    .workspace
                    .as_ref()
                    .map_or("any", |w| w.value.as_str());
                format!(
                    "targets of {workspace} with {}, cluster types with {}",
                    policy.targets, policy.cluster_types
                )
            });
            lines.push(format!(
                "{} on {}: policy `{policy}`",
                id.target, id.cluster_type
            ));
            lines.extend(wanted);
        }
        let Some(composed) = composition.assignments.get(id) else {
            continue;
        };
        for (key, provenance) in &composed.provenance {
            let Some(last) = provenance.layers.last() else {
                continue;
            };
            let place = last.location.file_line();
            let place = place.rsplit_once(':').and_then(|(file, line)| {
                file.rsplit_once(':')
                    .map(|(_, path)| format!("{path}:{line}"))
            });
            let from = place.unwrap_or_else(|| last.location.file_line());
            lines.push(format!("{key} = {} ({from})", last.text));
        }
    }
    Ok(lines)
}

fn bundle(
    folders: &DemoFolders,
    transcript: &mut Transcript,
    site: SiteOf,
) -> Result<(), DemoError> {
    let typed = folders
        .outhaul()
        .args([
            "bundle",
            "--environment",
            site.environment,
            "--control-plane",
            "control-plane",
        ])
        .args([
            "--fleet",
            "fleet",
            "--passphrase-file",
            "passphrase",
            "--output",
            "json",
        ])
        .args(sources());
    let typed = if site.name == BENCH.name {
        typed.args(["--out", "bundles", "--publish", "published"])
    } else {
        typed.args(["--out", "stick"])
    };
    let answer = typed.json()?;
    let made = &answer["bundles"][0];
    let file = made["file"].as_str().unwrap_or_default().to_owned();
    folders.hub().args(["import", &file]).run()?;
    transcript.bundle(site, made);
    Ok(())
}

/// What the site's agent says of itself, after it must have become active.
fn applied(
    folders: &DemoFolders,
    transcript: &mut Transcript,
    site: SiteOf,
    transport: &str,
) -> Result<(), DemoError> {
    let status = folders
        .agent(site)
        .args(["--output", "json", "status"])
        .json()?;
    let newest = &status["generations"][0];
    if newest["state"] != "active" {
        let command = format!("outhaul-agent status ({})", site.name);
        let text = folders.agent(site).args(["status"]).run()?;
        return Err(DemoError::Answer {
            command,
            problem: format!("not active\n{text}"),
        });
    }
    let tasks = folders.ansible && site.name == PRESS.name;
    transcript.applied(site, transport, newest, &status["assignments"], tasks);
    if let Some((name, line)) = result_of(&folders.folder().join(site.name).join("root")) {
        transcript.step("", &format!("{name} on {}: {line}", site.name));
    }
    Ok(())
}

/// What shows that it runs: the label that the application printed, or the config that it would read.
fn result_of(root: &std::path::Path) -> Option<(&'static str, String)> {
    let folder = std::fs::read_dir(root).ok()?.flatten().next()?.path();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    if let Some(label) = read("label.txt") {
        return Some(("label.txt", label.trim().to_owned()));
    }
    let config = read("platform-config.sh")?;
    let line = config.lines().find(|line| line.contains("LABEL_TEXT"))?;
    Some(("platform-config.sh", line.to_owned()))
}

fn sites(folders: &DemoFolders, site: SiteOf) -> Result<Value, DemoError> {
    let all = folders.hub().args(["--output", "json", "sites"]).json()?;
    let found = all
        .as_array()
        .into_iter()
        .flatten()
        .find(|s| s["site"] == site.name);
    found.cloned().ok_or_else(|| DemoError::Answer {
        command: "outhaul-hub sites".to_owned(),
        problem: format!("no site `{}`: {all}", site.name),
    })
}

fn gate(
    folders: &DemoFolders,
    transcript: &mut Transcript,
    site: SiteOf,
    commit: &str,
    expected: &str,
) -> Result<(), DemoError> {
    let typed = folders.hub().args(["--output", "json", "gate"]).args([
        "--environment",
        site.environment,
        "--commit",
        commit,
    ]);
    let decision = typed.or_code(1).json()?;
    transcript.gate(site.environment, &decision);
    if decision["verdict"] == expected {
        return Ok(());
    }
    let command = format!("outhaul-hub gate --environment {}", site.environment);
    Err(DemoError::Answer {
        command,
        problem: format!("the gate should be {expected}: {decision}"),
    })
}
