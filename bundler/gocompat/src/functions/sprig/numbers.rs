//! Arithmetic and conversions: everything is an `int64` that wraps, as in sprig.
//!
//! In: any values; what is not a number counts as 0. Out: `int64`, `int` or `float64`.

use crate::format::sprint;
use crate::functions::args::{any, float, number, to_float64, to_int64, utf8};
use crate::functions::{Env, Function, Ty};
use crate::gonum::{NumError, parse_int};
use crate::runtime::{Elem, Fault, List, RuntimeResult, Value, int, int64};

const A: Ty = Ty::Any;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("atoi", &[Ty::Text], |_, args| {
        Ok(int(match parse_int(&utf8(args, 0), 10) {
            Ok(number) | Err(NumError::Range(number)) => number,
            Err(NumError::Syntax) => 0,
        }))
    }),
    Function::new("int64", &[A], |_, args| Ok(int64(whole(args, 0)))),
    Function::new("int", &[A], |_, args| Ok(int(whole(args, 0)))),
    Function::new("float64", &[A], |_, args| {
        Ok(Value::Float(to_float64(&any(args, 0))))
    }),
    Function::new("toDecimal", &[A], |env, args| {
        let shown = sprint(&any(args, 0), env.budget)?;
        let shown = String::from_utf8_lossy(&shown).into_owned();
        Ok(int64(parse_int(&shown, 8).unwrap_or(0)))
    }),
    Function::new("until", &[Ty::Int], |env, args| {
        let count = number(args, 0);
        steps(env, 0, count, if count < 0 { -1 } else { 1 })
    }),
    Function::new("untilStep", &[Ty::Int, Ty::Int, Ty::Int], |env, args| {
        steps(env, number(args, 0), number(args, 1), number(args, 2))
    }),
    Function::new("add1", &[A], |_, args| {
        Ok(int64(whole(args, 0).wrapping_add(1)))
    }),
    Function::variadic("add", &[], A, |_, args| {
        Ok(int64(args.iter().map(to_int64).fold(0, i64::wrapping_add)))
    }),
    Function::new("sub", &[A, A], |_, args| {
        Ok(int64(whole(args, 0).wrapping_sub(whole(args, 1))))
    }),
    Function::new("div", &[A, A], |_, args| divided(args, i64::wrapping_div)),
    Function::new("mod", &[A, A], |_, args| divided(args, i64::wrapping_rem)),
    Function::variadic("mul", &[A], A, |_, args| {
        Ok(int64(args.iter().map(to_int64).fold(1, i64::wrapping_mul)))
    }),
    Function::variadic("biggest", &[A], A, |_, args| {
        Ok(int64(extreme(args, i64::max)))
    }),
    Function::variadic("max", &[A], A, |_, args| Ok(int64(extreme(args, i64::max)))),
    Function::variadic("min", &[A], A, |_, args| Ok(int64(extreme(args, i64::min)))),
    Function::new("ceil", &[A], |_, args| {
        Ok(Value::Float(to_float64(&any(args, 0)).ceil()))
    }),
    Function::new("floor", &[A], |_, args| {
        Ok(Value::Float(to_float64(&any(args, 0)).floor()))
    }),
    Function::variadic("round", &[A, Ty::Int], Ty::Float, round),
];

fn whole(args: &[Value], at: usize) -> i64 {
    to_int64(&any(args, at))
}

fn extreme(args: &[Value], pick: fn(i64, i64) -> i64) -> i64 {
    args.iter().map(to_int64).reduce(pick).unwrap_or(0)
}

fn divided(args: &[Value], divide: fn(i64, i64) -> i64) -> RuntimeResult<Value> {
    let (a, b) = (whole(args, 0), whole(args, 1));
    if b == 0 {
        return Fault::go("runtime error: integer divide by zero");
    }
    Ok(int64(divide(a, b)))
}

fn steps(env: &Env<'_>, start: i64, end: i64, step: i64) -> RuntimeResult<Value> {
    let mut items = Vec::new();
    let down = end < start;
    if step != 0 && down == (step < 0) {
        let count = start.abs_diff(end).div_ceil(step.unsigned_abs());
        env.budget
            .values(usize::try_from(count).unwrap_or(usize::MAX))?;
        env.budget.steps(count)?;
        let mut next = start;
        for _ in 0..count {
            items.push(int(next));
            next = next.wrapping_add(step);
        }
    }
    Ok(List::value(Elem::Int, items))
}

/// Rounds half up (or at another limit), away from zero only by accident, as sprig does.
fn round(_: &Env<'_>, args: &[Value]) -> RuntimeResult<Value> {
    let limit = if args.len() > 2 { float(args, 2) } else { 0.5 };
    let value = to_float64(&any(args, 0));
    let power = pow10(number(args, 1));
    let scaled = power * value;
    let rounded = if scaled.fract() >= limit {
        scaled.ceil()
    } else {
        scaled.floor()
    };
    Ok(Value::Float(rounded / power))
}

/// Go's `math.Pow(10, places)`.
fn pow10(places: i64) -> f64 {
    let places = i32::try_from(places).unwrap_or(if places < 0 { i32::MIN } else { i32::MAX });
    10_f64.powi(places)
}
