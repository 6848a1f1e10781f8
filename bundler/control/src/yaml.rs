//! YAML as people wrote it: values with the place of each.
//!
//! What comes in: the text of a file with any number of documents. What goes out: one [`Node`] tree
//! per document, in which every value and every key knows its bytes in the file, or one finding for
//! what is not YAML. Typing is YAML 1.2's core schema; a scalar that was quoted, or written as a
//! block, is always text. Depth, size and what aliases expand to are bounded; keys appear once.

use outhaul_kit::bounds::{MAX_YAML_DEPTH, MAX_YAML_EXPANDED_BYTES};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::diagnostic::{Diagnostic, Location, SourceFile};

mod mistake;

/// Most values in one file, aliases expanded.
const MAX_NODES: usize = 1_000_000;

/// A value and where it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: YamlValue,
    /// Its bytes in the file.
    pub span: Range<usize>,
}

/// A YAML value.
#[derive(Debug, Clone, PartialEq)]
pub enum YamlValue {
    /// Nothing, or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as written.
    Number(String),
    /// Text.
    String(String),
    /// A list.
    Sequence(Vec<Node>),
    /// A map, in the order in which it is written.
    Mapping(Vec<MapEntry>),
}

/// One entry of a map.
#[derive(Debug, Clone, PartialEq)]
pub struct MapEntry {
    /// The key's text.
    pub key: String,
    /// Its bytes in the file.
    pub key_span: Range<usize>,
    /// The value.
    pub value: Node,
}

impl Node {
    /// What kind of value it is, for people.
    pub fn kind(&self) -> &'static str {
        match self.value {
            YamlValue::Null => "nothing",
            YamlValue::Bool(_) => "a boolean",
            YamlValue::Number(_) => "a number",
            YamlValue::String(_) => "text",
            YamlValue::Sequence(_) => "a list",
            YamlValue::Mapping(_) => "a map",
        }
    }

    /// The value of a map's key.
    pub fn field(&self, key: &str) -> Option<&Node> {
        match &self.value {
            YamlValue::Mapping(entries) => entries.iter().find(|e| e.key == key).map(|e| &e.value),
            _ => None,
        }
    }

    /// The text, when it is text.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            YamlValue::String(text) => Some(text),
            _ => None,
        }
    }
}

/// The documents of `file`; empty ones are left out.
///
/// # Errors
/// One finding, with its place, when the file is not YAML or passes a limit.
pub fn parse(file: &Arc<SourceFile>) -> Result<Vec<Node>, Box<Diagnostic>> {
    parse_part(file, 0..file.text.len())
}

/// The documents of one part of `file`, which begins and ends where a document does. Places are those
/// in the file.
///
/// # Errors
/// As [`parse`].
pub fn parse_part(
    file: &Arc<SourceFile>,
    part: Range<usize>,
) -> Result<Vec<Node>, Box<Diagnostic>> {
    let text = file.text.get(part.clone()).unwrap_or_default();
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        file,
        offsets: Offsets::of(text),
        start: part.start,
        anchors: BTreeMap::new(),
        nodes: 0,
        bytes: 0,
    };
    let mut documents = Vec::new();
    while let Some((event, span)) = reader.next()? {
        match event {
            Event::StreamEnd => break,
            Event::DocumentStart(_) => reader.anchors.clear(),
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            event => {
                let node = reader.node(event, span, 0)?;
                if node.value != YamlValue::Null {
                    documents.push(node);
                }
            }
        }
    }
    Ok(documents)
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    file: &'a Arc<SourceFile>,
    offsets: Offsets,
    /// Where in the file the parser's text begins.
    start: usize,
    /// Values that an alias may name, with how many values each holds and how much text.
    anchors: BTreeMap<usize, (Node, usize, usize)>,
    nodes: usize,
    bytes: usize,
}

type Failure = Box<Diagnostic>;

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, Failure> {
        match self.parser.next_event() {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(error)) => Err(self.syntax(&error)),
        }
    }

    fn expect(&mut self) -> Result<(Event<'a>, Span), Failure> {
        self.next()?.ok_or_else(|| {
            let end = self.file.text.len();
            self.fail(
                "yaml-syntax",
                "the file ends in the middle of a value",
                end..end,
            )
        })
    }

    /// From what the parser counts to bytes in the file.
    fn byte(&self, index: usize) -> usize {
        self.start + self.offsets.byte(index)
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Failure> {
        let start = self.byte(span.start.index());
        let own = start..self.byte(span.end.index());
        let before = (self.nodes, self.bytes);
        let text = match &event {
            Event::Scalar(text, ..) => text.len(),
            _ => 0,
        };
        self.count(1, text, &own)?;
        if depth > MAX_YAML_DEPTH {
            return Err(self.fail(
                "yaml-limit",
                format!("more than {MAX_YAML_DEPTH} levels deep"),
                own,
            ));
        }
        let (value, end, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let forced = tag.is_some_and(|tag| tag.suffix == "str");
                let value = if style == ScalarStyle::Plain && !forced {
                    plain(&text)
                } else {
                    let mut text = text.into_owned();
                    let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                    if block && self.ends_without_newline(own.end) {
                        text.truncate(text.trim_end_matches('\n').len());
                    }
                    YamlValue::String(text)
                };
                (value, own.end, anchor)
            }
            Event::SequenceStart(anchor, _) => {
                let mut items = Vec::new();
                let mut end = own.end;
                loop {
                    match self.expect()? {
                        (Event::SequenceEnd, span) => {
                            end = end.max(self.close(&span));
                            break;
                        }
                        (event, span) => {
                            let item = self.node(event, span, depth + 1)?;
                            end = end.max(item.span.end);
                            items.push(item);
                        }
                    }
                }
                (YamlValue::Sequence(items), end, anchor)
            }
            Event::MappingStart(anchor, _) => {
                let (entries, end) = self.mapping(own.end, depth)?;
                (YamlValue::Mapping(entries), end, anchor)
            }
            Event::Alias(id) => {
                let costs = self.anchors.get(&id).map(|known| (known.1, known.2));
                if let Some((nodes, bytes)) = costs {
                    self.count(nodes, bytes, &own)?;
                }
                let Some((target, ..)) = self.anchors.get(&id).cloned() else {
                    return Err(self.fail("yaml-syntax", "this alias names no anchor", own));
                };
                // The alias is where a person would change it; what it expands to keeps its places.
                return Ok(Node {
                    value: target.value,
                    span: own,
                });
            }
            _ => return Err(self.fail("yaml-syntax", "a value was expected here", own)),
        };
        let node = Node {
            value,
            span: start..end.max(start),
        };
        if anchor > 0 {
            let (nodes, bytes) = (self.nodes - before.0, self.bytes - before.1);
            // What is kept for aliases is a copy, and anchors may stand within anchors.
            self.count(nodes, bytes, &node.span)?;
            self.anchors.insert(anchor, (node.clone(), nodes, bytes));
        }
        Ok(node)
    }

    fn mapping(&mut self, start: usize, depth: usize) -> Result<(Vec<MapEntry>, usize), Failure> {
        let mut entries: Vec<MapEntry> = Vec::new();
        let mut seen: BTreeMap<String, Range<usize>> = BTreeMap::new();
        let mut merges = Vec::new();
        let mut end = start;
        loop {
            let (event, span) = self.expect()?;
            if event == Event::MappingEnd {
                end = end.max(self.close(&span));
                break;
            }
            let key_node = self.node(event, span, depth + 1)?;
            let key_span = key_node.span.clone();
            let (event, span) = self.expect()?;
            let value = self.node(event, span, depth + 1)?;
            end = end.max(key_span.end).max(value.span.end);
            let key = match key_node.value {
                YamlValue::String(text) | YamlValue::Number(text) => text,
                YamlValue::Bool(value) => value.to_string(),
                YamlValue::Null => "null".into(),
                YamlValue::Sequence(_) | YamlValue::Mapping(_) => {
                    return Err(self.fail(
                        "yaml-syntax",
                        "a key must be a single word or text",
                        key_span,
                    ));
                }
            };
            if key == "<<" {
                merges.push(value);
                continue;
            }
            if let Some(first) = seen.insert(key.clone(), key_span.clone()) {
                let first = Location::new(self.file, first);
                return Err(Box::new(
                    self.fail(
                        "duplicate-key",
                        format!("`{key}` is written twice"),
                        key_span,
                    )
                    .related(&first, "first here")
                    .help(match key.as_str() {
                        "apiVersion" | "kind" => {
                            "if another object begins here, write `---` on a separate line before it"
                        }
                        _ => "keep one of the two",
                    }),
                ));
            }
            entries.push(MapEntry {
                key,
                key_span,
                value,
            });
        }
        for merge in merges {
            let sources = match merge.value {
                YamlValue::Sequence(items) => items,
                _ => vec![merge],
            };
            for source in sources {
                let YamlValue::Mapping(merged) = source.value else {
                    return Err(self.fail("yaml-syntax", "`<<` merges maps only", source.span));
                };
                for entry in merged {
                    // The map's own keys are in `seen`, and so are those of maps merged before: a look through
                    // `entries` for each would cost the square of them.
                    if !seen.contains_key(&entry.key) {
                        seen.insert(entry.key.clone(), entry.key_span.clone());
                        entries.push(entry);
                    }
                }
            }
        }
        Ok((entries, end))
    }

    /// Where a list or map ends: after its closing bracket, and for a block nowhere of its own.
    fn close(&self, span: &Span) -> usize {
        if span.is_empty() {
            0
        } else {
            self.byte(span.end.index())
        }
    }

    /// A block that a file without a final newline ends with has none either: so Go's YAML reads it,
    /// and so Kalypso's templates were written.
    fn ends_without_newline(&self, end: usize) -> bool {
        let text = &self.file.text;
        !text.ends_with(char::is_whitespace) && end >= text.len()
    }

    /// Before anything is copied: what is refused was never held.
    fn count(&mut self, nodes: usize, bytes: usize, span: &Range<usize>) -> Result<(), Failure> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            let message = format!("more than {MAX_NODES} values once aliases are expanded");
            return Err(self.fail("yaml-limit", message, span.clone()));
        }
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_YAML_EXPANDED_BYTES {
            let most = MAX_YAML_EXPANDED_BYTES / (1024 * 1024);
            let message = format!("more than {most} MiB once aliases are expanded");
            return Err(self.fail("yaml-limit", message, span.clone()));
        }
        Ok(())
    }

    fn syntax(&self, error: &ScanError) -> Failure {
        let at = self.byte(error.marker().index());
        let found = mistake::mistake(&self.file.text, at, error.info());
        let message = format!("not YAML: {}", found.message);
        Box::new(
            self.fail("yaml-syntax", message, found.span)
                .help(found.help),
        )
    }

    fn fail(&self, code: &'static str, message: impl Into<String>, span: Range<usize>) -> Failure {
        Box::new(Diagnostic::error(code, message).at(&Location::new(self.file, span)))
    }
}

/// From characters, which the parser counts, to bytes.
enum Offsets {
    Ascii(usize),
    Table(Vec<usize>),
}

impl Offsets {
    fn of(text: &str) -> Self {
        if text.is_ascii() {
            return Self::Ascii(text.len());
        }
        Self::Table(
            text.char_indices()
                .map(|(at, _)| at)
                .chain([text.len()])
                .collect(),
        )
    }

    fn byte(&self, index: usize) -> usize {
        match self {
            Self::Ascii(len) => index.min(*len),
            Self::Table(table) => table[index.min(table.len() - 1)],
        }
    }
}

/// A plain scalar by YAML 1.2's core schema.
fn plain(text: &str) -> YamlValue {
    match text {
        _ if NULLS.contains(&text) => YamlValue::Null,
        _ if TRUES.contains(&text) => YamlValue::Bool(true),
        _ if FALSES.contains(&text) => YamlValue::Bool(false),
        _ if is_number(text) => YamlValue::Number(text.into()),
        _ => YamlValue::String(text.into()),
    }
}

const NULLS: [&str; 5] = ["", "~", "null", "Null", "NULL"];
const TRUES: [&str; 3] = ["true", "True", "TRUE"];
const FALSES: [&str; 3] = ["false", "False", "FALSE"];

/// Whether a plain scalar is text, rather than a number, a boolean or nothing.
pub(super) fn is_text(text: &str) -> bool {
    let words = [&NULLS[..], &TRUES, &FALSES];
    !words.iter().any(|words| words.contains(&text)) && !is_number(text)
}

/// Integers, `0x` and `0o` integers, decimal fractions, exponents, infinity and NaN.
fn is_number(text: &str) -> bool {
    if let Some(hex) = text.strip_prefix("0x") {
        return !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit());
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return !octal.is_empty() && octal.bytes().all(|b| (b'0'..=b'7').contains(&b));
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let exponent_ok = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    exponent_ok && digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty())
}

#[cfg(test)]
mod tests;
