//! The reports of one site over HTTP, as it signed them.
//!
//! What comes in: a site's name, and from which number on. What goes out: the signed envelopes of its present numbering, one on each line,
//! the newest first, with a `Link` to those before. Whoever reads them can verify them alone; nothing is worked out of them here.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use outhaul_bundle::hub_api::{escaped, path};
use serde::Deserialize;

use super::lists::{MAX_NEWEST, bounded, linked};
use super::problem::{Answers, Guarded, Params, Problem, Question};
use super::shared::Shared;
use super::values::no_site;
use crate::store::{Session, StoreError};

/// Reports that are read from the store at once.
const PART: i64 = 16;
/// Bytes of reports in one answer; one report is answered whatever its size.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Which reports.
#[derive(Debug, Deserialize)]
pub(super) struct ReportsOfSite {
    site: String,
    before: Option<u64>,
    limit: Option<u32>,
}

impl Question for ReportsOfSite {
    const NAMES: &[&str] = &["site", "before", "limit"];
}

/// The reports of a site.
#[utoipa::path(
    get,
    path = path::REPORTS,
    operation_id = "reports_of_site",
    tag = "read",
    summary = "The reports of a site's present numbering, as it signed them",
    params(
        ("site" = String, Query, description = "The site's name"),
        ("before" = Option<i64>, Query, description = "Only reports with a lower number", minimum = 1, maximum = 9_223_372_036_854_775_807i64),
        ("limit" = Option<u32>, Query, description = "Reports in one answer; 1,000 without it", minimum = 1, maximum = 1_000),
    ),
    responses(
        (status = 200, description = "Signed envelopes, one on each line, the newest first; a `Link` with `rel=\"next\"` leads to those before, where there are more. 8 MiB at most", body = String, content_type = "application/jsonl"),
        Guarded,
        Answers,
    )
)]
pub(super) async fn of_site(
    State(shared): State<Arc<Shared>>,
    Params(asked): Params<ReportsOfSite>,
) -> Result<Response, Problem> {
    let wrong = |text: String| Problem::new(StatusCode::BAD_REQUEST, text);
    let limit = bounded(asked.limit, MAX_NEWEST)?;
    let most = i64::MAX.unsigned_abs();
    if asked
        .before
        .is_some_and(|before| before == 0 || before > most)
    {
        return Err(wrong(format!(
            "before is the number of a report, 1 to {most}"
        )));
    }
    let name = asked.site.clone();
    let found = shared.look(move |store, _| {
        Ok(store.read(|session| reports(session, &asked.site, asked.before, limit))?)
    });
    let Some((lines, next)) = found.await? else {
        return Err(no_site(&name));
    };
    let next = next.map(|before| format!("site={}&before={before}&limit={limit}", escaped(&name)));
    let kind = [(header::CONTENT_TYPE, "application/jsonl")];
    Ok(linked(path::REPORTS, next, (kind, lines).into_response()))
}

/// A part of a site's reports: lines, and before which number the next ones are.
type Lines = (Vec<u8>, Option<u64>);

/// The newest reports before a number; `None` for a site that is not registered.
fn reports(
    session: &Session<'_>,
    site: &str,
    before: Option<u64>,
    limit: u32,
) -> Result<Option<Lines>, StoreError> {
    if session.site(site)?.is_none() {
        return Ok(None);
    }
    let epochs = session.epochs_of(site)?;
    // Where all of them are set aside, the newest still shows what was seen last.
    let present = epochs.iter().find(|epoch| epoch.set_aside_ms.is_none());
    let Some(present) = present.or(epochs.first()) else {
        return Ok(Some((Vec::new(), None)));
    };
    let mut below = before.unwrap_or(i64::MAX.unsigned_abs());
    let (mut lines, mut taken) = (Vec::new(), 0);
    loop {
        let part = session.reports_below(site, present, below, PART)?;
        let is_last = part.len() < usize::try_from(PART).unwrap_or(usize::MAX);
        for report in part {
            let is_too_large = lines.len().saturating_add(report.envelope.len()) > MAX_BYTES;
            if taken == limit || (taken > 0 && is_too_large) {
                return Ok(Some((lines, Some(below))));
            }
            lines.extend_from_slice(report.envelope.trim_ascii());
            lines.push(b'\n');
            (taken, below) = (taken + 1, report.number);
        }
        if is_last {
            return Ok(Some((lines, None)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use crate::stored::{store_with, take};
    use outhaul_test_kit::Site;
    use outhaul_test_kit::plain::NEW;

    #[test]
    fn parts_follow_each_other_and_the_newest_numbering_is_answered_when_all_are_set_aside() {
        let mut site = Site::new("a", "dev", "drone");
        let mut store = store_with(&[&site]);
        let mut lines: Vec<_> = (0..20).map(|_| site.active(1, NEW)).collect();
        site.forget("e2");
        lines.extend((0..40).map(|_| site.active(1, NEW)));
        take(&mut store, &lines, 10);
        let ask = |store: &mut Store, before, limit| {
            let found = store.read(|session| reports(session, "a", before, limit));
            let (lines, next) = found.unwrap().unwrap();
            (lines.split(|byte| *byte == b'\n').count() - 1, next)
        };
        assert_eq!(ask(&mut store, None, 1_000), (40, None));
        assert_eq!(ask(&mut store, None, 16), (16, Some(25)));
        assert_eq!(ask(&mut store, Some(25), 23), (23, Some(2)));
        assert_eq!(ask(&mut store, Some(25), 24), (24, None));
        for (epochs, count) in [("'e2'", 20), ("'e1', 'e2'", 40)] {
            let text = format!("UPDATE epochs SET set_aside_ms = 5 WHERE epoch IN ({epochs})");
            store.connection().execute(&text, []).unwrap();
            assert_eq!(ask(&mut store, None, 1_000), (count, None));
        }
    }
}
