//! What Kalypso's templates mean, byte for byte.
//!
//! In: template text, the nine fields of the template data, YAML or JSON text.
//! Out: rendered text, YAML as `yaml.v3` writes it, Kalypso's `stringify` and `hash`.
//!
//! The crate holds its own Go `text/template` engine, the deterministic functions of
//! sprig v2.22, a YAML reader with the rules of `yaml.v2` and `yaml.v3`, and the
//! `yaml.v3` writer. Everything is a pure function of its arguments: nothing here reads
//! the clock, the environment, the network, the disk or a source of randomness, and
//! template functions that would are refused by name. Work, output and depth are bounded,
//! so that a hostile template or document ends in an error.

#![expect(
    clippy::format_push_string,
    clippy::naive_bytecount,
    clippy::unnecessary_wraps,
    reason = "short texts; the functions of one table share one signature"
)]

mod binary_text;
mod data;
mod error;
mod value;

pub use data::{Fields, TemplateData, TemplateView};
pub use error::{JsonError, TemplateError, TemplateErrorKind, YamlError};
pub use value::{Decoder, GoMap, GoValue, MapKind};
mod template;
pub use template::{RenderOptions, Rendered, Template, render};

mod format;
mod functions;
mod gonum;
mod gotime;
mod hash;
mod json;
mod runtime;
mod semver;
pub mod texts;
mod yaml;

use runtime::{Budget, from_go};

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// YAML text of a value as `yaml.v3`'s `Marshal` writes it, with its final newline.
pub fn to_yaml(value: &GoValue) -> String {
    // Decoded values hold nothing that cannot be written, and the budget is without limit.
    text_of(&yaml::marshal(&from_go(value), &Budget::unlimited()).unwrap_or_default())
}

/// Kalypso's `stringify`: YAML of a map whose top-level lists and string maps became text.
/// One final newline is trimmed.
pub fn stringify(value: &GoValue) -> String {
    let budget = Budget::unlimited();
    let env = functions::Env {
        budget: &budget,
        compat: true,
    };
    text_of(&functions::stringify_value(&from_go(value), &env).unwrap_or_default())
}

/// Kalypso's `hash`: hashstructure v1, decimal; empty when hashstructure refuses the value.
pub fn hash(value: &GoValue) -> String {
    hash::decimal(&from_go(value), &Budget::unlimited()).unwrap_or_default()
}

/// Decodes one YAML document; what follows it is not read.
///
/// # Errors
/// Where the document is not YAML to that decoder, or is deeper or larger than the limits.
pub fn decode_yaml(text: &str, decoder: Decoder) -> Result<GoValue, YamlError> {
    yaml::decode(text, decoder)
}

/// Decodes one JSON document: digits only are integers, `.` or an exponent makes a float.
///
/// # Errors
/// Where the document is not JSON or nests deeper than 150.
pub fn decode_json(text: &str) -> Result<GoValue, JsonError> {
    json::decode(text)
}
