//! What comes back about sites: requests that a person approves, and reports of orders carried out.
//!
//! What comes in: envelopes of unknown origin. What goes out: changed records. A request is signed by
//! the key that it is about, and by the key of the kit that the centre wrote or, by order, the key that it
//! replaces. A kit is good for one key; a second one is refused and named. A report is signed by a key
//! that was approved before.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use outhaul_bundle::index::Stream;
use outhaul_bundle::report::{
    ENROLMENT_PAYLOAD_TYPE, EnrolmentRequest, MAX_REPORTS_BYTES, PAYLOAD_TYPE, Report, ReportEvent,
};
use outhaul_bundle::{Digest, Instruction};
use outhaul_kit::durable::{self, FileError};
use outhaul_kit::media;
use outhaul_signer::enrol::{MIN_FINGERPRINT_DIGITS, proven_kit};
use outhaul_signer::envelope::{EnvelopeLine, next_line};
use outhaul_signer::{Envelope, PublicKey};

use super::{SiteError, SiteRecord, Sites};

/// An order that a site says to have carried out, or never will.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClosedOrder {
    /// The site.
    pub site: String,
    /// The order's number.
    pub number: u64,
    /// What was ordered.
    pub what: String,
    /// Why the site refused it for good, if it did.
    pub refused: Option<String>,
}

/// Whether the files after one are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goes {
    On,
    Stop,
}

/// What a line of a report file says of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderLine {
    /// No signed report.
    NoReport,
    /// Nothing that changes a record.
    Other,
    /// The order is done, or refused for good.
    Closed(ClosedOrder),
    /// The same, as the line says; but no key that was approved for the site signed it.
    UnknownKey(ClosedOrder),
}

/// What became of files of reports.
#[derive(Debug, Default)]
pub struct ClosedOrders {
    /// Orders that travel no longer.
    pub closed: Vec<ClosedOrder>,
    /// Orders that would not, if anybody knew the key that signed the report.
    pub unknown: Vec<ClosedOrder>,
    /// Files with lines that are no signed reports, and how many.
    pub no_reports: Vec<(PathBuf, usize)>,
    /// Files that cannot be read; the orders that the others answer are closed.
    pub unread: Vec<FileError>,
    /// A record that cannot be read or written; what stands behind it in the files was not looked at.
    pub stopped: Option<SiteError>,
}

/// A request that was approved.
#[derive(Debug)]
pub struct Approval {
    /// The site, with the order that says so.
    pub site: SiteRecord,
    /// The key.
    pub key: PublicKey,
    /// Whether it was approved before.
    pub known: bool,
    /// The order by which the site stays revoked.
    pub revoked_by: Option<u64>,
}

impl ClosedOrders {
    /// Whether something is left for a person to do: a report of an unknown key, or an order that a site refused.
    pub fn needs_person(&self) -> bool {
        !self.unknown.is_empty() || self.closed.iter().any(|one| one.refused.is_some())
    }
}

fn refused<T>(problem: impl Into<String>) -> Result<T, SiteError> {
    Err(SiteError::Request {
        problem: problem.into(),
    })
}

/// A request whose signatures hold, not approved yet.
#[derive(Debug)]
pub struct EnrolmentCandidate {
    /// The site's record as it is.
    pub site: SiteRecord,
    /// The key that the request is about.
    pub key: PublicKey,
    /// What would be sealed for it (`age1…`); empty for nothing.
    pub seal_key: String,
    /// Whether this very key is approved already.
    pub known: bool,
}

impl EnrolmentCandidate {
    /// Holds the key to the fingerprint that someone compared: all of it, or its first 16 digits or more.
    ///
    /// # Errors
    /// [`SiteError::OtherFingerprint`], [`SiteError::ShortFingerprint`].
    pub fn named(&self, fingerprint: &str) -> Result<(), SiteError> {
        let found = self.key.id();
        let named = fingerprint.to_ascii_lowercase();
        if named.len() < MIN_FINGERPRINT_DIGITS {
            return Err(SiteError::ShortFingerprint { named });
        }
        if found.starts_with(&named) {
            return Ok(());
        }
        Err(SiteError::OtherFingerprint { named, found })
    }
}

impl Sites<'_> {
    /// Checks a request, and changes nothing: its signatures, its fleet, that it proves the kit last
    /// written for its site, and that this kit was not used for another key.
    ///
    /// # Errors
    /// [`SiteError`] for a request that cannot be approved.
    pub fn candidate(&self, bytes: &[u8]) -> Result<EnrolmentCandidate, SiteError> {
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
        let recorded = self.find(request.site.as_str())?;
        if request.order.is_some() {
            let old = recorded
                .as_ref()
                .and_then(|site| site.public_keys.last().cloned());
            let (Some(site), Some(old)) = (recorded, old) else {
                return refused("it asks to replace a key, and none was approved before");
            };
            let old = PublicKey::from_pem(&old).map_err(|error| malformed(error.to_string()))?;
            let known = old.id() == key.id();
            if !known {
                signed(&old)?;
            }
            return Ok(EnrolmentCandidate {
                site,
                key,
                seal_key: request.seal_key,
                known,
            });
        }
        let kit = proven_kit(&envelope, ENROLMENT_PAYLOAD_TYPE, &request.kit)
            .map_err(|error| malformed(format!("{error}; enrol the machine with its kit again")))?;
        let kit = Digest::from_hex(&kit).map_err(|error| malformed(error.to_string()))?;
        let site = match recorded {
            Some(site) => site,
            None => self.unrecorded(&request, kit)?,
        };
        if kit != site.enrolment {
            return refused(format!(
                "it proves another kit than the one last written for `{}`",
                site.site
            ));
        }
        let known = unused_or_same(&site, &key, &request)?;
        Ok(EnrolmentCandidate {
            site,
            key,
            seal_key: request.seal_key,
            known,
        })
    }

    /// Approves the key of a request for whoever compared its fingerprint; without one it says what there is to compare, and changes
    /// nothing.
    ///
    /// # Errors
    /// [`SiteError`] for a request that cannot be approved; [`SiteError::Unnamed`] without a fingerprint.
    pub fn approve_request(
        &self,
        bytes: &[u8],
        fingerprint: Option<&str>,
    ) -> Result<Approval, SiteError> {
        let candidate = self.candidate(bytes)?;
        let Some(fingerprint) = fingerprint else {
            return Err(SiteError::Unnamed {
                site: candidate.site.site.to_string(),
                stream: candidate.site.stream_name(),
                found: candidate.key.id(),
                seal_key: candidate.seal_key,
            });
        };
        candidate.named(fingerprint)?;
        let (key, known) = (candidate.key.clone(), candidate.known);
        let revoked_by = candidate.site.revoked_by();
        Ok(Approval {
            site: self.approve(candidate)?,
            key,
            known,
            revoked_by,
        })
    }

    /// Approves a checked request: the next bundle of the site's stream says so. Of a key that is approved
    /// already nothing changes.
    ///
    /// # Errors
    /// [`SiteError`] when the record cannot be written.
    pub fn approve(&self, candidate: EnrolmentCandidate) -> Result<SiteRecord, SiteError> {
        let EnrolmentCandidate {
            mut site,
            key,
            seal_key,
            known,
        } = candidate;
        if known {
            return Ok(site);
        }
        let pem = key.to_pem();
        site.public_keys.retain(|older| *older != pem);
        site.public_keys.push(pem);
        if !seal_key.is_empty() {
            site.seal_key = seal_key;
        }
        let id = Digest::from_hex(&key.id()).map_err(|error| SiteError::Request {
            problem: error.to_string(),
        })?;
        let approves = |what: &Instruction| matches!(what, Instruction::Approve { .. });
        site.orders.retain(|order| !approves(&order.what));
        self.order(site, Instruction::Approve { key: id })
    }

    /// A site that was enrolled before there were records: the kit that it proves is its kit.
    fn unrecorded(&self, request: &EnrolmentRequest, kit: Digest) -> Result<SiteRecord, SiteError> {
        let Stream {
            role,
            environment,
            cluster_type,
        } = &request.stream;
        if *role.as_str() != self.fleet.role(environment.as_str(), cluster_type.as_str()) {
            return refused("its stream's role is not in this fleet");
        }
        Ok(Self::fresh(&request.site, request.stream.clone(), kit))
    }

    /// Drops the orders that the lines of these files say were carried out, or refused for good.
    pub fn close_orders(&self, files: &[PathBuf]) -> ClosedOrders {
        let mut done = ClosedOrders::default();
        for file in files {
            if self.close_orders_of_file(file, &mut done) == Goes::Stop {
                break;
            }
        }
        done
    }

    fn close_orders_of_file(&self, file: &Path, done: &mut ClosedOrders) -> Goes {
        let open = media::open_file(file).and_then(|open| {
            media::bounded(open, MAX_REPORTS_BYTES).map_err(durable::at("read", file))
        });
        let mut lines = match open {
            Ok(open) => BufReader::new(open),
            Err(error) => {
                done.unread.push(error);
                return Goes::On;
            }
        };
        let (mut broken, mut goes) = (0, Goes::On);
        loop {
            let line = match next_line(&mut lines) {
                Ok(Some(EnvelopeLine::Whole(line))) => line,
                Ok(Some(EnvelopeLine::TooLong)) => {
                    broken += 1;
                    continue;
                }
                Ok(None) => break,
                Err(error) => {
                    done.unread.push(durable::at("read", file)(error));
                    break;
                }
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            match self.close_order(&line) {
                Ok(OrderLine::NoReport) => broken += 1,
                Ok(OrderLine::Other) => {}
                Ok(OrderLine::Closed(one)) => done.closed.push(one),
                Ok(OrderLine::UnknownKey(one)) => done.unknown.push(one),
                Err(error) => {
                    done.stopped = Some(match done.closed.is_empty() {
                        true => error,
                        false => SiteError::Closing(Box::new(error)),
                    });
                    goes = Goes::Stop;
                    break;
                }
            }
        }
        if broken > 0 {
            done.no_reports.push((file.to_owned(), broken));
        }
        goes
    }

    /// Drops the orders that a line of a report file says were carried out. A line that is no such
    /// report, or that no approved key signed, drops nothing.
    ///
    /// # Errors
    /// [`SiteError`] when a record cannot be read or written.
    pub fn close_order(&self, line: &[u8]) -> Result<OrderLine, SiteError> {
        let Ok(envelope) = Envelope::from_json(line) else {
            return Ok(OrderLine::NoReport);
        };
        let Ok(claimed) = Report::from_bytes(envelope.unverified_payload()) else {
            return Ok(OrderLine::NoReport);
        };
        let (number, what, enrolment, refused) = match claimed.event {
            ReportEvent::OrderDone {
                number,
                what,
                enrolment,
                ..
            } => (number, what, enrolment, None),
            ReportEvent::OrderRefused {
                number,
                what,
                enrolment,
                message,
            } => (number, what, Some(enrolment), Some(message)),
            _ => return Ok(OrderLine::Other),
        };
        let Some(mut site) = self.find(claimed.site.as_str())? else {
            return Ok(OrderLine::Other);
        };
        let keys: Vec<PublicKey> = site
            .public_keys
            .iter()
            .filter_map(|pem| PublicKey::from_pem(pem).ok())
            .collect();
        // A report of an earlier enrolment counts its orders from 1, too.
        let ours = claimed.fleet.as_str() == self.fleet.id()
            && enrolment.is_none_or(|enrolment| enrolment == site.enrolment);
        let at = site.orders.iter().position(|order| order.number == number);
        let Some(at) = at.filter(|_| ours) else {
            return Ok(OrderLine::Other);
        };
        let reported = ClosedOrder {
            site: site.site.to_string(),
            number,
            what,
            refused,
        };
        if envelope.verify(PAYLOAD_TYPE, &keys).is_err() {
            return Ok(OrderLine::UnknownKey(reported));
        }
        let refused = &reported.refused;
        // A revocation stands for as long as the site's enrolment: each bundle repeats it, so that it holds
        // beyond the key that first signed it.
        let order = if site.orders[at].what == Instruction::Revoke && refused.is_none() {
            site.orders[at].clone()
        } else {
            site.orders.remove(at)
        };
        if let Instruction::Move { to, .. } = order.what {
            match (refused, site.moved_from.take()) {
                (None, _) => site
                    .roles
                    .retain(|role| *role == to.role || *role == site.stream.role),
                // Which of the streams it reads is what it read before.
                (Some(_), Some(from)) if site.stream == to => site.stream = from,
                (Some(_), from) => site.moved_from = from,
            }
        }
        self.write(&site)?;
        Ok(OrderLine::Closed(reported))
    }
}

/// Whether the kit was used for this very key already; an error when it was for another one, or for
/// another key to seal for.
fn unused_or_same(
    site: &SiteRecord,
    key: &PublicKey,
    request: &EnrolmentRequest,
) -> Result<bool, SiteError> {
    let Some(approved) = site.public_keys.last() else {
        return Ok(false);
    };
    let approved = PublicKey::from_pem(approved).map_or_else(|_| String::new(), |key| key.id());
    let what = if approved != key.id() {
        format!("key {}", key.id())
    } else if request.seal_key != site.seal_key {
        "another key to seal for".to_owned()
    } else {
        return Ok(true);
    };
    Err(SiteError::KitUsed {
        site: site.site.to_string(),
        approved,
        what,
    })
}
