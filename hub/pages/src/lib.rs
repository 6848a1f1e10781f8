//! The pages: each one file of HTML with everything in it, from the program alone.
//!
//! What comes in: views, such as a [`FleetView`]. What goes out: HTML that needs no script, no font and no other
//! server. Everything that a site or a file wrote is escaped. Very long tables are cut with a pointer to
//! the API, so that each page stays readable with a hundred thousand sites.

mod access;
mod bundles;
mod explained;
mod views;

use std::collections::BTreeMap;

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value, context};
use outhaul_bundle::hub_api::escaped;
use serde::Serialize;

use outhaul_kit::text::{is_hidden, printable};
use outhaul_view::{AssignmentRow, FleetView, OrderRow, STATES};

pub use access::{ActForm, LoginForm, access, act, logged_in, login};
pub use bundles::{assignment, bundle, bundles, choose_environments, comparison};
pub use explained::{explain, platform, platform_entity, platform_kind, platforms};
pub use views::{
    DecisionList, advisories, advisory, board, decisions, environments, problem, site, sites,
};

/// Sites shown; those that need attention come first.
const MAX_SITES: usize = 500;
/// Orders shown; those without a report come first.
const MAX_ORDERS: usize = 100;
/// Sites shown of one assignment.
const MAX_SITES_OF_ASSIGNMENT: usize = 50;

/// One assignment of a cluster type, over all its sites.
#[derive(Debug, Clone, Serialize)]
struct Group<'a> {
    environment: &'a str,
    cluster_type: &'a str,
    assignment: &'a str,
    workload: &'a str,
    workspace: &'a str,
    policies: String,
    desired: Option<u64>,
    desired_config: Option<&'a str>,
    counts: BTreeMap<&'static str, usize>,
    /// Whether someone should look at it.
    attention: bool,
    sites: Vec<&'a AssignmentRow>,
    more: usize,
}

/// One order, and for whom.
#[derive(Debug, Clone, Serialize)]
struct Ordered<'a> {
    site: &'a str,
    #[serde(flatten)]
    order: &'a OrderRow,
}

/// Whoever looks at a page, as it says of them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Shown {
    /// The name of their token, or of the person; `None` for anybody.
    pub name: Option<String>,
    /// What each form of their session carries; `None` without a session.
    pub form: Option<String>,
    /// Whether they may approve, hold, waive, defer and withdraw.
    pub may_approve: bool,
    /// Whether they may see who did what.
    pub is_admin: bool,
}

/// The page of the fleet.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn render(fleet: &FleetView, visitor: &Shown) -> Result<String, minijinja::Error> {
    let shown = fleet.sites.len().min(MAX_SITES);
    let orders = orders(fleet);
    let orders_shown = orders.len().min(MAX_ORDERS);
    page(
        include_str!("fleet.html"),
        context! {
            here => "/",
            read_at => Serde(&fleet.read_at),
            fleet => Serde(fleet),
            sites => Serde(&fleet.sites[..shown]),
            more_sites => fleet.sites.len() - shown,
            orders => Serde(&orders[..orders_shown]),
            more_orders => orders.len() - orders_shown,
            groups => Serde(groups(&fleet.assignments)),
        },
        visitor,
    )
}

/// The names and values that a page was asked for by, as they stand in an address; what was left out stays so.
fn query_of(given: &[(&str, &String)]) -> String {
    let given = given.iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> = given
        .map(|(name, value)| format!("{name}={}", escaped(value)))
        .collect();
    pairs.join("&")
}

/// One page of the template's text, within what all pages share.
fn page(template: &str, values: Value, visitor: &Shown) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    // What would act instead of show is written out in every text, whoever wrote it.
    environment.set_formatter(|out, state, value| match value.as_str() {
        Some(text) if !value.is_safe() && text.contains(is_hidden) => {
            minijinja::escape_formatter(out, state, &Value::from(printable(text).into_owned()))
        }
        _ => minijinja::escape_formatter(out, state, value),
    });
    environment.add_filter("code", |text: String| Value::from_safe_string(code(&text)));
    environment.add_filter("short", |text: String| outhaul_gate::short(&text));
    environment.add_filter("link", |text: String| escaped(&text));
    environment.add_filter("bytes", bytes);
    environment.add_filter("minute", minute);
    environment.add_filter("moment", outhaul_gate::time::rfc3339);
    environment.add_filter("ranges", ranges);
    environment.add_filter("confirmed", confirmed);
    environment.add_global("visitor", minijinja::value::Serde(visitor));
    environment.add_global("version", env!("CARGO_PKG_VERSION"));
    environment.add_global("states", Value::from(STATES.to_vec()));
    environment.add_template("style", include_str!("style.css"))?;
    environment.add_template("parts", include_str!("parts.html"))?;
    environment.add_template("bundle_parts", include_str!("bundle_parts.html"))?;
    environment.add_template("explain_parts", include_str!("explain_parts.html"))?;
    environment.add_template("layout", include_str!("layout.html"))?;
    environment.add_template("page", template)?;
    environment.get_template("page")?.render(values)
}

/// How many of a gate's sites confirmed, or why none was looked at.
fn confirmed(gate: &Value) -> Result<String, minijinja::Error> {
    let rule = gate.get_attr("rules")?.get_item_by_index(0)?;
    let rule = rule.get_attr("rule").unwrap_or_default();
    if let Some(what) = outhaul_gate::later::instead_of_sites(rule.as_str()) {
        return Ok(format!("no site was counted, because of {what}"));
    }
    let (confirmed, counted) = (gate.get_attr("confirmed")?, gate.get_attr("counted")?);
    let sites = if counted.as_i64() == Some(1) {
        "site"
    } else {
        "sites"
    };
    Ok(format!("{confirmed} of {counted} {sites} confirmed"))
}

/// Every order: what is open, then what was refused, then the rest; the newest of each first.
fn orders(fleet: &FleetView) -> Vec<Ordered<'_>> {
    let mut all: Vec<Ordered<'_>> = Vec::new();
    for row in &fleet.sites {
        let site = row.site.as_str();
        all.extend(row.orders.iter().map(|order| Ordered { site, order }));
    }
    let place = |status: &str| match status {
        "pending" => 0,
        "refused" => 1,
        _ => 2,
    };
    all.sort_by(|a, b| {
        let newest = b.order.ordered_at.cmp(&a.order.ordered_at);
        let named = (a.site, b.order.number).cmp(&(b.site, a.order.number));
        place(a.order.status)
            .cmp(&place(b.order.status))
            .then(newest)
            .then(named)
    });
    all
}

fn groups(rows: &[AssignmentRow]) -> Vec<Group<'_>> {
    let mut found: Vec<Group<'_>> = Vec::new();
    for row in rows {
        let same = |group: &Group<'_>| {
            (group.environment, group.cluster_type, group.assignment)
                == (&row.environment, &row.cluster_type, &row.assignment)
        };
        if !found.last().is_some_and(same) {
            found.push(Group {
                environment: &row.environment,
                cluster_type: &row.cluster_type,
                assignment: &row.assignment,
                workload: &row.workload,
                workspace: &row.workspace,
                policies: row.policies.join(", "),
                desired: row.desired,
                desired_config: row.desired_config.as_deref(),
                counts: BTreeMap::new(),
                attention: false,
                sites: Vec::new(),
                more: 0,
            });
        }
        if let Some(group) = found.last_mut() {
            let status = match row.status.as_str() {
                "compliant" => "compliant",
                "drifted" => "drifted",
                "failed" => "failed",
                "in_progress" => "in_progress",
                _ => "waiting",
            };
            *group.counts.entry(status).or_default() += 1;
            group.attention |= status != "compliant";
            group.sites.push(row);
        }
    }
    for group in &mut found {
        // Those that need someone first; the order by name stays within.
        group.sites.sort_by_key(|row| match row.status.as_str() {
            "failed" => 0,
            "drifted" => 1,
            "waiting" => 2,
            "in_progress" => 3,
            _ => 4,
        });
        group.more = group.sites.len().saturating_sub(MAX_SITES_OF_ASSIGNMENT);
        group.sites.truncate(MAX_SITES_OF_ASSIGNMENT);
    }
    found
}

/// `1.5 MiB`.
fn bytes(number: u64) -> String {
    match number {
        1 => "1 byte".to_owned(),
        number => outhaul_kit::size::text(number),
    }
}

/// `2026-11-21 03:40` from RFC 3339; people read UTC without the letters.
fn minute(text: &str) -> String {
    text.get(..16).unwrap_or(text).replace('T', " ")
}

/// Text with the names between backticks as code. All of it is escaped, whoever wrote it.
fn code(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + 32);
    let names = text.matches('`').count() / 2;
    let mut ticks = 0;
    for letter in printable(text).chars() {
        match letter {
            '`' if ticks < names * 2 => {
                html.push_str(if ticks % 2 == 0 { "<code>" } else { "</code>" });
                ticks += 1;
            }
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#x27;"),
            other => html.push(other),
        }
    }
    html
}

/// `2, 5–9` from pairs of first and last number.
fn ranges(list: Vec<Vec<u64>>) -> String {
    let range = |pair: Vec<u64>| match pair.as_slice() {
        [from, to] if from != to => format!("{from}–{to}"),
        [only, ..] => only.to_string(),
        [] => String::new(),
    };
    list.into_iter().map(range).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn names_between_backticks_become_code_and_a_lone_one_stays() {
        assert_eq!(
            code("site `a` & `<b>`"),
            "site <code>a</code> &amp; <code>&lt;b&gt;</code>"
        );
        assert_eq!(code("`a` and `"), "<code>a</code> and `");
    }
}
