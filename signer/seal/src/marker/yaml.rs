//! Where a marker stands in YAML or JSON, and how its value is spelled there.
//!
//! What comes in: the lines of a file in order, and what stands before and after a marker on its line.
//! What goes out: a [`MarkerContext`], and the spelling of a value for it. It is not a YAML parser: it finds
//! comments, block scalars, quotes and whole plain values apart. Wherever it cannot be sure, it takes
//! only values that mean nothing to YAML.

use zeroize::Zeroizing;

use super::MarkerProblem;

/// What a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// The text of a block scalar (`|` or `>`): no syntax of YAML in it.
    Block,
    /// A comment.
    Comment,
    /// Anything else.
    Values,
}

/// Follows block scalars from line to line.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Column that the lines of the open block scalar are indented deeper than.
    block: Option<usize>,
}

impl Places {
    /// What `line` belongs to. To be called for every line, in order.
    pub(super) fn of_line(&mut self, line: &str) -> Line {
        let text = line.trim_end();
        let inside = text.trim_start_matches(' ');
        let indent = text.len() - inside.len();
        if self
            .block
            .is_some_and(|parent| text.is_empty() || indent > parent)
        {
            return Line::Block;
        }
        self.block = block_parent(inside, indent);
        if inside.starts_with('#') {
            Line::Comment
        } else {
            Line::Values
        }
    }
}

/// The column that the text of a block scalar is indented deeper than, when this line begins one.
fn block_parent(inside: &str, indent: usize) -> Option<usize> {
    let without_comment = inside.split(" #").next().unwrap_or(inside);
    let mut tokens = without_comment.split_whitespace().rev();
    let indicator = tokens.next()?.strip_prefix(['|', '>'])?;
    if !indicator
        .chars()
        .all(|c| matches!(c, '+' | '-' | '0'..='9'))
    {
        return None;
    }
    // Between the key and the indicator only tags and anchors may stand.
    let before = tokens.find(|token| !token.starts_with(['!', '&']))?;
    if !(before.ends_with(':') || before == "-" || before == "?") {
        return None;
    }
    let (mut rest, mut column) = (inside, indent);
    while let Some(after) = rest.strip_prefix("- ") {
        let item = after.trim_start_matches(' ');
        if item.starts_with(['|', '>', '!', '&']) {
            break;
        }
        column += rest.len() - item.len();
        rest = item;
    }
    Some(column)
}

/// Where on its line a marker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkerContext {
    /// Inside a plain scalar, or where it is unknown.
    Bare,
    /// Inside double quotes.
    Double,
    /// In a properties file.
    Property,
    /// Inside single quotes.
    Single,
    /// In text of a syntax that is not known here, between quotes of this kind, if any.
    Verbatim(Option<char>),
    /// A whole plain scalar.
    Whole,
}

/// Where a marker between `before` and `after` stands.
pub(super) fn context(before: &str, after: &str) -> MarkerContext {
    match open_quote(before) {
        Some('"') => return MarkerContext::Double,
        Some(_) => return MarkerContext::Single,
        None => {}
    }
    let lead = before.trim_end_matches(' ');
    let item = |lead: &str| lead.ends_with('-') && lead.chars().all(|c| matches!(c, ' ' | '-'));
    let begins = lead.len() < before.len() && (lead.ends_with(':') || item(lead));
    let rest = after.trim_end();
    let ends = rest.is_empty() || rest.trim_start().starts_with('#') && rest.starts_with(' ');
    if begins && ends {
        MarkerContext::Whole
    } else {
        MarkerContext::Bare
    }
}

/// Where a marker stands in a text of another syntax, such as a shell's: only quotes are looked for.
pub(super) fn verbatim(before: &str, after: &str) -> MarkerContext {
    let between = |quote: &char| before.matches(*quote).count() % 2 == 1 && after.contains(*quote);
    MarkerContext::Verbatim(['"', '\''].into_iter().find(between))
}

/// The quote that is open at the end of `before`.
fn open_quote(before: &str) -> Option<char> {
    let mut open = None;
    // Only where a value may begin does a quote mean anything: `it's` opens none.
    let mut may_begin = true;
    let mut after_indicator = false;
    let mut flow = false;
    let mut chars = before.chars().peekable();
    while let Some(c) = chars.next() {
        match open {
            Some('"') if c == '\\' => drop(chars.next()),
            Some('\'') if c == '\'' && chars.peek() == Some(&'\'') => drop(chars.next()),
            Some(quote) if c == quote => {
                open = None;
                may_begin = false;
                // `"a":"b"` needs no space.
                after_indicator = false;
                if chars.peek() == Some(&':') {
                    chars.next();
                    may_begin = true;
                }
            }
            Some(_) => {}
            None if may_begin && matches!(c, '"' | '\'') => open = Some(c),
            None if may_begin && matches!(c, '[' | '{') => flow = true,
            None if c == ' ' => may_begin = may_begin || after_indicator,
            None => {
                after_indicator = matches!(c, ':' | '-' | '?');
                may_begin = flow && c == ',';
            }
        }
        if c != ' ' && open.is_none() && !matches!(c, ':' | '-' | '?') {
            after_indicator = false;
        }
    }
    open
}

impl MarkerContext {
    /// `value` as it is spelled here.
    pub(super) fn write(self, value: &str) -> Result<Zeroizing<String>, MarkerProblem> {
        let one_line = !value.contains(['\n', '\r']);
        Ok(Zeroizing::new(match self {
            Self::Bare if value.bytes().all(means_nothing) => value.to_owned(),
            Self::Bare => return Err(MarkerProblem::Place),
            Self::Single | Self::Verbatim(_) if !one_line => return Err(MarkerProblem::LineBreak),
            // How to escape what would end the quotes or be expanded is not known here.
            Self::Verbatim(Some('"')) if value.contains(['"', '\\', '$', '`']) => {
                return Err(MarkerProblem::Place);
            }
            Self::Verbatim(Some('\'')) if value.contains(['\'', '\\']) => {
                return Err(MarkerProblem::Place);
            }
            Self::Property => return Ok(super::properties::escaped(value, false)),
            Self::Verbatim(_) => value.to_owned(),
            Self::Single => value.replace('\'', "''"),
            Self::Whole => quoted(value).to_string(),
            Self::Double => {
                let quoted = quoted(value);
                quoted[1..quoted.len() - 1].to_owned()
            }
        }))
    }
}

/// As a JSON string, which is a double-quoted YAML scalar.
fn quoted(value: &str) -> Zeroizing<String> {
    // A text always has a JSON spelling.
    Zeroizing::new(serde_json::to_string(value).unwrap_or_else(|_| "\"\"".to_owned()))
}

/// Characters that are part of a plain scalar wherever they stand inside it.
fn means_nothing(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"_-./+=@%~^()$;".contains(&b)
}
