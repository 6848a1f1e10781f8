//! Methods that templates can call on the two library types they can hold.
//!
//! In: a time or a version, a method name, arguments. Out: its result.
//! `semver.Version` by value (what `IncMinor` returns) has only the methods that Go gives
//! to values.

use crate::runtime::{Fault, IntKind, RuntimeResult, Value, int, int64, text};
use std::cmp::Ordering;
use std::rc::Rc;

const TIME: &[&str] = &[
    "Year",
    "Month",
    "Day",
    "Hour",
    "Minute",
    "Second",
    "Nanosecond",
    "Weekday",
    "YearDay",
    "Unix",
    "UnixNano",
    "UnixMilli",
    "UnixMicro",
    "Format",
    "String",
    "UTC",
    "Local",
    "IsZero",
    "Equal",
    "After",
    "Before",
    "Compare",
];
const VERSION: &[&str] = &[
    "Major",
    "Minor",
    "Patch",
    "Prerelease",
    "Metadata",
    "Original",
    "String",
    "Compare",
    "LessThan",
    "GreaterThan",
    "Equal",
    "IncMajor",
    "IncMinor",
    "IncPatch",
];
const VERSION_VALUE: &[&str] = &["IncMajor", "IncMinor", "IncPatch"];
const NAMED: &[&str] = &["String"];

/// Whether the value has that method.
pub(super) fn has(value: &Value, name: &[u8]) -> bool {
    let known = match value {
        Value::Time(_) => TIME,
        Value::Version(_) => VERSION,
        Value::BareVersion(_) => VERSION_VALUE,
        Value::Int(_, IntKind::Month | IntKind::Weekday) => NAMED,
        _ => return false,
    };
    known.iter().any(|method| method.as_bytes() == name)
}

/// Calls a method that [`has`] knows.
pub(super) fn call(value: &Value, name: &[u8], args: &[Value]) -> RuntimeResult<Value> {
    let shown = String::from_utf8_lossy(name).into_owned();
    let wanted = usize::from(matches!(
        name,
        b"Format" | b"Equal" | b"After" | b"Before" | b"Compare" | b"LessThan" | b"GreaterThan"
    ));
    if args.len() != wanted {
        let count = args.len();
        return Fault::go(format!(
            "wrong number of args for {shown}: want {wanted} got {count}"
        ));
    }
    match value {
        Value::Time(time) => self::time(time, name, args.first()),
        Value::Version(version) | Value::BareVersion(version) => {
            self::version(version, name, args.first())
        }
        Value::Int(month, IntKind::Month) => Ok(text(crate::gotime::month_name(*month))),
        Value::Int(day, IntKind::Weekday) => Ok(text(crate::gotime::weekday_name(*day))),
        _ => Fault::go(format!("{shown} is not a method")),
    }
}

fn wrong_type<T>(value: Option<&Value>, expected: &str) -> RuntimeResult<T> {
    let got = value.map_or("<nil>", Value::type_name);
    Fault::go(format!(
        "wrong type for value; expected {expected}; got {got}"
    ))
}

fn time(time: &crate::gotime::Time, name: &[u8], arg: Option<&Value>) -> RuntimeResult<Value> {
    let civil = time.civil();
    let small = |number: u32| int(i64::from(number));
    let since = |unit: i64| {
        let whole = time.seconds.wrapping_mul(unit);
        whole.wrapping_add(i64::from(time.nanos) / (1_000_000_000 / unit))
    };
    Ok(match name {
        b"Year" => int(civil.year),
        b"Month" => Value::Int(i64::from(civil.month), IntKind::Month),
        b"Day" => small(civil.day),
        b"Hour" => small(civil.hour),
        b"Minute" => small(civil.minute),
        b"Second" => small(civil.second),
        b"Nanosecond" => small(time.nanos),
        b"Weekday" => Value::Int(i64::from(civil.weekday), IntKind::Weekday),
        b"YearDay" => small(civil.year_day),
        b"Unix" => int64(time.seconds),
        b"UnixNano" => int64(since(1_000_000_000)),
        b"UnixMicro" => int64(since(1_000_000)),
        b"UnixMilli" => int64(since(1_000)),
        b"String" => text(time.to_go_string()),
        b"UTC" | b"Local" => {
            Value::Time(Rc::new(crate::gotime::Time::utc(time.seconds, time.nanos)))
        }
        b"IsZero" => Value::Bool(*time == crate::gotime::Time::zero()),
        b"Format" => match arg {
            Some(Value::Str(layout)) => text(time.format(layout)),
            other => return wrong_type(other, "string"),
        },
        _ => {
            let Some(Value::Time(other)) = arg else {
                return wrong_type(arg, "time.Time");
            };
            let order = (time.seconds, time.nanos).cmp(&(other.seconds, other.nanos));
            compared(name, order)
        }
    })
}

fn version(
    version: &crate::semver::Version,
    name: &[u8],
    arg: Option<&Value>,
) -> RuntimeResult<Value> {
    Ok(match name {
        b"Major" => int64(version.major.cast_signed()),
        b"Minor" => int64(version.minor.cast_signed()),
        b"Patch" => int64(version.patch.cast_signed()),
        b"Prerelease" => text(&version.pre),
        b"Metadata" => text(&version.metadata),
        b"Original" => text(&version.original),
        b"String" => text(version.to_string()),
        b"IncMajor" | b"IncMinor" | b"IncPatch" => {
            Value::BareVersion(Rc::new(version.increment(name)))
        }
        _ => {
            let Some(Value::Version(other)) = arg else {
                return wrong_type(arg, "*semver.Version");
            };
            compared(name, version.compare(other))
        }
    })
}

fn compared(name: &[u8], order: Ordering) -> Value {
    match name {
        b"LessThan" | b"Before" => Value::Bool(order == Ordering::Less),
        b"GreaterThan" | b"After" => Value::Bool(order == Ordering::Greater),
        b"Equal" => Value::Bool(order == Ordering::Equal),
        _ => int(order as i64),
    }
}
