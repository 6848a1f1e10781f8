//! A pattern for a value: characters and classes of them, each with how often it may come.
//!
//! What comes in: text such as `[A-Z]{2,4}-[0-9]+`. What goes out: a [`Pattern`] that is compared with the whole value, or what is
//! wrong with it. There are no groups and no alternatives, so that a site needs no regular-expression engine; the work is
//! bounded by the length of the value times that of the pattern.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest pattern, in bytes.
const MAX_BYTES: usize = 128;
/// How often one item may come at most: as long as the longest value.
const MAX_TIMES: u16 = 256;
/// How many characters all items together may match at least.
const MAX_STEPS: usize = 1024;

/// A pattern.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    text: String,
    items: Vec<Item>,
}

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a pattern: {problem}; write characters and classes such as `[A-Z0-9]`, each perhaps with `?`, `+`, `*` or `{{1,8}}`"
)]
pub struct PatternError {
    text: String,
    problem: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    /// Ranges of characters; empty for any character.
    ranges: Vec<(char, char)>,
    least: u16,
    most: u16,
}

impl Item {
    fn has(&self, c: char) -> bool {
        self.ranges.is_empty()
            || self
                .ranges
                .iter()
                .any(|(from, to)| (*from..=*to).contains(&c))
    }
}

impl Pattern {
    /// Whether all of `value` is like the pattern.
    pub fn matches(&self, value: &str) -> bool {
        // One position for each time that an item may come; `true`: the value so far can end there.
        let mut steps: Vec<(&Item, bool)> = Vec::new();
        for item in &self.items {
            let needed = (0..item.least).map(|_| (item, false));
            steps.extend(needed);
            steps.extend((item.least..item.most).map(|_| (item, true)));
        }
        let mut at = vec![false; steps.len() + 1];
        at[0] = true;
        skip(&mut at, &steps);
        for c in value.chars() {
            let mut next = vec![false; steps.len() + 1];
            for (position, (item, _)) in steps.iter().enumerate() {
                next[position + 1] = at[position] && item.has(c);
            }
            skip(&mut next, &steps);
            at = next;
        }
        at.last().copied().unwrap_or_default()
    }
}

/// What need not come may be passed.
fn skip(at: &mut [bool], steps: &[(&Item, bool)]) {
    for (position, (_, optional)) in steps.iter().enumerate() {
        if *optional && at[position] {
            at[position + 1] = true;
        }
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let fail = |problem: &str| PatternError {
            text: text.chars().filter(|c| !c.is_control()).take(80).collect(),
            problem: problem.to_owned(),
        };
        if text.is_empty() || text.len() > MAX_BYTES {
            return Err(fail(&format!(
                "it has {} bytes, 1 to {MAX_BYTES} are allowed",
                text.len()
            )));
        }
        if text.chars().any(char::is_control) {
            return Err(fail("it has a control character"));
        }
        let mut chars = text.chars().peekable();
        let mut items = Vec::new();
        while let Some(c) = chars.next() {
            let one = |c: char| vec![(c, c)];
            let ranges = match c {
                '.' => Vec::new(),
                '[' => class(&mut chars)
                    .ok_or_else(|| fail("a class that does not end, or is empty"))?,
                '\\' => one(chars.next().ok_or_else(|| fail("it ends with `\\`"))?),
                '(' | ')' | '|' | '^' | '$' => {
                    return Err(fail(&format!(
                        "`{c}` is not known here; `\\{c}` means the character"
                    )));
                }
                ']' | '{' | '}' | '?' | '+' | '*' => {
                    return Err(fail(&format!(
                        "`{c}` has nothing before it; `\\{c}` means the character"
                    )));
                }
                other => one(other),
            };
            let (least, most) = match chars.peek() {
                Some('?') => (0, 1),
                Some('+') => (1, MAX_TIMES),
                Some('*') => (0, MAX_TIMES),
                Some('{') => {
                    let inside: String = chars.by_ref().skip(1).take_while(|c| *c != '}').collect();
                    let (least, most) = inside.split_once(',').unwrap_or((&inside, &inside));
                    let times = (least.parse::<u16>(), most.parse::<u16>());
                    let (Ok(least), Ok(most)) = times else {
                        return Err(fail(
                            "`{` needs numbers behind it, such as `{2}` or `{1,8}`",
                        ));
                    };
                    if least > most || most == 0 || most > MAX_TIMES {
                        return Err(fail(&format!(
                            "it comes 1 to {MAX_TIMES} times, the first number not above the second"
                        )));
                    }
                    items.push(Item {
                        ranges,
                        least,
                        most,
                    });
                    continue;
                }
                _ => {
                    items.push(Item {
                        ranges,
                        least: 1,
                        most: 1,
                    });
                    continue;
                }
            };
            chars.next();
            items.push(Item {
                ranges,
                least,
                most,
            });
        }
        if items
            .iter()
            .map(|item| usize::from(item.most))
            .sum::<usize>()
            > MAX_STEPS
        {
            return Err(fail("what may come many times comes too often in it"));
        }
        Ok(Self {
            text: text.to_owned(),
            items,
        })
    }
}

/// What a class holds, behind its `[`.
fn class(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Vec<(char, char)>> {
    let mut ranges = Vec::new();
    loop {
        let mut from = chars.next()?;
        if from == ']' {
            return (!ranges.is_empty()).then_some(ranges);
        }
        if from == '^' && ranges.is_empty() {
            return None;
        }
        if from == '\\' {
            from = chars.next()?;
        }
        let mut ahead = chars.clone();
        if ahead.next() == Some('-') && ahead.peek().is_some_and(|c| *c != ']') {
            chars.next();
            let mut to = chars.next()?;
            if to == '\\' {
                to = chars.next()?;
            }
            if from > to {
                return None;
            }
            ranges.push((from, to));
        } else {
            ranges.push((from, from));
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, value: &str) -> bool {
        pattern.parse::<Pattern>().unwrap().matches(value)
    }

    #[test]
    fn the_whole_value_is_compared_and_counts_are_kept() {
        assert!(matches("[A-Z]{2,4}-[0-9]+", "AB-1"));
        assert!(matches("[A-Z]{2,4}-[0-9]+", "ABCD-123456"));
        assert!(!matches("[A-Z]{2,4}-[0-9]+", "A-1"));
        assert!(!matches("[A-Z]{2,4}-[0-9]+", "ABCDE-1"));
        assert!(!matches("[A-Z]{2,4}-[0-9]+", "AB-1 "));
        assert!(matches("a*a", "aaaa"));
        assert!(matches(".{3}", "äöü"));
        assert!(!matches("a?", "aa"));
        assert!(matches("[a-z._-]+", "line-7.b".replace('7', "x").as_str()));
        assert!(matches(r"\[[0-9]\]", "[7]"));
        assert!(matches("[0-9.]*", ""));
    }

    #[test]
    fn what_is_no_pattern_says_why() {
        let many = "a+".repeat(5);
        for text in [
            "", "(a|b)", "[a", "[]", "[^a]", "a{", "a{2,1}", "a{0}", "a{999}", "*a", "a\\",
            "[z-a]", &many, "a$",
        ] {
            let error = text.parse::<Pattern>().unwrap_err();
            assert!(error.to_string().contains("is not a pattern"), "{error}");
        }
    }

    #[test]
    fn attack_a_pattern_that_stalls_other_engines_ends() {
        let pattern: Pattern = "a*a*a*b".parse().unwrap();
        assert!(!pattern.matches(&"a".repeat(256)));
    }
}
