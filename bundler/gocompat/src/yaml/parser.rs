//! Tokens to nodes: libyaml's grammar, first document only.
//!
//! In: text. Out: a tree of nodes in one vector, with tags in short form and aliases bound.
//! Depth is bounded; the Go libraries allow more than any config nests.

use super::scanner::{Mark, Quoting, Scan, Scanner, YamlTokenKind, fail};
use crate::json::MAX_DEPTH;
use std::collections::HashMap;

/// Prefix of the tags that `!!` stands for.
const PREFIX: &str = "tag:yaml.org,2002:";

/// Index of a node.
pub(super) type Id = usize;

/// A node of the document.
#[derive(Debug)]
pub(super) struct Node {
    pub mark: Mark,
    /// Explicit tag, `!!int` in short form; empty when there is none.
    pub tag: String,
    pub kind: NodeKind,
}

/// What a node is.
#[derive(Debug)]
pub(super) enum NodeKind {
    /// Text, and whether it was written without quotes.
    Scalar(String, bool),
    Sequence(Vec<Id>),
    /// Keys and values.
    Mapping(Vec<(Id, Id)>),
    /// The anchor's name and node.
    Alias(String, Id),
}

/// The parsed document.
#[derive(Debug)]
pub(super) struct Document {
    pub nodes: Vec<Node>,
    pub root: Option<Id>,
}

struct Parser {
    scanner: Scanner,
    nodes: Vec<Node>,
    anchors: HashMap<String, Id>,
    handles: Vec<(String, String)>,
    depth: usize,
}

/// Parses the first document of a text.
pub(super) fn parse(text: &str, v2: bool) -> Scan<Document> {
    let mut parser = Parser {
        scanner: Scanner::new(text, if v2 { 0 } else { 2 })?,
        nodes: Vec::new(),
        anchors: HashMap::new(),
        handles: Vec::new(),
        depth: 0,
    };
    let root = parser.document()?;
    Ok(Document {
        nodes: parser.nodes,
        root,
    })
}

/// What is still to be read of a node.
enum Below {
    Nothing,
    Indentless,
    FlowSequence,
    FlowMapping,
    BlockSequence,
    BlockMapping,
}

/// Properties in front of a node.
#[derive(Default)]
struct Properties {
    anchor: Option<String>,
    tag: String,
}

impl Parser {
    fn kind(&mut self) -> Scan<&YamlTokenKind> {
        Ok(&self.scanner.peek()?.kind)
    }

    fn mark(&mut self) -> Scan<Mark> {
        Ok(self.scanner.peek()?.mark)
    }

    fn document(&mut self) -> Scan<Option<Id>> {
        let root = match self.kind()? {
            YamlTokenKind::StreamEnd => return Ok(None),
            YamlTokenKind::VersionDirective(..)
            | YamlTokenKind::TagDirective { .. }
            | YamlTokenKind::DocumentStart => {
                self.directives()?;
                if *self.kind()? != YamlTokenKind::DocumentStart {
                    return fail(self.mark()?, "did not find expected <document start>");
                }
                self.scanner.take()?;
                match self.kind()? {
                    YamlTokenKind::VersionDirective(..)
                    | YamlTokenKind::TagDirective { .. }
                    | YamlTokenKind::DocumentStart
                    | YamlTokenKind::DocumentEnd
                    | YamlTokenKind::StreamEnd => self.empty()?,
                    _ => self.node(true, false)?,
                }
            }
            _ => {
                self.directives()?;
                self.node(true, false)?
            }
        };
        // Go reads one token further, and fails if that is not one.
        self.kind()?;
        Ok(Some(root))
    }

    fn directives(&mut self) -> Scan<()> {
        let mut version = false;
        loop {
            let mark = self.mark()?;
            match self.kind()?.clone() {
                YamlTokenKind::VersionDirective(major, minor) => {
                    if version {
                        return fail(mark, "found duplicate %YAML directive");
                    }
                    if (major, minor) != (1, 1) {
                        return fail(mark, "found incompatible YAML document");
                    }
                    version = true;
                }
                YamlTokenKind::TagDirective { handle, prefix } => {
                    if self.handles.iter().any(|(known, _)| *known == handle) {
                        return fail(mark, "found duplicate %TAG directive");
                    }
                    self.handles.push((handle, prefix));
                }
                _ => break,
            }
            self.scanner.take()?;
        }
        for (handle, prefix) in [("!", "!"), ("!!", PREFIX)] {
            if !self.handles.iter().any(|(known, _)| known == handle) {
                self.handles.push((handle.to_owned(), prefix.to_owned()));
            }
        }
        Ok(())
    }

    fn add(&mut self, mark: Mark, properties: Properties, kind: NodeKind) -> Id {
        let id = self.nodes.len();
        self.nodes.push(Node {
            mark,
            tag: properties.tag,
            kind,
        });
        if let Some(anchor) = properties.anchor {
            self.anchors.insert(anchor, id);
        }
        id
    }

    fn empty(&mut self) -> Scan<Id> {
        let mark = self.mark()?;
        Ok(self.add(
            mark,
            Properties::default(),
            NodeKind::Scalar(String::new(), true),
        ))
    }

    fn properties(&mut self) -> Scan<Properties> {
        let mut properties = Properties::default();
        let mut tagged = false;
        loop {
            let mark = self.mark()?;
            match self.kind()?.clone() {
                YamlTokenKind::Anchor(name) if properties.anchor.is_none() => {
                    properties.anchor = Some(name);
                }
                YamlTokenKind::Tag { handle, suffix } if !tagged => {
                    tagged = true;
                    properties.tag = self.tag(&handle, suffix, mark)?;
                }
                _ => return Ok(properties),
            }
            self.scanner.take()?;
        }
    }

    fn tag(&self, handle: &str, suffix: String, mark: Mark) -> Scan<String> {
        let tag = if handle.is_empty() {
            suffix
        } else {
            match self.handles.iter().find(|(known, _)| known == handle) {
                Some((_, prefix)) => format!("{prefix}{suffix}"),
                None => return fail(mark, "found undefined tag handle"),
            }
        };
        Ok(match tag.strip_prefix(PREFIX) {
            Some(short) => format!("!!{short}"),
            None => tag,
        })
    }

    /// A node and everything below it. The frames of this recursion are kept small: what a
    /// node starts with is read by [`Self::start`], whose frame is gone by then.
    fn node(&mut self, block: bool, indentless: bool) -> Scan<Id> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return fail(self.mark()?, "nested too deep");
        }
        let (id, below) = self.start(block, indentless)?;
        match below {
            Below::Nothing => {}
            Below::Indentless => self.indentless_sequence(id)?,
            Below::FlowSequence => self.flow_sequence(id)?,
            Below::FlowMapping => self.flow_mapping(id)?,
            Below::BlockSequence => self.block_sequence(id)?,
            Below::BlockMapping => self.block_mapping(id)?,
        }
        self.depth -= 1;
        Ok(id)
    }

    fn start(&mut self, block: bool, indentless: bool) -> Scan<(Id, Below)> {
        let mark = self.mark()?;
        if let YamlTokenKind::Alias(name) = self.kind()?.clone() {
            self.scanner.take()?;
            let Some(target) = self.anchors.get(&name).copied() else {
                return fail(mark, format!("unknown anchor '{name}' referenced"));
            };
            let alias = NodeKind::Alias(name, target);
            return Ok((self.add(mark, Properties::default(), alias), Below::Nothing));
        }
        let properties = self.properties()?;
        let has_properties = properties.anchor.is_some() || !properties.tag.is_empty();
        let sequence = NodeKind::Sequence(Vec::new());
        let mapping = NodeKind::Mapping(Vec::new());
        let (kind, below) = match self.kind()?.clone() {
            YamlTokenKind::BlockEntry if indentless => (sequence, Below::Indentless),
            YamlTokenKind::Scalar(text, quoting) => {
                self.scanner.take()?;
                (
                    NodeKind::Scalar(text, quoting == Quoting::Plain),
                    Below::Nothing,
                )
            }
            YamlTokenKind::FlowSequenceStart => (sequence, Below::FlowSequence),
            YamlTokenKind::FlowMappingStart => (mapping, Below::FlowMapping),
            YamlTokenKind::BlockSequenceStart if block => (sequence, Below::BlockSequence),
            YamlTokenKind::BlockMappingStart if block => (mapping, Below::BlockMapping),
            _ if has_properties => (NodeKind::Scalar(String::new(), true), Below::Nothing),
            _ => return fail(self.mark()?, "did not find expected node content"),
        };
        Ok((self.add(mark, properties, kind), below))
    }

    fn push_item(&mut self, id: Id, item: Id) {
        if let Some(NodeKind::Sequence(items)) = self.nodes.get_mut(id).map(|node| &mut node.kind) {
            items.push(item);
        }
    }

    fn push_pair(&mut self, id: Id, key: Id, value: Id) {
        if let Some(NodeKind::Mapping(pairs)) = self.nodes.get_mut(id).map(|node| &mut node.kind) {
            pairs.push((key, value));
        }
    }

    fn block_sequence(&mut self, id: Id) -> Scan<()> {
        self.scanner.take()?;
        loop {
            match self.kind()? {
                YamlTokenKind::BlockEntry => {
                    self.scanner.take()?;
                    let item = match self.kind()? {
                        YamlTokenKind::BlockEntry | YamlTokenKind::BlockEnd => self.empty()?,
                        _ => self.node(true, false)?,
                    };
                    self.push_item(id, item);
                }
                YamlTokenKind::BlockEnd => {
                    self.scanner.take()?;
                    return Ok(());
                }
                _ => return fail(self.mark()?, "did not find expected '-' indicator"),
            }
        }
    }

    fn indentless_sequence(&mut self, id: Id) -> Scan<()> {
        while *self.kind()? == YamlTokenKind::BlockEntry {
            self.scanner.take()?;
            let item = match self.kind()? {
                YamlTokenKind::BlockEntry
                | YamlTokenKind::Key
                | YamlTokenKind::Value
                | YamlTokenKind::BlockEnd => self.empty()?,
                _ => self.node(true, false)?,
            };
            self.push_item(id, item);
        }
        Ok(())
    }

    fn block_mapping(&mut self, id: Id) -> Scan<()> {
        self.scanner.take()?;
        loop {
            match self.kind()? {
                YamlTokenKind::Key => {
                    self.scanner.take()?;
                    let key = self.block_part()?;
                    let value = if *self.kind()? == YamlTokenKind::Value {
                        self.scanner.take()?;
                        self.block_part()?
                    } else {
                        self.empty()?
                    };
                    self.push_pair(id, key, value);
                }
                YamlTokenKind::BlockEnd => {
                    self.scanner.take()?;
                    return Ok(());
                }
                _ => return fail(self.mark()?, "did not find expected key"),
            }
        }
    }

    fn block_part(&mut self) -> Scan<Id> {
        match self.kind()? {
            YamlTokenKind::Key | YamlTokenKind::Value | YamlTokenKind::BlockEnd => self.empty(),
            _ => self.node(true, true),
        }
    }

    fn flow_sequence(&mut self, id: Id) -> Scan<()> {
        self.scanner.take()?;
        let mut first = true;
        while *self.kind()? != YamlTokenKind::FlowSequenceEnd {
            if !first {
                if *self.kind()? != YamlTokenKind::FlowEntry {
                    return fail(self.mark()?, "did not find expected ',' or ']'");
                }
                self.scanner.take()?;
            }
            first = false;
            match self.kind()? {
                YamlTokenKind::Key => {
                    let item = self.flow_pair()?;
                    self.push_item(id, item);
                }
                YamlTokenKind::FlowSequenceEnd => break,
                _ => {
                    let item = self.node(false, false)?;
                    self.push_item(id, item);
                }
            }
        }
        self.scanner.take()?;
        Ok(())
    }

    /// `[a: b]`: a mapping of one pair.
    fn flow_pair(&mut self) -> Scan<Id> {
        let mark = self.mark()?;
        self.scanner.take()?;
        let id = self.add(mark, Properties::default(), NodeKind::Mapping(Vec::new()));
        let key = match self.kind()? {
            YamlTokenKind::Value | YamlTokenKind::FlowEntry | YamlTokenKind::FlowSequenceEnd => {
                // libyaml drops the token here, so that `[? : a]` has an empty value as well.
                let key = self.empty()?;
                self.scanner.take()?;
                key
            }
            _ => self.node(false, false)?,
        };
        let mut value = None;
        if *self.kind()? == YamlTokenKind::Value {
            self.scanner.take()?;
            if !matches!(
                self.kind()?,
                YamlTokenKind::FlowEntry | YamlTokenKind::FlowSequenceEnd
            ) {
                value = Some(self.node(false, false)?);
            }
        }
        let value = match value {
            Some(value) => value,
            None => self.empty()?,
        };
        self.push_pair(id, key, value);
        Ok(id)
    }

    fn flow_mapping(&mut self, id: Id) -> Scan<()> {
        self.scanner.take()?;
        let mut first = true;
        while *self.kind()? != YamlTokenKind::FlowMappingEnd {
            if !first {
                if *self.kind()? != YamlTokenKind::FlowEntry {
                    return fail(self.mark()?, "did not find expected ',' or '}'");
                }
                self.scanner.take()?;
            }
            first = false;
            match self.kind()? {
                YamlTokenKind::Key => {
                    self.scanner.take()?;
                    let key = self.flow_part()?;
                    let value = if *self.kind()? == YamlTokenKind::Value {
                        self.scanner.take()?;
                        match self.kind()? {
                            YamlTokenKind::FlowEntry | YamlTokenKind::FlowMappingEnd => {
                                self.empty()?
                            }
                            _ => self.node(false, false)?,
                        }
                    } else {
                        self.empty()?
                    };
                    self.push_pair(id, key, value);
                }
                YamlTokenKind::FlowMappingEnd => break,
                _ => {
                    let key = self.node(false, false)?;
                    let value = self.empty()?;
                    self.push_pair(id, key, value);
                }
            }
        }
        self.scanner.take()?;
        Ok(())
    }

    fn flow_part(&mut self) -> Scan<Id> {
        match self.kind()? {
            YamlTokenKind::Value | YamlTokenKind::FlowEntry | YamlTokenKind::FlowMappingEnd => {
                self.empty()
            }
            _ => self.node(false, false),
        }
    }
}
