//! Versions and constraints as Masterminds/semver v1.5.0 reads them.
//!
//! In: version and constraint text. Out: versions, comparisons, whether a version matches.
//! This is not the `semver` crate's language: `1.2`, `v1`, leading zeros, `||`, `x` parts
//! and hyphen ranges are legal, and pre-releases match only constraints that name one.

use regex::{Captures, Regex};
use std::cmp::Ordering;
use std::fmt;
use std::sync::OnceLock;

const SUFFIX: &str =
    r"(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?";
const PARTS: &str = r"v?([0-9|xX*]+)(\.[0-9|xX*]+)?(\.[0-9|xX*]+)?";

/// A version; numbers fit `i64`, as in Go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    pub pre: String,
    pub metadata: String,
    pub original: String,
}

/// A constraint: alternatives of conjunctions.
#[derive(Debug)]
pub(crate) struct Constraints(Vec<Vec<Constraint>>);

#[derive(Debug)]
struct Constraint {
    operator: String,
    version: Version,
    minor_dirty: bool,
    patch_dirty: bool,
    dirty: bool,
}

/// A pattern that is compiled once; the patterns of this file are constants.
fn compiled(cell: &'static OnceLock<Option<Regex>>, pattern: &str) -> Option<&'static Regex> {
    cell.get_or_init(|| Regex::new(pattern).ok()).as_ref()
}

fn group<'t>(captures: &Captures<'t>, at: usize) -> &'t str {
    captures.get(at).map_or("", |found| found.as_str())
}

impl Version {
    /// # Errors
    /// Go's message.
    pub fn parse(text: &str) -> Result<Self, String> {
        static PATTERN: OnceLock<Option<Regex>> = OnceLock::new();
        let pattern = format!(r"^v?([0-9]+)(\.[0-9]+)?(\.[0-9]+)?{SUFFIX}$");
        let found = compiled(&PATTERN, &pattern).and_then(|regex| regex.captures(text));
        let found = found.ok_or("Invalid Semantic Version")?;
        let segment = |at: usize| -> Result<u64, String> {
            let digits = group(&found, at).trim_start_matches('.');
            if digits.is_empty() {
                return Ok(0);
            }
            digits.parse::<i64>().map(i64::cast_unsigned).map_err(|_| {
                format!("Error parsing version segment: strconv.ParseInt: parsing \"{digits}\": value out of range")
            })
        };
        Ok(Self {
            major: segment(1)?,
            minor: segment(2)?,
            patch: segment(3)?,
            pre: group(&found, 5).to_owned(),
            metadata: group(&found, 8).to_owned(),
            original: text.to_owned(),
        })
    }

    /// The order of precedence; metadata does not count.
    pub fn compare(&self, other: &Self) -> Ordering {
        let numbers = (self.major, self.minor, self.patch);
        numbers
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => compare_pre(&self.pre, &other.pre),
            })
    }

    /// `IncMajor`, `IncMinor` or `IncPatch`.
    pub fn increment(&self, part: &[u8]) -> Self {
        let mut next = Self {
            major: self.major,
            minor: self.minor,
            patch: self.patch,
            ..Self::default()
        };
        match part {
            b"IncMajor" => {
                next.major += 1;
                next.minor = 0;
                next.patch = 0;
            }
            b"IncMinor" => {
                next.minor += 1;
                next.patch = 0;
            }
            _ if self.pre.is_empty() => next.patch += 1,
            _ => {}
        }
        let prefix = if self.original.starts_with('v') {
            "v"
        } else {
            ""
        };
        next.original = format!("{prefix}{next}");
        next
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre.is_empty() {
            write!(out, "-{}", self.pre)?;
        }
        if !self.metadata.is_empty() {
            write!(out, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

fn compare_pre(a: &str, b: &str) -> Ordering {
    let a: Vec<&str> = a.split('.').collect();
    let b: Vec<&str> = b.split('.').collect();
    for at in 0..a.len().max(b.len()) {
        let left = a.get(at).copied().unwrap_or("");
        let right = b.get(at).copied().unwrap_or("");
        let order = compare_part(left, right);
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

fn compare_part(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    match (a.is_empty(), b.is_empty()) {
        (true, _) => return Ordering::Less,
        (_, true) => return Ordering::Greater,
        _ => {}
    }
    // Go asks the other side first: when only `b` is not a number, `a` comes first.
    match (go_uint(a), go_uint(b)) {
        (None, None) => a.cmp(b),
        (_, None) => Ordering::Less,
        (None, _) => Ordering::Greater,
        (Some(x), Some(y)) if x > y => Ordering::Greater,
        _ => Ordering::Less,
    }
}

fn go_uint(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

impl Constraints {
    /// # Errors
    /// Go's message.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = rewrite_ranges(text);
        let mut alternatives = Vec::new();
        for alternative in text.split("||") {
            let parts: Result<Vec<_>, _> = alternative.split(',').map(Constraint::parse).collect();
            alternatives.push(parts?);
        }
        Ok(Self(alternatives))
    }

    pub fn check(&self, version: &Version) -> bool {
        self.0
            .iter()
            .any(|all| all.iter().all(|constraint| constraint.check(version)))
    }
}

/// `a - b` becomes `>= a, <= b`.
fn rewrite_ranges(text: &str) -> String {
    static PATTERN: OnceLock<Option<Regex>> = OnceLock::new();
    let pattern = format!(
        r"[\t\n\f\r ]*({PARTS}{SUFFIX})[\t\n\f\r ]+-[\t\n\f\r ]+({PARTS}{SUFFIX})[\t\n\f\r ]*"
    );
    let Some(regex) = compiled(&PATTERN, &pattern) else {
        return text.to_owned();
    };
    let mut out = text.to_owned();
    for found in regex.captures_iter(text) {
        let range = format!(">= {}, <= {}", group(&found, 1), group(&found, 11));
        out = out.replacen(group(&found, 0), &range, 1);
    }
    out
}

fn is_x(part: &str) -> bool {
    matches!(part, "x" | "X" | "*")
}

impl Constraint {
    fn parse(text: &str) -> Result<Self, String> {
        static PATTERN: OnceLock<Option<Regex>> = OnceLock::new();
        let pattern = format!(
            r"^[\t\n\f\r ]*(=|!=|>|<|>=|=>|<=|=<|~|~>|\^|)[\t\n\f\r ]*({PARTS}{SUFFIX})[\t\n\f\r ]*$"
        );
        let found = compiled(&PATTERN, &pattern).and_then(|regex| regex.captures(text));
        let found = found.ok_or_else(|| format!("improper constraint: {text}"))?;
        let (major, minor, patch, suffix) = (
            group(&found, 3),
            group(&found, 4),
            group(&found, 5),
            group(&found, 6),
        );
        let mut version = group(&found, 2).to_owned();
        let (mut minor_dirty, mut patch_dirty, mut dirty) = (false, false, false);
        if is_x(major) {
            "0.0.0".clone_into(&mut version);
            dirty = true;
        } else if minor.is_empty() || is_x(minor.trim_start_matches('.')) {
            minor_dirty = true;
            dirty = true;
            version = format!("{major}.0.0{suffix}");
        } else if is_x(patch.trim_start_matches('.')) {
            dirty = true;
            patch_dirty = true;
            version = format!("{major}{minor}.0{suffix}");
        }
        let version = Version::parse(&version).map_err(|_| "constraint Parser Error")?;
        let operator = group(&found, 1).to_owned();
        Ok(Self {
            operator,
            version,
            minor_dirty,
            patch_dirty,
            dirty,
        })
    }

    fn check(&self, version: &Version) -> bool {
        let want = &self.version;
        let hidden = !version.pre.is_empty() && want.pre.is_empty();
        if self.operator == "!=" {
            if !self.dirty {
                return version.compare(want) != Ordering::Equal;
            }
            return !hidden
                && (want.major != version.major
                    || (want.minor != version.minor && !self.minor_dirty));
        }
        if hidden {
            return false;
        }
        let order = version.compare(want);
        match self.operator.as_str() {
            ">" => order == Ordering::Greater,
            ">=" | "=>" => order != Ordering::Less,
            "<" if !self.dirty => order == Ordering::Less,
            "<=" | "=<" if !self.dirty => order != Ordering::Greater,
            "<" | "<=" | "=<" => {
                version.major <= want.major && (version.minor <= want.minor || self.minor_dirty)
            }
            "^" => order != Ordering::Less && version.major == want.major,
            "" | "=" if !self.dirty => order == Ordering::Equal,
            _ => self.tilde(version, order),
        }
    }

    fn tilde(&self, version: &Version, order: Ordering) -> bool {
        let want = &self.version;
        if order == Ordering::Less {
            return false;
        }
        let zero = want.major == 0 && want.minor == 0 && want.patch == 0;
        if zero && !self.minor_dirty && !self.patch_dirty {
            return true;
        }
        version.major == want.major && (version.minor == want.minor || self.minor_dirty)
    }
}
