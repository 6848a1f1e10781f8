//! `format`, as Kalypso's validator understands it.
//!
//! What comes in: a format's name and a text. What goes out: whether the text is of it. Formats that it
//! does not know hold for every text.

use outhaul_kit::bounds::MAX_DNS_LABEL_BYTES;
use std::net::IpAddr;

use outhaul_gocompat::texts;

const DATE: &str = "2006-01-02";
const RFC3339: &str = "2006-01-02T15:04:05Z07:00";
const TIMES: &[&str] = &["15:04:05", "15:04:05Z07:00"];

/// What the validator knows.
pub(in crate::compose::schema) const KNOWN: &[&str] = &[
    "date",
    "time",
    "date-time",
    "hostname",
    "email",
    "idn-email",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uri-template",
    "uuid",
    "regex",
    "json-pointer",
    "relative-json-pointer",
];

/// Whether the validator knows `format`.
pub(super) fn is_known(format: &str) -> bool {
    KNOWN.contains(&format)
}

/// Whether `text` is of `format`.
pub(super) fn holds(format: &str, text: &str) -> bool {
    let reference = || texts::url(text).filter(|_| !text.contains('\\'));
    match format {
        "date" => texts::is_time(&[DATE], text),
        "time" => texts::is_time(TIMES, text),
        "date-time" => texts::is_time(&[DATE, RFC3339], text) || texts::is_time(TIMES, text),
        "hostname" => is_hostname(text),
        "email" | "idn-email" => is_email(text),
        // An IPv6 address may end like an IPv4 one.
        "ipv4" => text.parse::<IpAddr>().is_ok() && text.contains('.'),
        "ipv6" => text.parse::<IpAddr>().is_ok() && text.contains(':'),
        "uri" | "iri" => reference().is_some_and(|url| !url.scheme.is_empty()),
        "uri-reference" | "iri-reference" => reference().is_some(),
        "uri-template" => reference().is_some_and(|url| is_template(&url.path)),
        "uuid" => is_uuid(text),
        "regex" => texts::Regex::new(text).is_some(),
        "json-pointer" => is_pointer(text),
        "relative-json-pointer" => {
            let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
            let digits = &text[..text.len() - rest.len()];
            let number = digits == "0" || (!digits.is_empty() && !digits.starts_with('0'));
            number && (rest == "#" || is_pointer(rest))
        }
        _ => true,
    }
}

/// Whether every `{` has a `}` after it, before the next one.
fn is_template(path: &[u8]) -> bool {
    let mut rest = path;
    while let Some(open) = rest.iter().position(|byte| *byte == b'{') {
        rest = &rest[open + 1..];
        match rest.iter().position(|byte| *byte == b'}') {
            Some(close) => rest = &rest[close + 1..],
            None => return false,
        }
    }
    true
}

fn is_pointer(text: &str) -> bool {
    let escaped = |at: usize| matches!(text.as_bytes().get(at + 1), Some(b'0' | b'1'));
    (text.is_empty() || text.starts_with('/')) && text.match_indices('~').all(|(at, _)| escaped(at))
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        bytes.len() <= MAX_DNS_LABEL_BYTES
            && edge(bytes.first())
            && edge(bytes.last())
            && bytes
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || *b == b'-')
    };
    text.len() < 256 && text.split('.').all(label)
}

/// An address, or a name with an address in angle brackets.
fn is_email(text: &str) -> bool {
    let address = match (text.rfind('<'), text.strip_suffix('>')) {
        (Some(at), Some(inner)) => &inner[at + 1..],
        _ => text,
    };
    let atom = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    let dots = |part: &str| !part.starts_with('.') && !part.ends_with('.') && !part.contains("..");
    match address.rsplit_once('@') {
        Some((local, domain)) => [local, domain]
            .iter()
            .all(|part| !part.is_empty() && part.chars().all(atom) && dots(part)),
        None => false,
    }
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts
            .iter()
            .all(|part| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}
