//! For which sites copies are, and so what they leave out.
//!
//! What comes in: the bundles that the fleet keeps, and earlier bundles or sites as a person named them. What goes out: the bundles that are
//! copied, each with a [`PlannedCopy`]. It reads the fleet's folder and the files that were named; reports are read by who calls it. It writes
//! nothing.

use std::collections::BTreeMap;

use jiff::Timestamp;
use outhaul_bundle::name::Name;
use outhaul_signer::fleet::Fleet;
use outhaul_sites::acknowledged::{self, CopiedBundle, StreamStanding};
use outhaul_sites::{Seen, Sites};

use crate::copies::{CopyError, KeptBundle};
use crate::plan::{PlannedCopy, plan};
use crate::since::{self, Earlier, Has};

/// What the named sites have, by the role of the stream that they follow.
pub type Standings = BTreeMap<String, StreamStanding>;

/// For whom copies are.
#[derive(Debug, Clone, Copy)]
pub enum Audience<'a> {
    /// Every site.
    Everyone,
    /// Sites that have one of these earlier bundles.
    Since(&'a [Earlier]),
    /// Sites that were named, and what they have.
    Sites(&'a Standings),
}

/// What is to be copied, and what of it is larger than it could be.
#[derive(Debug)]
pub struct Planned {
    /// A copy for each bundle that is brought.
    pub copies: Vec<PlannedCopy>,
    /// Streams of which the whole bundle is copied because it is not known what the earlier one has that sites report, and why.
    pub unknown: Vec<(String, CopyError)>,
}

/// What the sites `names` have of `bundles`, by the reports that `read` gets; it is called when the names are known to be right.
///
/// # Errors
/// [`CopyError::Sites`] for a site that follows none of these streams or cannot open its bundle, [`CopyError::Read`], or what `read` returns.
pub fn standings<E: From<CopyError>>(
    fleet: &Fleet,
    bundles: &[KeptBundle],
    names: &[Name],
    read: impl FnOnce(&Sites<'_>) -> Result<Seen, E>,
) -> Result<Standings, E> {
    let sites = Sites::of(fleet);
    let roles: Vec<&str> = bundles.iter().map(KeptBundle::role).collect();
    let followers = acknowledged::followers(&sites, &roles, names).map_err(CopyError::from)?;
    let seen = read(&sites)?;
    let mut standings = BTreeMap::new();
    for bundle in bundles.iter().filter(|one| followers.follow(one.role())) {
        let copied = CopiedBundle {
            role: bundle.role(),
            stream: bundle.stream(),
            number: bundle.number,
            sealed_for: since::sealed_for(bundle)?,
        };
        let standing = followers
            .standing(&copied, &seen)
            .map_err(CopyError::from)?;
        standings.insert(bundle.role().to_owned(), standing);
    }
    Ok(standings)
}

/// Plans a copy of each of `bundles` that `audience` needs. Files that were named as earlier bundles are verified by
/// the fleet's keys, at `now`.
///
/// # Errors
/// [`CopyError`] for an earlier bundle of which it is not known what it has, where a person named it.
pub fn planned(
    fleet: &Fleet,
    bundles: Vec<KeptBundle>,
    audience: Audience<'_>,
    now: Timestamp,
) -> Result<Planned, CopyError> {
    let root = fleet.root_bytes()?;
    let trust = (root.as_slice(), now);
    let mut unknown = Vec::new();
    let mut copies = Vec::new();
    for bundle in bundles {
        let bases = match audience {
            Audience::Everyone => None,
            Audience::Since(earlier) => Some(since::bases(fleet, &bundle, earlier, trust)?),
            Audience::Sites(standings) => match standings.get(bundle.role()) {
                None => continue,
                Some(standing) if standing.is_there => continue,
                Some(standing) => reported(fleet, &bundle, standing, trust, &mut unknown),
            },
        };
        copies.push(plan(bundle, bases));
    }
    Ok(Planned { copies, unknown })
}

/// What the earlier bundles have that sites report. A whole bundle always works: it is what is copied where nothing is reported, and where it
/// is not known what a reported one has.
fn reported(
    fleet: &Fleet,
    bundle: &KeptBundle,
    standing: &StreamStanding,
    trust: (&[u8], Timestamp),
    unknown: &mut Vec<(String, CopyError)>,
) -> Option<Vec<Has>> {
    let known = standing.bases.as_deref()?.iter().copied();
    let earlier: Vec<_> = known.map(Earlier::Digest).collect();
    match since::bases(fleet, bundle, &earlier, trust) {
        Ok(bases) => Some(bases),
        Err(error) => {
            unknown.push((bundle.stream(), error));
            None
        }
    }
}
