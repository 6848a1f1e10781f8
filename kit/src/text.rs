//! Foreign text for people: what an untrusted party wrote must not control the terminal that shows it.
//!
//! What comes in: names of files, messages of other programs. What goes out: the same text, with control
//! characters, line separators and changes of writing direction shown as `\u{…}`. It changes nothing
//! that a person can read.

use std::borrow::Cow;
use std::error::Error;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The text with everything in it that a terminal or log would follow instead of show, escaped.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// Like [`printable`], for text of our own of several lines that may quote foreign text: line ends stay.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_hidden(c) && !matches!(c, '\n' | '\t'))
}

/// A JSON document with the same meaning, in which nothing controls a terminal: JSON itself escapes only
/// what is below the space.
pub fn json(text: &str) -> Cow<'_, str> {
    let acted_on = |c: char| is_hidden(c) && !matches!(c, '\n' | '\t');
    if !text.chars().any(acted_on) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acted_on(c) {
            // All of them are in the first plane.
            plain.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            plain.push(c);
        }
    }
    Cow::Owned(plain)
}

/// A path as a value of JSON: as it is, with a sign in the place of bytes that are not UTF-8.
pub fn json_path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A path for a message.
pub fn path(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

/// A path or value as one word of a POSIX shell. What a terminal would act on, and bytes that are no text, are written as `printf`
/// makes them again: the command is copied as it is shown.
pub fn quoted(what: impl AsRef<OsStr>) -> String {
    let bytes = what.as_ref().as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+@%:,".contains(byte);
    match str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && bytes.iter().all(is_plain) => text.to_owned(),
        Ok(text) if !text.chars().any(is_hidden) => format!("'{}'", text.replace('\'', "'\\''")),
        _ => of_printf(bytes),
    }
}

fn of_printf(bytes: &[u8]) -> String {
    let mut format = String::new();
    for byte in bytes {
        match byte {
            b'%' => format.push_str("%%"),
            // At its beginning it would be an option.
            b'-' if format.is_empty() => format.push_str("\\055"),
            b' ' | b'/' | b'.' | b'_' | b'-' | b'+' | b'@' | b':' | b',' => {
                format.push(char::from(*byte));
            }
            byte if byte.is_ascii_alphanumeric() => format.push(char::from(*byte)),
            byte => format.push_str(&format!("\\{byte:03o}")),
        }
    }
    // A shell drops line ends at the end of what a command prints: behind a slash it is still the same folder.
    if bytes.ends_with(b"\n") {
        format.push('/');
    }
    format!("\"$(printf '{format}')\"")
}

/// The first `most` of `names`, and how many more there are: `a, b and 3 more`.
pub fn named<S: AsRef<str>>(
    names: impl IntoIterator<Item = S, IntoIter: ExactSizeIterator>,
    most: usize,
) -> String {
    let mut names = names.into_iter();
    let first: Vec<S> = names.by_ref().take(most).collect();
    let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
    let first = first.join(", ");
    match names.len() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The last part of a path for a message.
pub fn file_name(path: &Path) -> String {
    printable(&path.file_name().unwrap_or_default().to_string_lossy()).into_owned()
}

/// An error with all its causes, in one line. A cause that its error repeats is left out.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.ends_with(&part) {
            text = format!("{text}: {part}");
        }
        cause = error.source();
    }
    text
}

/// Longest name or reason that a person gives, in characters.
const MAX_LINE: usize = 500;

/// A name or a reason that a person gives: one line, in which nothing is acted on instead of shown.
///
/// # Errors
/// The sentence for who gave it.
fn one_line(text: &str) -> Result<String, String> {
    match text.chars().find(|letter| is_hidden(*letter)) {
        None if text.chars().count() > MAX_LINE => Err(format!(
            "it is longer than {MAX_LINE} characters; give a shorter text"
        )),
        None => Ok(text.to_owned()),
        Some(letter) => Err(format!(
            "it has the character {}; give one line of text without line breaks and control characters",
            letter.escape_unicode()
        )),
    }
}

/// The same, of one that must be given.
///
/// # Errors
/// The sentence for who gave it.
pub fn one_full_line(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("it is empty; give one line of text".to_owned()),
        _ => one_line(text),
    }
}

fn escaped(text: &str, acted_on: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&acted_on) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acted_on(c) {
            plain.extend(c.escape_unicode());
        } else {
            plain.push(c);
        }
    }
    Cow::Owned(plain)
}

/// Whether a character is acted on instead of shown, by a terminal or a page: control characters, what turns the direction of a
/// text, and what has no width.
pub fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_names_the_first_are_named_and_the_rest_counted() {
        for (most, shown) in [(1, "a and 2 more"), (3, "a, b, c")] {
            assert_eq!(named(&["a", "b", "c"], most), shown);
        }
        assert_eq!(named(&[""; 0], 3), "");
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown_instead() {
        let title = "a\u{1b}]0;owned\u{7}b\r\u{9b}2J\u{202e}txt.exe";
        let plain = printable(title);
        assert_eq!(
            plain,
            "a\\u{1b}]0;owned\\u{7}b\\u{d}\\u{9b}2J\\u{202e}txt.exe"
        );
        assert_eq!(printable_lines("a\nb\u{1b}"), "a\nb\\u{1b}");
    }

    #[cfg(feature = "console")]
    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({ "a": "\u{9b}x\u{202e}\u{1b}" });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = json(&text);
        assert!(
            !shown.contains(|letter| letter != '\n' && is_hidden(letter)),
            "{shown}"
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }

    #[test]
    fn what_is_typed_in_a_command_is_one_word_of_a_shell() {
        let texts: [&[u8]; 9] = [
            b"/media/stick",
            b"/media/my stick",
            b"a'b;$(c)`d` \"e\" \\",
            b"",
            b"50%:a,b",
            b"/media/a\nrm -rf b",
            b"-\x1b[2J\x07%s\\n'\"`$(x)\t0123",
            "/media/\u{202e}txt Übung".as_bytes(),
            b"/media/\xff\xfe",
        ];
        for text in texts {
            let word = quoted(OsStr::from_bytes(text));
            assert!(!word.chars().any(is_hidden), "{word}");
            let typed = format!("printf %s {word}");
            let said = std::process::Command::new("sh")
                .args(["-c", &typed])
                .output();
            assert_eq!(said.unwrap().stdout, text, "{word}");
        }
        assert_eq!(quoted("/media/stick"), "/media/stick");
        assert_eq!(quoted("/media/a\n"), r#""$(printf '/media/a\012/')""#);
    }

    #[test]
    fn a_reason_is_one_line() {
        assert_eq!(one_line("").unwrap(), "");
        assert_eq!(
            one_full_line("Übung bis 17 Uhr").unwrap(),
            "Übung bis 17 Uhr"
        );
        for text in ["ann\nbundle 9 is active", "\u{1b}[2J", "a\rb", "a\u{202e}b"] {
            assert!(one_line(text).is_err(), "{text:?}");
        }
        assert!(one_full_line(" ").is_err());
        assert!(one_line(&"x".repeat(500)).is_ok() && one_line(&"x".repeat(501)).is_err());
    }

    #[test]
    fn ordinary_names_stay_as_they_are() {
        for name in ["drone-7.outhaul", "Übung 3 (北).slip", "a'b\"c"] {
            assert!(matches!(printable(name), Cow::Borrowed(same) if same == name));
        }
    }
}
