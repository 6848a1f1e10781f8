//! What a person should do something about, each with its own way out.
//!
//! What comes in: the memory, the state folder, and what the active bundle wrote. What goes out: one entry
//! per situation: a bundle that waits, files that differ now, too little space, a key that is gone. It
//! changes nothing and asks only reconcilers for which looking is cheap: no playbook is run.

use outhaul_bundle::report::ComplianceStatus;
use serde::Serialize;

use crate::agent::Agent;
use crate::apply::{self, ApplyError};
use crate::error::AgentError;
use crate::generation;
use crate::machine::State;
use crate::secrets::Secrets;
use crate::state::{self, Hold, generations, key};

/// One thing that a person should do something about.
#[derive(Debug, Serialize)]
pub struct Attention {
    /// A word for scripts: `approval`, `hold`, `drift`, `apply-helper`, `space`, `seal-key`.
    pub what: &'static str,
    /// What is the matter.
    pub message: String,
    /// What to do next.
    pub help: String,
}

impl Agent {
    /// What a person should do something about now.
    ///
    /// # Errors
    /// [`AgentError`] of the memory.
    pub(super) fn attention(&self) -> Result<Vec<Attention>, AgentError> {
        let mut found = self.waiting()?;
        match self.without_helper() {
            Some(gone) => found.push(gone),
            None => found.extend(self.drifted_now()?),
        }
        if let Err(error @ AgentError::Space { .. }) = self.check_space(0) {
            found.push(Attention {
                what: "space",
                message: error.to_string(),
                help: error.help(),
            });
        }
        if !Secrets::has_own_key(&self.home.identities()) {
            found.push(Attention {
                what: "seal-key",
                message: "the key that opens what is sealed for this site is missing; what is not sealed \
                          goes on"
                    .to_owned(),
                help: format!(
                    "restore `{}` from a backup of the state folder, or ask the centre for a `rekey`",
                    self.home.identities().display()
                ),
            });
        }
        Ok(found)
    }

    fn waiting(&self) -> Result<Vec<Attention>, AgentError> {
        let db = self.store.read();
        let held = state::meta::<Hold>(db, key::HOLD)?.is_some();
        let waiting = generations::all(db)?
            .into_iter()
            .filter(|generation| generation.state == State::Gated);
        Ok(waiting
            .map(|generation| Attention {
                what: if held { "hold" } else { "approval" },
                message: format!("bundle {} waits: {}", generation.number, generation.note),
                help: if held {
                    "`outhaul-agent hold --release` lets it through".to_owned()
                } else {
                    format!(
                        "`outhaul-agent approve {}` lets it through; what runs now goes on",
                        generation.number
                    )
                },
            })
            .collect())
    }

    /// The apply helper, when nobody answers for it.
    fn without_helper(&self) -> Option<Attention> {
        self.config.apply.helper.as_ref()?;
        let asked = apply::reconciler_of(apply::folder::KIND, &self.config, &self.home);
        let error = asked.and_then(|reconciler| reconciler.ready()).err()?;
        Some(Attention {
            what: "apply-helper",
            message: error.to_string(),
            help: error.help(),
        })
    }

    /// Assignments of the active bundle that differ at this moment.
    fn drifted_now(&self) -> Result<Vec<Attention>, AgentError> {
        let db = self.store.read();
        let Some(active) = state::meta::<u64>(db, key::ACTIVE)? else {
            return Ok(Vec::new());
        };
        let at_work = |state| matches!(state, State::Applying | State::Soaking | State::Reverting);
        if generations::all(db)?.iter().any(|g| at_work(g.state)) {
            return Ok(Vec::new());
        }
        let looked = self.index(active).and_then(|index| {
            let reconciler = self.reconciler(index.reconciler.kind.as_str())?;
            let mut differing = Vec::new();
            for desired in generation::desired(&self.home, &index, &self.site.name) {
                let name = desired.assignment.name.as_str();
                let recorded = self.recorded(reconciler.kind(), name)?;
                let verdict = match reconciler.health_waits() {
                    true => Some(reconciler.observe(&desired, &recorded, &self.pulse)?),
                    false => reconciler.health(&desired, &recorded, &self.pulse)?,
                };
                let verdict = verdict.filter(|v| v.status != ComplianceStatus::Compliant);
                differing
                    .extend(verdict.map(|v| {
                        format!("`{name}` is not as bundle {active} says: {}", v.message)
                    }));
            }
            Ok(differing)
        });
        let help = || {
            "`outhaul-agent apply` puts it right now; the next look for drift reports it (`drift_s` in \
             agent.toml), and puts it right where the stream says so"
                .to_owned()
        };
        Ok(match looked {
            Ok(differing) => differing
                .into_iter()
                .map(|message| Attention {
                    what: "drift",
                    message,
                    help: help(),
                })
                .collect(),
            Err(error) => vec![Attention {
                what: match &error {
                    AgentError::Apply(ApplyError::Helper { .. }) => "apply-helper",
                    _ => "drift",
                },
                message: format!("what runs cannot be compared with bundle {active}: {error}"),
                help: match error {
                    AgentError::Generation(_) => format!(
                        "import bundle {active} again, which brings its folder back, or a newer bundle"
                    ),
                    other => other.help(),
                },
            }],
        })
    }
}
