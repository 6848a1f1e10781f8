//! The sentences in the sources of the programs that state that something was left alone.
//!
//! What comes in: the text of a Rust file. What goes out: its string literals with such a sentence, each with the
//! function that it stands in, white space made one space. Comments and tests are left out. It reads no files.

/// By what such a sentence is known. Wider than what tests compare, so that a new wording is found too.
pub const PHRASES: [&str; 19] = [
    "nothing was ",
    "changed nothing",
    "still here",
    "nothing is half done",
    "nothing of it is",
    "nothing of it was",
    "nothing new is installed",
    "nothing is lost",
    "no number was used",
    "left alone",
    "left as it",
    "stays where it is",
    "stay where they are",
    "untouched",
    "not touched",
    "the running bundle is not affected",
    "the running bundle stays",
    "what runs is safe",
    "no bundle is accepted",
];

/// One sentence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sentence {
    /// The file, and the function when the literal stands in one: `agent/host/src/error.rs left_alone`.
    pub place: String,
    /// The literal.
    pub text: String,
}

/// The sentences of a file.
pub fn of(file: &str, text: &str) -> Vec<Sentence> {
    let mut found = Vec::new();
    let mut function: Option<String> = None;
    for piece in pieces(text) {
        match piece {
            Piece::Tests => break,
            Piece::End => function = None,
            Piece::Function(name) => function = Some(name),
            Piece::Literal(literal) => {
                let text = literal.split_whitespace().collect::<Vec<_>>().join(" ");
                let low = text.to_lowercase();
                // A literal that ends with "was " goes on in an argument.
                let low = format!("{low} ");
                if PHRASES.iter().any(|phrase| low.contains(phrase)) {
                    let place = match &function {
                        Some(name) => format!("{file} {name}"),
                        None => file.to_owned(),
                    };
                    found.push(Sentence { place, text });
                }
            }
        }
    }
    found
}

/// Whether `printed` has the text of `literal`, with anything in the place of `{…}`.
pub fn is_in(literal: &str, printed: &str) -> bool {
    let mut rest = printed;
    let plain = literal.replace("{{", "\u{1}").replace("}}", "\u{2}");
    let mut parts = plain.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    let others = parts.map(|part| {
        part.split_once('}')
            .map_or("", |(_, after)| after)
            .to_owned()
    });
    std::iter::once(first).chain(others).all(|part| {
        let part = part.replace('\u{1}', "{").replace('\u{2}', "}");
        match rest.split_once(part.trim()) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        }
    })
}

enum Piece {
    Literal(String),
    Function(String),
    /// The end of an item of the file.
    End,
    /// The file's own tests begin.
    Tests,
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut starts_line = true;
    while let Some(c) = rest.chars().next() {
        let at_start = std::mem::replace(&mut starts_line, c == '\n');
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if rest.starts_with("#[cfg(test)]\nmod ") {
            // A file of tests is named after its module; a module in the file comes last.
            let line = rest.lines().nth(1).unwrap_or_default();
            if line.ends_with('{') {
                pieces.push(Piece::Tests);
                break;
            }
            rest = &rest[1..];
        } else if let Some(after) = raw(rest) {
            let (literal, after) = after;
            pieces.push(Piece::Literal(literal));
            rest = after;
        } else if c == '"' {
            let (literal, after) = quoted(&rest[1..]);
            pieces.push(Piece::Literal(literal));
            rest = after;
        } else if c == '\'' {
            rest = character(rest);
        } else if let Some(after) = rest.strip_prefix("fn ") {
            let end = after.find(|c: char| !c.is_alphanumeric() && c != '_');
            let name = &after[..end.unwrap_or(after.len())];
            pieces.push(Piece::Function(name.to_owned()));
            rest = after;
        } else {
            if at_start && c == '}' {
                pieces.push(Piece::End);
            }
            rest = &rest[c.len_utf8()..];
        }
    }
    pieces
}

/// A raw string at the beginning, and what follows it.
fn raw(text: &str) -> Option<(String, &str)> {
    let after = text.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let at = body.find(&end)?;
    Some((body[..at].to_owned(), &body[at + end.len()..]))
}

/// The text of a string behind its first quote, and what follows it.
fn quoted(text: &str) -> (String, &str) {
    let mut literal = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (literal, &text[at + 1..]),
            '\\' => match chars.next() {
                // The line goes on without what the next one begins with.
                Some((_, '\n')) => {
                    let mut ahead = chars.clone();
                    while ahead.next().is_some_and(|(_, c)| c.is_whitespace()) {
                        chars.next();
                    }
                }
                Some((_, 'n' | 't')) => literal.push(' '),
                Some((_, other)) => literal.push(other),
                None => {}
            },
            other => literal.push(other),
        }
    }
    (literal, "")
}

/// What follows a character literal, or the quote of a lifetime.
fn character(text: &str) -> &str {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => {
            chars.next();
            match chars.find(|(_, c)| *c == '\'') {
                Some((at, _)) => &text[at + 1..],
                None => &text[1..],
            }
        }
        _ => match chars.next() {
            Some((at, '\'')) => &text[at + 1..],
            _ => &text[1..],
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_found_with_their_function_and_not_in_comments_or_tests() {
        let text = concat!(
            "//! Nothing was changed.\n",
            "fn one<'a>(c: char) {\n    // \"nothing was done\"\n    if c == '\"' { say(\"{c}: nothing \\\n        was changed\"); }\n}\n",
            "const X: &str = r#\"it was left \"alone\", left alone\"#;\n",
            "#[cfg(test)]\nmod tests;\n",
            "fn two() { f(\"well\"); f(\"Nothing was written\") }\n",
            "#[cfg(test)]\nmod tests {\n f(\"nothing was read\") }\n",
        );
        let found = of("a.rs", text);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.place.as_str(), one.text.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("a.rs one", "{c}: nothing was changed"),
                ("a.rs", "it was left \"alone\", left alone"),
                ("a.rs two", "Nothing was written"),
            ]
        );
    }

    #[test]
    fn what_was_printed_is_known_by_its_fixed_words() {
        assert!(is_in(
            "`{a}` is {{x}}; nothing was {b}",
            "error: `f` is {x}; nothing was done"
        ));
        assert!(!is_in(
            "`{a}` is gone; nothing was {b}",
            "`f` is here; nothing was done"
        ));
        assert!(!is_in("nothing was done; `{a}`", "`f`"));
    }

    #[test]
    fn every_sentence_that_tests_compare_is_known_here() {
        for sentence in outhaul_tests::sentences() {
            let low = format!("{} ", sentence.to_lowercase());
            assert!(
                PHRASES.iter().any(|phrase| low.contains(phrase)),
                "{sentence}"
            );
        }
    }
}
