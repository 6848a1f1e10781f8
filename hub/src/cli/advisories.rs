//! `outhaul-hub advisories`: advisories, and statements about exploitability, on record; and which sites one is about.

use outhaul_affected::MAX_ADVISORY_BYTES;
use std::path::{Path, PathBuf};

use outhaul_affected::VulnerabilityDocument;
use outhaul_bundle::hub_api::{
    AffectedComponent, AffectedSites, AffectedVerdict, ImportOutcome, ImportedDocument,
};
use outhaul_bundle::name::Name;
use outhaul_kit::durable;
use outhaul_kit::suggest::did_you_mean;
use outhaul_vex as vex;
use serde::Serialize;

use super::token::note;
use super::{Common, Output, print};
use crate::advisories;
use crate::error::HubError;
use crate::state::Hub;
use crate::store::StoreError;
use crate::time;
use crate::view::affected::{self, SitesAsked};

/// Which sites a security advisory is about, from what bundles carry and what sites report
///
/// Advisories are JSON in the form of OSV (osv.dev), statements that something is not affected are JSON in the form of
/// `OpenVEX`. Bundles bring their bills of materials with them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: AdvisoriesCommand,
}

#[derive(Debug, clap::Subcommand)]
enum AdvisoriesCommand {
    /// Put advisories, and statements about exploitability, on record
    ///
    /// All of the files, or none of them.
    #[command(
        after_help = "Example:\n  outhaul-hub advisories import DSA-5532-1.json team-a.vex.json --by alice --state hub"
    )]
    Import(Import),
    /// List what is on record
    #[command(after_help = "Example:\n  outhaul-hub advisories list --state hub")]
    List,
    /// Remove an advisory by its name, or a document of statements by its digest
    #[command(
        after_help = "Example:\n  outhaul-hub advisories remove DSA-5532-1 --by alice --state hub"
    )]
    Remove(Remove),
    /// Show which sites are affected, which are not, and of which it is not known
    ///
    /// Exit code 1 when a site is affected or not known.
    #[command(
        after_help = "Examples:\n  outhaul-hub advisories show CVE-2023-5363 --state hub\n  outhaul-hub advisories show \
                      CVE-2023-5363 --verdict unknown --limit 1000 --state hub"
    )]
    Show(Show),
}

#[derive(Debug, clap::Args)]
struct Import {
    /// The files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Who brings them; on record
    #[arg(long, value_name = "NAME")]
    by: Name,
}

#[derive(Debug, clap::Args)]
struct Remove {
    /// The advisory's name, or the document's digest, as `list` shows it
    name: String,
    /// Who removes it; on record
    #[arg(long, value_name = "NAME")]
    by: Name,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// The advisory: its name, or one that it has elsewhere
    name: String,
    /// Only sites of this verdict
    #[arg(long, value_name = "VERDICT", value_parser = ["affected", "unknown", "not_affected"])]
    verdict: Option<String>,
    /// At most so many sites; the counts are of all
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

/// What became of a file.
#[derive(Debug, Serialize)]
struct ImportedFile {
    file: String,
    #[serde(flatten)]
    document: ImportedDocument,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    match &args.command {
        AdvisoriesCommand::Import(args) => import(common, &mut hub, args),
        AdvisoriesCommand::List => list(common, &mut hub),
        AdvisoriesCommand::Remove(args) => remove(common, &mut hub, args),
        AdvisoriesCommand::Show(args) => show(common, &mut hub, args),
    }
}

fn import(common: &Common, hub: &mut Hub, args: &Import) -> Result<u8, HubError> {
    let mut documents = Vec::new();
    let mut problems = Vec::new();
    for file in &args.files {
        match read(file)? {
            Ok(document) => documents.push((file, document)),
            Err(problem) => problems.push(format!("`{}`: {problem}", file.display())),
        }
    }
    if !problems.is_empty() {
        return Err(HubError::Usage {
            problem: format!("none of the files was imported: {}", problems.join("; ")),
            help: VulnerabilityDocument::EXPECTED.to_owned(),
        });
    }
    let (by, now_ms) = (args.by.as_str(), time::now_ms());
    let done = hub.store.write(|session| {
        let mut done = Vec::new();
        for (file, document) in &documents {
            let one = advisories::put(document, session, by, now_ms)?;
            if one.new {
                note(
                    session,
                    "advisory import",
                    format!("`{}` by `{by}`", one.name),
                    now_ms,
                )?;
            }
            done.push(ImportedFile {
                file: file.display().to_string(),
                document: one,
            });
        }
        Ok::<_, StoreError>(done)
    })?;
    match common.output {
        Output::Json => print::json(&done),
        Output::Text => {
            for one in &done {
                let one = &one.document;
                print::data(&format!(
                    "{} {}: {}",
                    one.kind,
                    one.name,
                    became(one.outcome)
                ));
                for note in &one.notes {
                    let product = match note.product.as_str() {
                        "" => String::new(),
                        product => format!("`{product}`: "),
                    };
                    print::data(&format!("  note: {product}{}", note.why));
                }
            }
        }
    }
    Ok(0)
}

/// What became of a document, in a sentence.
fn became(outcome: ImportOutcome) -> &'static str {
    match outcome {
        ImportOutcome::New => "imported",
        ImportOutcome::Replaced => "imported, in place of the one on record",
        ImportOutcome::Known => "not imported: it is on record as it is",
        ImportOutcome::Older => {
            "not imported: the one on record was changed later; `outhaul-hub advisories remove NAME --by WHO` removes that first"
        }
    }
}

/// A file, or why it is none that can be imported.
fn read(file: &Path) -> Result<Result<VulnerabilityDocument, String>, HubError> {
    let bytes = durable::read(file, MAX_ADVISORY_BYTES as u64)?;
    Ok(VulnerabilityDocument::read(bytes, time::now_ms()))
}

/// What is on record.
#[derive(Debug, Serialize)]
struct OnRecord {
    advisories: Vec<outhaul_bundle::hub_api::AdvisoryRow>,
    statements: Vec<StatementsRow>,
}

#[derive(Debug, Serialize)]
struct StatementsRow {
    digest: String,
    author: String,
    statements: usize,
    imported_at: String,
    imported_by: String,
}

fn list(common: &Common, hub: &mut Hub) -> Result<u8, HubError> {
    let found = hub.store.read(|session| {
        let documents = session.statement_documents()?.into_iter().map(|one| {
            let statements = vex::read_on_record(one.body.as_bytes()).unwrap_or_default();
            StatementsRow {
                digest: one.name,
                author: statements
                    .first()
                    .map_or_else(String::new, |first| first.author.clone()),
                statements: statements.len(),
                imported_at: time::rfc3339(one.imported_ms),
                imported_by: one.imported_by,
            }
        });
        Ok::<_, StoreError>(OnRecord {
            statements: documents.collect(),
            advisories: affected::advisories(session)?,
        })
    })?;
    match common.output {
        Output::Json => print::json(&found),
        Output::Text if found.advisories.is_empty() && found.statements.is_empty() => {
            print::data(
                "no advisory is on record; `outhaul-hub advisories import FILE` brings one",
            );
        }
        Output::Text => {
            let rows: Vec<Vec<String>> = found
                .advisories
                .iter()
                .map(|one| {
                    let withdrawn = if one.withdrawn { " (withdrawn)" } else { "" };
                    vec![
                        format!("{}{withdrawn}", one.id),
                        one.aliases.join(", "),
                        one.imported_at.clone(),
                        one.imported_by.clone(),
                        one.summary.clone(),
                    ]
                })
                .chain(found.statements.iter().map(|one| {
                    vec![
                        one.digest.clone(),
                        print::count(one.statements as u64, "statement"),
                        one.imported_at.clone(),
                        one.imported_by.clone(),
                        format!("author: {}", one.author),
                    ]
                }))
                .collect();
            let heading = ["NAME", "ALSO", "IMPORTED", "BY", "ABOUT"];
            print::table(&heading, &rows);
        }
    }
    Ok(0)
}

fn remove(common: &Common, hub: &mut Hub, args: &Remove) -> Result<u8, HubError> {
    let (name, by, now_ms) = (args.name.as_str(), args.by.as_str(), time::now_ms());
    let removed = hub.store.write(|session| {
        let removed = session.forget_advisory(name)? || session.forget_statements(name)?;
        if removed {
            note(
                session,
                "advisory remove",
                format!("`{name}` by `{by}`"),
                now_ms,
            )?;
        }
        Ok::<_, StoreError>(removed)
    })?;
    if !removed {
        return Err(unknown(hub, name)?);
    }
    match common.output {
        Output::Json => print::json(&serde_json::json!({ "removed": name })),
        Output::Text => print::data(&format!("{name} is removed")),
    }
    Ok(0)
}

/// That no advisory has this name.
fn unknown(hub: &mut Hub, name: &str) -> Result<HubError, HubError> {
    let known = hub.store.read(affected::advisories)?;
    let names = known.iter().flat_map(|one| {
        let aliases = one.aliases.iter().map(String::as_str);
        aliases.chain([one.id.as_str()])
    });
    let names: Vec<&str> = names.filter(|known| *known != name).collect();
    let of = known
        .iter()
        .find(|one| one.aliases.iter().any(|alias| alias == name));
    if let Some(of) = of {
        return Ok(HubError::Usage {
            problem: format!("`{name}` is another name of the advisory `{}`", of.id),
            help: "an advisory is removed by the name that it has itself".to_owned(),
        });
    }
    let help = match names.is_empty() {
        true => "`outhaul-hub advisories import FILE` brings one".to_owned(),
        false => did_you_mean(name, &names),
    };
    Ok(HubError::Usage {
        problem: format!("no advisory `{name}` is on record"),
        help,
    })
}

fn show(common: &Common, hub: &mut Hub, args: &Show) -> Result<u8, HubError> {
    let verdict = args.verdict.as_deref().map(|word| {
        let all = [AffectedVerdict::Affected, AffectedVerdict::Unknown];
        let found = all.into_iter().find(|one| one.as_str() == word);
        found.unwrap_or(AffectedVerdict::NotAffected)
    });
    let asked = SitesAsked {
        verdict,
        offset: 0,
        limit: args.limit,
    };
    let now_ms = time::now_ms();
    let found = hub
        .store
        .read(|session| affected::of_advisory(session, &args.name, &asked, now_ms))?;
    let Some(found) = found else {
        return Err(unknown(hub, &args.name)?);
    };
    match common.output {
        Output::Json => print::json(&found),
        Output::Text => text(&found),
    }
    Ok(u8::from(found.affected + found.unknown > 0))
}

fn text(found: &AffectedSites) {
    let advisory = &found.advisory;
    let summary = match (advisory.withdrawn, advisory.summary.as_str()) {
        (true, _) => ": WITHDRAWN by whoever published it",
        (false, "") => "",
        (false, summary) => &format!(": {summary}"),
    };
    print::data(&format!("{}{summary}", advisory.id));
    print::data(&format!(
        "{} affected, {} unknown, {} not affected; as of {}",
        print::count(found.affected, "site"),
        found.unknown,
        found.not_affected,
        found.read_at
    ));
    for why in &found.not_compared {
        print::data(&format!("not compared: {why}"));
    }
    for bundle in &found.bundles {
        print::data(&format!(
            "bundle {} of {}/{}, at {}:",
            bundle.number,
            bundle.environment,
            bundle.cluster_type,
            print::count(bundle.sites, "site")
        ));
        for one in &bundle.affected {
            print::data(&format!("  affected: {}", component(one)));
        }
        for one in &bundle.cleared {
            print::data(&format!(
                "  cleared:  {}: `{}` by {} since {}{}: {}",
                component(&one.component),
                one.status,
                one.author,
                one.at,
                if one.carried { ", in the bundle" } else { "" },
                one.reason
            ));
        }
        for file in &bundle.statements_missing {
            print::data(&format!(
                "  not read: statements `{file}` that the bundle carries are not on record: import the bundle again, or what \
                 `outhaul verify --attestations` writes"
            ));
        }
        for why in &bundle.unknown {
            print::data(&format!("  unknown:  {why}"));
        }
        if bundle.more_unknown > 0 {
            print::data(&format!("  unknown:  {} more reasons", bundle.more_unknown));
        }
    }
    let rows: Vec<Vec<String>> = found
        .sites
        .iter()
        .map(|site| {
            let bundle = site
                .bundle
                .map_or_else(|| "-".to_owned(), |number| number.to_string());
            let since = site.unknown_since.as_ref();
            vec![
                site.site.clone(),
                site.verdict.as_str().replace('_', " "),
                format!("{}/{}", site.environment, site.cluster_type),
                bundle,
                since.map_or_else(
                    || site.why.clone(),
                    |since| format!("since {since}: {}", site.why),
                ),
            ]
        })
        .collect();
    if !rows.is_empty() {
        print::table(&["SITE", "VERDICT", "STREAM", "BUNDLE", "WHY"], &rows);
    }
    if found.more > 0 {
        print::talk(&format!(
            "{} more; `--limit N` shows more of them, `--output json` everything about each",
            print::count(found.more, "site")
        ));
    }
}

fn component(one: &AffectedComponent) -> String {
    let mut text = one.component.clone();
    if let Some(source) = &one.source {
        text = format!("{text} (source {source})");
    }
    if let Some(image) = &one.image {
        text = format!("{text} in image `{image}`");
    }
    if !one.assignments.is_empty() {
        text = format!("{text}, for {}", one.assignments.join(", "));
    }
    if let Some(fixed) = &one.fixed_in {
        text = format!("{text}; fixed in {fixed}");
    }
    match &one.stated {
        Some(stated) => format!("{text}; stated as `{stated}`"),
        None => text,
    }
}
