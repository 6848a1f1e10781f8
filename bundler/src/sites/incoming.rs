//! What comes home about sites: requests that a person approves, and reports of orders carried out.
//!
//! What comes in: envelopes of unknown origin. What goes out: changed records. A request is signed by
//! the key that it is about and shows the token of the kit that the centre wrote, or, by order, is
//! signed by the key that it replaces as well. A report is signed by a key that was approved before.

use outhaul_bundle::index::Stream;
use outhaul_bundle::report::{
    ENROLMENT_PAYLOAD_TYPE, EnrolmentRequest, Event, PAYLOAD_TYPE, Report,
};
use outhaul_bundle::{Digest, Instruction};
use outhaul_signer::{Envelope, PublicKey};

use super::{Site, SiteError, Sites};

/// An order that a site says to have carried out, or never will.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Settled {
    /// The site.
    pub site: String,
    /// The order's number.
    pub number: u64,
    /// What was ordered.
    pub what: String,
    /// Why the site refused it for good, if it did.
    pub refused: Option<String>,
}

fn refused<T>(problem: impl Into<String>) -> Result<T, SiteError> {
    Err(SiteError::Request {
        problem: problem.into(),
    })
}

impl Sites<'_> {
    /// Approves the key of a request: the next bundle of the site's stream says so.
    ///
    /// # Errors
    /// [`SiteError::Request`] and [`SiteError::Signature`] for a request that is not believed.
    pub fn approve(&self, bytes: &[u8]) -> Result<(Site, PublicKey), SiteError> {
        let malformed = |problem: String| SiteError::Request { problem };
        let envelope =
            Envelope::from_json(bytes.trim_ascii()).map_err(|e| malformed(e.to_string()))?;
        let request: EnrolmentRequest = serde_json::from_slice(envelope.unverified_payload())
            .map_err(|error| malformed(error.to_string()))?;
        let key = PublicKey::from_pem(&request.public_key).map_err(|e| malformed(e.to_string()))?;
        let signed = |key: &PublicKey| {
            let checked = envelope.verify(ENROLMENT_PAYLOAD_TYPE, std::slice::from_ref(key));
            checked.map(drop).map_err(SiteError::Signature)
        };
        signed(&key)?;
        if request.fleet.as_str() != self.fleet.id() {
            return refused(format!(
                "it is of fleet `{}`, this fleet is `{}`",
                request.fleet,
                self.fleet.id()
            ));
        }
        let mut site = match self.find(request.site.as_str())? {
            Some(site) => site,
            None => self.unrecorded(&request)?,
        };
        if request.order.is_some() {
            let Some(old) = site.public_keys.last() else {
                return refused("it asks to replace a key, and none was approved before");
            };
            let old = PublicKey::from_pem(old).map_err(|error| malformed(error.to_string()))?;
            if old.id() != key.id() {
                signed(&old)?;
            }
        } else if Digest::of(request.token.as_bytes()) != site.enrolment {
            return refused(format!(
                "it shows another token than that of the kit last written for `{}`",
                site.site
            ));
        }
        let pem = key.to_pem();
        site.public_keys.retain(|known| *known != pem);
        site.public_keys.push(pem);
        if !request.seal_key.is_empty() {
            site.seal_key.clone_from(&request.seal_key);
        }
        let id = Digest::from_hex(&key.id()).map_err(|error| malformed(error.to_string()))?;
        let approves = |what: &Instruction| matches!(what, Instruction::Approve { .. });
        site.orders.retain(|order| !approves(&order.what));
        let site = self.order(site, Instruction::Approve { key: id })?;
        Ok((site, key))
    }

    /// A site that was enrolled before there were records: its kit's token is what it shows.
    fn unrecorded(&self, request: &EnrolmentRequest) -> Result<Site, SiteError> {
        let Stream {
            role,
            environment,
            cluster_type,
        } = &request.stream;
        if *role.as_str() != self.fleet.role(environment.as_str(), cluster_type.as_str()) {
            return refused("its stream's role is none of this fleet");
        }
        if request.token.is_empty() {
            return refused("it shows no token, and this fleet has no record of the site");
        }
        self.enrolled(&request.site, request.stream.clone(), &request.token)
    }

    /// Drops the orders that a line of a report file says were carried out. A line that is no such
    /// report, or that no approved key signed, drops nothing.
    ///
    /// # Errors
    /// [`SiteError`] when a record cannot be read or written.
    pub fn settle(&self, line: &[u8]) -> Result<Option<Settled>, SiteError> {
        let Ok(envelope) = Envelope::from_json(line) else {
            return Ok(None);
        };
        let Ok(claimed) = Report::from_bytes(envelope.unverified_payload()) else {
            return Ok(None);
        };
        let (number, what, enrolment, refused) = match claimed.event {
            Event::OrderDone {
                number,
                what,
                enrolment,
                ..
            } => (number, what, enrolment, None),
            Event::OrderRefused {
                number,
                what,
                enrolment,
                message,
            } => (number, what, Some(enrolment), Some(message)),
            _ => return Ok(None),
        };
        let Some(mut site) = self.find(claimed.site.as_str())? else {
            return Ok(None);
        };
        let keys: Vec<PublicKey> = site
            .public_keys
            .iter()
            .filter_map(|pem| PublicKey::from_pem(pem).ok())
            .collect();
        // A report of an earlier enrolment counts its orders from 1, too.
        let ours = claimed.fleet.as_str() == self.fleet.id()
            && enrolment.is_none_or(|enrolment| enrolment == site.enrolment);
        if !ours || envelope.verify(PAYLOAD_TYPE, &keys).is_err() {
            return Ok(None);
        }
        let Some(at) = site.orders.iter().position(|order| order.number == number) else {
            return Ok(None);
        };
        let order = site.orders.remove(at);
        if let Instruction::Move { to, .. } = order.what {
            match (&refused, site.moved_from.take()) {
                (None, _) => site
                    .roles
                    .retain(|role| *role == to.role || *role == site.stream.role),
                // Which of the streams it reads is what it read before.
                (Some(_), Some(from)) if site.stream == to => site.stream = from,
                (Some(_), from) => site.moved_from = from,
            }
        }
        let name = site.site.to_string();
        self.write(&site)?;
        Ok(Some(Settled {
            site: name,
            number,
            what,
            refused,
        }))
    }
}
