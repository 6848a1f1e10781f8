//! Lists of JSON documents in a `DeliveryPolicy`, each with a name: text in the control plane, pinned by the commit that it is in.
//!
//! What comes in: a field, what its documents are, and what is wrong with one. What goes out: the documents by their names, or nothing,
//! with a finding at the line. Nothing is fetched.

use std::collections::BTreeMap;

use crate::diagnostic::Diagnostic;
use crate::kinds::fields::{FieldReader, Fields};
use crate::kinds::shape::{Shape, must, object, pattern, some};
use crate::model::Spanned;

/// What a document may be called.
pub(super) const NAME: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// Longest name, in bytes: it may become a file's.
const MAX_NAME: usize = 100;

/// One such field.
pub(super) struct NamedJson {
    /// Its name.
    pub field: &'static str,
    /// What one of its documents is, such as `root`.
    pub one: &'static str,
    /// What to write in the place of one that is unsound.
    pub help: &'static str,
    /// What is wrong with a text; it begins with a verb.
    pub problem: fn(&str) -> Option<String>,
}

/// The shape of a field: what its names and documents are, with an example of both.
pub(super) fn shape(name: (&'static str, &str), json: (&'static str, &str)) -> Shape {
    some(object(vec![
        must("name", name.0, pattern(NAME, name.1)),
        must("json", json.0, pattern(r"^\s*\{", json.1)),
    ]))
}

impl NamedJson {
    /// The documents; `None` when the field is not there, or unsound, which was reported then.
    pub(super) fn read(
        &self,
        reader: &mut FieldReader<'_>,
        spec: &Fields<'_>,
    ) -> Option<Spanned<BTreeMap<String, Spanned<String>>>> {
        let (field, one) = (self.field, self.one);
        let location = reader.location(spec.field(field)?);
        let mut found = BTreeMap::new();
        for (at, item) in reader.list(spec, field).iter().enumerate() {
            let what = format!("{}.{field}[{at}]", spec.what);
            let fields = reader.map(item, &what, spec.shape.field(field).item())?;
            let name = reader.text(&fields, "name")?;
            let json = reader.text(&fields, "json")?;
            let unsound = if let Some(problem) = (self.problem)(&json.value) {
                Some((
                    format!("`{what}.json` {problem}"),
                    &json.location,
                    self.help,
                ))
            } else if !is_name(&name.value) {
                Some((
                    format!("`{}` cannot be the name of a {one}", name.value),
                    &name.location,
                    "write small letters, digits and `-`, such as `sigstore`",
                ))
            } else if found.contains_key(&name.value) {
                Some((
                    format!("`{}` is the name of two {one}s", name.value),
                    &name.location,
                    "give each its own name",
                ))
            } else {
                None
            };
            if let Some((message, at, help)) = unsound {
                reader.report(Diagnostic::error("bad-value", message).at(at).help(help));
                return None;
            }
            found.insert(name.value, json);
        }
        if found.is_empty() {
            let message = format!("`{}.{field}` has no entry", spec.what);
            let help =
                format!("give a {one} with its `name` and its `json`, or leave the field out");
            let finding = Diagnostic::error("bad-value", message).at(&location);
            reader.report(finding.help(help));
            return None;
        }
        Some(Spanned {
            value: found,
            location,
        })
    }
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= MAX_NAME
        && name.chars().all(plain)
        && !name.starts_with('-')
        && !name.ends_with('-')
}
