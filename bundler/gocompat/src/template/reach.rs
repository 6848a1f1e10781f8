//! Which of the nine fields a template can see, by its text alone.
//!
//! In: a parsed tree. Out: a [`Reach`]. It may name too many fields and never too few: whatever hands
//! the whole root on (`.`, `$`, `template "x" .`) counts as all of them. With it a caller knows which
//! renderings must be equal, and the engine does not build what nobody reads.

use super::Fields;
use super::tree::{Branch, Node, Operand, OperandKind, Pipe, Tree};
use crate::runtime::{FIELDS, Text};

/// Functions that change a map in place: what they are given may be the root's own.
const CHANGING: &[&str] = &[
    "set",
    "unset",
    "merge",
    "mergeOverwrite",
    "mustMerge",
    "mustMergeOverwrite",
];

/// What a tree reads.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reach {
    /// Fields of the root.
    pub fields: Fields,
    /// Whether a function may change what it is given.
    pub changes: bool,
}

impl Reach {
    pub fn of(tree: &Tree) -> Self {
        let mut reach = Self::default();
        reach.nodes(&tree.root, true);
        for nodes in tree.defined.values() {
            // The root gets in only through a call, which counts as all of it.
            reach.nodes(nodes, false);
        }
        if reach.changes {
            reach.fields = Fields::ALL;
        }
        reach
    }

    fn nodes(&mut self, nodes: &[Node], root: bool) {
        for node in nodes {
            match node {
                Node::Text(_) | Node::Break | Node::Continue => {}
                Node::Action(pipe) => self.pipe(pipe, root),
                Node::Branch(branch) => self.branch(branch, root, root && !branch.moves_dot),
                Node::Range(branch) => self.branch(branch, root, false),
                Node::Template { pipe, .. } => {
                    if let Some(pipe) = pipe {
                        self.pipe(pipe, root);
                    }
                }
            }
        }
    }

    fn branch(&mut self, branch: &Branch, root: bool, then_root: bool) {
        self.pipe(&branch.pipe, root);
        self.nodes(&branch.then, then_root);
        self.nodes(&branch.otherwise, root);
    }

    fn pipe(&mut self, pipe: &Pipe, root: bool) {
        if pipe.variables.iter().any(|name| name.as_ref() == b"$") {
            self.fields = Fields::ALL;
        }
        for command in &pipe.commands {
            for word in &command.words {
                self.operand(word, root);
            }
        }
    }

    fn operand(&mut self, operand: &Operand, root: bool) {
        match &operand.kind {
            OperandKind::Dot => {
                if root {
                    self.fields = Fields::ALL;
                }
            }
            OperandKind::Field(fields) => {
                if root {
                    self.first(fields);
                }
            }
            // `$` is the root in the main template, and what it was called with in another.
            OperandKind::Variable(name, fields) if name.as_ref() == b"$" => self.first(fields),
            OperandKind::Function(function) => {
                self.changes |= CHANGING.contains(&function.name);
            }
            OperandKind::Chain(inner, _) => self.operand(inner, root),
            OperandKind::Pipe(pipe) => self.pipe(pipe, root),
            OperandKind::Bool(_)
            | OperandKind::Nil
            | OperandKind::Number(_)
            | OperandKind::Str(_)
            | OperandKind::Variable(..) => {}
        }
    }

    fn first(&mut self, fields: &[Text]) {
        let at = fields
            .first()
            .and_then(|name| FIELDS.iter().position(|field| field.as_bytes() == &**name));
        self.fields = match at {
            Some(at) => self.fields.with(Fields::at(at)),
            // An unknown field is an error whatever the data; the root itself is all of it.
            None => Fields::ALL,
        };
    }
}
