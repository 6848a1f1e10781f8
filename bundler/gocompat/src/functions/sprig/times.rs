//! Dates of fixed instants in named zones.
//!
//! In: a time, or seconds since 1970, a Go layout, a zone. Out: text or a time.
//! What is not an instant means "now" in sprig; here it is refused, because there is no clock.

use crate::functions::args::{any, string, time, utf8};
use crate::functions::{Env, Function, Ty};
use crate::gotime::{Time, parse, parse_duration};
use crate::runtime::{Fault, IntKind, RuntimeResult, Value, text};
use std::rc::Rc;

const T: Ty = Ty::Text;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("dateInZone", &[T, Ty::Any, T], in_zone),
    Function::new("date_in_zone", &[T, Ty::Any, T], in_zone),
    Function::new("htmlDateInZone", &[Ty::Any, T], |_, args| {
        Ok(text(
            instant(&any(args, 0))?
                .in_zone(&utf8(args, 1))
                .format(b"2006-01-02"),
        ))
    }),
    Function::new("dateModify", &[T, Ty::Time], modified),
    Function::new("date_modify", &[T, Ty::Time], modified),
    Function::new("toDate", &[T, T], |_, args| {
        let time = parse(&utf8(args, 0), &utf8(args, 1), true).unwrap_or_else(Time::zero);
        Ok(Value::Time(Rc::new(time)))
    }),
    Function::new("unixEpoch", &[Ty::Time], |_, args| {
        Ok(text(time(args, 0).seconds.to_string()))
    }),
];

fn instant(value: &Value) -> RuntimeResult<Time> {
    match value {
        Value::Time(time) => Ok((**time).clone()),
        Value::Int(seconds, IntKind::Int | IntKind::Int64) => Ok(Time::utc(*seconds, 0)),
        other => Err(Fault::Refused(format!(
            "a date function got {}, for which sprig would read the clock",
            other.type_name()
        ))),
    }
}

fn in_zone(env: &Env<'_>, args: &[Value]) -> RuntimeResult<Value> {
    let layout = string(args, 0);
    env.budget.bytes(layout.len().saturating_mul(40))?;
    Ok(text(
        instant(&any(args, 1))?
            .in_zone(&utf8(args, 2))
            .format(layout),
    ))
}

fn modified(_: &Env<'_>, args: &[Value]) -> RuntimeResult<Value> {
    let time = time(args, 1);
    let moved = parse_duration(&utf8(args, 0)).map(|nanos| time.add_nanos(nanos));
    Ok(Value::Time(Rc::new(moved.unwrap_or(time))))
}
