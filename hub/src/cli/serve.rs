//! `outhaul-hub serve`: the page and the API, until stopped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use outhaul_kit::url::listen_address;
use outhaul_kit::{console, durable};
use outhaul_oidc::{Oidc, OidcSettings, SettingsError};
use outhaul_telemetry::OtlpSettings;
use serde_json::json;
use tracing_subscriber::EnvFilter;

use super::{Common, Output, print};
use crate::alerting;
use crate::error::HubError;
use crate::retention::{LEAST_DAYS, MOST_DAYS};
use crate::server::{self, ServerOptions};
use crate::state::Hub;

/// Serve the page and the API
///
/// Over plain HTTP only this machine is served; give a certificate to serve others.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  outhaul-hub serve --state hub\n  outhaul-hub serve --listen \
                        0.0.0.0:8443 --tls-cert hub.crt --tls-key hub.pem --oidc oidc.yaml --state hub"
)]
pub(crate) struct Args {
    /// Address and port; port 0 means a free one, which is printed
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8420", value_parser = listen_address)]
    listen: SocketAddr,
    /// Certificate chain, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Also hand out this published folder (`outhaul bundle --publish`) below `/repository/`
    #[arg(long, value_name = "DIR")]
    repository: Option<PathBuf>,
    /// Let anybody who reaches the hub read pages and lists and ask gates, without a login: names of sites and what they
    /// report are then no secret. Deciding needs a login all the same
    #[arg(long)]
    open_reading: bool,
    /// Send alerts to the destinations that this file names (docs/hub-alerts.md)
    #[arg(long, value_name = "FILE")]
    alerts: Option<PathBuf>,
    /// Push metrics to this OTLP collector (docs/hub-metrics.md): https://, or http:// to this machine
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// Headers of each push, such as a token: `Name: value`, one a line
    #[arg(long, value_name = "FILE", requires = "otlp")]
    otlp_headers: Option<PathBuf>,
    /// Authority of the collector's certificate, PEM; without it, the system's
    #[arg(long, value_name = "FILE", requires = "otlp")]
    otlp_ca: Option<PathBuf>,
    /// Seconds from one push to the next
    #[arg(long, value_name = "COUNT", requires = "otlp", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    otlp_seconds: u32,
    /// Let people log in at the identity provider that this file names (OIDC), with the scopes that it gives them
    /// (docs/hub-login.md). Tokens still work
    #[arg(long, value_name = "FILE")]
    oidc: Option<PathBuf>,
    /// Remove reports that were received longer ago than so many days, all the time and few at once (docs/hub-retention.md);
    /// without it, every report is kept
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(i64::from(LEAST_DAYS)..=i64::from(MOST_DAYS)))]
    keep_observations: Option<u32>,
    /// Serve other machines without TLS: anyone on the network path can read and drop messages
    #[arg(long)]
    insecure_plain_http: bool,
}

/// Most bytes of the file that names an identity provider.
const MAX_OIDC_BYTES: u64 = 256 * 1024;

pub(super) fn run(common: &Common, messages: console::Options, args: Args) -> Result<u8, HubError> {
    let tls = args.tls_cert.zip(args.tls_key);
    if tls.is_none() && !args.listen.ip().is_loopback() && !args.insecure_plain_http {
        return Err(HubError::Usage {
            problem: format!(
                "`{}` can be reached from other machines, and no TLS is configured",
                args.listen
            ),
            help:
                "give `--tls-cert` and `--tls-key`, listen on 127.0.0.1 behind a proxy, or accept \
                   the risk with `--insecure-plain-http`"
                    .to_owned(),
        });
    }
    let filter = EnvFilter::try_from_env("OUTHAUL_LOG")
        .unwrap_or_else(|_| EnvFilter::new(messages.log_level("info")));
    // A second subscriber only exists in tests; the first one then serves.
    drop(
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(|| console::Log)
            .with_ansi(false)
            // A log that nobody reads is no reason to fail.
            .log_internal_errors(false)
            .with_target(false)
            .try_init(),
    );
    let repository = args.repository;
    if let Some(folder) = repository.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(HubError::Usage {
            problem: format!("`{}` is not a folder", folder.display()),
            help: "give the folder that `outhaul bundle --publish` writes".to_owned(),
        });
    }
    let alerts = args.alerts.as_deref().map(alerting::settings).transpose()?;
    let otlp = args.otlp.as_deref().map(|url| {
        let every = Duration::from_secs(u64::from(args.otlp_seconds));
        OtlpSettings::new(url, args.otlp_headers, args.otlp_ca, every)
    });
    let otlp = otlp.transpose().map_err(|error| HubError::Usage {
        problem: error.to_string(),
        help: "docs/hub-metrics.md has examples".to_owned(),
    })?;
    let oidc = args.oidc.as_deref().map(provider).transpose()?;
    let hub = Hub::open_signing(&common.state, common.passphrase_file.as_deref())?;
    let options = ServerOptions {
        listen: args.listen,
        tls,
        repository,
        open_reading: args.open_reading,
        alerts,
        otlp,
        oidc,
        keep_days: args.keep_observations,
    };
    let output = common.output;
    let ready = |address: SocketAddr, scheme: &str| {
        let url = format!("{scheme}://{address}/");
        match output {
            Output::Json => console::ready(json!({ "url": url })),
            Output::Text => print::data(&url),
        }
    };
    server::serve(hub, &common.state, &options, ready)?;
    Ok(0)
}

/// The identity provider of this file; it is not asked.
fn provider(path: &Path) -> Result<Arc<Oidc>, HubError> {
    let usage = |error: SettingsError| HubError::Usage {
        problem: error.to_string(),
        help: "docs/hub-login.md has an example".to_owned(),
    };
    let bytes = durable::read(path, MAX_OIDC_BYTES)?;
    let settings = OidcSettings::parse(path, &String::from_utf8_lossy(&bytes)).map_err(usage)?;
    Ok(Arc::new(Oidc::new(settings, path).map_err(usage)?))
}
