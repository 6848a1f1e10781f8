//! The paths of modules that a Rust file names, found in its text.
//!
//! What comes in: the text of a file. What goes out: its code without comments, texts and tests; every
//! path in it that begins with `crate`, `super` or `self`; and the names that its `use` lines bring in from
//! elsewhere. Nothing is resolved here.

use std::collections::BTreeMap;

/// `text` without comments, contents of texts, and what is compiled for tests only.
pub fn code(text: &str) -> String {
    let text = text
        .find("#[cfg(test)]\nmod tests {")
        .map_or(text, |at| &text[..at]);
    let mut code = String::with_capacity(text.len());
    for line in text.lines() {
        let mut quoted = false;
        let mut before = ' ';
        for (at, c) in line.char_indices() {
            if !quoted && line[at..].starts_with("//") {
                break;
            }
            match c {
                '"' if before != '\\' && before != '\'' => quoted = !quoted,
                c if !quoted => code.push(c),
                _ => {}
            }
            before = c;
        }
        code.push('\n');
    }
    code
}

/// Every path in `code` that states where it begins.
pub fn paths(code: &str) -> Vec<Vec<String>> {
    let words = words(code);
    let mut paths = Vec::new();
    for at in 0..words.len() {
        let starts = matches!(words[at], "crate" | "super" | "self");
        let goes_on = words.get(at + 1) == Some(&"::");
        let is_first = at == 0 || words[at - 1] != "::";
        if starts && goes_on && is_first {
            tree(&words, &mut { at }, &[], &mut |path, _| {
                paths.push(path.to_vec());
            });
        }
    }
    paths
}

/// What `use` lines bring in by relative paths: the name as it is here, and the module that it is from.
pub fn brought(code: &str) -> BTreeMap<String, Vec<String>> {
    let words = words(code);
    let mut brought = BTreeMap::new();
    for at in 0..words.len() {
        if words[at] != "use" {
            continue;
        }
        tree(&words, &mut (at + 1), &[], &mut |path, name| {
            let from = path.strip_prefix(&["self".to_owned()][..]).unwrap_or(path);
            if let Some((_, module)) = from.split_last() {
                brought.insert(name.to_owned(), module.to_vec());
            }
        });
    }
    brought
}

/// Reads one tree of names, as `use` has it, from `at` on: every path in it and the name that it gets.
fn tree(words: &[&str], at: &mut usize, before: &[String], take: &mut dyn FnMut(&[String], &str)) {
    let mut path = before.to_vec();
    loop {
        match words.get(*at).copied() {
            Some("{") => {
                *at += 1;
                while !matches!(words.get(*at).copied(), None | Some("}" | ";")) {
                    let start = *at;
                    tree(words, at, &path, take);
                    if words.get(*at) == Some(&",") || *at == start {
                        *at += 1;
                    }
                }
                *at += 1;
                return;
            }
            Some(word) if is_name(word) || word == "*" => {
                path.push(word.to_owned());
                *at += 1;
            }
            _ => return,
        }
        if words.get(*at) == Some(&"::") {
            *at += 1;
            continue;
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if words.get(*at) == Some(&"as")
            && let Some(new) = words.get(*at + 1)
        {
            (*new).clone_into(&mut name);
            *at += 2;
        }
        take(&path, &name);
        return;
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Names, `::`, and single characters.
fn words(code: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let in_name = |c: char| c.is_alphanumeric() || c == '_';
        let end = match first {
            c if in_name(c) => rest.find(|c| !in_name(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            c => c.len_utf8(),
        };
        let (word, others) = rest.split_at(end);
        words.push(word);
        rest = others.trim_start();
    }
    words
}
