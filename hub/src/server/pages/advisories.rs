//! The pages of advisories: those on record, and which sites one is about.
//!
//! What comes in: the name of an advisory, and which of the sites. What goes out: HTML. It reads the store.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use outhaul_bundle::hub_api::AffectedVerdict;
use serde::Deserialize;

use super::{Named, Page, PageQuestion, Wrong, cut, html_of, name_of};
use crate::pages;
use crate::server::access::Visitor;
use crate::server::problem::{Nothing, Params, Question};
use crate::server::shared::Shared;
use crate::time;
use crate::view::affected::{self, SitesAsked};

/// Sites on one page.
const SITES_SHOWN: usize = 100;

/// Which of the sites.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SitesOfAdvisory {
    verdict: String,
    offset: u32,
}

impl Question for SitesOfAdvisory {
    const NAMES: &[&str] = &["verdict", "offset"];
}

pub(super) async fn all(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    asked: PageQuestion<Nothing>,
) -> Page {
    asked?;
    let now_ms = time::now_ms();
    let html = shared.look(move |store, _| {
        let rows = store.read(affected::advisories)?;
        Ok(pages::advisories(
            &rows,
            &time::rfc3339(now_ms),
            &visitor.shown(),
        )?)
    });
    Ok(html_of(html.await?))
}

pub(super) async fn one(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    name: Named,
    asked: PageQuestion<SitesOfAdvisory>,
) -> Page {
    let name = name_of(name)?;
    let Params(asked) = asked?;
    let verdict = match asked.verdict.as_str() {
        "" => None,
        "affected" => Some(AffectedVerdict::Affected),
        "unknown" => Some(AffectedVerdict::Unknown),
        "not_affected" => Some(AffectedVerdict::NotAffected),
        _ => {
            let text = "`verdict` is affected, unknown or not_affected";
            return Err(Wrong::new(StatusCode::BAD_REQUEST, text));
        }
    };
    let sites = SitesAsked {
        verdict,
        offset: asked.offset as usize,
        limit: SITES_SHOWN,
    };
    let now_ms = time::now_ms();
    let html = shared.look({
        let name = name.clone();
        move |store, _| {
            let found =
                store.read(|session| affected::of_advisory(session, &name, &sites, now_ms))?;
            let shown = |found| pages::advisory(&found, &sites, &visitor.shown());
            Ok(found.map(shown).transpose()?)
        }
    });
    match html.await? {
        Some(html) => Ok(html_of(html)),
        None => {
            let text = format!("No advisory `{}` is on record.", cut(&name));
            Err(Wrong::new(StatusCode::NOT_FOUND, text))
        }
    }
}
