//! `cargo xtask circles`: modules that import each other, of every crate.
//!
//! What comes in: the sources, as text. What goes out: one line per circle among the modules of one
//! folder, with the file and the name that close it. A module is a file with the folder of its name; what
//! a file takes from the module that it lies in, and that from its parts, counts as one. Tests do not count. It
//! knows no macros and no `#[path]`: an import that it overlooks is a circle that it overlooks, never one
//! that it invents.

mod names;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::repository::{files, text};

/// Lists modules that import each other.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: cargo xtask circles")]
pub struct Args {}

impl Args {
    #[expect(clippy::unused_self, reason = "called as every subcommand is")]
    /// Prints all circles, with the imports that close them.
    pub fn run(&self) -> Result<Vec<String>> {
        for circle in circles()? {
            println!("{}", circle.line());
        }
        Ok(Vec::new())
    }
}

/// The circles, each with where to look.
pub fn findings() -> Result<Vec<String>> {
    let line = |circle: &Circle| {
        let name = circle.name();
        format!("{name} import each other: see `cargo xtask circles`")
    };
    Ok(circles()?.iter().map(line).collect())
}

/// A module, by the names of those that it lies in and its own; the root has none.
type Module = Vec<String>;

/// Modules of one parent that reach each other.
#[derive(Debug, PartialEq, Eq)]
struct Circle {
    /// The folder of the parent.
    folder: String,
    members: Vec<String>,
    /// For each import among them, one file that has it.
    because: Vec<String>,
}

impl Circle {
    fn name(&self) -> String {
        format!("{}: {}", self.folder, self.members.join(", "))
    }

    fn line(&self) -> String {
        format!("{} ({})", self.name(), self.because.join("; "))
    }
}

fn circles() -> Result<Vec<Circle>> {
    let mut crates: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for name in files()? {
        let Some((folder, file)) = name.split_once("/src/") else {
            continue;
        };
        let is_test = file.ends_with("tests.rs") || file.contains("tests/");
        if file.ends_with(".rs")
            && !is_test
            && let Some(text) = text(&name)?
        {
            let of_crate = crates.entry(format!("{folder}/src")).or_default();
            of_crate.insert(file.to_owned(), text);
        }
    }
    Ok(crates
        .iter()
        .flat_map(|(folder, files)| circles_of(folder, files))
        .collect())
}

/// The circles of one crate, given its files below `folder`.
fn circles_of(folder: &str, files: &BTreeMap<String, String>) -> Vec<Circle> {
    let root = match files.contains_key("lib.rs") {
        true => "lib.rs",
        false => "main.rs",
    };
    let modules: BTreeMap<Module, &String> = files
        .iter()
        .filter(|(file, _)| *file == root || !matches!(file.as_str(), "lib.rs" | "main.rs"))
        .map(|(file, text)| match file == root {
            true => (Vec::new(), text),
            false => {
                let name = file.strip_suffix(".rs").unwrap_or(file);
                (name.split('/').map(str::to_owned).collect(), text)
            }
        })
        .collect();
    let texts: BTreeMap<&Module, String> = modules
        .iter()
        .map(|(module, text)| (module, names::code(text)))
        .collect();
    // What a module takes from its parts, its other parts may take from it.
    let brought: BTreeMap<&Module, BTreeMap<String, Module>> = texts
        .iter()
        .map(|(module, text)| (*module, names::brought(text)))
        .collect();
    let mut edges: BTreeMap<Module, BTreeMap<(String, String), String>> = BTreeMap::new();
    for (module, text) in &texts {
        for path in names::paths(text) {
            let Some(to) = target(module, &path, &modules, &brought) else {
                continue;
            };
            let shared = module.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(part)) = (module.get(shared), to.get(shared)) {
                let because = format!("{}.rs: {}", module.join("/"), path.join("::"));
                edges
                    .entry(module[..shared].to_vec())
                    .or_default()
                    .entry((from.clone(), part.clone()))
                    .or_insert(because);
            }
        }
    }
    edges
        .iter()
        .flat_map(|(parent, edges)| {
            let mut at = vec![folder.to_owned()];
            at.extend(parent.iter().cloned());
            closed(&at.join("/"), edges)
        })
        .collect()
}

/// The module that `path`, written in `module`, leads to.
fn target(
    module: &Module,
    path: &[String],
    modules: &BTreeMap<Module, &String>,
    brought: &BTreeMap<&Module, BTreeMap<String, Module>>,
) -> Option<Module> {
    let mut at = module.clone();
    let mut rest = path;
    while let Some((first, others)) = rest.split_first() {
        match first.as_str() {
            "crate" => at.clear(),
            "super" => drop(at.pop()?),
            "self" => {}
            _ => break,
        }
        rest = others;
    }
    for name in rest {
        let part: Module = at.iter().cloned().chain([name.clone()]).collect();
        if modules.contains_key(&part) {
            at = part;
        } else if let Some(from) = brought.get(&at).and_then(|names| names.get(name)) {
            let from: Module = at.iter().chain(from).cloned().collect();
            return modules.contains_key(&from).then_some(from);
        } else {
            break;
        }
    }
    Some(at)
}

/// The strongly connected parts of more than one member.
fn closed(folder: &str, edges: &BTreeMap<(String, String), String>) -> Vec<Circle> {
    let members: BTreeSet<&String> = edges.keys().flat_map(|(from, to)| [from, to]).collect();
    let reached: BTreeMap<&String, BTreeSet<&String>> = members
        .iter()
        .map(|member| {
            let mut seen = BTreeSet::new();
            let mut next = vec![*member];
            while let Some(at) = next.pop() {
                let steps = edges.keys().filter(|(from, _)| from == at);
                next.extend(steps.map(|(_, to)| to).filter(|to| seen.insert(*to)));
            }
            (*member, seen)
        })
        .collect();
    let mut known = BTreeSet::new();
    let mut circles = Vec::new();
    for member in &members {
        let mutual = |other: &&&String| reached[**other].contains(member);
        let circle: Vec<&String> = reached[*member].iter().filter(mutual).copied().collect();
        if circle.len() < 2 || !known.insert(circle.clone()) {
            continue;
        }
        let inside = |name: &String| circle.contains(&name);
        circles.push(Circle {
            folder: folder.to_owned(),
            members: circle.iter().map(|name| (*name).clone()).collect(),
            because: edges
                .iter()
                .filter(|((from, to), _)| inside(from) && inside(to))
                .map(|(_, because)| because.clone())
                .collect(),
        });
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let circles = circles_of("x/src", &files.collect());
        circles.iter().map(Circle::name).collect()
    }

    #[test]
    fn modules_that_import_each_other_are_found_and_a_tree_is_not() {
        let root = ("lib.rs", "pub mod a;\npub mod b;\npub mod c;\n");
        let tree = [
            root,
            ("a.rs", "use crate::b::{X, Y};"),
            ("b.rs", "use crate::c;"),
            ("c.rs", ""),
        ];
        assert!(found(&tree).is_empty());
        let closed = [
            root,
            ("a.rs", "use crate::{b::X, c};"),
            ("b.rs", ""),
            ("c/d.rs", "fn f() { crate::a::g(); }"),
            ("c.rs", "mod d;"),
        ];
        assert_eq!(found(&closed), ["x/src: a, c"]);
    }

    #[test]
    fn files_of_one_module_are_found_through_it_and_the_module_itself_is_none() {
        let files = [
            ("lib.rs", "mod a;"),
            (
                "a.rs",
                "mod b;\nmod c;\npub use b::{B, Other as Renamed};\npub struct A;",
            ),
            ("a/b.rs", "use super::{A, c::C};"),
            ("a/c.rs", "use super::Renamed;"),
        ];
        assert_eq!(found(&files), ["x/src/a: b, c"]);
    }

    #[test]
    fn comments_texts_and_tests_are_no_imports() {
        let files = [
            ("lib.rs", "mod a;\nmod b;"),
            ("a.rs", "use crate::b::X;"),
            (
                "b.rs",
                "//! See [`crate::a`].\n/// [`crate::a::A`]\nconst T: &str = \"crate::a::A\";\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
            ),
        ];
        assert!(found(&files).is_empty());
    }
}
