//! Go's regular expression language to that of the `regex` crate.
//!
//! In: a pattern as RE2 reads it. Out: a pattern with the same meaning, or Go's complaint.
//! Differences: `\d \w \s \b` are ASCII in Go; `\Q...\E` and octal escapes exist; inside of
//! brackets `[`, `&&`, `--` and `~~` are plain characters; a brace that counts nothing is a
//! plain character; a repetition of a repetition is an error, and counts end at 1000.

type Chars<'t> = std::iter::Peekable<std::str::Chars<'t>>;

const MAX_REPEAT: u32 = 1000;

/// Translates a pattern.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    // Whether the last thing was a repetition, and the one before could be repeated.
    let mut repeated = false;
    let mut has_operand = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                if chars.peek() == Some(&'Q') {
                    chars.next();
                    quoted(&mut chars, &mut out);
                } else {
                    escape(&mut chars, &mut out, false)?;
                }
            }
            '[' => class(&mut chars, &mut out, pattern)?,
            '*' | '+' | '?' | '{' => {
                let mut operator = c.to_string();
                if c == '{' {
                    match counts(&chars) {
                        None => {
                            out.push_str("\\{");
                            (repeated, has_operand) = (false, true);
                            continue;
                        }
                        Some((text, low, high)) => {
                            if low > MAX_REPEAT || high.is_some_and(|h| h > MAX_REPEAT || h < low) {
                                return Err(format!("invalid repeat count: `{{{text}}}`"));
                            }
                            chars.nth(text.chars().count());
                            operator = format!("{{{text}}}");
                        }
                    }
                }
                if !has_operand {
                    return Err(format!(
                        "missing argument to repetition operator: `{operator}`"
                    ));
                }
                if chars.peek() == Some(&'?') {
                    chars.next();
                    operator.push('?');
                }
                if repeated {
                    return Err(format!("invalid nested repetition operator: `{operator}`"));
                }
                out.push_str(&operator);
                repeated = true;
                continue;
            }
            '(' => {
                out.push('(');
                if chars.peek() == Some(&'?') {
                    group_flags(&mut chars, &mut out)?;
                }
                (repeated, has_operand) = (false, false);
                continue;
            }
            '|' => {
                out.push('|');
                (repeated, has_operand) = (false, false);
                continue;
            }
            '}' | ']' => {
                out.push('\\');
                out.push(c);
            }
            other => out.push(other),
        }
        (repeated, has_operand) = (false, true);
    }
    Ok(out)
}

/// `n`, `n,` or `n,m` up to the brace; the text between the braces, and the counts.
fn counts(chars: &Chars<'_>) -> Option<(String, u32, Option<u32>)> {
    let text: String = chars.clone().take_while(|c| *c != '}').take(16).collect();
    chars
        .clone()
        .nth(text.chars().count())
        .filter(|c| *c == '}')?;
    let (low, high) = match text.split_once(',') {
        None => (text.as_str(), None),
        Some((low, high)) => (low, Some(high)),
    };
    let number = |digits: &str| -> Option<u32> {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let leading = digits.len() > 1 && digits.starts_with('0');
        (plain && !leading).then(|| digits.parse().unwrap_or(u32::MAX))
    };
    let low_count = number(low)?;
    let high_count = match high {
        None | Some("") => None,
        Some(high) => Some(number(high)?),
    };
    Some((text.clone(), low_count, high_count))
}

fn quoted(chars: &mut Chars<'_>, out: &mut String) {
    while let Some(c) = chars.next() {
        if c == '\\' && chars.peek() == Some(&'E') {
            chars.next();
            return;
        }
        out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
    }
}

fn group_flags(chars: &mut Chars<'_>, out: &mut String) -> Result<(), String> {
    let text: String = chars.clone().skip(1).take(32).collect();
    if text.starts_with("P<") || text.starts_with('<') {
        let body = text.trim_start_matches('P').trim_start_matches('<');
        if body.starts_with(['=', '!']) && !text.starts_with('P') {
            return Err(format!(
                "invalid or unsupported Perl syntax: `(?{}`",
                &text[..2]
            ));
        }
        // The name is copied by the main loop.
        for c in chars.by_ref() {
            out.push(c);
            if c == '>' {
                return Ok(());
            }
        }
        return Err("invalid named capture".to_owned());
    }
    for c in chars.by_ref() {
        out.push(c);
        match c {
            '?' | 'i' | 'm' | 's' | 'U' | '-' => {}
            ':' | ')' => return Ok(()),
            _ => return Err(format!("invalid or unsupported Perl syntax: `(?{c}`")),
        }
    }
    Err("missing closing )".to_owned())
}

/// An escape; `chars` is behind the backslash.
fn escape(chars: &mut Chars<'_>, out: &mut String, in_class: bool) -> Result<(), String> {
    let Some(c) = chars.next() else {
        return Err("trailing backslash at end of expression: ``".to_owned());
    };
    let ascii = |inside: &str, outside: &str| (if in_class { inside } else { outside }).to_owned();
    let text = match c {
        'd' => ascii("0-9", "[0-9]"),
        'w' => ascii("0-9A-Za-z_", "[0-9A-Za-z_]"),
        's' => ascii("\\t\\n\\f\\r ", "[\\t\\n\\f\\r ]"),
        'D' => "[^0-9]".to_owned(),
        'W' => "[^0-9A-Za-z_]".to_owned(),
        'S' => "[^\\t\\n\\f\\r ]".to_owned(),
        'b' if !in_class => "(?-u:\\b)".to_owned(),
        'B' if !in_class => "(?-u:\\B)".to_owned(),
        'A' | 'z' if !in_class => format!("\\{c}"),
        'a' | 'f' | 't' | 'n' | 'r' | 'v' => format!("\\{c}"),
        'p' | 'P' => {
            let mut text = format!("\\{c}");
            match chars.next() {
                Some('{') => {
                    text.push('{');
                    for c in chars.by_ref() {
                        text.push(c);
                        if c == '}' {
                            break;
                        }
                    }
                }
                Some(letter) => text.push(letter),
                None => return Err("invalid character class range: `\\p`".to_owned()),
            }
            text
        }
        'x' => hexadecimal(chars)?,
        '0'..='7' => {
            let mut digits = c.to_string();
            while digits.len() < 3
                && let Some(digit) = chars.next_if(|c| ('0'..='7').contains(c))
            {
                digits.push(digit);
            }
            if c != '0' && digits.len() == 1 {
                return Err(format!("invalid escape sequence: `\\{c}`"));
            }
            let code = u32::from_str_radix(&digits, 8).unwrap_or(0);
            format!("\\x{{{code:x}}}")
        }
        c if c.is_ascii_punctuation() => regex::escape(&c.to_string()),
        other => return Err(format!("invalid escape sequence: `\\{other}`")),
    };
    let text = if in_class && c.is_ascii_punctuation() {
        format!("\\{c}")
    } else {
        text
    };
    out.push_str(&text);
    Ok(())
}

fn hexadecimal(chars: &mut Chars<'_>) -> Result<String, String> {
    let bad = || "invalid escape sequence: `\\x`".to_owned();
    let digits: String = if chars.next_if_eq(&'{').is_some() {
        let digits: String = chars.by_ref().take_while(|c| *c != '}').take(9).collect();
        digits
    } else {
        chars.by_ref().take(2).collect()
    };
    let code = u32::from_str_radix(&digits, 16).map_err(|_| bad())?;
    char::from_u32(code).ok_or_else(bad)?;
    Ok(format!("\\x{{{code:x}}}"))
}

/// A bracket expression; `chars` is behind the bracket.
fn class(chars: &mut Chars<'_>, out: &mut String, pattern: &str) -> Result<(), String> {
    let missing = || format!("missing closing ]: `{pattern}`");
    out.push('[');
    if chars.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut first = true;
    loop {
        let c = chars.next().ok_or_else(missing)?;
        match c {
            ']' if !first => break,
            '[' if chars.peek() == Some(&':') => posix(chars, out)?,
            '\\' => escape(chars, out, true)?,
            // A dash stays a range only between two characters.
            '-' if first || chars.peek() == Some(&']') => out.push_str("\\-"),
            '-' => out.push('-'),
            '[' | ']' | '&' | '~' | '^' => {
                out.push('\\');
                out.push(c);
            }
            other => out.push(other),
        }
        first = false;
    }
    out.push(']');
    Ok(())
}

/// `[:alpha:]` and its kin; `chars` is behind the inner bracket.
fn posix(chars: &mut Chars<'_>, out: &mut String) -> Result<(), String> {
    let rest: String = chars.clone().take(14).collect();
    let Some(end) = rest[1..].find(":]") else {
        out.push_str("\\[");
        return Ok(());
    };
    let name = &rest[1..=end];
    let known = [
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
        "space", "upper", "word", "xdigit",
    ];
    if !known.contains(&name.trim_start_matches('^')) {
        return Err(format!("invalid character class range: `[:{name}:]`"));
    }
    out.push_str(&format!("[:{name}:]"));
    chars.nth(end + 2);
    Ok(())
}
