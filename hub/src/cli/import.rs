//! `outhaul-hub import`: takes in what came on a stick or in a file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use outhaul_kit::console;
use outhaul_kit::text;

use super::{Common, Output, explanation, kalypso, print};
use crate::enrol::Enrolled;
use crate::error::HubError;
use crate::import::{self, Imported};
use crate::time;

/// What to do about acknowledgements that are not on a stick, whatever keeps them off: a full one, one that is read-only, a planted file.
pub(super) const ACKS_LATER: &str = "the sites keep their reports and bring them again; when that is fixed, run \
                          `outhaul-hub acks STICK`";
const OTHER_FILES: &str = "take the files that were refused off the stick, and bring what the site or the centre writes next";
const OTHER_STICK: &str = "see that the right stick is mounted there (`findmnt`), and that the site wrote to it with \
                           `outhaul-agent export`; what is taken in is named `*.outhaul`, `*.request`, `*.reports` or `*.cdx.json`";

/// Import bundles, bills of materials, enrolment requests and reports, from files or whole folders
///
/// Each is verified; of a bundle the signed index, not the content, which `outhaul inspect` and each site compare. What was imported before is counted and does no harm. Acknowledgements for the
/// sites whose reports were in a folder are written into FOLDER/acks, where the sites read them.
/// Exit code 4 when something was refused for its signature, 1 when for another reason, or when there was
/// nothing to import. A file that an earlier import refused and that did not change since is named again and changes
/// no exit code: it was reported then, and must not hide what a later stick brings.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  outhaul-hub import /media/stick --state hub\n  \
                        outhaul-hub import site-7.reports dev-drone-3.outhaul --state hub"
)]
pub(crate) struct Args {
    /// Files (`*.outhaul`, `*.request`, `*.reports`, `*.cdx.json`) or folders with some
    #[arg(required = true, value_name = "FILE|FOLDER")]
    paths: Vec<PathBuf>,
    /// Leave folders as they are: write no acknowledgements
    #[arg(long)]
    no_acks: bool,
    #[command(subcommand)]
    of: Option<Of>,
}

/// What else can be imported.
#[derive(Debug, clap::Subcommand)]
enum Of {
    Explanation(explanation::Args),
    Kalypso(kalypso::Args),
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    match &args.of {
        Some(Of::Kalypso(args)) => return kalypso::run(common, args),
        Some(Of::Explanation(args)) => return explanation::run(common, args),
        None => {}
    }
    // Only acknowledgements are signed.
    let mut hub = if args.no_acks {
        print::open(common)?
    } else {
        print::open_signing(common)?
    };
    let done = import::import(&mut hub, &args.paths, !args.no_acks, time::now_ms())?;
    match common.output {
        Output::Json => {
            print::json(&done);
            say_errors(&done);
        }
        Output::Text => text(&done),
    }
    if done.is_nothing() {
        return Ok(1);
    }
    // The stick goes back without what lets its sites forget their reports.
    let unwritten = (!done.acks_problems.is_empty()).then_some(3);
    Ok(done
        .refused
        .iter()
        .map(import::RefusedFile::exit_code)
        .chain(unwritten)
        .max()
        .unwrap_or(0))
}

/// Why the exit code is not 0, for whoever reads `errors`.
fn say_errors(done: &Imported) {
    for refused in done.refused.iter().filter(|refused| !refused.known) {
        let text = format!(
            "error: refused: {}: {}: {}",
            text::printable(&refused.file),
            refused.rule,
            text::printable(&refused.reason)
        );
        console::fail(refused.exit_code(), &text);
    }
    if let Some(problem) = unacknowledged(done) {
        console::fail(3, &format!("error: {problem}\nhelp: {ACKS_LATER}"));
    }
    if done.is_nothing() {
        console::fail(1, &nothing(done));
    }
}

/// That acknowledgements are missing, and why, on whichever of the sticks.
fn unacknowledged(done: &Imported) -> Option<String> {
    let problems = done.acks_problems.join("; ");
    (!problems.is_empty())
        .then(|| format!("the reports are in, but not acknowledged on a stick: {problems}"))
}

/// Why nothing was imported, and what to do.
fn nothing(done: &Imported) -> String {
    let (what, help) = match done.refused.is_empty() {
        true => ("nothing to import was found", OTHER_STICK),
        false => (
            "nothing new was found: what was refused before is there unchanged, as listed",
            OTHER_FILES,
        ),
    };
    let ignored = print::count(done.ignored, "file");
    format!("error: {what}; {ignored} of another kind\nhelp: {help}")
}

/// Refusals that are shown of each rule; all are in the JSON.
const SHOWN: usize = 20;

fn print_refused(done: &Imported) {
    let mut counts: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    for refused in &done.refused {
        let count = counts
            .entry((refused.rule.as_str(), refused.known))
            .or_default();
        *count += 1;
        if *count > SHOWN {
            continue;
        }
        let at = match (refused.line, refused.last_line) {
            (Some(first), Some(last)) if first != last => format!(":{first}-{last}"),
            (Some(line), _) => format!(":{line}"),
            (None, _) => String::new(),
        };
        let lines = match refused.lines {
            Some(lines) if lines > 1 => format!(" ({lines} lines)"),
            _ => String::new(),
        };
        let again = match refused.known {
            true => "refused before, unchanged",
            false => "refused",
        };
        let line = format!(
            "{again}: {}{at}: {}: {}{lines}",
            text::printable(&refused.file),
            refused.rule,
            text::printable(&refused.reason)
        );
        print::talk(&line);
    }
    for ((rule, known), count) in counts {
        let more = count.saturating_sub(SHOWN);
        if more > 0 {
            let before = if known { " before, unchanged" } else { "" };
            print::talk(&format!(
                "refused{before}: {more} more: {rule} (`--output json` names each)"
            ));
        }
    }
}

fn bills(count: u64) -> String {
    match count {
        1 => "1 bill of materials".to_owned(),
        many => format!("{many} bills of materials"),
    }
}

fn reports_text(done: &Imported) {
    if done.reports + done.duplicates > 0 {
        print::data(&format!(
            "{} imported, {} already known{}",
            print::count(done.reports, "report"),
            done.duplicates,
            match done.no_longer_kept {
                0 => String::new(),
                count => format!(", of which {count} are no longer kept"),
            }
        ));
    }
    if done.restored > 0 {
        print::data(&format!(
            "the lost text of {} on record was put back",
            print::count(done.restored, "report")
        ));
    }
}

fn text(done: &Imported) {
    for bundle in &done.bundles {
        let known = if bundle.new { "" } else { " (known)" };
        print::data(&format!(
            "bundle {} of {}/{}: base {}{known}",
            bundle.number,
            bundle.environment,
            bundle.cluster_type,
            crate::gate::short(&bundle.base_commit)
        ));
        if !bundle.materials_missing.is_empty() {
            print::talk(&format!(
                "  not on record: {}, so that advisories cannot be compared with that; where it is sealed, or the file has not all of it, \
                 `outhaul verify --attestations FOLDER` writes it where the key is, then import the folder",
                first_names(&bundle.materials_missing)
            ));
        }
    }
    if !done.bundles.is_empty() {
        console::detail(
            "of a bundle its signed index is on record; its content was not read: `outhaul inspect` and each site compare that",
        );
    }
    if done.materials + done.known_materials > 0 {
        print::data(&format!(
            "{} imported, {} already known",
            bills(done.materials),
            done.known_materials
        ));
    }
    for request in &done.requests {
        let what = match request.result {
            Enrolled::Already => "is registered already",
            Enrolled::Registered => {
                "is registered now: its kit was expected, or a bundle approved its key"
            }
            Enrolled::Rekeyed => "has a new key now",
            Enrolled::Waiting => "waits for approval",
            Enrolled::Conflict => {
                "waits beside another request or a registered key: CONFLICT: a person has to decide"
            }
        };
        print::data(&format!("site `{}` {what}", request.site));
        let (site, fingerprint) = (&request.site, &request.fingerprint);
        let compare = format!(
            "  fingerprint {fingerprint}: compare it with the machine's, then `outhaul-hub site add {site} --fingerprint {fingerprint}`"
        );
        match request.result {
            Enrolled::Waiting => print::talk(&compare),
            Enrolled::Conflict => print::talk(&format!(
                "{compare}, with `--replace` where it takes the place of a registered key; a request whose kit was used for another \
                 key is never added: `outhaul-hub site reject {site} --fingerprint {fingerprint}` removes it, and a machine that is to be the site \
                 needs a new kit"
            )),
            _ => {}
        }
    }
    reports_text(done);
    for file in &done.acks {
        print::data(&format!("acknowledged in `{file}`"));
    }
    print_refused(done);
    let is_refused = |rule: &str| done.refused.iter().any(|refused| refused.rule == rule);
    if is_refused("too-many") {
        print::talk(
            "help: `outhaul-hub site requests` lists who waits; `outhaul-hub site reject` makes room: a false request \
             by its fingerprint, or with `--network` all that came over the network; then import again",
        );
    }
    if is_refused("other-key") {
        print::talk(
            "help: where a site was set up again or its machine was replaced, compare the fingerprint with what the \
             machine shows, then `outhaul-hub site add REQUEST --fingerprint HEX --replace`, and import again",
        );
    }
    let bills = done.materials + done.known_materials;
    let others = done.bundles.len() + done.requests.len() + done.acks.len();
    if done.refused.iter().any(|refused| refused.known) {
        print::talk(
            "help: a file that was refused before brings nothing: remove it from the stick",
        );
    }
    if done.refused.iter().any(|refused| !refused.known) {
        print::talk(if is_refused("exchanged") {
            "help: nothing of what was refused was imported; that a site has two reports of one number is on record where its present \
                 key signed the one that was refused"
        } else if others == 0 && done.reports + done.duplicates + bills == 0 {
            "help: all of it was refused; nothing was changed"
        } else {
            "help: what was refused changed nothing; everything else was imported"
        });
    }
    if let Some(problem) = unacknowledged(done) {
        print::talk(&format!("error: {problem}"));
        print::talk(&format!("help: {ACKS_LATER}"));
    }
    if done.is_nothing() {
        print::talk(&nothing(done));
    }
}

/// The first few of these names.
fn first_names(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).map(String::as_str);
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
