//! Runs a tree: text, actions, branches, ranges and template calls.
//!
//! In: a tree, the dot, the budget. Out: bytes, or the first fault with its place.
//! Every node costs a step, every written byte a byte, and template calls are bounded in
//! depth, so a run ends whatever the template does.

use super::parser::MAIN;
use super::tree::{Branch, Node, Pipe, Tree};
use crate::format::sprint;
use crate::functions::Env;
use crate::runtime::{Fault, Text, Value, int};
use std::sync::Arc;

/// A fault and the byte offset of what failed.
#[derive(Debug)]
pub(super) struct Located {
    pub at: usize,
    pub fault: Fault,
}

pub(super) type Run<T> = Result<T, Box<Located>>;

/// How a node ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// One run of one tree.
pub(super) struct State<'a> {
    pub tree: &'a Tree,
    pub env: &'a Env<'a>,
    pub out: Vec<u8>,
    pub variables: Vec<(Text, Value)>,
    pub max_depth: usize,
    pub depth: usize,
}

/// Puts a place on a fault.
pub(super) fn located<T>(at: usize, result: Result<T, Fault>) -> Run<T> {
    result.map_err(|fault| Box::new(Located { at, fault }))
}

/// A fault in Go's words.
pub(super) fn fail<T>(at: usize, message: impl Into<String>) -> Run<T> {
    located(at, Fault::go(message))
}

/// Runs the main template of a tree.
pub(super) fn execute(
    tree: &Tree,
    dot: &Value,
    env: &Env<'_>,
    max_depth: usize,
    expected: usize,
) -> Run<Vec<u8>> {
    let variables = vec![(Arc::from(&b"$"[..]), dot.clone())];
    let mut state = State {
        tree,
        env,
        out: Vec::with_capacity(expected),
        variables,
        max_depth,
        depth: 0,
    };
    state.list(dot, &tree.root)?;
    Ok(state.out)
}

impl State<'_> {
    fn list(&mut self, dot: &Value, nodes: &[Node]) -> Run<Flow> {
        for node in nodes {
            let flow = self.node(dot, node)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn node(&mut self, dot: &Value, node: &Node) -> Run<Flow> {
        match node {
            Node::Text(text) => {
                located(0, self.env.budget.bytes(text.len()))?;
                self.out.extend_from_slice(text);
            }
            Node::Action(pipe) => {
                let value = self.pipeline(dot, pipe)?;
                if pipe.variables.is_empty() {
                    self.print(pipe.at, &value)?;
                }
            }
            Node::Branch(branch) => return self.branch(dot, branch),
            Node::Range(branch) => return self.range(dot, branch),
            Node::Template { at, name, pipe } => self.call(dot, *at, name, pipe.as_ref())?,
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        located(0, self.env.budget.steps(1))?;
        Ok(Flow::Next)
    }

    fn print(&mut self, at: usize, value: &Value) -> Run<()> {
        match value {
            Value::Invalid | Value::Nil if self.env.compat => {
                self.out.extend_from_slice(b"<no value>");
            }
            Value::Invalid | Value::Nil => {
                let message = "no value to print (Kalypso would write <no value>)";
                return located(at, Err(Fault::Undefined(message.to_owned())));
            }
            Value::Str(text) => {
                located(at, self.env.budget.bytes(text.len()))?;
                self.out.extend_from_slice(text);
            }
            other => {
                let text = located(at, sprint(other, self.env.budget))?;
                self.out.extend_from_slice(&text);
            }
        }
        Ok(())
    }

    fn branch(&mut self, dot: &Value, branch: &Branch) -> Run<Flow> {
        let scope = self.variables.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let flow = if value.truth() {
            self.list(if branch.moves_dot { &value } else { dot }, &branch.then)
        } else {
            self.list(dot, &branch.otherwise)
        };
        self.variables.truncate(scope);
        located(branch.pipe.at, self.env.budget.steps(1))?;
        flow
    }

    fn range(&mut self, dot: &Value, branch: &Branch) -> Run<Flow> {
        let scope = self.variables.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let at = branch.pipe.at;
        let mut ran = false;
        let flow = match &value {
            Value::Int(count, kind) => {
                self.single_variable(&branch.pipe, &value)?;
                let items = (0..*count).map(|i| (Value::Invalid, Value::Int(i, *kind)));
                self.iterate(items, branch, &mut ran)
            }
            Value::Uint(count, kind) => {
                self.single_variable(&branch.pipe, &value)?;
                let items = (0..*count).map(|i| (Value::Invalid, Value::Uint(i, *kind)));
                self.iterate(items, branch, &mut ran)
            }
            Value::List(list) => {
                let items = list.to_vec();
                let items = items
                    .into_iter()
                    .enumerate()
                    .map(|(i, item)| (int(i64::try_from(i).unwrap_or(i64::MAX)), item));
                self.iterate(items, branch, &mut ran)
            }
            Value::Map(map) => {
                let items = map.to_vec();
                let items = items.into_iter().map(|(key, item)| (key.to_value(), item));
                self.iterate(items, branch, &mut ran)
            }
            Value::Invalid | Value::Nil => Ok(Flow::Next),
            other => {
                let text = located(at, sprint(other, self.env.budget))?;
                let text = String::from_utf8_lossy(&text).into_owned();
                fail(at, format!("range can't iterate over {text}"))
            }
        };
        let flow = match flow {
            Ok(_) if !ran => self.list(dot, &branch.otherwise),
            // `break` and `continue` belong to this range.
            Ok(_) => Ok(Flow::Next),
            Err(error) => Err(error),
        };
        self.variables.truncate(scope);
        located(at, self.env.budget.steps(1))?;
        flow
    }

    fn single_variable(&self, pipe: &Pipe, value: &Value) -> Run<()> {
        if pipe.variables.len() > 1 {
            let text = located(pipe.at, sprint(value, self.env.budget))?;
            let text = String::from_utf8_lossy(&text).into_owned();
            return fail(
                pipe.at,
                format!("can't use {text} to iterate over more than one variable"),
            );
        }
        Ok(())
    }

    fn iterate(
        &mut self,
        items: impl Iterator<Item = (Value, Value)>,
        branch: &Branch,
        ran: &mut bool,
    ) -> Run<Flow> {
        let pipe = &branch.pipe;
        let scope = self.variables.len();
        for (index, item) in items {
            *ran = true;
            located(pipe.at, self.env.budget.steps(1))?;
            match (pipe.variables.as_slice(), pipe.assigns) {
                ([], _) => {}
                ([one], true) => self.assign(pipe.at, one, item.clone())?,
                ([first, second, ..], true) => {
                    self.assign(pipe.at, first, index)?;
                    self.assign(pipe.at, second, item.clone())?;
                }
                ([_], false) => self.set_top(1, item.clone()),
                ([..], false) => {
                    self.set_top(1, item.clone());
                    self.set_top(2, index);
                }
            }
            let flow = self.list(&item, &branch.then)?;
            self.variables.truncate(scope);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(Flow::Next)
    }

    fn set_top(&mut self, below: usize, value: Value) {
        let at = self.variables.len().checked_sub(below);
        if let Some(slot) = at.and_then(|at| self.variables.get_mut(at)) {
            slot.1 = value;
        }
    }

    pub(super) fn assign(&mut self, at: usize, name: &Text, value: Value) -> Run<()> {
        match self
            .variables
            .iter_mut()
            .rev()
            .find(|(known, _)| known == name)
        {
            Some(slot) => {
                slot.1 = value;
                Ok(())
            }
            None => fail(
                at,
                format!("undefined variable: {}", String::from_utf8_lossy(name)),
            ),
        }
    }

    fn call(&mut self, dot: &Value, at: usize, name: &Text, pipe: Option<&Pipe>) -> Run<()> {
        let tree = self.tree;
        let nodes = if name.as_ref() == MAIN {
            Some(&tree.root)
        } else {
            tree.defined.get(name)
        };
        let Some(nodes) = nodes else {
            let name = String::from_utf8_lossy(name).into_owned();
            return fail(at, format!("template {name:?} not defined"));
        };
        if self.depth >= self.max_depth {
            return located(
                at,
                Err(Fault::Limit("the limit of template calls in each other")),
            );
        }
        let dot = match pipe {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Value::Invalid,
        };
        let own = vec![(Arc::from(&b"$"[..]), dot.clone())];
        let kept = std::mem::replace(&mut self.variables, own);
        self.depth += 1;
        let result = self.list(&dot, nodes);
        self.depth -= 1;
        self.variables = kept;
        result.map(|_| ())
    }
}
