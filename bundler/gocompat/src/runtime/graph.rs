//! Walks over values that templates have linked to each other.
//!
//! In: values. Out: copies, comparisons, and the answer whether one reaches another.
//! Every walk is charged to the budget and bounded in depth; releasing is iterative,
//! because a template can build a chain that is deeper than the stack.

use super::{Budget, List, Map, RuntimeResult, Value};
use std::rc::Rc;

/// Drops values without recursion.
pub(super) fn release(mut pending: Vec<Value>) {
    while let Some(value) = pending.pop() {
        match value {
            Value::List(list) => {
                if let Ok(mut list) = Rc::try_unwrap(list) {
                    pending.append(list.items.get_mut());
                }
            }
            Value::Map(map) => {
                if let Ok(mut map) = Rc::try_unwrap(map) {
                    pending.extend(std::mem::take(map.entries.get_mut()).into_values());
                }
            }
            _ => {}
        }
    }
}

/// Whether `target` is `value` or lies below it.
pub(crate) fn reaches(value: &Value, target: &Rc<Map>, budget: &Budget) -> RuntimeResult<bool> {
    let mut pending = vec![value.clone()];
    while let Some(value) = pending.pop() {
        budget.steps(1)?;
        match value {
            Value::List(list) => pending.extend(list.to_vec()),
            Value::Map(map) => {
                if Rc::ptr_eq(&map, target) {
                    return Ok(true);
                }
                pending.extend(map.entries.borrow().values().cloned());
            }
            _ => {}
        }
    }
    Ok(false)
}

/// A copy that shares no map and no list with the original.
pub(crate) fn deep_copy(value: &Value, budget: &Budget, depth: usize) -> RuntimeResult<Value> {
    budget.visit(depth)?;
    Ok(match value {
        Value::List(list) => {
            budget.values(list.len())?;
            let mut items = Vec::with_capacity(list.len());
            for item in list.to_vec() {
                items.push(deep_copy(&item, budget, depth + 1)?);
            }
            if list.nil {
                List::nil_value(list.elem)
            } else {
                List::value(list.elem, items)
            }
        }
        Value::Map(map) => {
            budget.values(map.len())?;
            let mut entries = std::collections::BTreeMap::new();
            for (key, item) in map.to_vec() {
                entries.insert(key, deep_copy(&item, budget, depth + 1)?);
            }
            if map.nil {
                Map::nil_value(map.kind)
            } else {
                Map::value(map.kind, entries)
            }
        }
        // copystructure copies exported fields only, of which a version has none.
        Value::Version(_) => Value::Version(Rc::default()),
        Value::BareVersion(_) => Value::BareVersion(Rc::default()),
        other => other.clone(),
    })
}

/// Go's `reflect.DeepEqual`: types must agree too, and a nil slice is not an empty one.
pub(crate) fn deep_equal(
    a: &Value,
    b: &Value,
    budget: &Budget,
    depth: usize,
) -> RuntimeResult<bool> {
    budget.visit(depth)?;
    if a.type_name() != b.type_name() {
        return Ok(false);
    }
    Ok(match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a, _), Value::Int(b, _)) => a == b,
        (Value::Uint(a, _), Value::Uint(b, _)) => a == b,
        (Value::Float(a), Value::Float(b)) => same_float(*a, *b),
        (Value::Complex(a, c), Value::Complex(b, d)) => same_float(*a, *b) && same_float(*c, *d),
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Time(a), Value::Time(b)) => a == b,
        (Value::Version(a), Value::Version(b)) | (Value::BareVersion(a), Value::BareVersion(b)) => {
            a == b
        }
        (Value::List(a), Value::List(b)) => {
            if a.nil != b.nil || a.len() != b.len() {
                return Ok(false);
            }
            if Rc::ptr_eq(a, b) {
                return Ok(true);
            }
            for (a, b) in a.to_vec().iter().zip(b.to_vec().iter()) {
                if !deep_equal(a, b, budget, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.nil != b.nil || a.len() != b.len() {
                return Ok(false);
            }
            if Rc::ptr_eq(a, b) {
                return Ok(true);
            }
            for ((key, a), (other, b)) in a.to_vec().iter().zip(b.to_vec().iter()) {
                if key != other || !deep_equal(a, b, budget, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Data(a), Value::Data(b)) => {
            for (a, b) in a.fields.iter().zip(&b.fields) {
                if !deep_equal(a, b, budget, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        _ => true,
    })
}

/// Equality of floats as Go's `==` has it.
fn same_float(a: f64, b: f64) -> bool {
    a.partial_cmp(&b) == Some(std::cmp::Ordering::Equal)
}
