//! Nodes to values, as `yaml.v2` and `yaml.v3` decode into `interface{}`.
//!
//! In: text and which decoder reads it. Out: a value with Go's types, or the first error.
//! Aliases are followed under Go's own bound on how much of a document they may make up,
//! and under a bound on the number of values.

use super::parser::{Document, Id, Node, NodeKind, parse};
use super::resolve::{Scalar, resolve, timestamp};
use crate::binary_text::base64_decode;
use crate::error::YamlError;
use crate::json::MAX_DEPTH;
use crate::value::{Decoder, GoMap, GoValue, MapKind};
use std::collections::BTreeSet;

/// Values that one document may decode to, aliases included.
const MAX_VALUES: u64 = 4_000_000;
/// Text in bytes that aliases in one document may come to; Go has no such bound and runs out of memory.
const MAX_ALIASED_BYTES: usize = 64 * 1024 * 1024;

struct Reader<'d> {
    nodes: &'d [Node],
    v2: bool,
    /// Aliases that are being followed.
    following: Vec<Id>,
    decoded: u64,
    aliased: u64,
    /// Text that aliases came to.
    aliased_bytes: usize,
    depth: usize,
    /// Keys that a merge must not overwrite (`yaml.v3`).
    merged: Option<BTreeSet<GoValue>>,
}

type Decoded<T> = Result<T, YamlError>;

/// Decodes the first document of a text; an empty text is null.
pub(crate) fn decode(text: &str, decoder: Decoder) -> Decoded<GoValue> {
    let v2 = decoder != Decoder::V3;
    let Document { nodes, root } = parse(text, v2)?;
    let mut reader = Reader {
        nodes: &nodes,
        v2,
        following: Vec::new(),
        decoded: 0,
        aliased: 0,
        aliased_bytes: 0,
        depth: 0,
        merged: None,
    };
    match (root, decoder) {
        (None, Decoder::Config) => Ok(GoValue::string_map()),
        (None, _) => Ok(GoValue::Null),
        (Some(root), Decoder::Config) => reader.config(root),
        (Some(root), _) => reader.value(root),
    }
}

fn fail<T>(node: &Node, message: impl Into<String>) -> Decoded<T> {
    let (line, column) = (node.mark.line + 1, node.mark.column + 1);
    Err(YamlError {
        message: message.into(),
        line,
        column,
    })
}

impl<'d> Reader<'d> {
    fn node(&self, id: Id) -> &'d Node {
        &self.nodes[id]
    }

    /// Go's guard against aliases that make up nearly all of a large document.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a ratio of counts far below 2^52"
    )]
    fn count(&mut self, node: &Node) -> Decoded<()> {
        self.decoded += 1;
        self.aliased += u64::from(!self.following.is_empty());
        let (decoded, aliased) = (self.decoded as f64, self.aliased as f64);
        let allowed = match self.decoded {
            0..=400_000 => 0.99,
            4_000_000.. => 0.10,
            _ => 0.99 - 0.89 * ((decoded - 400_000.0) / 3_600_000.0),
        };
        if self.aliased > 100 && self.decoded > 1000 && aliased / decoded > allowed {
            return fail(node, "document contains excessive aliasing");
        }
        if self.decoded > MAX_VALUES {
            return fail(node, "document has too many values");
        }
        if let (false, NodeKind::Scalar(text, _)) = (self.following.is_empty(), &node.kind) {
            self.aliased_bytes = self.aliased_bytes.saturating_add(text.len());
            if self.aliased_bytes > MAX_ALIASED_BYTES {
                return fail(node, "document has too much text once aliases are expanded");
            }
        }
        Ok(())
    }

    /// Runs with one more level of depth; aliases can nest deeper than the text does.
    fn deeper<T>(&mut self, node: &Node, run: impl FnOnce(&mut Self) -> Decoded<T>) -> Decoded<T> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return fail(node, "nested too deep");
        }
        let result = run(self);
        self.depth -= 1;
        result
    }

    fn follow<T>(&mut self, id: Id, run: impl FnOnce(&mut Self) -> Decoded<T>) -> Decoded<T> {
        let node = self.node(id);
        if let NodeKind::Alias(name, _) = &node.kind
            && self.following.contains(&id)
        {
            return fail(node, format!("anchor '{name}' value contains itself"));
        }
        self.following.push(id);
        let result = run(self);
        self.following.pop();
        result
    }

    fn value(&mut self, id: Id) -> Decoded<GoValue> {
        let node = self.node(id);
        self.count(node)?;
        match &node.kind {
            NodeKind::Alias(_, target) => self.follow(id, |reader| {
                reader.deeper(node, |reader| reader.value(*target))
            }),
            NodeKind::Scalar(text, plain) => self.scalar(node, text, *plain),
            NodeKind::Sequence(items) => self.deeper(node, |reader| {
                let items: Decoded<Vec<_>> = items.iter().map(|item| reader.value(*item)).collect();
                Ok(GoValue::List(items?))
            }),
            NodeKind::Mapping(pairs) => {
                let all_text = !self.v2
                    && pairs.iter().all(|(key, _)| {
                        matches!(self.short_tag(*key).as_str(), "!!str" | "!!merge")
                    });
                let mut map = GoMap::new(if all_text { MapKind::Str } else { MapKind::Any });
                self.deeper(node, |reader| {
                    reader.mapping(node, pairs, &mut map, all_text)
                })?;
                Ok(GoValue::Map(map))
            }
        }
    }

    /// The top level of platform config: a map with text keys.
    fn config(&mut self, id: Id) -> Decoded<GoValue> {
        let node = self.node(id);
        self.count(node)?;
        let mut map = GoMap::new(MapKind::Str);
        match &node.kind {
            NodeKind::Alias(_, target) => {
                return self.follow(id, |reader| reader.config(*target));
            }
            NodeKind::Mapping(pairs) => self.mapping(node, pairs, &mut map, true)?,
            NodeKind::Scalar(text, plain) => {
                if self.scalar(node, text, *plain)? != GoValue::Null {
                    return fail(
                        node,
                        "cannot unmarshal a scalar into map[string]interface {}",
                    );
                }
            }
            NodeKind::Sequence(_) => {
                return fail(node, "cannot unmarshal !!seq into map[string]interface {}");
            }
        }
        Ok(GoValue::Map(map))
    }

    /// What the scalar is, by its tag or by its looks.
    fn resolved(&self, node: &Node, text: &str, plain: bool) -> Decoded<Scalar> {
        let tag = node.tag.as_str();
        if tag.is_empty() || tag == "!" && !self.v2 {
            return Ok(if plain {
                resolve(text, self.v2, true)
            } else {
                Scalar::Text
            });
        }
        let wanted = match tag {
            "!!bool" | "!!int" | "!!float" | "!!null" | "!!timestamp" => tag,
            _ => return Ok(Scalar::Text),
        };
        let found = match wanted {
            "!!timestamp" => timestamp(text).map_or(Scalar::Text, Scalar::Time),
            _ => resolve(text, self.v2, false),
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "Go converts an int to a float, too"
        )]
        match found {
            Scalar::Int(number) if wanted == "!!float" => Ok(Scalar::Float(number as f64)),
            other if other.tag() == wanted => Ok(other),
            other => fail(
                node,
                format!("cannot decode {} `{text}` as a {wanted}", other.tag()),
            ),
        }
    }

    fn binary(node: &Node, text: &str) -> Decoded<Option<GoValue>> {
        if node.tag != "!!binary" {
            return Ok(None);
        }
        match base64_decode(text.as_bytes()) {
            Ok(bytes) => Ok(Some(match String::from_utf8(bytes) {
                Ok(text) => GoValue::from(text),
                Err(error) => GoValue::Bytes(error.into_bytes()),
            })),
            Err(_) => fail(node, "!!binary value contains invalid base64 data"),
        }
    }

    fn scalar(&mut self, node: &Node, text: &str, plain: bool) -> Decoded<GoValue> {
        if let Some(bytes) = Self::binary(node, text)? {
            return Ok(bytes);
        }
        Ok(match self.resolved(node, text, plain)? {
            Scalar::Null => GoValue::Null,
            Scalar::Bool(flag) => GoValue::Bool(flag),
            Scalar::Int(number) => GoValue::Int(number),
            Scalar::Uint(number) => GoValue::Uint(number),
            Scalar::Float(number) => GoValue::Float(number),
            Scalar::Time(time) if !self.v2 => GoValue::Time(time.to_rfc3339()),
            Scalar::Time(_) | Scalar::Merge | Scalar::Text => GoValue::from(text),
        })
    }

    /// `yaml.v3`'s short tag of a node, which decides the type of the map around it.
    fn short_tag(&self, id: Id) -> String {
        let node = self.node(id);
        if !node.tag.is_empty() && node.tag != "!" {
            return node.tag.clone();
        }
        match &node.kind {
            NodeKind::Mapping(_) => "!!map".to_owned(),
            NodeKind::Sequence(_) => "!!seq".to_owned(),
            NodeKind::Alias(_, target) if *target != id => self.short_tag(*target),
            NodeKind::Alias(..) => String::new(),
            NodeKind::Scalar(_, false) => "!!str".to_owned(),
            NodeKind::Scalar(text, true) if text == "<<" => "!!merge".to_owned(),
            NodeKind::Scalar(text, true) => resolve(text, false, true).tag().to_owned(),
        }
    }

    fn is_merge(&self, id: Id) -> bool {
        let node = self.node(id);
        let NodeKind::Scalar(text, plain) = &node.kind else {
            return false;
        };
        if text != "<<" {
            return false;
        }
        match node.tag.as_str() {
            "!!merge" => true,
            "!" => self.v2 || *plain,
            "" => *plain,
            _ => false,
        }
    }

    fn mapping(
        &mut self,
        node: &Node,
        pairs: &[(Id, Id)],
        map: &mut GoMap,
        text_keys: bool,
    ) -> Decoded<()> {
        if !self.v2 {
            self.unique_keys(pairs)?;
        }
        let merged = self.merged.take();
        let mut seen = merged.clone();
        let mut merge = None;
        for (key_id, value_id) in pairs {
            if self.is_merge(*key_id) {
                if self.v2 {
                    self.merge_into(*value_id, map, text_keys)?;
                } else {
                    merge = Some(*value_id);
                }
                continue;
            }
            let key = if text_keys {
                match self.text_key(*key_id)? {
                    Some(key) => key,
                    None => continue,
                }
            } else {
                self.value(*key_id)?
            };
            if let Some(seen) = &mut seen
                && !seen.insert(key.clone())
            {
                continue;
            }
            if key.is_container() {
                return fail(self.node(*key_id), "invalid map key");
            }
            let value = self.value(*value_id)?;
            map.entries.insert(key, value);
        }
        self.merged = seen;
        if let Some(merge) = merge {
            if self.merged.is_none() {
                self.merged = Some(map.entries.keys().cloned().collect());
            }
            self.deeper(node, |reader| reader.merge_into(merge, map, text_keys))?;
            if merged.is_none() {
                self.merged = None;
            }
        }
        Ok(())
    }

    /// A key of a map with string keys: its own text, whatever it would resolve to. A null is
    /// an empty text to `yaml.v2`, and no key to `yaml.v3`.
    fn text_key(&mut self, id: Id) -> Decoded<Option<GoValue>> {
        let node = self.node(id);
        self.count(node)?;
        match &node.kind {
            NodeKind::Alias(_, target) => self.follow(id, |reader| {
                reader.deeper(node, |reader| reader.text_key(*target))
            }),
            NodeKind::Scalar(text, plain) => {
                if let Some(bytes) = Self::binary(node, text)? {
                    return Ok(Some(bytes));
                }
                let null = self.resolved(node, text, *plain)? == Scalar::Null;
                Ok(match (null, self.v2) {
                    (false, _) => Some(GoValue::from(text.as_str())),
                    (true, true) => Some(GoValue::from("")),
                    (true, false) => None,
                })
            }
            _ => fail(node, "cannot unmarshal into string"),
        }
    }

    fn unique_keys(&self, pairs: &[(Id, Id)]) -> Decoded<()> {
        let mut seen = BTreeSet::new();
        for (key, _) in pairs {
            let node = self.node(*key);
            let (rank, text) = match &node.kind {
                NodeKind::Scalar(text, _) => (0, text.as_str()),
                NodeKind::Alias(name, _) => (1, name.as_str()),
                NodeKind::Sequence(_) => (2, ""),
                NodeKind::Mapping(_) => (3, ""),
            };
            if !seen.insert((rank, text)) {
                return fail(node, format!("mapping key {text:?} already defined"));
            }
        }
        Ok(())
    }

    /// `<<`: a mapping, an alias of one, or a list of those.
    fn merge_into(&mut self, id: Id, map: &mut GoMap, text_keys: bool) -> Decoded<()> {
        let node = self.node(id);
        match &node.kind {
            NodeKind::Sequence(items) => {
                let mut order: Vec<Id> = items.clone();
                if self.v2 {
                    order.reverse();
                }
                for item in order {
                    self.merge_one(item, map, text_keys)?;
                }
                Ok(())
            }
            _ => self.merge_one(id, map, text_keys),
        }
    }

    fn merge_one(&mut self, id: Id, map: &mut GoMap, text_keys: bool) -> Decoded<()> {
        let node = self.node(id);
        self.count(node)?;
        match &node.kind {
            NodeKind::Mapping(pairs) => {
                self.deeper(node, |reader| reader.mapping(node, pairs, map, text_keys))
            }
            NodeKind::Alias(_, target) => {
                let target = *target;
                match &self.node(target).kind {
                    NodeKind::Mapping(_) => {
                        self.follow(id, |reader| reader.merge_one(target, map, text_keys))
                    }
                    _ => fail(
                        node,
                        "map merge requires map or sequence of maps as the value",
                    ),
                }
            }
            _ => fail(
                node,
                "map merge requires map or sequence of maps as the value",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_aliases_expand_to_is_counted_in_bytes() {
        let text = "x".repeat(256 * 1024);
        let aliases = vec!["*a"; 300].join(", ");
        for decoder in [Decoder::V2, Decoder::V3, Decoder::Config] {
            let scalar = decode(&format!("a: &a {text}\nb: [{aliases}]\n"), decoder).unwrap_err();
            assert!(scalar.message.contains("too much text"), "{scalar:?}");
        }
    }
}
