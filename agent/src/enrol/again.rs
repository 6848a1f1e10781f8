//! Enrolling a site that is enrolled already: with the same kit nothing changes, a new kit begins anew.
//!
//! What comes in: the site's state and a kit for the same site. What goes out: the site bound to the new
//! kit, so that orders for its earlier enrolment are none for it. A revoked site gets new keys
//! and may install again; what it accepted, reported and runs stays as it was. For another hub its reports are numbered
//! anew, and what runs is reported again.

use outhaul_bundle::Digest;
use outhaul_bundle::report::ReportEvent;
use outhaul_signer::{Kit, SigningKey};

use crate::config::ClockConfig;
use crate::error::AgentError;
use crate::facilities::Facilities as _;
use crate::host::Host;
use crate::keys::{self, NextKeys};
use crate::rescued;
use crate::state::outbox::{self, Author};
use crate::state::{self, SiteIdentity, StateError, Store, events, key};
use crate::state_folder::StateFolder;

pub(super) fn enrol_again(
    state_folder: &StateFolder,
    store: &mut Store,
    mut site: SiteIdentity,
    kit: &Kit,
    clock: &ClockConfig,
) -> Result<(SiteIdentity, SigningKey), AgentError> {
    let enrolment = super::enrolment(kit)?;
    // As sites knew their kit before requests proved it by a signature.
    let formerly = Digest::of(kit.token.as_bytes());
    let key = keys::key_in_use(state_folder, store.read())?;
    if [enrolment, formerly].map(Some).contains(&site.enrolment) {
        return Ok((site, key));
    }
    site.enrolment = Some(enrolment);
    // A hub with another key does not know this site: it would wait for ever for reports that are gone.
    let other_hub = site.hub_key != kit.hub_key;
    let before = site.clone();
    if other_hub {
        site.epoch = state::new_epoch()?;
    }
    site.hub_url.clone_from(&kit.hub_url);
    site.hub_key.clone_from(&kit.hub_key);
    site.hub_ca.clone_from(&kit.hub_ca);
    let revoked = state::meta::<u64>(store.read(), key::REVOKED)?.is_some();
    let next = if revoked {
        Some(NextKeys::make(state_folder)?)
    } else {
        None
    };
    store.commit(|db| {
        let reading = crate::state::clock::now(db, Host.clocks(clock))?;
        reading.store(db)?;
        let author = Author {
            site: &site,
            key: &key,
            reading: &reading,
            max_rows: u64::MAX,
        };
        if other_hub {
            outbox::renumber(db, &author, &site, "the agent: a new kit names another hub")?;
            events::repeat_state(db, &author)?;
        }
        let reported = ReportEvent::Decision {
            what: "enrol".to_owned(),
            who: "a new kit".to_owned(),
            number: None,
            assignment: None,
            reason: None,
        };
        let report = outbox::queue(db, &author, reported)?;
        state::set_meta(db, key::SITE, Some(&site))?;
        state::set_meta(db, key::REQUEST_UNTIL, Some(&(report + 1)))?;
        for forgotten in [key::ORDERS, key::REVOKED, key::APPROVED, key::CARRIED] {
            state::set_meta::<u64>(db, forgotten, None)?;
        }
        if let Some(next) = &next {
            next.put_in_use(db, &key)?;
        }
        Ok::<_, StateError>(())
    })?;
    if other_hub && let Err(error) = rescued::queued_again(state_folder, &before) {
        tracing::warn!(
            "reports that are queued again could not be removed from `rescued`: {error}"
        );
    }
    let key = keys::key_in_use(state_folder, store.read())?;
    Ok((site, key))
}
