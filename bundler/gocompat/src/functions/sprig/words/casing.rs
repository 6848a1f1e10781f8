//! Camel, snake and kebab case as xstrings v1.4 has them.
//!
//! In: a text. Out: the text cut into words of one kind (capitals, letters, digits,
//! connectors, punctuation) and joined again. The rules for digits are the library's:
//! `Bld4Floor` is `bld4_floor`, but `HTTP2xx` is `http_2xx`.

use super::super::strings::{is_space, lower, upper};
use unicode_general_category::{GeneralCategory, get_general_category};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharacterKind {
    Invalid,
    Number,
    Upper,
    Alphabet,
    Connector,
    Punctuation,
    Other,
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || is_space(c)
}

fn is_punctuation(c: char) -> bool {
    matches!(
        get_general_category(c),
        GeneralCategory::ConnectorPunctuation
            | GeneralCategory::DashPunctuation
            | GeneralCategory::OpenPunctuation
            | GeneralCategory::ClosePunctuation
            | GeneralCategory::InitialPunctuation
            | GeneralCategory::FinalPunctuation
            | GeneralCategory::OtherPunctuation
    )
}

fn is_upper(c: char) -> bool {
    get_general_category(c) == GeneralCategory::UppercaseLetter
}

fn is_number(c: char) -> bool {
    matches!(
        get_general_category(c),
        GeneralCategory::DecimalNumber
            | GeneralCategory::LetterNumber
            | GeneralCategory::OtherNumber
    )
}

/// xstrings' idea of a letter: any but the ideographs of Chinese.
fn is_alphabet(c: char) -> bool {
    if !super::is_letter(c) {
        return false;
    }
    !matches!(u32::from(c), 0x3400..=0x4d85 | 0x4e00..=0x9fcc | 0x2_0000..=0x2_a6d6
        | 0x2_a700..=0x2_b734 | 0x2_b740..=0x2_b81d)
}

fn rank(c: char) -> CharacterKind {
    if is_connector(c) {
        CharacterKind::Connector
    } else if is_punctuation(c) {
        CharacterKind::Punctuation
    } else if is_upper(c) {
        CharacterKind::Upper
    } else if is_alphabet(c) {
        CharacterKind::Alphabet
    } else if is_number(c) {
        CharacterKind::Number
    } else {
        CharacterKind::Other
    }
}

/// The first word of a text: its kind and its characters.
fn next_word(text: &[char]) -> (CharacterKind, &[char], &[char]) {
    let Some(first) = text.first() else {
        return (CharacterKind::Invalid, &[], &[]);
    };
    if *first == char::REPLACEMENT_CHARACTER {
        return (CharacterKind::Invalid, &text[..1], &text[1..]);
    }
    let kind = rank(*first);
    let run = |from: usize, test: &dyn Fn(char) -> bool| {
        from + text[from..].iter().take_while(|c| test(**c)).count()
    };
    let lower_run = |from| run(from, &|c| is_alphabet(c) && !is_upper(c));
    let end = match kind {
        CharacterKind::Connector => run(1, &is_connector),
        CharacterKind::Punctuation => run(1, &is_punctuation),
        CharacterKind::Alphabet => lower_run(1),
        CharacterKind::Number => run(1, &is_number),
        CharacterKind::Upper => match text.get(1) {
            Some(second) if is_upper(*second) => {
                let end = run(1, &is_upper);
                // The last capital of `HTTPStatus` begins the next word.
                end - usize::from(text.get(end).is_some_and(|c| is_alphabet(*c)))
            }
            Some(second) if is_alphabet(*second) => lower_run(1),
            _ => 1,
        },
        _ => run(1, &|c| {
            !(is_connector(c) || is_alphabet(c) || is_number(c) || is_punctuation(c))
        }),
    };
    (kind, &text[..end], &text[end..])
}

fn push(out: &mut String, kind: CharacterKind, word: &[char], connector: char) {
    if kind == CharacterKind::Upper {
        out.extend(word.iter().map(|c| lower(*c)));
    } else if kind == CharacterKind::Connector {
        out.extend(word.iter().map(|_| connector));
    } else {
        out.extend(word);
    }
}

/// Snake or kebab case.
pub(super) fn separated(text: &str, connector: char) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.is_empty() {
        return String::new();
    }
    let mut out = String::new();
    let (mut kind, mut word, mut rest) = next_word(&chars);
    while !rest.is_empty() {
        if kind != CharacterKind::Connector {
            push(&mut out, kind, word, connector);
        }
        let (before, last) = (kind, word);
        (kind, word, rest) = next_word(rest);
        match before {
            CharacterKind::Number => {
                while matches!(kind, CharacterKind::Alphabet | CharacterKind::Number) {
                    push(&mut out, kind, word, connector);
                    (kind, word, rest) = next_word(rest);
                }
                if !matches!(
                    kind,
                    CharacterKind::Invalid | CharacterKind::Punctuation | CharacterKind::Connector
                ) {
                    out.push(connector);
                }
            }
            CharacterKind::Connector => push(&mut out, before, last, connector),
            CharacterKind::Punctuation => {}
            _ if kind != CharacterKind::Number => {
                if kind != CharacterKind::Connector && kind != CharacterKind::Punctuation {
                    out.push(connector);
                }
            }
            _ if rest.is_empty() => {}
            _ => {
                let digits = word;
                (kind, word, rest) = next_word(rest);
                if kind == CharacterKind::Alphabet {
                    // Small letters behind the digits: the digits begin a word.
                    out.push(connector);
                    push(&mut out, CharacterKind::Number, digits, connector);
                    while matches!(kind, CharacterKind::Alphabet | CharacterKind::Number) {
                        push(&mut out, kind, word, connector);
                        (kind, word, rest) = next_word(rest);
                    }
                    if !matches!(
                        kind,
                        CharacterKind::Invalid
                            | CharacterKind::Connector
                            | CharacterKind::Punctuation
                    ) {
                        out.push(connector);
                    }
                } else {
                    // The digits belong to the word before.
                    push(&mut out, CharacterKind::Number, digits, connector);
                    if kind != CharacterKind::Connector && kind != CharacterKind::Punctuation {
                        out.push(connector);
                    }
                }
            }
        }
    }
    push(&mut out, kind, word, connector);
    out
}

/// Camel case with a capital first.
pub(super) fn camel(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    let mut current = None;
    for c in chars.by_ref() {
        if is_connector(c) {
            out.push(c);
            current = Some(c);
        } else {
            current = Some(upper(c));
            break;
        }
    }
    let Some(mut current) = current else {
        return out;
    };
    let mut tail = chars.peekable();
    if tail.peek().is_none() {
        out.push(current);
        return out;
    }
    for c in tail {
        let before = current;
        current = c;
        if is_connector(c) && is_connector(before) {
            out.push(before);
            continue;
        }
        if is_connector(before) {
            current = upper(c);
        } else {
            out.push(before);
        }
    }
    out.push(current);
    out
}
