//! The transcript on the screen: short lines, each with who in front.
//!
//! What comes in: what programs answered. What goes out: lines on standard output. It knows no fact of
//! its own: every number in it was in an answer.

use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use super::folders::{BENCH, DemoFolders, PRESS, SiteOf};
use outhaul_git::terminal::data;

/// Prints the transcript.
#[derive(Debug)]
pub struct Transcript {
    started: Instant,
}

impl Transcript {
    /// A transcript that begins now.
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    /// One line as it is.
    pub fn line(&self, text: &str) {
        data(text);
    }

    /// One line of who did what.
    pub fn step(&self, who: &str, what: &str) {
        data(&format!("  {who:<9} {what}"));
    }

    /// The first lines.
    pub fn title(&self, folder: &Path, kept: bool, ansible: Option<&str>) {
        data(
            "Outhaul demo: one factory, two environments, one site that is connected and one that is not",
        );
        if kept {
            self.step("folder", &format!("{} (kept)", folder.display()));
        } else {
            self.step(
                "folder",
                "a temporary one, removed at the end (`--keep DIR` keeps it)",
            );
        }
        self.step(
            "bench-1",
            "applies with the folder reconciler: files where something watches",
        );
        match ansible {
            Some(version) => self.step("press-7", &format!("applies with Ansible: {version}")),
            None => {
                let why = "ansible-playbook is not installed";
                self.step(
                    "press-7",
                    &format!("applies with the folder reconciler, too ({why})"),
                );
            }
        }
    }

    /// Keys, hub and sites.
    pub fn fleet(&self, folders: &DemoFolders) {
        self.step(
            "keys",
            "made and encrypted; the root metadata went to both sites, once, in their kits",
        );
        self.step(
            "hub",
            &format!(
                "listens on {} (loopback; everyone on this machine may read)",
                folders.hub_url()
            ),
        );
        self.step(
            BENCH.name,
            &format!(
                "{}/{}: connected, pulls bundles and sends reports over HTTP",
                BENCH.environment, BENCH.cluster_type
            ),
        );
        self.step(
            PRESS.name,
            &format!(
                "{}/{}: air-gapped, everything travels on a stick",
                PRESS.environment, PRESS.cluster_type
            ),
        );
    }

    /// The title of a round.
    pub fn round(&self, title: &str) {
        data("");
        data(title);
    }

    /// Why things are where they are, and where the values come from.
    pub fn why(&self, lines: &[String]) {
        for (at, line) in lines.iter().enumerate() {
            self.step(if at == 0 { "why" } else { "" }, line);
        }
    }

    /// One bundle.
    pub fn bundle(&self, site: SiteOf, made: &Value) {
        let file = made["file"].as_str().unwrap_or_default();
        let name = Path::new(file)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        self.step(
            "bundle",
            &format!(
                "{name}: {} assignment, {} bytes of content, {} bytes signed and packed, {}",
                made["assignments"],
                made["content_bytes"],
                made["bytes"],
                if site.name == BENCH.name {
                    "published"
                } else {
                    "on the stick"
                }
            ),
        );
    }

    /// What a site did with it.
    pub fn applied(
        &self,
        site: SiteOf,
        transport: &str,
        newest: &Value,
        results: &Value,
        ansible: bool,
    ) {
        self.step(
            site.name,
            &format!(
                "got bundle {} {transport}, verified signatures, number and stream, applied it: {}",
                newest["number"],
                newest["state"].as_str().unwrap_or_default()
            ),
        );
        for result in results.as_array().into_iter().flatten() {
            let steps = result["steps"].as_array().map_or(&[][..], Vec::as_slice);
            let changed = steps
                .iter()
                .filter(|step| step["status"] == "changed")
                .count();
            self.step(
                "",
                &format!(
                    "{} is {}: {} {}, {changed} changed",
                    result["name"].as_str().unwrap_or_default(),
                    result["status"].as_str().unwrap_or_default(),
                    steps.len(),
                    if ansible { "tasks" } else { "files" },
                ),
            );
        }
    }

    /// What came back.
    pub fn hub(&self, site: &Value, transport: &str) {
        self.step(
            "hub",
            &format!(
                "has {} reports of {}, the newest {transport}: bundle {} is {}",
                site["newest_report"],
                site["site"].as_str().unwrap_or_default(),
                site["actual"],
                site["state"].as_str().unwrap_or_default()
            ),
        );
    }

    /// What the gate says, and why.
    pub fn gate(&self, environment: &str, decision: &Value) {
        let verdict = decision["verdict"].as_str().unwrap_or_default();
        let reason = decision["reasons"][0].as_str();
        let why = match (reason, &decision["evidence"][0]) {
            (Some(reason), _) => reason.to_owned(),
            (None, evidence) => format!(
                "{} of {} sites confirm it (report {} of {})",
                decision["confirmed"],
                decision["counted"],
                evidence["report"],
                evidence["site"].as_str().unwrap_or_default()
            ),
        };
        self.step(
            "gate",
            &format!("{environment} is {}: {why}", verdict.to_uppercase()),
        );
    }

    /// What to type next.
    pub fn next_commands(&self, kept: &Path, folders: &DemoFolders) {
        data("");
        data(
            "What to type next: change a value, bring it to dev, through the gate to stage, and look",
        );
        let hub = folders.hub_url().trim_end_matches('/');
        let listen = hub.trim_start_matches("http://");
        let keys = "--passphrase-file passphrase";
        for line in [
            format!("cd {}", kept.display()),
            format!("export PATH={}:$PATH", folders.programs_folder().display()),
            // Control plane, sources, fleet and hub are in it.
            "cat outhaul.toml && outhaul project trust".to_owned(),
            format!("outhaul-hub --state hub serve --listen {listen} --open-reading --repository published &"),
            "sed -i 's/LABEL_WIDTH_MM: \"62\"/LABEL_WIDTH_MM: \"38\"/' control-plane/configs/common.yaml".to_owned(),
            "git -C control-plane commit --all --message 'Narrower labels'".to_owned(),
            "outhaul promote --to dev".to_owned(),
            format!("outhaul bundle --environment dev {keys} --publish published"),
            "outhaul-hub --state hub import bundles/dev-bench-3.outhaul".to_owned(),
            format!("outhaul-agent --state {}/state run --once", BENCH.name),
            "outhaul promote --to stage".to_owned(),
            format!("outhaul bundle --environment stage {keys} --out stick"),
            "outhaul inspect stick/stage-press-3.outhaul".to_owned(),
            format!("outhaul-agent --state {}/state import stick", PRESS.name),
            format!("outhaul-agent --state {}/state export stick", PRESS.name),
            "outhaul-hub --state hub import stick/stage-press-3.outhaul stick".to_owned(),
            "outhaul-hub --state hub sites".to_owned(),
            "kill $!   # the hub".to_owned(),
        ] {
            data(&format!("  {line}"));
        }
    }
}

impl Drop for Transcript {
    fn drop(&mut self) {
        data("");
        data(&format!(
            "{:.1} seconds",
            self.started.elapsed().as_secs_f32()
        ));
    }
}
