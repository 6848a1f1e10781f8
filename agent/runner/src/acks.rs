//! What a hub's signed acknowledgements do: reports leave, time moves a little, an old memory shows.
//!
//! What comes in: envelopes from a stick or from the hub's answer. What goes out: fewer reports in the
//! outbox. An acknowledgement of reports that this memory never wrote, or wrote otherwise, shows that the
//! state folder was restored from an older copy (or that two machines use one key): the hub refuses what
//! continues the old numbering. A newer one that covers fewer reports than an older one did shows that the hub
//! was restored from an older copy: it waits for reports that are here no more. Then a new numbering begins, all that waits goes home again under it, and
//! both stay on record at the hub.

use outhaul_bundle::report::{ACK_PAYLOAD_TYPE, Ack};
use outhaul_signer::{Envelope, PublicKey};
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::error::AgentError;
use crate::rescued;
use crate::state::outbox::Author;
use crate::state::{self, SiteIdentity, StateError, events, key, outbox};
use crate::state_folder::StateFolder;
use crate::tidy;

/// Most acknowledgements that one file or answer is read for: one for each numbering that this site ever
/// had, and each costs the check of a signature.
pub const MAX_ACKS: usize = 256;

/// Why reports are renumbered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renumbered {
    /// The epoch of the numbering before.
    pub before: String,
    /// The hub has reports of that numbering up to here.
    pub hub_has: u64,
    /// This memory had written that many of it.
    pub written: u64,
    /// When, milliseconds since 1970 by the site's clock.
    pub at_ms: i64,
    /// It is the hub that knows less than it did.
    #[serde(default)]
    pub hub_lost: bool,
}

impl Renumbered {
    /// One sentence for people.
    pub fn sentence(&self) -> String {
        if self.hub_lost {
            return format!(
                "reports are renumbered: the hub has reports of this site up to {} only, though it acknowledged \
                 more before, so it was restored from an older copy; what waited was queued again, with what runs \
                 now",
                self.hub_has
            );
        }
        format!(
            "reports are renumbered: the hub had others under the numbers that this state folder uses \
             ({} there, {} here), so the folder was restored from an older copy, or two machines use one \
             key; what waited was queued again, and if nobody restored it, tell the centre",
            self.hub_has, self.written
        )
    }
}

/// What acknowledgements did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// How many reports left the outbox.
    pub gone: u64,
    /// How many reports of former databases left the folder of saved ones.
    pub former: u64,
    /// Why reports are renumbered, when this showed it.
    pub renumbered: Option<Renumbered>,
    /// The hub's clock when it signed the newest of them, milliseconds since 1970.
    pub hub_time_ms: Option<i64>,
}

impl Acknowledged {
    /// How many reports need not be kept any more.
    pub fn left(&self) -> u64 {
        self.gone + self.former
    }

    /// Whether this site did not know it before.
    pub fn is_new(&self) -> bool {
        self.left() > 0 || self.renumbered.is_some()
    }
}

/// The acknowledgements in a file's lines that are for this site, and why another line cannot be used:
/// the rule, and what is wrong.
pub fn usable(
    site: &SiteIdentity,
    bytes: &[u8],
) -> (Vec<Envelope>, Option<(&'static str, String)>) {
    let mut usable = Vec::new();
    let mut problem = None;
    let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    let mut empty = true;
    for line in lines.take(MAX_ACKS) {
        empty = false;
        match usable_line(site, line) {
            Ok(envelope) => usable.push(envelope),
            Err(wrong) => problem = problem.or(Some(wrong)),
        }
    }
    if empty {
        problem = Some((
            "damaged-acks",
            "the file is empty: writing it was interrupted".to_owned(),
        ));
    }
    (usable, problem)
}

fn usable_line(site: &SiteIdentity, line: &[u8]) -> Result<Envelope, (&'static str, String)> {
    let damaged = |problem: &str| ("damaged-acks", problem.to_owned());
    let envelope = Envelope::from_json(line)
        .map_err(|_| damaged("the file is damaged; it is not as the hub wrote it"))?;
    let unsigned = || damaged("the file is damaged, or another hub than this site's signed it");
    let hub = PublicKey::from_pem(&site.hub_key)
        .map_err(|_| damaged("this site's kit names no hub key, so that none can be checked"))?;
    let payload = envelope.verify(ACK_PAYLOAD_TYPE, &[hub]);
    let ack: Ack = payload
        .ok()
        .and_then(|payload| serde_json::from_slice(payload).ok())
        .ok_or_else(unsigned)?;
    if ack.fleet == site.fleet && ack.site == site.name {
        return Ok(envelope);
    }
    let message = format!("they are for site {}, this site is {}", ack.site, site.name);
    Err(("acks-of-another-site", message))
}

/// Believes acknowledgements that the hub's key signed: what they cover leaves the outbox, and the
/// hub's time raises the lower bound within its slack.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn accept(agent: &mut Agent, envelopes: &[Envelope]) -> Result<Acknowledged, AgentError> {
    let Ok(hub) = PublicKey::from_pem(&agent.site.hub_key) else {
        return Ok(Acknowledged::default());
    };
    let keys = [hub];
    let acks: Vec<Ack> = envelopes
        .iter()
        .take(MAX_ACKS)
        .filter_map(|envelope| envelope.verify(ACK_PAYLOAD_TYPE, &keys).ok())
        .filter_map(|payload| serde_json::from_slice(payload).ok())
        .filter(|ack: &Ack| ack.fleet == agent.site.fleet && ack.site == agent.site.name)
        .collect();
    let site = agent.site.clone();
    let mut next = agent.site.clone();
    next.epoch = state::new_epoch()?;
    let state_folder = agent
        .rehearsal
        .is_none()
        .then(|| agent.state_folder.clone());
    let mut done = agent
        .commit(|db, author| {
            let mut done = Acknowledged {
                hub_time_ms: acks.iter().map(|ack| ack.hub_time_ms).max(),
                ..Acknowledged::default()
            };
            let mut reading = author.reading.clone();
            for ack in &acks {
                reading.accept_hub_time(db, ack.hub_time_ms)?;
                let hub_lost = outbox::is_lost_at_the_hub(db, &site, ack)?;
                if hub_lost || outbox::contradicts(db, &site, ack)? {
                    let written = outbox::cursor(db)?.last;
                    let who = if hub_lost {
                        "the agent: the hub has fewer reports than it acknowledged"
                    } else {
                        "the agent: the hub has other reports under this site's numbers"
                    };
                    if let Some(state_folder) = &state_folder {
                        forget_own(state_folder, &site);
                    }
                    outbox::renumber(db, author, &next, who)?;
                    let author = Author {
                        site: &next,
                        ..*author
                    };
                    events::repeat_state(db, &author)?;
                    let why = Renumbered {
                        before: site.epoch.to_string(),
                        hub_has: ack.number,
                        written,
                        at_ms: reading.wall_ms(),
                        hub_lost,
                    };
                    state::set_meta(db, key::SITE, Some(&next))?;
                    state::set_meta(db, key::RENUMBERED, Some(&why))?;
                    tracing::warn!("{}", why.sentence());
                    done.renumbered = Some(why);
                    break;
                }
                done.gone += outbox::acknowledge(db, &site, ack)?;
            }
            // A hub that has what waited here accepts this site again, by whatever way it came.
            if done.gone > 0 {
                state::set_meta::<bool>(db, key::HUB_REFUSAL, None)?;
            }
            Ok::<_, StateError>(done)
        })
        .map_err(AgentError::from)?;
    if agent.rehearsal.is_none() {
        done.former = forget_former(agent, &site, &acks);
    }
    if done.renumbered.is_some() {
        agent.site = next;
        // Until then an older copy of the database could not be distinguished from it.
        tidy::keep_identity(agent)?;
    }
    Ok(done)
}

/// Reports of former databases that the hub has are not kept beside the database. Returns how many there were.
fn forget_former(agent: &Agent, site: &SiteIdentity, acks: &[Ack]) -> u64 {
    // They go to the hub once more, which counts each once.
    rescued::acknowledged(&agent.state_folder, site, acks).unwrap_or_else(|error| {
        tracing::warn!("reports that the hub has could not be removed from `rescued`: {error}");
        0
    })
}

/// Removes the saved reports that the database of `site` has as well. Before it renumbers reports: after a power cut between the two it still has
/// them, and afterwards the saved ones would go to the hub under numbers that are others' there.
pub fn forget_own(state_folder: &StateFolder, site: &SiteIdentity) {
    if let Err(error) = rescued::queued_again(state_folder, site) {
        tracing::warn!(
            "reports that are queued again could not be removed from `rescued`: {error}"
        );
    }
}
