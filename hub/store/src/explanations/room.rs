//! Room for one more explanation: which of those on record give way to it.
//!
//! What comes in: a document that was checked, and who sends it. What goes out: which go, or that there is no room. What someone sent gives
//! way to their own, what a revoked token sent to anybody's, what takes most places of an environment to what takes fewer, and everything to who administers the hub: nobody keeps others out for good.
//! It removes nothing itself.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    COLUMNS, KEPT_OF_SNAPSHOT, MAX_EXPLAINED_ENVIRONMENTS, MAX_EXPLANATIONS_BYTES, NEWEST,
    PackedExplanation, PutExplanation, Session, StoreError, StoredExplanation, params,
};

/// Explanations of one environment that are kept whatever they are about, and those that are kept because bundles that run need them.
const KEPT_OF_ENVIRONMENT: usize = 50;
const MOST_OF_ENVIRONMENT: usize = 200;

/// Who sends an explanation.
#[derive(Debug, Clone, Copy)]
pub struct Sender<'a> {
    /// The name that is shown.
    pub name: &'a str,
    /// Whether what others sent gives way to it, the oldest first: with scope admin, and for the command on the hub's own machine.
    pub is_admin: bool,
}

/// Whether there is room.
pub(super) enum ExplanationSpace {
    /// There is, once these are gone.
    Free(Vec<i64>),
    /// There is none, and why.
    No(PutExplanation),
}

impl Session<'_> {
    /// What has to go for a document, if that is enough.
    pub(super) fn room_for(
        &self,
        packed: &PackedExplanation,
        sender: Sender<'_>,
    ) -> Result<ExplanationSpace, StoreError> {
        let document = &packed.document;
        let lapsed = Lapsed::of(self)?;
        let known = self.environments()?;
        let is_known = known.contains(&document.environment);
        let mut all = self.explanations_where(&format!("{COLUMNS} {NEWEST}"), params![])?;
        all.reverse();
        // From here on the oldest is first. What gives way to this sender: 0 first.
        let rank = |one: &StoredExplanation| -> Option<u8> {
            if lapsed.is_of(one) {
                return Some(0);
            }
            if (is_known || sender.is_admin) && !known.contains(&one.environment) {
                return Some(1);
            }
            sender.is_admin.then_some(2)
        };

        let snapshot = document.snapshot.digest.to_string();
        let same: Vec<&StoredExplanation> = (all.iter())
            .filter(|one| {
                (&one.environment, &one.snapshot_digest) == (&document.environment, &snapshot)
            })
            .collect();
        let too_many = (same.len() + 1).saturating_sub(KEPT_OF_SNAPSHOT);
        let mut may_go: Vec<_> = (same.iter())
            .filter_map(|one| match one.sent_by == sender.name {
                _ if lapsed.is_of(one) => Some((0, one)),
                // What someone else sent again since goes after what nobody did.
                true => Some((1 + u8::from(one.last_sent_by != sender.name), one)),
                false => sender.is_admin.then_some((3, one)),
            })
            .collect();
        may_go.sort_by_key(|(rank, _)| *rank);
        if may_go.len() < too_many {
            let same = same.into_iter().cloned().collect();
            return Ok(ExplanationSpace::No(PutExplanation::FullOfContents(same)));
        }
        let mut gone: BTreeSet<i64> = may_go
            .iter()
            .take(too_many)
            .map(|(_, one)| one.id)
            .collect();
        let of_whom = (document.environment.as_str(), sender.name);
        self.beyond_environment(of_whom, &all, &lapsed, &mut gone)?;

        let environments: BTreeSet<&str> = (all.iter())
            .filter(|one| !gone.contains(&one.id))
            .map(|one| one.environment.as_str())
            .collect();
        if !environments.contains(document.environment.as_str())
            && environments.len() >= MAX_EXPLAINED_ENVIRONMENTS
        {
            // All of an environment goes, so that the one that gives way last says whether it does, and how old it is.
            let left = |name: &str| -> Vec<&StoredExplanation> {
                let of_it = all.iter().filter(|one| one.environment == name);
                of_it.filter(|one| !gone.contains(&one.id)).collect()
            };
            let whole = environments.iter().filter_map(|name| {
                let left = left(name);
                let ranks: Option<Vec<u8>> = left.iter().map(|one| rank(one)).collect();
                let newest = all.iter().rposition(|one| one.environment == **name);
                Some(((ranks?.into_iter().max(), newest), left))
            });
            let Some((_, whole)) = whole.min_by_key(|(key, _)| *key) else {
                return Ok(ExplanationSpace::No(PutExplanation::FullOfEnvironments));
            };
            let ids: Vec<i64> = whole.iter().map(|one| one.id).collect();
            gone.extend(ids);
        }

        let left = all.iter().filter(|one| !gone.contains(&one.id));
        let mut kept: u64 = left.clone().map(|one| one.kept_bytes).sum();
        let mut may_go: Vec<_> = left.filter_map(|one| Some((rank(one)?, one))).collect();
        may_go.sort_by_key(|(rank, _)| *rank);
        let mut may_go = may_go.into_iter();
        let mut more = Vec::new();
        while kept.saturating_add(packed.kept_bytes) > MAX_EXPLANATIONS_BYTES {
            let Some((_, one)) = may_go.next() else {
                return Ok(ExplanationSpace::No(PutExplanation::Full));
            };
            kept = kept.saturating_sub(one.kept_bytes);
            more.push(one.id);
        }
        gone.extend(more);
        Ok(ExplanationSpace::Free(gone.into_iter().collect()))
    }

    /// Adds what is beyond the bounds of an environment, once another one of `sender` is kept. `all` has the oldest first. Where more are
    /// needed than there are places, what revoked tokens sent goes first, then the oldest of whoever has most places: one sender takes
    /// no place of another. The newest one on record stays.
    fn beyond_environment(
        &self,
        (environment, sender): (&str, &str),
        all: &[StoredExplanation],
        lapsed: &Lapsed,
        gone: &mut BTreeSet<i64>,
    ) -> Result<(), StoreError> {
        let of_it: Vec<&StoredExplanation> = (all.iter().rev())
            .filter(|one| one.environment == environment && !gone.contains(&one.id))
            .collect();
        if of_it.len() < KEPT_OF_ENVIRONMENT {
            return Ok(());
        }
        let needed = self.needed_snapshots(environment)?;
        let mut stay = Vec::new();
        // The new one is the first.
        for (at, old) in (1..).zip(of_it) {
            match at < KEPT_OF_ENVIRONMENT || self.is_needed(&needed, old)? {
                true => stay.push(old),
                false => drop(gone.insert(old.id)),
            }
        }
        while stay.len() >= MOST_OF_ENVIRONMENT {
            let mut places: BTreeMap<&str, usize> = BTreeMap::from([(sender, 1)]);
            for one in &stay {
                *places.entry(&one.sent_by).or_default() += 1;
            }
            let places_of = |one: &StoredExplanation| places.get(&*one.sent_by).copied();
            // Of those that are alike the last is taken, which is the oldest.
            let older = stay.iter().enumerate().skip(1);
            let first = older.max_by_key(|(_, one)| (lapsed.is_of(one), places_of(one)));
            let Some((at, _)) = first else { break };
            gone.insert(stay.remove(at).id);
        }
        Ok(())
    }
}

/// Tokens that were revoked.
struct Lapsed(BTreeSet<String>);

impl Lapsed {
    fn of(session: &Session<'_>) -> Result<Self, StoreError> {
        let tokens = session.tokens()?.into_iter();
        let revoked = tokens.filter(|token| token.revoked_ms.is_some());
        Ok(Self(revoked.map(|token| token.name).collect()))
    }

    /// Whether nobody whose token was not revoked sent it, first or last.
    fn is_of(&self, one: &StoredExplanation) -> bool {
        self.0.contains(&one.sent_by) && self.0.contains(&one.last_sent_by)
    }
}
