//! One question to the hook program, and what of its answer may go on.
//!
//! What comes in: a verb and an assignment. What goes out: an answer without sealed values, or why there is none:
//! this host, or the assignment. Values are opened in memory for the length of one question. Nothing is decided
//! here about what the answer means.

use std::path::PathBuf;

use outhaul_kit::heartbeat::Heartbeat;
use zeroize::Zeroizing;

use super::Hook;
use super::contract::{
    self, AssignmentDescription, DesiredFields, FileRef, HookAnswer, HookStatus, HookVerb, Message,
    PROTOCOL, StepStatus,
};
use super::program::{self, HookReply};
use crate::assignment::Desired;
use crate::error::ApplyError;
use crate::inventory::Item;
use crate::outcome::{Stop, shortened};
use crate::sealed::{OpenedFolder, copy_opened, struck_out};

/// What the program gets about one assignment, and what it must not pass on.
struct AssignmentFiles {
    files: Vec<PathBuf>,
    opened: Option<OpenedFolder>,
}

impl AssignmentFiles {
    fn values(&self) -> &[Zeroizing<String>] {
        self.opened.as_ref().map_or(&[], |opened| &opened.values)
    }
}

impl Hook {
    fn help(&self) -> String {
        let program = self
            .config
            .program
            .as_deref()
            .map(|path| path.display().to_string());
        format!(
            "see what the program `{}` needs; the agent tries again automatically",
            program.unwrap_or_default()
        )
    }

    pub(super) fn unable(&self, answer: HookAnswer) -> ApplyError {
        ApplyError::Hook {
            problem: format!(
                "the hook for `{}` cannot do it now: {}",
                self.name, answer.message
            ),
            help: match answer.help.as_str() {
                "" => self.help(),
                help => shortened(help),
            },
        }
    }

    pub(super) fn message<'a>(
        &'a self,
        verb: HookVerb,
        assignment: Option<&'a AssignmentDescription<'a>>,
    ) -> Message<'a> {
        Message {
            protocol: PROTOCOL,
            verb,
            reconciler: &self.name,
            assignment,
            recorded: None,
            items: None,
        }
    }

    pub(super) fn ask(
        &self,
        message: &Message<'_>,
        heartbeat: &Heartbeat,
    ) -> Result<HookReply, ApplyError> {
        let home = self.site.hook(&self.name);
        program::ask(&self.config, &home, message, heartbeat)
    }

    /// Asked once: a pass has many assignments.
    pub(super) fn ask_whether_ready(&self, heartbeat: &Heartbeat) -> Result<(), ApplyError> {
        if self.ready.get().is_some() {
            return Ok(());
        }
        let problem = match self.ask(&self.message(HookVerb::Ready, None), heartbeat)? {
            HookReply::Broken(how) => self.broken(&how),
            HookReply::Answer(answer, words) => match self.without(*answer, &words, &[]) {
                Ok(answer) if answer.status == HookStatus::Ok => {
                    let _ = self.ready.set(());
                    return Ok(());
                }
                Ok(answer) => return Err(self.unable(answer)),
                Err(Stop::Site(error)) => return Err(error),
                Err(Stop::Assignment(_, how)) => how,
            },
        };
        Err(ApplyError::Hook {
            problem,
            help: "see what the program answers to the messages in `docs/hooks.md`, or install the version \
                   that belongs to this agent"
                .into(),
        })
    }

    /// Sealed values opened, in memory.
    fn brief(&self, desired: &Desired) -> Result<AssignmentFiles, Stop> {
        let opened = self
            .site
            .keys()
            .and_then(|keys| copy_opened(&*keys, &desired.rendered, &desired.binding()))
            .map_err(Stop::sealed)?;
        let rendered = opened
            .as_ref()
            .map_or(&*desired.rendered, |o| o.scratch.path());
        let of_rendered = desired.assignment.files.iter();
        let of_payload = desired.assignment.payload.iter();
        let files = of_rendered
            .map(|file| rendered.join(file.path.as_str()))
            .chain(of_payload.map(|file| desired.payload.join(file.path.as_str())));
        Ok(AssignmentFiles {
            files: files.collect(),
            opened,
        })
    }

    /// One question about an assignment that is wanted. No value leaves in the answer.
    pub(super) fn ask_about(
        &self,
        verb: HookVerb,
        desired: &Desired,
        recorded: &[Item],
        items: Option<&[Item]>,
        heartbeat: &Heartbeat,
    ) -> Result<HookAnswer, Stop> {
        let brief = self.brief(desired)?;
        let assignment = &desired.assignment;
        let rendered = assignment.files.iter().map(|file| (file, ""));
        let payload = assignment.payload.iter().map(|file| (file, "payload/"));
        let files = rendered.chain(payload).zip(&brief.files);
        let description = AssignmentDescription {
            name: assignment.name.as_str(),
            generation: desired.generation,
            desired: Some(DesiredFields {
                site: desired.site.as_str(),
                fleet: desired.fleet.as_str(),
                environment: desired.environment.as_str(),
                workspace: &assignment.workspace,
                workload: &assignment.workload,
                drift: desired.drift,
                files: files
                    .map(|((file, below), path)| FileRef {
                        name: format!("{below}{}", file.path),
                        path: path.clone(),
                        content: &file.content,
                        executable: file.executable,
                    })
                    .collect(),
            }),
        };
        let message = Message {
            recorded: Some(contract::recorded(recorded)),
            items: items.map(contract::items),
            ..self.message(verb, Some(&description))
        };
        match self.ask(&message, heartbeat)? {
            HookReply::Broken(how) => {
                Err(Stop::failed(self.broken(&struck_out(&how, brief.values()))))
            }
            HookReply::Answer(answer, words) => {
                let answer = self.without(*answer, &words, brief.values())?;
                let agrees = answer.agrees(verb);
                agrees.map_err(|how| Stop::failed(self.broken(&how)))?;
                Ok(answer)
            }
        }
    }

    pub(super) fn broken(&self, how: &str) -> String {
        format!("the hook for `{}` broke the contract: {how}", self.name)
    }

    /// An answer with no sealed value in it, and with a reason where something is wrong.
    pub(super) fn without(
        &self,
        mut answer: HookAnswer,
        words: &str,
        values: &[Zeroizing<String>],
    ) -> Result<HookAnswer, Stop> {
        let clean = |text: &str| {
            let text = text.replace(|c: char| c.is_control(), " ");
            struck_out(&text, values)
        };
        let tells = |text: &str| struck_out(text, values) != text;
        if answer
            .items
            .iter()
            .any(|item| tells(&item.item) || tells(&item.digest))
        {
            let how = "it names an item after a sealed value, which would stand in the inventory";
            return Err(Stop::failed(self.broken(how)));
        }
        for step in &mut answer.steps {
            step.item = clean(&step.item);
            step.message = clean(&step.message);
        }
        let why: &[StepStatus] = match answer.status {
            HookStatus::Failed | HookStatus::Unable => &[StepStatus::Failed],
            HookStatus::Drifted => &[StepStatus::Failed, StepStatus::Changed, StepStatus::Removed],
            HookStatus::Waiting => &[StepStatus::Failed, StepStatus::Changed, StepStatus::Skipped],
            HookStatus::Ok | HookStatus::None => &[],
        };
        if !why.is_empty() && answer.message.trim().is_empty() {
            let step = answer.steps.iter().find(|step| why.contains(&step.status));
            answer.message = match step {
                Some(step) if step.message.trim().is_empty() => format!("`{}`", step.item),
                Some(step) => format!("`{}`: {}", step.item, step.message),
                None if words.is_empty() => "it gave no reason".into(),
                None => words.to_owned(),
            };
        }
        answer.message = clean(&answer.message);
        answer.help = clean(&answer.help);
        match answer.status {
            HookStatus::Unable => Err(Stop::Site(self.unable(answer))),
            _ => Ok(answer),
        }
    }
}
