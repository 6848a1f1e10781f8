//! What stands inside of an action: pipelines, commands and operands.
//!
//! In: the parser behind the keyword. Out: a pipeline with its functions looked up and its
//! constants read. Unknown variables and functions, and refused functions, end the parse.

use super::{ParseError, Parsed, Parser, Token, TokenKind, fail, literal};
use crate::error::TemplateErrorKind;
use crate::functions::{Body, lookup};
use crate::runtime::Text;
use crate::template::tree::{Command, Operand, OperandKind, Pipe};
use std::sync::Arc;

impl Parser<'_> {
    pub(super) fn pipeline(&mut self, context: &str, end: &TokenKind) -> Parsed<Pipe> {
        let mut pipe = Pipe {
            at: self.peek_word().start,
            ..Pipe::default()
        };
        self.declarations(&mut pipe, context)?;
        loop {
            let before = self.next;
            let token = self.take_word();
            match token.kind {
                ref kind if kind == end => break,
                TokenKind::Bool
                | TokenKind::CharConstant
                | TokenKind::Complex
                | TokenKind::Dot
                | TokenKind::Field
                | TokenKind::Identifier
                | TokenKind::Number
                | TokenKind::Nil
                | TokenKind::RawString
                | TokenKind::Str
                | TokenKind::Variable
                | TokenKind::LeftParen => {
                    self.next = before;
                    pipe.commands.push(self.command()?);
                }
                _ => return self.unexpected(&token, context),
            }
        }
        if pipe.commands.is_empty() {
            return fail(pipe.at, format!("missing value for {context}"));
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
                return fail(command.at, message);
            }
        }
        Ok(pipe)
    }

    /// `$x :=`, `$x =`, and in a range `$i, $x :=`.
    fn declarations(&mut self, pipe: &mut Pipe, context: &str) -> Parsed<()> {
        while self.peek_word().kind == TokenKind::Variable {
            let before = self.next;
            let token = self.take();
            let name: Text = Arc::from(self.slice(&token));
            let next = self.peek_word().clone();
            match next.kind {
                TokenKind::Assign | TokenKind::Declare => {
                    pipe.assigns = next.kind == TokenKind::Assign;
                    self.take();
                    pipe.variables.push(name.clone());
                    self.variables.push(name);
                    return Ok(());
                }
                TokenKind::Char if self.slice(&next) == b"," => {
                    self.take();
                    pipe.variables.push(name.clone());
                    self.variables.push(name);
                    if context == "range" && pipe.variables.len() < 2 {
                        let at = self.peek_word().start;
                        if !matches!(
                            self.peek().kind,
                            TokenKind::Variable | TokenKind::RightDelim | TokenKind::RightParen
                        ) {
                            return fail(at, "range can only initialize variables");
                        }
                        continue;
                    }
                    let message = format!("too many declarations in {context}");
                    return fail(token.start, message);
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
        let mut command = Command {
            at: self.peek_word().start,
            words: Vec::new(),
        };
        loop {
            self.skip_space();
            if let Some(operand) = self.operand()? {
                command.words.push(operand);
            }
            let before = self.next;
            let token = self.take();
            match token.kind {
                TokenKind::Space => {}
                TokenKind::RightDelim | TokenKind::RightParen => {
                    self.next = before;
                    break;
                }
                TokenKind::Pipe => break,
                _ => return self.unexpected(&token, "operand"),
            }
        }
        if command.words.is_empty() {
            return fail(command.at, "empty command");
        }
        Ok(command)
    }

    fn operand(&mut self) -> Parsed<Option<Operand>> {
        let Some(term) = self.term()? else {
            return Ok(None);
        };
        if self.peek().kind != TokenKind::Field {
            return Ok(Some(term));
        }
        let at = self.peek().start;
        let mut fields = Vec::new();
        while self.peek().kind == TokenKind::Field {
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
            | OperandKind::Dot => return fail(at, "unexpected . after term"),
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
            TokenKind::Identifier => self.function(&token)?,
            TokenKind::Dot => OperandKind::Dot,
            TokenKind::Nil => OperandKind::Nil,
            TokenKind::Variable => {
                let name: Text = Arc::from(self.slice(&token));
                if !self.variables.contains(&name) {
                    let shown = self.show(&token);
                    return fail(at, format!("undefined variable {shown:?}"));
                }
                OperandKind::Variable(name, Vec::new())
            }
            TokenKind::Field => OperandKind::Field(vec![self.field_name(&token)]),
            TokenKind::Bool => OperandKind::Bool(self.slice(&token) == b"true"),
            TokenKind::CharConstant | TokenKind::Complex | TokenKind::Number => {
                let text = self.show(&token);
                let number = match token.kind {
                    TokenKind::CharConstant => literal::character(self.slice(&token)),
                    TokenKind::Complex => literal::complex(&text),
                    _ => literal::number(&text),
                };
                match number {
                    Ok(number) => OperandKind::Number(number),
                    Err(message) => return fail(at, message),
                }
            }
            TokenKind::LeftParen => {
                self.enter(at)?;
                let pipe = self.pipeline("parenthesized pipeline", &TokenKind::RightParen)?;
                self.nesting -= 1;
                OperandKind::Pipe(pipe)
            }
            TokenKind::Str | TokenKind::RawString => OperandKind::Str(self.unquoted(&token)?),
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
            return fail(token.start, format!("function {name:?} not defined"));
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
