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

mod error;
mod value;

pub use error::{JsonError, TemplateError, TemplateErrorKind, YamlError};
pub use value::{Decoder, GoMap, GoValue, MapKind};
mod template;
pub use template::{RenderOptions, Template, TemplateData, render};

/// YAML text of a value as `yaml.v3`'s `Marshal` writes it, with its final newline.
pub fn to_yaml(_value: &GoValue) -> String {
    String::new()
}

/// Kalypso's `stringify`: YAML of a map whose top-level lists and string maps became text.
/// One final newline is trimmed.
pub fn stringify(_value: &GoValue) -> String {
    String::new()
}

/// Kalypso's `hash`: hashstructure v1, decimal; empty when hashstructure refuses the value.
pub fn hash(_value: &GoValue) -> String {
    String::new()
}

/// Decodes one YAML document.
///
/// # Errors
/// Where the document is not YAML to that decoder, or is deeper or larger than the limits.
pub fn decode_yaml(_text: &str, _decoder: Decoder) -> Result<GoValue, YamlError> {
    Ok(GoValue::Null)
}

/// Decodes one JSON document: digits only are integers, `.` or an exponent makes a float.
///
/// # Errors
/// Where the document is not JSON or nests deeper than 500.
pub fn decode_json(_text: &str) -> Result<GoValue, JsonError> {
    Ok(GoValue::Null)
}
