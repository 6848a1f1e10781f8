//! The reconciler of an agent that may not change this host itself: it asks the apply helper.
//!
//! What comes in: what any reconciler gets. What goes out: a request that names the bundle by the digest of
//! its signed index, and an assignment; the helper's verdict. The inventory here follows the helper's, for
//! the approval and for `plan`; what is removed is decided by the helper's own. A helper that does not answer,
//! falls silent or cannot go on is a state of this host, named with what to do; one that refuses a bundle
//! makes the assignment fail. It writes nothing on the host.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use outhaul_bundle::index::DriftPolicy;
use outhaul_bundle::report::{AssignmentResult, ComplianceStatus, StepResult};
use outhaul_kit::heartbeat::Heartbeat;

use crate::assignment::Desired;
use crate::context::ReconcilerContext;
use crate::error::ApplyError;
use crate::folder;
use crate::inventory::{Item, Ledger};
use crate::line;
use crate::outcome::{Change, failed};
use crate::reconciler::Reconciler;
use crate::settings::ApplyConfig;

pub mod protocol;

use protocol::{FORMAT, HelperAnswer, HelperRequest, HelperVerb, MAX_ANSWER_BYTES, Remaining};

/// How often someone who waits for an answer gives a heartbeat.
const TICK: Duration = Duration::from_secs(1);

/// The item that stands for what is not known yet.
const UNKNOWN_YET: &str = "what the apply helper is putting there";

/// The reconciler.
#[derive(Debug)]
pub struct Remote {
    /// What the helper uses on this host; here it only names things.
    local: Box<dyn Reconciler>,
    socket: PathBuf,
    silence_s: u64,
    site: Rc<dyn ReconcilerContext>,
}

impl Remote {
    /// Asks the helper at `socket` for what `local` would do.
    pub fn new(
        local: Box<dyn Reconciler>,
        socket: PathBuf,
        config: &ApplyConfig,
        site: Rc<dyn ReconcilerContext>,
    ) -> Self {
        Self {
            local,
            socket,
            silence_s: config.silence_s,
            site,
        }
    }

    fn gone(&self, problem: &str) -> ApplyError {
        ApplyError::Helper {
            problem: format!("the apply helper at `{}` {problem}", self.socket.display()),
            help: "`systemctl status outhaul-apply.socket` and `journalctl -u 'outhaul-apply@*'` show it; the \
                   work continues automatically when the helper answers"
                .into(),
        }
    }

    fn connect(&self) -> Result<UnixStream, ApplyError> {
        UnixStream::connect(&self.socket)
            .map_err(|error| self.gone(&format!("cannot be reached: {error}")))
    }

    /// One request, and its answer; an answer that the host cannot do it is an error.
    fn ask(
        &self,
        verb: HelperVerb,
        (number, assignment): (u64, &str),
        values: &BTreeMap<String, String>,
        heartbeat: &Heartbeat,
    ) -> Result<HelperAnswer, ApplyError> {
        let request = HelperRequest {
            format: FORMAT.to_owned(),
            verb,
            number,
            index: self.site.index(number)?,
            assignment: assignment.parse().map_err(|_| {
                self.gone("was asked for something that is not an assignment's name")
            })?,
            values: values.clone(),
        };
        let line = line::of(&request);
        let broken = |error: std::io::Error| self.gone(&format!("broke the connection: {error}"));
        let stream = self.connect()?;
        stream.set_read_timeout(Some(TICK)).map_err(broken)?;
        stream.set_write_timeout(Some(TICK)).map_err(broken)?;
        // One that refuses whoever asks has answered already.
        let _ = (&stream).write_all(line.as_bytes());
        match self.listen(verb, &stream, heartbeat)? {
            HelperAnswer::Unable { problem, help } => Err(ApplyError::Helper {
                problem: format!("the apply helper cannot do it: {problem}"),
                help,
            }),
            // No bundle's fault.
            HelperAnswer::Refused { rule, message }
                if ["peer", "request"].contains(&rule.as_str()) =>
            {
                Err(self.gone(&format!("refuses this agent ({rule}): {message}")))
            }
            answer => Ok(answer),
        }
    }

    /// The answer, after as many heartbeats as it takes.
    fn listen(
        &self,
        verb: HelperVerb,
        stream: &UnixStream,
        heartbeat: &Heartbeat,
    ) -> Result<HelperAnswer, ApplyError> {
        let mut reader = BufReader::new(stream.take(MAX_ANSWER_BYTES + self.silence_s * 86_400));
        let mut line = Vec::new();
        let mut silent_s = 0;
        loop {
            heartbeat.beat();
            // A mere look ends when the agent is to end; what changes something is waited for.
            if verb == HelperVerb::Health && heartbeat.is_cancelled() {
                return Err(ApplyError::Stopped);
            }
            match reader.read_until(b'\n', &mut line) {
                Ok(0) => {
                    let problem = "ended without an answer: it was stopped, or the power went";
                    return Err(self.gone(problem));
                }
                Ok(_) if line == b"\n" => {
                    line.clear();
                    silent_s = 0;
                }
                Ok(_) if line.ends_with(b"\n") && line.len() as u64 <= MAX_ANSWER_BYTES => break,
                Ok(_) => {
                    let problem = "ended in the middle of its answer, or answered too much";
                    return Err(self.gone(problem));
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    silent_s += TICK.as_secs();
                    if silent_s >= self.silence_s {
                        return Err(self.gone(&format!(
                            "has been silent for {silent_s} s, although it sends a heartbeat every 2 s"
                        )));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.gone(&format!("broke the connection: {error}"))),
            }
        }
        serde_json::from_slice(&line)
            .map_err(|error| self.gone(&format!("is of another version: {error}")))
    }

    fn unexpected(&self, answer: &HelperAnswer) -> ApplyError {
        match answer {
            HelperAnswer::Refused { rule, message } => ApplyError::Helper {
                problem: format!("the apply helper refuses it ({rule}): {message}"),
                help: "report it: the agent's folder holds something else than the helper accepted, or \
                       someone changed it"
                    .into(),
            },
            _ => self.gone("answered something else than it was asked"),
        }
    }

    fn verdict(
        &self,
        verb: HelperVerb,
        desired: &Desired,
        heartbeat: &Heartbeat,
    ) -> Result<Option<AssignmentResult>, ApplyError> {
        let name = &desired.assignment.name;
        let place = (desired.generation, name.as_str());
        match self.ask(verb, place, &desired.site_values, heartbeat)? {
            HelperAnswer::Result(None)
                if verb == HelperVerb::Health || verb == HelperVerb::Prepare =>
            {
                Ok(None)
            }
            HelperAnswer::Result(Some(found)) if found.name == *name => Ok(Some(found)),
            other => Err(self.unexpected(&other)),
        }
    }
}

impl Remote {
    /// Has an assignment applied. Which things it put there the helper says where the bundle does not.
    fn applied(
        &self,
        desired: &Desired,
        heartbeat: &Heartbeat,
    ) -> Result<(AssignmentResult, Option<Vec<Item>>), ApplyError> {
        let verb = match desired.drift {
            DriftPolicy::Correct => HelperVerb::Correct,
            DriftPolicy::Report => HelperVerb::Apply,
        };
        self.changed(verb, desired, heartbeat)
    }

    /// Has something done with an assignment.
    fn changed(
        &self,
        verb: HelperVerb,
        desired: &Desired,
        heartbeat: &Heartbeat,
    ) -> Result<(AssignmentResult, Option<Vec<Item>>), ApplyError> {
        let name = &desired.assignment.name;
        let place = (desired.generation, name.as_str());
        match self.ask(verb, place, &desired.site_values, heartbeat)? {
            HelperAnswer::Applied { result, items } if result.name == *name => {
                let ours =
                    |item: &Item| item.kind == self.kind() && item.assignment == name.as_str();
                match items.as_deref().unwrap_or_default().iter().all(ours) {
                    true => Ok((result, items)),
                    false => Err(self.gone("answered something else than it was asked")),
                }
            }
            HelperAnswer::Refused { rule, message } => {
                let message = format!("the apply helper refuses it ({rule}): {message}");
                Ok((failed(desired, &message, Vec::new()), None))
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Stands for what the helper may put there until it has said what that was: without a row nobody would
    /// ever ask it to remove anything.
    fn unknown_yet(&self, desired: &Desired) -> Item {
        Item::intent(self.kind(), desired, UNKNOWN_YET.to_owned(), String::new())
    }
}

impl Reconciler for Remote {
    fn kind(&self) -> &str {
        self.local.kind()
    }

    /// Something answers at the socket; what it needs, it says when it is asked.
    fn ready(&self) -> Result<(), ApplyError> {
        self.connect().map(|_| ())
    }

    /// The helper accepts the bundle as it looks: its signatures may expire while it waits.
    fn prepare(&self, desired: &Desired, heartbeat: &Heartbeat) -> Result<(), ApplyError> {
        self.verdict(HelperVerb::Prepare, desired, heartbeat)
            .map(|_| ())
    }

    fn plan(&self, desired: &Desired, recorded: &[Item]) -> Vec<Change> {
        self.local.plan(desired, recorded)
    }

    fn plans_every_file(&self) -> bool {
        self.local.plans_every_file()
    }

    fn runs_again(&self) -> bool {
        self.local.runs_again()
    }

    /// The helper may have another target than this agent, and another user than the helper may not look there.
    fn not_looked_for(&self) -> Option<&'static str> {
        (self.local.kind() == folder::KIND).then_some(
            "files that are missing on this host, or in the way and not Outhaul's, were not looked for, because only the apply helper can look: an \
             import writes the missing ones again, names those in the way, and fails where there are some",
        )
    }

    fn goes_with_removed(&self, gone: bool, recorded: &[Item]) -> Vec<Change> {
        self.local.goes_with_removed(gone, recorded)
    }

    fn items(&self, desired: &Desired) -> Vec<Item> {
        self.local.items(desired)
    }

    fn apply(
        &self,
        desired: &Desired,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, ApplyError> {
        let mut items = self.items(desired);
        let mut known = recorded.to_vec();
        if items.is_empty() {
            known.push(self.unknown_yet(desired));
            ledger.intend(known.get(recorded.len()..).unwrap_or_default())?;
        }
        ledger.intend(&items)?;
        ledger.passed("inventory-intended");
        let (found, theirs) = self.applied(desired, heartbeat)?;
        let compliant = found.status == ComplianceStatus::Compliant;
        let said = theirs.is_some();
        if let Some(theirs) = theirs {
            ledger.intend(&theirs)?;
            items = theirs;
        }
        if said || compliant {
            known.retain(|old| !items.iter().any(|new| new.item == old.item));
            ledger.forget(&known)?;
        }
        if compliant {
            ledger.confirm(self.kind(), desired.assignment.name.as_str())?;
        }
        Ok(found)
    }

    fn observe(
        &self,
        desired: &Desired,
        _recorded: &[Item],
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, ApplyError> {
        self.verdict(HelperVerb::Observe, desired, heartbeat)?
            .ok_or_else(|| self.gone("answered something else than it was asked"))
    }

    fn health(
        &self,
        desired: &Desired,
        _recorded: &[Item],
        heartbeat: &Heartbeat,
    ) -> Result<Option<AssignmentResult>, ApplyError> {
        self.verdict(HelperVerb::Health, desired, heartbeat)
    }

    fn health_waits(&self) -> bool {
        self.local.health_waits()
    }

    fn prunes_last(&self) -> bool {
        self.local.prunes_last()
    }

    fn prune(
        &self,
        desired: &Desired,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<Option<AssignmentResult>, ApplyError> {
        if recorded
            .iter()
            .all(|item| item.generation == desired.generation)
        {
            return Ok(None);
        }
        let (found, theirs) = self.changed(HelperVerb::Prune, desired, heartbeat)?;
        if let Some(theirs) = theirs {
            let stays = |old: &Item| theirs.iter().any(|new| new.item == old.item);
            let gone: Vec<Item> = recorded.iter().filter(|old| !stays(old)).cloned().collect();
            ledger.forget(&gone)?;
        }
        Ok(Some(found))
    }

    fn remove(
        &self,
        instead: u64,
        assignment: &str,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<Vec<StepResult>, ApplyError> {
        match self.ask(
            HelperVerb::Remove,
            (instead, assignment),
            &BTreeMap::new(),
            heartbeat,
        )? {
            HelperAnswer::Removed { steps, rest } => {
                match rest {
                    Remaining::Nothing => ledger.forget(recorded)?,
                    Remaining::Left => {
                        let left = recorded.iter().cloned().map(Item::left);
                        ledger.intend(&left.collect::<Vec<_>>())?;
                    }
                    Remaining::Some => {}
                }
                Ok(steps)
            }
            other => Err(self.unexpected(&other)),
        }
    }
}
