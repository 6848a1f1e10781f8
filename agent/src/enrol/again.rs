//! Enrolling a site that is enrolled already: with the same kit nothing changes, a new kit starts it over.
//!
//! What comes in: the site's state and a kit for the same site. What goes out: the site bound to the new
//! kit, so that orders for its earlier enrolment are none for it. A revoked site gets new keys
//! and may install again, and one whose key is lost gets a new one, with which what waits is signed again; what it
//! accepted, reported and runs stays as it was. For another hub its reports are renumbered, and what runs is reported again.

use outhaul_bundle::Digest;
use outhaul_bundle::report::ReportEvent;
use outhaul_signer::{Kit, SigningKey};

use crate::acks;
use crate::config::ClockConfig;
use crate::error::AgentError;
use crate::facilities::Facilities as _;
use crate::host::Host;
use crate::keys::{self, NextKeys};
use crate::state::outbox::{self, Author};
use crate::state::{self, SiteIdentity, StateError, Store, events, key};
use crate::state_folder::StateFolder;

/// The site as it is enrolled then, its key, and whether that is a new one because the one before is lost.
pub(super) fn enrol_again(
    state_folder: &StateFolder,
    store: &mut Store,
    mut site: SiteIdentity,
    kit: &Kit,
    clock: &ClockConfig,
) -> Result<(SiteIdentity, SigningKey, bool), AgentError> {
    let enrolment = super::enrolment(kit)?;
    // As sites knew their kit before requests proved it by a signature.
    let formerly = Digest::of(kit.token.as_bytes());
    if [enrolment, formerly].map(Some).contains(&site.enrolment) {
        return Ok((site, keys::key_in_use(state_folder, store.read())?, false));
    }
    let revoked = state::meta::<u64>(store.read(), key::REVOKED)?.is_some();
    let in_use = match keys::is_lost(state_folder, store.read()) {
        true => None,
        false => Some(keys::key_in_use(state_folder, store.read())?),
    };
    let next = match (revoked, &in_use) {
        (true, _) => Some(NextKeys::make(state_folder)?),
        (false, None) => Some(NextKeys::for_lost(state_folder)?),
        (false, Some(_)) => None,
    };
    let former: Option<String> = state::meta(store.read(), key::KEY_ID)?;
    let former = former.or_else(|| in_use.as_ref().map(|key| key.public().id()));
    site.enrolment = Some(enrolment);
    // A hub with another key does not know this site: it would wait for ever for reports that are gone.
    let other_hub = site.hub_key != kit.hub_key;
    // What waits was signed with a key that the hub may never have known, and nobody can sign with it again.
    let why = match (other_hub, &in_use) {
        (true, _) => Some("the agent: a new kit names another hub"),
        (false, None) => Some("the agent: the key of this site was lost"),
        (false, Some(_)) => None,
    };
    let before = site.clone();
    if why.is_some() {
        site.epoch = state::new_epoch()?;
    }
    site.hub_url.clone_from(&kit.hub_url);
    site.hub_key.clone_from(&kit.hub_key);
    site.hub_ca.clone_from(&kit.hub_ca);
    store.commit(|db| {
        let reading = crate::state::clock::now(db, Host.clocks(clock))?;
        reading.store(db)?;
        // Where the one before is lost, reports from now on are signed with the one that this kit makes known.
        let signing = in_use.as_ref().or(next.as_ref().map(|next| &next.signing));
        let author = Author {
            site: &site,
            key: signing.ok_or_else(no_key)?,
            reading: &reading,
            max_rows: u64::MAX,
        };
        if let Some(why) = why {
            acks::forget_own(state_folder, &before);
            outbox::renumber(db, &author, &site, why)?;
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
            next.put_in_use(db, former.clone())?;
        }
        Ok::<_, StateError>(())
    })?;
    let key = keys::key_in_use(state_folder, store.read())?;
    let made_key = in_use.is_none();
    Ok((site, key, made_key))
}

/// It is known before that there is one or the other.
fn no_key() -> StateError {
    StateError::Key {
        problem: "there is none to sign with".to_owned(),
    }
}
