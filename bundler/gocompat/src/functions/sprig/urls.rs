//! `urlParse` and `urlJoin`: Go's `net/url`.
//!
//! In: a URL, or a dictionary of its parts. Out: the parts, or the URL.
//! Escapes are decoded and encoded part by part, each with its own set of free characters.

use crate::functions::args::{dict, utf8};
use crate::functions::{Env, Function, Ty};
use crate::runtime::{Fault, Key, Map, MapType, RuntimeResult, Value, text};
use std::collections::BTreeMap;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("urlParse", &[Ty::Text], |env, args| {
        env.budget.bytes(utf8(args, 0).len().saturating_mul(2))?;
        let url = parse(&utf8(args, 0))
            .or_else(|message| Fault::go(format!("unable to parse url: {message}")))?;
        let parts = [
            ("scheme", url.scheme.clone().into_bytes()),
            ("host", url.host.clone()),
            ("hostname", hostname(&url.host).to_vec()),
            ("path", url.path.clone()),
            ("query", url.query.clone().into_bytes()),
            ("opaque", url.opaque.clone().into_bytes()),
            ("fragment", url.fragment.clone()),
            (
                "userinfo",
                url.user.as_ref().map(User::to_text).unwrap_or_default(),
            ),
        ];
        let entries: BTreeMap<Key, Value> = parts
            .into_iter()
            .map(|(name, part)| (Key::str(name), text(part)))
            .collect();
        Ok(Map::value(MapType::StrAny, entries))
    }),
    Function::new("urlJoin", &[Ty::Dict], join),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    Fragment,
}

#[derive(Debug, Default)]
struct User {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    opaque: String,
    user: Option<User>,
    host: Vec<u8>,
    pub(crate) path: Vec<u8>,
    query: String,
    pub(crate) fragment: Vec<u8>,
}

impl User {
    fn to_text(&self) -> Vec<u8> {
        let mut out = escape(&self.name, Part::User);
        if let Some(password) = &self.password {
            out.push(b':');
            out.extend_from_slice(&escape(password, Part::User));
        }
        out
    }
}

fn must_escape(byte: u8, part: Part) -> bool {
    if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
        return false;
    }
    match part {
        Part::Host | Part::Zone => !b"!$&'()*+,;=:[]<>\"".contains(&byte),
        Part::Path => !b"$&+,/:;=@".contains(&byte),
        Part::User => !b"$&+,;=".contains(&byte),
        Part::Fragment => !b"$&+,/:;=?@!()*".contains(&byte),
    }
}

fn escape(bytes: &[u8], part: Part) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for byte in bytes {
        if must_escape(*byte, part) {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(*byte);
        }
    }
    out
}

fn unescape(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at).copied() {
        if byte == b'%' {
            let digits = bytes.get(at + 1..at + 3).unwrap_or(&[]);
            let value = std::str::from_utf8(digits)
                .ok()
                .filter(|digits| digits.len() == 2 && digits.bytes().all(|d| d.is_ascii_hexdigit()))
                .and_then(|digits| u8::from_str_radix(digits, 16).ok());
            let shown = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 3)]).into_owned();
            let Some(value) = value else {
                return Err(format!("invalid URL escape {shown:?}"));
            };
            let refused = match part {
                Part::Host => value < 0x80 && digits != b"25",
                Part::Zone => digits != b"25" && value != b' ' && must_escape(value, Part::Host),
                _ => false,
            };
            if refused {
                return Err(format!("invalid URL escape {shown:?}"));
            }
            out.push(value);
            at += 3;
            continue;
        }
        if matches!(part, Part::Host | Part::Zone) && byte < 0x80 && must_escape(byte, part) {
            return Err(format!(
                "invalid character {:?} in host name",
                char::from(byte)
            ));
        }
        out.push(byte);
        at += 1;
    }
    Ok(out)
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

pub(crate) fn parse(whole: &str) -> Result<Url, String> {
    let (before, fragment) = whole.split_once('#').unwrap_or((whole, ""));
    let wrap = |shown: &str, message: String| format!("parse {shown:?}: {message}");
    let mut url = parse_before_fragment(before).map_err(|message| wrap(before, message))?;
    url.fragment = unescape(fragment, Part::Fragment).map_err(|message| wrap(whole, message))?;
    Ok(url)
}

fn parse_before_fragment(text: &str) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let mut url = Url::default();
    if text == "*" {
        url.path = b"*".to_vec();
        return Ok(url);
    }
    let (scheme, mut rest) = scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    if rest.ends_with('?') && rest.matches('?').count() == 1 {
        rest = &rest[..rest.len() - 1];
    } else if let Some((before, query)) = rest.split_once('?') {
        rest = before;
        query.clone_into(&mut url.query);
    }
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            rest.clone_into(&mut url.opaque);
            return Ok(url);
        }
        if rest
            .split('/')
            .next()
            .is_some_and(|segment| segment.contains(':'))
        {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    if (!url.scheme.is_empty() || !rest.starts_with("///"))
        && let Some(authority) = rest.strip_prefix("//")
    {
        let end = authority.find('/').unwrap_or(authority.len());
        rest = &authority[end..];
        (url.user, url.host) = parse_authority(&authority[..end])?;
    }
    url.path = unescape(rest, Part::Path)?;
    Ok(url)
}

fn parse_authority(authority: &str) -> Result<(Option<User>, Vec<u8>), String> {
    let Some((user, host)) = authority.rsplit_once('@') else {
        return Ok((None, parse_host(authority)?));
    };
    let host = parse_host(host)?;
    let valid = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !user.chars().all(valid) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let (name, password) = match user.split_once(':') {
        Some((name, password)) => (name, Some(password)),
        None => (user, None),
    };
    let name = unescape(name, Part::User)?;
    let password = password
        .map(|password| unescape(password, Part::User))
        .transpose()?;
    Ok((Some(User { name, password }), host))
}

fn port_fits(port: &str) -> bool {
    port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn parse_host(host: &str) -> Result<Vec<u8>, String> {
    let checked = |port: &str| {
        if port_fits(port) {
            Ok(())
        } else {
            Err(format!("invalid port {port:?} after host"))
        }
    };
    if host.starts_with('[') {
        let end = host.rfind(']').ok_or("missing ']' in host")?;
        checked(&host[end + 1..])?;
        if let Some(zone) = host[..end].find("%25") {
            let mut out = unescape(&host[..zone], Part::Host)?;
            out.extend(unescape(&host[zone..end], Part::Zone)?);
            out.extend(unescape(&host[end..], Part::Host)?);
            return Ok(out);
        }
    } else if let Some(colon) = host.rfind(':') {
        checked(&host[colon..])?;
    }
    unescape(host, Part::Host)
}

fn hostname(host: &[u8]) -> &[u8] {
    let colon = host.iter().rposition(|byte| *byte == b':');
    let bare = match colon {
        Some(at) if host[at + 1..].iter().all(u8::is_ascii_digit) => &host[..at],
        _ => host,
    };
    bare.strip_prefix(b"[")
        .and_then(|bare| bare.strip_suffix(b"]"))
        .unwrap_or(bare)
}

fn join(env: &Env<'_>, args: &[Value]) -> RuntimeResult<Value> {
    let map = dict(args, 0)?;
    let part = |name: &str| -> RuntimeResult<Vec<u8>> {
        match map.get(&Key::str(name)) {
            None => Ok(Vec::new()),
            Some(Value::Str(text)) => {
                env.budget.bytes(text.len().saturating_mul(3))?;
                Ok(text.to_vec())
            }
            Some(Value::Nil | Value::Invalid) => {
                Fault::go("runtime error: invalid memory address or nil pointer dereference")
            }
            Some(other) => Fault::go(format!(
                "unable to parse {name} key, must be of type string, but {} found",
                other.kind_name()
            )),
        }
    };
    let (scheme, host, path) = (part("scheme")?, part("host")?, part("path")?);
    let (query, opaque, fragment) = (part("query")?, part("opaque")?, part("fragment")?);
    let userinfo = part("userinfo")?;
    let mut user = None;
    if !userinfo.is_empty() {
        let probe = format!("proto://{}@host", String::from_utf8_lossy(&userinfo));
        user = parse(&probe)
            .or_else(|message| Fault::go(format!("unable to parse userinfo in dict: {message}")))?
            .user;
    }
    let mut out = Vec::new();
    if !scheme.is_empty() {
        out.extend_from_slice(&scheme);
        out.push(b':');
    }
    if opaque.is_empty() {
        if (!scheme.is_empty() || !host.is_empty() || user.is_some())
            && (!host.is_empty() || !path.is_empty() || user.is_some())
        {
            out.extend_from_slice(b"//");
            if let Some(user) = &user {
                out.extend_from_slice(&user.to_text());
                out.push(b'@');
            }
            out.extend_from_slice(&escape(&host, Part::Host));
        }
        let path = if path == b"*" {
            path
        } else {
            escape(&path, Part::Path)
        };
        if !path.is_empty() && path[0] != b'/' && !host.is_empty() {
            out.push(b'/');
        }
        let first = path.split(|byte| *byte == b'/').next().unwrap_or(&[]);
        if out.is_empty() && first.contains(&b':') {
            out.extend_from_slice(b"./");
        }
        out.extend_from_slice(&path);
    } else {
        out.extend_from_slice(&opaque);
    }
    if !query.is_empty() {
        out.push(b'?');
        out.extend_from_slice(&query);
    }
    if !fragment.is_empty() {
        out.push(b'#');
        out.extend_from_slice(&escape(&fragment, Part::Fragment));
    }
    Ok(text(out))
}
