//! What a person most likely did where the parser gave up: the place and the words for it.
//!
//! What comes in: the text, the byte where the parser stopped and what it said. What goes out: a [`Mistake`]:
//! a missing colon is shown where it is missing, not in the line after it. It guesses from the two lines
//! there, and where it knows nothing better it says what the parser says.

use std::ops::Range;

/// What is wrong, where, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    /// The bytes to show.
    pub span: Range<usize>,
    /// What is wrong, for people.
    pub message: String,
    /// What to do.
    pub help: String,
}

/// A line of the text, and where it begins.
#[derive(Clone, Copy)]
struct Line<'t> {
    start: usize,
    text: &'t str,
}

impl<'t> Line<'t> {
    /// The line with the byte `at`.
    fn around(text: &'t str, at: usize) -> Self {
        let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let end = text[start..]
            .find('\n')
            .map_or(text.len(), |end| start + end);
        Self {
            start,
            text: &text[start..end],
        }
    }

    /// The last line before it that says something.
    fn before(self, text: &'t str) -> Option<Self> {
        let mut line = self;
        while line.start > 0 {
            line = Self::around(text, line.start - 1);
            let said = line.text.trim();
            if said == "---" {
                return None;
            }
            if !said.is_empty() && !said.starts_with('#') {
                return Some(line);
            }
        }
        None
    }

    fn indent(self) -> usize {
        self.text.len() - self.text.trim_start().len()
    }

    /// Its bytes without what is around them.
    fn span(self) -> Range<usize> {
        let from = self.start + self.indent();
        from..from + self.text.trim().len().max(1)
    }

    /// What stands before a comment, without the dashes of lists.
    fn content(self) -> &'t str {
        let said = self.text.split(" #").next().unwrap_or_default().trim();
        said.trim_start_matches("- ").trim()
    }

    /// Whether it should be `key: value` and has no colon that counts.
    fn lacks_colon(self) -> bool {
        let said = self.content();
        let quoted = said.starts_with(['"', '\'', '{', '[', '|', '>', '&', '*', '!']);
        !quoted && !said.is_empty() && !said.contains(": ") && !said.ends_with(':')
    }
}

pub(super) fn mistake(text: &str, at: usize, said: &str) -> Mistake {
    let at = (0..=at.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    let at = at.unwrap_or(0);
    let line = Line::around(text, at);
    let before = line.before(text);
    let indent = &line.text[..line.indent()];
    if indent.contains('\t') {
        return Mistake {
            span: line.start..line.start + indent.len(),
            message: "a tab indents this line".to_owned(),
            help: "YAML is indented with spaces: replace the tab".to_owned(),
        };
    }
    if said.contains("mapping values are not allowed") || said.contains("simple key expect") {
        if line.content().matches(": ").count() > 1 && before.is_none_or(|line| !line.lacks_colon())
        {
            return Mistake {
                span: at..at + 1,
                message: "a second `: ` in one line".to_owned(),
                help: "quote a value that holds `: `".to_owned(),
            };
        }
        let culprit = [before, Some(line)].into_iter().flatten();
        if let Some(culprit) = culprit.into_iter().find(|line| line.lacks_colon()) {
            return Mistake {
                span: culprit.span(),
                message: "there is no `key: value` in this line".to_owned(),
                help: "write a colon and a space after the key".to_owned(),
            };
        }
    }
    if let Some(open) = unclosed(text.get(..at).unwrap_or_default())
        && (said.contains("flow ") || said.contains("illegal placement"))
        && Line::around(text, open).start < line.start
    {
        let bracket = text.get(open..=open).unwrap_or_default();
        let close = if bracket == "{" { "}" } else { "]" };
        return Mistake {
            span: open..open + 1,
            message: format!("this `{bracket}` is not closed"),
            help: format!("write `{close}` where it ends"),
        };
    }
    let (here, there) = (line.indent(), before.map(Line::indent));
    let is_indented = said.contains("did not find expected key")
        || (said.contains("mapping values are not allowed")
            && before
                .is_some_and(|before| before.content().contains(": ") && here > before.indent()));
    if let (Some(there), true) = (there, is_indented)
        && here != there
    {
        return Mistake {
            span: line.span(),
            message: format!(
                "this line is indented by {here}, and the one before it by {there}"
            ),
            help: "the keys of one map begin in the same column; what belongs to a key is indented further"
                .to_owned(),
        };
    }
    let help = match said {
        said if said.contains("unknown anchor") => {
            "write `&NAME` at a value before this one, or write the value again"
        }
        _ => "check indentation, quotes and brackets here and in the line before",
    };
    Mistake {
        span: at..at + 1,
        message: said.to_owned(),
        help: help.to_owned(),
    }
}

/// The last `{` or `[` that begins a value and is still open at the end of `text`, where quotes and comments are left
/// out as far as a line shows them.
fn unclosed(text: &str) -> Option<usize> {
    let mut open = Vec::new();
    let (mut quote, mut before) = (None, ' ');
    for (at, found) in text.char_indices() {
        match (quote, found) {
            (Some(_), '\n') => quote = None,
            (Some('#'), _) => {}
            (Some(mark), _) if mark == found => quote = None,
            (None, '#' | '"' | '\'') if before.is_whitespace() => quote = Some(found),
            (None, '{' | '[') if !open.is_empty() || before.is_whitespace() => open.push(at),
            (None, '}' | ']') => drop(open.pop()),
            _ => {}
        }
        before = found;
    }
    open.pop()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::parse;
    use crate::diagnostic::SourceFile;

    /// Line, message and help of what is wrong with `text`.
    fn reported(text: &str) -> (usize, String, String) {
        let file = Arc::new(SourceFile {
            name: "x.yaml".into(),
            text: text.into(),
        });
        let finding = parse(&file).unwrap_err();
        let line = finding.location.as_ref().unwrap().line();
        let message = finding.message.trim_start_matches("not YAML: ").to_owned();
        (line, message, finding.help.clone().unwrap_or_default())
    }

    #[test]
    fn a_mistake_is_shown_where_a_person_made_it() {
        let colon = "there is no `key: value` in this line";
        for (text, line, message) in [
            ("spec:\n  reconciler watched\n  service: a\n", 2, colon),
            ("spec:\n  reconciler:watched\n  service: a\n", 2, colon),
            ("kind: a\nmetadata\n  name: b\n", 2, colon),
            ("spec:\n\treconciler: a\n", 2, "a tab indents this line"),
            ("a: b\nc: d: e\n", 2, "a second `: ` in one line"),
            (
                "spec:\n   a: b\n  c: d\n",
                3,
                "this line is indented by 2, and the one before it by 3",
            ),
            (
                "kind: a\n metadata:\n  name: b\n",
                2,
                "this line is indented by 1, and the one before it by 0",
            ),
            ("a: {b: c\nd: e\n", 1, "this `{` is not closed"),
            ("a: [b, c\n\nd:\n  e: f\n", 1, "this `[` is not closed"),
        ] {
            let (found, said, _) = reported(text);
            assert_eq!((found, said.as_str()), (line, message), "{text}");
        }
    }

    #[test]
    fn other_mistakes_are_reported_in_the_parser_s_words() {
        let (line, message, help) = reported("a: b\nc: @d\n");
        assert_eq!(line, 2, "{message}");
        assert!(help.contains("brackets"), "{help}");
        // Any byte of any text has a line.
        for text in ["", "\u{e4}", "a\n\u{e4}: [", "---\n\t"] {
            for at in 0..text.len() + 3 {
                super::mistake(text, at, "mapping values are not allowed");
            }
        }
    }
}
