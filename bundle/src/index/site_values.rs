//! Values of an assignment that belong to the site: which keys the centre opens, and what each may be.
//!
//! What comes in: a declaration that signed metadata vouches for, a value that a person on site gave, the rendered
//! file with the values of the centre. What goes out: whether the value may be used, and the same file with the site's
//! values in the place of the centre's. Each value has a line of its own in that file, so that no template
//! engine is needed on site and nothing else in the file can change. It reads no file and no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use super::{Assignment, IndexError};

mod pattern;

pub use pattern::{Pattern, PatternError};

/// Most keys that are open in one assignment.
pub const MAX_KEYS: usize = 32;
/// The longest key, in bytes.
pub const MAX_VALUE_KEY_BYTES: usize = 63;
/// The longest value, in bytes. With [`MAX_KEYS`] it keeps a request to the apply helper small.
pub const MAX_VALUE_BYTES: usize = 256;
/// Most values that a key may be one of.
pub const MAX_CHOICES: usize = 64;
/// The name of the config map that [`Form::ConfigMap`] makes.
pub const CONFIG_MAP: &str = "site-values";

/// What is open in one assignment, and in which file the values are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteValues {
    /// The form of the file.
    pub form: Form,
    /// What each open key may be. Never empty.
    pub keys: BTreeMap<String, Rule>,
}

/// How values are written for those who read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// `KEY="value"`, as systemd, Compose and shells read it.
    Env,
    /// `KEY: value` in YAML, as Ansible reads variables.
    Vars,
    /// A Kubernetes `ConfigMap`.
    ConfigMap,
}

/// What the value of a key may be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What the value is for, for the person on site.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Which values are allowed.
    #[serde(rename = "type")]
    pub allowed: Allowed,
}

/// Which values are allowed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allowed {
    /// Text of one line.
    Text {
        /// Most characters, 1 to [`MAX_VALUE_BYTES`].
        max_length: u32,
        /// What all of it must match.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pattern: Option<Pattern>,
    },
    /// A whole number.
    Integer {
        /// The least.
        minimum: i64,
        /// The most.
        maximum: i64,
    },
    /// `true` or `false`.
    Boolean,
    /// One of these.
    Enum(BTreeSet<String>),
}

/// Why a value cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(String);

impl Form {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Env, Self::Vars, Self::ConfigMap];

    /// As a control plane writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Env => "env",
            Self::Vars => "vars",
            Self::ConfigMap => "configmap",
        }
    }

    /// The name of the file, beside the assignment's other rendered files.
    pub fn file(self) -> &'static str {
        match self {
            Self::Env => "site-values.env",
            Self::Vars | Self::ConfigMap => "site-values.yaml",
        }
    }

    /// What stands before the value of `key` on its line.
    fn prefix(self, key: &str) -> String {
        match self {
            Self::Env => format!("{key}="),
            Self::Vars => format!("{key}: "),
            Self::ConfigMap => format!("  {key}: "),
        }
    }

    /// One line, with its end.
    fn line(self, key: &str, rule: &Rule, value: &str) -> String {
        let typed = matches!(rule.allowed, Allowed::Integer { .. } | Allowed::Boolean);
        let written = match self {
            Self::Vars if typed => value.to_owned(),
            Self::Env => quoted_for_shells(value),
            // A JSON string is a YAML string.
            Self::Vars | Self::ConfigMap => serde_json::Value::from(value).to_string(),
        };
        format!("{}{written}\n", self.prefix(key))
    }
}

fn quoted_for_shells(value: &str) -> String {
    let mut made = String::from("\"");
    for c in value.chars() {
        if matches!(c, '"' | '\\' | '$' | '`') {
            made.push('\\');
        }
        made.push(c);
    }
    made.push('"');
    made
}

impl SiteValues {
    /// The whole file, with the values that the centre has. `namespace` is the assignment's, for a `ConfigMap`.
    ///
    /// # Errors
    /// [`ValueError`] of the first key without a value, or with one that its rule does not allow.
    pub fn file(
        &self,
        namespace: &str,
        values: &BTreeMap<String, String>,
    ) -> Result<String, ValueError> {
        let mut text = match self.form {
            Form::Env | Form::Vars => String::new(),
            Form::ConfigMap => format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {CONFIG_MAP}\n  namespace: {}\ndata:\n",
                serde_json::Value::from(namespace)
            ),
        };
        for (key, rule) in &self.keys {
            let value = values
                .get(key)
                .ok_or_else(|| ValueError(format!("`{key}` has no value")))?;
            rule.check(key, value)?;
            text.push_str(&self.form.line(key, rule, value));
        }
        Ok(text)
    }

    /// The same file with the site's values; keys that are not among them keep what they have.
    ///
    /// # Errors
    /// [`ValueError`] of a key that is not open, of a value that is not allowed, or of a file without a line for the key.
    pub fn with(
        &self,
        file: &str,
        values: &BTreeMap<String, String>,
    ) -> Result<String, ValueError> {
        let mut lines: Vec<String> = file.split_inclusive('\n').map(str::to_owned).collect();
        for (key, value) in values {
            let rule = self.rule(key)?;
            rule.check(key, value)?;
            let prefix = self.form.prefix(key);
            let line = lines.iter_mut().find(|line| line.starts_with(&prefix));
            let Some(line) = line else {
                let name = self.form.file();
                return Err(ValueError(format!("`{name}` has no line for `{key}`")));
            };
            *line = self.form.line(key, rule, value);
        }
        Ok(lines.concat())
    }

    /// The value that `key` has in the file, as a person would type it.
    pub fn value_in(&self, file: &str, key: &str) -> Option<String> {
        let prefix = self.form.prefix(key);
        let written = file.lines().find_map(|line| line.strip_prefix(&prefix))?;
        match self.form {
            Form::Env => {
                let inner = written.strip_prefix('"')?.strip_suffix('"')?;
                let mut made = String::new();
                let mut chars = inner.chars();
                while let Some(c) = chars.next() {
                    made.push(if c == '\\' { chars.next()? } else { c });
                }
                Some(made)
            }
            Form::Vars | Form::ConfigMap => match serde_json::from_str(written).ok()? {
                serde_json::Value::String(text) => Some(text),
                other => Some(other.to_string()),
            },
        }
    }

    /// What `key` may be.
    ///
    /// # Errors
    /// [`ValueError`] when it is not open.
    pub fn rule(&self, key: &str) -> Result<&Rule, ValueError> {
        self.keys.get(key).ok_or_else(|| {
            let open: Vec<String> = self.keys.keys().map(|key| format!("`{key}`")).collect();
            let key: String = key.chars().take(MAX_VALUE_KEY_BYTES).collect();
            ValueError(format!(
                "`{key}` is not open to the site; open are {}",
                open.join(", ")
            ))
        })
    }

    /// What contradicts itself in a declaration.
    pub fn problem(&self) -> Option<String> {
        if self.keys.is_empty() || self.keys.len() > MAX_KEYS {
            let count = self.keys.len();
            return Some(format!(
                "{count} open keys, at least 1 and at most {MAX_KEYS} are allowed"
            ));
        }
        self.keys.iter().find_map(|(key, rule)| match is_key(key) {
            false => Some(format!(
                "`{}` is not a key (letters, digits and `_`, not first a digit, at most {MAX_VALUE_KEY_BYTES})",
                key.chars().take(80).collect::<String>()
            )),
            true => rule.problem().map(|problem| format!("`{key}`: {problem}")),
        })
    }
}

/// Whether `key` may be the name of a value: the name of a variable everywhere.
pub fn is_key(key: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=MAX_VALUE_KEY_BYTES).contains(&key.len())
        && key.bytes().all(word)
        && !key.as_bytes()[0].is_ascii_digit()
}

impl Rule {
    /// Whether `value` is allowed.
    ///
    /// # Errors
    /// [`ValueError`] says what is.
    pub fn check(&self, key: &str, value: &str) -> Result<(), ValueError> {
        let fail = |why: String| Err(ValueError(format!("`{key}`: {why}")));
        if value.len() > MAX_VALUE_BYTES {
            return fail(format!(
                "{} bytes, at most {MAX_VALUE_BYTES} are allowed",
                value.len()
            ));
        }
        let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}');
        if value.chars().any(breaks) {
            return fail("a value is one line of text without control characters".to_owned());
        }
        let is_allowed = match &self.allowed {
            Allowed::Boolean => matches!(value, "true" | "false"),
            Allowed::Enum(choices) => choices.contains(value),
            Allowed::Integer { minimum, maximum } => {
                let number = value.parse::<i64>().ok();
                // One spelling: `+7` and `007` are numbers to some readers only.
                let plain = number.filter(|number| number.to_string() == value);
                plain.is_some_and(|number| (*minimum..=*maximum).contains(&number))
            }
            Allowed::Text {
                max_length,
                pattern,
            } => {
                value.chars().count() <= *max_length as usize
                    && pattern
                        .as_ref()
                        .is_none_or(|pattern| pattern.matches(value))
            }
        };
        match is_allowed {
            true => Ok(()),
            false => fail(format!("`{value}` is not allowed; it must be {self}")),
        }
    }

    fn problem(&self) -> Option<String> {
        match &self.allowed {
            Allowed::Text { max_length, .. }
                if *max_length == 0
                    || usize::try_from(*max_length).is_ok_and(|most| most > MAX_VALUE_BYTES) =>
            {
                Some(format!(
                    "a length of {max_length}, 1 to {MAX_VALUE_BYTES} are allowed"
                ))
            }
            Allowed::Integer { minimum, maximum } if minimum > maximum => {
                Some(format!("{minimum} is more than {maximum}"))
            }
            Allowed::Enum(choices) if choices.is_empty() || choices.len() > MAX_CHOICES => Some(
                format!("{} choices, 1 to {MAX_CHOICES} are allowed", choices.len()),
            ),
            Allowed::Enum(choices) => {
                let all = |choice: &String| self.check("a choice", choice).err();
                choices.iter().find_map(all).map(|error| error.to_string())
            }
            Allowed::Text { .. } | Allowed::Integer { .. } | Allowed::Boolean => None,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.allowed {
            Allowed::Boolean => f.write_str("true or false"),
            Allowed::Integer { minimum, maximum } => {
                write!(f, "a whole number from {minimum} to {maximum}")
            }
            Allowed::Text {
                max_length,
                pattern,
            } => {
                write!(f, "text of at most {max_length} characters")?;
                match pattern {
                    Some(pattern) => write!(f, " like `{pattern}`"),
                    None => Ok(()),
                }
            }
            Allowed::Enum(choices) => {
                let mut all = String::from("one of ");
                for (at, choice) in choices.iter().enumerate() {
                    let _ = write!(all, "{}`{choice}`", if at > 0 { ", " } else { "" });
                }
                f.write_str(&all)
            }
        }
    }
}

impl Assignment {
    /// Its declaration is sound, and the file with the values is one of its rendered files.
    pub(super) fn check_site_values(&self) -> Result<(), IndexError> {
        let Some(values) = &self.site_values else {
            return Ok(());
        };
        let file = values.form.file();
        let listed = self.files.iter().any(|one| one.path.as_str() == file);
        let lacking = || format!("`{file}` is not one of its files");
        let problem = values.problem().or_else(|| (!listed).then(lacking));
        match problem {
            None => Ok(()),
            Some(problem) => Err(IndexError::Inconsistent {
                problem: format!("site values of `{}`: {problem}", self.name),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
