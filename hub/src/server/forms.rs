//! Forms: read within bounds, and only from a page that this hub made for this very session.
//!
//! What comes in: the body of a POST. What goes out: its fields, or why not. A form without the token of its session is
//! refused, on record, before anything of it is looked at: another site can make a browser send one, and cannot know the token.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use outhaul_access::SessionSecret;
use outhaul_listen::Peer;

use super::access::Visitor;
use super::body;
use super::problem::Problem;
use super::shared::Shared;

/// Largest form, in bytes.
const MAX_FORM_BYTES: usize = 16 * 1024;
/// The field with the token of the session.
const TOKEN: &str = "form";

/// The fields of a form, by name.
#[derive(Debug, Default)]
pub(super) struct Fields(BTreeMap<String, String>);

impl Fields {
    /// Reads a form of the visitor's own session.
    ///
    /// # Errors
    /// As [`Fields::read`].
    pub(super) async fn of_session(
        shared: &Arc<Shared>,
        from: (Peer, &Visitor),
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Self, Problem> {
        Self::read(shared, from, headers, body, from.1.secret.as_ref()).await
    }

    /// Reads a form of the session with this secret.
    ///
    /// # Errors
    /// [`Problem`] when it is none, too large, or was made by another page.
    pub(super) async fn read(
        shared: &Arc<Shared>,
        (peer, who): (Peer, &Visitor),
        headers: &HeaderMap,
        body: Body,
        secret: Option<&SessionSecret>,
    ) -> Result<Self, Problem> {
        let kind = headers
            .get(header::CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
            let text = "this address takes the form of its page";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        let bytes = body::whole(
            &shared.forms,
            peer,
            body,
            MAX_FORM_BYTES,
            "write a shorter text",
        )
        .await?;
        let fields = Self(form_urlencoded::parse(&bytes).into_owned().collect());
        match secret {
            Some(secret) if secret.made(fields.text(TOKEN)) => Ok(fields),
            _ => {
                let detail = "a form that is not of this session".to_owned();
                let (entry, call) = (who.entry("form", detail, false), "POST of a form");
                let status = StatusCode::FORBIDDEN;
                shared
                    .turned_away(entry, status, Some(call.to_owned()))
                    .await;
                let text = "this form is not of your session, or the session has ended; nothing was changed: open the page \
                            again and repeat";
                Err(Problem::new(status, text))
            }
        }
    }

    /// A field; empty where the form has none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |text| text.trim())
    }

    /// A field that may be left out or empty.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }
}
