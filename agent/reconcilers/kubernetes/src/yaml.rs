//! YAML as `kubectl` reads it, into JSON.
//!
//! What comes in: a text with any number of documents. What goes out: one JSON value per document that is
//! not empty, or the place of what is not YAML. Plain words mean what they mean to `kubectl`: `yes` and `on`
//! are booleans, `0644` is octal. Depth and size are bounded, aliases included; a key is written once. It is
//! pure.

use outhaul_kit::bounds::{MAX_YAML_DEPTH, MAX_YAML_EXPANDED_BYTES};
use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};
use serde_json::{Map, Number, Value};

/// Most values in one text, aliases expanded.
const MAX_VALUES: usize = 500_000;
/// What a value costs besides its text: about what it takes in memory.
const VALUE_BYTES: usize = 32;

/// Why a text cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct YamlError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
}

/// What several texts that are read together have come to so far.
#[derive(Debug, Default)]
pub struct Budget {
    bytes: usize,
}

/// The documents of `text`, with the line on which each begins; empty ones are left out.
///
/// # Errors
/// [`YamlError`]
pub fn documents(text: &str) -> Result<Vec<(usize, Value)>, YamlError> {
    documents_within(text, &mut Budget::default())
}

/// [`documents`] of one of the texts that share `budget`.
///
/// # Errors
/// [`YamlError`]
pub fn documents_within(text: &str, budget: &mut Budget) -> Result<Vec<(usize, Value)>, YamlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        anchors: BTreeMap::new(),
        values: 0,
        budget,
    };
    let mut documents = Vec::new();
    while let Some((event, span)) = reader.next()? {
        match event {
            Event::StreamEnd => break,
            Event::DocumentStart(_) => reader.anchors.clear(),
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            event => {
                let value = reader.value(event, span, 0)?;
                if !value.is_null() {
                    documents.push((span.start.line(), value));
                }
            }
        }
    }
    Ok(documents)
}

struct Reader<'a, 'b> {
    parser: Parser<'a, StrInput<'a>>,
    /// Values that an alias may name, with how many values each holds and what it costs.
    anchors: BTreeMap<usize, (Value, usize, usize)>,
    values: usize,
    budget: &'b mut Budget,
}

impl<'a> Reader<'a, '_> {
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, YamlError> {
        match self.parser.next_event() {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(error)) => Err(YamlError {
                line: error.marker().line(),
                problem: error.info().to_owned(),
            }),
        }
    }

    fn expect(&mut self, from: Span) -> Result<(Event<'a>, Span), YamlError> {
        self.next()?
            .ok_or_else(|| wrong(from, "the text ends in the middle of a value"))
    }

    /// Before anything is copied: what is refused was never held.
    fn count(&mut self, values: usize, bytes: usize, at: Span) -> Result<(), YamlError> {
        self.values = self.values.saturating_add(values);
        if self.values > MAX_VALUES {
            return Err(wrong(
                at,
                format!("more than {MAX_VALUES} values, aliases expanded"),
            ));
        }
        self.budget.bytes = self.budget.bytes.saturating_add(bytes);
        if self.budget.bytes > MAX_YAML_EXPANDED_BYTES {
            let most = MAX_YAML_EXPANDED_BYTES / (1024 * 1024);
            return Err(wrong(at, format!("more than {most} MiB, aliases expanded")));
        }
        Ok(())
    }

    fn value(&mut self, event: Event<'a>, at: Span, depth: usize) -> Result<Value, YamlError> {
        let before = (self.values, self.budget.bytes);
        let text = match &event {
            Event::Scalar(text, ..) => text.len(),
            _ => 0,
        };
        match event {
            // It costs what it names.
            Event::Alias(_) => self.count(1, 0, at)?,
            _ => self.count(1, VALUE_BYTES + text, at)?,
        }
        if depth > MAX_YAML_DEPTH {
            return Err(wrong(at, format!("more than {MAX_YAML_DEPTH} levels deep")));
        }
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.map(|tag| (tag.is_yaml_core_schema(), tag.suffix.clone()));
                let value = match tag {
                    Some((true, suffix)) if suffix == "str" => Value::String(text.into_owned()),
                    Some((true, _)) => plain(&text).map_err(|problem| wrong(at, problem))?,
                    Some((false, suffix)) if !suffix.is_empty() => {
                        return Err(wrong(at, format!("the tag `{suffix}` is not known")));
                    }
                    _ if style == ScalarStyle::Plain => {
                        plain(&text).map_err(|problem| wrong(at, problem))?
                    }
                    _ => Value::String(text.into_owned()),
                };
                (value, anchor)
            }
            Event::SequenceStart(anchor, _) => {
                let mut items = Vec::new();
                loop {
                    let (event, span) = self.expect(at)?;
                    if event == Event::SequenceEnd {
                        break;
                    }
                    items.push(self.value(event, span, depth + 1)?);
                }
                (Value::Array(items), anchor)
            }
            Event::MappingStart(anchor, _) => (Value::Object(self.mapping(at, depth)?), anchor),
            Event::Alias(id) => {
                let costs = self.anchors.get(&id).map(|known| (known.1, known.2));
                if let Some((values, bytes)) = costs {
                    self.count(values, bytes, at)?;
                }
                let value = self.anchors.get(&id).map(|known| known.0.clone());
                return value.ok_or_else(|| wrong(at, "this alias names no anchor"));
            }
            _ => return Err(wrong(at, "a value was expected here")),
        };
        if anchor > 0 {
            let (values, bytes) = (self.values - before.0, self.budget.bytes - before.1);
            // What is kept for aliases is a copy, and anchors may stand within anchors.
            self.count(0, bytes, at)?;
            self.anchors.insert(anchor, (value.clone(), values, bytes));
        }
        Ok(value)
    }

    fn mapping(&mut self, from: Span, depth: usize) -> Result<Map<String, Value>, YamlError> {
        let mut map = Map::new();
        let mut merges = Vec::new();
        loop {
            let (event, at) = self.expect(from)?;
            if event == Event::MappingEnd {
                break;
            }
            let merges_here =
                matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, _) if text == "<<");
            let key = match self.value(event, at, depth + 1)? {
                Value::String(text) => text,
                Value::Number(number) => number.to_string(),
                Value::Bool(value) => value.to_string(),
                _ => return Err(wrong(at, "a key must be a word or text")),
            };
            let (event, span) = self.expect(at)?;
            let value = self.value(event, span, depth + 1)?;
            if merges_here {
                merges.push((value, at));
            } else if map.insert(key.clone(), value).is_some() {
                return Err(wrong(at, format!("`{key}` is written twice")));
            }
        }
        for (merge, at) in merges {
            let sources = match merge {
                Value::Array(items) => items,
                other => vec![other],
            };
            for source in sources {
                let Value::Object(source) = source else {
                    return Err(wrong(at, "`<<` merges maps only"));
                };
                for (key, value) in source {
                    map.entry(key).or_insert(value);
                }
            }
        }
        Ok(map)
    }
}

fn wrong(at: Span, problem: impl Into<String>) -> YamlError {
    YamlError {
        line: at.start.line(),
        problem: problem.into(),
    }
}

/// A word without quotes.
fn plain(text: &str) -> Result<Value, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" | "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => {
            true.into()
        }
        "false" | "False" | "FALSE" | "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            false.into()
        }
        _ => number(text)?.map_or_else(|| text.into(), Value::Number),
    })
}

fn number(text: &str) -> Result<Option<Number>, String> {
    let plain = text.replace('_', "");
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Ok(None);
    }
    let negative = plain.starts_with('-');
    let lower = unsigned.to_ascii_lowercase();
    let whole = |digits: &str, base| {
        // `from_str_radix` accepts a sign itself.
        let clean = digits.bytes().all(|b| b.is_ascii_alphanumeric());
        clean
            .then(|| u64::from_str_radix(digits, base).ok())
            .flatten()
    };
    let value = match lower.as_bytes() {
        [b'0', b'x', ..] => whole(&lower[2..], 16),
        [b'0', b'b', ..] => whole(&lower[2..], 2),
        [b'0', b'o', ..] => whole(&lower[2..], 8),
        [b'0', _, ..] => whole(&lower[1..], 8),
        _ => whole(&lower, 10),
    };
    if let Some(value) = value {
        return Ok(match negative {
            false => Some(value.into()),
            true => i64::try_from(value).ok().map(|value| Number::from(-value)),
        });
    }
    if matches!(lower.as_str(), ".inf" | ".nan") {
        return Err(format!("`{text}` is not a number that Kubernetes accepts"));
    }
    let (mantissa, exponent) = match lower.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (lower.as_str(), None),
    };
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    let something = !before.is_empty() || !after.is_empty();
    if !(something && exponent_fits && digits(before) && digits(after)) {
        return Ok(None);
    }
    let value: f64 = plain
        .parse()
        .map_err(|_| format!("`{text}` is not a number"))?;
    Number::from_f64(value)
        .map(Some)
        .ok_or_else(|| format!("`{text}` is not a number that Kubernetes accepts"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(text: &str) -> Value {
        documents(text).unwrap().remove(0).1
    }

    #[test]
    fn words_mean_what_they_mean_to_kubectl() {
        let text = "a: yes\nb: \"yes\"\nc: 0644\nd: 1.5\ne: ~\nf: 1.2.3\ng: 0x1F\nh: -7\ni: 10Gi\nj: !!str 8\n\
                    k: 1e3\nl: 2026-11-22\nm: 09\nr: 127.0.0.1\no: -x\np: .5\nq: 100m\n";
        let expected = json!({
            "a": true, "b": "yes", "c": 420, "d": 1.5, "e": null, "f": "1.2.3", "g": 31, "h": -7,
            "i": "10Gi", "j": "8", "k": 1000.0, "l": "2026-11-22", "m": 9.0, "r": "127.0.0.1", "o": "-x",
            "p": 0.5, "q": "100m",
        });
        assert_eq!(one(text), expected);
    }

    #[test]
    fn documents_aliases_merges_and_blocks() {
        let text = "---\n# nothing\n---\nbase: &b {x: 1, z: 2}\nmore:\n  <<: *b\n  z: 3\n---\ntext: |\n  a\n  b\n";
        let found = documents(text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].1["more"], json!({"x": 1, "z": 3}));
        assert_eq!(found[1].1["text"], "a\nb\n");
        assert_eq!(
            documents("{\"a\": [1, \"b\"]}").unwrap()[0].1,
            json!({"a": [1, "b"]})
        );
        assert!(documents("").unwrap().is_empty());
    }

    #[test]
    fn what_is_not_yaml_is_reported_with_its_line() {
        let reported = |text: &str| documents(text).unwrap_err().to_string();
        assert_eq!(
            reported("a: 1\nb: 2\na: 3\n"),
            "line 3: `a` is written twice"
        );
        assert!(reported("a: [1\nb: 2\n").starts_with("line "));
        assert!(reported("a: *b\n").starts_with("line 1: "));
        assert_eq!(
            reported("a: !Ref x\n"),
            "line 1: the tag `Ref` is not known"
        );
        assert!(reported(&"[".repeat(100)).contains("64 levels"));
        let mut bomb = "a: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let names = vec![format!("*a{}", level - 1); 9].join(", ");
            bomb += &format!("b{level}: &a{level} [{names}]\n");
        }
        assert!(reported(&bomb).contains("aliases expanded"));
        // Few values and little text, which come to 75 MiB.
        let text = "x".repeat(256 * 1024);
        let aliases = vec!["*a"; 300].join(", ");
        let error_of = |text: String| documents(&text).unwrap_err().to_string();
        let much = "more than 64 MiB, aliases expanded";
        assert_eq!(
            error_of(format!("a: &a {text}\nb: [{aliases}]\n")),
            format!("line 2: {much}")
        );
        let keys = error_of(format!("a: &a {{? {text} : 1}}\nb: [{aliases}]\n"));
        assert!(keys.contains(much), "{keys}");
        // Anchors within anchors are copied once for each level.
        let nested = (0..60)
            .map(|level| format!("&n{level} ["))
            .collect::<Vec<_>>()
            .concat();
        let nested = error_of(format!("{nested}{}{}", "x".repeat(2 << 20), "]".repeat(60)));
        assert!(nested.contains(much), "{nested}");
    }

    #[test]
    fn texts_that_are_read_together_share_what_they_may_come_to() {
        let mut budget = Budget::default();
        let text = format!("a: {}\n", "x".repeat(24 << 20));
        assert!(documents_within(&text, &mut budget).is_ok());
        assert!(documents_within(&text, &mut budget).is_ok());
        let third = documents_within(&text, &mut budget).unwrap_err();
        assert!(third.problem.contains("64 MiB"), "{third}");
        assert!(documents(&text).is_ok(), "one alone");
    }
}
