//! Tokens to a tree: Go's template grammar, its scopes and its complaints.
//!
//! In: template text. Out: a [`Tree`] with functions resolved, or the first error with its
//! place. Variables and functions are checked here, so that a template that parses can
//! only fail on its data. Nesting is bounded.

use super::lexer::{Kind, Token, tokens};
use super::literal;
use super::tree::{Branch, Command, Node, Operand, OperandKind, Pipe, Tree};
use crate::error::TemplateErrorKind;
use crate::functions::{Body, lookup};
use crate::runtime::Text;
use std::sync::Arc;

/// Depth of nested blocks and parentheses; Go allows more, no template needs it.
const MAX_NESTING: usize = 100;

/// Name under which Kalypso parses every template.
pub(super) const MAIN: &[u8] = b"template";

/// A syntax error and its byte offset.
#[derive(Debug)]
pub(super) struct ParseError {
    pub at: usize,
    pub message: String,
    pub kind: TemplateErrorKind,
}

type Parsed<T> = Result<T, ParseError>;

struct Parser<'t> {
    text: &'t [u8],
    tokens: Vec<Token>,
    next: usize,
    variables: Vec<Text>,
    ranges: usize,
    nesting: usize,
    own_functions: bool,
    tree: Tree,
}

/// How a list of nodes ended.
enum Stop {
    End,
    Else,
}

/// Parses one text. `own_functions` allows functions that Kalypso does not have.
pub(super) fn parse(text: &[u8], own_functions: bool) -> Parsed<Tree> {
    let mut parser = Parser {
        text,
        tokens: tokens(text),
        next: 0,
        variables: vec![Arc::from(&b"$"[..])],
        ranges: 0,
        nesting: 0,
        own_functions,
        tree: Tree::default(),
    };
    parser.main()?;
    Ok(parser.tree)
}

impl Parser<'_> {
    fn fail<T>(&self, at: usize, message: impl Into<String>) -> Parsed<T> {
        Err(ParseError { at, message: message.into(), kind: TemplateErrorKind::Parse })
    }

    fn peek(&self) -> &Token {
        // The last token is `Eof` or `Error`; both repeat for ever.
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn skip_space(&mut self) {
        while self.peek().kind == Kind::Space {
            self.next += 1;
        }
    }

    fn peek_word(&mut self) -> &Token {
        self.skip_space();
        self.peek()
    }

    fn take_word(&mut self) -> Token {
        self.skip_space();
        self.take()
    }

    fn slice(&self, token: &Token) -> &[u8] {
        &self.text[token.start..token.end]
    }

    fn show(&self, token: &Token) -> String {
        String::from_utf8_lossy(self.slice(token)).into_owned()
    }

    fn unexpected<T>(&self, token: &Token, context: &str) -> Parsed<T> {
        match &token.kind {
            Kind::Error(message) => self.fail(token.start, message.clone()),
            Kind::Eof => self.fail(token.start, "unexpected EOF"),
            Kind::Dot => self.fail(token.start, format!("unexpected <.> in {context}")),
            Kind::Block
            | Kind::Break
            | Kind::Continue
            | Kind::Define
            | Kind::Else
            | Kind::End
            | Kind::If
            | Kind::Range
            | Kind::Template
            | Kind::With => {
                let shown = self.show(token);
                self.fail(token.start, format!("unexpected <{shown}> in {context}"))
            }
            _ => {
                let shown: String = self.show(token).chars().take(10).collect();
                self.fail(token.start, format!("unexpected {shown:?} in {context}"))
            }
        }
    }

    fn expect(&mut self, kind: &Kind, context: &str) -> Parsed<Token> {
        let token = self.take_word();
        if token.kind == *kind { Ok(token) } else { self.unexpected(&token, context) }
    }

    fn enter(&mut self, at: usize) -> Parsed<()> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(ParseError {
                at,
                message: format!("nested more than {MAX_NESTING} deep"),
                kind: TemplateErrorKind::Limit,
            });
        }
        Ok(())
    }

    fn main(&mut self) -> Parsed<()> {
        let mut root = Vec::new();
        while self.peek().kind != Kind::Eof {
            if self.peek().kind == Kind::LeftDelim {
                let before = self.next;
                let open = self.take();
                if self.take_word().kind == Kind::Define {
                    self.definition(open.start)?;
                    continue;
                }
                self.next = before;
            }
            match self.text_or_action()? {
                Ok(node) => root.push(node),
                Err((Stop::End, at)) => return self.fail(at, "unexpected {{end}}"),
                Err((Stop::Else, at)) => return self.fail(at, "unexpected {{else}}"),
            }
        }
        if let Some(defined) = self.tree.defined.get(MAIN)
            && !defined.iter().all(Node::is_blank)
        {
            if !root.iter().all(Node::is_blank) {
                return self.fail(0, "template: multiple definition of template \"template\"");
            }
            root = self.tree.defined.remove(MAIN).unwrap_or_default();
        }
        self.tree.root = root;
        Ok(())
    }

    fn definition(&mut self, at: usize) -> Parsed<()> {
        let context = "define clause";
        let token = self.take_word();
        let name = self.template_name(&token, context)?;
        self.expect(&Kind::RightDelim, context)?;
        self.body(name, context, at)
    }

    /// The body of `define` and `block`: a scope of its own.
    fn body(&mut self, name: Text, context: &str, at: usize) -> Parsed<()> {
        let variables = std::mem::replace(&mut self.variables, vec![Arc::from(&b"$"[..])]);
        let ranges = std::mem::take(&mut self.ranges);
        self.enter(at)?;
        let (nodes, stop, stop_at) = self.list()?;
        self.nesting -= 1;
        if matches!(stop, Stop::Else) {
            return self.fail(stop_at, format!("unexpected {{{{else}}}} in {context}"));
        }
        self.variables = variables;
        self.ranges = ranges;
        let blank = nodes.iter().all(Node::is_blank);
        match self.tree.defined.get(&name) {
            Some(old) if !old.iter().all(Node::is_blank) => {
                if blank {
                    return Ok(());
                }
                let name = String::from_utf8_lossy(&name).into_owned();
                self.fail(at, format!("template: multiple definition of template {name:?}"))
            }
            _ => {
                self.tree.defined.insert(name, nodes);
                Ok(())
            }
        }
    }

    fn template_name(&self, token: &Token, context: &str) -> Parsed<Text> {
        if !matches!(token.kind, Kind::Str | Kind::RawString) {
            return self.unexpected(token, context);
        }
        self.unquoted(token)
    }

    fn unquoted(&self, token: &Token) -> Parsed<Text> {
        match literal::unquote(self.slice(token)) {
            Ok(bytes) => Ok(Arc::from(bytes)),
            Err(message) => self.fail(token.start, message),
        }
    }

    fn list(&mut self) -> Parsed<(Vec<Node>, Stop, usize)> {
        let mut nodes = Vec::new();
        while self.peek_word().kind != Kind::Eof {
            match self.text_or_action()? {
                Ok(node) => nodes.push(node),
                Err((stop, at)) => return Ok((nodes, stop, at)),
            }
        }
        let at = self.peek().start;
        self.fail(at, "unexpected EOF")
    }

    fn text_or_action(&mut self) -> Parsed<Result<Node, (Stop, usize)>> {
        let token = self.take_word();
        match token.kind {
            Kind::Text => Ok(Ok(Node::Text(Arc::from(self.slice(&token))))),
            Kind::LeftDelim => self.action(),
            _ => self.unexpected(&token, "input"),
        }
    }

    fn action(&mut self) -> Parsed<Result<Node, (Stop, usize)>> {
        let before = self.next;
        let token = self.take_word();
        let node = match token.kind {
            Kind::Block => self.block(token.start)?,
            Kind::Break | Kind::Continue => self.leave(&token)?,
            Kind::Else => {
                if !matches!(self.peek_word().kind, Kind::If | Kind::With) {
                    self.expect(&Kind::RightDelim, "else")?;
                }
                return Ok(Err((Stop::Else, token.start)));
            }
            Kind::End => {
                self.expect(&Kind::RightDelim, "end")?;
                return Ok(Err((Stop::End, token.start)));
            }
            Kind::If => Node::Branch(self.control("if", token.start)?),
            Kind::With => Node::Branch(self.control("with", token.start)?),
            Kind::Range => Node::Range(self.control("range", token.start)?),
            Kind::Template => self.call()?,
            _ => {
                self.next = before;
                Node::Action(self.pipeline("command", &Kind::RightDelim)?)
            }
        };
        Ok(Ok(node))
    }

    fn leave(&mut self, token: &Token) -> Parsed<Node> {
        let word = self.show(token);
        let after = self.take_word();
        if after.kind != Kind::RightDelim {
            return self.unexpected(&after, &format!("{{{{{word}}}}}"));
        }
        if self.ranges == 0 {
            return self.fail(token.start, format!("{{{{{word}}}}} outside {{{{range}}}}"));
        }
        Ok(if token.kind == Kind::Break { Node::Break } else { Node::Continue })
    }

    fn block(&mut self, at: usize) -> Parsed<Node> {
        let context = "block clause";
        let token = self.take_word();
        let name = self.template_name(&token, context)?;
        let pipe = self.pipeline(context, &Kind::RightDelim)?;
        self.body(name.clone(), context, at)?;
        Ok(Node::Template { at: token.start, name, pipe: Some(pipe) })
    }

    fn call(&mut self) -> Parsed<Node> {
        let context = "template clause";
        let token = self.take_word();
        let name = self.template_name(&token, context)?;
        let before = self.next;
        let pipe = if self.take_word().kind == Kind::RightDelim {
            None
        } else {
            self.next = before;
            Some(self.pipeline(context, &Kind::RightDelim)?)
        };
        Ok(Node::Template { at: token.start, name, pipe })
    }

    fn control(&mut self, context: &str, at: usize) -> Parsed<Branch> {
        self.enter(at)?;
        let scope = self.variables.len();
        let pipe = self.pipeline(context, &Kind::RightDelim)?;
        let is_range = context == "range";
        self.ranges += usize::from(is_range);
        let (then, stop, _) = self.list()?;
        self.ranges -= usize::from(is_range);
        let mut otherwise = Vec::new();
        if matches!(stop, Stop::Else) {
            let next = self.peek().kind.clone();
            if context == "if" && next == Kind::If || context == "with" && next == Kind::With {
                let token = self.take();
                otherwise.push(Node::Branch(self.control(context, token.start)?));
            } else {
                let (nodes, stop, stop_at) = self.list()?;
                if matches!(stop, Stop::Else) {
                    return self.fail(stop_at, "expected end; found {{else}}");
                }
                otherwise = nodes;
            }
        }
        self.variables.truncate(scope);
        self.nesting -= 1;
        Ok(Branch { moves_dot: context == "with", pipe, then, otherwise })
    }

    fn pipeline(&mut self, context: &str, end: &Kind) -> Parsed<Pipe> {
        let mut pipe = Pipe { at: self.peek_word().start, ..Pipe::default() };
        self.declarations(&mut pipe, context)?;
        loop {
            let before = self.next;
            let token = self.take_word();
            match token.kind {
                ref kind if kind == end => break,
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawString
                | Kind::Str
                | Kind::Variable
                | Kind::LeftParen => {
                    self.next = before;
                    pipe.commands.push(self.command()?);
                }
                _ => return self.unexpected(&token, context),
            }
        }
        if pipe.commands.is_empty() {
            return self.fail(pipe.at, format!("missing value for {context}"));
        }
        for (stage, command) in pipe.commands.iter().enumerate().skip(1) {
            let constant = matches!(
                command.words.first().map(|word| &word.kind),
                Some(
                    OperandKind::Bool(_)
                        | OperandKind::Dot
                        | OperandKind::Nil
                        | OperandKind::Number(_)
                        | OperandKind::Str(_)
                )
            );
            if constant {
                let message = format!("non executable command in pipeline stage {}", stage + 1);
                return self.fail(command.at, message);
            }
        }
        Ok(pipe)
    }

    /// `$x :=`, `$x =`, and in a range `$i, $x :=`.
    fn declarations(&mut self, pipe: &mut Pipe, context: &str) -> Parsed<()> {
        while self.peek_word().kind == Kind::Variable {
            let before = self.next;
            let token = self.take();
            let name: Text = Arc::from(self.slice(&token));
            let next = self.peek_word().clone();
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    pipe.assigns = next.kind == Kind::Assign;
                    self.take();
                    pipe.variables.push(name.clone());
                    self.variables.push(name);
                    return Ok(());
                }
                Kind::Char if self.slice(&next) == b"," => {
                    self.take();
                    pipe.variables.push(name.clone());
                    self.variables.push(name);
                    if context == "range" && pipe.variables.len() < 2 {
                        let at = self.peek_word().start;
                        if !matches!(
                            self.peek().kind,
                            Kind::Variable | Kind::RightDelim | Kind::RightParen
                        ) {
                            return self.fail(at, "range can only initialize variables");
                        }
                        continue;
                    }
                    let message = format!("too many declarations in {context}");
                    return self.fail(token.start, message);
                }
                _ => {
                    self.next = before;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Parsed<Command> {
        let mut command = Command { at: self.peek_word().start, words: Vec::new() };
        loop {
            self.skip_space();
            if let Some(operand) = self.operand()? {
                command.words.push(operand);
            }
            let before = self.next;
            let token = self.take();
            match token.kind {
                Kind::Space => {}
                Kind::RightDelim | Kind::RightParen => {
                    self.next = before;
                    break;
                }
                Kind::Pipe => break,
                _ => return self.unexpected(&token, "operand"),
            }
        }
        if command.words.is_empty() {
            return self.fail(command.at, "empty command");
        }
        Ok(command)
    }

    fn operand(&mut self) -> Parsed<Option<Operand>> {
        let Some(term) = self.term()? else { return Ok(None) };
        if self.peek().kind != Kind::Field {
            return Ok(Some(term));
        }
        let at = self.peek().start;
        let mut fields = Vec::new();
        while self.peek().kind == Kind::Field {
            let token = self.take();
            fields.push(self.field_name(&token));
        }
        let kind = match term.kind {
            OperandKind::Field(mut first) => {
                first.append(&mut fields);
                OperandKind::Field(first)
            }
            OperandKind::Variable(name, mut first) => {
                first.append(&mut fields);
                OperandKind::Variable(name, first)
            }
            OperandKind::Bool(_)
            | OperandKind::Str(_)
            | OperandKind::Number(_)
            | OperandKind::Nil
            | OperandKind::Dot => return self.fail(at, "unexpected . after term"),
            kind => {
                let inner = Operand { at: term.at, kind };
                OperandKind::Chain(Box::new(inner), fields)
            }
        };
        Ok(Some(Operand { at: term.at, kind }))
    }

    fn field_name(&self, token: &Token) -> Text {
        Arc::from(&self.text[token.start + 1..token.end])
    }

    fn term(&mut self) -> Parsed<Option<Operand>> {
        let before = self.next;
        let token = self.take_word();
        let at = token.start;
        let kind = match token.kind {
            Kind::Identifier => self.function(&token)?,
            Kind::Dot => OperandKind::Dot,
            Kind::Nil => OperandKind::Nil,
            Kind::Variable => {
                let name: Text = Arc::from(self.slice(&token));
                if !self.variables.contains(&name) {
                    let shown = self.show(&token);
                    return self.fail(at, format!("undefined variable {shown:?}"));
                }
                OperandKind::Variable(name, Vec::new())
            }
            Kind::Field => OperandKind::Field(vec![self.field_name(&token)]),
            Kind::Bool => OperandKind::Bool(self.slice(&token) == b"true"),
            Kind::CharConstant | Kind::Complex | Kind::Number => {
                let text = self.show(&token);
                let number = match token.kind {
                    Kind::CharConstant => literal::character(self.slice(&token)),
                    Kind::Complex => literal::complex(&text),
                    _ => literal::number(&text),
                };
                match number {
                    Ok(number) => OperandKind::Number(number),
                    Err(message) => return self.fail(at, message),
                }
            }
            Kind::LeftParen => {
                self.enter(at)?;
                let pipe = self.pipeline("parenthesized pipeline", &Kind::RightParen)?;
                self.nesting -= 1;
                OperandKind::Pipe(pipe)
            }
            Kind::Str | Kind::RawString => OperandKind::Str(self.unquoted(&token)?),
            _ => {
                self.next = before;
                return Ok(None);
            }
        };
        Ok(Some(Operand { at, kind }))
    }

    fn function(&self, token: &Token) -> Parsed<OperandKind> {
        let name = self.show(token);
        let Some(function) = lookup(&name).filter(|found| self.own_functions || !found.own) else {
            return self.fail(token.start, format!("function {name:?} not defined"));
        };
        if let Body::Refused(why) = function.body {
            return Err(ParseError {
                at: token.start,
                message: format!("function {name:?} is refused: {why}"),
                kind: TemplateErrorKind::Refused,
            });
        }
        Ok(OperandKind::Function(function))
    }
}
