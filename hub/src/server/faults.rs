//! What is not well at one site and since when, over HTTP.
//!
//! What comes in: a site's name. What goes out: JSON. It reads reports of that site, and counts of others.

use std::sync::Arc;

use axum::extract::State;
use outhaul_bundle::hub_api::{SiteFaults, path};

use super::problem::{Answers, Guarded, Params, Problem};
use super::shared::Shared;
use super::shown::Json;
use super::values::{OfSite, no_site};
use crate::store::StoreError;
use crate::time;
use crate::view::faults;

/// What is not well at a site.
#[utoipa::path(
    get,
    path = path::FAULTS,
    operation_id = "faults",
    tag = "read",
    summary = "What is not well at a site, when it was well last, and what happened there meanwhile",
    params(("site" = String, Query, description = "The site's name")),
    responses(
        (status = 200, description = "The faults, the newest first; none when its reports show none. A site that follows the platform repository directly applies no bundle, and has none: its `state` and `message` in the list of sites say how it stands", body = SiteFaults),
        Answers,
        Guarded,
    )
)]
pub(super) async fn of_site(
    State(shared): State<Arc<Shared>>,
    Params(asked): Params<OfSite>,
) -> Result<Json<SiteFaults>, Problem> {
    let name = asked.site.clone();
    let now_ms = time::now_ms();
    let answer = shared.look(move |store, _| {
        let found = store.read(|session| {
            let found = faults::of_site(session, &asked.site, faults::Depth::Whole, now_ms)?;
            Ok::<_, StoreError>(found)
        })?;
        Ok(found)
    });
    answer.await?.map(Json).ok_or_else(|| no_site(&name))
}
