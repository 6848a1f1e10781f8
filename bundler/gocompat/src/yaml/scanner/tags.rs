//! Directives, anchors, aliases and tags.
//!
//! In: the scanner at `%`, `&`, `*` or `!`. Out: one token.

use super::{
    Mark, Scan, Scanner, YamlTokenKind, fail, is_blank, is_blank_or_end, is_break, is_break_or_end,
    is_word,
};

impl Scanner {
    pub(super) fn scan_directive(&mut self) -> Scan<()> {
        let start = self.mark;
        self.skip();
        let mut name = String::new();
        while is_word(self.at(0)) {
            self.read(&mut name);
        }
        if name.is_empty() {
            return fail(start, "could not find expected directive name");
        }
        if !is_blank_or_end(self.at(0)) {
            return fail(start, "found unexpected non-alphabetical character");
        }
        let kind = match name.as_str() {
            "YAML" => {
                self.skip_blanks();
                let major = self.version_number(start)?;
                if self.at(0) != '.' {
                    return fail(start, "did not find expected digit or '.' character");
                }
                self.skip();
                YamlTokenKind::VersionDirective(major, self.version_number(start)?)
            }
            "TAG" => {
                self.skip_blanks();
                let handle = self.tag_handle(true, start)?;
                if !is_blank(self.at(0)) {
                    return fail(start, "did not find expected whitespace");
                }
                self.skip_blanks();
                let prefix = self.tag_uri("", start)?;
                if !is_blank_or_end(self.at(0)) {
                    return fail(start, "did not find expected whitespace or line break");
                }
                YamlTokenKind::TagDirective { handle, prefix }
            }
            _ => return fail(start, "found unknown directive name"),
        };
        self.skip_blanks();
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
        self.push(kind, start);
        Ok(())
    }

    fn skip_blanks(&mut self) {
        while is_blank(self.at(0)) {
            self.skip();
        }
    }

    fn version_number(&mut self, start: Mark) -> Scan<u32> {
        let mut digits = String::new();
        while self.at(0).is_ascii_digit() {
            self.read(&mut digits);
            if digits.len() > 2 {
                return fail(start, "found extremely long version number");
            }
        }
        match digits.parse() {
            Ok(number) => Ok(number),
            Err(_) => fail(start, "did not find expected version number"),
        }
    }

    pub(super) fn scan_anchor(&mut self, alias: bool) -> Scan<()> {
        let start = self.mark;
        self.skip();
        let mut name = String::new();
        while is_word(self.at(0)) {
            self.read(&mut name);
        }
        let c = self.at(0);
        let ends = is_blank_or_end(c) || matches!(c, '?' | ':' | ',' | ']' | '}' | '%' | '@' | '`');
        if name.is_empty() || !ends {
            return fail(
                start,
                "did not find expected alphabetic or numeric character",
            );
        }
        self.push(
            if alias {
                YamlTokenKind::Alias(name)
            } else {
                YamlTokenKind::Anchor(name)
            },
            start,
        );
        Ok(())
    }

    pub(super) fn scan_tag(&mut self) -> Scan<()> {
        let start = self.mark;
        let (mut handle, mut suffix);
        if self.at(1) == '<' {
            self.skip();
            self.skip();
            handle = String::new();
            suffix = self.tag_uri("", start)?;
            if self.at(0) != '>' {
                return fail(start, "did not find the expected '>'");
            }
            self.skip();
        } else {
            handle = self.tag_handle(false, start)?;
            if handle.len() > 1 && handle.ends_with('!') {
                suffix = self.tag_uri("", start)?;
            } else {
                suffix = self.tag_uri(&handle, start)?;
                handle = "!".to_owned();
                if suffix.is_empty() {
                    std::mem::swap(&mut handle, &mut suffix);
                }
            }
        }
        if !is_blank_or_end(self.at(0)) {
            return fail(start, "did not find expected whitespace or line break");
        }
        self.push(YamlTokenKind::Tag { handle, suffix }, start);
        Ok(())
    }

    fn tag_handle(&mut self, directive: bool, start: Mark) -> Scan<String> {
        if self.at(0) != '!' {
            return fail(start, "did not find expected '!'");
        }
        let mut handle = String::new();
        self.read(&mut handle);
        while is_word(self.at(0)) {
            self.read(&mut handle);
        }
        if self.at(0) == '!' {
            self.read(&mut handle);
        } else if directive && handle != "!" {
            return fail(start, "did not find expected '!'");
        }
        Ok(handle)
    }

    /// The rest of a tag behind what was already read of it.
    fn tag_uri(&mut self, head: &str, start: Mark) -> Scan<String> {
        let mut out = head.get(1..).unwrap_or("").to_owned();
        let mut found = !head.is_empty();
        loop {
            let c = self.at(0);
            if c == '%' {
                self.uri_escape(&mut out, start)?;
            } else if is_word(c) || ";/?:@&=+$,.!~*'()[]".contains(c) {
                self.read(&mut out);
            } else {
                break;
            }
            found = true;
        }
        if !found {
            return fail(start, "did not find expected tag URI");
        }
        Ok(out)
    }

    /// One character in percent escapes.
    fn uri_escape(&mut self, out: &mut String, start: Mark) -> Scan<()> {
        let mut bytes = Vec::new();
        loop {
            let digits = self.at(1).to_digit(16).zip(self.at(2).to_digit(16));
            let Some((high, low)) = digits.filter(|_| self.at(0) == '%') else {
                return fail(start, "did not find URI escaped octet");
            };
            (0..3).for_each(|_| self.skip());
            bytes.push(u8::try_from(high << 4 | low).unwrap_or(0));
            if let Ok(text) = std::str::from_utf8(&bytes) {
                out.push_str(text);
                return Ok(());
            }
            if bytes.len() == 4 {
                return fail(start, "found an incorrect leading UTF-8 octet");
            }
        }
    }
}
