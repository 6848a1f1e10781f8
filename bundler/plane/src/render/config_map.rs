//! A `ConfigMap` holds text and nothing else: Kalypso's defect 7.
//!
//! What comes in: the text that a config template gave, or a composed config. What goes out: which keys
//! of a `ConfigMap` in it are not text, and the config with those keys as the text they were written as.
//! A value that reads as YAML is parsed so that containers can be merged; where nothing but text may
//! stand, it is text again. It never changes what is not a `ConfigMap`.

use std::collections::BTreeSet;
use std::sync::Arc;

use outhaul_gocompat::{GoMap, GoValue, MapKind};

use crate::compose::Composed;
use outhaul_control::diagnostic::SourceFile;
use outhaul_control::yaml::{self, Node, YamlValue};

/// Whether the config holds anything but text, without which no template needs a second look.
pub(super) fn has_structure(composed: &Composed) -> bool {
    match &composed.values {
        GoValue::Map(map) => map.iter().any(|(_, value)| value.is_container()),
        _ => false,
    }
}

/// Keys below `data` of every `ConfigMap` in `text` that are lists or maps. What is not YAML has none.
pub(super) fn structured_keys(text: &str) -> BTreeSet<String> {
    let file = Arc::new(SourceFile {
        name: String::new(),
        text: text.to_owned(),
    });
    let Ok(documents) = yaml::parse(&file) else {
        return BTreeSet::new();
    };
    let is_config_map = |document: &&Node| {
        document.field("apiVersion").and_then(Node::as_str) == Some("v1")
            && document.field("kind").and_then(Node::as_str) == Some("ConfigMap")
    };
    let data = |document: &Node| match document.field("data").map(|data| &data.value) {
        Some(YamlValue::Mapping(entries)) => entries
            .iter()
            .filter(|entry| {
                matches!(
                    entry.value.value,
                    YamlValue::Sequence(_) | YamlValue::Mapping(_)
                )
            })
            .map(|entry| entry.key.clone())
            .collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    documents
        .iter()
        .filter(is_config_map)
        .flat_map(data)
        .collect()
}

/// The values with `keys` as text: as written where one container set the key, and as YAML where
/// several were merged.
pub(super) fn with_text(composed: &Composed, keys: &BTreeSet<String>) -> GoValue {
    let GoValue::Map(values) = &composed.values else {
        return composed.values.clone();
    };
    let mut map = GoMap::new(MapKind::Str);
    for (key, value) in values.iter() {
        let text = key
            .as_str()
            .filter(|key| value.is_container() && keys.contains(*key))
            .map(|key| GoValue::from(text_of(composed, key, value)));
        map.entries
            .insert(key.clone(), text.unwrap_or_else(|| value.clone()));
    }
    GoValue::Map(map)
}

fn text_of(composed: &Composed, key: &str, value: &GoValue) -> String {
    match composed.provenance.get(key).and_then(|p| p.layers.last()) {
        Some(last) if !last.merged => last.text.clone(),
        _ => outhaul_gocompat::to_yaml(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_config_map_holds_below_data_counts() {
        let map =
            "apiVersion: v1\nkind: ConfigMap\ndata:\n  A: [1]\n  B: \"[1]\"\n  C: {x: y}\n  D: 1\n";
        let keys: Vec<String> = structured_keys(map).into_iter().collect();
        assert_eq!(keys, ["A", "C"]);
        assert!(structured_keys("kind: HelmRelease\ndata: {A: [1]}\n").is_empty());
        assert!(structured_keys("data: {A: [1\n").is_empty());
    }
}
