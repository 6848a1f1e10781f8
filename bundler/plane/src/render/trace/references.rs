//! References: what a template's text says that it takes of the platform config.
//!
//! What comes in: the text of one manifest, in Go's template language or in Jinja. What goes out: every
//! mention of `ConfigData` with its line, as a key or as the whole; and the lines that begin inside an
//! action. It reads only the text: what a variable or a macro holds it takes for the whole config.

use std::collections::BTreeSet;

/// What a mention names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// One key.
    Key(String),
    /// All of it, or what cannot be known from the text.
    Whole,
}

/// One mention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyReference {
    /// Line in the text, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What it names.
    pub names: Names,
}

/// All mentions in one text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// In the order of the text.
    pub all: Vec<KeyReference>,
    /// Lines that begin inside an action or comment.
    pub lines_inside: BTreeSet<usize>,
    /// Whether the data as a whole (`.` or `$`) is handed to a function: then any key may be used.
    pub whole_data: bool,
}

const CONFIG: &str = "ConfigData";

impl References {
    /// The mentions in `text`.
    pub fn of(text: &str) -> Self {
        let mut found = Self::default();
        let mut at = 0;
        while let Some(open) = next_open(text, at) {
            let (end, is_comment) = close(text, open);
            let first = line_of(text, open);
            let last = line_of(text, end.saturating_sub(1));
            found.lines_inside.extend(first + 1..=last);
            if !is_comment {
                found.action(text, open + 2, end);
            }
            at = end.max(open + 2);
        }
        found
    }

    fn action(&mut self, text: &str, start: usize, end: usize) {
        let action = text.get(start..end).unwrap_or_default();
        self.whole_data |= hands_over_everything(action);
        let mut from = 0;
        while let Some(at) = action[from..].find(CONFIG).map(|at| from + at) {
            from = at + CONFIG.len();
            let before = action[..at].chars().next_back();
            let inside_word = |c: char| c.is_alphanumeric() || c == '_';
            if before.is_some_and(inside_word) || action[from..].starts_with(inside_word) {
                continue;
            }
            let names = names(&action[..at], &action[from..]);
            let place = start + at;
            let line_start = text[..place].rfind('\n').map_or(0, |at| at + 1);
            self.all.push(KeyReference {
                line: line_of(text, place),
                column: text[line_start..place].chars().count() + 1,
                names,
            });
        }
    }
}

/// The next `{{`, `{%` or `{#`. Go knows only the first; the others are rare in its texts, and do no harm.
fn next_open(text: &str, from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    let at = rest
        .match_indices('{')
        .find(|(at, _)| matches!(rest.as_bytes().get(at + 1), Some(b'{' | b'%' | b'#')))?
        .0;
    Some(from + at)
}

/// Where the action that opens at `open` ends, and whether it is a comment. Quoted text does not end it.
fn close(text: &str, open: usize) -> (usize, bool) {
    let bytes = text.as_bytes();
    let kind = bytes.get(open + 1).copied().unwrap_or_default();
    let inner = text.get(open + 2..).unwrap_or_default();
    let trimmed = inner.trim_start_matches(['-', '+']).trim_start();
    let until = |needle: &str| {
        inner
            .find(needle)
            .map_or(text.len(), |at| open + 2 + at + needle.len())
    };
    if kind == b'#' {
        return (until("#}"), true);
    }
    if kind == b'{' && trimmed.starts_with("/*") {
        let end = inner.find("*/").map_or(text.len(), |at| open + 2 + at);
        let end = text
            .get(end..)
            .and_then(|rest| rest.find("}}"))
            .map_or(text.len(), |at| end + at + 2);
        return (end, true);
    }
    let ending = if kind == b'{' { b"}}" } else { b"%}" };
    let mut quote = None;
    let mut at = open + 2;
    while at < bytes.len() {
        let byte = bytes[at];
        match quote {
            Some(b'`') if byte == b'`' => quote = None,
            Some(mark) if mark != b'`' && byte == b'\\' => at += 1,
            Some(mark) if byte == mark || byte == b'\n' && mark != b'`' => quote = None,
            None if matches!(byte, b'"' | b'`' | b'\'') => quote = Some(byte),
            None if bytes[at..].starts_with(ending) => return (at + 2, false),
            Some(_) | None => {}
        }
        at += 1;
    }
    (text.len(), false)
}

/// What the mention names, from the text on both sides of it.
fn names(before: &str, after: &str) -> Names {
    let key = |text: &str| {
        let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_'));
        let word = &text[..end.unwrap_or(text.len())];
        (!word.is_empty()).then(|| word.to_owned())
    };
    if let Some(field) = after.strip_prefix('.') {
        // Jinja: `ConfigData.get("KEY")` and `ConfigData.items()`.
        if let Some(arguments) = field.strip_prefix("get(") {
            return quoted(arguments).map_or(Names::Whole, Names::Key);
        }
        let word = key(field);
        let call = word
            .as_ref()
            .is_some_and(|word| field[word.len()..].starts_with('('));
        return word.filter(|_| !call).map_or(Names::Whole, Names::Key);
    }
    if let Some(index) = after.trim_start().strip_prefix('[') {
        return quoted(index).map_or(Names::Whole, Names::Key);
    }
    // Go: `index .ConfigData "KEY"`, `get .ConfigData "KEY"`, `hasKey .ConfigData "KEY"`.
    let function = before.trim_end_matches(['.', '$']).trim_end();
    let function = function
        .rsplit(|c: char| !c.is_alphanumeric())
        .next()
        .unwrap_or_default();
    if matches!(function, "index" | "get" | "hasKey") {
        return quoted(after).map_or(Names::Whole, Names::Key);
    }
    // Jinja: `"KEY" in ConfigData`.
    let before = before.trim_end();
    if let Some(rest) = before.strip_suffix("in").map(str::trim_end)
        && let Some(rest) = rest.strip_suffix(['"', '\''])
        && let Some(start) = rest.rfind(['"', '\''])
    {
        return Names::Key(rest[start + 1..].to_owned());
    }
    Names::Whole
}

/// The text in quotes at the beginning.
fn quoted(text: &str) -> Option<String> {
    let text = text.trim_start();
    let mark = text
        .chars()
        .next()
        .filter(|c| matches!(c, '"' | '\'' | '`'))?;
    let inner = &text[1..];
    let end = inner.find(mark)?;
    Some(inner[..end].to_owned())
}

/// `toYaml .`, `$ | toJson`: anything but `template "x" .`, whose text is looked at itself.
fn hands_over_everything(action: &str) -> bool {
    let inner = action
        .trim_end_matches(['}', '%'])
        .trim_matches(['-', ' ', '\t', '\n']);
    let word = inner.split_whitespace().next().unwrap_or_default();
    if matches!(word, "template" | "block" | "define" | "include") {
        return false;
    }
    inner
        .split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '|' | ','))
        .any(|word| matches!(word, "." | "$"))
}

fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or(text).matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        let name = |reference: KeyReference| match reference.names {
            Names::Key(key) => key,
            Names::Whole => "*".into(),
        };
        References::of(text).all.into_iter().map(name).collect()
    }

    #[test]
    fn both_languages_name_keys_in_their_own_ways() {
        assert_eq!(
            keys("{{ .ConfigData.A }} {{ $.ConfigData.B.c }}"),
            ["A", "B"]
        );
        assert_eq!(
            keys("{{ index .ConfigData \"a-b\" }}{{ if hasKey .ConfigData \"C\" }}"),
            ["a-b", "C"]
        );
        assert_eq!(
            keys("{{ ConfigData.A }}{{ ConfigData['b'] }}{{ ConfigData.get(\"c\") }}"),
            ["A", "b", "c"]
        );
        assert_eq!(keys("{% if 'D' in ConfigData %}"), ["D"]);
        assert_eq!(
            keys("{{ toYaml .ConfigData | indent 2 }}{% for k in ConfigData.items() %}"),
            ["*", "*"]
        );
        assert_eq!(
            keys("{{ index .ConfigData .Name }}{{ .MyConfigData.X }} ConfigData.Y"),
            ["*"]
        );
    }

    #[test]
    fn comments_and_quotes_are_no_mentions_and_do_not_end_an_action() {
        assert_eq!(
            keys("{{/* .ConfigData.A */}}{# ConfigData.B #}"),
            Vec::<String>::new()
        );
        assert_eq!(keys("{{ print \"}}\" .ConfigData.A }}"), ["A"]);
    }

    #[test]
    fn lines_inside_an_action_are_known() {
        let found = References::of("a\n{{ if\n  .ConfigData.A\n}}b\nc");
        assert_eq!(found.lines_inside, BTreeSet::from([3, 4]));
        assert_eq!((found.all[0].line, found.all[0].column), (3, 4));
    }

    #[test]
    fn data_that_is_handed_over_whole_is_noticed() {
        assert!(References::of("{{ toYaml . }}").whole_data);
        assert!(!References::of("{{ template \"x\" . }}{{ .Labels.a }}").whole_data);
    }
}
