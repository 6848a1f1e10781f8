//! What a bundle would change in what is fetched on site: images, and the commits of repositories.
//!
//! What comes in: what two indexes list to be served. What goes out: one change for each difference, as people
//! read it. A controller that fetches applies what is behind these, though nothing that is rendered differs. It is
//! pure.

use std::collections::BTreeMap;

use outhaul_bundle::index::Served;
use outhaul_reconcilers::Change;

/// How much of a commit's id is shown.
const SHORT: usize = 12;

/// What differs between what was served before and what is served after.
pub fn differing(before: &Served, after: &Served) -> Vec<Change> {
    let (mut old, new) = (all(before), all(after));
    let mut changes = Vec::new();
    for (name, id) in new {
        let (action, item) = match old.remove(&name) {
            Some(known) if known == id => continue,
            Some(known) => (
                "change",
                format!("{name} from {} to {}", short(&known), short(&id)),
            ),
            None => ("add", format!("{name} at {}", short(&id))),
        };
        changes.push(Change { action, item });
    }
    changes.extend(old.into_iter().map(|(name, id)| Change {
        action: "remove",
        item: format!("{name} at {}", short(&id)),
    }));
    changes
}

/// Every name with the id of its content.
fn all(served: &Served) -> BTreeMap<String, String> {
    let images = served.images.iter().map(|image| {
        (
            format!("image {}", image.name),
            image.manifest.digest.to_string(),
        )
    });
    let repositories = served.repositories.iter().flat_map(|repository| {
        let refs = repository.refs.iter();
        refs.map(|(name, commit)| (format!("{} {name}", repository.url), commit.clone()))
    });
    images.chain(repositories).collect()
}

fn short(id: &str) -> &str {
    let id = id.strip_prefix("sha256:").unwrap_or(id);
    id.get(..SHORT).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use outhaul_bundle::Digest;
    use outhaul_bundle::blob::Content;
    use outhaul_bundle::index::served::{Image, Repository};

    use super::*;

    fn content(of: &str) -> Content {
        Content {
            digest: Digest::of(of.as_bytes()),
            size: 1,
        }
    }

    fn served(image: &str, commit: char) -> Served {
        let commit = commit.to_string().repeat(40);
        Served {
            images: vec![Image {
                name: format!("registry.example/{image}"),
                media_type: String::new(),
                manifest: content(image),
                blobs: Vec::new(),
            }],
            repositories: vec![Repository {
                url: "https://git.example/app".into(),
                refs: [("refs/heads/main".to_owned(), commit)].into(),
                head: "refs/heads/main".into(),
                shallow: std::collections::BTreeSet::new(),
                pack: content("pack"),
            }],
        }
    }

    #[test]
    fn another_commit_and_another_image_are_changes_though_no_file_differs() {
        assert!(differing(&served("a:1", 'a'), &served("a:1", 'a')).is_empty());
        let reported: Vec<String> = differing(&served("a:1", 'a'), &served("a:2", 'b'))
            .into_iter()
            .map(|change| format!("{} {}", change.action, change.item))
            .collect();
        let id = |image: &str| Digest::of(image.as_bytes()).hex()[..12].to_owned();
        assert_eq!(
            reported,
            [
                "change https://git.example/app refs/heads/main from aaaaaaaaaaaa to bbbbbbbbbbbb"
                    .to_owned(),
                format!("add image registry.example/a:2 at {}", id("a:2")),
                format!("remove image registry.example/a:1 at {}", id("a:1")),
            ]
        );
    }
}
