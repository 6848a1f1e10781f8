//! What the centre knows of the fleet's sites: their enrolment, approved keys, and standing orders.
//!
//! What comes in: kits that were written, requests that came back, orders of people, reports that say
//! that an order was carried out. What goes out: one record per site in the fleet's folder
//! (`sites/<name>.json`), and the orders that the next bundle of a stream carries. It signs nothing: the
//! bundle's metadata covers what is in the bundle.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use outhaul_bundle::index::Stream;
use outhaul_bundle::name::Name;
use outhaul_bundle::{Digest, Instruction, Order};
use outhaul_signer::durable::{self, FileError, PUBLIC_MODE};
use outhaul_signer::enrol::MIN_FINGERPRINT_DIGITS;
use outhaul_signer::envelope::EnvelopeError;
use outhaul_signer::fleet::{Fleet, FleetError};
use outhaul_signer::key::KeyError;
use serde::{Deserialize, Serialize};

pub mod acknowledged;
mod enrolment;
mod failure;
pub mod fake;
mod incoming;
pub mod readers;
mod reports;
mod running;

pub use enrolment::{NewKit, authority};
pub use incoming::{Approval, ClosedOrder, ClosedOrders, EnrolmentCandidate, OrderLine};
pub use running::{ReportLine, RunningBundle, Seen};

/// The format's name; another is refused.
pub const FORMAT: &str = "outhaul.dev/site/v1";
/// Largest record, in bytes.
const MAX_RECORD_BYTES: u64 = 1024 * 1024;

/// One site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteRecord {
    /// Always [`FORMAT`].
    pub format: String,
    /// Its name.
    pub site: Name,
    /// The stream that it follows, or was asked to follow.
    pub stream: Stream,
    /// The stream before the last order to move, until the site reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<Stream>,
    /// Signing roles of the streams whose bundles it may be reading: two while it moves.
    pub roles: BTreeSet<Name>,
    /// Revocations of machines that were this site before it was enrolled again: they travel in the streams that those followed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierMachine>,
    /// The id of its kit, by which requests prove themselves and orders name the enrolment.
    pub enrolment: Digest,
    /// Its approved keys, SPKI PEM; the last one counts, the others signed earlier reports.
    #[serde(default)]
    pub public_keys: Vec<String>,
    /// What is sealed for it is sealed for this key (`age1…`); empty until its request is approved.
    #[serde(default)]
    pub seal_key: String,
    /// The number of the last order given.
    #[serde(default)]
    pub last_order: u64,
    /// Orders that it has not said to have carried out.
    #[serde(default)]
    pub orders: Vec<Order>,
}

/// Why the record of a site cannot be used or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SiteError {
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The fleet.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// A record that this program did not write.
    #[error("`{}` is not the record of a site: {problem}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// It has a kit, and nobody asked for another one.
    #[error("`{site}` has a kit already, for {stream}; another one invalidates: {void}")]
    Enrolled {
        /// The site.
        site: String,
        /// What it follows.
        stream: String,
        /// What another kit makes void.
        void: String,
    },
    /// Too many machines that had its name were revoked.
    #[error(
        "`{site}` was {MAX_EARLIER} machines that were revoked, and each stays revoked by an order that travels with every \
         bundle: no other machine gets this name"
    )]
    ManyRevoked {
        /// The site.
        site: String,
    },
    /// It is where it is to be moved to.
    #[error("`{site}` follows {stream} already")]
    Follows {
        /// The site.
        site: String,
        /// The stream.
        stream: String,
    },
    /// A fault of the program.
    #[error("{problem}")]
    Internal {
        /// What is wrong.
        problem: String,
    },
    /// There is no randomness for the token of a kit.
    #[error(transparent)]
    Key(KeyError),
    /// A key for a kit that was used for another one.
    #[error(
        "the kit of `{site}` was used: key {approved} is approved for it, and this request is for \
         {what}; nothing was changed"
    )]
    KitUsed {
        /// The site.
        site: String,
        /// The id of the approved key.
        approved: String,
        /// What the request asks for instead.
        what: String,
    },
    /// A file that is to have the certificate of an authority.
    #[error("`{}` holds no certificate", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// Not the name of a stream.
    #[error("`{given}` is not a stream")]
    NoStream {
        /// What was given.
        given: String,
    },
    /// The person who approves named another key.
    #[error(
        "the request is of key {found}, not of one whose fingerprint begins with `{named}`; nothing \
         was changed"
    )]
    OtherFingerprint {
        /// What was named.
        named: String,
        /// The id of the request's key.
        found: String,
    },
    /// The person who approves named too little of a key.
    #[error(
        "the fingerprint `{named}` has {} digits, and {MIN_FINGERPRINT_DIGITS} are the fewest that name a key; nothing was changed",
        named.len()
    )]
    ShortFingerprint {
        /// What was named.
        named: String,
    },
    /// A request that is not trusted.
    #[error("the request is refused: {problem}; nothing was changed")]
    Request {
        /// What was expected and found.
        problem: String,
    },
    /// A file that a person named, or a folder with such files.
    #[error(transparent)]
    Named(FileError),
    /// A signature that does not hold.
    #[error("the request is refused: its signature does not hold; nothing was changed")]
    Signature(#[source] EnvelopeError),
    /// The record of a site of which reports close orders, after orders of others were closed.
    #[error(transparent)]
    Closing(Box<SiteError>),
    /// A new key for a site whose first one nobody approved.
    #[error(
        "no key of `{site}` was approved yet, so no key can sign the request for a new one; nothing was changed"
    )]
    Unapproved {
        /// The site.
        site: String,
    },
    /// A request whose key nobody compared yet.
    #[error(
        "the request of site `{site}` of {stream} was not approved: no fingerprint was named\n  fingerprint \
         {found}\n  seal for    {seal_key}"
    )]
    Unnamed {
        /// The site.
        site: String,
        /// What it follows.
        stream: String,
        /// The id of the request's key.
        found: String,
        /// What would be sealed for it.
        seal_key: String,
    },
    /// Nobody of this name.
    #[error("the fleet has no record of a site `{site}`")]
    Unknown {
        /// The name.
        site: String,
        /// Who there is.
        known: Vec<String>,
    },
}

/// A machine that was a site before that was enrolled again, and is revoked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlierMachine {
    /// The roles of the streams that it may follow.
    pub roles: BTreeSet<Name>,
    /// The orders that revoke it.
    pub revocations: Vec<Order>,
}

/// Most of them that a site may have.
const MAX_EARLIER: usize = 16;

impl SiteRecord {
    /// The revoked machines that were this site, with the one that it has now where that is revoked.
    fn machines(self) -> Vec<EarlierMachine> {
        let mut all = self.earlier;
        let revokes = |order: &Order| order.what == Instruction::Revoke;
        let revocations: Vec<Order> = self.orders.into_iter().filter(revokes).collect();
        if !revocations.is_empty() {
            let roles = self.roles;
            all.push(EarlierMachine { roles, revocations });
        }
        all
    }

    /// The order that revokes it, which stands until it is enrolled again.
    pub fn revoked_by(&self) -> Option<u64> {
        let mut orders = self.orders.iter();
        let revokes = |order: &&Order| order.what == Instruction::Revoke;
        orders.find(revokes).map(|order| order.number)
    }

    /// The stream that it follows, for people.
    pub fn stream_name(&self) -> String {
        format!("{}/{}", self.stream.environment, self.stream.cluster_type)
    }
}

/// The records of a fleet's sites.
#[derive(Debug)]
pub struct Sites<'a> {
    fleet: &'a Fleet,
    folder: PathBuf,
}

impl<'a> Sites<'a> {
    /// The records of `fleet`.
    pub fn of(fleet: &'a Fleet) -> Self {
        let folder = fleet.sites_folder();
        Self { fleet, folder }
    }

    /// Every site, by name.
    ///
    /// # Errors
    /// [`SiteError`] for a record that cannot be read.
    pub fn all(&self) -> Result<Vec<SiteRecord>, SiteError> {
        let mut paths = Vec::new();
        let Ok(entries) = std::fs::read_dir(&self.folder) else {
            return Ok(Vec::new());
        };
        for entry in entries {
            let path = entry
                .map_err(|source| FileError {
                    doing: "read",
                    path: self.folder.clone(),
                    source,
                })?
                .path();
            if path.extension().is_some_and(|end| end == "json") {
                paths.push(path);
            }
        }
        paths.sort();
        let read = |path: &PathBuf| {
            let bytes = durable::read(path, MAX_RECORD_BYTES)?;
            parse(path, &bytes)
        };
        paths.iter().map(read).collect()
    }

    /// One site.
    ///
    /// # Errors
    /// [`SiteError::Unknown`], or a record that cannot be read.
    pub fn one(&self, name: &str) -> Result<SiteRecord, SiteError> {
        if let Some(site) = self.find(name)? {
            return Ok(site);
        }
        let known = self.all()?.into_iter().map(|site| site.site.to_string());
        Err(SiteError::Unknown {
            site: name.to_owned(),
            known: known.collect(),
        })
    }

    /// One site, when there is a record of it.
    ///
    /// # Errors
    /// [`SiteError`] for a record that cannot be read.
    pub fn find(&self, name: &str) -> Result<Option<SiteRecord>, SiteError> {
        let Ok(name) = name.parse::<Name>() else {
            return Ok(None);
        };
        let path = self.path(&name);
        let bytes = durable::read_if_present(&path, MAX_RECORD_BYTES)?;
        bytes.map(|bytes| parse(&path, &bytes)).transpose()
    }

    /// Refuses another machine for a site of which as many were revoked as may be.
    fn refuse_many_revoked(&self, site: &Name) -> Result<(), SiteError> {
        let before = self.find(site.as_str())?;
        match before.is_some_and(|before| before.machines().len() > MAX_EARLIER) {
            true => Err(SiteError::ManyRevoked {
                site: site.to_string(),
            }),
            false => Ok(()),
        }
    }

    /// Remembers that a kit of this id was written for a site. What was ordered before is void, because it was
    /// for another enrolment; but for revocations, which the machine of that enrolment still has to get.
    ///
    /// # Errors
    /// [`SiteError`] when the record cannot be written.
    pub fn enrolled(
        &self,
        site: &Name,
        stream: Stream,
        kit: Digest,
    ) -> Result<SiteRecord, SiteError> {
        self.refuse_many_revoked(site)?;
        let mut record = Self::fresh(site, stream, kit);
        if let Some(before) = self.find(site.as_str())? {
            record.earlier = before.machines();
        }

        self.write(&record)?;
        Ok(record)
    }

    /// The record of a site before anybody approved or ordered anything.
    fn fresh(site: &Name, stream: Stream, kit: Digest) -> SiteRecord {
        SiteRecord {
            format: FORMAT.to_owned(),
            site: site.clone(),
            roles: BTreeSet::from([stream.role.clone()]),
            stream,
            moved_from: None,
            enrolment: kit,
            public_keys: Vec::new(),
            seal_key: String::new(),
            last_order: 0,
            orders: Vec::new(),
            earlier: Vec::new(),
        }
    }

    /// Orders a site to make itself new keys. Only after its first key was approved: that one has to sign
    /// the request for the next.
    ///
    /// # Errors
    /// [`SiteError`]
    pub fn rekey(&self, name: &str) -> Result<SiteRecord, SiteError> {
        let site = self.one(name)?;
        if site.public_keys.is_empty() {
            let site = site.site.to_string();
            return Err(SiteError::Unapproved { site });
        }
        self.order(site, Instruction::Rekey)
    }

    /// Orders a site to install nothing new any more.
    ///
    /// # Errors
    /// [`SiteError`]
    pub fn revoke(&self, name: &str) -> Result<SiteRecord, SiteError> {
        self.order(self.one(name)?, Instruction::Revoke)
    }

    /// Orders a site to follow another stream. The stream's numbers go on above all that the site may
    /// have seen in its old one, so that no number means two things on it.
    ///
    /// # Errors
    /// [`SiteError`]
    pub fn relocate(&self, name: &str, to: Stream) -> Result<SiteRecord, SiteError> {
        let mut site = self.one(name)?;
        enrolment::refuse_same(&site, &to)?;
        let mut first = 1;
        for role in &site.roles {
            first = first.max(self.fleet.next_number(role.as_str())?);
        }
        self.fleet.begin_at(to.role.as_str(), first)?;
        site.moved_from = Some(std::mem::replace(&mut site.stream, to.clone()));
        site.roles.insert(to.role.clone());
        self.order(site, Instruction::Move { to, first })
    }

    fn order(&self, mut site: SiteRecord, what: Instruction) -> Result<SiteRecord, SiteError> {
        site.last_order += 1;
        site.orders.push(Order {
            site: site.site.clone(),
            number: site.last_order,
            enrolment: site.enrolment,
            what,
        });
        self.write(&site)?;
        Ok(site)
    }

    /// The orders that bundles of the stream `role` have for its sites, sorted.
    ///
    /// # Errors
    /// [`SiteError`] for a record that cannot be read.
    pub fn orders_for(&self, role: &str) -> Result<Vec<Order>, SiteError> {
        let follows = |roles: &BTreeSet<Name>| roles.iter().any(|known| known.as_str() == role);
        let mut orders = Vec::new();
        for site in self.all()? {
            if follows(&site.roles) {
                orders.extend(site.orders);
            }
            let earlier = site.earlier.into_iter().filter(|one| follows(&one.roles));
            orders.extend(earlier.flat_map(|one| one.revocations));
        }
        orders.sort();
        Ok(orders)
    }

    /// The orders that the next bundles of the streams `roles` have for their sites, by role; a stream without any is not among them.
    ///
    /// # Errors
    /// [`SiteError`] for a record that cannot be read.
    pub fn orders_of<'r>(
        &self,
        roles: impl IntoIterator<Item = &'r str>,
    ) -> Result<Vec<(&'r str, Vec<Order>)>, SiteError> {
        let mut all = Vec::new();
        for role in roles {
            let orders = self.orders_for(role)?;
            if !orders.is_empty() {
                all.push((role, orders));
            }
        }
        Ok(all)
    }

    fn path(&self, site: &Name) -> PathBuf {
        self.folder.join(format!("{site}.json"))
    }

    fn write(&self, site: &SiteRecord) -> Result<(), SiteError> {
        durable::create_folder(&self.folder)?;
        let mut bytes = serde_json::to_vec_pretty(site).unwrap_or_default();
        bytes.push(b'\n');
        Ok(durable::write(&self.path(&site.site), &bytes, PUBLIC_MODE)?)
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<SiteRecord, SiteError> {
    let wrong = |problem: String| SiteError::Record {
        path: path.to_owned(),
        problem,
    };
    let site: SiteRecord =
        serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
    if site.format != FORMAT {
        return Err(wrong(format!(
            "its format is `{}`, not `{FORMAT}`",
            site.format
        )));
    }
    Ok(site)
}

#[cfg(test)]
mod tests;
