//! The pages that explain: one pair of cluster type and target, and the platform as it was read.
//!
//! What comes in: names in addresses and parameters that anybody may write. What goes out: HTML. It reads a bounded part of the store, and
//! takes nothing in: changes are made in git.

use std::sync::Arc;

use crate::server::explanations::within;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use outhaul_kit::suggest::did_you_mean;
use serde::Deserialize;

use super::bundles::{Names, names_of};
use super::{Named, Page, PageQuestion, Wrong, cut, html_of, name_of};
use crate::pages;
use crate::server::access::Visitor;
use crate::server::problem::{Nothing, Params, Question};
use crate::server::shared::Shared;
use crate::time;
use crate::view::explained::{
    EntityView, ExplainAsked, ExplainUnknown, ExplainView, KindView, PlatformAsked, PlatformList,
    PlatformView, kind_of,
};

/// At which site, and by which document.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PairQuestion {
    site: String,
    digest: String,
}

impl Question for PairQuestion {
    const NAMES: &[&str] = &["site", "digest"];
}

/// Which document, and from which name on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PartQuestion {
    digest: String,
    after: String,
}

impl Question for PartQuestion {
    const NAMES: &[&str] = &["digest", "after"];
}

/// Which document, and from which place on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UsesQuestion {
    digest: String,
    from: u32,
}

impl Question for UsesQuestion {
    const NAMES: &[&str] = &["digest", "from"];
}

pub(super) async fn pair(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    names: Names<(String, String, String)>,
    asked: PageQuestion<PairQuestion>,
) -> Page {
    let (environment, cluster_type, target) = names_of(names)?;
    let Params(asked) = asked?;
    within(&[
        &environment,
        &cluster_type,
        &target,
        &asked.site,
        &asked.digest,
    ])?;
    let now_ms = time::now_ms();
    let name = cut(&environment);
    let (stream, site) = (format!("{name} / {}", cut(&cluster_type)), cut(&asked.site));
    let html = shared.look(move |store, _| {
        let asked = ExplainAsked {
            environment: &environment,
            cluster_type: &cluster_type,
            target: &target,
            site: &asked.site,
            digest: &asked.digest,
        };
        let view = store.read(|session| ExplainView::of(session, &asked, now_ms))?;
        let shown = |view| pages::explain(&view, &visitor.shown());
        Ok(match view {
            Ok(view) => Ok(shown(view)?),
            Err(unknown) => Err(unknown),
        })
    });
    html.await?.map(html_of).map_err(|unknown| {
        let text = match unknown {
            ExplainUnknown::Site => {
                format!("No site `{site}` of {stream} is known to this hub.")
            }
            _ => format!(
                "No site, no bundle and no explanation of an environment `{name}` is known to this hub."
            ),
        };
        Wrong::new(StatusCode::NOT_FOUND, text)
    })
}

pub(super) async fn platforms(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    asked: PageQuestion<Nothing>,
) -> Page {
    asked?;
    let now_ms = time::now_ms();
    let html = shared.look(move |store, _| {
        let list = store.read(|session| PlatformList::of(session, now_ms))?;
        Ok(pages::platforms(&list, &visitor.shown())?)
    });
    Ok(html_of(html.await?))
}

pub(super) async fn platform(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    name: Named,
    asked: PageQuestion<PartQuestion>,
) -> Page {
    let environment = name_of(name)?;
    let Params(asked) = asked?;
    within(&[&environment, &asked.digest, &asked.after])?;
    let now_ms = time::now_ms();
    let name = cut(&environment);
    let html = shared.look(move |store, _| {
        let asked = PlatformAsked {
            environment: &environment,
            digest: &asked.digest,
            after: &asked.after,
        };
        let view = store.read(|session| PlatformView::of(session, &asked, now_ms))?;
        let shown = |view| pages::platform(&view, &visitor.shown());
        Ok(view.map(shown).transpose()?)
    });
    html.await?.map(html_of).ok_or_else(|| none_of(&name))
}

pub(super) async fn kind(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    names: Names<(String, String)>,
    asked: PageQuestion<PartQuestion>,
) -> Page {
    let (environment, kind) = names_of(names)?;
    let Params(asked) = asked?;
    within(&[&environment, &kind, &asked.digest, &asked.after])?;
    let kind = known_kind(&kind)?;
    let now_ms = time::now_ms();
    let name = cut(&environment);
    let html = shared.look(move |store, _| {
        let asked = PlatformAsked {
            environment: &environment,
            digest: &asked.digest,
            after: &asked.after,
        };
        let view = store.read(|session| KindView::of(session, &asked, kind, now_ms))?;
        let shown = |view| pages::platform_kind(&view, &visitor.shown());
        Ok(view.map(shown).transpose()?)
    });
    html.await?.map(html_of).ok_or_else(|| none_of(&name))
}

pub(super) async fn entity(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    names: Names<(String, String, String)>,
    asked: PageQuestion<UsesQuestion>,
) -> Page {
    let (environment, kind, entity) = names_of(names)?;
    let Params(asked) = asked?;
    within(&[&environment, &kind, &entity, &asked.digest])?;
    let kind = known_kind(&kind)?;
    let now_ms = time::now_ms();
    let name = cut(&environment);
    let found = shared.look(move |store, _| {
        let question = PlatformAsked {
            environment: &environment,
            digest: &asked.digest,
            after: "",
        };
        let from = asked.from as usize;
        let view = store
            .read(|session| EntityView::of(session, &question, (kind, &entity), from, now_ms))?;
        Ok(match view {
            None => None,
            Some(Ok(view)) => Some(Ok(pages::platform_entity(&view, &visitor.shown())?)),
            Some(Err(known)) => Some(Err(format!(
                "The control plane had no {kind} `{}` then; {}",
                cut(&entity),
                did_you_mean(&cut(&entity), &known)
            ))),
        })
    });
    match found.await? {
        None => Err(none_of(&name)),
        Some(Err(text)) => Err(Wrong::new(StatusCode::NOT_FOUND, text)),
        Some(Ok(html)) => Ok(html_of(html)),
    }
}

fn known_kind(kind: &str) -> Result<&'static str, Wrong> {
    kind_of(kind).ok_or_else(|| {
        let text = format!(
            "`{}` is not a kind of a control plane's entities.",
            cut(kind)
        );
        Wrong::new(StatusCode::NOT_FOUND, text)
    })
}

fn none_of(environment: &str) -> Wrong {
    let text = format!(
        "No such explanation of environment `{environment}` is on record: `outhaul explain --environment {environment} --whole --send --hub \
         URL` at the centre sends one."
    );
    Wrong::new(StatusCode::NOT_FOUND, text)
}
