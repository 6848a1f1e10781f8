//! `outhaul bundle`: from a control plane to one signed bundle per stream.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jiff::{SignedDuration, Timestamp};
use outhaul_bundle::Digest;
use outhaul_bundle::index::{Content, ReconcilerSettings, Snapshot, Stream};
use outhaul_bundle::name::Name;
use outhaul_signer::fleet::Fleet;
use outhaul_signer::key::Secret;
use outhaul_signer::publish::SignRequest;
use outhaul_signer::seal::SealError;
use serde_json::json;

use super::failure::{self, Failure};
use super::key::{FleetArgs, fleet_failure};
use super::render::{InputArgs, Rendered};
use super::{Format, print_json, say};
use crate::assemble::finish::FinishError;
use crate::assemble::{self, AssembleError, Contents, Spool};
use crate::collect::{self, CollectError};
use crate::deliver;
use crate::render::RenderedClusterType;

/// Render an environment and write one signed bundle per stream
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul bundle --environment stage --control-plane control-plane \
    --source https://git.factory.example/label-printer=label-printer --fleet fleet \
    --passphrase-file passphrase --out /media/stick"
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
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Also unpack each bundle there, for sites that pull over HTTPS
    #[arg(long, value_name = "DIR")]
    publish: Option<PathBuf>,
    /// Only for these sites (may be given more than once); without it every site of the stream
    #[arg(long = "for", value_name = "SITE")]
    recipients: Vec<Name>,
    /// Encrypt everything for these alone: a file with one `NAME age1…` a line (may be given more than
    /// once). Each run then writes a new number, because no two seals are alike
    #[arg(long, value_name = "FILE")]
    seal_for: Vec<PathBuf>,
    /// Write a new number even when nothing changed
    #[arg(long)]
    renew: bool,
    /// Days until the bundle may no longer be installed
    #[arg(long, value_name = "DAYS", default_value_t = 180,
          value_parser = clap::value_parser!(u32).range(1..=3650))]
    expires_days: u32,
    /// The time of issue that is signed, such as 2026-11-21T12:00:00Z; without it now
    #[arg(long, value_name = "TIME")]
    issued: Option<Timestamp>,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

/// What became of one stream.
struct Outcome {
    cluster_type: String,
    number: u64,
    /// `None` when nothing changed.
    file: Option<PathBuf>,
    bytes: u64,
    content_bytes: u64,
    assignments: usize,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let secret = self.fleet.secret()?;
        let fleet = Fleet::open(&self.fleet.fleet).map_err(fleet_failure)?;
        let rendered = self.input.render()?;
        let mut wanted: BTreeMap<&String, &RenderedClusterType> =
            rendered.rendering.cluster_types.iter().collect();
        if !self.cluster_type.is_empty() {
            for name in &self.cluster_type {
                if !wanted.contains_key(name) {
                    let known: Vec<_> = wanted.keys().map(|name| format!("`{name}`")).collect();
                    return Err(Failure::say(
                        failure::USAGE,
                        format!(
                            "environment `{}` has no cluster type `{name}`",
                            rendered.rendering.environment
                        ),
                    )
                    .help(format!("it has {}; nothing was written", known.join(", "))));
                }
            }
            wanted.retain(|name, _| self.cluster_type.contains(name));
        }
        let mut outcomes = Vec::new();
        for (name, cluster_type) in wanted {
            outcomes.push(self.stream(&fleet, &secret, &rendered, name, cluster_type)?);
        }
        self.print(&rendered, &outcomes)
    }

    fn stream(
        &self,
        fleet: &Fleet,
        secret: &Secret,
        rendered: &Rendered,
        name: &str,
        cluster_type: &RenderedClusterType,
    ) -> Result<Outcome, Failure> {
        let environment = &rendered.rendering.environment;
        let role = fleet.role(environment, name);
        let latest = fleet.latest(&role).map_err(fleet_failure)?;
        let signer = fleet.statement_signer(secret).map_err(fleet_failure)?;
        let named = super::secret::ReaderArgs::of_files(self.seal_for.clone());
        let readers = named.readers()?;
        let temporary = std::env::temp_dir();
        let build = |number: u64| -> Result<_, Failure> {
            let mut spool = Spool::new(&temporary)
                .map_err(|error| Failure::new(failure::ENVIRONMENT, &error))?;
            let payloads = collect::collect(
                &cluster_type.assignments,
                &rendered.sources,
                &rendered.cache,
                &mut spool,
            )
            .map_err(|error| collect_failure(&error))?;
            let snapshot = with_payloads(&rendered.rendering.snapshot, payloads.sources);
            let contents = Contents {
                fleet: fleet.id(),
                stream: Stream {
                    role: parse_name(&role)?,
                    environment: parse_name(environment)?,
                    cluster_type: parse_name(name)?,
                },
                number,
                reconciler: ReconcilerSettings {
                    kind: parse_name(rendered.reconciler_kind(&cluster_type.reconciler).as_str())?,
                    settings: BTreeMap::new(),
                    drift: outhaul_bundle::index::DriftPolicy::default(),
                },
                snapshot,
                recipients: self.recipients.iter().cloned().collect(),
                assignments: &cluster_type.assignments,
                payloads: payloads.files,
            };
            let bundle = assemble::assemble(contents, spool)
                .map_err(|error| assemble_failure(&error))?
                .attest(&signer)
                .map_err(|error| finish_failure(&error))?;
            if readers.is_empty() {
                return Ok(bundle);
            }
            bundle
                .seal(&readers)
                .map_err(|error| finish_failure(&error))
        };
        if let Some(latest) = latest.as_ref().filter(|_| !self.renew) {
            // The same content under the number that was signed last has the digest that was signed.
            let same = build(latest.number)?;
            if *Digest::of(&same.index_bytes).as_bytes() == latest.index {
                return Ok(Outcome {
                    cluster_type: name.to_owned(),
                    number: latest.number,
                    file: None,
                    bytes: 0,
                    content_bytes: same.index.content_bytes(),
                    assignments: same.index.assignments.len(),
                });
            }
        }
        let number = fleet.next_number(&role).map_err(fleet_failure)?;
        let bundle = build(number)?;
        #[expect(
            clippy::disallowed_methods,
            reason = "the edge of the program: all below is given the time"
        )]
        let issued = self.issued.unwrap_or_else(Timestamp::now);
        let expires = issued
            .checked_add(SignedDuration::from_hours(
                24 * i64::from(self.expires_days),
            ))
            .map_err(|error| Failure::say(failure::USAGE, error.to_string()))?;
        let request = SignRequest {
            role: &role,
            number,
            index_bytes: &bundle.index_bytes,
            issued,
            expires,
        };
        let signed = fleet.sign_bundle(request, secret).map_err(fleet_failure)?;
        let index = bundle.index.clone();
        let index_bytes = bundle.index_bytes.clone();
        let file = self
            .out
            .join(format!("{environment}-{name}-{number}.outhaul"));
        let bytes = deliver::write_file(&file, &signed.files, bundle)
            .map_err(|error| deliver_failure(&error))?;
        fleet.commit(&signed).map_err(fleet_failure)?;
        if let Some(folder) = &self.publish {
            publish(&file, &role, &index_bytes, folder)?;
        }
        Ok(Outcome {
            cluster_type: name.to_owned(),
            number,
            file: Some(file),
            bytes,
            content_bytes: index.content_bytes(),
            assignments: index.assignments.len(),
        })
    }

    fn print(&self, rendered: &Rendered, outcomes: &[Outcome]) -> Result<ExitCode, Failure> {
        if self.output == Format::Json {
            let bundles: Vec<_> = outcomes
                .iter()
                .map(|outcome| {
                    json!({
                        "environment": rendered.rendering.environment,
                        "cluster_type": outcome.cluster_type,
                        "number": outcome.number,
                        "changed": outcome.file.is_some(),
                        "file": outcome.file,
                        "bytes": outcome.bytes,
                        "content_bytes": outcome.content_bytes,
                        "assignments": outcome.assignments,
                    })
                })
                .collect();
            return print_json(&json!({"bundles": bundles}));
        }
        for outcome in outcomes {
            let stream = format!(
                "{}/{}",
                rendered.rendering.environment, outcome.cluster_type
            );
            match &outcome.file {
                None => say(&format!(
                    "{stream}: unchanged, number {} is current (`--renew` for a new date)",
                    outcome.number
                )),
                Some(file) => super::data(&format!(
                    "{stream}: number {}, {} assignments, {} bytes of content in {} bytes: {}",
                    outcome.number,
                    outcome.assignments,
                    outcome.content_bytes,
                    outcome.bytes,
                    file.display()
                )),
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn publish(file: &Path, role: &str, index_bytes: &[u8], folder: &Path) -> Result<(), Failure> {
    let digest = Digest::of(index_bytes);
    let expected = Content {
        digest,
        size: index_bytes.len() as u64,
    };
    let target = format!("{role}/{}.index.json", digest.hex());
    deliver::publish_folder(file, &expected, &target, folder)
        .map_err(|error| deliver_failure(&error))
}

/// The render's snapshot, with the commits of the payloads among the workloads' sources.
pub(super) fn with_payloads(
    snapshot: &Snapshot,
    payloads: Vec<outhaul_bundle::index::Source>,
) -> Snapshot {
    let mut workloads = snapshot.workloads.clone();
    workloads.extend(payloads);
    crate::snapshot::snapshot(
        snapshot.environment.clone(),
        snapshot.base.clone(),
        workloads,
    )
}

fn parse_name(text: &str) -> Result<Name, Failure> {
    text.parse()
        .map_err(|error: outhaul_bundle::name::NameError| {
            Failure::new(failure::USAGE, &error)
                .help("rename it in the control plane; nothing was written")
        })
}

fn collect_failure(error: &CollectError) -> Failure {
    match error {
        CollectError::Source { source, .. } if !source.is_input() => {
            Failure::new(failure::ENVIRONMENT, error).help(source.help())
        }
        CollectError::Source { source, .. } => {
            Failure::new(failure::USAGE, error).help(source.help())
        }
        CollectError::Spool(_) => Failure::new(failure::ENVIRONMENT, error),
        _ => Failure::new(failure::USAGE, error),
    }
    .help("nothing was written")
}

fn assemble_failure(error: &AssembleError) -> Failure {
    let code = match error {
        AssembleError::Spool(_) | AssembleError::Encode(_) => failure::ENVIRONMENT,
        AssembleError::Inconsistent(_) => failure::INTERNAL,
        AssembleError::Name { .. } => failure::USAGE,
    };
    Failure::new(code, error).help("nothing was written")
}

fn finish_failure(error: &FinishError) -> Failure {
    let code = match error {
        FinishError::Seal(SealError::Recipients { .. }) => failure::USAGE,
        FinishError::Inconsistent(_) | FinishError::Name(_) => failure::INTERNAL,
        _ => failure::ENVIRONMENT,
    };
    Failure::new(code, error).help("nothing was written")
}

fn deliver_failure(error: &deliver::DeliverError) -> Failure {
    Failure::new(failure::ENVIRONMENT, error)
        .help("the number was not published; make room or choose another folder, and run it again")
}
