//! The pages beside the fleet's: sites, one site, environments, one environment, decisions, and what went wrong.
//!
//! What comes in: views. What goes out: HTML as [`super`] makes it. Nothing is decided or counted here but what is cut.

use std::collections::BTreeMap;

use minijinja::context;
use minijinja::value::Serde;
use outhaul_bundle::hub_api::{
    AdvisoryRow, AffectedSites, AffectedVerdict, Evidence, SiteDecision, SiteStatus,
};
use serde::Serialize;

use super::{Shown, page, query_of};
use outhaul_gate::Decision;
use outhaul_store::ChainedDecision;
use outhaul_view::affected::SitesAsked;
use outhaul_view::{Board, Environments, Reach, SiteList, SiteView};

/// Sites of a gate shown; those that did not confirm come first.
const MAX_STANDINGS: usize = 200;

/// Sites that were looked for.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn sites(list: &SiteList, visitor: &Shown) -> Result<String, minijinja::Error> {
    let wanted = &list.wanted;
    let given = [
        ("q", &wanted.q),
        ("environment", &wanted.environment),
        ("cluster_type", &wanted.cluster_type),
        ("state", &wanted.state),
    ];
    page(
        include_str!("sites.html"),
        context! {
            here => "/sites",
            read_at => Serde(&list.read_at),
            list => Serde(list),
            query => query_of(&given),
            shown => outhaul_view::SITES_SHOWN,
        },
        visitor,
    )
}

/// One site, with what of its webhooks was not taken.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn site(
    site: &SiteView,
    not_taken: &[String],
    visitor: &Shown,
) -> Result<String, minijinja::Error> {
    page(
        include_str!("site.html"),
        context! { here => "", read_at => Serde(&site.read_at), site => Serde(site), not_taken => Serde(not_taken) },
        visitor,
    )
}

/// All environments.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn environments(all: &Environments, visitor: &Shown) -> Result<String, minijinja::Error> {
    page(
        include_str!("environments.html"),
        context! { here => "/environments", read_at => Serde(&all.read_at), all => Serde(all) },
        visitor,
    )
}

/// A step of a promotion board, as it is shown.
#[derive(Debug, Serialize)]
struct ShownStep<'a> {
    decision: &'a Decision,
    reach: Option<&'a Reach>,
    sites: Vec<ShownSiteDecision<'a>>,
}

/// A site beside the report that the decision rests on.
#[derive(Debug, Serialize)]
struct ShownSiteDecision<'a> {
    #[serde(flatten)]
    site: &'a SiteDecision,
    report: Option<&'a Evidence>,
}

/// One environment.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn board(board: &Board, visitor: &Shown) -> Result<String, minijinja::Error> {
    let steps: Vec<ShownStep<'_>> = board
        .steps
        .iter()
        .map(|step| ShownStep {
            decision: &step.decision,
            reach: step.reach.as_ref(),
            sites: site_decisions(&step.decision),
        })
        .collect();
    page(
        include_str!("environment.html"),
        context! {
            here => "",
            read_at => Serde(&board.read_at),
            board => context! {
                environment => Serde(&board.environment),
                commit => Serde(&board.commit),
                acts => Serde(&board.acts),
                restored_ms => board.restored_ms,
                steps => Serde(&steps),
                problem => Serde(&board.problem),
            },
        },
        visitor,
    )
}

fn site_decisions(decision: &Decision) -> Vec<ShownSiteDecision<'_>> {
    let reports: BTreeMap<&str, &Evidence> = decision
        .evidence
        .iter()
        .map(|report| (report.site.as_str(), report))
        .collect();
    let mut sites: Vec<&SiteDecision> = decision.sites.iter().collect();
    let place = |site: &SiteDecision| match site.standing {
        standing if standing.always_closes() => 0,
        SiteStatus::Confirmed => 2,
        _ => 1,
    };
    sites.sort_by_key(|site| place(site));
    sites.truncate(MAX_STANDINGS);
    sites
        .into_iter()
        .map(|site| ShownSiteDecision {
            site,
            report: reports.get(site.site.as_str()).copied(),
        })
        .collect()
}

/// One page of the decisions on record.
#[derive(Debug, Clone)]
pub struct DecisionList {
    /// The newest first.
    pub rows: Vec<ChainedDecision>,
    /// Before which number.
    pub before: Option<i64>,
    /// Before which number the next page is.
    pub next: Option<i64>,
    /// When this was read, RFC 3339.
    pub read_at: String,
}

/// Decisions on record.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn decisions(list: &DecisionList, visitor: &Shown) -> Result<String, minijinja::Error> {
    page(
        include_str!("decisions.html"),
        context! {
            here => "/decisions",
            read_at => Serde(&list.read_at),
            rows => Serde(&list.rows),
            before => Serde(list.before),
            next => Serde(list.next),
        },
        visitor,
    )
}

/// Advisories on record.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn advisories(
    rows: &[AdvisoryRow],
    read_at: &str,
    visitor: &Shown,
) -> Result<String, minijinja::Error> {
    page(
        include_str!("advisories.html"),
        context! { here => "/advisories", read_at => Serde(read_at), rows => Serde(rows) },
        visitor,
    )
}

/// One advisory, and the sites that were asked for.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn advisory(
    found: &AffectedSites,
    asked: &SitesAsked,
    visitor: &Shown,
) -> Result<String, minijinja::Error> {
    page(
        include_str!("advisory.html"),
        context! {
            here => "",
            read_at => Serde(&found.read_at),
            found => Serde(found),
            verdict => asked.verdict.map_or("", AffectedVerdict::as_str),
            offset => asked.offset,
        },
        visitor,
    )
}

/// What went wrong, for a person with a browser.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn problem(title: &str, text: &str, read_at: &str) -> Result<String, minijinja::Error> {
    page(
        include_str!("problem.html"),
        context! { here => "", read_at => Serde(read_at), title => Serde(title), text => Serde(text) },
        // A page of someone who is known has a way out all the same: the other pages.
        &Shown::default(),
    )
}
