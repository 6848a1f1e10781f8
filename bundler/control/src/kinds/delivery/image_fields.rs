//! `imageFields` of a `DeliveryPolicy`: in which fields of which custom resources there are images.
//!
//! What comes in: the field. What goes out: its entries, each with its path as steps. Whether an object has such a field is found where
//! manifests are read.

use crate::diagnostic::Diagnostic;
use crate::kinds::fields::{FieldReader, Fields};
use crate::kinds::shape::{Shape, may, must, object, pattern, some};
use crate::model::{ImageField, Spanned};
use crate::yaml::YamlValue;
use serde_json::json;

const FIELD: &str = "imageFields";
/// Most entries: each object of a platform is compared with all of them.
const MAX_IMAGE_FIELDS: usize = 200;

pub(super) fn shape() -> Shape {
    some(object(vec![
        must(
            "apiVersion",
            "The API group and version of the objects, with `*` for every version.",
            pattern("^[^*\\s]+(/\\*)?$", "press.example/v1"),
        ),
        must("kind", "Their kind.", pattern("^[A-Za-z0-9]+$", "Press")),
        must(
            "path",
            "The field: names with dots between them, `[*]` for every item of a list or map.",
            pattern("^[^.\\s]", "spec.components[*].image"),
        ),
        may(
            "ignore",
            "`true`: the field holds no image, although it may look like one.",
            json!({"type": "boolean"}),
        ),
    ]))
    .with("maxItems", json!(MAX_IMAGE_FIELDS))
}

/// The entries; `None` when they are not there, or unsound, which was reported then.
pub(super) fn read(
    reader: &mut FieldReader<'_>,
    spec: &Fields<'_>,
) -> Option<Spanned<Vec<ImageField>>> {
    let node = spec.field(FIELD)?;
    let location = reader.location(node);
    let items = reader.list(spec, FIELD);
    let mut value = Vec::new();
    let mut sound = matches!(node.value, YamlValue::Sequence(_));
    if sound && (items.is_empty() || items.len() > MAX_IMAGE_FIELDS) {
        let what = format!("`{}.{FIELD}` has {} entries", spec.what, items.len());
        let finding = Diagnostic::error("bad-value", what).at(&location);
        reader.report(finding.help(format!(
            "write 1 to {MAX_IMAGE_FIELDS}, each with `apiVersion`, `kind` and `path`; or leave the field out"
        )));
        sound = false;
    }
    for (at, item) in items.iter().enumerate() {
        let what = format!("{}.{FIELD}[{at}]", spec.what);
        let Some(fields) = reader.map(item, &what, spec.shape.field(FIELD).item()) else {
            sound = false;
            continue;
        };
        match entry(reader, &fields) {
            Some(entry) => add(reader, entry, &mut value),
            None => sound = false,
        }
    }
    sound.then_some(Spanned { value, location })
}

/// Adds an entry, unless one before it says the same of all its objects. One that repeats or contradicts another is a warning: of a
/// contradiction the entry that says that there is an image counts, as it does where images are read.
fn add(reader: &mut FieldReader<'_>, entry: ImageField, all: &mut Vec<ImageField>) {
    let Some(other) = all.iter().find(|other| other.shares_objects(&entry)) else {
        all.push(entry);
        return;
    };
    let (kind, path) = (&entry.kind, &entry.written);
    let is_same = other.ignored == entry.ignored;
    let (message, help) = match is_same {
        true => (
            format!("`{FIELD}` has `{path}` of `{kind}` twice"),
            repeated(other, &entry),
        ),
        false => (
            format!(
                "`{FIELD}` says of `{path}` of `{kind}` both that it holds an image and, with `ignore: true`, that it holds none: \
                 the entry without `ignore` counts for the objects that both name"
            ),
            contradicted(other, &entry),
        ),
    };
    let finding = Diagnostic::warning("no-effect", message).at(&entry.location);
    reader.report(finding.help(help).related(&other.location, "also here"));
    // The wider of two that say the same decides for both.
    if !is_same || entry.api_version.ends_with("/*") {
        all.push(entry);
    }
}

/// Which of two entries that say the same can be removed: the narrower one, as the wider says it of its objects too.
fn repeated(one: &ImageField, other: &ImageField) -> String {
    match narrower(one, other) {
        None => "remove one of the two entries".to_owned(),
        Some((narrow, wide)) => format!(
            "remove the entry for `{}`: the one for `{}` includes it",
            narrow.api_version, wide.api_version
        ),
    }
}

/// What to do about two entries that contradict each other.
fn contradicted(one: &ImageField, other: &ImageField) -> String {
    match narrower(one, other) {
        Some((narrow, wide)) if narrow.ignored => format!(
            "remove the entry for `{}`, which has no effect; if that version holds no image, write an entry for each other version \
             in place of the one for `{}`",
            narrow.api_version, wide.api_version
        ),
        Some((narrow, wide)) => format!(
            "if no version holds an image, remove the entry for `{}`; if only that version holds one, write an entry for each other \
             version in place of the one for `{}`",
            narrow.api_version, wide.api_version
        ),
        None => "if the field holds an image, remove the entry with `ignore: true`; if it holds none, remove the other one"
            .to_owned(),
    }
}

/// The entry of one version, then the one of every version, where these are such two.
fn narrower<'e>(
    one: &'e ImageField,
    other: &'e ImageField,
) -> Option<(&'e ImageField, &'e ImageField)> {
    let is_wide = |entry: &ImageField| entry.api_version.ends_with("/*");
    match (is_wide(one), is_wide(other)) {
        (false, true) => Some((one, other)),
        (true, false) => Some((other, one)),
        _ => None,
    }
}

fn entry(reader: &mut FieldReader<'_>, fields: &Fields<'_>) -> Option<ImageField> {
    let (api_version, kind) = (
        reader.text(fields, "apiVersion"),
        reader.text(fields, "kind"),
    );
    let path = reader.text(fields, "path");
    let ignored = fields.field("ignore");
    let ignored = match ignored.map(|node| (&node.value, node)) {
        None => false,
        Some((YamlValue::Bool(written), _)) => *written,
        Some((_, node)) => {
            let message = format!(
                "`{}.ignore` is `true` or `false`, and this is {}",
                fields.what,
                node.kind()
            );
            let at = reader.location(node);
            reader.report(Diagnostic::error("bad-value", message).at(&at));
            return None;
        }
    };
    let (api_version, kind, path) = (api_version?, kind?, path?);
    let stars = api_version.value.replacen("/*", "", 1);
    let problems = [
        (
            &api_version,
            stars.contains('*') || stars.contains(char::is_whitespace),
            "write it as objects have it, such as `press.example/v1`, or `press.example/*` for every version",
        ),
        (
            &kind,
            !kind.value.chars().all(|c| c.is_ascii_alphanumeric()),
            "write it as objects have it, such as `Press`",
        ),
    ];
    if let Some((written, _, help)) = problems.iter().find(|(_, wrong, _)| *wrong) {
        let message = format!(
            "`{}` in `{}` is not an API version or kind",
            written.value, fields.what
        );
        let finding = Diagnostic::error("bad-value", message).at(&written.location);
        reader.report(finding.help(*help));
        return None;
    }
    match ImageField::steps(&path.value) {
        Ok(steps) => Some(ImageField {
            api_version: api_version.value,
            kind: kind.value,
            written: path.value,
            path: steps,
            ignored,
            location: path.location,
        }),
        Err(problem) => {
            let message = format!("`{}` is not the path of a field: {problem}", path.value);
            let finding = Diagnostic::error("bad-value", message).at(&path.location);
            reader.report(finding.help(
                "write it such as `spec.image` or `spec.components[*].image`; a name with a dot in it is `[\"a.b\"]`",
            ));
            None
        }
    }
}
