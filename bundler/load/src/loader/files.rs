//! Which files of a source are looked at, and as what.
//!
//! What comes in: files of a source. What goes out: those that are part of a control plane, as text. What
//! the text says is for others.

use std::path::Path;
use std::sync::Arc;

use outhaul_bundle::index::Source;

use super::{ENVIRONMENTS, MAIN};
use crate::unread::is_yaml;
use outhaul_control::diagnostic::{Cause, Diagnostic, Diagnostics, Location, Severity, SourceFile};
use outhaul_control::model::Environment;
use outhaul_git::source::ignore::{BadLine, Ignore};
use outhaul_git::source::{OpenedSource, SourceError, SourceMap, TreeFile, TreeLimits};
use outhaul_kit::suggest::{did_you_mean, nearest};

pub(super) fn text_file(name: String, file: TreeFile) -> Result<Arc<SourceFile>, Box<Diagnostic>> {
    match String::from_utf8(file.bytes) {
        // A byte order mark is not part of the text.
        Ok(text) => {
            let text = text
                .strip_prefix('\u{feff}')
                .map(str::to_owned)
                .unwrap_or(text);
            Ok(Arc::new(SourceFile { name, text }))
        }
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let message = format!("`{name}` is not UTF-8 text (byte {at})");
            let finding = Diagnostic::error("not-text", message);
            Err(Box::new(finding.help("save it as UTF-8, or rename it")))
        }
    }
}

/// What of a source is left out, and the lines that do not say so.
pub(super) fn sourceignore(
    opened: &OpenedSource,
) -> Result<(Ignore, Vec<Diagnostic>), SourceError> {
    let tree = opened.tree("", &|path| path == ".sourceignore", &TreeLimits::YAML)?;
    let Some(file) = tree.files.first() else {
        return Ok((Ignore::default(), Vec::new()));
    };
    let text = String::from_utf8_lossy(&file.bytes).into_owned();
    let (ignore, bad) = Ignore::parse(&text);
    let name = opened.file_name(".sourceignore");
    let file = Arc::new(SourceFile { name, text });
    let finding = |line: BadLine| {
        let message = format!(
            "this line of `.sourceignore` is not a pattern: {}",
            line.problem
        );
        Diagnostic::warning("bad-pattern", message)
            .at(&Location::new(&file, line.span))
            .help("it leaves nothing out; write it as in `.gitignore`")
    };
    Ok((ignore, bad.into_iter().map(finding).collect()))
}

/// Whether it would be YAML with its ending in small letters: to Flux and Kustomize, too, another ending is none.
pub(super) fn is_nearly_yaml(path: &str) -> bool {
    !is_yaml(path) && is_yaml(&path.to_ascii_lowercase())
}

/// Endings of JSON, and of settings of any kind.
const OTHERS: [&str; 5] = ["json", "json5", "jsonc", "conf", "cfg"];

/// Endings of something else that are near one of YAML.
const NO_YAML: [&str; 2] = ["xaml", "xml"];

/// Whether a file that is not read may have been meant as one: JSON, copies and drafts of YAML such as `x.yaml.bak`, a mistyped ending such as
/// `.ymal`, and settings.
pub(super) fn may_be_meant(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    if is_yaml(&name) {
        return false;
    }
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    let is_mistyped =
        || !NO_YAML.contains(&end) && nearest(end, &["yaml", "yml", "json"]).is_some();
    name.contains(".yaml") || name.contains(".yml") || OTHERS.contains(&end) || is_mistyped()
}

/// The finding about a file whose ending keeps it from being read.
pub(super) fn other_ending(name: &str) -> Diagnostic {
    let message = format!("`{name}` is not read: its ending is not `.yaml` or `.yml`");
    Diagnostic::warning("file-ending", message)
        .help("rename it, with the ending in small letters, or list it in `.sourceignore`")
}

/// The finding about a source that cannot be read; `at` is where it is named.
pub(super) fn unreadable(
    error: &SourceError,
    at: Option<&Location>,
    sources: &SourceMap,
) -> Diagnostic {
    let code = match error {
        SourceError::Unreachable { .. } => "unreachable",
        SourceError::NoSuchReference { .. } => "no-such-reference",
        SourceError::NoSuchPath { .. } => "no-such-path",
        SourceError::Address(_) => "forbidden-source",
        _ => "unreadable",
    };
    let near = match error {
        SourceError::Unreachable { url, .. } => sources.nearest(url),
        _ => None,
    };
    let help = match near {
        Some(near) => format!(
            "did you mean `{near}`, which `--source` maps? Else {}",
            error.help()
        ),
        None => error.help(),
    };
    let mut diagnostic = Diagnostic::error(code, error.to_string()).help(help);
    if !error.is_input() {
        diagnostic.cause = Cause::Environment;
    }
    match at {
        Some(at) => diagnostic.at(at).label("named here"),
        None => diagnostic,
    }
}

pub(super) fn source_of(name: &str, opened: &OpenedSource) -> Source {
    Source {
        name: name.into(),
        repo: opened.url.clone(),
        commit: opened.commit.clone(),
    }
}

/// The finding about `name`, which is none of those that `opened` lists.
pub(super) fn no_such(opened: &OpenedSource, name: &str, known: &[Environment]) -> Diagnostic {
    let message = format!(
        "there is no environment `{name}` in `{}`",
        opened.file_name(ENVIRONMENTS)
    );
    let names: Vec<&str> = known.iter().map(|one| one.name.as_str()).collect();
    let finding = Diagnostic::error("unknown-environment", message);
    // Branches as folders, as in examples and archives.
    let below = format!("{MAIN}/{ENVIRONMENTS}");
    let is_there = opened.tree(&below, &|_| false, &TreeLimits::YAML).is_ok();
    if known.is_empty() && is_there {
        let folder = |name: &str| opened.file_name(name);
        return finding.help(format!(
            "its branches lie here as folders: give them with `--env-dir {} --base-dir {}`",
            Path::new(&folder(name)).display(),
            folder(MAIN)
        ));
    }
    finding.help(did_you_mean(name, &names))
}

/// Findings of the list of environments, for the one that is written in `file`: a mistake in the file of another one
/// is that one's, and does not stop this one.
pub(super) fn of_others(found: Diagnostics, file: &str) -> Diagnostics {
    let demoted = found.into_iter().map(|mut finding| {
        let elsewhere = finding
            .location
            .as_ref()
            .is_some_and(|at| at.file.name != file);
        if elsewhere && finding.severity == Severity::Error {
            finding.severity = Severity::Warning;
        }
        finding
    });
    demoted.collect()
}
