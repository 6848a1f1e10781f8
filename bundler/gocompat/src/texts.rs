//! What Go's libraries say of one text: whether it is a URL, a time or a regular expression, and how it
//! stands in JSON. Kalypso's schema validator asks them.
//!
//! In: a text, or a number. Out: the parts of it, or nothing where Go reports an error. It knows no
//! schema; work is linear in the text, and compiled expressions are bounded.

use crate::functions::sprig::{patterns, urls};
use crate::{gotime, json, text_of};

/// A URL's parts, unescaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// In lower case; empty for a relative one.
    pub scheme: String,
    /// The path.
    pub path: Vec<u8>,
    /// What follows `#`.
    pub fragment: Vec<u8>,
}

/// `url.Parse`.
pub fn url(text: &str) -> Option<Url> {
    let url = urls::parse(text).ok()?;
    Some(Url {
        scheme: url.scheme,
        path: url.path,
        fragment: url.fragment,
    })
}

/// Whether `time.Parse` takes `text` with one of the layouts.
pub fn is_time(layouts: &[&str], text: &str) -> bool {
    layouts
        .iter()
        .any(|layout| gotime::parse(layout, text, false).is_some())
}

/// A regular expression in Go's language.
#[derive(Debug, Clone)]
pub struct Regex(regex::bytes::Regex);

impl Regex {
    /// `regexp.Compile`.
    pub fn new(pattern: &str) -> Option<Self> {
        patterns::build(pattern).ok().map(Self)
    }

    /// `MatchString`.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text.as_bytes())
    }
}

/// A number as `json.Marshal` writes a `float64`; `null` for what JSON has none for.
pub fn json_number(number: f64) -> String {
    if number.is_finite() {
        json::encode::float(number)
    } else {
        "null".to_owned()
    }
}

/// A text as `json.Marshal` writes it, quoted and safe for HTML.
pub fn json_string(text: &str) -> String {
    text_of(&json::encode::quoted(text.as_bytes()))
}
