//! The fleet in numbers: what the metrics of a hub say of it.
//!
//! What comes in: the store, and the time. What goes out: [`Measured`], counts of which none is about a single site. Sites are judged by the same
//! functions as on the pages and in the lists, one of each group of sites of which the same is known. It decides nothing, and asks
//! no gate: what gates decided is on record.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_gate::DEFAULT_MAX_AGE_HOURS;
use outhaul_gate::observed::resolved;
use outhaul_gate::time::HOUR_MS;
use outhaul_store::{DesiredBundle, NETWORK, Session, SiteGroup, StoreError};

use crate::rows::{self, BundleStatus, Connection};
use crate::{newest_for, of_role};

/// How old newest reports may be, in hours: 1 hour, 6, a day, three, a week, 30 days. The fourth is where a site becomes `stale`.
pub const AGES_HOURS: [u32; 6] = [1, 6, 24, DEFAULT_MAX_AGE_HOURS, 7 * 24, 30 * 24];
/// Decisions of one environment among which the newest of each step is looked for.
const DECISIONS: u32 = 50;
/// Rows of refusals: as many as the store keeps.
const REFUSALS: u32 = 1_000;

/// The fleet in numbers, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measured {
    /// When it was read, milliseconds since 1970.
    pub read_ms: i64,
    /// Sites by environment, cluster type and the word for the row.
    pub sites: BTreeMap<(String, String, &'static str), u64>,
    /// Sites that are not revoked, by environment and whether they report.
    pub connections: BTreeMap<(String, &'static str), u64>,
    /// The same by where they stand with the newest bundle that is for them.
    pub bundles: BTreeMap<(String, &'static str), u64>,
    /// How old newest reports are, by environment.
    pub ages: BTreeMap<String, Ages>,
    /// The newest bundle of each stream, by environment and cluster type.
    pub streams: BTreeMap<(String, String), NewestBundle>,
    /// The newest decision on record of each step, by environment and where it leads; empty where nobody said.
    pub gates: BTreeMap<(String, String), DecidedGate>,
    /// What people decided and still holds, by kind and environment.
    pub acts: BTreeMap<(&'static str, String), u64>,
    /// Enrolment requests that wait.
    pub requests: u64,
    /// How often something was refused, by way (`network` or `file`) and rule.
    pub refusals: BTreeMap<(&'static str, String), u64>,
    /// Deliveries of alerts, by state.
    pub alerts: BTreeMap<String, u64>,
    /// Reports that are acknowledged.
    pub acknowledged: u64,
    /// Bytes of the database.
    pub store_bytes: u64,
    /// When the hub was restored last, milliseconds since 1970.
    pub restored_ms: Option<i64>,
}

/// How old the newest reports of an environment's sites are; sites that never reported, or are revoked, have none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ages {
    /// Sites whose newest report is not older than each of [`AGES_HOURS`].
    pub within: [u64; AGES_HOURS.len()],
    /// Sites that reported.
    pub all: u64,
    /// When the newest of all was received, milliseconds since 1970.
    pub newest_ms: i64,
    /// When the newest of the site was received that has been silent for longest.
    pub oldest_ms: i64,
}

/// The newest bundle of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewestBundle {
    /// Its number.
    pub number: u64,
    /// When it was signed, milliseconds since 1970.
    pub issued_ms: i64,
    /// Until when it may be installed.
    pub expires_ms: i64,
}

/// What a gate said last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DecidedGate {
    /// Whether it was open.
    pub open: bool,
    /// Since when it says so, milliseconds since 1970.
    pub at_ms: i64,
    /// Each rule that was asked for, and whether it was met.
    pub rules: BTreeMap<String, bool>,
}

impl Measured {
    /// Reads all of it.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn take(session: &Session<'_>, now_ms: i64) -> Result<Self, StoreError> {
        let mut found = Self {
            read_ms: now_ms,
            requests: session.count_requests()?,
            alerts: session.alert_counts()?,
            acknowledged: session.count_acknowledged()?,
            store_bytes: session.size_bytes()?,
            restored_ms: session.last_restore()?.map(|restored| restored.at_ms),
            ..Self::default()
        };
        let bundles = session.bundles()?;
        let bounds = AGES_HOURS.map(|hours| now_ms.saturating_sub(i64::from(hours) * HOUR_MS));
        found.add_sites(session.site_groups(bounds)?, &bundles, now_ms);
        found.add_streams(&bundles);
        for environment in session.environments()? {
            found.add_gates(session, &environment)?;
        }
        found.add_acts(session, now_ms)?;
        for refusal in session.refusals(REFUSALS)? {
            let way = match refusal.source == NETWORK {
                true => "network",
                false => "file",
            };
            *found.refusals.entry((way, refusal.rule)).or_default() += refusal.times;
        }
        Ok(found)
    }

    fn add_sites(&mut self, groups: Vec<SiteGroup>, bundles: &[DesiredBundle], now_ms: i64) {
        let states: Vec<_> = groups.iter().map(|group| group.state.clone()).collect();
        let states = resolved(&states, bundles);
        for (group, state) in groups.iter().zip(states.iter()) {
            let environment = state.environment.clone();
            let standing = rows::standing(state, newest_for(bundles, state), now_ms);
            let kind = (
                environment.clone(),
                state.cluster_type.clone(),
                standing.verdict,
            );
            *self.sites.entry(kind).or_default() += group.count;
            if standing.connection == Connection::Revoked {
                continue;
            }
            let connection = (environment.clone(), standing.connection.as_str());
            *self.connections.entry(connection).or_default() += group.count;
            let bundle = (environment.clone(), standing.bundle.as_str());
            *self.bundles.entry(bundle).or_default() += group.count;
            if let (Some(newest_ms), Some(oldest_ms)) = (group.newest_ms, group.oldest_ms) {
                let ages = self.ages.entry(environment).or_insert(Ages {
                    newest_ms,
                    oldest_ms,
                    ..Ages::default()
                });
                ages.newest_ms = ages.newest_ms.max(newest_ms);
                ages.oldest_ms = ages.oldest_ms.min(oldest_ms);
                ages.all += group.count;
                for within in ages.within.iter_mut().skip(group.bound) {
                    *within += group.count;
                }
            }
        }
    }

    fn add_streams(&mut self, bundles: &[DesiredBundle]) {
        let roles: BTreeSet<&str> = bundles.iter().map(|bundle| bundle.role.as_str()).collect();
        for role in roles {
            let of_stream = of_role(bundles, role).iter().rev();
            let Some(bundle) = of_stream.into_iter().find(|bundle| !bundle.taken_back) else {
                continue;
            };
            let stream = (bundle.environment.clone(), bundle.cluster_type.clone());
            let newest = NewestBundle {
                number: bundle.number,
                issued_ms: bundle.signed.issued_ms,
                expires_ms: bundle.signed.expires_ms,
            };
            // A stream that was given another role goes on under the newer one.
            let known = self.streams.entry(stream).or_insert(newest);
            if newest.issued_ms > known.issued_ms {
                *known = newest;
            }
        }
    }

    fn add_gates(&mut self, session: &Session<'_>, environment: &str) -> Result<(), StoreError> {
        for (decision, record) in session.decisions_of(environment, DECISIONS)? {
            // One in the form of another version is on record, and names no rule here.
            let rules = record.map_or_else(Vec::new, |record| record.decision.rules);
            let step = (environment.to_owned(), decision.to.unwrap_or_default());
            self.gates.entry(step).or_insert_with(|| DecidedGate {
                open: decision.verdict == "open",
                at_ms: decision.at_ms,
                rules: rules
                    .into_iter()
                    // A rule may be asked for each part of an environment: one that is not met counts.
                    .fold(BTreeMap::new(), |mut all, one| {
                        *all.entry(one.rule).or_insert(true) &= one.met;
                        all
                    }),
            });
        }
        Ok(())
    }

    fn add_acts(&mut self, session: &Session<'_>, now_ms: i64) -> Result<(), StoreError> {
        let restored = session.last_restore()?;
        for act in session.acts_in_force(now_ms)? {
            if restored.is_some_and(|restored| !restored.holds(&act)) {
                continue;
            }
            let environment = match (&act.environment, &act.site) {
                (Some(name), _) => name.clone(),
                (None, Some(site)) => session
                    .site(site)?
                    .map(|site| site.environment)
                    .unwrap_or_default(),
                (None, None) => String::new(),
            };
            let kind = (act.kind.as_str(), environment);
            *self.acts.entry(kind).or_default() += 1;
        }
        Ok(())
    }
}

impl Connection {
    /// The words of a site that is registered.
    pub const OF_REGISTERED: [Self; 3] = [Self::Fresh, Self::Never, Self::Stale];

    /// `fresh`, `never`, `revoked` or `stale`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Never => "never",
            Self::Revoked => "revoked",
            Self::Stale => "stale",
        }
    }
}

impl BundleStatus {
    /// Every one.
    pub const ALL: [Self; 7] = [
        Self::Applying,
        Self::Behind,
        Self::Current,
        Self::Never,
        Self::NotTaken,
        Self::OtherContent,
        Self::Unknown,
    ];

    /// `applying`, `behind`, `current`, `never`, `not_taken`, `other_content` or `unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applying => "applying",
            Self::Behind => "behind",
            Self::Current => "current",
            Self::Never => "never",
            Self::NotTaken => "not_taken",
            Self::OtherContent => "other_content",
            Self::Unknown => "unknown",
        }
    }
}
