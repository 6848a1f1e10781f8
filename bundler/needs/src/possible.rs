//! What looks like an image in a field that is not known to hold one.
//!
//! What comes in: an object, and where images were found in it. What goes out: each other text that is written as an image's name is,
//! with its place and its field, so that nobody misses it on site: the variables and arguments by which an operator starts more, fields
//! of custom resources, services of Compose. It asks no registry, and so some of it may be no image.

use std::collections::BTreeSet;
use std::sync::Arc;

use outhaul_bundle::Digest;
use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_control::model::ImageField;
use outhaul_control::yaml::{Node, YamlValue};
use outhaul_kit::image_name::{is_repository, is_tag};

use crate::fields::{composed, named, objects};
use crate::name::parts;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Possible {
    /// The image, as it is written.
    pub image: String,
    /// Whether its field holds nothing else.
    pub is_alone: bool,
    /// The path of its field, as `imageFields` of a delivery policy takes it.
    pub field: String,
    /// API version and kind of the object; empty where it has none.
    pub object: Option<(String, String)>,
    /// Where it is written.
    pub at: Location,
}

/// API groups whose objects name charts, artifacts and repositories: what they need is found by their own rules.
const GROUPS: [&str; 4] = [
    "source.toolkit.fluxcd.io",
    "helm.toolkit.fluxcd.io",
    "image.toolkit.fluxcd.io",
    "fleet.cattle.io",
];
/// Kinds for which that is so, too; and descriptions of fields.
const KINDS: [&str; 5] = [
    "Application",
    "ApplicationSet",
    "AppProject",
    "HelmChart",
    "CustomResourceDefinition",
];
/// What `kubectl apply` adds: the object once more.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Pictures.
const PICTURES: [&str; 6] = [".png", ".svg", ".jpg", ".jpeg", ".gif", ".webp"];

/// Whether a file has a text that is an image's whole name: then it is looked at.
pub(crate) fn is_in(text: &str) -> bool {
    whole_names(text).next().is_some()
}

/// The images' whole names in a text.
pub(crate) fn whole_names(text: &str) -> impl Iterator<Item = &str> {
    words(text).filter(|word| is_whole(word))
}

/// What looks like an image in a value that is written apart from its object, such as that of an operation of JSON Patch. `path` is that of
/// its field, and `called` the field's name.
pub(crate) fn in_value(
    file: &Arc<SourceFile>,
    (path, called): (&str, &str),
    value: &Node,
    known: &BTreeSet<usize>,
) -> Vec<Possible> {
    let mut found = Vec::new();
    let mut walk = Walk {
        file,
        object: None,
        known,
        found: &mut found,
    };
    walk.node(path, called, value);
    found
}

/// Everything in `document` that looks like an image, but for what is written at the places `known`.
pub(crate) fn possible(
    file: &Arc<SourceFile>,
    document: &Node,
    fields: &[ImageField],
    known: &BTreeSet<usize>,
) -> Vec<Possible> {
    let mut found = Vec::new();
    for object in objects(document) {
        let own = |key: &str| object.field(key).and_then(Node::as_str).unwrap_or_default();
        let (api_version, kind) = (own("apiVersion"), own("kind"));
        let group = api_version.split('/').next().unwrap_or_default();
        if GROUPS.contains(&group) || KINDS.contains(&kind) {
            continue;
        }
        let ignored = named(object, fields).into_iter();
        let ignored = ignored.filter(|(_, field, _)| field.ignored);
        let ignored = ignored.flat_map(|(.., nodes)| nodes.into_iter().map(|node| node.span.start));
        let known: BTreeSet<usize> = known.iter().copied().chain(ignored).collect();
        let is_object = !api_version.is_empty() && !kind.is_empty();
        let mut walk = Walk {
            file,
            object: is_object.then(|| (api_version.to_owned(), kind.to_owned())),
            known: &known,
            found: &mut found,
        };
        walk.node("", "", object);
    }
    found
}

struct Walk<'a> {
    file: &'a Arc<SourceFile>,
    object: Option<(String, String)>,
    known: &'a BTreeSet<usize>,
    found: &'a mut Vec<Possible>,
}

impl Walk<'_> {
    /// `called` is what the value at `path` is called by.
    fn node(&mut self, path: &str, called: &str, node: &Node) {
        if self.known.contains(&node.span.start) && node.as_str().is_some() {
            return;
        }
        match &node.value {
            YamlValue::Mapping(entries) => {
                if is_called_image(called)
                    && let Some(image) = composed(node)
                    && is_named(&image)
                {
                    // A map begins where its first key does: a known image there is one of its fields.
                    if !self.known.contains(&node.span.start) {
                        self.add(&image, true, path, node);
                    }
                    return;
                }
                // A variable of a container is called by the name beside it.
                let name = node.field("name").and_then(Node::as_str);
                for entry in entries.iter().filter(|entry| entry.key != LAST_APPLIED) {
                    let called = match (entry.key.as_str(), name) {
                        ("value", Some(name)) => name,
                        (key, _) => key,
                    };
                    self.node(&below(path, &entry.key), called, &entry.value);
                }
            }
            YamlValue::Sequence(items) => {
                let path = format!("{path}[*]");
                for item in items {
                    self.node(&path, called, item);
                }
            }
            YamlValue::String(text) => {
                let mut images: Vec<&str> = whole_names(text).collect();
                if images.is_empty() && is_called_image(called) && is_named(text) {
                    images.push(text);
                }
                images.sort_unstable();
                images.dedup();
                for image in images {
                    self.add(image, image == text, path, node);
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, image: &str, is_alone: bool, path: &str, node: &Node) {
        self.found.push(Possible {
            image: image.to_owned(),
            is_alone,
            field: path.to_owned(),
            object: self.object.clone(),
            at: Location::new(self.file, node.span.clone()),
        });
    }
}

pub(crate) fn below(path: &str, key: &str) -> String {
    match (key.contains(['.', '[', ' ']), path) {
        (true, path) => format!("{path}[\"{key}\"]"),
        (false, "") => key.to_owned(),
        (false, path) => format!("{path}.{key}"),
    }
}

/// What may be a name by itself: options and scripts have more around it.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| c.is_whitespace() || "\"'`=,;()<>{}[]|".contains(c);
    text.split(ends)
        .map(|word| word.trim_end_matches(['.', ':']))
}

/// Whether a field of this name is called as images are.
fn is_called_image(called: &str) -> bool {
    let called = called.to_ascii_lowercase();
    called.contains("image") && !called.contains("policy") && !called.contains("secret")
}

/// Whether it is the name of an image with its registry and its tag or digest.
fn is_whole(word: &str) -> bool {
    let Some((registry, rest)) = word.split_once('/') else {
        return false;
    };
    let (name, tag, digest) = parts(rest);
    (tag.is_some() || digest.is_some()) && is_registry(registry) && is_sound(name, tag, digest)
}

/// Whether it is one where the field is called as images are: a registry, or a tag or digest, may be missing.
fn is_named(text: &str) -> bool {
    let (name, tag, digest) = parts(text);
    let registry = name.split_once('/').filter(|(first, _)| is_registry(first));
    let is_picture = PICTURES.iter().any(|end| name.ends_with(end));
    let (rest, is_enough) = match registry {
        Some((_, rest)) => (rest, !is_picture),
        None => (name, tag.is_some() || digest.is_some()),
    };
    is_enough && is_sound(rest, tag, digest)
}

fn is_registry(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-:".contains(c);
    let starts = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let ends = text.ends_with(|c: char| c.is_ascii_alphanumeric());
    (text.contains(['.', ':']) || text == "localhost") && text.chars().all(plain) && starts && ends
}

fn is_sound(name: &str, tag: Option<&str>, digest: Option<&str>) -> bool {
    is_repository(name)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(|digest| digest.parse::<Digest>().is_ok())
}

#[cfg(test)]
mod tests {
    use outhaul_control::model::ImageField;
    use outhaul_test_planes::fields::image_field;

    use crate::{Need, Needs};

    fn field(path: &str, ignored: bool) -> ImageField {
        image_field("press.example/*", "Press", path, ignored)
    }

    fn read(text: &str, fields: &[ImageField]) -> (Vec<String>, Vec<String>) {
        let needs = Needs::with("app/press.yaml", text.as_bytes(), fields);
        let images = needs.all.iter().map(|(need, at)| match need {
            Need::Image(image) => format!("{at} {image}"),
            other => panic!("{other:?}"),
        });
        let possible = needs.possible.iter();
        let possible = possible.map(|one| format!("{} {} {}", one.at, one.field, one.image));
        (images.collect(), possible.collect())
    }

    const PRESS: &str = "\
apiVersion: press.example/v1
kind: Press
metadata: {name: a}
spec:
  image: quay.io/press/head:1
  components:
    - {kind: ink, image: quay.io/press/ink:2}
    - {kind: paper, image: {repository: quay.io/press/paper, tag: 1.10}}
  schema: press.example/schemas/press:v1
";

    #[test]
    fn images_of_custom_resources_are_found_by_their_paths_and_named_without() {
        let (images, possible) = read(PRESS, &[]);
        assert!(images.is_empty(), "{images:?}");
        assert_eq!(
            possible,
            [
                "app/press.yaml:5:10 spec.image quay.io/press/head:1",
                "app/press.yaml:7:26 spec.components[*].image quay.io/press/ink:2",
                "app/press.yaml:8:28 spec.components[*].image quay.io/press/paper:1.10",
                "app/press.yaml:9:11 spec.schema press.example/schemas/press:v1",
            ]
        );
        let fields = [
            field("spec.image", false),
            field("spec.components[*].image", false),
            field("spec.schema", true),
            field("spec.imgae", false),
        ];
        let (images, possible) = read(PRESS, &fields);
        assert!(possible.is_empty(), "{possible:?}");
        assert_eq!(
            images,
            [
                "app/press.yaml:5:10 quay.io/press/head:1",
                "app/press.yaml:7:26 quay.io/press/ink:2",
                "app/press.yaml:8:28 quay.io/press/paper:1.10",
            ]
        );
        let needs = Needs::with("a.yaml", PRESS.as_bytes(), &fields);
        assert_eq!(
            needs.fields,
            [(0, true), (1, true), (2, true), (3, false)].into()
        );
        let other = PRESS.replace("kind: Press", "kind: Ink");
        let needs = Needs::with("a.yaml", other.as_bytes(), &fields);
        assert_eq!((needs.all.len(), needs.possible.len()), (0, 4));
        let kind = ("press.example/v1".to_owned(), "Ink".to_owned());
        assert_eq!(needs.kinds, [kind].into());
    }

    #[test]
    fn what_an_operator_starts_later_is_named_and_what_is_no_image_is_not() {
        let text = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, labels: {app.kubernetes.io/name: a}, annotations: {note: 'see https://docs.example/a/b:c'}}
spec:
  template:
    spec:
      containers:
        - name: a
          image: quay.io/press/operator:1
          imagePullPolicy: Always
          args: [--reloader=quay.io/press/reloader:2, --listen=0.0.0.0:8080, --url=http://press.example/a:1]
          env:
            - {name: RELATED_IMAGE_INK, value: press/ink:3}
            - {name: INK_PLACE, value: press/ink:3}
";
        let (images, possible) = read(text, &[]);
        assert_eq!(images, ["app/press.yaml:9:18 quay.io/press/operator:1"]);
        let container = "spec.template.spec.containers[*]";
        assert_eq!(
            possible,
            [
                format!("app/press.yaml:11:18 {container}.args[*] quay.io/press/reloader:2"),
                format!("app/press.yaml:13:48 {container}.env[*].value press/ink:3"),
            ]
        );
        let (_, possible) = read("services:\n  web:\n    image: nginx:1.27\n", &[]);
        assert_eq!(
            possible,
            ["app/press.yaml:3:12 services.web.image nginx:1.27"]
        );
        for text in [
            "logo_image: cdn.example/logo.png\n",
            "image: '{{ registry }}/a:1'\n",
            "imagePullSecrets: [{name: a:b}]\n",
            "kind: CustomResourceDefinition\nspec: {description: such as quay.io/a/b:1}\n",
            "host: registry.example:5000/path\n",
            "url: https://quay.io/a/b:1\n",
        ] {
            let (images, possible) = read(text, &[]);
            assert!(
                images.is_empty() && possible.is_empty(),
                "{text}: {possible:?}"
            );
        }
    }
}
