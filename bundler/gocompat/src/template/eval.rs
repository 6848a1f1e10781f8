//! Evaluates pipelines: words, fields, variables, and calls with typed arguments.
//!
//! In: a pipeline and the dot. Out: a value, or a fault with its place.
//! The rules are those of Go's `text/template`: what may stand where, which argument fits
//! which parameter, and when a missing key is nothing rather than an error.

use super::exec::{Located, Run, State, fail, located};
use super::tree::{Command, Number, Operand, OperandKind, Pipe};
use crate::functions::{Body, Function, Ty};
use crate::runtime::{Fault, IntKind, Key, Map, MapType, Text, Value, int};

impl State<'_> {
    /// The value of a pipeline; its variables are pushed or assigned.
    pub(super) fn pipeline(&mut self, dot: &Value, pipe: &Pipe) -> Run<Value> {
        let mut value = None;
        for command in &pipe.commands {
            located(command.at, self.env.budget.steps(1))?;
            let mut result = self.command(dot, command, value.take())?;
            // A nil interface in a pipeline is nothing at all.
            if matches!(result, Value::Nil) {
                result = Value::Invalid;
            }
            value = Some(result);
        }
        let value = value.unwrap_or_default();
        for name in &pipe.variables {
            if pipe.assigns {
                self.assign(pipe.at, name, value.clone())?;
            } else {
                self.variables.push((name.clone(), value.clone()));
            }
        }
        Ok(value)
    }

    fn command(&mut self, dot: &Value, command: &Command, last: Option<Value>) -> Run<Value> {
        let Some((first, args)) = command.words.split_first() else {
            return fail(command.at, "empty command");
        };
        match &first.kind {
            OperandKind::Function(function) => self.function(dot, first.at, function, args, last),
            OperandKind::Field(fields) => {
                self.chain(dot, dot.clone(), first.at, fields, args, last)
            }
            OperandKind::Chain(inner, fields) => {
                let value = self.chain_start(dot, inner)?;
                self.chain(dot, value, first.at, fields, args, last)
            }
            OperandKind::Variable(name, fields) => {
                let value = self.variable(first.at, name)?;
                if fields.is_empty() {
                    not_a_function(first, args, last.as_ref())?;
                    return Ok(value);
                }
                self.chain(dot, value, first.at, fields, args, last)
            }
            OperandKind::Pipe(pipe) => {
                not_a_function(first, args, last.as_ref())?;
                self.pipeline(dot, pipe)
            }
            constant => {
                not_a_function(first, args, last.as_ref())?;
                match constant {
                    OperandKind::Bool(flag) => Ok(Value::Bool(*flag)),
                    OperandKind::Dot => Ok(dot.clone()),
                    OperandKind::Number(number) => ideal(first.at, number),
                    OperandKind::Str(text) => Ok(Value::Str(text.clone())),
                    _ => fail(first.at, "nil is not a command"),
                }
            }
        }
    }

    fn chain_start(&mut self, dot: &Value, inner: &Operand) -> Run<Value> {
        match &inner.kind {
            OperandKind::Pipe(pipe) => self.pipeline(dot, pipe),
            OperandKind::Function(function) => self.function(dot, inner.at, function, &[], None),
            _ => fail(inner.at, "can't evaluate a field of this"),
        }
    }

    fn variable(&self, at: usize, name: &Text) -> Run<Value> {
        match self.variables.iter().rev().find(|(known, _)| known == name) {
            Some((_, value)) => Ok(value.clone()),
            None => fail(
                at,
                format!("undefined variable: {}", String::from_utf8_lossy(name)),
            ),
        }
    }

    fn chain(
        &mut self,
        dot: &Value,
        mut value: Value,
        at: usize,
        fields: &[Text],
        args: &[Operand],
        last: Option<Value>,
    ) -> Run<Value> {
        let Some((final_field, before)) = fields.split_last() else {
            return Ok(value);
        };
        for field in before {
            value = self.field(dot, &value, at, field, &[], None)?;
        }
        self.field(dot, &value, at, final_field, args, last)
    }

    fn field(
        &mut self,
        dot: &Value,
        value: &Value,
        at: usize,
        field: &Text,
        args: &[Operand],
        last: Option<Value>,
    ) -> Run<Value> {
        let name = || String::from_utf8_lossy(field).into_owned();
        match value {
            Value::Invalid => {
                if self.env.compat {
                    return Ok(Value::Invalid);
                }
                let message = format!("no value to take the key {:?} from", name());
                return located(at, Err(Fault::Undefined(message)));
            }
            Value::Nil => {
                return fail(
                    at,
                    format!("nil pointer evaluating interface {{}}.{}", name()),
                );
            }
            _ => {}
        }
        let has_args = !args.is_empty() || last.is_some();
        if super::methods::has(value, field) {
            let mut values = Vec::new();
            for arg in args {
                values.push(self.argument(dot, Ty::Any, arg)?);
            }
            values.extend(last);
            return located(at, super::methods::call(value, field, &values));
        }
        match value {
            Value::Data(data) => match data.field(field) {
                Some(_) if has_args => fail(
                    at,
                    format!("{} has arguments but cannot be invoked as function", name()),
                ),
                Some(found) => Ok(found.clone()),
                None => fail(
                    at,
                    format!("can't evaluate field {} in type scheduler.dataType", name()),
                ),
            },
            Value::Map(_) if has_args => {
                fail(at, format!("{} is not a method but has arguments", name()))
            }
            Value::Map(map) => match map.get(&Key::Str(field.clone())) {
                Some(found) => Ok(found),
                None if self.env.compat => Ok(Value::Invalid),
                None => {
                    let message = format!("map has no entry for key {:?}", name());
                    located(at, Err(Fault::Undefined(message)))
                }
            },
            other => fail(
                at,
                format!(
                    "can't evaluate field {} in type {}",
                    name(),
                    other.type_name()
                ),
            ),
        }
    }

    fn function(
        &mut self,
        dot: &Value,
        at: usize,
        function: &'static Function,
        args: &[Operand],
        last: Option<Value>,
    ) -> Run<Value> {
        let count = args.len() + usize::from(last.is_some());
        let fixed = function.params.len();
        let name = function.name;
        if function.rest.is_some() && count < fixed {
            return fail(
                at,
                format!("wrong number of args for {name}: want at least {fixed} got {count}"),
            );
        }
        if function.rest.is_none() && count != fixed {
            return fail(
                at,
                format!("wrong number of args for {name}: want {fixed} got {count}"),
            );
        }
        let call = match function.body {
            Body::And => return self.short_circuit(dot, false, args, last),
            Body::Or => return self.short_circuit(dot, true, args, last),
            Body::Refused(why) => {
                let message = format!("function {name:?} is refused: {why}");
                return located(at, Err(Fault::Refused(message)));
            }
            Body::Call(call) => call,
        };
        let param = |at: usize| function.params.get(at).copied().or(function.rest);
        let mut values = Vec::with_capacity(count);
        for (index, arg) in args.iter().enumerate() {
            values.push(self.argument(dot, param(index).unwrap_or(Ty::Any), arg)?);
        }
        if let Some(last) = last {
            values.push(fit(at, last, param(args.len()).unwrap_or(Ty::Any))?);
        }
        match call(self.env, &values) {
            Ok(value) => Ok(value),
            Err(Fault::Go(message)) => fail(at, format!("error calling {name}: {message}")),
            Err(fault) => Err(Box::new(Located { at, fault })),
        }
    }

    fn short_circuit(
        &mut self,
        dot: &Value,
        stop_at: bool,
        args: &[Operand],
        last: Option<Value>,
    ) -> Run<Value> {
        let mut value = Value::Invalid;
        for arg in args {
            value = self.argument(dot, Ty::Raw, arg)?;
            if value.truth() == stop_at {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    /// Evaluates one argument for a parameter of that type.
    fn argument(&mut self, dot: &Value, ty: Ty, operand: &Operand) -> Run<Value> {
        let at = operand.at;
        let value = match &operand.kind {
            OperandKind::Dot => dot.clone(),
            OperandKind::Nil => {
                return match ty {
                    Ty::Any => Ok(Value::Nil),
                    Ty::Raw => Ok(Value::Invalid),
                    Ty::Dict => Ok(Map::nil_value(MapType::StrAny)),
                    _ => fail(at, format!("cannot assign nil to {}", type_name(ty))),
                };
            }
            OperandKind::Field(fields) => self.chain(dot, dot.clone(), at, fields, &[], None)?,
            OperandKind::Variable(name, fields) => {
                let value = self.variable(at, name)?;
                self.chain(dot, value, at, fields, &[], None)?
            }
            OperandKind::Pipe(pipe) => self.pipeline(dot, pipe)?,
            OperandKind::Function(function) => self.function(dot, at, function, &[], None)?,
            OperandKind::Chain(inner, fields) => {
                let value = self.chain_start(dot, inner)?;
                self.chain(dot, value, at, fields, &[], None)?
            }
            OperandKind::Bool(flag) => {
                return match ty {
                    Ty::Any | Ty::Raw | Ty::Bool => Ok(Value::Bool(*flag)),
                    _ => fail(at, format!("expected {}; found {flag}", expected(ty))),
                };
            }
            OperandKind::Str(text) => {
                return match ty {
                    Ty::Any | Ty::Raw | Ty::Text => Ok(Value::Str(text.clone())),
                    _ => {
                        let text = String::from_utf8_lossy(text).into_owned();
                        fail(at, format!("expected {}; found {text:?}", expected(ty)))
                    }
                };
            }
            OperandKind::Number(number) => return constant(at, ty, number),
        };
        fit(at, value, ty)
    }
}

fn not_a_function(first: &Operand, args: &[Operand], last: Option<&Value>) -> Run<()> {
    if args.is_empty() && last.is_none() {
        return Ok(());
    }
    let shown = match &first.kind {
        OperandKind::Number(number) => number.text.clone(),
        OperandKind::Str(text) => format!("{:?}", String::from_utf8_lossy(text)),
        OperandKind::Bool(flag) => flag.to_string(),
        OperandKind::Dot => ".".to_owned(),
        OperandKind::Variable(name, _) => String::from_utf8_lossy(name).into_owned(),
        _ => "this".to_owned(),
    };
    fail(
        first.at,
        format!("can't give argument to non-function {shown}"),
    )
}

/// The type that a constant has when nothing asks for one.
fn ideal(at: usize, number: &Number) -> Run<Value> {
    if let Some((re, im)) = number.complex {
        return Ok(Value::Complex(re, im));
    }
    match (number.float, number.int) {
        (Some(float), _) if number.is_float_literal() => Ok(Value::Float(float)),
        (_, Some(whole)) => Ok(int(whole)),
        _ => fail(at, format!("{} overflows int", number.text)),
    }
}

fn constant(at: usize, ty: Ty, number: &Number) -> Run<Value> {
    match (ty, number.int, number.float) {
        (Ty::Any | Ty::Raw, ..) => ideal(at, number),
        (Ty::Int, Some(whole), _) => Ok(int(whole)),
        (Ty::Float, _, Some(float)) => Ok(Value::Float(float)),
        _ => fail(
            at,
            format!("expected {}; found {}", expected(ty), number.text),
        ),
    }
}

fn expected(ty: Ty) -> &'static str {
    match ty {
        Ty::Int => "integer",
        Ty::Float => "float",
        other => type_name(other),
    }
}

fn type_name(ty: Ty) -> &'static str {
    match ty {
        Ty::Any => "interface {}",
        Ty::Raw => "reflect.Value",
        Ty::Text => "string",
        Ty::Int => "int",
        Ty::Float => "float64",
        Ty::Bool => "bool",
        Ty::Dict => "map[string]interface {}",
        Ty::Time => "time.Time",
    }
}

/// Whether a value may be passed to a parameter.
fn fit(at: usize, value: Value, ty: Ty) -> Run<Value> {
    let fits = match (ty, &value) {
        (Ty::Any, Value::Invalid) => return Ok(Value::Nil),
        (Ty::Dict, Value::Invalid) => return Ok(Map::nil_value(MapType::StrAny)),
        (Ty::Any | Ty::Raw, _)
        | (Ty::Text, Value::Str(_))
        | (Ty::Float, Value::Float(_))
        | (Ty::Bool, Value::Bool(_))
        | (Ty::Int, Value::Int(_, IntKind::Int))
        | (Ty::Time, Value::Time(_)) => true,
        (Ty::Dict, Value::Map(map)) => map.kind == MapType::StrAny,
        (_, Value::Invalid) => {
            return fail(at, format!("invalid value; expected {}", type_name(ty)));
        }
        _ => false,
    };
    if fits {
        return Ok(value);
    }
    let got = match &value {
        Value::Nil => "interface {}",
        other => other.type_name(),
    };
    fail(
        at,
        format!(
            "wrong type for value; expected {}; got {got}",
            type_name(ty)
        ),
    )
}
