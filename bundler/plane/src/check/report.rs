//! Findings for programs that show them to people: one line each, and SARIF.
//!
//! What comes in: [`Diagnostics`]. What goes out: text with one finding a line, as compilers write it, or
//! a SARIF 2.1.0 log, which code hosts show beside the line. Paths are those of the repository, so that
//! both can be matched with its files. It decides nothing.

use std::collections::BTreeSet;

use outhaul_kit::percent;
use serde_json::{Value, json};

use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location, Severity};

/// `file:line:column: severity[code]: message; help: …`, one line for each finding.
pub fn lines(findings: &Diagnostics) -> String {
    let line = |finding: &Diagnostic| {
        let place = match &finding.location {
            Some(at) => format!("{}:{}:{}: ", path(at), at.line(), at.column()),
            None => String::new(),
        };
        let help = match &finding.help {
            Some(help) => format!("; help: {help}"),
            None => String::new(),
        };
        let text = format!(
            "{place}{}[{}]: {}{help}",
            level(finding.severity),
            finding.code,
            finding.message
        );
        // What a file brought along must not end the line, or write on a terminal.
        let one_line: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        one_line + "\n"
    };
    findings.iter().map(line).collect()
}

/// A SARIF log of one run.
pub fn sarif(findings: &Diagnostics) -> Value {
    let codes: BTreeSet<&str> = findings.iter().map(|finding| finding.code).collect();
    let rules: Vec<Value> = codes.iter().map(|code| json!({ "id": code })).collect();
    let results: Vec<Value> = findings.iter().map(result).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "outhaul",
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn result(finding: &Diagnostic) -> Value {
    let text = match &finding.help {
        Some(help) => format!("{}\nhelp: {help}", finding.message),
        None => finding.message.clone(),
    };
    let mut result = json!({
        "ruleId": finding.code,
        "level": level(finding.severity),
        "message": { "text": text },
    });
    if let Some(at) = &finding.location {
        result["locations"] = json!([place(at)]);
    }
    if !finding.related.is_empty() {
        let related = finding.related.iter().map(|(at, text)| {
            let mut related = place(at);
            related["message"] = json!({ "text": text });
            related
        });
        result["relatedLocations"] = related.collect();
    }
    result
}

fn place(at: &Location) -> Value {
    json!({
        "physicalLocation": {
            "artifactLocation": { "uri": uri(path(at)) },
            "region": { "startLine": at.line(), "startColumn": at.column() },
        },
        "logicalLocations": [{ "fullyQualifiedName": at.file.name }],
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// The path in its repository: what comes after `<repository>@<commit>:`.
fn path(at: &Location) -> &str {
    let name = at.file.name.as_str();
    let is_commit = |text: &str| {
        let commit = text.rsplit('@').next().unwrap_or_default();
        text.contains('@') && commit.len() == 8 && commit.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let colons = name.match_indices(':').map(|(colon, _)| colon);
    let mut cuts = colons.filter_map(|at| name.split_at_checked(at));
    let cut = cuts.find(|(before, _)| is_commit(before));
    cut.map_or(name, |(_, path)| path.trim_start_matches(':'))
}

/// A path as a relative URI reference.
fn uri(path: &str) -> String {
    let parts = path.trim_start_matches("./").split('/');
    let parts: Vec<_> = parts
        .map(|part| percent::encoded(part).to_string())
        .collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use outhaul_control::diagnostic::SourceFile;

    fn at(name: &str) -> Location {
        let file = Arc::new(SourceFile {
            name: name.into(),
            text: "a: b\nc: d\n".into(),
        });
        Location::new(&file, 8..9)
    }

    #[test]
    fn a_path_is_the_one_in_the_repository() {
        for (name, expected) in [
            ("dev/types.yaml", "dev/types.yaml"),
            (
                "https://git.example.org/cp@dab76449:.environments/prod.yaml",
                ".environments/prod.yaml",
            ),
            ("git@host:team/app@dab76449:a b.yaml", "a b.yaml"),
            ("odd@name:x.yaml", "odd@name:x.yaml"),
        ] {
            assert_eq!(path(&at(name)), expected);
        }
        assert_eq!(uri("./a b/ü.yaml"), "a%20b/%C3%BC.yaml");
    }

    #[test]
    fn a_finding_is_one_line_whatever_is_in_it() {
        let finding = Diagnostic::warning("odd", "two\nlines\u{1b}[31m").at(&at("x.yaml"));
        let text = lines(&finding.help("repair it").into());
        assert_eq!(
            text,
            "x.yaml:2:4: warning[odd]: two lines [31m; help: repair it\n"
        );
    }
}
