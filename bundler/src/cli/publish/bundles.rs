//! `outhaul publish web`, `s3` and `oci`: the bundles that were signed last, to where connected sites pull them from.
#![expect(clippy::result_large_err, reason = "an error ends the run")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_copy::copies;
use outhaul_kit::format_count::format_count;
use outhaul_publish::s3::{Credentials, PartSizes, S3, Settings};
use outhaul_publish::{
    BundleFile, KeptFile, Options, Publication, PublicationError, Sent, Target, TargetError,
    WebFolder, oci, publish,
};
use outhaul_registry::ImageReference;
use outhaul_signer::durable;
use outhaul_signer::fleet::{Fleet, FleetError};
use outhaul_signer::published::PublishedElsewhere;
use serde_json::{Value, json};

use crate::cli::failure::{self, Failure};
use crate::cli::key::fleet_failure;
use crate::cli::registries::AuthorityArgs;
use crate::cli::{Exit, Output, data, print_json};

/// Largest metadata file in bytes.
const MAX_METADATA: u64 = 16 << 20;
/// Where it is written down, in the fleet's folder, which uploads have begun.
const UPLOADS: &str = "uploads.json";

/// What is the same for every target.
#[derive(Debug, clap::Args)]
struct Common {
    /// The fleet's folder
    #[arg(long, value_name = "DIR")]
    fleet: PathBuf,
    /// Read every blob back and compare it, also those that were there; without it sizes are compared
    #[arg(long)]
    read_back: bool,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "It needs neither the control plane nor a passphrase: the fleet keeps the last bundle of each stream. What is \
                  there already is not written again.\n\nExample:\n  outhaul publish web --fleet fleet --to \
                  /srv/www/outhaul\n\nThen, in the sites' agent.toml:\n  [repository]\n  url = \
                  \"https://bundles.factory.example/outhaul\""
)]
pub(super) struct WebArgs {
    #[command(flatten)]
    common: Common,
    /// The folder that a web server hands out; it must be there
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Credentials are `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` (and `AWS_SESSION_TOKEN`), or those of a \
                  file. An interrupted upload continues where it stopped.\n\nExample:\n  outhaul publish s3 --fleet fleet --to \
                  https://s3.eu-central-1.amazonaws.com/bundles/fleet --region eu-central-1"
)]
pub(super) struct S3Args {
    #[command(flatten)]
    common: Common,
    /// The URL of the bucket, or of a folder in it, as sites pull from it (`http://` only on this machine)
    #[arg(long, value_name = "URL")]
    to: String,
    /// The bucket's region
    #[arg(
        long,
        value_name = "NAME",
        env = "AWS_REGION",
        default_value = "us-east-1"
    )]
    region: String,
    /// A file with the keys (mode 0600), as AWS's tools keep it, in the place of the environment's variables
    #[arg(long, value_name = "FILE")]
    credentials_file: Option<PathBuf>,
    /// The certificate of the server's authority, when it is a private one
    #[arg(long, value_name = "FILE", value_parser = crate::cli::registries::authority_file())]
    ca: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each bundle becomes an artifact (`application/vnd.outhaul.bundle.v1`) with the tags \
                  `ENVIRONMENT-CLUSTER_TYPE-NUMBER` and `ENVIRONMENT-CLUSTER_TYPE`; its members are the layers, as they are. \
                  Credentials are those of `docker login` and `podman login`.\n\nExample:\n  outhaul publish oci --fleet \
                  fleet --to registry.factory.example/outhaul/bundles"
)]
pub(super) struct OciArgs {
    #[command(flatten)]
    common: Common,
    /// The repository, without a tag
    #[arg(long, value_name = "REGISTRY/REPOSITORY")]
    to: String,
    #[command(flatten)]
    authorities: AuthorityArgs,
}

impl WebArgs {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        crate::cli::places::folder(&self.to)?;
        // A disk that is not mounted is not made up.
        let target = WebFolder::open(&self.to).map_err(|error| Failure::file(&error))?;
        self.common.publish(target, &self.to.display().to_string())
    }
}

impl S3Args {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let variable = |name: &str| std::env::var(name).ok();
        let credentials = Credentials::find(self.credentials_file.as_deref(), &variable);
        let record = self.common.fleet.join(UPLOADS);
        let target = S3::new(Settings {
            url: &self.to,
            region: &self.region,
            credentials: credentials.map_err(|error| Failure::of(&error))?,
            authority: self.ca.as_deref(),
            record: &record,
            parts: PartSizes::default(),
            #[expect(
                clippy::disallowed_methods,
                reason = "the edge of the program: all below is given the time"
            )]
            now: Timestamp::now,
        });
        let target = target.map_err(|error| Failure::of(&error))?;
        self.common.publish(target, &self.to)
    }
}

impl OciArgs {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let repository: ImageReference = self
            .to
            .parse()
            .map_err(|error| Failure::new(failure::USAGE, &error))?;
        let last = self.to.rsplit('/').next().unwrap_or_default();
        if last.contains([':', '@']) {
            return Err(Failure::say(
                failure::USAGE,
                format!("`{}` has a tag or a digest", self.to),
            )
            .help("name the repository alone: each bundle gets tags of its own"));
        }
        let registries = self.authorities.client()?;
        let fleet = self.common.open()?;
        let client = registries.client();
        let client = client.map_err(|error| Failure::say(failure::ENVIRONMENT, error.message))?;
        let options = self.common.options();
        // What a bundle that is made now would change while it is read.
        let _busy = outhaul_ship::stream::exclusive(&fleet).map_err(|error| Failure::of(&error))?;
        let bundles = bundles(&fleet)?;
        let read = |name: &str| metadata(&fleet, name);
        outhaul_publish::refuse_lost(&bundles, &read, &|role| stream_of(&fleet, role))
            .map_err(|error| Failure::of(&error))?;
        let outdated = say_outdated(&fleet, &bundles)?;
        let mut pushed = Vec::new();
        for bundle in bundles {
            let done = oci::push(client, &repository, &bundle, options);
            let done = done.map_err(|error| Failure::of(&error))?;
            if self.common.output == Output::Text {
                data(&format!(
                    "{}: number {}, {}: {}@{}",
                    bundle.stream,
                    bundle.number,
                    reported(&done.sent),
                    done.name,
                    done.digest
                ));
            }
            pushed.push((bundle, done));
        }
        if self.common.output == Output::Json {
            let artifacts = pushed.iter().map(|(bundle, done)| {
                json!({
                    "stream": bundle.stream, "number": bundle.number, "artifact": done.name,
                    "digest": done.digest.to_string(), "outdated": outdated.get(&bundle.role), "sent": counts(&done.sent).0, "there": counts(&done.sent).1,
                })
            });
            return print_json(
                &json!({ "to": self.to, "artifacts": artifacts.collect::<Vec<_>>() }),
            );
        }
        Ok(Exit::SUCCESS)
    }
}

impl Common {
    fn options(&self) -> Options {
        Options {
            read_back: self.read_back,
        }
    }

    fn open(&self) -> Result<Fleet, Failure> {
        Fleet::open(&self.fleet).map_err(fleet_failure)
    }

    fn publish(&self, mut target: impl Target, to: &str) -> Result<Exit, Failure> {
        let fleet = self.open()?;
        // What a bundle that is made now would change while it is read.
        let busy = outhaul_ship::stream::exclusive(&fleet).map_err(|error| Failure::of(&error))?;
        let bundles = bundles(&fleet)?;
        let read = |name: &str| metadata(&fleet, name);
        let name_of = |role: &str| stream_of(&fleet, role);
        refuse_other_fleet(&fleet, &mut target, to)?;
        let publication =
            Publication::of(&bundles, &read, &name_of).map_err(|error| Failure::of(&error))?;
        let sent = publish(&publication, &mut target, self.options())
            .map_err(|error: TargetError| Failure::of(&error))?;
        drop(busy);
        if self.output == Output::Json {
            let streams: Vec<Value> = bundles
                .iter()
                .map(|one| json!({ "stream": one.stream, "number": one.number }))
                .collect();
            let (files, there) = counts(&sent);
            return print_json(&json!({
                "to": to, "streams": streams, "version": publication.version, "sent": files, "there": there,
            }));
        }
        for one in &bundles {
            data(&format!(
                "{}: number {} is published",
                one.stream, one.number
            ));
        }
        data(&format!(
            "{to}: {}, metadata version {}",
            reported(&sent),
            publication.version
        ));
        Ok(Exit::SUCCESS)
    }
}

/// Names the bundles that were signed before keys were changed, and gives why, by role.
fn say_outdated(
    fleet: &Fleet,
    bundles: &[BundleFile],
) -> Result<BTreeMap<String, String>, Failure> {
    let named = bundles.iter();
    let named = named.map(|one| (one.role.clone(), one.stream.clone()));
    crate::cli::copy::say_outdated(fleet, named)
}

/// Refuses a target with another fleet's metadata: what is newer there than the record here, publishing refuses by itself.
fn refuse_other_fleet(fleet: &Fleet, target: &mut impl Target, to: &str) -> Result<(), Failure> {
    let found = fleet.publication_at::<ReadThere>(&mut |name, max_bytes| {
        Ok(target.read(&format!("metadata/{name}"), max_bytes)?)
    });
    let there = match found {
        Ok(there) => there,
        Err(ReadThere::Fleet(error)) => return Err(fleet_failure(error)),
        Err(ReadThere::Target(error)) => return Err(Failure::of(&error)),
    };
    match PublishedElsewhere::of(to, &there) {
        Some(
            refusal @ (PublishedElsewhere::OtherFleet { .. }
            | PublishedElsewhere::UnknownRoot { .. }),
        ) => Err(Failure::of(&refusal)),
        _ => Ok(()),
    }
}

/// What keeps a target from being compared with the fleet.
#[derive(Debug, thiserror::Error)]
enum ReadThere {
    #[error(transparent)]
    Fleet(#[from] FleetError),
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// What was done, in one sentence's part.
fn reported(sent: &Sent) -> String {
    match sent.files {
        0 => format!(
            "nothing sent, all {} were there",
            format_count(sent.there, "file", "files")
        ),
        files => format!(
            "{} sent ({} bytes), {} there already ({} bytes)",
            format_count(files, "file", "files"),
            sent.bytes,
            sent.there,
            sent.there_bytes
        ),
    }
}

fn counts(sent: &Sent) -> (Value, Value) {
    (
        json!({ "files": sent.files, "bytes": sent.bytes }),
        json!({ "files": sent.there, "bytes": sent.there_bytes }),
    )
}

/// What the fleet keeps, with what it has signed of each.
fn bundles(fleet: &Fleet) -> Result<Vec<BundleFile>, Failure> {
    // What is lost is refused by the publication, which knows what is there already.
    let kept = copies::kept_or_lost(fleet, None, &[]).map_err(|error| Failure::of(&error))?;
    let mut bundles = Vec::new();
    for one in kept.bundles {
        let latest = fleet.latest(one.role()).map_err(fleet_failure)?;
        let last = latest.map(|latest| {
            let digest = Digest::from_bytes(latest.index);
            let size = latest.length;
            (latest.number, Content { digest, size })
        });
        let kept = KeptFile {
            stream: one.stream(),
            role: one.role().to_owned(),
            number: one.number,
            path: one.path().to_owned(),
        };
        bundles.extend(kept.published(last));
    }
    Ok(bundles)
}

fn metadata(fleet: &Fleet, name: &str) -> Result<Option<Vec<u8>>, PublicationError> {
    let path: &Path = &fleet.metadata_folder().join(name);
    durable::read_if_present(path, MAX_METADATA).map_err(|error| PublicationError::Read {
        path: path.to_owned(),
        source: error.source,
    })
}

fn stream_of(fleet: &Fleet, role: &str) -> String {
    fleet.streams().get(role).map_or_else(
        || format!("role `{role}`"),
        |stream| format!("{}/{}", stream.environment, stream.cluster_type),
    )
}
