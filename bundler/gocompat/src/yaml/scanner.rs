//! YAML text to tokens: libyaml's scanner, on demand.
//!
//! In: text. Out: one token at a time, with block structure as its own tokens.
//! On demand matters: an error behind the first document is not an error of it.
//! What counts as an implicit key, and how far one may reach (one line, 1024 characters),
//! is libyaml's, for it decides what Kalypso takes for text.

use crate::error::YamlError;
use crate::json::MAX_DEPTH;
use std::collections::{HashMap, VecDeque};

mod blocks;
mod flow;
mod tags;

/// A place: characters from 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub index: usize,
    pub line: usize,
    pub column: usize,
}

/// How a scalar was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoting {
    Plain,
    Quoted,
}

/// Kinds of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum YamlTokenKind {
    StreamEnd,
    VersionDirective(u32, u32),
    TagDirective { handle: String, prefix: String },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    Tag { handle: String, suffix: String },
    Scalar(String, Quoting),
}

/// A token and where it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub kind: YamlTokenKind,
    pub mark: Mark,
}

/// A place where an implicit key may have begun.
#[derive(Debug, Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    required: bool,
    token: usize,
    mark: Mark,
}

/// libyaml's scanner state.
pub(super) struct Scanner {
    text: Vec<char>,
    mark: Mark,
    tokens: VecDeque<Token>,
    /// Tokens already handed out.
    taken: usize,
    indent: i64,
    indents: Vec<i64>,
    simple_keys: Vec<SimpleKey>,
    /// Which key may begin with which token. libyaml's Go port forgets the key that a bracket
    /// begins when the bracket closes, and so `{}: a` at the start is `{}`.
    keys_by_token: HashMap<usize, usize>,
    /// Tokens that are read ahead at least; `yaml.v3` reads two for its comments.
    ahead: usize,
    simple_key_allowed: bool,
    flow_level: usize,
    ended: bool,
}

pub(super) type Scan<T> = Result<T, YamlError>;

/// Nesting of blocks or of brackets.
const MAX_NESTING: usize = MAX_DEPTH * 2;

/// What comes after the end of the text.
const END: char = '\0';

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

fn is_break_or_end(c: char) -> bool {
    c == END || is_break(c)
}

fn is_blank_or_end(c: char) -> bool {
    is_blank(c) || is_break_or_end(c)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// An error at a place.
pub(super) fn fail<T>(mark: Mark, message: impl Into<String>) -> Scan<T> {
    Err(YamlError {
        message: message.into(),
        line: mark.line + 1,
        column: mark.column + 1,
    })
}

impl Scanner {
    /// Checks the characters and starts.
    pub fn new(text: &str, ahead: usize) -> Scan<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let chars: Vec<char> = text.chars().collect();
        let allowed = |c: char| {
            matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}'
                | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        };
        if let Some(at) = chars.iter().position(|c| !allowed(*c)) {
            let line = chars[..at].iter().filter(|c| **c == '\n').count();
            let column = chars[..at].iter().rev().take_while(|c| **c != '\n').count();
            return fail(
                Mark {
                    index: at,
                    line,
                    column,
                },
                "control characters are not allowed",
            );
        }
        Ok(Self {
            text: chars,
            mark: Mark::default(),
            tokens: VecDeque::new(),
            taken: 0,
            indent: -1,
            indents: Vec::new(),
            simple_keys: vec![SimpleKey::default()],
            keys_by_token: HashMap::new(),
            ahead,
            simple_key_allowed: true,
            flow_level: 0,
            ended: false,
        })
    }

    /// The next token, without taking it.
    pub fn peek(&mut self) -> Scan<&Token> {
        self.fetch_more()?;
        match self.tokens.front() {
            Some(token) => Ok(token),
            None => fail(self.mark, "the text ended"),
        }
    }

    /// Takes the token that [`Self::peek`] showed.
    pub fn take(&mut self) -> Scan<Token> {
        self.fetch_more()?;
        match self.tokens.pop_front() {
            Some(token) => {
                self.taken += 1;
                Ok(token)
            }
            None => fail(self.mark, "the text ended"),
        }
    }

    /// Reads on for as long as the first token could still become a key.
    fn fetch_more(&mut self) -> Scan<()> {
        loop {
            if self.tokens.len() > self.ahead {
                let first = self.keys_by_token.get(&self.taken).copied();
                let Some(at) = first else { return Ok(()) };
                if !self.key_is_valid(at)? {
                    return Ok(());
                }
            }
            if self.ended {
                return Ok(());
            }
            self.fetch_next()?;
        }
    }

    fn at(&self, ahead: usize) -> char {
        self.text
            .get(self.mark.index + ahead)
            .copied()
            .unwrap_or(END)
    }

    fn skip(&mut self) {
        self.mark.index += 1;
        self.mark.column += 1;
    }

    fn skip_line(&mut self) {
        if self.at(0) == '\r' && self.at(1) == '\n' {
            self.mark.index += 1;
        }
        self.mark.index += 1;
        self.mark.column = 0;
        self.mark.line += 1;
    }

    fn read(&mut self, out: &mut String) {
        out.push(self.at(0));
        self.skip();
    }

    fn read_line(&mut self, out: &mut String) {
        match self.at(0) {
            c @ ('\u{2028}' | '\u{2029}') => out.push(c),
            _ => out.push('\n'),
        }
        self.skip_line();
    }

    fn column(&self) -> i64 {
        i64::try_from(self.mark.column).unwrap_or(i64::MAX)
    }

    fn push(&mut self, kind: YamlTokenKind, mark: Mark) {
        self.tokens.push_back(Token { kind, mark });
    }

    fn fetch_next(&mut self) -> Scan<()> {
        self.skip_to_token();
        self.unroll_indent(self.column());
        let c = self.at(0);
        if c == END {
            return self.fetch_end();
        }
        if self.mark.column == 0 && c == '%' {
            return self.fetch_directive();
        }
        if self.at_document_indicator() {
            let kind = if c == '-' {
                YamlTokenKind::DocumentStart
            } else {
                YamlTokenKind::DocumentEnd
            };
            self.unroll_indent(-1);
            self.remove_simple_key()?;
            self.simple_key_allowed = false;
            let mark = self.mark;
            (0..3).for_each(|_| self.skip());
            self.push(kind, mark);
            return Ok(());
        }
        let spaced = is_blank_or_end(self.at(1));
        let in_flow = self.flow_level > 0;
        match c {
            '[' => self.flow_start(YamlTokenKind::FlowSequenceStart),
            '{' => self.flow_start(YamlTokenKind::FlowMappingStart),
            ']' => self.flow_end(YamlTokenKind::FlowSequenceEnd),
            '}' => self.flow_end(YamlTokenKind::FlowMappingEnd),
            ',' => {
                self.remove_simple_key()?;
                self.simple_key_allowed = true;
                self.single(YamlTokenKind::FlowEntry);
                Ok(())
            }
            '-' if spaced => self.fetch_block_entry(),
            '?' if in_flow || spaced => self.fetch_key(),
            ':' if in_flow || spaced => self.fetch_value(),
            '*' | '&' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.scan_anchor(c == '*')
            }
            '!' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.scan_tag()
            }
            '|' | '>' if !in_flow => {
                self.remove_simple_key()?;
                self.simple_key_allowed = true;
                self.scan_block_scalar(c == '|')
            }
            '\'' | '"' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.scan_flow_scalar(c == '\'')
            }
            _ => {
                let plain = match c {
                    '-' => !is_blank(self.at(1)),
                    '?' | ':' => !in_flow && !spaced,
                    ',' | '[' | ']' | '{' | '}' | '#' | '&' | '*' | '!' | '|' | '>' | '\''
                    | '"' | '%' | '@' | '`' => false,
                    c => !is_blank_or_end(c),
                };
                if !plain {
                    return fail(self.mark, "found character that cannot start any token");
                }
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.scan_plain_scalar()
            }
        }
    }

    /// `---` or `...` at the start of a line.
    fn at_document_indicator(&self) -> bool {
        let c = self.at(0);
        self.mark.column == 0
            && (c == '-' || c == '.')
            && self.at(1) == c
            && self.at(2) == c
            && is_blank_or_end(self.at(3))
    }

    fn single(&mut self, kind: YamlTokenKind) {
        let mark = self.mark;
        self.skip();
        self.push(kind, mark);
    }

    fn skip_to_token(&mut self) {
        loop {
            while self.at(0) == ' '
                || ((self.flow_level > 0 || !self.simple_key_allowed) && self.at(0) == '\t')
            {
                self.skip();
            }
            if self.at(0) == '#' {
                while !is_break_or_end(self.at(0)) {
                    self.skip();
                }
            }
            if !is_break(self.at(0)) {
                return;
            }
            self.skip_line();
            if self.flow_level == 0 {
                self.simple_key_allowed = true;
            }
        }
    }

    /// Whether a possible key may still become one.
    fn key_is_valid(&mut self, at: usize) -> Scan<bool> {
        let mark = self.mark;
        let Some(key) = self.simple_keys.get_mut(at).filter(|key| key.possible) else {
            return Ok(false);
        };
        if key.mark.line < mark.line || key.mark.index + 1024 < mark.index {
            if key.required {
                return fail(key.mark, "could not find expected ':'");
            }
            key.possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn save_simple_key(&mut self) -> Scan<()> {
        if !self.simple_key_allowed {
            return Ok(());
        }
        let required = self.flow_level == 0 && self.indent == self.column();
        let token = self.taken + self.tokens.len();
        self.remove_simple_key()?;
        let at = self.simple_keys.len().saturating_sub(1);
        if let Some(key) = self.simple_keys.last_mut() {
            *key = SimpleKey {
                possible: true,
                required,
                token,
                mark: self.mark,
            };
            self.keys_by_token.insert(token, at);
        }
        Ok(())
    }

    fn remove_simple_key(&mut self) -> Scan<()> {
        let Some(key) = self.simple_keys.last_mut().filter(|key| key.possible) else {
            return Ok(());
        };
        if key.required {
            return fail(key.mark, "could not find expected ':'");
        }
        key.possible = false;
        let token = key.token;
        self.keys_by_token.remove(&token);
        Ok(())
    }

    /// Puts a token in front of the one with that number, or last when that one is gone.
    fn insert(&mut self, number: usize, token: Token) {
        match number.checked_sub(self.taken) {
            Some(at) if at <= self.tokens.len() => self.tokens.insert(at, token),
            _ => self.tokens.push_back(token),
        }
    }

    fn roll_indent(
        &mut self,
        column: i64,
        token: Option<usize>,
        kind: YamlTokenKind,
        mark: Mark,
    ) -> Scan<()> {
        if self.flow_level > 0 || self.indent >= column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column;
        if self.indents.len() > MAX_NESTING {
            return fail(mark, "nested too deep");
        }
        let start = Token { kind, mark };
        match token {
            None => self.tokens.push_back(start),
            Some(number) => self.insert(number, start),
        }
        Ok(())
    }

    fn unroll_indent(&mut self, column: i64) {
        if self.flow_level > 0 {
            return;
        }
        while self.indent > column {
            self.push(YamlTokenKind::BlockEnd, self.mark);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn fetch_end(&mut self) -> Scan<()> {
        if self.mark.column != 0 {
            self.mark.column = 0;
            self.mark.line += 1;
        }
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.push(YamlTokenKind::StreamEnd, self.mark);
        self.ended = true;
        Ok(())
    }

    fn fetch_directive(&mut self) -> Scan<()> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.scan_directive()
    }
}
