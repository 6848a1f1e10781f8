//! `outhaul key`: a fleet's keys and its root metadata, in one step.

use std::path::PathBuf;

use clap::Subcommand;
use jiff::Timestamp;
use outhaul_signer::fleet::{Fleet, FleetError, InitOptions};
use outhaul_signer::key::{KeyError, PublicKey, Secret};
use outhaul_signer::media;
use serde_json::json;

use super::failure::{self, Failure};
use super::{Exit, Output, print_json, say};

/// Make a fleet's keys, or show them
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul key init --fleet fleet --passphrase-file passphrase")]
pub struct Args {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Make keys (encrypted at rest) and root metadata in a new folder
    #[command(
        after_help = "Example:\n  outhaul key init --fleet fleet --hub-url https://hub.factory.example --hub-key hub.pem"
    )]
    Init {
        #[command(flatten)]
        fleet: FleetArgs,
        /// Where sites send their reports, for the kits of new sites
        #[arg(long, value_name = "URL", value_parser = outhaul_remote::hub_url)]
        hub_url: Option<String>,
        /// The hub's public key (`outhaul-hub key`), for the kits of new sites
        #[arg(long, value_name = "FILE")]
        hub_key: Option<PathBuf>,
        /// How many root keys to make; take all but one elsewhere afterwards
        #[arg(long, default_value_t = 1)]
        root_keys: usize,
        /// How many of them must sign a change of keys
        #[arg(long, default_value_t = 1)]
        root_threshold: usize,
        /// How data is printed
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
    /// Say where the hub is, for the kits of new sites
    #[command(
        after_help = "Example:\n  outhaul key set-hub --fleet fleet --hub-url https://hub.factory.example --hub-key hub.pem"
    )]
    SetHub {
        /// The fleet's folder
        #[arg(long, value_name = "DIR")]
        fleet: PathBuf,
        /// Where sites send their reports
        #[arg(long, value_name = "URL", value_parser = outhaul_remote::hub_url)]
        hub_url: String,
        /// The hub's public key (`outhaul-hub key`)
        #[arg(long, value_name = "FILE")]
        hub_key: PathBuf,
        /// How data is printed
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
    /// Show the fleet and its streams (`outhaul-signer status` shows roles and dates)
    #[command(after_help = "Example:\n  outhaul key status --fleet fleet")]
    Status {
        /// The fleet's folder
        #[arg(long, value_name = "DIR")]
        fleet: PathBuf,
        /// How data is printed
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
}

/// A fleet's folder and what opens its keys.
#[derive(Debug, clap::Args)]
pub struct FleetArgs {
    /// The fleet's folder
    #[arg(long, value_name = "DIR")]
    pub fleet: PathBuf,
    /// The file with the passphrase of its keys (mode 0600); without it `OUTHAUL_PASSPHRASE`, then the
    /// systemd credential `outhaul-passphrase`, then it is asked for at the terminal
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}

impl FleetArgs {
    /// The passphrase.
    pub fn secret(&self) -> Result<Secret, Failure> {
        Secret::obtain(self.passphrase_file.as_deref(), false).map_err(key_failure)
    }

    /// The passphrase of keys that are made now: typed twice, and refused when it is easy to guess.
    fn new_secret(&self) -> Result<Secret, Failure> {
        Secret::obtain(self.passphrase_file.as_deref(), true).map_err(key_failure)
    }
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        match self.command {
            KeyCommand::Init {
                fleet,
                hub_url,
                hub_key,
                root_keys,
                root_threshold,
                output,
            } => {
                // Of a fleet that is there the signer has more to say.
                if !fleet.fleet.join("fleet.json").exists() {
                    super::places::folder(&fleet.fleet)?;
                }
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the edge of the program: all below is given the time"
                )]
                let mut options = InitOptions::new(fleet.new_secret()?, Timestamp::now());
                options.hub_url = hub_url.unwrap_or_default();
                options.hub_key = hub_key.map(public_key).transpose()?.unwrap_or_default();
                options.root_keys = root_keys;
                options.root_threshold = root_threshold;
                let made = Fleet::init(&fleet.fleet, options).map_err(fleet_failure)?;
                let keys = fleet.fleet.join("keys");
                match output {
                    Output::Json => print_json(&json!({"fleet": made.id(), "keys": keys})),
                    Output::Text => {
                        say(&format!(
                            "fleet {} made: encrypted keys in `{}`, root metadata in `{}`",
                            made.id(),
                            keys.display(),
                            made.metadata_folder().display()
                        ));
                        say(
                            "next: keep a copy of the folder and, elsewhere, of the passphrase: \
                             without them no site accepts anything new",
                        );
                        Ok(Exit::SUCCESS)
                    }
                }
            }
            KeyCommand::SetHub {
                fleet,
                hub_url,
                hub_key,
                output,
            } => {
                let key = public_key(hub_key)?;
                let mut opened = Fleet::open(&fleet).map_err(fleet_failure)?;
                opened.set_hub(&hub_url, &key).map_err(fleet_failure)?;
                say(&format!(
                    "new kits of fleet {} name the hub `{hub_url}`",
                    opened.id()
                ));
                if output == Output::Json {
                    let hub = json!({"fleet": opened.id(), "hub_url": hub_url});
                    return print_json(&hub);
                }
                Ok(Exit::SUCCESS)
            }
            KeyCommand::Status { fleet, output } => status(&fleet, output),
        }
    }
}

fn status(folder: &std::path::Path, output: Output) -> Result<Exit, Failure> {
    let fleet = Fleet::open(folder).map_err(fleet_failure)?;
    let mut streams = Vec::new();
    for (role, names) in fleet.streams() {
        let latest = fleet.latest(role).map_err(fleet_failure)?;
        streams.push(json!({
            "role": role,
            "environment": names.environment,
            "cluster_type": names.cluster_type,
            "number": latest.as_ref().map(|latest| latest.number),
            "expires": latest.as_ref().map(|latest| latest.expires.to_string()),
        }));
    }
    if output == Output::Json {
        return print_json(
            &json!({"fleet": fleet.id(), "hub": fleet.hub_url(), "streams": streams}),
        );
    }
    println_data(&format!(
        "fleet {}  hub {}",
        fleet.id(),
        or_none(fleet.hub_url())
    ));
    for stream in &streams {
        println_data(&format!(
            "  {}/{}  number {}  expires {}  role {}",
            text(&stream["environment"]),
            text(&stream["cluster_type"]),
            stream["number"],
            text(&stream["expires"]),
            text(&stream["role"]),
        ));
    }
    Ok(Exit::SUCCESS)
}

fn text(value: &serde_json::Value) -> &str {
    value.as_str().unwrap_or("-")
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

fn println_data(line: &str) {
    super::data(line);
}

/// The PEM text of a public key file, checked.
fn public_key(path: PathBuf) -> Result<String, Failure> {
    let bytes = media::read_file(&path, 64 * 1024).map_err(|error| Failure::file(&error))?;
    let pem = String::from_utf8_lossy(&bytes).into_owned();
    PublicKey::from_pem(&pem).map_err(|error| {
        let failure = key_failure(error);
        failure.because(&format!("it was read from `{}`", path.display()))
    })?;
    Ok(pem)
}

/// A key's error with its code: a wrong passphrase is configuration, a full disk is not.
pub fn key_failure(error: KeyError) -> Failure {
    let code = if matches!(error, KeyError::File(_)) {
        failure::ENVIRONMENT
    } else {
        failure::USAGE
    };
    Failure::new(code, &error)
}

/// A fleet's error, for a person.
pub fn fleet_failure(error: FleetError) -> Failure {
    Failure::of(&error)
}
