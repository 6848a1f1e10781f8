//! Tokens to a tree: Go's template grammar, its scopes and its complaints.
//!
//! In: template text. Out: a [`Tree`] with functions resolved, or the first error with its
//! place. Variables and functions are checked here, so that a template that parses can
//! only fail on its data. Nesting is bounded.

use super::lexer::{Token, TokenKind, tokens};
use super::literal;
use super::tree::{Branch, Node, Tree};
use crate::error::TemplateErrorKind;
use crate::runtime::Text;
use std::sync::Arc;

mod pipeline;

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

fn fail<T>(at: usize, message: impl Into<String>) -> Parsed<T> {
    Err(ParseError {
        at,
        message: message.into(),
        kind: TemplateErrorKind::Parse,
    })
}

impl Parser<'_> {
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
        while self.peek().kind == TokenKind::Space {
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
            TokenKind::Error(message) => fail(token.start, message.clone()),
            TokenKind::Eof => fail(token.start, "unexpected EOF"),
            TokenKind::Dot => fail(token.start, format!("unexpected <.> in {context}")),
            TokenKind::Block
            | TokenKind::Break
            | TokenKind::Continue
            | TokenKind::Define
            | TokenKind::Else
            | TokenKind::End
            | TokenKind::If
            | TokenKind::Range
            | TokenKind::Template
            | TokenKind::With => {
                let shown = self.show(token);
                fail(token.start, format!("unexpected <{shown}> in {context}"))
            }
            _ => {
                let shown: String = self.show(token).chars().take(10).collect();
                fail(token.start, format!("unexpected {shown:?} in {context}"))
            }
        }
    }

    fn expect(&mut self, kind: &TokenKind, context: &str) -> Parsed<Token> {
        let token = self.take_word();
        if token.kind == *kind {
            Ok(token)
        } else {
            self.unexpected(&token, context)
        }
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
        while self.peek().kind != TokenKind::Eof {
            if self.peek().kind == TokenKind::LeftDelim {
                let before = self.next;
                let open = self.take();
                if self.take_word().kind == TokenKind::Define {
                    self.definition(open.start)?;
                    continue;
                }
                self.next = before;
            }
            match self.text_or_action()? {
                Ok(node) => root.push(node),
                Err((Stop::End, at)) => return fail(at, "unexpected {{end}}"),
                Err((Stop::Else, at)) => return fail(at, "unexpected {{else}}"),
            }
        }
        if let Some(defined) = self.tree.defined.get(MAIN)
            && !defined.iter().all(Node::is_blank)
        {
            if !root.iter().all(Node::is_blank) {
                return fail(0, "template: multiple definition of template \"template\"");
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
        self.expect(&TokenKind::RightDelim, context)?;
        self.body(name, context, at)
    }

    /// The body of `define` and `block`: a separate scope.
    fn body(&mut self, name: Text, context: &str, at: usize) -> Parsed<()> {
        let variables = std::mem::replace(&mut self.variables, vec![Arc::from(&b"$"[..])]);
        let ranges = std::mem::take(&mut self.ranges);
        self.enter(at)?;
        let (nodes, stop, stop_at) = self.list()?;
        self.nesting -= 1;
        if matches!(stop, Stop::Else) {
            return fail(stop_at, format!("unexpected {{{{else}}}} in {context}"));
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
                fail(
                    at,
                    format!("template: multiple definition of template {name:?}"),
                )
            }
            _ => {
                self.tree.defined.insert(name, nodes);
                Ok(())
            }
        }
    }

    fn template_name(&self, token: &Token, context: &str) -> Parsed<Text> {
        if !matches!(token.kind, TokenKind::Str | TokenKind::RawString) {
            return self.unexpected(token, context);
        }
        self.unquoted(token)
    }

    fn unquoted(&self, token: &Token) -> Parsed<Text> {
        match literal::unquote(self.slice(token)) {
            Ok(bytes) => Ok(Arc::from(bytes)),
            Err(message) => fail(token.start, message),
        }
    }

    fn list(&mut self) -> Parsed<(Vec<Node>, Stop, usize)> {
        let mut nodes = Vec::new();
        while self.peek_word().kind != TokenKind::Eof {
            match self.text_or_action()? {
                Ok(node) => nodes.push(node),
                Err((stop, at)) => return Ok((nodes, stop, at)),
            }
        }
        let at = self.peek().start;
        fail(at, "unexpected EOF")
    }

    fn text_or_action(&mut self) -> Parsed<Result<Node, (Stop, usize)>> {
        let token = self.take_word();
        match token.kind {
            TokenKind::Text => Ok(Ok(Node::Text(Arc::from(self.slice(&token))))),
            TokenKind::LeftDelim => self.action(),
            _ => self.unexpected(&token, "input"),
        }
    }

    fn action(&mut self) -> Parsed<Result<Node, (Stop, usize)>> {
        let before = self.next;
        let token = self.take_word();
        let node = match token.kind {
            TokenKind::Block => self.block(token.start)?,
            TokenKind::Break | TokenKind::Continue => self.leave(&token)?,
            TokenKind::Else => {
                if !matches!(self.peek_word().kind, TokenKind::If | TokenKind::With) {
                    self.expect(&TokenKind::RightDelim, "else")?;
                }
                return Ok(Err((Stop::Else, token.start)));
            }
            TokenKind::End => {
                self.expect(&TokenKind::RightDelim, "end")?;
                return Ok(Err((Stop::End, token.start)));
            }
            TokenKind::If => Node::Branch(self.control("if", token.start)?),
            TokenKind::With => Node::Branch(self.control("with", token.start)?),
            TokenKind::Range => Node::Range(self.control("range", token.start)?),
            TokenKind::Template => self.call()?,
            _ => {
                self.next = before;
                Node::Action(self.pipeline("command", &TokenKind::RightDelim)?)
            }
        };
        Ok(Ok(node))
    }

    fn leave(&mut self, token: &Token) -> Parsed<Node> {
        let word = self.show(token);
        let after = self.take_word();
        if after.kind != TokenKind::RightDelim {
            return self.unexpected(&after, &format!("{{{{{word}}}}}"));
        }
        if self.ranges == 0 {
            return fail(token.start, format!("{{{{{word}}}}} outside {{{{range}}}}"));
        }
        Ok(if token.kind == TokenKind::Break {
            Node::Break
        } else {
            Node::Continue
        })
    }

    fn block(&mut self, at: usize) -> Parsed<Node> {
        let context = "block clause";
        let token = self.take_word();
        let name = self.template_name(&token, context)?;
        let pipe = self.pipeline(context, &TokenKind::RightDelim)?;
        self.body(name.clone(), context, at)?;
        Ok(Node::Template {
            at: token.start,
            name,
            pipe: Some(pipe),
        })
    }

    fn call(&mut self) -> Parsed<Node> {
        let context = "template clause";
        let token = self.take_word();
        let name = self.template_name(&token, context)?;
        let before = self.next;
        let pipe = if self.take_word().kind == TokenKind::RightDelim {
            None
        } else {
            self.next = before;
            Some(self.pipeline(context, &TokenKind::RightDelim)?)
        };
        Ok(Node::Template {
            at: token.start,
            name,
            pipe,
        })
    }

    fn control(&mut self, context: &str, at: usize) -> Parsed<Branch> {
        self.enter(at)?;
        let scope = self.variables.len();
        let pipe = self.pipeline(context, &TokenKind::RightDelim)?;
        let is_range = context == "range";
        self.ranges += usize::from(is_range);
        let (then, stop, _) = self.list()?;
        self.ranges -= usize::from(is_range);
        let mut otherwise = Vec::new();
        if matches!(stop, Stop::Else) {
            let next = self.peek().kind.clone();
            if context == "if" && next == TokenKind::If
                || context == "with" && next == TokenKind::With
            {
                let token = self.take();
                otherwise.push(Node::Branch(self.control(context, token.start)?));
            } else {
                let (nodes, stop, stop_at) = self.list()?;
                if matches!(stop, Stop::Else) {
                    return fail(stop_at, "expected end; found {{else}}");
                }
                otherwise = nodes;
            }
        }
        self.variables.truncate(scope);
        self.nesting -= 1;
        Ok(Branch {
            moves_dot: context == "with",
            pipe,
            then,
            otherwise,
        })
    }
}
