//! `outhaul bundle`: from a control plane to one signed bundle per stream.

use outhaul_kit::text::json_path;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use outhaul_bundle::name::Name;
use outhaul_signer::fleet::Fleet;
use outhaul_sites::Sites;
use outhaul_sites::readers::{NamedRecipient, reader_warnings};
use serde_json::json;

use super::failure::{self, Failure};
use super::key::{FleetArgs, fleet_failure};
use super::promote::OverrideArgs;
use super::registries::RegistryArgs;
use super::render::{InputArgs, isolation_failure, isolation_json};
use super::{Exit, Output, print_json, say};
use crate::notes;
use crate::registries::{Registries, UserClient};
use outhaul_control::Diagnostics;
use outhaul_control::diagnostic::Diagnostic;
use outhaul_control::model::EXPIRES_DAYS;
use outhaul_control::overriding::Override;
use outhaul_load::pipeline::Platform;
use outhaul_load::program::Programs;
use outhaul_promote::PromoteError;
use outhaul_promote::record::Passage;
use outhaul_promote::required::{self, ShipRefusal};
use outhaul_ship::shown::Shown;
use outhaul_ship::stream::agent::AgentPrograms;
use outhaul_ship::stream::{self, BundleRequest, ProduceError, Production};

/// What to do about sites of which no bundle is made any more.
const WITHOUT_BUNDLE_HELP: &str = "name the cluster type as before, or bring the sites a kit for another stream (`outhaul site enrol`); of \
     a site that is gone for good, remove the record `sites/NAME.json` from the fleet's folder";

/// Render an environment and write one signed bundle per stream
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul bundle --environment stage --control-plane control-plane \
    --source https://git.factory.example/label-printer=label-printer --fleet fleet \
    --passphrase-file passphrase --out /media/stick"
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "options of a command line, each of which is given or not"
)]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    fleet: FleetArgs,
    /// Only this cluster type (may be given more than once); without it every one
    #[arg(long, value_name = "NAME")]
    cluster_type: Vec<String>,
    /// Where to write `<environment>-<cluster type>-<number>.outhaul`
    #[arg(long, value_name = "DIR", required_unless_present = "estimate")]
    out: Option<PathBuf>,
    /// Instead say what would travel, how large it is, and what of it is new; nothing is written
    #[arg(long, conflicts_with_all = ["out", "publish", "renew", "recipients", "seal_for"])]
    estimate: bool,
    /// Also unpack each bundle there, for sites that pull over HTTPS
    #[arg(long, value_name = "DIR")]
    publish: Option<PathBuf>,
    /// Only for these sites (may be given more than once); without it every site of the stream
    #[arg(long = "for", value_name = "SITE")]
    recipients: Vec<Name>,
    /// Encrypt everything for these alone: a file with one `NAME age1…` a line (may be given more than
    /// once)
    #[arg(long, value_name = "FILE")]
    seal_for: Vec<PathBuf>,
    /// The program of a scanner that a delivery policy names: it reads the bill of materials (`CycloneDX`) and ends with another
    /// code than 0 to forbid the bundle (may be given more than once)
    #[arg(
        long = "scanner",
        value_name = "NAME=PROGRAM",
        conflicts_with = "estimate"
    )]
    scanners: Vec<String>,
    /// An agent to include in the bundles; sites update to it when it is newer: its version and its program, whose
    /// architecture is read from it (may be given more than once, for other architectures). Give it with each bundle as long as
    /// sites should receive it
    #[arg(
        long = "agent",
        value_name = "VERSION=FILE",
        conflicts_with = "estimate"
    )]
    agent: Vec<String>,
    #[command(flatten)]
    registries: RegistryArgs,
    #[command(flatten)]
    past_gate: OverrideArgs,
    /// Write nothing when one assignment is broken; without it that one stays as it was shipped last
    #[arg(long)]
    strict: bool,
    /// Resolve again the image tags and repository branches that `outhaul.lock` pins;
    /// workloads' own branches always use the newest commit
    #[arg(long)]
    update: bool,
    /// Write a new number even when nothing changed
    #[arg(long)]
    renew: bool,
    /// Days until the bundle may no longer be installed; without it what the delivery policies say,
    /// or else 180
    #[arg(long, value_name = "DAYS", value_parser = days())]
    expires_days: Option<u32>,
    /// The time of issue that is signed, such as 2026-11-21T12:00:00Z; without it now
    #[arg(long, value_name = "TIME")]
    issued: Option<Timestamp>,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

/// What `--expires-days` accepts.
fn days() -> clap::builder::RangedI64ValueParser<u32> {
    let (least, most) = EXPIRES_DAYS.into_inner();
    clap::value_parser!(u32).range(i64::from(least)..=i64::from(most))
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        let registries = self.registries.client()?;
        if self.estimate {
            return self.estimate(registries);
        }
        let scanners = Programs::parse(&self.scanners).map_err(|error| Failure::of(&error))?;
        let agent = AgentPrograms::of(&self.agent).map_err(|error| {
            Failure::say(failure::USAGE, error.to_string()).help("`--agent` takes the version and the file of a built agent, such as `--agent 0.2.0=outhaul-agent`; each architecture once")
        })?;
        let reads = self.input.request()?;
        for out in self.out.iter().chain(&self.publish) {
            outhaul_load::refuse_output(&reads, out).map_err(|error| Failure::of(&error))?;
        }
        let is_new = match &self.publish {
            Some(folder) => super::places::published(folder)?,
            None => false,
        };
        let secret = self.fleet.secret()?;
        let fleet = Fleet::open(&self.fleet.fleet).map_err(fleet_failure)?;
        let given = self.past_gate.parse()?;
        let platform = self.input.platform(None)?;
        super::render::whole_or_refused(&platform, self.strict, None)?;
        pass_gate(&self.input, &platform, Some(fleet.folder()), given.as_ref())?;
        let readers = super::secret::ReaderArgs::of_files(self.seal_for.clone()).readers()?;
        #[expect(
            clippy::disallowed_methods,
            reason = "the edge of the program: all below is given the time"
        )]
        let clock = Timestamp::now();
        let issued = fleet
            .signing_time(self.issued, clock)
            .map_err(fleet_failure)?;
        let images = Registries::of(registries, &platform.cache).allowing(&platform.sources);
        let request = BundleRequest {
            cluster_types: &self.cluster_type,
            out: self.out.as_deref().unwrap_or(Path::new(".")),
            publish: self.publish.as_deref(),
            recipients: self.recipients.iter().cloned().collect(),
            readers: readers.as_deref(),
            renew: self.renew,
            strict: self.strict,
            issued,
            expires_days: self.expires_days,
            images: Some(&images),
            update: self.update,
            scanners: &scanners,
            agent: agent.as_ref(),
        };
        let found = self.reader_findings(&platform, &fleet, readers.as_deref())?;
        if !found.is_empty() {
            super::say_findings(&found);
        }
        let production = match stream::produce(&platform, &fleet, &secret, &request) {
            Ok(production) => production,
            Err(error) => {
                if let ProduceError::After { production, .. } = &error {
                    self.print(&platform.rendering.environment, production)?;
                }
                return Err(Shown::from(&error).into());
            }
        };
        let new_folder = self.publish.as_deref().filter(|_| is_new);
        for note in notes::after_bundles(&platform, &images, &scanners, new_folder, &production) {
            say(&note);
        }
        let noted = outhaul_check::beside_bundles(&platform, &self.cluster_type);
        if !noted.is_empty() {
            super::say_findings(&noted);
        }
        self.print(&platform.rendering.environment, &production)?;
        let files = production.streams.iter().filter(|one| one.file.is_some());
        let files = files.count();
        if let Some(out) = &self.out
            && files > 0
            && super::copy::is_elsewhere(out, fleet.folder())
        {
            say(&super::copy::removable(out, files));
        }
        // A bundle may be made of a stream in which there is nothing that could be broken.
        let made = production.streams.iter().filter(|one| one.changed);
        let made = made.count().max(files);
        let (isolation, stalled) = (&production.isolation, &production.stalled);
        let done = isolation_failure(&platform, isolation, (made, made > 0), stalled)?;
        Ok(match production.is_complete() {
            true => done,
            false => Exit::from(failure::REFUSED),
        })
    }

    /// What may be a mistake in whom what is to be made is sealed for.
    fn reader_findings(
        &self,
        platform: &Platform,
        fleet: &Fleet,
        readers: Option<&[NamedRecipient]>,
    ) -> Result<Diagnostics, Failure> {
        let Some(readers) = readers else {
            return Ok(Diagnostics::new());
        };
        let sites = Sites::of(fleet).all()?;
        let streams = stream::bundled(platform, fleet, &self.cluster_type);
        let mut findings = Diagnostics::new();
        for warning in reader_warnings(readers, &sites, &streams, &self.recipients) {
            findings.push(Diagnostic::warning(warning.code, warning.message).help(warning.help));
        }
        Ok(findings)
    }

    fn estimate(&self, registries: UserClient) -> Result<Exit, Failure> {
        let fleet = Fleet::open(&self.fleet.fleet).map_err(fleet_failure)?;
        let platform = self.input.platform(None)?;
        super::render::whole_or_refused(&platform, self.strict, None)?;
        let images = Registries::of(registries, &platform.cache)
            .allowing(&platform.sources)
            .only_looks();
        #[expect(
            clippy::disallowed_methods,
            reason = "the edge of the program: all below is given the time"
        )]
        let issued = self.issued.unwrap_or_else(Timestamp::now);
        let request = BundleRequest {
            cluster_types: &self.cluster_type,
            out: Path::new("."),
            publish: None,
            recipients: BTreeSet::new(),
            readers: None,
            renew: false,
            strict: self.strict,
            issued,
            expires_days: None,
            images: Some(&images),
            update: self.update,
            scanners: &Programs::default(),
            agent: None,
        };
        let found = stream::estimate::estimate(&platform, &fleet, &request)
            .map_err(|error| Shown::from(&error))?;
        if let Some(unused) = images.unused(true) {
            say(&format!("note: {unused}"));
        }
        super::estimate::print(&platform, &found, &self.cluster_type, self.output)
    }

    fn print(&self, environment: &str, production: &Production) -> Result<(), Failure> {
        let produced = &production.streams;
        if self.output == Output::Json {
            print_streams(environment, production)?;
        }
        for (stream, text) in production.without_bundle() {
            say(&format!("{stream}: {text}\nhelp: {WITHOUT_BUNDLE_HELP}"));
        }
        for moved in &production.moved {
            say(&format!(
                "updated: {} from {} to {}",
                moved.name, moved.from, moved.to
            ));
        }
        if !production.uncertain.is_empty() {
            super::say_findings(&production.uncertain);
        }
        if self.output == Output::Text {
            for one in &production.signed {
                let (image, digest) = (&one.image, one.digest.short());
                say(&format!(
                    "signed: image `{image}` ({digest}) by {}",
                    one.by.sentence()
                ));
            }
        }
        for (cluster_type, text) in production.removals() {
            say(&format!("{environment}/{cluster_type}: {text}"));
        }
        if self.output == Output::Json {
            return Ok(());
        }
        for one in produced {
            let stream = format!("{environment}/{}", one.cluster_type);
            for text in one.remarks() {
                say(&format!("{stream}: {text}"));
            }
            if let Some(waiting) = &one.waiting {
                say(&format!(
                    "{stream}: {}\nhelp: {}",
                    waiting.sentence(one.number),
                    waiting.help(&self.fleet.fleet)
                ));
            }
            match one.sentence() {
                Some(text) if one.file.is_some() => super::data(&format!("{stream}: {text}")),
                Some(text) => say(&format!("{stream}: {text} (`--renew` for a new date)")),
                None => {}
            }
        }
        Ok(())
    }
}

/// What became of each stream, for programs.
fn print_streams(environment: &str, production: &Production) -> Result<(), Failure> {
    let bundles: Vec<_> = production
        .streams
        .iter()
        .map(|one| {
            json!({
                "environment": environment,
                "cluster_type": one.cluster_type,
                "number": one.number,
                "changed": one.changed,
                "file": one.file.as_deref().map(json_path),
                "bytes": one.bytes,
                "content_bytes": one.content_bytes,
                "assignments": one.assignments,
                "suppressed": one.suppressed,
                "because": one.because,
                "restored": one.restored,
                "waiting": one.waiting.as_ref().map(|waiting| json!({
                    "request": waiting.request, "threshold": waiting.threshold,
                    "found": waiting.found,
                })),
            })
        })
        .collect();
    let (kept, left_out) = isolation_json(&production.isolation);
    print_json(&json!({
        "bundles": bundles, "kept": kept, "left_out": left_out,
        "sites_without_bundle": production.orphans,
        "removed": production.removed.iter()
            .map(|(id, why)| (id.to_string(), why)).collect::<BTreeMap<_, _>>(),
        "signed": production.signed.iter().map(outhaul_attest::verified::VerifiedImage::json).collect::<Vec<_>>(),
        "updated": production.moved.iter().map(|moved| json!({
            "name": moved.name, "from": moved.from, "to": moved.to,
        })).collect::<Vec<_>>(),
    }))?;
    Ok(())
}

/// Refuses a base commit that no gate let in; says and gives the override that did. What `fleet` keeps counts, and is
/// on record there before anything is signed.
pub(super) fn pass_gate(
    input: &InputArgs,
    platform: &Platform,
    fleet: Option<&Path>,
    given: Option<&Override>,
) -> Result<Option<Override>, Failure> {
    let (plane, snapshot) = (&platform.control_plane, &platform.rendering.snapshot);
    let passage = required::passage(&input.request()?, plane, snapshot, fleet, given);
    let passage = passage.map_err(|error| match error {
        ShipRefusal::Promote(PromoteError::Findings(findings)) => {
            Failure::findings(&findings).help("nothing was written")
        }
        error => Failure::of(&error),
    })?;
    let Passage::Override(found) = passage else {
        return Ok(None);
    };
    let (environment, commit) = (&platform.rendering.environment, &snapshot.base.commit);
    say(&format!("`{environment}` is at {commit:.12}, {found}"));
    Ok(Some(found))
}
