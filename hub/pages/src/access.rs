//! The pages about rights: the login, what is to be decided, and who did what.
//!
//! What comes in: views, and what someone wrote into a form before. What goes out: HTML as [`super`] makes it. A secret is
//! never put into a page but the token of its forms, which is worth nothing without the cookie.

use minijinja::context;
use minijinja::value::Serde;

use super::{Shown, page};
use outhaul_store::{AccessEntry, KnownPerson, Token};
use outhaul_view::ActView;

/// What the page of the login shows.
#[derive(Debug, Clone, Copy)]
pub struct LoginForm<'a> {
    /// Where to go after it.
    pub next: &'a str,
    /// What ties the form to this browser.
    pub form: &'a str,
    /// Why nobody was logged in.
    pub problem: Option<&'a str>,
    /// The identity provider, as people call it.
    pub provider: Option<&'a str>,
    /// When this was read, RFC 3339.
    pub read_at: &'a str,
}

/// The login.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn login(shown: &LoginForm<'_>) -> Result<String, minijinja::Error> {
    page(
        include_str!("login.html"),
        context! {
            here => "/login",
            read_at => shown.read_at,
            next => shown.next,
            form => shown.form,
            problem => Serde(shown.problem),
            provider => Serde(shown.provider),
        },
        &Shown::default(),
    )
}

/// What is shown for a moment after a login at the provider: it leads to `next`, as the hub's own page and not as the
/// provider's, so that the session's cookie goes with it.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn logged_in(name: &str, next: &str, read_at: &str) -> Result<String, minijinja::Error> {
    page(
        include_str!("logged_in.html"),
        context! { here => "/login", read_at => read_at, name => name, next => next },
        &Shown::default(),
    )
}

/// What someone wrote before the page is shown again.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct ActForm {
    /// Why.
    pub reason: String,
    /// Until when.
    pub until: String,
    /// Why it was not recorded.
    pub problem: Option<String>,
}

/// What is to be decided, and what it concerns.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn act(view: &ActView, fields: &ActForm, visitor: &Shown) -> Result<String, minijinja::Error> {
    page(
        include_str!("act.html"),
        context! {
            here => "",
            read_at => Serde(&view.read_at),
            view => Serde(view),
            fields => Serde(fields),
        },
        visitor,
    )
}

/// Who may do what, and who did what.
///
/// # Errors
/// [`minijinja::Error`] when the template has a defect.
pub fn access(
    (tokens, people): (&[Token], &[KnownPerson]),
    log: &[AccessEntry],
    (before, next): (Option<i64>, Option<i64>),
    (now_ms, read_at): (i64, &str),
    visitor: &Shown,
) -> Result<String, minijinja::Error> {
    page(
        include_str!("access.html"),
        context! {
            here => "/access",
            read_at => read_at,
            now_ms => now_ms,
            tokens => Serde(tokens),
            people => Serde(people),
            log => Serde(log),
            before => Serde(before),
            next => Serde(next),
        },
        visitor,
    )
}
