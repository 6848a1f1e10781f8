//! `outhaul explain --whole`: what one environment is rendered from, as one document, printed or sent to a hub.
//!
//! What comes in: a control plane that was loaded. What goes out: the document, or what the hub answered. Nothing is written here;
//! a hub keeps the document only with a token, and under its name.

use outhaul_bundle::hub_api::{
    MAX_EXPLANATION_BYTES, PlatformExplanation, RecordedExplanation, path,
};
use outhaul_kit::format_count::{self, format_count};
use outhaul_load::Origin;
use outhaul_load::pipeline::Loaded;
use outhaul_plane::compose;
use outhaul_plane::explain::whole;
use outhaul_promote::HubConnection;
use serde_json::json;

use super::super::failure::{self, Failure};
use super::super::{Exit, Output, data, print_json, say};
use super::Args;

impl Args {
    /// Explains everything.
    pub(super) fn whole(&self, mut loaded: Loaded) -> Result<Exit, Failure> {
        add_environments(&mut loaded);
        let plane = &loaded.control_plane;
        let schedule = loaded.schedule();
        let findings = schedule.findings();
        if !findings.is_empty() {
            super::super::say_findings(&findings);
        }
        let is_whole = !findings.has_errors() && plane.lost.is_empty();
        let mode = self.input.mode();
        let composition = compose::compose(plane, &schedule, mode);
        let (snapshot, answers) = (&loaded.snapshot, &loaded.answers);
        let mut document =
            whole::explanation(plane, snapshot, answers, &schedule, &composition, mode);
        name_by_repository(&mut document, &loaded.request.from);
        if let (true, Some(url)) = (self.send, self.hub.as_deref()) {
            // Pages would say of what could not be read that it is not there.
            if !is_whole {
                let message = "not all of the environment could be read, so its explanation was not sent; the hub was not asked";
                return Err(Failure::say(failure::REFUSED, message)
                    .help("correct what is named above; without `--send` the document is printed as it is"));
            }
            return self.send(&document, url);
        }
        let exit = match is_whole {
            true => Exit::SUCCESS,
            false => Exit::from(failure::REFUSED),
        };
        if self.output == Output::Json {
            print_json(&json!(document))?;
            return Ok(exit);
        }
        data(&summary(&document));
        say("help: `--output json` prints the document, `--send --hub URL` sends it to a hub");
        Ok(exit)
    }

    fn send(&self, document: &PlatformExplanation, url: &str) -> Result<Exit, Failure> {
        let bytes = serde_json::to_vec(document).map_err(|error| {
            let message = format!("the document cannot be written as JSON: {error}");
            Failure::say(failure::INTERNAL, message)
        })?;
        if bytes.len() > MAX_EXPLANATION_BYTES {
            let message = format!(
                "the document has {} bytes, and a hub keeps {MAX_EXPLANATION_BYTES} at most",
                bytes.len()
            );
            return Err(Failure::say(failure::REFUSED, message).help(
                "the hub was not asked; ask about single assignments where the control plane is: `outhaul explain TARGET CLUSTER-TYPE`",
            ));
        }
        let hub = HubConnection {
            url,
            authority: self.hub_ca.as_deref(),
        };
        let answer = hub.send(path::EXPLANATIONS, bytes);
        let answer = answer.map_err(|error| Failure::of(&error))?;
        let recorded: RecordedExplanation = serde_json::from_slice(&answer).map_err(|error| {
            let message = format!("`{url}` answered something else: {error}");
            Failure::say(failure::ENVIRONMENT, message)
                .help("see that a hub of this release answers there; it may have kept the document")
        })?;
        if self.output == Output::Json {
            return print_json(&json!(recorded));
        }
        data(&format!(
            "{}; `{url}` {} as {} of {}",
            summary(document),
            match recorded.new {
                true => "keeps it",
                false => "had it already",
            },
            recorded.explanation.digest,
            recorded.explanation.sent_by
        ));
        if recorded.others > 0 {
            say(&format!(
                "warning: the hub has {} of the same snapshot with other content: its pages show the newest, and that there are others",
                format_count(
                    usize::try_from(recorded.others).unwrap_or(usize::MAX),
                    "explanation",
                    "explanations"
                )
            ));
        }
        Ok(Exit::SUCCESS)
    }
}

/// Adds the environments that the promoted commit lists: those of a newer commit are not what was rendered.
fn add_environments(loaded: &mut Loaded) {
    let mut request = loaded.request.clone();
    let commit = &loaded.snapshot.base.commit;
    request.sources.pin(outhaul_load::ENVIRONMENTS, "", commit);
    match outhaul_load::declared(&request) {
        Ok(environments) => {
            let named = environments.into_iter().map(|one| (one.name.clone(), one));
            loaded.control_plane.environments.extend(named);
        }
        Err(why) => say(&format!("note: the document lists no environments: {why}")),
    }
}

/// The place of an environment with the URL of its repository, as all others have it: what was typed may be a folder of this machine.
fn name_by_repository(document: &mut PlatformExplanation, from: &Origin) {
    let Origin::Repository { url, .. } = from else {
        return;
    };
    let typed = format!("{url}@");
    for environment in &mut document.entities.environments {
        if let Some(rest) = environment.at.strip_prefix(&typed) {
            environment.at = format!("{}@{rest}", document.snapshot.base.repo);
        }
    }
}

fn summary(document: &PlatformExplanation) -> String {
    format!(
        "{}: {} on {}, from snapshot {}",
        document.environment,
        format_count::assignments(document.assignments.len()),
        format_count(
            document.entities.cluster_types.len(),
            "cluster type",
            "cluster types"
        ),
        document.snapshot.digest.short()
    )
}
