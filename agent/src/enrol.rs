//! Becoming a site: once, with a kit, before anything else.
//!
//! What comes in: the bytes of a kit. What goes out: the site's own key, the fleet's root metadata as the
//! beginning of trust, and a request by which the centre learns the key, signed by it and by the key that
//! is derived from the kit's token; the token itself never travels. The site's key never leaves the state
//! folder. After this no command takes a key or switches a check off.

use std::path::PathBuf;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Stream;
use outhaul_bundle::name::Name;
use outhaul_bundle::report::ReportEvent;
use outhaul_kit::text;
use outhaul_signer::{Kit, SigningKey};
use outhaul_site::backup::restore;
use outhaul_site::backup::saved_floors::RestoredFloor;

use crate::config::{self, AgentConfig};
use crate::error::AgentError;
use crate::facilities::Facilities as _;
use crate::host::Host;
use crate::identity;
use crate::keys;
use crate::request::{Asking, write_request};
use crate::rescued::{self, RescuedReports};
use crate::roots;
use crate::runner::held::Lacking;
use crate::runner::lost_database::Lost;
use crate::runner::{held_again, kept_floors, known_again};
use crate::secrets::Secrets;
use crate::state::outbox::{self, Author};
use crate::state::{self, SiteIdentity, StateError, Store, clock, floors, holds, key};
use crate::state_folder::{Lock, StateFolder};

mod adopt;
mod again;
mod former;

pub use adopt::Adopted;

/// What enrolment made.
#[derive(Debug)]
pub struct Enrolled {
    /// Who this site is.
    pub site: SiteIdentity,
    /// The request file for the centre.
    pub request: PathBuf,
    /// The public key that values and bundles are sealed for (`age1…`).
    pub seal_key: String,
    /// Id of the site's own key: what the centre compares before it approves the request.
    pub fingerprint: String,
    /// Whether the site had been enrolled by the same kit before.
    pub again: bool,
    /// Whether the site has a new key beside its database, because the one before was lost.
    pub made_key: bool,
    /// What an earlier database in this folder had applied.
    pub adopted: Adopted,
    /// Held assignments of which what they keep is not known again.
    pub lacking: Vec<Lacking>,
    /// Reports of a former database that have not reached the hub.
    pub rescued: Vec<RescuedReports>,
    /// What could not be known again, where there was an earlier database in this folder and it is gone.
    pub lost: Option<Lost>,
    /// What files in `rescued` show of the bundles that this site accepted.
    pub saved_floors: RestoredFloor,
}

/// Enrols the site. With `adopt_changed`, files that kept generations bring are this agent's whatever their content.
///
/// # Errors
/// [`AgentError`]; a site that is enrolled already keeps its identity.
pub fn enrol(
    state_folder: &StateFolder,
    kit: &[u8],
    adopt_changed: bool,
) -> Result<Enrolled, AgentError> {
    let kit = read_kit(kit)?;
    let name = |text: &str| {
        text.parse::<Name>()
            .map_err(|error| bad_kit(error.to_string()))
    };
    let stream = Stream {
        role: name(&kit.stream.role)?,
        environment: name(&kit.stream.environment)?,
        cluster_type: name(&kit.stream.cluster_type)?,
    };
    let (fleet, site_name) = (name(&kit.fleet)?, name(&kit.site)?);
    let trusted = kit
        .trusted()
        .map_err(|error| bad_kit(text::chain(&error)))?;
    let kit_key = kit.key();
    let (_lock, config, lost) = claimed(state_folder)?;
    // Opening a database that is gone would make an empty one in its place.
    if state::check_enrolled(state_folder).is_err() {
        let of_kit = ((&fleet, &site_name), enrolment(&kit)?);
        former::check_without_database(state_folder, of_kit, lost)?;
    }
    let mut store = opened(state_folder)?;
    if let Some(site) = state::meta::<SiteIdentity>(store.read(), key::SITE)? {
        identity::check(state_folder, store.read())?;
        if (site.fleet.as_str(), site.name.as_str()) != (kit.fleet.as_str(), kit.site.as_str())
            || site.stream != stream
        {
            return Err(of_another_site(state_folder, &site, &site_name));
        }
        return enrolled_before(
            state_folder,
            (&mut store, site),
            &kit,
            &config,
            adopt_changed,
        );
    }
    former::check(state_folder, (&fleet, &site_name), lost)?;
    let key = load_or_make_key(state_folder)?;
    let site = SiteIdentity {
        fleet,
        name: site_name,
        stream,
        hub_url: kit.hub_url.clone(),
        hub_key: kit.hub_key.clone(),
        epoch: state::new_epoch()?,
        enrolment: Some(enrolment(&kit)?),
        hub_ca: kit.hub_ca.clone(),
    };
    let seal_key = seal_key(state_folder)?;
    let request = write_request(
        state_folder,
        &site,
        &Asking::first(&kit_key, &seal_key),
        &key,
    )?;
    let (adopted, lost, lacking, saved_floors) = store.commit(|db| {
        let reading = clock::now(db, Host.clocks(&config.clock))?;
        reading.store(db)?;
        let now = reading.policy();
        let (shown, saved) = kept_floors::store(state_folder, (&trusted, &site), now, lost, db)?;
        state::set_meta(db, key::SITE, Some(&site))?;
        state::set_meta(db, key::KIT_ROOT, roots::version_of(&trusted).as_ref())?;
        keys::bind(db, &key)?;
        let mut adopted = adopt::adopt(state_folder, &config, &site.name, adopt_changed, db)?;
        let values = adopted.values.clone();
        let lost = lost.then(|| Lost::known_again(state_folder, db, values, shown));
        let lost = lost.transpose()?;
        state::set_meta(db, key::LOST, lost.as_ref())?;
        // By the holds, too, which are here again now.
        adopted.absent = known_again::absent(state_folder, site.stream.role.as_str(), db)?;
        let fleet = (&trusted, site.stream.role.as_str());
        let floors = floors::floors(db, &state_folder.floors())?;
        let lacking = held_again::store(state_folder, fleet, &floors, db)?;
        let author = Author {
            site: &site,
            key: &key,
            reading: &reading,
            max_rows: u64::MAX,
        };
        let agent_version = env!("CARGO_PKG_VERSION").to_owned();
        outbox::queue(db, &author, ReportEvent::Started { agent_version })?;
        Ok::<_, StateError>((adopted, lost, lacking, saved))
    })?;
    keep_beside(state_folder, &store);
    // Holds that could not be given back stay, with what is beside them.
    let has_holds = lost.as_ref().is_some_and(|lost| lost.from_rescued);
    if has_holds || !rescued::copied(state_folder).holds().exists() {
        rescued::remove_copied(state_folder, (&site.fleet, &site.name));
    }
    Ok(Enrolled {
        rescued: rescued_reports(state_folder, &site),
        site,
        request,
        seal_key,
        fingerprint: key.public().id(),
        again: false,
        made_key: false,
        adopted,
        lacking,
        lost,
        saved_floors,
    })
}

/// The site is enrolled: a copy of what the database has that cannot be written beside it is no reason to fail.
fn keep_beside(state_folder: &StateFolder, store: &Store) {
    if let Err(error) = holds::beside::keep(state_folder, store.read()) {
        tracing::warn!(
            "the copy of the holds beside the database (`holds.json`) is not up to date, and is written at the next start: {error}"
        );
    }
    if let Err(error) = identity::keep(state_folder, store.read()) {
        tracing::warn!(
            "which site this is (`site.json`) is not up to date beside the database, and is written at the next start: {error}"
        );
    }
}

/// Reports of databases that were removed, which the one of `site` does not have.
fn rescued_reports(state_folder: &StateFolder, site: &SiteIdentity) -> Vec<RescuedReports> {
    if let Err(error) = rescued::write_out(state_folder, site) {
        tracing::warn!(
            "reports of a former database that is saved in `rescued` could not be written out of it: {error}"
        );
    }
    rescued::waiting(state_folder, site)
}

/// The folder has the database of another site than the one named `wanted`.
fn of_another_site(state_folder: &StateFolder, site: &SiteIdentity, wanted: &Name) -> AgentError {
    AgentError::Usage {
        message: format!(
            "this state folder belongs to site `{}` of fleet {}, {}/{}, already",
            site.name, site.fleet, site.stream.environment, site.stream.cluster_type
        ),
        help: format!(
            "name another state folder for another site (`--state`); where this machine is to be `{wanted}` from now on, stop the service where it runs \
             (`systemctl stop outhaul-agent`), bring the reports that wait to the hub (`outhaul-agent export FOLDER`), then {}",
            former::becomes(state_folder, wanted)
        ),
    }
}

/// The same site enrols by another kit, or by the same one again.
fn enrolled_before(
    state_folder: &StateFolder,
    (store, site): (&mut Store, SiteIdentity),
    kit: &Kit,
    config: &AgentConfig,
    adopt_changed: bool,
) -> Result<Enrolled, AgentError> {
    let (site, key, made_key) = again::enrol_again(state_folder, store, site, kit, &config.clock)?;
    keep_beside(state_folder, store);
    let seal_key = seal_key(state_folder)?;
    let kit_key = kit.key();
    let asking = Asking::first(&kit_key, &seal_key);
    let request = write_request(state_folder, &site, &asking, &key)?;
    let adopted = match adopt_changed {
        true => store.commit(|db| adopt::adopt(state_folder, config, &site.name, true, db))?,
        false => Adopted::default(),
    };
    Ok(Enrolled {
        rescued: rescued_reports(state_folder, &site),
        site,
        request,
        seal_key,
        fingerprint: key.public().id(),
        again: true,
        made_key,
        adopted,
        lacking: Vec::new(),
        lost: None,
        saved_floors: RestoredFloor::default(),
    })
}

/// A kit that cannot be used.
fn bad_kit(message: String) -> AgentError {
    AgentError::Usage {
        message,
        help: "get the kit again: `outhaul site enrol` at the centre writes it".into(),
    }
}

/// Whether bytes are a kit that can be used.
///
/// # Errors
/// [`AgentError::Usage`] says what is wrong with it.
pub fn check_kit(bytes: &[u8]) -> Result<(), AgentError> {
    read_kit(bytes).map(drop)
}

/// A kit, with a URL and a token that can be used.
fn read_kit(bytes: &[u8]) -> Result<Kit, AgentError> {
    let kit = Kit::from_bytes(bytes).map_err(|error| bad_kit(text::chain(&error)))?;
    // Checked here, where the kit can be made again, and not on the day of the first connection.
    if !kit.hub_url.is_empty() {
        outhaul_http::check_url(&kit.hub_url)
            .map_err(|expected| bad_kit(format!("the hub's URL in the kit is not {expected}")))?;
    }
    if kit.token.trim().is_empty() {
        return Err(bad_kit("the kit has an empty token".to_owned()));
    }
    Ok(kit)
}

fn seal_key(state_folder: &StateFolder) -> Result<String, AgentError> {
    Ok(Secrets::own_public_key(&state_folder.identities()).map_err(StateError::from)?)
}

/// The state folder for a site: with nothing of someone else's in it, locked and closed to others; its settings; and whether
/// what lies in it shows that a site was here.
fn claimed(state_folder: &StateFolder) -> Result<(Lock, AgentConfig, bool), AgentError> {
    state_folder.check_unused()?;
    let lock = state_folder.lock()?;
    refuse_interrupted_restore(state_folder)?;
    let config = config::load(&state_folder.config())?;
    Ok((lock, config, state_folder.shows_site().is_some()))
}

/// What a restore left that was interrupted at its end is removed; before that, what lies in the folder belongs to no site yet.
fn refuse_interrupted_restore(state_folder: &StateFolder) -> Result<(), AgentError> {
    restore::finish(state_folder).map_err(StateError::from)?;
    match state_folder.restore_is_begun() {
        false => Ok(()),
        true => Err(AgentError::Usage {
            message: format!(
                "`{}` has what a restore left that was interrupted: no site is enrolled over it",
                text::path(state_folder.root())
            ),
            help: format!(
                "{}; where that backup is not to be had any more, move the whole folder aside, and repeat this command",
                state::BEGIN_ANEW
            ),
        }),
    }
}

/// The database with the folders beside it, or a new one, before which what is left beside a lost one is kept.
fn opened(state_folder: &StateFolder) -> Result<Store, AgentError> {
    state_folder.create()?;
    if let Some(kept) =
        rescued::keep_left_beside_database(state_folder).map_err(StateError::from)?
    {
        tracing::warn!(
            "what was left beside the database that is not there (`agent.db-wal` and the like) is kept in `{}`: where that database is found, put it \
             there, named `agent.db`, and report it to who maintains this site: reports may stand in both together only",
            text::path(&kept)
        );
    }
    Ok(Store::open(&state_folder.database())?)
}

/// A key that an interrupted enrolment made is used again.
fn load_or_make_key(state_folder: &StateFolder) -> Result<SigningKey, AgentError> {
    let path = state_folder.key();
    if path.exists() {
        return Ok(SigningKey::load_plain(&path).map_err(StateError::from)?);
    }
    let key = SigningKey::generate().map_err(StateError::from)?;
    key.save_plain(&path).map_err(StateError::from)?;
    Ok(key)
}

/// What an enrolment with `kit` is known by: orders name it.
fn enrolment(kit: &Kit) -> Result<Digest, StateError> {
    Digest::from_hex(&kit.id()).map_err(|error| StateError::Key {
        problem: error.to_string(),
    })
}
