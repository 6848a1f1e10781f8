//! The addresses of bundles, of one assignment at a site, and of two environments beside each other.
//!
//! What comes in: names, numbers and parameters that anybody may write. What goes out: HTML. It reads a bounded part of the store.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use outhaul_kit::suggest::did_you_mean;
use serde::Deserialize;

use super::{LONGEST, Page, PageQuestion, ReportsQuestion, Wrong, cut, html_of};
use crate::pages;
use crate::server::access::Visitor;
use crate::server::problem::{Params, Problem, Question};
use crate::server::shared::Shared;
use crate::store::{BundlePlace, StoreError};
use crate::time;
use crate::view::{
    AssignmentView, BundleAsked, BundleList, BundleView, BundlesWanted, Comparison, NoAssignment,
    TimelineBefore, unknown_name,
};

/// Which bundles.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct BundlesQuestion {
    environment: String,
    cluster_type: String,
    before: Option<u64>,
    after: String,
}

impl Question for BundlesQuestion {
    const NAMES: &[&str] = &["environment", "cluster_type", "before", "after"];
}

/// Which sites of a bundle.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PlacesQuestion {
    state: String,
    after: String,
}

impl Question for PlacesQuestion {
    const NAMES: &[&str] = &["state", "after"];
}

/// Which environments.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CompareQuestion {
    from: String,
    to: String,
    after: String,
}

impl Question for CompareQuestion {
    const NAMES: &[&str] = &["from", "to", "after"];
}

/// Several names in an address, or why they are none.
pub(super) type Names<T> = Result<Path<T>, PathRejection>;

pub(super) fn names_of<T>(names: Names<T>) -> Result<T, Wrong> {
    let text = "a name in this URL is not UTF-8 text";
    names
        .map(|Path(names)| names)
        .map_err(|_| Wrong::new(StatusCode::BAD_REQUEST, text))
}

pub(super) fn within(texts: &[&String]) -> Result<(), Wrong> {
    match texts.iter().any(|text| text.chars().count() > 2 * LONGEST) {
        false => Ok(()),
        true => {
            let text = format!("a name has {} characters at most", 2 * LONGEST);
            Err(Wrong::new(StatusCode::BAD_REQUEST, text))
        }
    }
}

pub(super) async fn all(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    asked: PageQuestion<BundlesQuestion>,
) -> Page {
    let Params(asked) = asked?;
    within(&[&asked.environment, &asked.cluster_type, &asked.after])?;
    let wanted = BundlesWanted {
        environment: asked.environment,
        cluster_type: asked.cluster_type,
        before: asked.before,
        after: asked.after,
    };
    let now_ms = time::now_ms();
    let html = shared.look(move |store, _| {
        let found = store.read(|session| {
            let names = (wanted.environment.as_str(), wanted.cluster_type.as_str());
            match unknown_name(session, names)? {
                Some(unknown) => Ok::<_, StoreError>(Err(unknown)),
                None => BundleList::of(session, wanted, now_ms).map(Ok),
            }
        })?;
        Ok(match found {
            Ok(list) => Ok(pages::bundles(&list, &visitor.shown())?),
            Err(unknown) => Err(Problem::of_unknown(&unknown)),
        })
    });
    Ok(html_of(html.await??))
}

pub(super) async fn one(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    names: Names<(String, String, String)>,
    asked: PageQuestion<PlacesQuestion>,
) -> Page {
    let (environment, cluster_type, number) = names_of(names)?;
    let Params(asked) = asked?;
    within(&[&environment, &cluster_type, &asked.after])?;
    let place = BundlePlace::ALL
        .into_iter()
        .find(|place| place.as_str() == asked.state);
    if place.is_none() && !asked.state.is_empty() {
        let words = BundlePlace::ALL.map(BundlePlace::as_str).join(", ");
        let text = format!("`state` is one of {words}");
        return Err(Wrong::new(StatusCode::BAD_REQUEST, text));
    }
    let Ok(number) = number.parse::<u64>() else {
        let text = format!("`{}` is not the number of a bundle.", cut(&number));
        return Err(Wrong::new(StatusCode::NOT_FOUND, text));
    };
    let now_ms = time::now_ms();
    let found = shared.look(move |store, _| {
        let asked = BundleAsked {
            environment: &environment,
            cluster_type: &cluster_type,
            number,
            place,
            after: &asked.after,
        };
        let (view, streams) = store.read(|session| {
            let view = BundleView::of(session, &asked, now_ms)?;
            let streams = match view {
                Some(_) => Vec::new(),
                None => session.streams_on_record()?,
            };
            Ok::<_, StoreError>((view, streams))
        })?;
        if let Some(view) = view {
            return Ok(Ok(pages::bundle(&view, &visitor.shown())?));
        }
        let name = format!("{} / {}", cut(&environment), cut(&cluster_type));
        let of_stream = streams
            .iter()
            .find(|one| one.environment == environment && one.cluster_type == cluster_type);
        Ok(Err(match of_stream {
            Some(one) => format!(
                "No bundle {number} of {name} is on record; the newest is {}.",
                one.newest
            ),
            None => {
                let known: Vec<String> = streams
                    .iter()
                    .map(|one| format!("{} / {}", one.environment, one.cluster_type))
                    .collect();
                format!(
                    "No bundle of `{name}` is on record; {}",
                    did_you_mean(&name, &known)
                )
            }
        }))
    });
    answer(found.await?)
}

/// The page, or that there is none.
fn answer(found: Result<String, String>) -> Page {
    match found {
        Ok(html) => Ok(html_of(html)),
        Err(text) => Err(Wrong::new(StatusCode::NOT_FOUND, text)),
    }
}

pub(super) async fn assignment(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    names: Names<(String, String)>,
    asked: PageQuestion<ReportsQuestion>,
) -> Page {
    let (site, assignment) = names_of(names)?;
    let Params(asked) = asked?;
    within(&[&site, &assignment])?;
    let before = asked
        .before
        .map(|text| text.parse::<TimelineBefore>())
        .transpose();
    let before = before.map_err(|text| Wrong::new(StatusCode::BAD_REQUEST, text))?;
    let now_ms = time::now_ms();
    let found = shared.look(move |store, _| {
        let names = (site.as_str(), assignment.as_str());
        let view = store.read(|session| AssignmentView::of(session, names, before, now_ms))?;
        Ok(match view {
            Ok(view) => Ok(pages::assignment(&view, &visitor.shown())?),
            Err(NoAssignment::NoSite) => Err(format!("No site `{}` is registered.", cut(&site))),
            Err(NoAssignment::Unknown(known)) => {
                let name = cut(&assignment);
                Err(format!(
                    "Site `{}` neither has nor ever reported an assignment `{name}`; {}",
                    cut(&site),
                    did_you_mean(&name, &known)
                ))
            }
        })
    });
    answer(found.await?)
}

pub(super) async fn compare(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    asked: PageQuestion<CompareQuestion>,
) -> Page {
    let Params(asked) = asked?;
    within(&[&asked.from, &asked.to, &asked.after])?;
    if asked.from.is_empty() != asked.to.is_empty() {
        let text = "`from` and `to` are needed both, each an environment";
        return Err(Wrong::new(StatusCode::BAD_REQUEST, text));
    }
    let now_ms = time::now_ms();
    let found = shared.look(move |store, _| {
        let shown = visitor.shown();
        if asked.from.is_empty() {
            let known = store.read(|session| session.environments())?;
            let read_at = time::rfc3339(now_ms);
            return Ok(Ok(pages::choose_environments(&known, &read_at, &shown)?));
        }
        let pair = (asked.from.as_str(), asked.to.as_str());
        let found = store.read(|session| Comparison::of(session, pair, &asked.after, now_ms))?;
        Ok(match found {
            Ok(found) => Ok(pages::comparison(&found, &shown)?),
            Err(known) => {
                let is_unknown = |name: &&&str| !known.iter().any(|one| one == **name);
                let name = [pair.0, pair.1]
                    .iter()
                    .find(is_unknown)
                    .map_or("", |name| name)
                    .to_owned();
                Err(format!(
                    "No site and no bundle of an environment `{}` is known to this hub; {}",
                    cut(&name),
                    did_you_mean(&name, &known)
                ))
            }
        })
    });
    answer(found.await?)
}
