//! `format`, as Kalypso's validator understands it.
//!
//! What comes in: a format's name and a text. What goes out: whether the text is of it. Formats that it
//! does not know hold for every text.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether `text` is of `format`.
pub(super) fn holds(format: &str, text: &str) -> bool {
    match format {
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "time" => is_time(text),
        "date-time" => match text.split_once('T') {
            Some((date, time)) => holds("date", date) && is_time(time) && !is_local(time),
            None => holds("date", text) || is_time(text),
        },
        "hostname" => is_hostname(text),
        "email" | "idn-email" => is_email(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "uri" | "iri" => is_reference(text) && scheme(text).is_some(),
        "uri-reference" | "iri-reference" => is_reference(text),
        "uuid" => is_uuid(text),
        "regex" => regex::Regex::new(text).is_ok(),
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

fn is_pointer(text: &str) -> bool {
    let escaped = |at: usize| matches!(text.as_bytes().get(at + 1), Some(b'0' | b'1'));
    (text.is_empty() || text.starts_with('/')) && text.match_indices('~').all(|(at, _)| escaped(at))
}

fn is_time(text: &str) -> bool {
    let end = text.find(['Z', '+', '-']).unwrap_or(text.len());
    let (clock, zone) = text.split_at(end);
    let zone_ok = match zone {
        "" | "Z" => true,
        zone => zone.len() == 6 && hours_and_minutes(&zone[1..]),
    };
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let fraction_ok = !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit());
    let seconds =
        |text: &str| text.len() == 3 && text.starts_with(':') && two_digits(&text[1..], 60);
    zone_ok
        && fraction_ok
        && whole.is_ascii()
        && whole.len() == 8
        && hours_and_minutes(&whole[..5])
        && seconds(&whole[5..])
}

fn is_local(time: &str) -> bool {
    !time.contains(['Z', '+', '-'])
}

fn hours_and_minutes(text: &str) -> bool {
    match text.split_once(':') {
        Some((hours, minutes)) => two_digits(hours, 24) && two_digits(minutes, 60),
        None => false,
    }
}

fn two_digits(text: &str, below: u32) -> bool {
    let digits = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
    digits && text.parse::<u32>().is_ok_and(|number| number < below)
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        bytes.len() <= 63
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

fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    (scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(letters))
        .then_some(scheme)
}

/// What Go's `url.Parse` takes, and no backslash.
fn is_reference(text: &str) -> bool {
    let percent_ok = text.match_indices('%').all(|(at, _)| {
        text.as_bytes()
            .get(at + 1..at + 3)
            .is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
    });
    let colon_first = text
        .split('/')
        .next()
        .is_some_and(|first| first.contains(':'));
    let control = text.chars().any(|c| c.is_ascii_control());
    // A colon in the first segment without a scheme before it is an error to Go.
    let scheme_ok = !colon_first || scheme(text).is_some();
    let host = text
        .split_once("://")
        .map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let host_ok = host.is_none_or(|host| !host.contains(' '));
    percent_ok && !control && scheme_ok && host_ok && !text.contains('\\')
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts
            .iter()
            .all(|part| part.bytes().all(|b| b.is_ascii_hexdigit()))
}
