//! The order of map keys in YAML output.
//!
//! In: two keys. Out: which comes first: numbers and booleans by value, texts so that runs
//! of digits compare as numbers, and letters after other characters (before them right
//! after a digit).

use crate::runtime::{IntKind, Key, Value};
use std::cmp::Ordering;
use unicode_general_category::{GeneralCategory, get_general_category};

fn number(key: &Key) -> Option<f64> {
    match key {
        #[expect(
            clippy::cast_precision_loss,
            reason = "yaml.v3 compares keys as floats first"
        )]
        Key::Int(number, _) => Some(*number as f64),
        #[expect(
            clippy::cast_precision_loss,
            reason = "yaml.v3 compares keys as floats first"
        )]
        Key::Uint(number, _) => Some(*number as f64),
        Key::Float(number) => Some(number.0),
        Key::Bool(flag) => Some(f64::from(u8::from(*flag))),
        _ => None,
    }
}

/// Rank of Go's `reflect.Kind`.
fn kind(key: &Key) -> u8 {
    match key {
        Key::Bool(_) => 1,
        Key::Int(_, IntKind::Int64) => 6,
        Key::Int(..) => 2,
        Key::Uint(_, crate::runtime::UintKind::Uint8) => 8,
        Key::Uint(..) => 11,
        Key::Float(_) => 14,
        // A nil key stays an interface.
        Key::Nil => 20,
        Key::Str(_) => 24,
        Key::Time(_) => 25,
    }
}

fn category(code: u32) -> GeneralCategory {
    char::from_u32(code).map_or(GeneralCategory::Unassigned, get_general_category)
}

fn is_digit(code: u32) -> bool {
    match u8::try_from(code) {
        Ok(byte) if byte.is_ascii() => byte.is_ascii_digit(),
        _ => category(code) == GeneralCategory::DecimalNumber,
    }
}

fn is_letter(code: u32) -> bool {
    match u8::try_from(code) {
        Ok(byte) if byte.is_ascii() => byte.is_ascii_alphabetic(),
        _ => matches!(
            category(code),
            GeneralCategory::UppercaseLetter
                | GeneralCategory::LowercaseLetter
                | GeneralCategory::TitlecaseLetter
                | GeneralCategory::ModifierLetter
                | GeneralCategory::OtherLetter
        ),
    }
}

/// Whether `a` comes before `b`.
fn less(a: &Key, b: &Key) -> bool {
    if let (Some(x), Some(y)) = (number(a), number(b)) {
        if x.partial_cmp(&y) != Some(Ordering::Equal) {
            return x < y;
        }
        if kind(a) != kind(b) {
            return kind(a) < kind(b);
        }
        return match (a, b) {
            (Key::Int(a, _), Key::Int(b, _)) => a < b,
            (Key::Uint(a, _), Key::Uint(b, _)) => a < b,
            _ => false,
        };
    }
    match (a, b) {
        (Key::Str(a), Key::Str(b)) if a.is_ascii() && b.is_ascii() => text_less(a, b),
        (Key::Str(a), Key::Str(b)) => {
            let chars = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().collect::<Vec<_>>();
            text_less(&chars(a), &chars(b))
        }
        _ => kind(a) < kind(b),
    }
}

fn text_less<C: Copy + Into<u32>>(a: &[C], b: &[C]) -> bool {
    let mut after_digit = false;
    for at in 0..a.len().min(b.len()) {
        let (x, y): (u32, u32) = (a[at].into(), b[at].into());
        if x == y {
            after_digit = is_digit(x);
            continue;
        }
        return match (is_letter(x), is_letter(y)) {
            (true, true) => x < y,
            (true, false) => after_digit,
            (false, true) => !after_digit,
            (false, false) => digits_less(a, b, at),
        };
    }
    a.len() < b.len()
}

/// Neither is a letter: digit runs from here compare as numbers, then by length.
fn digits_less<C: Copy + Into<u32>>(a: &[C], b: &[C], at: usize) -> bool {
    let zero = u32::from('0');
    let (x, y): (u32, u32) = (a[at].into(), b[at].into());
    let mut lead: i64 = 0;
    if x == zero || y == zero {
        // A zero inside of a number counts as a digit of it.
        let before = a[..at]
            .iter()
            .rev()
            .map(|c| (*c).into())
            .take_while(|c| is_digit(*c));
        lead = i64::from(before.into_iter().any(|c| c != zero));
    }
    let run = |text: &[C]| {
        let mut value = lead;
        let mut end = at;
        while end < text.len() && is_digit(text[end].into()) {
            let digit = i64::from(text[end].into()) - i64::from(zero);
            value = value.wrapping_mul(10).wrapping_add(digit);
            end += 1;
        }
        (value, end)
    };
    let ((a_value, a_end), (b_value, b_end)) = (run(a), run(b));
    if a_value != b_value {
        return a_value < b_value;
    }
    if a_end != b_end {
        return a_end < b_end;
    }
    x < y
}

/// Sorts entries as `yaml.v3` does. A merge sort of our own: the library's may panic on an
/// order that is not transitive, which this one is not.
pub(super) fn sort(entries: &mut Vec<(&Key, &Value)>) {
    if entries.windows(2).all(|pair| !less(pair[1].0, pair[0].0)) {
        return;
    }
    let right = entries.split_off(entries.len() / 2);
    let (mut left, mut right) = (std::mem::take(entries), right);
    sort(&mut left);
    sort(&mut right);
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let next = if less(b.0, a.0) {
            right.next()
        } else {
            left.next()
        };
        entries.extend(next);
    }
    entries.extend(left);
    entries.extend(right);
}
