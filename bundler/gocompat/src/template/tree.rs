//! The parsed template.
//!
//! In: what the parser found. Out: what the engine runs. Immutable and shareable between
//! threads; functions are already looked up, strings already unquoted.
//! Places are byte offsets into the text that the tree was parsed from.

use crate::functions::Function;
use crate::runtime::Text;
use std::collections::BTreeMap;

/// All templates of one text.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub root: Vec<Node>,
    pub defined: BTreeMap<Text, Vec<Node>>,
}

/// One thing to run.
#[derive(Debug)]
pub(crate) enum Node {
    Text(Text),
    Action(Pipe),
    Branch(Branch),
    Range(Branch),
    Template {
        at: usize,
        name: Text,
        pipe: Option<Pipe>,
    },
    Break,
    Continue,
}

/// `if`, `with` or `range` with their `else`.
#[derive(Debug)]
pub(crate) struct Branch {
    /// `with` moves the dot.
    pub moves_dot: bool,
    pub pipe: Pipe,
    pub then: Vec<Node>,
    pub otherwise: Vec<Node>,
}

/// A pipeline with its variables.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    pub at: usize,
    pub assigns: bool,
    pub variables: Vec<Text>,
    pub commands: Vec<Command>,
}

/// A word and its arguments.
#[derive(Debug)]
pub(crate) struct Command {
    pub at: usize,
    pub words: Vec<Operand>,
}

/// An operand and its place.
#[derive(Debug)]
pub(crate) struct Operand {
    pub at: usize,
    pub kind: OperandKind,
}

/// What an operand is.
#[derive(Debug)]
pub(crate) enum OperandKind {
    Bool(bool),
    Dot,
    Nil,
    Number(Number),
    Str(Text),
    Field(Vec<Text>),
    Variable(Text, Vec<Text>),
    Function(&'static Function),
    Chain(Box<Operand>, Vec<Text>),
    Pipe(Pipe),
}

/// A constant with every reading that it has.
#[derive(Debug, Clone)]
pub(crate) struct Number {
    pub text: String,
    pub int: Option<i64>,
    pub float: Option<f64>,
    pub complex: Option<(f64, f64)>,
    pub is_char: bool,
}

impl Node {
    /// Whether it is only white space.
    pub fn is_blank(&self) -> bool {
        matches!(self, Self::Text(text)
            if std::str::from_utf8(text).is_ok_and(|text| text.trim().is_empty()))
    }
}
