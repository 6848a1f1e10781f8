//! Template text to tokens: the same cuts as Go's `text/template/parse`.
//!
//! In: bytes of a template; they need not be UTF-8. Out: tokens with their places.
//! A lexical error is the last token; the parser reports it when it gets there.
//! Never backtracks over more than one token, so it is linear in the text.

use unicode_general_category::{GeneralCategory, get_general_category};

/// Kinds of tokens; keywords have their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenKind {
    Error(String),
    Assign,
    Bool,
    Char,
    CharConstant,
    Complex,
    Declare,
    Dot,
    Eof,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Nil,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    Str,
    Text,
    Variable,
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Range,
    Template,
    With,
}

/// A token: `text[start..end]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub start: usize,
    pub end: usize,
}

struct Lexer<'t> {
    text: &'t [u8],
    start: usize,
    at: usize,
    parens: usize,
    tokens: Vec<Token>,
}

const OPEN: &[u8] = b"{{";
const CLOSE: &[u8] = b"}}";
/// A trim marker is a dash and a space.
const MARKER: usize = 2;

/// All tokens of a template, the last of which is `Eof` or `Error`.
pub(super) fn tokens(text: &[u8]) -> Vec<Token> {
    let mut lexer = Lexer {
        text,
        start: 0,
        at: 0,
        parens: 0,
        tokens: Vec::new(),
    };
    if let Err(message) = lexer.run() {
        lexer.start = lexer.start.min(text.len());
        lexer.emit(TokenKind::Error(message));
    }
    lexer.tokens
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_letter_or_digit(c: char) -> bool {
    if c.is_ascii() {
        return c == '_' || c.is_ascii_alphanumeric();
    }
    matches!(
        get_general_category(c),
        GeneralCategory::UppercaseLetter
            | GeneralCategory::LowercaseLetter
            | GeneralCategory::TitlecaseLetter
            | GeneralCategory::ModifierLetter
            | GeneralCategory::OtherLetter
            | GeneralCategory::DecimalNumber
    )
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len())
        .position(|window| window == wanted)
}

impl Lexer<'_> {
    fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or(&[])
    }

    fn emit(&mut self, kind: TokenKind) {
        self.tokens.push(Token {
            kind,
            start: self.start,
            end: self.at,
        });
        self.start = self.at;
    }

    fn peek(&self) -> Option<char> {
        let rest = self.rest();
        let first = *rest.first()?;
        if first.is_ascii() {
            return Some(char::from(first));
        }
        let head = &rest[..rest.len().min(4)];
        let valid = head
            .utf8_chunks()
            .next()
            .and_then(|chunk| chunk.valid().chars().next());
        Some(valid.unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        let invalid =
            c == char::REPLACEMENT_CHARACTER && !self.rest().starts_with("\u{fffd}".as_bytes());
        self.at += if invalid { 1 } else { c.len_utf8() };
        Some(c)
    }

    fn run(&mut self) -> Result<(), String> {
        loop {
            let Some(open) = find(self.rest(), OPEN) else {
                self.at = self.text.len();
                if self.at > self.start {
                    self.emit(TokenKind::Text);
                }
                self.emit(TokenKind::Eof);
                return Ok(());
            };
            let open = self.at + open;
            let trims = self.has_left_marker(open + OPEN.len());
            self.at = open;
            if trims {
                while self.at > self.start && is_space(self.text[self.at - 1]) {
                    self.at -= 1;
                }
            }
            if self.at > self.start {
                self.emit(TokenKind::Text);
            }
            self.start = open;
            self.at = open + OPEN.len();
            let marker = if trims { MARKER } else { 0 };
            if self
                .rest()
                .get(marker..)
                .is_some_and(|rest| rest.starts_with(b"/*"))
            {
                self.at += marker;
                self.comment()?;
                continue;
            }
            self.emit(TokenKind::LeftDelim);
            self.at += marker;
            self.start = self.at;
            self.parens = 0;
            self.action()?;
        }
    }

    fn has_left_marker(&self, at: usize) -> bool {
        self.text.get(at) == Some(&b'-') && self.text.get(at + 1).is_some_and(|b| is_space(*b))
    }

    /// Whether a closing delimiter begins at `at`, and whether it trims.
    fn right_delim(&self, at: usize) -> Option<bool> {
        let rest = self.text.get(at..)?;
        if rest.len() >= 2
            && is_space(rest[0])
            && rest[1] == b'-'
            && rest[MARKER..].starts_with(CLOSE)
        {
            return Some(true);
        }
        rest.starts_with(CLOSE).then_some(false)
    }

    fn close(&mut self, trims: bool) {
        if trims {
            self.at += MARKER;
            self.start = self.at;
        }
        self.at += CLOSE.len();
    }

    fn trim_after(&mut self) {
        while self.rest().first().is_some_and(|byte| is_space(*byte)) {
            self.at += 1;
        }
    }

    fn comment(&mut self) -> Result<(), String> {
        self.start = self.at;
        self.at += 2;
        let end = find(self.rest(), b"*/").ok_or("unclosed comment")?;
        self.at += end + 2;
        let trims = self
            .right_delim(self.at)
            .ok_or("comment ends before closing delimiter")?;
        self.close(trims);
        if trims {
            self.trim_after();
        }
        self.start = self.at;
        Ok(())
    }

    /// Everything up to and with the closing delimiter.
    fn action(&mut self) -> Result<(), String> {
        loop {
            if let Some(trims) = self.right_delim(self.at) {
                if self.parens > 0 {
                    return Err("unclosed left paren".to_owned());
                }
                self.close(trims);
                self.emit(TokenKind::RightDelim);
                if trims {
                    self.trim_after();
                    self.start = self.at;
                }
                return Ok(());
            }
            self.inside()?;
        }
    }

    fn inside(&mut self) -> Result<(), String> {
        let Some(c) = self.next() else {
            return Err("unclosed action".to_owned());
        };
        match c {
            ' ' | '\t' | '\r' | '\n' => self.space(),
            '=' => self.emit(TokenKind::Assign),
            ':' => {
                if self.next() != Some('=') {
                    return Err("expected :=".to_owned());
                }
                self.emit(TokenKind::Declare);
            }
            '|' => self.emit(TokenKind::Pipe),
            '"' => self.quoted('"', "unterminated quoted string", TokenKind::Str)?,
            '\'' => self.quoted(
                '\'',
                "unterminated character constant",
                TokenKind::CharConstant,
            )?,
            '`' => {
                let end = find(self.rest(), b"`").ok_or("unterminated raw quoted string")?;
                self.at += end + 1;
                self.emit(TokenKind::RawString);
            }
            '$' if self.at_terminator() => self.emit(TokenKind::Variable),
            '$' => self.name(TokenKind::Variable)?,
            '.' if self
                .rest()
                .first()
                .is_some_and(|byte| !byte.is_ascii_digit()) =>
            {
                if self.at_terminator() {
                    self.emit(TokenKind::Dot);
                } else {
                    self.name(TokenKind::Field)?;
                }
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.at = self.start;
                self.number()?;
            }
            c if is_letter_or_digit(c) => self.identifier()?,
            '(' => {
                self.parens += 1;
                self.emit(TokenKind::LeftParen);
            }
            ')' => {
                self.parens = self.parens.checked_sub(1).ok_or("unexpected right paren")?;
                self.emit(TokenKind::RightParen);
            }
            ' '..='~' => self.emit(TokenKind::Char),
            other => {
                let code = u32::from(other);
                return Err(format!("unrecognized character in action: U+{code:04X}"));
            }
        }
        Ok(())
    }

    fn space(&mut self) {
        while self.rest().first().is_some_and(|byte| is_space(*byte)) {
            self.at += 1;
        }
        // The last space may belong to a trimming delimiter.
        if self.right_delim(self.at - 1) == Some(true) {
            self.at -= 1;
            if self.at == self.start {
                return;
            }
        }
        self.emit(TokenKind::Space);
    }

    fn quoted(&mut self, mark: char, unterminated: &str, kind: TokenKind) -> Result<(), String> {
        loop {
            match self.next() {
                Some('\\') => {
                    if matches!(self.next(), None | Some('\n')) {
                        return Err(unterminated.to_owned());
                    }
                }
                None | Some('\n') => return Err(unterminated.to_owned()),
                Some(c) if c == mark => break,
                Some(_) => {}
            }
        }
        self.emit(kind);
        Ok(())
    }

    fn at_terminator(&self) -> bool {
        match self.rest().first() {
            None => true,
            Some(byte) => {
                is_space(*byte)
                    || matches!(byte, b'.' | b',' | b'|' | b':' | b')' | b'(')
                    || self.rest().starts_with(CLOSE)
            }
        }
    }

    fn absorb(&mut self) {
        while self.peek().is_some_and(is_letter_or_digit) {
            self.next();
        }
    }

    fn terminated(&self) -> Result<(), String> {
        if self.at_terminator() {
            return Ok(());
        }
        let c = self.peek().unwrap_or_default();
        let code = u32::from(c);
        if c.is_control() {
            return Err(format!("bad character U+{code:04X}"));
        }
        Err(format!("bad character U+{code:04X} '{c}'"))
    }

    fn name(&mut self, kind: TokenKind) -> Result<(), String> {
        self.absorb();
        self.terminated()?;
        self.emit(kind);
        Ok(())
    }

    fn identifier(&mut self) -> Result<(), String> {
        self.absorb();
        self.terminated()?;
        let kind = match &self.text[self.start..self.at] {
            b"block" => TokenKind::Block,
            b"break" => TokenKind::Break,
            b"continue" => TokenKind::Continue,
            b"define" => TokenKind::Define,
            b"else" => TokenKind::Else,
            b"end" => TokenKind::End,
            b"if" => TokenKind::If,
            b"range" => TokenKind::Range,
            b"nil" => TokenKind::Nil,
            b"template" => TokenKind::Template,
            b"with" => TokenKind::With,
            b"true" | b"false" => TokenKind::Bool,
            _ => TokenKind::Identifier,
        };
        self.emit(kind);
        Ok(())
    }

    fn accept(&mut self, set: &[u8]) -> bool {
        let found = self.rest().first().is_some_and(|byte| set.contains(byte));
        self.at += usize::from(found);
        found
    }

    fn accept_run(&mut self, set: &[u8]) {
        while self.accept(set) {}
    }

    fn number(&mut self) -> Result<(), String> {
        let bad = |lexer: &Self| {
            let text = String::from_utf8_lossy(&lexer.text[lexer.start..lexer.at]).into_owned();
            format!("bad number syntax: {text:?}")
        };
        if !self.scan_number() {
            return Err(bad(self));
        }
        if matches!(self.rest().first(), Some(b'+' | b'-')) {
            if !self.scan_number() || self.text[self.at - 1] != b'i' {
                return Err(bad(self));
            }
            self.emit(TokenKind::Complex);
        } else {
            self.emit(TokenKind::Number);
        }
        Ok(())
    }

    fn scan_number(&mut self) -> bool {
        self.accept(b"+-");
        let mut digits: &[u8] = b"0123456789_";
        if self.accept(b"0") {
            if self.accept(b"xX") {
                digits = b"0123456789abcdefABCDEF_";
            } else if self.accept(b"oO") {
                digits = b"01234567_";
            } else if self.accept(b"bB") {
                digits = b"01_";
            }
        }
        self.accept_run(digits);
        if self.accept(b".") {
            self.accept_run(digits);
        }
        if digits.len() == 11 && self.accept(b"eE") || digits.len() == 23 && self.accept(b"pP") {
            self.accept(b"+-");
            self.accept_run(b"0123456789_");
        }
        self.accept(b"i");
        if self.peek().is_some_and(is_letter_or_digit) {
            self.next();
            return false;
        }
        true
    }
}
