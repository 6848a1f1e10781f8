//! Secret values inside text: `ENC[age,BINDING,…]`, where `…` is a sealed value in URL-safe base64 and the
//! [`Binding`] states where it belongs.
//!
//! What comes in: a value to seal, or the text of a file that was composed, rendered and carried with
//! such markers in it. What goes out: one marker, or the text with every marker replaced by its value,
//! in memory that is wiped. A marker is letters, digits and `, / + . - _` between its brackets, so that no
//! template, YAML emitter or shell on the way changes it. What does not look exactly so is left alone;
//! what does and cannot be opened, or stands where its binding does not allow it, is an error. In YAML, JSON
//! and properties files a value never becomes syntax.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use super::{Identities, Recipient, SealError, open, seal};

mod binding;
pub mod properties;
mod yaml;

pub use binding::{Binding, MarkerContext};

/// How a marker begins. It ends with the next `]`.
pub const OPENING: &str = "ENC[age,";
/// Largest value in bytes.
pub const MAX_VALUE_BYTES: usize = 16 * 1024;
/// Most markers in one text: each costs a key agreement.
pub const MAX_MARKERS: usize = 1_000;
/// Largest text in bytes that is searched for markers.
pub const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// Why a value cannot be sealed, or a marker not be replaced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MarkerError {
    /// One marker of a text.
    #[error("line {line}: {problem}")]
    Marker {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: MarkerProblem,
    },
    /// Sealing failed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// A text with more markers, or larger, than is worked on.
    #[error(
        "a text of {bytes} bytes with {markers} or more sealed values; at most {MAX_TEXT_BYTES} and {MAX_MARKERS} are worked on"
    )]
    TooMuch {
        /// Its size.
        bytes: usize,
        /// Markers found so far.
        markers: usize,
    },
    /// A value that no marker can hold.
    #[error("{problem}")]
    Value {
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// What is wrong with one marker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MarkerProblem {
    /// It belongs elsewhere.
    #[error(
        "the value is sealed for {what} `{bound}`, and this is {what} `{here}`; it was not opened\nhelp: seal \
         the value for this place: `outhaul secret seal`"
    )]
    Elsewhere {
        /// `fleet`, `environment` or `workload`.
        what: &'static str,
        /// What it is sealed for.
        bound: String,
        /// What this is.
        here: String,
    },
    /// The names before it are not those under the seal.
    #[error(
        "the names before the sealed value are not those that it was sealed with; it was not used\nhelp: put \
         the marker back as `outhaul secret seal` printed it"
    )]
    Relabelled,
    /// It is of the time before bindings.
    #[error(
        "the value was sealed without saying for which fleet, environment, workload and key, so it could \
         have been copied here from anywhere; it was not used\nhelp: seal it again: `outhaul secret seal \
         --fleet ID --environment NAME --workload NAME --key NAME --recipients FILE`"
    )]
    Unbound,
    /// It cannot be opened.
    #[error("the sealed value cannot be opened: {0}")]
    Open(SealError),
    /// It has no end: no site takes it for a sealed value.
    #[error(
        "`ENC[age,` begins a sealed value that has no end; it would be used as it stands\nhelp: put the whole \
         marker there, up to its `]`, as `outhaul secret seal` printed it"
    )]
    CutOff,
    /// Its place in the file cannot hold the value: it would end the quotes, or become syntax.
    #[error(
        "the sealed value has characters that mean something here\nhelp: put the marker into double quotes, as the whole value"
    )]
    Place,
    /// A line break where a value must stay on its line.
    #[error(
        "the sealed value has a line break, and stands where it must not\nhelp: put the marker into double quotes, as the whole value"
    )]
    LineBreak,
    /// What came out is not text.
    #[error("the sealed value is not UTF-8 text")]
    NotText,
}

/// What a text is, and so how a value is written into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// Any other: values go in as they are, on one line.
    Plain,
    /// A Java properties file: whatever would mean something there is escaped.
    Properties,
    /// YAML, and JSON, which is YAML: values are quoted or escaped where they must be.
    Yaml,
}

impl Syntax {
    /// By the ending of a file's name.
    pub fn of_file(name: &str) -> Self {
        let ending = name
            .rsplit('.')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        match ending.as_str() {
            "properties" => Self::Properties,
            "yaml" | "yml" | "json" => Self::Yaml,
            _ => Self::Plain,
        }
    }
}

/// A text of which the sealed values were opened. Wiped when dropped; prints nothing of them.
pub struct Unsealed {
    /// The text.
    pub text: Zeroizing<String>,
    /// The values that are now in it: what must be struck out of anything that is logged.
    pub values: Vec<Zeroizing<String>>,
}

impl fmt::Debug for Unsealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unsealed({} values)", self.values.len())
    }
}

/// A marker that holds `value`, for `recipients`, to be opened where `binding` states.
///
/// # Errors
/// [`MarkerError`] when the value is empty, too long or has control characters, or nobody is to read it.
pub fn seal_value(
    value: &str,
    recipients: &[Recipient],
    binding: &Binding,
) -> Result<String, MarkerError> {
    let refuse = |problem| Err(MarkerError::Value { problem });
    if value.is_empty() {
        return refuse("the value is empty");
    }
    if value.len() > MAX_VALUE_BYTES {
        return refuse("the value is longer than 16 KiB\nhelp: seal the bundle instead");
    }
    if value.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        return refuse("the value has control characters\nhelp: encode it in base64 first");
    }
    let mut sealed = Vec::new();
    let bound = Zeroizing::new(binding.around(value));
    seal(bound.as_bytes(), &mut sealed, recipients)?;
    let body = URL_SAFE_NO_PAD.encode(sealed);
    Ok(format!("{OPENING}{binding},{body}]"))
}

/// Whether `bytes` may hold a marker: a cheap question before [`unseal_values`].
pub fn may_have_markers(bytes: &[u8]) -> bool {
    let opening = OPENING.as_bytes();
    bytes.windows(opening.len()).any(|part| part == opening)
}

/// What each marker of `text` states of where it belongs; `None` for one of the time before bindings. Nothing is
/// opened: that the names are those under the seal shows only on site.
pub fn bindings(text: &str) -> Vec<Option<Binding>> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut from = 0;
        while let Some((start, end)) = next_marker(line, from) {
            let (binding, _) = parts(&line[start..end]);
            found.push(binding.and_then(|text| text.parse().ok()));
            from = end;
        }
    }
    found
}

/// Whether `text` has the beginning of a marker and no whole one there: it was cut off or changed.
pub fn has_cut_off(text: &str) -> bool {
    text.matches(OPENING).count() > bindings(text).len()
}

/// `text` with `instead` in the place of each marker. Nothing is opened: what is made of it shows where sealed
/// values would stand, and none of them.
pub fn replace_markers(text: &str, instead: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut from = 0;
        while let Some((start, end)) = next_marker(line, from) {
            out.push_str(&line[from..start]);
            out.push_str(instead);
            from = end;
        }
        out.push_str(&line[from..]);
    }
    out
}

/// `text` with every marker replaced by its value, as it stands at `here`.
///
/// # Errors
/// [`MarkerError`], with the line of the first marker that cannot be replaced.
pub fn unseal_values(
    text: &str,
    keys: &Identities,
    syntax: Syntax,
    here: &MarkerContext<'_>,
) -> Result<Unsealed, MarkerError> {
    let too_much = |markers| MarkerError::TooMuch {
        bytes: text.len(),
        markers,
    };
    if text.len() > MAX_TEXT_BYTES {
        return Err(too_much(0));
    }
    // Enough for every value in its longest spelling: a buffer that grows leaves copies behind.
    let markers = text.matches(OPENING).count().min(MAX_MARKERS + 1);
    let mut out = Zeroizing::new(String::with_capacity(text.len()));
    let mut values = Vec::with_capacity(markers);
    let mut places = yaml::Places::default();
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let place = match syntax {
            Syntax::Plain | Syntax::Properties => None,
            Syntax::Yaml => Some(places.of_line(line)),
        };
        let mut from = 0;
        if place == Some(yaml::Line::Comment) {
            append(&mut out, line);
            continue;
        }
        while let Some((start, end)) = next_marker(line, from) {
            if values.len() >= MAX_MARKERS {
                return Err(too_much(values.len()));
            }
            let fail = |problem| MarkerError::Marker {
                line: at + 1,
                problem,
            };
            let value = value(&line[start..end], keys, here).map_err(fail)?;
            let (before, after) = (&line[..start], &line[end..]);
            let context = match place {
                None if syntax == Syntax::Properties => yaml::MarkerContext::Property,
                None | Some(yaml::Line::Block | yaml::Line::Comment) => {
                    yaml::verbatim(before, after)
                }
                Some(yaml::Line::Values) => yaml::context(before, after),
            };
            let written = context.write(&value).map_err(fail)?;
            append(&mut out, &line[from..start]);
            append(&mut out, &written);
            values.push(value);
            from = end;
        }
        append(&mut out, &line[from..]);
    }
    Ok(Unsealed { text: out, values })
}

/// Where the next whole marker stands at or after `from`.
fn next_marker(line: &str, mut from: usize) -> Option<(usize, usize)> {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"-_.,/+".contains(&b);
    loop {
        let start = from + line.get(from..)?.find(OPENING)?;
        let body = start + OPENING.len();
        let length = line[body..].bytes().take_while(|b| inner(*b)).count();
        let end = body + length;
        if length > 0 && line[end..].starts_with(']') {
            return Some((start, end + 1));
        }
        from = body;
    }
}

/// The binding of a marker, if it has one, and its body.
fn parts(marker: &str) -> (Option<&str>, &str) {
    let inside = &marker[OPENING.len()..marker.len() - 1];
    match inside.split_once(',') {
        Some((binding, body)) => (Some(binding), body),
        None => (None, inside),
    }
}

fn value(
    marker: &str,
    keys: &Identities,
    here: &MarkerContext<'_>,
) -> Result<Zeroizing<String>, MarkerProblem> {
    let (binding, body) = parts(marker);
    let binding = binding.ok_or(MarkerProblem::Unbound)?;
    let binding: Binding = binding.parse().map_err(|_| MarkerProblem::Relabelled)?;
    binding.check(here)?;
    let sealed = URL_SAFE_NO_PAD.decode(body).map_err(|_| {
        let problem = "its text is truncated or changed";
        MarkerProblem::Open(SealError::NotSealed { problem })
    })?;
    let most = binding::MAX_BINDING_BYTES + MAX_VALUE_BYTES;
    let mut bytes = Zeroizing::new(Vec::with_capacity(most));
    open(&*sealed, keys, &mut *bytes, most as u64).map_err(MarkerProblem::Open)?;
    let text = str::from_utf8(&bytes).map_err(|_| MarkerProblem::NotText)?;
    let value = binding.value_in(text)?;
    if value.len() > MAX_VALUE_BYTES {
        let max_bytes = MAX_VALUE_BYTES as u64;
        return Err(MarkerProblem::Open(SealError::TooLarge { max_bytes }));
    }
    Ok(Zeroizing::new(value.to_owned()))
}

/// As `push_str`, but wipes the old buffer when a larger one is needed.
fn append(out: &mut Zeroizing<String>, text: &str) {
    if out.capacity() - out.len() < text.len() {
        let mut larger = Zeroizing::new(String::with_capacity(2 * (out.len() + text.len())));
        larger.push_str(out);
        *out = larger;
    }
    out.push_str(text);
}

#[cfg(test)]
mod tests;
