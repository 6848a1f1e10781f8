//! What stands in one place: bounds that several crates need, hashing readers and writers, how git is started, how a URL is taken apart, where the
//! site's machine is written to the database, and each source in its crate.
//!
//! What comes in: the sources, as text. What goes out: one line per finding, `file:line: what is wrong, and where the one is`. Bounds are
//! compared by their names, and where nothing lists them by name and value: one that is written again under another name is not found.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use anyhow::Result;

use crate::repository::{code, files, text};

/// Where the bounds of foreign things are: each `pub const` there is the only one of its name.
const BOUNDS: &str = "kit/src/bounds.rs";
/// Bounds of our own formats that several crates need, and where they are.
const OWN: [(&str, &str); 11] = [
    ("EXPIRES_DAYS", "bundler/control/src/model/delivery.rs"),
    (
        "EXPIRES_DAYS_DEFAULT",
        "bundler/control/src/model/delivery.rs",
    ),
    ("MAX_ADVISORY_BYTES", "hub/affected/src/advisory.rs"),
    ("MAX_ENROLMENT_REQUEST_BYTES", "bundle/src/report.rs"),
    ("MAX_ENVELOPE_BYTES", "signer/src/envelope.rs"),
    ("MAX_KEY_BYTES", "kit/src/bounds.rs"),
    ("MAX_KIT_BYTES", "signer/src/enrol.rs"),
    ("MAX_RECIPIENTS", "bundle/src/blob.rs"),
    ("MAX_REPORT_BYTES", "bundle/src/report.rs"),
    ("MAX_REPORTS_BYTES", "bundle/src/report.rs"),
    ("MAX_ROOT_BYTES", "signer/src/trust/walk.rs"),
];
/// Where what hashes on the way is.
const HASHING: &str = "bundle/src/digest.rs";
/// Names that say what they bound only in their own file, so that equal ones in several files are not one bound.
const OF_A_FILE: [&str; 13] = [
    "MAX_ANSWER_BYTES",
    "MAX_BYTES",
    "MAX_CHARS",
    "MAX_DEPTH",
    "MAX_FILES",
    "MAX_FILE_BYTES",
    "MAX_HEADER_BYTES",
    "MAX_LINE_BYTES",
    "MAX_LISTED",
    "MAX_NAMED",
    "MAX_SECRET_BYTES",
    "MAX_TEXT",
    "MAX_TEXT_BYTES",
];
/// Where the text of a URL is taken apart; the second finds URLs in running text, the third reads patterns that may have `*` before `://`.
const URLS: [&str; 3] = [
    "kit/src/url.rs",
    "kit/src/url_secrets.rs",
    "bundler/control/src/model/image_signatures/identity.rs",
];
/// Where git is started.
const GIT: &str = "bundler/git/src/";
/// Where the site of the agent's machine is read from rows and written to them: this file, and those in the folder of its name.
const STORED: [&str; 2] = ["agent/site/src/stored.rs", "agent/site/src/stored/"];
/// Values of the site's database that the machine's site is read from.
const OF_MACHINE: [&str; 10] = [
    "ACTIVE",
    "BROKEN",
    "CORRECTING",
    "HELD",
    "HOLD",
    "NEEDS_APPROVAL",
    "ROLLBACK",
    "ROLLBACK_TO",
    "TAKES_BACK",
    "WATCHED",
];
/// Rows of bundles in the apply helper's own database, which knows no machine.
const OF_HELPER: [&str; 2] = ["agent/helper/src/accept.rs", "agent/helper/src/init.rs"];
/// The statements that write rows of bundles, and those that bring an older database into the present shape.
const STATEMENTS: [&str; 2] = [
    "agent/site/src/state/generations.rs",
    "agent/site/src/state/migrate.rs",
];
/// What crates of tests may share across crates by a path: the bodies of the fuzz targets.
const BODIES: &str = "fuzz/bodies/";

pub fn findings() -> Result<Vec<String>> {
    let all = files()?;
    let manifests = all
        .iter()
        .filter_map(|name| name.strip_suffix("Cargo.toml"));
    let crates: Vec<String> = manifests.map(str::to_owned).collect();
    let mut bounds: Vec<(String, &str)> = OWN.map(|(name, at)| (name.to_owned(), at)).into();
    let foreign = text(BOUNDS)?.unwrap_or_default();
    bounds.extend(constants(&foreign).map(|(_, name)| (name.to_owned(), BOUNDS)));
    let mut findings = Vec::new();
    let mut found = Vec::new();
    let mut written = Bounds::new();
    for name in all.iter().filter(|name| name.ends_with(".rs")) {
        let Some(text) = text(name)? else { continue };
        findings.extend(twice(name, &text, &bounds));
        findings.extend(hashing(name, &text));
        findings.extend(git(name, &text));
        findings.extend(urls(name, &text));
        findings.extend(machine(name, &text));
        note(name, &text, &mut written);
        findings.extend(outside(name, &text, &crates));
        let here = bounds.iter().filter(|(_, at)| at == name);
        let here = here.filter(|(bound, _)| constants(&text).any(|(_, one)| one == bound));
        found.extend(here.map(|(bound, _)| bound.clone()));
    }
    let gone = bounds.iter().filter(|(bound, _)| !found.contains(bound));
    findings.extend(gone.map(|(bound, at)| {
        format!("xtask/src/check/once.rs: `{bound}` is not in {at} any more: say where it is now")
    }));
    findings.extend(equal(&written));
    Ok(findings)
}

/// Where each bound is written, by its name and value.
type Bounds = BTreeMap<(String, u64), Vec<String>>;

/// Notes the bounds of a file, as far as their value is written in it.
fn note(file: &str, text: &str, written: &mut Bounds) {
    if is_of_tests(file) || file.starts_with("xtask/") {
        return;
    }
    for (line, name) in constants(code(text)) {
        let value = text.lines().nth(line - 1).and_then(|line| {
            let (_, value) = line.split_once(" = ")?;
            number(value.split(';').next()?)
        });
        let is_bound = name.starts_with("MAX_") && !OF_A_FILE.contains(&name);
        if let Some(value) = value.filter(|_| is_bound) {
            let places = written.entry((name.to_owned(), value)).or_default();
            places.push(format!("{file}:{line}"));
        }
    }
}

/// The value of an expression of numbers with `*` and `<<`.
fn number(text: &str) -> Option<u64> {
    let factors = text.split('*').map(|factor| {
        let plain = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
        match factor.split_once("<<") {
            Some((one, by)) => plain(one)?.checked_shl(u32::try_from(plain(by)?).ok()?),
            None => plain(factor),
        }
    });
    factors.reduce(|one, other| one?.checked_mul(other?))?
}

/// Bounds of one name and value in several files.
fn equal(written: &Bounds) -> Vec<String> {
    let several = written.iter().filter(|(_, places)| places.len() > 1);
    let finding = |((name, value), places): (&(String, u64), &Vec<String>)| {
        format!(
            "{}: `{name}` is {value} here and in {}: write it once (kit/src/bounds.rs, or beside the format), or give them names that \
             say what differs",
            places[0],
            places[1..].join(", ")
        )
    };
    several.map(finding).collect()
}

fn is_of_tests(file: &str) -> bool {
    let folders = ["/tests/", "/benches/", "/examples/"];
    file.starts_with("tests/")
        || file.starts_with("fuzz/")
        || file.ends_with("tests.rs")
        || folders.iter().any(|folder| file.contains(folder))
}

/// The text of a URL that is cut without `outhaul_kit::url`.
fn urls(file: &str, text: &str) -> Vec<String> {
    if URLS.contains(&file) || file.starts_with("xtask/") || is_of_tests(file) {
        return Vec::new();
    }
    let cuts = ["split_once(\"://\")", "find(\"://\")", "split(\"://\")"];
    let lines = code(text).lines().zip(1..);
    let lines = lines.filter(|(line, _)| cuts.iter().any(|cut| line.contains(cut)));
    let finding = |(_, line)| {
        format!(
            "{file}:{line}: takes a URL apart: use `outhaul_kit::url::UrlParts` of {}",
            URLS[0]
        )
    };
    lines.map(finding).collect()
}

/// The constants that a file defines, with their lines.
fn constants(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().zip(1..);
    lines.filter_map(|(line, number)| {
        let line = line.trim_start();
        let line = match line.strip_prefix("pub") {
            Some(rest) => rest.split_once(' ').map_or(rest, |(_, rest)| rest),
            None => line,
        };
        let (name, _) = line.strip_prefix("const ")?.split_once(':')?;
        Some((number, name))
    })
}

fn twice(file: &str, text: &str, bounds: &[(String, &str)]) -> Vec<String> {
    let elsewhere = |name: &str| {
        let known = bounds.iter().find(|(bound, _)| bound == name)?;
        (known.1 != file).then_some(known.1)
    };
    let again = constants(text).filter_map(|(line, name)| {
        elsewhere(name)
            .map(|at| format!("{file}:{line}: `{name}` is defined in {at}: use that one"))
    });
    again.collect()
}

/// Structures that hash what is read from or written to them.
fn hashing(file: &str, text: &str) -> Vec<String> {
    if file == HASHING {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut current: Option<(&str, usize)> = None;
    for (line, number) in text.lines().zip(1..) {
        if let Some((_, rest)) = line.split_once("struct ") {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            current = rest
                .get(..end.unwrap_or(rest.len()))
                .map(|name| (name, number));
        } else if line.starts_with('}') {
            current = None;
        }
        let holds = line.trim_end().ends_with(" Hasher,") && line.contains(": ");
        let Some((name, at)) = current.filter(|_| holds) else {
            continue;
        };
        let passes = |line: &str| {
            let streams = ["Read for ", "Write for "].iter();
            let rest = streams.filter_map(|stream| line.split_once(stream));
            let mut rest = rest.filter_map(|(_, rest)| rest.strip_prefix(name));
            line.starts_with("impl") && rest.any(|rest| !rest.starts_with(char::is_alphanumeric))
        };
        if text.lines().any(passes) {
            findings.push(format!(
                "{file}:{at}: `{name}` hashes what passes: use `HashingReader` or `HashingWriter` of {HASHING}"
            ));
        }
    }
    findings
}

/// The program `git` that is started without the environment and the settings that `outhaul-git` gives it.
fn git(file: &str, text: &str) -> Vec<String> {
    if file.starts_with(GIT) || file.starts_with("xtask/") || is_of_tests(file) {
        return Vec::new();
    }
    let starts = code(text).lines().zip(1..);
    let starts = starts.filter(|(line, _)| line.contains("new(\"git\")"));
    let finding = |(_, line)| {
        format!("{file}:{line}: starts git by itself: use `outhaul_git::source::git::plain`")
    };
    starts.map(finding).collect()
}

/// Rows of the machine's site that are written beside it.
fn machine(file: &str, text: &str) -> Vec<String> {
    if !file.starts_with("agent/")
        || STORED.iter().any(|stored| file.starts_with(stored))
        || is_of_tests(file)
    {
        return Vec::new();
    }
    let text = code(text);
    let calls = ["generations::put(", "generations::forget("];
    let statements = [
        "INTO generation",
        "UPDATE generation",
        "DELETE FROM generation",
    ];
    let mut found: Vec<(usize, String)> = Vec::new();
    let all = text.match_indices("set_meta").filter_map(|(at, _)| {
        let key = key_of(&text[at..])?;
        OF_MACHINE
            .contains(&key)
            .then(|| (at, format!("`key::{key}`")))
    });
    found.extend(all);
    let written = calls.iter().filter(|_| !OF_HELPER.contains(&file));
    let written = written.chain(statements.iter().filter(|_| !STATEMENTS.contains(&file)));
    found.extend(written.flat_map(|one| {
        let all = text.match_indices(*one);
        all.map(|(at, one)| (at, format!("`{one}`")))
    }));
    let finding = |(at, what): (usize, String)| {
        let line = text[..at].matches('\n').count() + 1;
        format!(
            "{file}:{line}: {what} writes the machine's site beside it: use a step, or a function of {}",
            STORED[0]
        )
    };
    found.into_iter().map(finding).collect()
}

/// The `key::NAME` that a call of `set_meta` names, as the second of its arguments.
fn key_of(call: &str) -> Option<&str> {
    let (_, arguments) = call.split_once('(')?;
    let (_, key) = arguments.split(',').nth(1)?.trim().rsplit_once("key::")?;
    Some(key)
}

/// Modules whose source lies in another crate.
fn outside(file: &str, text: &str, crates: &[String]) -> Vec<String> {
    let crate_of = |file: &str| {
        let around = crates
            .iter()
            .filter(|folder| file.starts_with(folder.as_str()));
        around.max_by_key(|folder| folder.len()).cloned()
    };
    let mut findings = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let path = line.trim().strip_prefix("#[path = \"");
        let Some(path) = path.and_then(|rest| rest.strip_suffix("\"]")) else {
            continue;
        };
        let source = resolved(file, path);
        if !source.starts_with(BODIES) && crate_of(&source) != crate_of(file) {
            findings.push(format!(
                "{file}:{number}: `{source}` is of another crate: put what tests share into one of tests/kit or tests/planes"
            ));
        }
    }
    findings
}

/// What `path` is, beside `file`.
pub(super) fn resolved(file: &str, path: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::Normal(name) => parts.push(name.to_str().unwrap_or_default()),
            _ => {}
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_defined_where_it_is_and_nowhere_else() {
        let bounds = [("MAX_KIT_BYTES".to_owned(), "signer/src/enrol.rs")];
        let found = |file: &str, text: &str| twice(file, text, &bounds).len();
        let same = "pub const MAX_KIT_BYTES: usize = 1;\n";
        assert_eq!(found("signer/src/enrol.rs", same), 0);
        assert_eq!(found("hub/src/kit.rs", same), 1);
        assert_eq!(
            found("hub/src/kit.rs", "    const MAX_KIT_BYTES: u64 = 1;\n"),
            1
        );
        assert_eq!(
            found(
                "hub/src/kit.rs",
                "pub(crate) const MAX_KIT_BYTES: u64 = 1;\n"
            ),
            1
        );
        assert_eq!(
            found("hub/src/kit.rs", "const MAX_KIT_BYTES_READ: u64 = 1;\n"),
            0
        );
        assert_eq!(found("hub/src/kit.rs", "let max = MAX_KIT_BYTES;\n"), 0);
    }

    #[test]
    fn a_bound_that_no_list_names_is_written_once_too() {
        let found = |files: &[(&str, &str)]| {
            let mut written = Bounds::new();
            for (file, text) in files {
                note(file, text, &mut written);
            }
            equal(&written)
        };
        let (five, sum) = (
            "const MAX_HOPS: usize = 5;\n",
            "const MAX_HOPS: u64 = 1 << 12;\n",
        );
        let same = found(&[("a/src/x.rs", five), ("b/src/x.rs", five)]);
        assert_eq!(same.len(), 1);
        assert!(same[0].starts_with("a/src/x.rs:1: `MAX_HOPS` is 5 here and in b/src/x.rs:1"));
        let spelled = "pub const MAX_HOPS: usize = 4 * 1_024; // four KiB\n";
        assert_eq!(
            found(&[("a/src/x.rs", sum), ("b/src/x.rs", spelled)]).len(),
            1
        );
        assert_eq!(found(&[("a/src/x.rs", sum), ("b/src/x.rs", five)]), [""; 0]);
        assert_eq!(
            found(&[("a/src/x.rs", five), ("b/src/x/tests.rs", five)]),
            [""; 0]
        );
        let derived = "const MAX_HOPS: usize = other::MAX_HOPS;\n";
        assert_eq!(
            found(&[("a/src/x.rs", five), ("b/src/x.rs", derived)]),
            [""; 0]
        );
    }

    #[test]
    fn urls_are_taken_apart_in_one_place() {
        let cuts = "let (scheme, rest) = url.split_once(\"://\")?;\n";
        assert_eq!(urls("agent/src/x.rs", cuts).len(), 1);
        assert_eq!(urls("kit/src/url.rs", cuts), [""; 0]);
        assert_eq!(urls("agent/tests/runner/x.rs", cuts), [""; 0]);
        assert_eq!(urls("agent/src/x.rs", "url.contains(\"://\")\n"), [""; 0]);
    }

    #[test]
    fn what_hashes_on_the_way_is_found_and_what_only_holds_a_hasher_is_not() {
        let holds = "struct Out<W> {\n    out: W,\n    hasher: Hasher,\n}\n";
        let passes = format!("{holds}impl<W: Write> Write for Out<W> {{\n}}\n");
        assert_eq!(hashing("agent/src/x.rs", &passes).len(), 1);
        assert_eq!(hashing("bundle/src/digest.rs", &passes), [""; 0]);
        assert_eq!(hashing("agent/src/x.rs", holds), [""; 0]);
        let other = format!("{holds}impl Write for Outer {{\n}}\n");
        assert_eq!(hashing("agent/src/x.rs", &other), [""; 0]);
    }

    #[test]
    fn git_is_started_by_one_crate_and_by_tests() {
        let starts = "let git = Command::new(\"git\");\n";
        assert_eq!(git("bundler/scaffold/src/git.rs", starts).len(), 1);
        let as_a_path = "let git = Typed::new(Path::new(\"git\"), folder);\n";
        assert_eq!(git("bundler/src/demo/folders.rs", as_a_path).len(), 1);
        assert_eq!(git("bundler/git/src/source/git.rs", starts), [""; 0]);
        assert_eq!(git("bundler/tests/runner/git.rs", starts), [""; 0]);
        let tested = format!("#[cfg(test)]\nmod tests {{\n{starts}}}\n");
        assert_eq!(git("bundler/load/src/output.rs", &tested), [""; 0]);
    }

    #[test]
    fn the_machine_s_site_is_written_in_one_place_and_the_helper_s_rows_in_its_own() {
        let found = |file: &str, text: &str| machine(file, text).len();
        let put = "generations::put(db, &row)?;\n";
        let hold = "state::set_meta::<Hold>(\n    db,\n    key::HOLD,\n    None,\n)?;\n";
        for (text, at) in [
            (put, 1),
            (hold, 1),
            ("state::set_meta(db, state::key::ACTIVE, None)", 1),
        ] {
            assert_eq!(found("agent/runner/src/x.rs", text), at, "{text}");
            assert_eq!(found("agent/site/src/stored.rs", text), 0);
            assert_eq!(found("agent/site/src/stored/x.rs", text), 0);
            assert_eq!(found("agent/tests/runner/x.rs", text), 0);
            assert_eq!(found("hub/store/src/x.rs", text), 0);
            let tested = format!("#[cfg(test)]\nmod tests {{\n{text}}}\n");
            assert_eq!(found("agent/runner/src/x.rs", &tested), 0);
        }
        assert_eq!(found("agent/helper/src/accept.rs", put), 0);
        assert_eq!(found("agent/helper/src/accept.rs", hold), 1);
        let sql = "db.execute(\"DELETE FROM generation WHERE number = 1\", [])\n";
        assert_eq!(found("agent/site/src/state/rescue.rs", sql), 1);
        assert_eq!(found("agent/site/src/state/generations.rs", sql), 0);
        for other in [
            "state::set_meta(db, key::SOAK, Some(soak))",
            "state::meta::<Hold>(db, key::HOLD)?",
            "generations::forget_results(db, &pass)?;",
            "let row = generations::one(db, 1)?;",
        ] {
            assert_eq!(found("agent/runner/src/x.rs", other), 0, "{other}");
        }
        let at = machine("agent/src/x.rs", &format!("fn a() {{\n    {put}}}\n"));
        assert!(
            at[0].starts_with("agent/src/x.rs:2: `generations::put(`"),
            "{at:?}"
        );
    }

    #[test]
    fn a_source_of_another_crate_is_found_and_a_body_of_a_fuzz_target_is_not() {
        let crates = ["bundle/", "bundle/gzip/", "tests/", "fuzz/"].map(str::to_owned);
        let found = |file: &str, path: &str| {
            outside(file, &format!("#[path = \"{path}\"]\nmod a;\n"), &crates).len()
        };
        assert_eq!(
            found("tests/tests/runner/a.rs", "../../../bundle/tests/a.rs"),
            1
        );
        assert_eq!(found("bundle/tests/a.rs", "../gzip/src/a.rs"), 1);
        assert_eq!(found("bundle/tests/a.rs", "../../fuzz/bodies/a.rs"), 0);
        assert_eq!(found("bundle/tests/a.rs", "../src/a.rs"), 0);
    }
}
