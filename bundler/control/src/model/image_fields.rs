//! Fields of custom resources that hold images: a kind, and a path in its objects.
//!
//! What comes in: the text of a path. What goes out: its steps, or what is wrong with it. Which objects have the field is found where
//! manifests are read.

use super::super::diagnostic::Location;

/// Most steps of a path.
const MAX_STEPS: usize = 32;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldStep {
    /// The field of this name.
    Key(String),
    /// `[*]`: every item of a list, every value of a map.
    Each,
}

/// A field of the objects of one kind.
#[derive(Debug, Clone)]
pub struct ImageField {
    /// `press.example/v1`, or `press.example/*` for every version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The path as it is written.
    pub written: String,
    /// Its steps.
    pub path: Vec<FieldStep>,
    /// Whether what looks like an image there is none.
    pub ignored: bool,
    /// Where the path is written.
    pub location: Location,
}

/// Two that say the same are equal, wherever they are written.
impl PartialEq for ImageField {
    fn eq(&self, other: &Self) -> bool {
        let own = |one: &Self| (one.api_version.clone(), one.kind.clone(), one.ignored);
        own(self) == own(other) && self.path == other.path
    }
}

impl ImageField {
    /// Whether it and `other` are the same field of some objects, whatever they say of it.
    pub fn shares_objects(&self, other: &Self) -> bool {
        let (own, others) = (&self.api_version, &other.api_version);
        let group = |version: &str| version.strip_suffix("/*").map(str::to_owned);
        let same_version = match (group(own), group(others)) {
            (Some(own), Some(others)) => own == others,
            (Some(_), None) => self.is_of(others, &other.kind),
            (None, _) => other.is_of(own, &self.kind),
        };
        same_version && self.kind == other.kind && self.path == other.path
    }

    /// Whether objects of this API version and kind have it.
    pub fn is_of(&self, api_version: &str, kind: &str) -> bool {
        let same = match self.api_version.strip_suffix("/*") {
            Some(group) => api_version
                .rsplit_once('/')
                .is_some_and(|(own, _)| own == group),
            None => self.api_version == api_version,
        };
        same && self.kind == kind
    }

    /// The steps of a path such as `spec.components[*].image` or `spec["image.name"]`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn steps(text: &str) -> Result<Vec<FieldStep>, String> {
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("[*]") {
                steps.push(FieldStep::Each);
                rest = after;
            } else if let Some(after) = rest.strip_prefix("[\"") {
                let (key, after) = after
                    .split_once("\"]")
                    .ok_or("`[\"` has no `\"]` behind it")?;
                steps.push(FieldStep::Key(key.to_owned()));
                rest = after;
            } else if rest.starts_with('[') {
                let what = "in brackets there is `*` for every item, or a name in quotation marks";
                return Err(what.to_owned());
            } else {
                let begins = match steps.is_empty() {
                    true => rest,
                    false => rest.strip_prefix('.').ok_or("a `.` is missing")?,
                };
                let end = begins.find(['.', '[']).unwrap_or(begins.len());
                let (key, after) = begins.split_at(end);
                if key.is_empty() || key.contains(char::is_whitespace) {
                    return Err(
                        "a name between two dots is missing, or has a space in it".to_owned()
                    );
                }
                steps.push(FieldStep::Key(key.to_owned()));
                rest = after;
            }
        }
        match steps.len() {
            0 => Err("it is empty".to_owned()),
            1..=MAX_STEPS => Ok(steps),
            _ => Err(format!("it has more than {MAX_STEPS} steps")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FieldStep, ImageField};

    #[test]
    fn two_fields_share_objects_where_version_kind_and_path_meet() {
        let location = super::Location::new(
            &std::sync::Arc::new(crate::diagnostic::SourceFile {
                name: String::new(),
                text: String::new(),
            }),
            0..0,
        );
        let field = |api_version: &str, kind: &str, path: &str| ImageField {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            written: path.to_owned(),
            path: ImageField::steps(path).unwrap(),
            ignored: false,
            location: location.clone(),
        };
        let one = field("press.example/v1", "Press", "spec.image");
        for (other, shares) in [
            (field("press.example/v1", "Press", "spec.image"), true),
            (field("press.example/*", "Press", "spec.image"), true),
            (field("press.example/v2", "Press", "spec.image"), false),
            (field("other.example/*", "Press", "spec.image"), false),
            (field("press.example/v1", "Ink", "spec.image"), false),
            (field("press.example/v1", "Press", "spec.ink"), false),
        ] {
            assert_eq!(one.shares_objects(&other), shares, "{other:?}");
            assert_eq!(other.shares_objects(&one), shares, "{other:?}");
        }
        let all = field("press.example/*", "Press", "spec.image");
        assert!(all.shares_objects(&all));
    }

    #[test]
    fn a_path_is_read_step_by_step_or_refused() {
        let key = |text: &str| FieldStep::Key(text.to_owned());
        let read = ImageField::steps("spec.components[*].image");
        let steps = [
            key("spec"),
            key("components"),
            FieldStep::Each,
            key("image"),
        ];
        assert_eq!(read.unwrap(), steps);
        let read = ImageField::steps("spec[\"a.b\"][*]");
        assert_eq!(read.unwrap(), [key("spec"), key("a.b"), FieldStep::Each]);
        for (text, problem) in [
            ("", "empty"),
            (".spec", "missing"),
            ("spec..image", "missing"),
            ("spec.", "missing"),
            ("spec[0].image", "every item"),
            ("spec[\"a", "behind it"),
            ("spec[*]image", "`.` is missing"),
            (&"a.".repeat(40), "missing"),
            (&["a"; 40].join("."), "32 steps"),
        ] {
            let found = ImageField::steps(text).unwrap_err();
            assert!(found.contains(problem), "{text}: {found}");
        }
    }
}
