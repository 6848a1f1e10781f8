//! `outhaul serve`: everything, on a schedule and on a webhook.

use std::path::PathBuf;

use jiff::Timestamp;
use outhaul_kit::console;
use outhaul_kit::heartbeat::Heartbeat;
use serde_json::json;

use super::failure::{self, Failure};
use super::{Exit, Output, print_json, say};
use crate::serve::{self, RoundContext, ServeConfig, Service, daemon};

/// Do it all on a schedule and on a webhook: fetch, render what changed, bundle, publish, promote
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul serve --config serve.toml\n\nserve.toml:\n  \
    state = \"/var/lib/outhaul-serve\"\n  \
    control_plane = \"https://git.factory.example/control-plane\"\n  \
    interval = \"5m\"\n  \
    listen = \"127.0.0.1:8480\"                     # /hook, /status, /healthz\n  \
    webhook_secret_file = \"/etc/outhaul/hook\"     # without it there is no /hook\n\n  \
    [[environment]]\n  \
    name = \"dev\"\n  \
    bundle = { fleet = \"fleet\", passphrase_file = \"passphrase\", out = \"bundles\" }\n  \
    git = { to = \"https://git.factory.example/platform.git\" }\n\n  \
    [promote]\n  \
    hub = \"https://hub.factory.example\"\n  \
    first = \"dev\""
)]
pub struct Args {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// One round, and end: 1 when something is broken or refused, 3 when something cannot be reached
    #[arg(long)]
    once: bool,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        let config = ServeConfig::read(&self.config).map_err(|error| {
            Failure::new(failure::USAGE, &error).help("`outhaul serve --help` shows an example")
        })?;
        let mut service = Service::open(config).map_err(|error| Failure::of(&error))?;
        if self.once {
            let around = RoundContext {
                clock: now,
                tell: &say,
                heartbeat: &Heartbeat::default(),
            };
            let wrong = service.round(around).map_err(|error| Failure::of(&error))?;
            if self.output == Output::Json {
                print_json(&json!({ "problems": wrong }))?;
            }
            let class = serve::round_class(&wrong);
            return Ok(class.map_or(Exit::SUCCESS, |class| Exit::from(class.code())));
        }
        let output = self.output;
        daemon::run(service, now, say, |address| {
            let address = address.map(|address| format!("http://{address}"));
            if let Some(address) = &address {
                say(&format!("listening on {address}"));
            }
            if output == Output::Json {
                console::ready(json!({ "listening": address }));
            }
        })
        .map_err(|error| Failure::of(&error))?;
        Ok(Exit::SUCCESS)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the edge of the program: all below is given the time"
)]
fn now() -> Timestamp {
    Timestamp::now()
}
