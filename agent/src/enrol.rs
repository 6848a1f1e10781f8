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
use outhaul_bundle::report::{ENROLMENT_PAYLOAD_TYPE, EnrolmentRequest, Event as Told};
use outhaul_signer::{Envelope, Kit, SigningKey};

use crate::config;
use crate::durable;
use crate::error::AgentError;
use crate::home::Home;
use crate::secrets::Secrets;
use crate::state::outbox::{self, Author};
use crate::state::{self, Site, StateError, Store, floors, key};

mod adopt;
mod again;

pub use adopt::Adopted;

/// What enrolment made.
#[derive(Debug)]
pub struct Enrolled {
    /// Who this site is.
    pub site: Site,
    /// The request file for the centre.
    pub request: PathBuf,
    /// The public key that values and bundles are sealed for (`age1…`).
    pub seal_key: String,
    /// Id of the site's own key: what the centre compares before it approves the request.
    pub fingerprint: String,
    /// Whether the site had been enrolled by the same kit before.
    pub again: bool,
    /// What an earlier memory of this folder had applied.
    pub adopted: Adopted,
}

/// Enrols the site. With `adopt_changed`, files that kept generations bring are this agent's whatever their content.
///
/// # Errors
/// [`AgentError`]; a site that is enrolled already keeps its identity.
pub fn enrol(home: &Home, kit: &[u8], adopt_changed: bool) -> Result<Enrolled, AgentError> {
    let refused = |message: String| AgentError::Usage {
        message,
        help: "get the kit again: `outhaul site kit` at the centre writes it".into(),
    };
    let kit = Kit::from_bytes(kit).map_err(|error| refused(chain(&error)))?;
    let name = |text: &str| {
        text.parse::<Name>()
            .map_err(|error| refused(error.to_string()))
    };
    let stream = Stream {
        role: name(&kit.stream.role)?,
        environment: name(&kit.stream.environment)?,
        cluster_type: name(&kit.stream.cluster_type)?,
    };
    let kit_key = kit.key();
    let _lock = home.lock()?;
    let config = config::load(&home.config())?;
    home.create()?;
    let mut store = Store::open(&home.database())?;
    if let Some(site) = state::meta::<Site>(store.read(), key::SITE)? {
        if (site.fleet.as_str(), site.name.as_str()) != (kit.fleet.as_str(), kit.site.as_str())
            || site.stream != stream
        {
            return Err(AgentError::Usage {
                message: format!("this state folder belongs to site `{}` already", site.name),
                help: "use another --state folder for another site".into(),
            });
        }
        let (site, key) = again::enrol_again(home, &mut store, site, &kit, &config.clock)?;
        let seal_key = seal_key(home)?;
        let request = write_request(home, &site, &Asking::first(&kit_key, &seal_key), &key)?;
        let adopted = if adopt_changed {
            store.commit(|db| adopt::adopt(home, &config, &site.name, true, db))?
        } else {
            Adopted::default()
        };
        return Ok(Enrolled {
            site,
            request,
            seal_key,
            fingerprint: key.public().id(),
            again: true,
            adopted,
        });
    }
    let trusted = kit.trusted().map_err(|error| refused(chain(&error)))?;
    let key = load_or_make_key(home)?;
    let site = Site {
        fleet: name(&kit.fleet)?,
        name: name(&kit.site)?,
        stream,
        hub_url: kit.hub_url.clone(),
        hub_key: kit.hub_key.clone(),
        epoch: new_epoch()?,
        enrolment: Some(enrolment(&kit)?),
        hub_ca: kit.hub_ca.clone(),
    };
    let seal_key = seal_key(home)?;
    let request = write_request(home, &site, &Asking::first(&kit_key, &seal_key), &key)?;
    let adopted = store.commit(|db| {
        // What an earlier store of this site had accepted still holds.
        let kept = floors::floors(db, &home.floors())?;
        floors::store_trusted(db, &trusted)?;
        floors::store(db, &kept)?;
        let moment = crate::clock::now(db, &config.clock)?;
        moment.store(db)?;
        state::set_meta(db, key::SITE, Some(&site))?;
        let adopted = adopt::adopt(home, &config, &site.name, adopt_changed, db)?;
        let author = Author {
            site: &site,
            key: &key,
            moment: &moment,
            max_rows: u64::MAX,
        };
        let agent_version = env!("CARGO_PKG_VERSION").to_owned();
        outbox::queue(db, &author, Told::Started { agent_version })?;
        Ok::<_, StateError>(adopted)
    })?;
    Ok(Enrolled {
        site,
        request,
        seal_key,
        fingerprint: key.public().id(),
        again: false,
        adopted,
    })
}

fn seal_key(home: &Home) -> Result<String, AgentError> {
    Ok(Secrets::own_public_key(&home.identities()).map_err(StateError::from)?)
}

/// A key that an interrupted enrolment made is used again.
fn load_or_make_key(home: &Home) -> Result<SigningKey, AgentError> {
    let path = home.key();
    if path.exists() {
        return Ok(SigningKey::load_plain(&path).map_err(StateError::from)?);
    }
    let key = SigningKey::generate().map_err(StateError::from)?;
    key.save_plain(&path).map_err(StateError::from)?;
    Ok(key)
}

/// What a request is about.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    /// For a first key: the key of the kit.
    kit: Option<&'a SigningKey>,
    /// For new keys by order: the order's number, and the key that vouches for the one that signs.
    rekey: Option<(u64, &'a SigningKey)>,
    /// The public key that is to be sealed for.
    seal_key: &'a str,
}

impl<'a> Asking<'a> {
    fn first(kit: &'a SigningKey, seal_key: &'a str) -> Self {
        Self {
            kit: Some(kit),
            rekey: None,
            seal_key,
        }
    }

    /// For new keys, by the order of this number.
    pub(crate) fn rekey(number: u64, old: &'a SigningKey, seal_key: &'a str) -> Self {
        Self {
            kit: None,
            rekey: Some((number, old)),
            seal_key,
        }
    }
}

/// Writes the request for `key`, signed by it, and by the kit's key or the key that it is to replace.
pub(crate) fn write_request(
    home: &Home,
    site: &Site,
    asking: &Asking<'_>,
    key: &SigningKey,
) -> Result<PathBuf, AgentError> {
    let request = EnrolmentRequest {
        fleet: site.fleet.clone(),
        site: site.name.clone(),
        stream: site.stream.clone(),
        public_key: key.public().to_pem(),
        kit: asking
            .kit
            .map_or_else(String::new, |kit| kit.public().to_hex()),
        seal_key: asking.seal_key.to_owned(),
        order: asking.rekey.map(|(number, _)| number),
    };
    let payload = state::to_json(&request).into_bytes();
    let mut envelope = Envelope::sign(ENROLMENT_PAYLOAD_TYPE, payload, key);
    if let Some(kit) = asking.kit {
        envelope = envelope.countersigned(kit);
    }
    if let Some((_, old)) = asking.rekey {
        envelope = envelope.countersigned(old);
    }
    let path = home.request(site.name.as_str());
    let mut line = envelope.to_json();
    line.push(b'\n');
    durable::write(&path, &line, 0o600)?;
    Ok(path)
}

/// What an enrolment with `kit` is known by: orders name it.
fn enrolment(kit: &Kit) -> Result<Digest, StateError> {
    Digest::from_hex(&kit.id()).map_err(|error| StateError::Key {
        problem: error.to_string(),
    })
}

/// A new life of a store: reports are numbered within it.
pub(crate) fn new_epoch() -> Result<Name, AgentError> {
    let mut bytes = [0u8; 8];
    let problem = |problem: String| StateError::Key { problem };
    getrandom::fill(&mut bytes).map_err(|error| problem(error.to_string()))?;
    Ok(hex::encode(bytes)
        .parse()
        .map_err(|_| problem("no epoch".into()))?)
}

/// An error with its causes in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
