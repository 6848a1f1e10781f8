//! Sites as nearly everyone writes them: read without the parser, or skipped.
//!
//! What comes in: a file's text. What goes out: its documents in their order: plain sites, with where
//! each of their texts stands, and the parts that still need the parser. A document is a plain site only
//! when the parser and the reader of sites would certainly make one [`Site`] of it and nothing to tell:
//! block maps, one value a line, every field known and there, texts that are certainly texts.
//! Whatever is written in another way is read in full; so a mistake is never skipped.

use std::ops::Range;
use std::sync::Arc;

use super::super::diagnostic::{Location, SourceFile};
use super::super::model::{Site, Spanned};
use super::super::yaml::is_text;
use super::OUTHAUL;
use super::metadata::is_name;
use super::site::is_public_key;

mod shape;

use shape::Shapes;

/// What begins a document, between two others.
const BETWEEN: &str = "\n---\n";
/// Longest key: YAML ends simple keys at 1,024 characters.
const MAX_KEY: usize = 256;
/// Most labels of one site; each is compared with all before it.
const MAX_LABELS: usize = 64;

/// A part of a text.
#[derive(Debug)]
pub(super) enum Part<'s, 't> {
    /// One plain site.
    Site(&'s Plain<'t>),
    /// Whole documents that need the parser.
    Other(Range<usize>),
}

/// One document cannot be distinguished from the next without the parser.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Uncertain;

/// A text and where it is written, with its quotes.
#[derive(Debug, Clone, Default)]
pub(super) struct QuotedText<'t> {
    text: &'t str,
    span: Range<usize>,
}

/// The texts of a plain site.
#[derive(Debug, Default)]
pub(super) struct Plain<'t> {
    name: QuotedText<'t>,
    cluster_type: QuotedText<'t>,
    ring: Option<&'t str>,
    public_key: Option<&'t str>,
    labels: Vec<(&'t str, &'t str)>,
}

impl Plain<'_> {
    /// The site, of `file`.
    pub fn site(&self, file: &Arc<SourceFile>) -> Site {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Site {
            name: self.name.text.to_owned(),
            labels: self.labels.iter().map(owned).collect(),
            cluster_type: Spanned {
                value: self.cluster_type.text.to_owned(),
                location: Location::new(file, self.cluster_type.span.clone()),
            },
            ring: self.ring.map(str::to_owned),
            public_key: self.public_key.map(str::to_owned),
            location: Location::new(file, self.name.span.clone()),
        }
    }

    fn clear(&mut self) {
        let mut labels = std::mem::take(&mut self.labels);
        labels.clear();
        *self = Self {
            labels,
            ..Self::default()
        };
    }
}

/// Hands the parts of `text` to `each`, in their order.
///
/// # Errors
/// [`Uncertain`] when the text is to be read as a whole, whatever was handed over already.
pub(super) fn parts<'t>(
    text: &'t str,
    each: &mut dyn FnMut(Part<'_, 't>) -> Result<(), Uncertain>,
) -> Result<(), Uncertain> {
    let mut other: Option<Range<usize>> = None;
    let mut seen = PartialSite::default();
    let mut shapes = Shapes::default();
    let mut start = 0;
    while start < text.len() {
        let as_before = shapes.site_end(text, start, &mut seen.site);
        if let Some(end) = as_before.or_else(|| site_end(text, start, &mut seen, &mut shapes)) {
            if let Some(range) = other.take() {
                each(Part::Other(range))?;
            }
            each(Part::Site(&seen.site))?;
            start = end;
            continue;
        }
        let end = text[start..]
            .find(BETWEEN)
            .map_or(text.len(), |at| start + at + 1);
        if !is_map(&text[start..end]) {
            return Err(Uncertain);
        }
        match &mut other {
            Some(range) => range.end = end,
            None => other = Some(start..end),
        }
        start = end;
    }
    other.map_or(Ok(()), |range| each(Part::Other(range)))
}

/// Whether a document is a map by its first line. The parser takes what follows a block of text that
/// is a separate document for more of that text, so that nothing behind one is certain.
fn is_map(document: &str) -> bool {
    let mut lines = document.lines();
    let first = lines.find(|line| !line.is_empty() && *line != "---" && !line.starts_with('#'));
    let map = |line: &str| line.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '{');
    first.is_none_or(map) && !document.lines().any(|line| line.starts_with("--- "))
}

/// Which map a line is in, by its indentation.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Top,
    Metadata,
    Labels,
    Spec,
}

/// The fields of a site, each as one bit.
mod field {
    pub const API_VERSION: u16 = 1;
    pub const KIND: u16 = 1 << 1;
    pub const METADATA: u16 = 1 << 2;
    pub const NAME: u16 = 1 << 3;
    pub const SPEC: u16 = 1 << 4;
    pub const CLUSTER_TYPE: u16 = 1 << 5;
    pub const NEEDED: u16 = API_VERSION | KIND | METADATA | NAME | SPEC | CLUSTER_TYPE;
    pub const NAMESPACE: u16 = 1 << 6;
    pub const LABELS: u16 = 1 << 7;
    pub const RING: u16 = 1 << 8;
    pub const PUBLIC_KEY: u16 = 1 << 9;
}

/// What a line of a plain site holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds<'t> {
    /// Nothing that differs from site to site.
    Nothing,
    Name,
    Namespace,
    Label(&'t str),
    ClusterType,
    Ring,
    PublicKey,
}

/// What of a site was seen so far.
#[derive(Default)]
struct PartialSite<'t> {
    site: Plain<'t>,
    fields: u16,
    within: Within,
    /// The indentation of what is in `metadata` or `spec`, and in `labels`; 0 until it is known.
    indent: usize,
    label_indent: usize,
}

/// Where the document at `start` ends, when it is a plain site. Its shape is then among `shapes`.
fn site_end<'t>(
    text: &'t str,
    start: usize,
    seen: &mut PartialSite<'t>,
    shapes: &mut Shapes<'t>,
) -> Option<usize> {
    seen.clear();
    shapes.begin();
    let mut at = start;
    let rest = text.get(start..)?;
    for line in rest.split_inclusive('\n') {
        let bare = line.strip_suffix('\n').unwrap_or(line);
        if bare == "---" && at > start {
            break;
        }
        let holds = match bare {
            "---" => Holds::Nothing,
            bare => seen.line(bare, at)?,
        };
        shapes.line(line, holds);
        at += line.len();
    }
    // Labels without one are a mistake to report.
    let has_labels = seen.fields & field::LABELS == 0 || !seen.site.labels.is_empty();
    (seen.fields & field::NEEDED == field::NEEDED && has_labels).then(|| {
        shapes.keep();
        at
    })
}

impl<'t> Plain<'t> {
    /// Takes the text `value` of a line, which is written at `span`.
    fn take(&mut self, holds: Holds<'t>, text: &'t str, span: Range<usize>) {
        match holds {
            Holds::Nothing | Holds::Namespace => {}
            Holds::Name => self.name = QuotedText { text, span },
            Holds::ClusterType => self.cluster_type = QuotedText { text, span },
            Holds::Ring => self.ring = Some(text),
            Holds::PublicKey => self.public_key = Some(text),
            Holds::Label(key) => self.labels.push((key, text)),
        }
    }
}

impl<'t> PartialSite<'t> {
    fn clear(&mut self) {
        let mut site = std::mem::take(&mut self.site);
        site.clear();
        *self = Self {
            site,
            ..Self::default()
        };
    }

    /// Takes the line at `at`; `None` when it is not certain what it means.
    fn line(&mut self, line: &'t str, at: usize) -> Option<Holds<'t>> {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        if content.is_empty() {
            return Some(Holds::Nothing);
        }
        if content.starts_with('#') {
            return (!content.contains(char::is_control)).then_some(Holds::Nothing);
        }
        let (key, written) = content.split_once(':')?;
        let value = match written.strip_prefix(' ') {
            Some(value) => Some(text_of(value)?),
            None => written.is_empty().then_some(None)?,
        };
        self.enter(indent)?;
        let holds = match (self.within, key, value) {
            (Within::Top, "apiVersion", Some(OUTHAUL)) => self.once(field::API_VERSION),
            (Within::Top, "kind", Some("Site")) => self.once(field::KIND),
            (Within::Top, "metadata", None) => self.section(field::METADATA, Within::Metadata),
            (Within::Top, "spec", None) => self.section(field::SPEC, Within::Spec),
            (Within::Metadata, "labels", None) => {
                self.within = Within::Labels;
                self.label_indent = 0;
                self.once(field::LABELS)
            }
            (Within::Metadata, "name", Some(name)) if is_name(name) => {
                self.once(field::NAME).map(|_| Holds::Name)
            }
            (Within::Metadata, "namespace", Some(_)) => {
                self.once(field::NAMESPACE).map(|_| Holds::Namespace)
            }
            (Within::Labels, label, Some(_)) if is_key(label) => {
                let labels = &self.site.labels;
                let known = labels.iter().any(|(known, _)| *known == label);
                (labels.len() < MAX_LABELS && !known).then_some(Holds::Label(label))
            }
            (Within::Spec, "clusterType", Some(_)) => {
                self.once(field::CLUSTER_TYPE).map(|_| Holds::ClusterType)
            }
            (Within::Spec, "ring", Some(_)) => self.once(field::RING).map(|_| Holds::Ring),
            (Within::Spec, "publicKey", Some(key)) if is_public_key(key) => {
                self.once(field::PUBLIC_KEY).map(|_| Holds::PublicKey)
            }
            _ => None,
        }?;
        if let Some(text) = value {
            let start = at + indent + key.len() + 2;
            self.site.take(holds, text, start..at + line.len());
        }
        Some(holds)
    }

    /// Finds the map that a line with this indentation is in.
    fn enter(&mut self, indent: usize) -> Option<()> {
        if indent == 0 {
            self.within = Within::Top;
            return Some(());
        }
        if self.within == Within::Top {
            return None;
        }
        if self.indent == 0 {
            self.indent = indent;
        }
        if self.within == Within::Labels {
            if indent > self.indent && self.label_indent == 0 {
                self.label_indent = indent;
            }
            if indent == self.label_indent {
                return Some(());
            }
            self.within = Within::Metadata;
        }
        (indent == self.indent).then_some(())
    }

    fn section(&mut self, field: u16, within: Within) -> Option<Holds<'t>> {
        self.within = within;
        self.indent = 0;
        self.once(field)
    }

    /// Notes a field; `None` when it was there already.
    fn once(&mut self, field: u16) -> Option<Holds<'t>> {
        let new = self.fields & field == 0;
        self.fields |= field;
        new.then_some(Holds::Nothing)
    }
}

/// Whether a character means nothing to YAML inside a text.
fn is_harmless(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/' | b'+' | b'=' | b'@')
}

/// The text that `written` certainly is, in quotes or without.
fn text_of(written: &str) -> Option<&str> {
    for quote in ['"', '\''] {
        if let Some(inner) = written.strip_prefix(quote) {
            let text = inner.strip_suffix(quote)?;
            let sound = |b: u8| is_harmless(b) || b" :,".contains(&b);
            return (!text.trim().is_empty() && text.bytes().all(sound)).then_some(text);
        }
    }
    let first = written.as_bytes().first()?;
    let plain = first.is_ascii_alphanumeric() && written.bytes().all(is_harmless);
    (plain && is_text(written)).then_some(written)
}

/// Whether a label's key is certainly a text.
fn is_key(key: &str) -> bool {
    let first = key.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
    let sound = |b: u8| b.is_ascii_alphanumeric() || b"-_./".contains(&b);
    first && key.len() <= MAX_KEY && key.bytes().all(sound) && is_text(key)
}

#[cfg(test)]
mod tests;
