//! Sites that need not be read: where in a file they are, found without parsing it.
//!
//! What comes in: a file's text. What goes out: the parts of it that still need the parser. A document
//! is left out only when the parser and the reader of sites would certainly make one [`Site`] of it and
//! nothing to tell: block maps, one value a line, every field known and there, texts that are beyond
//! doubt texts. Whatever is written in another way is read in full; so a mistake is never passed over.
//!
//! [`Site`]: super::super::model::Site

use std::ops::Range;

use super::super::yaml::is_text;
use super::OUTHAUL;
use super::metadata::is_name;

/// What begins a document, between two others.
const BETWEEN: &str = "\n---\n";
/// Longest key: YAML ends simple keys at 1,024 characters.
const MAX_KEY: usize = 256;
/// Most labels of one site; each is compared with all before it.
const MAX_LABELS: usize = 64;

/// The parts of `text` that are not plain sites, in their order. Each is a run of whole documents,
/// unless one of them cannot be told from the next without the parser: that is then an error in the
/// part, and the text is to be read as a whole.
pub(super) fn others(text: &str) -> Vec<Range<usize>> {
    let mut others: Vec<Range<usize>> = Vec::new();
    let mut seen = Seen::default();
    let mut start = 0;
    while start < text.len() {
        if let Some(end) = site_end(text, start, &mut seen) {
            start = end;
            continue;
        }
        let end = text[start..]
            .find(BETWEEN)
            .map_or(text.len(), |at| start + at + 1);
        if !is_map(&text[start..end]) {
            return std::iter::once(0..text.len()).collect();
        }
        match others.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => others.push(start..end),
        }
        start = end;
    }
    others
}

/// Whether a document is a map by its first line. The parser takes what follows a block of text that
/// is a document of its own for more of that text, so that nothing behind one is certain.
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

/// What of a site was seen so far.
#[derive(Default)]
struct Seen<'t> {
    fields: u16,
    labels: Vec<&'t str>,
    within: Within,
    /// The indentation of what is in `metadata` or `spec`, and in `labels`; 0 until it is known.
    indent: usize,
    label_indent: usize,
}

/// Where the document at `start` ends, when it is a plain site.
fn site_end<'t>(text: &'t str, start: usize, seen: &mut Seen<'t>) -> Option<usize> {
    seen.clear();
    let mut at = start;
    let rest = text.get(start..)?;
    for line in rest.split_inclusive('\n') {
        let bare = line.strip_suffix('\n').unwrap_or(line);
        if bare == "---" && at > start {
            break;
        }
        if bare != "---" {
            seen.line(bare)?;
        }
        at += line.len();
    }
    (seen.fields & field::NEEDED == field::NEEDED).then_some(at)
}

impl<'t> Seen<'t> {
    fn clear(&mut self) {
        let mut labels = std::mem::take(&mut self.labels);
        labels.clear();
        *self = Self {
            labels,
            ..Self::default()
        };
    }

    /// Takes one line; `None` when it is not certain what it means.
    fn line(&mut self, line: &'t str) -> Option<()> {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        if content.is_empty() {
            return Some(());
        }
        if content.starts_with('#') {
            return (!content.contains(char::is_control)).then_some(());
        }
        let (key, value) = content.split_once(':')?;
        let value = match value.strip_prefix(' ') {
            Some(value) => Some(text_of(value)?),
            None => value.is_empty().then_some(None)?,
        };
        self.enter(indent)?;
        match (self.within, key, value) {
            (Within::Top, "apiVersion", Some(OUTHAUL)) => self.once(field::API_VERSION),
            (Within::Top, "kind", Some("Site")) => self.once(field::KIND),
            (Within::Top, "metadata", None) => self.section(field::METADATA, Within::Metadata),
            (Within::Top, "spec", None) => self.section(field::SPEC, Within::Spec),
            (Within::Metadata, "labels", None) => {
                self.within = Within::Labels;
                self.label_indent = 0;
                self.once(field::LABELS)
            }
            (Within::Metadata, "name", Some(name)) if is_name(name) => self.once(field::NAME),
            (Within::Metadata, "namespace", Some(_)) => self.once(field::NAMESPACE),
            (Within::Labels, label, Some(_)) if is_key(label) => {
                let new = self.labels.len() < MAX_LABELS && !self.labels.contains(&label);
                self.labels.push(label);
                new.then_some(())
            }
            (Within::Spec, "clusterType", Some(_)) => self.once(field::CLUSTER_TYPE),
            (Within::Spec, "ring", Some(_)) => self.once(field::RING),
            (Within::Spec, "publicKey", Some(_)) => self.once(field::PUBLIC_KEY),
            _ => None,
        }
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

    fn section(&mut self, field: u16, within: Within) -> Option<()> {
        self.within = within;
        self.indent = 0;
        self.once(field)
    }

    /// Notes a field; `None` when it was there already.
    fn once(&mut self, field: u16) -> Option<()> {
        let new = self.fields & field == 0;
        self.fields |= field;
        new.then_some(())
    }
}

/// The text that `written` certainly is, in quotes or without.
fn text_of(written: &str) -> Option<&str> {
    let harmless = |b: u8| b.is_ascii_alphanumeric() || b"-_./+=@".contains(&b);
    for quote in ['"', '\''] {
        if let Some(inner) = written.strip_prefix(quote) {
            let text = inner.strip_suffix(quote)?;
            let sound = |b: u8| harmless(b) || b" :,".contains(&b);
            return (!text.trim().is_empty() && text.bytes().all(sound)).then_some(text);
        }
    }
    let first = written.as_bytes().first()?;
    let plain = first.is_ascii_alphanumeric() && written.bytes().all(harmless);
    (plain && is_text(written)).then_some(written)
}

/// Whether a label's key is beyond doubt a text.
fn is_key(key: &str) -> bool {
    let first = key.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
    let sound = |b: u8| b.is_ascii_alphanumeric() || b"-_./".contains(&b);
    first && key.len() <= MAX_KEY && key.bytes().all(sound) && is_text(key)
}

#[cfg(test)]
mod tests;
