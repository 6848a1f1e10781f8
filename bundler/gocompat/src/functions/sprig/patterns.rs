//! Regular expressions with Go's language on the `regex` crate.
//!
//! In: a pattern, a text. Out: matches, pieces, replacements. Both engines take the leftmost
//! match and prefer as Perl does; the pattern is translated where the languages differ.
//! Matching is linear in the text, and compiled sizes are bounded.

use crate::functions::args::{number, string, utf8};
use crate::functions::{Env, Function, Ty};
use crate::runtime::{Elem, Fault, List, RuntimeResult, Text, Value, text};
use regex::bytes::{Captures, Regex, RegexBuilder};
use std::sync::Arc;

mod translate;

const T: Ty = Ty::Text;

/// Bytes that one compiled pattern may take.
const MAX_COMPILED: usize = 4 << 20;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("regexMatch", &[T, T], |env, args| {
        // sprig ignores a pattern that does not compile.
        let regex = compile(env, args);
        Ok(Value::Bool(match regex {
            Ok(regex) => regex.is_match(string(args, 1)),
            Err(Fault::Go(_)) => false,
            Err(fault) => return Err(fault),
        }))
    }),
    Function::new("regexFindAll", &[T, T, Ty::Int], |env, args| {
        let regex = compile(env, args)?;
        let limit = limit(number(args, 2));
        let found: Vec<Text> = matches(&regex, string(args, 1))
            .into_iter()
            .take(limit)
            .map(|(start, end)| Arc::from(&string(args, 1)[start..end]))
            .collect();
        env.budget.values(found.len().saturating_mul(2))?;
        if found.is_empty() {
            return Ok(List::nil_value(Elem::Str));
        }
        Ok(super::strings::string_list(found))
    }),
    Function::new("regexFind", &[T, T], |env, args| {
        let regex = compile(env, args)?;
        let found = regex.find(string(args, 1));
        Ok(text(found.map_or(&b""[..], |found| found.as_bytes())))
    }),
    Function::new("regexReplaceAll", &[T, T, T], |env, args| {
        let regex = compile(env, args)?;
        replace(env, &regex, args, true)
    }),
    Function::new("regexReplaceAllLiteral", &[T, T, T], |env, args| {
        let regex = compile(env, args)?;
        replace(env, &regex, args, false)
    }),
    Function::new("regexSplit", &[T, T, Ty::Int], |env, args| {
        let regex = compile(env, args)?;
        split(env, &regex, args)
    }),
];

fn limit(count: i64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn compile(env: &Env<'_>, args: &[Value]) -> RuntimeResult<Regex> {
    let pattern = utf8(args, 0);
    let fail = |why: &str| Fault::Go(format!("regexp: Compile(`{pattern}`): {why}"));
    // Compiling costs far more than a step.
    env.budget
        .steps(pattern.len() as u64 * 20 + string(args, 1).len() as u64 / 64 + 200)?;
    build(&pattern).map_err(|why| fail(&format!("error parsing regexp: {why}")))
}

/// One expression, of bounded size; or what is wrong with it.
pub(crate) fn build(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(&translate::translate(pattern)?)
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_COMPILED)
        .build()
        .map_err(|_| "invalid or too large".to_owned())
}

/// All matches as Go finds them: none is empty in the middle of a character.
fn matches(regex: &Regex, whole: &[u8]) -> Vec<(usize, usize)> {
    let found = regex
        .find_iter(whole)
        .map(|found| (found.start(), found.end()));
    found
        .filter(|(start, end)| start < end || at_character(whole, *start))
        .collect()
}

fn at_character(whole: &[u8], at: usize) -> bool {
    whole.get(at).is_none_or(|byte| byte & 0xc0 != 0x80)
}

fn replace(env: &Env<'_>, regex: &Regex, args: &[Value], expand: bool) -> RuntimeResult<Value> {
    let (whole, template) = (string(args, 1), string(args, 2));
    let mut out = Vec::new();
    let mut last = 0;
    for captures in regex.captures_iter(whole) {
        let Some(found) = captures.get(0) else {
            continue;
        };
        if found.is_empty() && !at_character(whole, found.start()) {
            continue;
        }
        let before = out.len();
        out.extend_from_slice(&whole[last..found.start()]);
        if expand {
            expand_into(&mut out, template, &captures);
        } else {
            out.extend_from_slice(template);
        }
        env.budget.bytes(out.len() - before)?;
        last = found.end();
    }
    env.budget.bytes(whole.len() - last)?;
    out.extend_from_slice(&whole[last..]);
    Ok(text(out))
}

/// `$name`, `${name}` and `$1`; a name is as long as it can be, `$$` is a dollar.
fn expand_into(out: &mut Vec<u8>, template: &[u8], captures: &Captures<'_>) {
    let mut rest = template;
    while let Some(at) = rest.iter().position(|byte| *byte == b'$') {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(tail) = rest.strip_prefix(b"$") {
            out.push(b'$');
            rest = tail;
            continue;
        }
        let Some((name, length)) = reference(rest) else {
            out.push(b'$');
            continue;
        };
        let group = match name.parse::<usize>() {
            Ok(number) => captures.get(number),
            Err(_) => captures.name(name),
        };
        if let Some(group) = group {
            out.extend_from_slice(group.as_bytes());
        }
        rest = &rest[length..];
    }
    out.extend_from_slice(rest);
}

/// The name behind a dollar and how many bytes it takes.
fn reference(rest: &[u8]) -> Option<(&str, usize)> {
    let braced = rest.first() == Some(&b'{');
    let body = if braced { &rest[1..] } else { rest };
    let valid = body.utf8_chunks().next()?.valid();
    let length: usize = valid
        .chars()
        .take_while(|c| *c == '_' || c.is_alphanumeric())
        .map(char::len_utf8)
        .sum();
    if length == 0 {
        return None;
    }
    let name = &valid[..length];
    if !braced {
        return Some((name, length));
    }
    (body.get(length) == Some(&b'}')).then_some((name, length + 2))
}

/// Go's `Regexp.Split`.
fn split(env: &Env<'_>, regex: &Regex, args: &[Value]) -> RuntimeResult<Value> {
    let (whole, count) = (string(args, 1), number(args, 2));
    if count == 0 {
        return Ok(List::nil_value(Elem::Str));
    }
    if !regex.as_str().is_empty() && whole.is_empty() {
        return Ok(super::strings::string_list([Arc::from(&b""[..])]));
    }
    let limit = limit(count);
    let mut parts: Vec<Text> = Vec::new();
    let (mut start, mut end) = (0, 0);
    for (match_start, match_end) in matches(regex, whole) {
        if count > 0 && parts.len() + 1 == limit {
            break;
        }
        end = match_start;
        if match_end != 0 {
            parts.push(Arc::from(&whole[start..end]));
        }
        start = match_end;
    }
    if end != whole.len() {
        parts.push(Arc::from(&whole[start..]));
    }
    env.budget.values(parts.len().saturating_mul(2))?;
    Ok(super::strings::string_list(parts))
}
