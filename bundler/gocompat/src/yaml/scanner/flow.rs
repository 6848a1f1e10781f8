//! Brackets, entries, keys and values, and scalars that are plain or quoted.
//!
//! In: the scanner at the first character. Out: tokens at the end of its queue, or before
//! a scalar that turns out to be a key.

use super::{
    END, MAX_NESTING, Mark, Quoting, Scan, Scanner, SimpleKey, Token, YamlTokenKind, fail,
    is_blank, is_blank_or_end, is_break,
};

/// White space and line breaks between the words of a folded scalar.
#[derive(Default)]
struct Gap {
    spaces: String,
    leading: String,
    trailing: String,
    has_break: bool,
}

impl Gap {
    /// What the gap means: one break is a space, more are themselves without the first.
    fn flush(&mut self, out: &mut String) {
        if self.has_break {
            if self.leading.starts_with('\n') {
                if self.trailing.is_empty() {
                    out.push(' ');
                } else {
                    out.push_str(&self.trailing);
                }
            } else {
                out.push_str(&self.leading);
                out.push_str(&self.trailing);
            }
        } else {
            out.push_str(&self.spaces);
        }
        self.spaces.clear();
        self.leading.clear();
        self.trailing.clear();
        self.has_break = false;
    }
}

impl Scanner {
    pub(super) fn flow_start(&mut self, kind: YamlTokenKind) -> Scan<()> {
        self.save_simple_key()?;
        let token = self.taken + self.tokens.len();
        self.simple_keys.push(SimpleKey {
            token,
            mark: self.mark,
            ..SimpleKey::default()
        });
        self.flow_level += 1;
        if self.flow_level > MAX_NESTING {
            return fail(self.mark, "nested too deep");
        }
        self.simple_key_allowed = true;
        self.single(kind);
        Ok(())
    }

    pub(super) fn flow_end(&mut self, kind: YamlTokenKind) -> Scan<()> {
        self.remove_simple_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            if let Some(key) = self.simple_keys.pop() {
                self.keys_by_token.remove(&key.token);
            }
        }
        self.simple_key_allowed = false;
        self.single(kind);
        Ok(())
    }

    pub(super) fn fetch_block_entry(&mut self) -> Scan<()> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return fail(
                    self.mark,
                    "block sequence entries are not allowed in this context",
                );
            }
            self.roll_indent(
                self.column(),
                None,
                YamlTokenKind::BlockSequenceStart,
                self.mark,
            )?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.single(YamlTokenKind::BlockEntry);
        Ok(())
    }

    pub(super) fn fetch_key(&mut self) -> Scan<()> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return fail(self.mark, "mapping keys are not allowed in this context");
            }
            self.roll_indent(
                self.column(),
                None,
                YamlTokenKind::BlockMappingStart,
                self.mark,
            )?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = self.flow_level == 0;
        self.single(YamlTokenKind::Key);
        Ok(())
    }

    pub(super) fn fetch_value(&mut self) -> Scan<()> {
        let last = self.simple_keys.len().saturating_sub(1);
        if self.key_is_valid(last)? {
            let key = self.simple_keys[last];
            self.insert(
                key.token,
                Token {
                    kind: YamlTokenKind::Key,
                    mark: key.mark,
                },
            );
            let column = i64::try_from(key.mark.column).unwrap_or(i64::MAX);
            self.roll_indent(
                column,
                Some(key.token),
                YamlTokenKind::BlockMappingStart,
                key.mark,
            )?;
            self.simple_keys[last].possible = false;
            self.keys_by_token.remove(&key.token);
            self.simple_key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.simple_key_allowed {
                    return fail(self.mark, "mapping values are not allowed in this context");
                }
                self.roll_indent(
                    self.column(),
                    None,
                    YamlTokenKind::BlockMappingStart,
                    self.mark,
                )?;
            }
            self.simple_key_allowed = self.flow_level == 0;
        }
        self.single(YamlTokenKind::Value);
        Ok(())
    }

    /// Reads blanks and breaks into a gap; `tabs_from` is the column left of which a tab is
    /// not allowed at the start of a line.
    fn gap(&mut self, gap: &mut Gap, tabs_from: Option<i64>, start: Mark) -> Scan<()> {
        while is_blank(self.at(0)) || is_break(self.at(0)) {
            if is_blank(self.at(0)) {
                if gap.has_break
                    && self.at(0) == '\t'
                    && tabs_from.is_some_and(|column| self.column() < column)
                {
                    return fail(start, "found a tab character that violates indentation");
                }
                if gap.has_break {
                    self.skip();
                } else {
                    self.read(&mut gap.spaces);
                }
            } else if gap.has_break {
                self.read_line(&mut gap.trailing);
            } else {
                gap.spaces.clear();
                self.read_line(&mut gap.leading);
                gap.has_break = true;
            }
        }
        Ok(())
    }

    pub(super) fn scan_plain_scalar(&mut self) -> Scan<()> {
        let start = self.mark;
        let indent = self.indent + 1;
        let mut out = String::new();
        let mut gap = Gap::default();
        loop {
            if self.at_document_indicator() || self.at(0) == '#' {
                break;
            }
            while !is_blank_or_end(self.at(0)) {
                let c = self.at(0);
                let ends = (c == ':' && is_blank_or_end(self.at(1)))
                    || (self.flow_level > 0 && matches!(c, ',' | '?' | '[' | ']' | '{' | '}'));
                if ends {
                    break;
                }
                gap.flush(&mut out);
                self.read(&mut out);
            }
            if !(is_blank(self.at(0)) || is_break(self.at(0))) {
                break;
            }
            self.gap(&mut gap, Some(indent), start)?;
            if self.flow_level == 0 && self.column() < indent {
                break;
            }
        }
        if gap.has_break {
            self.simple_key_allowed = true;
        }
        self.push(YamlTokenKind::Scalar(out, Quoting::Plain), start);
        Ok(())
    }

    pub(super) fn scan_flow_scalar(&mut self, single: bool) -> Scan<()> {
        let start = self.mark;
        let quote = if single { '\'' } else { '"' };
        let mut out = String::new();
        self.skip();
        loop {
            if self.at_document_indicator() {
                return fail(start, "found unexpected document indicator");
            }
            if self.at(0) == END {
                return fail(start, "found unexpected end of stream");
            }
            let mut gap = Gap::default();
            while !is_blank_or_end(self.at(0)) {
                let c = self.at(0);
                if single && c == '\'' && self.at(1) == '\'' {
                    out.push('\'');
                    self.skip();
                    self.skip();
                } else if c == quote {
                    break;
                } else if !single && c == '\\' && is_break(self.at(1)) {
                    self.skip();
                    self.skip_line();
                    gap.has_break = true;
                    break;
                } else if !single && c == '\\' {
                    self.escape(&mut out, start)?;
                } else {
                    self.read(&mut out);
                }
            }
            if self.at(0) == quote {
                break;
            }
            self.gap(&mut gap, None, start)?;
            gap.flush(&mut out);
        }
        self.skip();
        self.push(YamlTokenKind::Scalar(out, Quoting::Quoted), start);
        Ok(())
    }

    fn escape(&mut self, out: &mut String, start: Mark) -> Scan<()> {
        let mut digits = 0;
        match self.at(1) {
            '0' => out.push('\0'),
            'a' => out.push('\x07'),
            'b' => out.push('\x08'),
            't' | '\t' => out.push('\t'),
            'n' => out.push('\n'),
            'v' => out.push('\x0b'),
            'f' => out.push('\x0c'),
            'r' => out.push('\r'),
            'e' => out.push('\x1b'),
            c @ (' ' | '"' | '\'' | '\\') => out.push(c),
            'N' => out.push('\u{85}'),
            '_' => out.push('\u{a0}'),
            'L' => out.push('\u{2028}'),
            'P' => out.push('\u{2029}'),
            'x' => digits = 2,
            'u' => digits = 4,
            'U' => digits = 8,
            _ => return fail(start, "found unknown escape character"),
        }
        self.skip();
        self.skip();
        if digits == 0 {
            return Ok(());
        }
        let mut code: u32 = 0;
        for _ in 0..digits {
            let Some(digit) = self.at(0).to_digit(16) else {
                return fail(start, "did not find expected hexdecimal number");
            };
            code = code << 4 | digit;
            self.skip();
        }
        match char::from_u32(code) {
            Some(c) => {
                out.push(c);
                Ok(())
            }
            None => fail(start, "found invalid Unicode character escape code"),
        }
    }
}
