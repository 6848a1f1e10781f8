//! `semver` and `semverCompare`.
//!
//! In: version and constraint text. Out: a `*semver.Version`, or whether it matches.

use crate::functions::args::utf8;
use crate::functions::{Function, Ty};
use crate::runtime::{Fault, Value};
use crate::semver::{Constraints, Version};
use std::rc::Rc;

const T: Ty = Ty::Text;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("semver", &[T], |_, args| {
        match Version::parse(&utf8(args, 0)) {
            Ok(version) => Ok(Value::Version(Rc::new(version))),
            Err(message) => Fault::go(message),
        }
    }),
    Function::new("semverCompare", &[T, T], |env, args| {
        env.budget
            .steps(utf8(args, 0).len() as u64 + utf8(args, 1).len() as u64 + 50)?;
        let constraints = Constraints::parse(&utf8(args, 0)).or_else(Fault::go)?;
        let version = Version::parse(&utf8(args, 1)).or_else(Fault::go)?;
        Ok(Value::Bool(constraints.check(&version)))
    }),
];
