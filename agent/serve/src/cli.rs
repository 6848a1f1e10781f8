//! The command line: `outhaul-mirror run`, `check`, `enable`, `disable` and `apt`.
//!
//! What comes in: arguments. What goes out: with `run` the address on stdout once it serves, and a log on
//! stderr; with `check` what is served; with `enable` and `disable` what became of containerd's configuration; an exit
//! code (0 ok, 1 findings, 2 usage or configuration, 3 environment, 4 certificates).

use outhaul_kit::text::json_path;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory as _, Parser, Subcommand};
use outhaul_kit::console::{self, Exit, Output};
use outhaul_kit::durable;
use outhaul_kit::text::printable;
use outhaul_kit::url::listen_address;
use outhaul_listen::StartError;
use serde_json::json;

use crate::error::ServeError;
use crate::page;
use crate::server::{self, LIMITS};
use crate::settings::{self, Settings};
use crate::tls::Authority;
use crate::verify;
use crate::view::{Current, FolderView};

mod apt;
mod containerd;

/// Serves the active generation's images as an OCI registry, and its repositories over git, read only.
#[derive(Debug, Parser)]
#[command(
    name = "outhaul-mirror",
    version,
    about,
    propagate_version = true,
    after_help = console::GLOSSARY
)]
struct Cli {
    /// The agent's state folder
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "OUTHAUL_STATE",
        default_value = "/var/lib/outhaul-agent"
    )]
    state: PathBuf,
    /// Form of the data on stdout
    #[arg(long, global = true, value_name = "FORM", default_value = "text")]
    output: Output,
    #[command(flatten)]
    messages: console::Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Run),
    Check(Check),
    Enable(containerd::Enable),
    Disable(containerd::Disable),
    Page(PageArgs),
    Apt(apt::Apt),
}

/// Serve until stopped
///
/// With TLS by the site's own authority, which is made at the first start: give clients `serve/tls/ca.pem` of
/// the state folder.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  outhaul-mirror run\n  outhaul-mirror run --listen 10.0.0.5:5443 --name \
                  registry.site.example"
)]
struct Run {
    /// Address and port; port 0 means a free one, which is printed; else 127.0.0.1:5443
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    listen: Option<SocketAddr>,
    /// Another name by which clients reach this server; may be given several times
    #[arg(long = "name", value_name = "HOST")]
    names: Vec<String>,
    /// Serve this machine alone, without TLS
    #[arg(long, conflicts_with = "names")]
    plain_http: bool,
}

/// List what is served, and what cannot be; every byte is read and compared with its digest
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul-mirror check")]
struct Check {}

/// Serve the page of this site's status to browsers of this machine, until it is stopped
///
/// The agent's service writes the page while `[serve]` in agent.toml names `page`, which is also where this listens.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul-mirror page --listen 127.0.0.1:5480")]
struct PageArgs {
    /// Loopback address and port; port 0 means a free one, which is printed; else the `page` of agent.toml, or 127.0.0.1:5480
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    listen: Option<SocketAddr>,
}

/// The command line, for man pages and completions, which are made elsewhere.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the program with this process's arguments.
pub fn main() -> ExitCode {
    run(std::env::args_os())
}

/// Runs the program with `arguments`, the program's name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli: Cli = match console::parse(arguments) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    cli.messages.apply();
    let done = match &cli.command {
        // What was changed is known from its own record, also where the state folder is gone.
        Command::Disable(args) => containerd::disable(args),
        Command::Apt(args) if args.removes() => apt::remove(args),
        command => state_folder(&cli.state).and_then(|()| match command {
            Command::Run(args) => serve(&cli, args).map(|()| 0),
            Command::Enable(args) => {
                let settings = configured(&cli.state.join("agent.toml"))?;
                in_range(&settings, "correct `[serve]` in `agent.toml`")?;
                containerd::enable(&cli.state, &settings, args)
            }
            Command::Page(args) => serve_page(&cli, args).map(|()| 0),
            Command::Apt(args) => {
                let settings = configured(&cli.state.join("agent.toml"))?;
                in_range(&settings, "correct `[serve]` in `agent.toml`")?;
                let current = Current::new(Box::new(FolderView::new(&cli.state)));
                apt::write(&cli.state, &settings, current.catalog()?.as_deref(), args)
            }
            Command::Check(_) | Command::Disable(_) => check(&cli),
        }),
    };
    console::finish(done.map_or_else(|error| console::failed(&error), Exit::from))
}

/// A folder that is not there is a mistyped one: nothing would ever be served from it.
fn state_folder(state: &Path) -> Result<(), ServeError> {
    match state.is_dir() {
        true => Ok(()),
        false => Err(ServeError::Usage {
            problem: format!("there is no state folder `{}`", state.display()),
            help:
                "name the folder that `outhaul-agent` works with: `--state DIR`, or $OUTHAUL_STATE"
                    .to_owned(),
        }),
    }
}

fn check(cli: &Cli) -> Result<u8, ServeError> {
    let current = Current::new(Box::new(FolderView::new(&cli.state)));
    let Some(catalog) = current.catalog()? else {
        match cli.output {
            Output::Json => console::result(json!({ "active": false })),
            Output::Text => console::data(
                "nothing is served: the site has no active bundle, or it brings no image and no repository",
            ),
        }
        return Ok(0);
    };
    let images: BTreeMap<String, Vec<&String>> = catalog
        .images()
        .iter()
        .map(|(image, repository)| (image.to_string(), repository.tags.keys().collect()))
        .collect();
    let repositories: BTreeMap<String, &String> = catalog
        .git()
        .iter()
        .map(|(address, repository)| (address.to_string(), &repository.tip))
        .collect();
    let charts: BTreeMap<&String, Vec<&String>> = catalog
        .charts()
        .iter()
        .map(|(address, repository)| (address, repository.archives.keys().collect()))
        .collect();
    let packages: BTreeMap<&String, usize> = catalog
        .packages()
        .iter()
        .map(|(name, repository)| (name, repository.packages()))
        .collect();
    match cli.output {
        Output::Json => console::result(json!({
            "active": true,
            "charts": charts,
            "images": images,
            "repositories": repositories,
            "packages": packages,
            "problems": catalog.problems(),
        })),
        Output::Text => {
            for (image, tags) in &images {
                let tags: Vec<&str> = tags.iter().map(|tag| tag.as_str()).collect();
                console::data(&format!("image {image}: {}", tags.join(", ")));
            }
            for (address, archives) in &charts {
                let archives: Vec<&str> = archives.iter().map(|path| path.as_str()).collect();
                console::data(&printable(&format!(
                    "charts {address}: {}",
                    archives.join(", ")
                )));
            }
            for (name, count) in &packages {
                console::data(&format!("apt {name}: {count} packages"));
            }
            for (address, tip) in &repositories {
                console::data(&format!("git {}: {tip}", printable(address)));
            }
        }
    }
    let damages = verify::damages(&catalog);
    for problem in &damages {
        console::finding(json!({ "rule": "damaged", "message": problem }));
        console::always(&format!("damaged: {}", printable(problem)));
    }
    if !damages.is_empty() {
        console::always(
            "help: a newer bundle brings it again; or go back with `outhaul-agent rollback`, and import this bundle \
             again",
        );
    }
    for problem in catalog.problems() {
        console::finding(json!({ "rule": "not-served", "message": problem }));
        console::always(&format!("not served: {}", printable(problem)));
    }
    Ok(u8::from(
        !damages.is_empty() || !catalog.problems().is_empty(),
    ))
}

fn serve(cli: &Cli, args: &Run) -> Result<(), ServeError> {
    let mut settings = configured(&cli.state.join("agent.toml"))?;
    settings.listen = args.listen.unwrap_or(settings.listen);
    settings.names.extend(args.names.iter().cloned());
    settings.plain_http |= args.plain_http;
    in_range(&settings, "correct the option")?;
    drop(
        tracing_subscriber::fmt()
            .with_writer(|| console::Log)
            .with_ansi(false)
            // A log that nobody reads is no reason to fail.
            .log_internal_errors(false)
            .with_target(false)
            .try_init(),
    );
    let authority = match settings.plain_http {
        true => None,
        false => {
            let folder = cli.state.join("serve/tls");
            Some(Authority::open_or_create(&folder)?)
        }
    };
    let addresses: Vec<IpAddr> = vec![settings.listen.ip()];
    let tls = match &authority {
        None => None,
        Some(authority) => Some(authority.acceptor(&settings.names, &addresses)?),
    };
    let current = Arc::new(Current::new(Box::new(FolderView::new(&cli.state))));
    let options = outhaul_listen::ListenOptions {
        listen: settings.listen,
        tls,
        limits: LIMITS,
    };
    let ca = authority.as_ref().map(Authority::certificate);
    outhaul_listen::run(
        options,
        move |_| server::service(Arc::clone(&current)),
        std::future::ready(()),
        |address| announce(cli.output, address, ca.as_deref()),
    )
    .map_err(|StartError { doing, source }| ServeError::Start { doing, source })
}

fn serve_page(cli: &Cli, args: &PageArgs) -> Result<(), ServeError> {
    let configured = configured(&cli.state.join("agent.toml"))?;
    let usual = SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 5480));
    let listen = args.listen.or(configured.page).unwrap_or(usual);
    page::only_loopback(listen).map_err(|error| ServeError::Usage {
        problem: format!("`{listen}`: {error}"),
        help: "whoever is elsewhere sees the site at the hub".to_owned(),
    })?;
    if configured.page.is_none() {
        console::always(
            "warning: the agent writes no page: set `page = \"127.0.0.1:5480\"` under `[serve]` in agent.toml",
        );
    }
    let file = Arc::new(settings::page_file(&cli.state));
    let options = outhaul_listen::ListenOptions {
        listen,
        tls: None,
        limits: LIMITS,
    };
    outhaul_listen::run(
        options,
        move |_| page::service(Arc::clone(&file)),
        std::future::ready(()),
        |address| announce(cli.output, address, None),
    )
    .map_err(|StartError { doing, source }| ServeError::Start { doing, source })
}

/// `[serve]` in `agent.toml`; all else in it is the agent's.
fn configured(path: &Path) -> Result<Settings, ServeError> {
    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct AgentToml {
        serve: Settings,
    }
    const MAX_BYTES: u64 = 256 * 1024;
    let Some(bytes) = durable::read_if_present(path, MAX_BYTES)? else {
        return Ok(Settings::default());
    };
    let read = toml::from_str::<AgentToml>(&String::from_utf8_lossy(&bytes));
    read.map(|read| read.serve)
        .map_err(|error| ServeError::Usage {
            problem: format!("`{}`: {}", path.display(), error.message()),
            help: "correct `[serve]` in `agent.toml`".to_owned(),
        })
}

fn in_range(settings: &Settings, help: &str) -> Result<(), ServeError> {
    match settings.out_of_range() {
        None => Ok(()),
        Some((key, found, expected)) => Err(ServeError::Usage {
            problem: format!("`{key}` is {found}, it must be {expected}"),
            help: help.to_owned(),
        }),
    }
}

fn announce(output: Output, address: SocketAddr, ca: Option<&Path>) {
    let scheme = if ca.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}/");
    match output {
        Output::Json => console::ready(json!({ "url": url, "ca": ca.map(json_path) })),
        Output::Text => console::data(&url),
    }
}
