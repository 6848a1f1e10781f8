//! The functions a template can call: their names, their Go signatures, their bodies.
//!
//! In: a name at parse time, checked arguments at run time. Out: a value or a fault.
//! Signatures matter: Go refuses an argument of the wrong type before it calls.
//! Functions that would read a clock, randomness, the network or the host are listed with
//! the reason why they are refused, and have no body.

use crate::runtime::{Budget, RuntimeResult, Value};
use std::collections::HashMap;
use std::sync::OnceLock;

mod args;
mod builtins;
mod compare;
mod kalypso;
mod refused;
pub(crate) mod sprig;

use args::string;
pub(crate) use kalypso::{restore_literals, stringify_value};

/// Go type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ty {
    /// `interface{}`.
    Any,
    /// `reflect.Value`: as `Any`, but nothing may be passed.
    Raw,
    Text,
    Int,
    Float,
    Bool,
    /// `map[string]interface{}`.
    Dict,
    /// `time.Time`.
    Time,
}

/// What a call gets besides its arguments.
#[derive(Debug)]
pub(crate) struct Env<'a> {
    pub budget: &'a Budget,
    pub compat: bool,
}

/// How a function is run.
pub(crate) enum Body {
    Call(fn(&Env<'_>, &[Value]) -> RuntimeResult<Value>),
    /// The first false argument, or the last.
    And,
    /// The first true argument, or the last.
    Or,
    /// Not run at all, and why.
    Refused(&'static str),
}

/// One function.
pub(crate) struct Function {
    pub name: &'static str,
    pub params: &'static [Ty],
    pub rest: Option<Ty>,
    pub body: Body,
    /// Outhaul's own: unknown in compat mode.
    pub own: bool,
}

impl Function {
    pub const fn new(
        name: &'static str,
        params: &'static [Ty],
        call: fn(&Env<'_>, &[Value]) -> RuntimeResult<Value>,
    ) -> Self {
        Self {
            name,
            params,
            rest: None,
            body: Body::Call(call),
            own: false,
        }
    }

    pub const fn variadic(
        name: &'static str,
        params: &'static [Ty],
        rest: Ty,
        call: fn(&Env<'_>, &[Value]) -> RuntimeResult<Value>,
    ) -> Self {
        Self {
            name,
            params,
            rest: Some(rest),
            body: Body::Call(call),
            own: false,
        }
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Function({})", self.name)
    }
}

/// Finds a function; sprig's win over Go's of the same name.
pub(crate) fn lookup(name: &str) -> Option<&'static Function> {
    static TABLE: OnceLock<HashMap<&'static str, &'static Function>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut table = HashMap::new();
        for group in [builtins::FUNCTIONS, refused::FUNCTIONS, kalypso::FUNCTIONS] {
            table.extend(group.iter().map(|function| (function.name, function)));
        }
        for group in sprig::GROUPS {
            table.extend(group.iter().map(|function| (function.name, function)));
        }
        table
    });
    table.get(name).copied()
}
