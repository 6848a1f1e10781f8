//! Containers whose image the node asks the registry for at each start.
//!
//! What comes in: an object. What goes out: each such image, with the place of its `imagePullPolicy`. It is pure.

use std::sync::Arc;

use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_control::yaml::{Node, YamlValue};

/// Adds the containers within `node` that have `imagePullPolicy: Always`.
pub(crate) fn always(file: &Arc<SourceFile>, node: &Node, found: &mut Vec<(String, Location)>) {
    match &node.value {
        YamlValue::Mapping(entries) => {
            let policy = node.field("imagePullPolicy");
            let policy = policy.filter(|policy| policy.as_str() == Some("Always"));
            let image = node.field("image").and_then(Node::as_str);
            if let (Some(policy), Some(image)) = (policy, image) {
                found.push((image.to_owned(), Location::new(file, policy.span.clone())));
            }
            for entry in entries {
                always(file, &entry.value, found);
            }
        }
        YamlValue::Sequence(items) => items.iter().for_each(|item| always(file, item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_that_are_pulled_at_each_start_are_found_and_no_others() {
        let text = "spec:\n  containers:\n    - {name: a, image: r/a:1, imagePullPolicy: Always}\n    - {name: b, image: r/b:1}\n    - \
                    {name: c, image: r/c:1, imagePullPolicy: IfNotPresent}\n";
        let file = Arc::new(SourceFile {
            name: "x.yaml".to_owned(),
            text: text.to_owned(),
        });
        let documents = outhaul_control::yaml::parse(&file).unwrap();
        let mut found = Vec::new();
        always(&file, &documents[0], &mut found);
        let found: Vec<_> = found
            .iter()
            .map(|(image, at)| (image.as_str(), at.to_string()))
            .collect();
        assert_eq!(found, [("r/a:1", "x.yaml:3:48".to_owned())]);
    }
}
