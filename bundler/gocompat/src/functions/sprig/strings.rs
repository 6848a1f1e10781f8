//! Strings: trimming, case, search, quoting, indentation, splitting and joining.
//!
//! In: strings, which are bytes in Go. Out: strings, or the panics of Go's slices.
//! Lengths are bytes where Go counts bytes; results are charged before they are built.

use crate::format::{quote, sprint, sprint_all, string_of};
use crate::functions::args::{any, number, string, strings_of};
use crate::functions::{Env, Function, Ty};
use crate::runtime::{Elem, Fault, Key, List, Map, MapType, RuntimeResult, Text, Value, text};
use std::collections::BTreeMap;
use std::sync::Arc;

const T: Ty = Ty::Text;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("hello", &[], |_, _| Ok(text("Hello!"))),
    Function::new("trim", &[T], |_, args| {
        Ok(text(trim_space(string(args, 0))))
    }),
    Function::new("upper", &[T], |env, args| mapped(env, args, upper)),
    Function::new("lower", &[T], |env, args| mapped(env, args, lower)),
    Function::new("trimall", &[T, T], trim_all),
    Function::new("trimAll", &[T, T], trim_all),
    Function::new("trimSuffix", &[T, T], |_, args| {
        let whole = string(args, 1);
        Ok(text(whole.strip_suffix(string(args, 0)).unwrap_or(whole)))
    }),
    Function::new("trimPrefix", &[T, T], |_, args| {
        let whole = string(args, 1);
        Ok(text(whole.strip_prefix(string(args, 0)).unwrap_or(whole)))
    }),
    Function::new("trunc", &[Ty::Int, T], |_, args| {
        let (count, whole) = (number(args, 0), string(args, 1));
        if count >= 0 && whole.len() <= usize::try_from(count).unwrap_or(usize::MAX) {
            return Ok(text(whole));
        }
        slice(whole, 0, count)
    }),
    Function::new("substr", &[Ty::Int, Ty::Int, T], |_, args| {
        let (start, end, whole) = (number(args, 0), number(args, 1), string(args, 2));
        let length = i64::try_from(whole.len()).unwrap_or(i64::MAX);
        if start < 0 {
            return slice(whole, 0, end);
        }
        slice(
            whole,
            start,
            if end < 0 || end > length { length } else { end },
        )
    }),
    Function::new("repeat", &[Ty::Int, T], |env, args| {
        repeated(env, string(args, 1), number(args, 0))
    }),
    Function::new("contains", &[T, T], |env, args| {
        search_cost(env, args, 1, 0)?;
        Ok(Value::Bool(
            find(string(args, 1), string(args, 0)).is_some(),
        ))
    }),
    Function::new("hasPrefix", &[T, T], |_, args| {
        Ok(Value::Bool(string(args, 1).starts_with(string(args, 0))))
    }),
    Function::new("hasSuffix", &[T, T], |_, args| {
        Ok(Value::Bool(string(args, 1).ends_with(string(args, 0))))
    }),
    Function::variadic("quote", &[], Ty::Any, |env, args| {
        let quoted = |value: &Value| Ok(quote(&string_of(value, env.budget)?));
        joined_present(env, args, quoted)
    }),
    Function::variadic("squote", &[], Ty::Any, |env, args| {
        joined_present(env, args, |value| {
            let mut out = vec![b'\''];
            out.extend_from_slice(&sprint(value, env.budget)?);
            out.push(b'\'');
            Ok(out)
        })
    }),
    Function::variadic("cat", &[], Ty::Any, |env, args| {
        joined_present(env, args, |value| {
            sprint_all(std::slice::from_ref(value), env.budget)
        })
    }),
    Function::new("indent", &[Ty::Int, T], |env, args| {
        Ok(text(indented(env, number(args, 0), string(args, 1), b"")?))
    }),
    Function::new("nindent", &[Ty::Int, T], |env, args| {
        Ok(text(indented(
            env,
            number(args, 0),
            string(args, 1),
            b"\n",
        )?))
    }),
    Function::new("replace", &[T, T, T], |env, args| {
        search_cost(env, args, 2, 0)?;
        Ok(text(replaced(
            env,
            string(args, 2),
            string(args, 0),
            string(args, 1),
        )?))
    }),
    Function::new("plural", &[T, T, Ty::Int], |_, args| {
        Ok(text(string(args, usize::from(number(args, 2) != 1))))
    }),
    Function::new("toString", &[Ty::Any], |env, args| {
        Ok(Value::Str(string_of(&any(args, 0), env.budget)?))
    }),
    Function::new("toStrings", &[Ty::Any], |env, args| match any(args, 0) {
        list @ Value::List(_) if is_string_list(&list) => Ok(list),
        other => Ok(string_list(strings_of(env, &other)?)),
    }),
    Function::new("join", &[T, Ty::Any], |env, args| {
        let parts = strings_of(env, &any(args, 1))?;
        let size: usize = parts
            .iter()
            .map(|part| part.len() + string(args, 0).len())
            .sum();
        env.budget.bytes(size)?;
        Ok(text(parts.join(string(args, 0))))
    }),
    Function::new("split", &[T, T], |env, args| {
        search_cost(env, args, 1, 0)?;
        numbered(env, split(string(args, 1), string(args, 0), -1))
    }),
    Function::new("splitn", &[T, Ty::Int, T], |env, args| {
        search_cost(env, args, 2, 0)?;
        numbered(
            env,
            split(string(args, 2), string(args, 0), number(args, 1)),
        )
    }),
    Function::new("splitList", &[T, T], |env, args| {
        search_cost(env, args, 1, 0)?;
        let parts = split(string(args, 1), string(args, 0), -1);
        env.budget.values(parts.len())?;
        Ok(string_list(parts.into_iter().map(Arc::from)))
    }),
    Function::new("sortAlpha", &[Ty::Any], |env, args| match any(args, 0) {
        // sprig sorts a `[]string` in place: the variable that holds it sees the new order.
        Value::List(list) if list.elem == Elem::Str => {
            list.items
                .borrow_mut()
                .sort_by(|a, b| bytes_of(a).cmp(bytes_of(b)));
            Ok(Value::List(list))
        }
        other => {
            let mut parts = strings_of(env, &other)?;
            if other.is_nil() {
                parts = vec![Arc::from(&b"<nil>"[..])];
            }
            parts.sort();
            Ok(string_list(parts))
        }
    }),
];

fn bytes_of(value: &Value) -> &[u8] {
    match value {
        Value::Str(text) => text,
        _ => &[],
    }
}

fn is_string_list(value: &Value) -> bool {
    matches!(value, Value::List(list) if list.elem == Elem::Str)
}

/// A `[]string`.
pub(super) fn string_list(items: impl IntoIterator<Item = Text>) -> Value {
    List::value(Elem::Str, items.into_iter().map(Value::Str).collect())
}

/// Applies a case mapping; bad bytes become U+FFFD, as in Go's `strings.Map`.
fn mapped(env: &Env<'_>, args: &[Value], map: fn(char) -> char) -> RuntimeResult<Value> {
    let bytes = string(args, 0);
    env.budget.bytes(bytes.len())?;
    let whole = String::from_utf8_lossy(bytes);
    Ok(text(whole.chars().map(map).collect::<String>()))
}

/// Go's `unicode.ToUpper`: one character for one, so `ß` stays.
pub(super) fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(single), None) => single,
        _ => title_single(c),
    }
}

/// The simple upper-case mapping of the characters whose full mapping is longer.
fn title_single(c: char) -> char {
    match u32::from(c) {
        // Greek with iota subscript have a titled single form.
        code @ (0x1f80..=0x1f87 | 0x1f90..=0x1f97 | 0x1fa0..=0x1fa7) => {
            char::from_u32(code + 8).unwrap_or(c)
        }
        0x1fb3 => '\u{1fbc}',
        0x1fc3 => '\u{1fcc}',
        0x1ff3 => '\u{1ffc}',
        _ => c,
    }
}

/// Go's `unicode.ToLower`.
pub(super) fn lower(c: char) -> char {
    if c == '\u{130}' {
        return 'i';
    }
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(single), None) => single,
        _ => c,
    }
}

/// Go's `unicode.IsSpace`.
pub(super) fn is_space(c: char) -> bool {
    matches!(
        c,
        '\t' | '\n' | '\x0b' | '\x0c' | '\r' | ' ' | '\u{85}' | '\u{a0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200a}' | '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
    )
}

/// `strings.TrimSpace`.
pub(in crate::functions) fn trim_space(bytes: &[u8]) -> &[u8] {
    trim_where(bytes, is_space)
}

fn trim_where(mut bytes: &[u8], cut: impl Fn(char) -> bool) -> &[u8] {
    loop {
        let head = &bytes[..bytes.len().min(4)];
        let first = head
            .utf8_chunks()
            .next()
            .and_then(|chunk| chunk.valid().chars().next());
        match first {
            Some(c) if cut(c) => bytes = &bytes[c.len_utf8()..],
            None if !bytes.is_empty() && cut(char::REPLACEMENT_CHARACTER) => bytes = &bytes[1..],
            _ => break,
        }
    }
    while let Some((c, size)) = last_char(bytes) {
        if !cut(c) {
            break;
        }
        bytes = &bytes[..bytes.len() - size];
    }
    bytes
}

fn last_char(bytes: &[u8]) -> Option<(char, usize)> {
    bytes.last()?;
    for size in 1..=bytes.len().min(4) {
        if let Ok(tail) = std::str::from_utf8(&bytes[bytes.len() - size..])
            && let Some(c) = tail.chars().next()
        {
            return Some((c, size));
        }
    }
    Some((char::REPLACEMENT_CHARACTER, 1))
}

fn trim_all(env: &Env<'_>, args: &[Value]) -> RuntimeResult<Value> {
    search_cost(env, args, 1, 0)?;
    let set: Vec<char> = String::from_utf8_lossy(string(args, 0)).chars().collect();
    Ok(text(trim_where(string(args, 1), |c| set.contains(&c))))
}

/// `whole[start:end]`, with Go's panic.
fn slice(whole: &[u8], start: i64, end: i64) -> RuntimeResult<Value> {
    let part = usize::try_from(start)
        .ok()
        .zip(usize::try_from(end).ok())
        .and_then(|(start, end)| whole.get(start..end));
    match part {
        Some(part) => Ok(text(part)),
        None => Fault::go(format!(
            "runtime error: slice bounds out of range [{start}:{end}] with length {}",
            whole.len()
        )),
    }
}

fn repeated(env: &Env<'_>, whole: &[u8], count: i64) -> RuntimeResult<Value> {
    let Ok(count) = usize::try_from(count) else {
        return Fault::go("strings: negative Repeat count");
    };
    env.budget.bytes(whole.len().saturating_mul(count))?;
    Ok(text(if whole.is_empty() {
        Vec::new()
    } else {
        whole.repeat(count)
    }))
}

/// Joins what is not nil with spaces.
fn joined_present(
    env: &Env<'_>,
    args: &[Value],
    show: impl Fn(&Value) -> RuntimeResult<Vec<u8>>,
) -> RuntimeResult<Value> {
    let mut parts = Vec::new();
    for arg in args.iter().filter(|arg| !arg.is_nil()) {
        parts.push(show(arg)?);
    }
    let joined = parts.join(&b' ');
    env.budget.bytes(joined.len())?;
    Ok(text(joined))
}

fn indented(env: &Env<'_>, spaces: i64, whole: &[u8], before: &[u8]) -> RuntimeResult<Vec<u8>> {
    let Ok(spaces) = usize::try_from(spaces) else {
        return Fault::go("strings: negative Repeat count");
    };
    let lines = whole.iter().filter(|byte| **byte == b'\n').count() + 1;
    let length = lines.saturating_mul(spaces).saturating_add(whole.len());
    env.budget.bytes(length)?;
    let mut out = Vec::with_capacity(before.len() + length);
    out.extend_from_slice(before);
    for (at, line) in whole.split(|byte| *byte == b'\n').enumerate() {
        if at > 0 {
            out.push(b'\n');
        }
        out.resize(out.len() + spaces, b' ');
        out.extend_from_slice(line);
    }
    Ok(out)
}

/// Charges what searching for one argument in another can take at worst.
fn search_cost(env: &Env<'_>, args: &[Value], whole: usize, wanted: usize) -> RuntimeResult<()> {
    let pairs = string(args, whole)
        .len()
        .saturating_mul(string(args, wanted).len());
    env.budget.steps(pairs as u64 / 64)
}

pub(super) fn find(whole: &[u8], wanted: &[u8]) -> Option<usize> {
    if wanted.is_empty() {
        return Some(0);
    }
    whole
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// Lengths of the characters of bytes that need not be UTF-8.
pub(super) fn char_lengths(bytes: &[u8]) -> Vec<usize> {
    let mut out = Vec::new();
    for chunk in bytes.utf8_chunks() {
        out.extend(chunk.valid().chars().map(char::len_utf8));
        out.extend(chunk.invalid().iter().map(|_| 1));
    }
    out
}

fn replaced(env: &Env<'_>, whole: &[u8], old: &[u8], new: &[u8]) -> RuntimeResult<Vec<u8>> {
    let most = if old.is_empty() {
        whole.len() + 1
    } else {
        whole.len() / old.len()
    };
    let mut out = Vec::new();
    if old.is_empty() {
        env.budget
            .bytes(whole.len().saturating_add(most.saturating_mul(new.len())))?;
        out.extend_from_slice(new);
        let mut at = 0;
        for length in char_lengths(whole) {
            out.extend_from_slice(&whole[at..at + length]);
            out.extend_from_slice(new);
            at += length;
        }
        return Ok(out);
    }
    let mut rest = whole;
    while let Some(at) = find(rest, old) {
        env.budget.bytes(at + new.len())?;
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(new);
        rest = &rest[at + old.len()..];
    }
    env.budget.bytes(rest.len())?;
    out.extend_from_slice(rest);
    Ok(out)
}

/// `strings.SplitN`: an empty separator splits into characters.
pub(super) fn split<'t>(whole: &'t [u8], separator: &[u8], limit: i64) -> Vec<&'t [u8]> {
    if limit == 0 {
        return Vec::new();
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut out = Vec::new();
    let mut rest = whole;
    if separator.is_empty() {
        for length in char_lengths(whole) {
            if out.len() + 1 >= limit {
                break;
            }
            out.push(&rest[..length]);
            rest = &rest[length..];
        }
        if !rest.is_empty() {
            out.push(rest);
        }
        return out;
    }
    while out.len() + 1 < limit {
        let Some(at) = find(rest, separator) else {
            break;
        };
        out.push(&rest[..at]);
        rest = &rest[at + separator.len()..];
    }
    out.push(rest);
    out
}

/// `{_0: ..., _1: ...}`.
fn numbered(env: &Env<'_>, parts: Vec<&[u8]>) -> RuntimeResult<Value> {
    env.budget.values(parts.len().saturating_mul(4))?;
    let entries: BTreeMap<Key, Value> = parts
        .into_iter()
        .enumerate()
        .map(|(at, part)| (Key::str(&format!("_{at}")), text(part)))
        .collect();
    Ok(Map::value(MapType::StrStr, entries))
}
