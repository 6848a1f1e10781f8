//! Which sites an advisory is about.
//!
//! What comes in: one consistent reading of the store: the advisory, statements about exploitability, the bills of materials of the
//! bundles that sites run, and what the sites report. What goes out: each site's verdict with the reason, and per bundle what
//! is affected, cleared and not known. Each bundle is worked out once, however many sites run it. "Not affected" follows
//! from a report that is not old, and a bundle of which everything is known.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_affected::{
    Advisory, CarriedImage, Component, ComponentKind, Finding, Hit, LocatedComponent, Stated,
    examine,
};
use outhaul_bundle::hub_api::{
    AdvisoryRow, AffectedBundle, AffectedComponent, AffectedSite, AffectedSites, AffectedVerdict,
    ClearedComponent,
};
use outhaul_bundle::index::SBOM;
use outhaul_gate::DEFAULT_MAX_AGE_HOURS;
use outhaul_gate::time::{self, HOUR_MS};
use outhaul_store::{BillSummary, Imported, RunningBundle, Session, SiteBundle, StoreError};
use outhaul_vex::Statement;

/// Reasons of one bundle that are told.
const UNKNOWN_TOLD: usize = 20;
/// Most advisories that count together.
const MOST_TOGETHER: usize = 100;

/// Which of the sites are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SitesAsked {
    /// Those of this verdict; `None` for all.
    pub verdict: Option<AffectedVerdict>,
    /// So many of them are left out, in their order.
    pub offset: usize,
    /// At most so many.
    pub limit: usize,
}

/// The advisories on record, the one that was imported last first. One that this program cannot read is told by its name.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn advisories(session: &Session<'_>) -> Result<Vec<AdvisoryRow>, StoreError> {
    let all = session.advisories()?;
    Ok(all.iter().map(|one| row(one, read(one).as_ref())).collect())
}

/// Which sites the advisory of this name is about; `None` when none is on record that has it.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn of_advisory(
    session: &Session<'_>,
    name: &str,
    asked: &SitesAsked,
    now_ms: i64,
) -> Result<Option<AffectedSites>, StoreError> {
    let named = all_named(session, name)?;
    // Several distributions publish the same vulnerability: all of them count together.
    let read: Vec<Advisory> = named.iter().filter_map(read).collect();
    let Some(first) = named.first() else {
        return Ok(None);
    };
    let Some(advisory) = together(&read) else {
        return Err(StoreError::Corrupt {
            what: format!("advisory `{}`", first.name),
        });
    };
    let reading = Reading::of(session, &advisory)?;
    let mut bundles: BTreeMap<RunningBundle, Worked> = BTreeMap::new();
    let mut sites = Vec::new();
    for site in session.running_bundles()? {
        let told = match &site.running {
            None => site_without_bundle(&site),
            Some(running) => {
                if !bundles.contains_key(running) {
                    let worked = reading.bundle(session, (&advisory, name), running)?;
                    bundles.insert(running.clone(), worked);
                }
                match bundles.get_mut(running) {
                    Some(worked) => worked.site(&site, running.number, now_ms),
                    None => site_without_bundle(&site),
                }
            }
        };
        sites.push(told);
    }
    let count = |verdict| sites.iter().filter(|site| site.verdict == verdict).count() as u64;
    let (affected, unknown, not_affected) = (
        count(AffectedVerdict::Affected),
        count(AffectedVerdict::Unknown),
        count(AffectedVerdict::NotAffected),
    );
    sites.retain(|site| asked.verdict.is_none_or(|verdict| site.verdict == verdict));
    sites.sort_by(|a, b| (a.verdict, &a.site).cmp(&(b.verdict, &b.site)));
    let all = sites.len();
    let sites: Vec<AffectedSite> = sites
        .into_iter()
        .skip(asked.offset)
        .take(asked.limit)
        .collect();
    let more = all.saturating_sub(asked.offset.saturating_add(sites.len())) as u64;
    Ok(Some(AffectedSites {
        advisory: row(first, Some(&advisory)),
        not_compared: advisory
            .not_compared()
            .into_iter()
            .map(str::to_owned)
            .collect(),
        affected,
        unknown,
        not_affected,
        bundles: noteworthy_bundles(bundles),
        sites,
        more,
        read_at: time::rfc3339(now_ms),
    }))
}

fn read(imported: &Imported) -> Option<Advisory> {
    Advisory::read(imported.body.as_bytes()).ok()
}

/// Those that have the name, and those that are about the same by their names: a distribution's names another's, which names the
/// vulnerability.
fn all_named(session: &Session<'_>, name: &str) -> Result<Vec<Imported>, StoreError> {
    let mut found: Vec<Imported> = Vec::new();
    let mut asked: BTreeSet<String> = BTreeSet::new();
    let mut left = vec![name.to_owned()];
    while let Some(next) = left.pop() {
        if found.len() >= MOST_TOGETHER || !asked.insert(next.clone()) {
            continue;
        }
        for one in session.advisories_named(&next)? {
            if found.iter().any(|known| known.name == one.name) {
                continue;
            }
            if let Some(advisory) = read(&one) {
                left.extend(advisory.aliases);
                left.push(advisory.id);
            }
            found.push(one);
        }
    }
    Ok(found)
}

/// Advisories that share a name, as one.
fn together(read: &[Advisory]) -> Option<Advisory> {
    let (first, others) = read.split_first()?;
    let mut all = first.clone();
    for other in others {
        all.join(other);
    }
    Some(all)
}

fn row(imported: &Imported, advisory: Option<&Advisory>) -> AdvisoryRow {
    AdvisoryRow {
        id: imported.name.clone(),
        aliases: advisory.map_or_else(Vec::new, |one| {
            let all: BTreeSet<&String> = one.aliases.iter().chain(&one.upstream).collect();
            all.into_iter().cloned().collect()
        }),
        summary: advisory.map_or_else(
            || "this hub cannot read it".to_owned(),
            |one| one.summary.clone(),
        ),
        modified: advisory.map_or_else(String::new, |one| one.modified.clone()),
        withdrawn: advisory.is_some_and(|one| one.withdrawn),
        imported_at: time::rfc3339(imported.imported_ms),
        imported_by: imported.imported_by.clone(),
    }
}

/// What may be meant by an advisory, by the digest of the bill that lists it; and the statements about it.
struct Reading {
    components: BTreeMap<String, Vec<Component>>,
    statements: Vec<Statement>,
    /// Whether packages are meant, so that what is not known of images matters.
    is_about_packages: bool,
}

impl Reading {
    fn of(session: &Session<'_>, advisory: &Advisory) -> Result<Self, StoreError> {
        let names: BTreeSet<(ComponentKind, &str)> = advisory
            .subjects
            .iter()
            .map(|subject| (subject.kind, subject.name.as_str()))
            .collect();
        let mut components: BTreeMap<String, Vec<Component>> = BTreeMap::new();
        // A package of that name of another distribution is not affected, or nobody knows.
        let both = |(kind, name): &(ComponentKind, &'_ str)| match kind {
            ComponentKind::Image => vec![(ComponentKind::Image, (*name).to_owned())],
            _ => [ComponentKind::Apk, ComponentKind::Deb]
                .map(|kind| (kind, (*name).to_owned()))
                .to_vec(),
        };
        let asked: BTreeSet<(ComponentKind, String)> = names.iter().flat_map(both).collect();
        for (kind, name) in &asked {
            for (digest, component) in session.components_named(*kind, name)? {
                components.entry(digest).or_default().push(component);
            }
        }
        Ok(Self {
            components,
            statements: session.statements_about(&advisory.names())?,
            is_about_packages: names.iter().any(|(kind, _)| *kind != ComponentKind::Image),
        })
    }

    fn bundle(
        &self,
        session: &Session<'_>,
        asked: (&Advisory, &str),
        running: &RunningBundle,
    ) -> Result<Worked, StoreError> {
        let (role, number) = (running.role.as_str(), running.number);
        let (mut unknown, mut not_read) = (BTreeSet::new(), Vec::new());
        let on_record = session.bundle_index(role, number)?;
        match &on_record {
            None => {
                unknown.insert("the bundle is not on record".to_owned());
            }
            Some(index) if index.digest.to_string() != running.index => {
                unknown.insert("the site runs other content than what is on record".to_owned());
            }
            Some(_) => {}
        }
        let listed = session.materials_of(role, number)?;
        if !listed.contains_key(SBOM) && on_record.is_some() {
            unknown.insert(
                "the hub recorded the bundle before it kept bills of materials, or the bundle has none: import it again"
                    .to_owned(),
            );
        }
        for (path, (_, _)) in listed.iter().filter(|(_, (_, is_there))| !is_there) {
            match is_statements(path) {
                true => not_read.push(path.clone()),
                false => {
                    unknown.insert(format!("its bill of materials `{path}` is not on record"));
                }
            }
        }
        let own = listed.get(SBOM).map(|(digest, _)| digest.as_str());
        let summary = match own {
            Some(digest) => session.bill_summary(digest)?.unwrap_or_default(),
            None => BillSummary::default(),
        };
        if self.is_about_packages {
            unknown.extend(summary.unknown.iter().cloned());
            let away = summary
                .images
                .iter()
                .filter(|image| image.document.is_none());
            unknown.extend(away.map(|image| {
                format!(
                    "image `{}` is asked for and does not travel: what it holds is not known",
                    image.name
                )
            }));
            for (digest, _) in listed
                .iter()
                .filter(|(path, _)| *path != SBOM && !is_statements(path))
                .map(|(_, one)| one)
            {
                let of_image = session.bill_summary(digest)?.unwrap_or_default();
                unknown.extend(of_image.unknown);
            }
        }
        let images: BTreeMap<&str, &CarriedImage> = summary
            .images
            .iter()
            .filter_map(|image| Some((image.document.as_deref()?, image)))
            .collect();
        let mut found = Vec::new();
        for (path, (digest, _)) in &listed {
            let components = self.components.get(digest).into_iter().flatten();
            let image = images.get(path.as_str()).copied();
            found.extend(components.map(|component| LocatedComponent { component, image }));
        }
        let mut carried = Vec::new();
        for (_, (digest, _)) in listed.iter().filter(|(path, _)| is_statements(path)) {
            carried.extend(session.carried_statements_about(digest, &asked.0.names())?);
        }
        let stated = |is_carried| {
            move |statement| Stated {
                statement,
                is_carried,
            }
        };
        let imported = self.statements.iter().map(stated(false));
        let statements: Vec<Stated<'_>> =
            carried.iter().map(stated(true)).chain(imported).collect();
        let finding = examine(asked, &statements, &found, &unknown);
        let mut restricted = BTreeMap::new();
        for hit in &finding.hits {
            for assignment in &hit.assignments {
                let sites = session.sites_of_assignment(role, number, assignment)?;
                restricted.insert(assignment.clone(), sites);
            }
        }
        Ok(Worked {
            finding,
            restricted,
            not_read,
            sites: 0,
            environment: String::new(),
            cluster_type: String::new(),
        })
    }
}

/// Whether a file that a bundle lists has statements about exploitability.
fn is_statements(path: &str) -> bool {
    path.ends_with(outhaul_vex::ENDING)
}

/// A bundle that was worked out.
struct Worked {
    finding: Finding,
    /// Of the assignments that bring what is affected, the sites that they are for; `None` for all.
    restricted: BTreeMap<String, Option<BTreeSet<String>>>,
    /// Statements that it carries and that are not on record.
    not_read: Vec<String>,
    sites: u64,
    /// As the sites that run it are registered.
    environment: String,
    cluster_type: String,
}

impl Worked {
    fn site(&mut self, site: &SiteBundle, number: u64, now_ms: i64) -> AffectedSite {
        if self.sites == 0 {
            self.environment.clone_from(&site.environment);
            self.cluster_type.clone_from(&site.cluster_type);
        }
        self.sites += 1;
        let reaches = |hit: &&Hit| {
            hit.assignments.is_empty()
                || hit.assignments.iter().any(|assignment| {
                    let sites = self.restricted.get(assignment).and_then(Option::as_ref);
                    sites.is_none_or(|sites| sites.contains(&site.site))
                })
        };
        let mut hits = self.finding.hits.iter().filter(reaches);
        let limit_ms = i64::from(DEFAULT_MAX_AGE_HOURS) * HOUR_MS;
        let is_old = |received: &i64| now_ms.saturating_sub(*received) > limit_ms;
        let stale = site.received_ms.filter(is_old);
        let (verdict, why) = match (hits.next(), stale, self.finding.unknown.first()) {
            (Some(hit), ..) => {
                let others = hits.count();
                (AffectedVerdict::Affected, affected_by(hit, others))
            }
            (None, Some(_), _) => (
                AffectedVerdict::Unknown,
                "by its last report nothing in it is affected or known to be, and that report is old".to_owned(),
            ),
            (None, None, Some(why)) => {
                let more = self.finding.unknown.len() - 1;
                let more = match more {
                    0 => String::new(),
                    more => format!(", and {more} more"),
                };
                (AffectedVerdict::Unknown, format!("{why}{more}"))
            }
            (None, None, None) => {
                let why = match self.finding.cleared.first() {
                    Some(cleared) => format!(
                        "{} states `{}` for {}",
                        shown_author(&cleared.author),
                        cleared.status,
                        cleared.hit.component
                    ),
                    None => "nothing in the bundle that it runs is meant".to_owned(),
                };
                (AffectedVerdict::NotAffected, why)
            }
        };
        let is_unknown = verdict == AffectedVerdict::Unknown;
        AffectedSite {
            site: site.site.clone(),
            environment: site.environment.clone(),
            cluster_type: site.cluster_type.clone(),
            verdict,
            bundle: Some(number),
            last_seen: site.received_ms.map(time::rfc3339),
            unknown_since: stale.filter(|_| is_unknown).map(time::rfc3339),
            why,
        }
    }
}

fn shown_author(author: &str) -> &str {
    match author {
        "" => "someone",
        author => author,
    }
}

fn affected_by(hit: &Hit, others: usize) -> String {
    let mut text = hit.component.clone();
    if let Some(image) = &hit.image {
        text = format!("{text} in image `{image}`");
    }
    if let Some(fixed) = &hit.fixed_in {
        text = format!("{text}, fixed in {fixed}");
    }
    match others {
        0 => text,
        others => format!("{text}, and {others} more"),
    }
}

fn site_without_bundle(site: &SiteBundle) -> AffectedSite {
    let (since, why) = match site.received_ms {
        None => (site.enrolled_ms, "it never reported"),
        Some(received) => (received, "it reports no bundle that it runs"),
    };
    AffectedSite {
        site: site.site.clone(),
        environment: site.environment.clone(),
        cluster_type: site.cluster_type.clone(),
        verdict: AffectedVerdict::Unknown,
        bundle: None,
        last_seen: site.received_ms.map(time::rfc3339),
        unknown_since: Some(time::rfc3339(since)),
        why: why.to_owned(),
    }
}

/// Those of which there is something to say, the affected ones first.
fn noteworthy_bundles(worked: BTreeMap<RunningBundle, Worked>) -> Vec<AffectedBundle> {
    let mut all: Vec<AffectedBundle> = worked
        .into_iter()
        .map(|(running, worked)| {
            let Finding {
                hits,
                cleared,
                unknown,
            } = worked.finding;
            let more_unknown = unknown.len().saturating_sub(UNKNOWN_TOLD) as u64;
            AffectedBundle {
                environment: worked.environment,
                cluster_type: worked.cluster_type,
                role: running.role,
                number: running.number,
                sites: worked.sites,
                affected: hits.into_iter().map(component).collect(),
                cleared: cleared
                    .into_iter()
                    .map(|one| ClearedComponent {
                        component: component(one.hit),
                        status: one.status,
                        reason: one.reason,
                        author: one.author,
                        at: time::rfc3339(one.at_ms),
                        carried: one.is_carried,
                    })
                    .collect(),
                statements_missing: worked.not_read,
                unknown: unknown.into_iter().take(UNKNOWN_TOLD).collect(),
                more_unknown,
            }
        })
        .filter(|bundle| {
            !(bundle.affected.is_empty() && bundle.cleared.is_empty() && bundle.unknown.is_empty())
        })
        .collect();
    all.sort_by(|a, b| {
        let key = |one: &AffectedBundle| (one.affected.is_empty(), one.role.clone(), one.number);
        key(a).cmp(&key(b))
    });
    all
}

fn component(hit: Hit) -> AffectedComponent {
    AffectedComponent {
        component: hit.component,
        source: hit.source,
        image: hit.image,
        assignments: hit.assignments.into_iter().collect(),
        fixed_in: hit.fixed_in,
        stated: hit.stated,
    }
}
