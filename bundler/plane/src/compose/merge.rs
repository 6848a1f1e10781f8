//! Merging: what becomes of a key that two containers set.
//!
//! What comes in: the value so far and the next one. What goes out: one value. Maps merge key by key,
//! lists item by item, and anything else is replaced. Items of lists that have the same name are the
//! same item; all others are appended. It copies: no two places of a config ever share a value.

use outhaul_gocompat::GoValue;

/// Which items of two lists are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrays {
    /// None: the next list's items come after the others.
    Append,
    /// Maps that both have a `name`, with equal text or number.
    ByName,
    /// As Kalypso compares: two maps without a name are the same item (its defect 5).
    AsKalypso,
    /// None, and the next list replaces the one before.
    Replace,
}

/// Whether `next` is merged into `before`, rather than replacing it.
pub fn merges(before: &GoValue, next: &GoValue, arrays: Arrays) -> bool {
    match (before, next) {
        (GoValue::List(_), GoValue::List(_)) => arrays != Arrays::Replace,
        (GoValue::Map(_), GoValue::Map(_)) => true,
        _ => false,
    }
}

/// `next` over `before`.
pub fn merge(before: GoValue, next: GoValue, arrays: Arrays) -> GoValue {
    match (before, next) {
        (GoValue::List(mut before), GoValue::List(next)) if arrays != Arrays::Replace => {
            for item in next {
                add_item(&mut before, item, arrays);
            }
            GoValue::List(before)
        }
        (GoValue::Map(mut before), GoValue::Map(next)) => {
            for (key, value) in next.entries {
                let value = match before.entries.remove(&key) {
                    Some(existing) => merge(existing, value, arrays),
                    None => value,
                };
                before.entries.insert(key, value);
            }
            GoValue::Map(before)
        }
        (_, next) => next,
    }
}

fn add_item(list: &mut Vec<GoValue>, item: GoValue, arrays: Arrays) {
    let mut matched = false;
    if arrays != Arrays::Append && matches!(item, GoValue::Map(_)) {
        for existing in list.iter_mut() {
            if same_item(existing, &item, arrays) {
                let before = std::mem::take(existing);
                *existing = merge(before, item.clone(), arrays);
                matched = true;
                if arrays == Arrays::ByName {
                    break;
                }
            }
        }
    }
    if !matched {
        list.push(item);
    }
}

/// Whether Kalypso fails to merge them: its program ends when it compares two names that are both lists or
/// both maps.
pub fn kalypso_fails(before: &GoValue, next: &GoValue) -> bool {
    match (before, next) {
        (GoValue::List(before), GoValue::List(next)) => {
            next.iter().enumerate().any(|(at, item)| {
                // What was appended is compared with what comes after it.
                let there = before.iter().chain(&next[..at]);
                there.into_iter().any(|existing| {
                    uncomparable(existing, item)
                        || (same_item(existing, item, Arrays::AsKalypso)
                            && kalypso_fails(existing, item))
                })
            })
        }
        (GoValue::Map(before), GoValue::Map(next)) => next.iter().any(|(key, value)| {
            let existing = before.entries.get(key);
            existing.is_some_and(|existing| kalypso_fails(existing, value))
        }),
        _ => false,
    }
}

fn uncomparable(a: &GoValue, b: &GoValue) -> bool {
    let (GoValue::Map(a), GoValue::Map(b)) = (a, b) else {
        return false;
    };
    matches!(
        (a.get("name"), b.get("name")),
        (Some(GoValue::List(_)), Some(GoValue::List(_)))
            | (Some(GoValue::Map(_)), Some(GoValue::Map(_)))
    )
}

/// Whether two items of lists are one item.
pub fn same_item(a: &GoValue, b: &GoValue, arrays: Arrays) -> bool {
    let (GoValue::Map(a), GoValue::Map(b)) = (a, b) else {
        return false;
    };
    match (a.get("name"), b.get("name")) {
        (Some(a), Some(b)) => a == b && (arrays == Arrays::AsKalypso || is_name(a)),
        (None | Some(GoValue::Null), None | Some(GoValue::Null)) => arrays == Arrays::AsKalypso,
        _ => false,
    }
}

fn is_name(value: &GoValue) -> bool {
    matches!(
        value,
        GoValue::Str(_) | GoValue::Int(_) | GoValue::Uint(_) | GoValue::Float(_)
    )
}
