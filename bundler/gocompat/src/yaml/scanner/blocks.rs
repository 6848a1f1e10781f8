//! Literal and folded block scalars.
//!
//! In: the scanner at `|` or `>`. Out: one scalar token.

use super::{
    Mark, Quoting, Scan, Scanner, YamlTokenKind, fail, is_blank, is_break, is_break_or_end,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chomping {
    Clip,
    Keep,
    Strip,
}

impl Scanner {
    fn chomping(&mut self) -> Option<Chomping> {
        let found = match self.at(0) {
            '+' => Chomping::Keep,
            '-' => Chomping::Strip,
            _ => return None,
        };
        self.skip();
        Some(found)
    }

    fn increment(&mut self, start: Mark) -> Scan<Option<i64>> {
        let Some(digit) = self.at(0).to_digit(10) else {
            return Ok(None);
        };
        if digit == 0 {
            return fail(start, "found an indentation indicator equal to 0");
        }
        self.skip();
        Ok(Some(i64::from(digit)))
    }

    pub(super) fn scan_block_scalar(&mut self, literal: bool) -> Scan<()> {
        let start = self.mark;
        self.skip();
        let mut chomping = self.chomping();
        let increment = self.increment(start)?;
        if chomping.is_none() && increment.is_some() {
            chomping = self.chomping();
        }
        let chomping = chomping.unwrap_or(Chomping::Clip);
        while is_blank(self.at(0)) {
            self.skip();
        }
        if self.at(0) == '#' {
            while !is_break_or_end(self.at(0)) {
                self.skip();
            }
        }
        if !is_break_or_end(self.at(0)) {
            return fail(start, "did not find expected comment or line break");
        }
        if is_break(self.at(0)) {
            self.skip_line();
        }
        let mut indent = increment.map_or(0, |increment| self.indent.max(0) + increment);
        let (mut out, mut leading, mut trailing) = (String::new(), String::new(), String::new());
        self.block_breaks(&mut indent, &mut trailing, start)?;
        let mut leading_blank = false;
        while self.column() == indent && self.at(0) != super::END {
            let trailing_blank = is_blank(self.at(0));
            if !literal && !leading_blank && !trailing_blank && leading.starts_with('\n') {
                if trailing.is_empty() {
                    out.push(' ');
                }
            } else {
                out.push_str(&leading);
            }
            leading.clear();
            out.push_str(&trailing);
            trailing.clear();
            leading_blank = is_blank(self.at(0));
            while !is_break_or_end(self.at(0)) {
                self.read(&mut out);
            }
            if is_break(self.at(0)) {
                self.read_line(&mut leading);
            }
            self.block_breaks(&mut indent, &mut trailing, start)?;
        }
        if chomping != Chomping::Strip {
            out.push_str(&leading);
        }
        if chomping == Chomping::Keep {
            out.push_str(&trailing);
        }
        self.push(YamlTokenKind::Scalar(out, Quoting::Quoted), start);
        Ok(())
    }

    /// Indentation and empty lines; finds the indent when none was given.
    fn block_breaks(&mut self, indent: &mut i64, breaks: &mut String, start: Mark) -> Scan<()> {
        let mut deepest = 0;
        loop {
            while (*indent == 0 || self.column() < *indent) && self.at(0) == ' ' {
                self.skip();
            }
            deepest = deepest.max(self.column());
            if (*indent == 0 || self.column() < *indent) && self.at(0) == '\t' {
                return fail(
                    start,
                    "found a tab character where an indentation space is expected",
                );
            }
            if !is_break(self.at(0)) {
                break;
            }
            self.read_line(breaks);
        }
        if *indent == 0 {
            *indent = deepest.max(self.indent + 1).max(1);
        }
        Ok(())
    }
}
