//! `outhaul-mirror enable` and `disable`: containerd on this machine asks the mirror, or no longer.
//!
//! What comes in: containerd's folder of hosts and its configuration, and the settings of the mirror. What goes out: what
//! was done to each file, on stdout; what containerd would ignore, as a finding with what to add.

use outhaul_kit::text::json_path;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use outhaul_kit::console;
use outhaul_kit::durable;
use outhaul_kit::text::printable;
use serde_json::json;

use crate::containerd::{self, ConfigState, FileChange, HostsFileOutcome, Mirror};
use crate::error::ServeError;
use crate::settings::Settings;

/// Largest `config.toml` of containerd in bytes.
const MAX_CONFIG: u64 = 4 << 20;
/// The authority's certificate, below the state folder.
const AUTHORITY: &str = "serve/tls/ca.pem";

/// Have containerd on this machine ask the mirror for every image, under its original name
///
/// Writes `hosts.toml` for all registries, and into each registry's own folder that is there, where the mirror is put
/// before what was asked so far. What was there is kept; `outhaul-mirror disable` brings it back. Asked again it does
/// what is still missing. containerd's own `config.toml` is read, and what it lacks is printed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul-mirror enable")]
pub(super) struct Enable {
    #[command(flatten)]
    folder: Folder,
    /// containerd's configuration, which is read only
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/containerd/config.toml"
    )]
    config: PathBuf,
}

/// Bring back what `enable` changed, as far as nobody else has changed it since
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul-mirror disable")]
pub(super) struct Disable {
    #[command(flatten)]
    folder: Folder,
}

/// containerd's folder.
#[derive(Debug, clap::Args)]
struct Folder {
    /// containerd's folder of hosts
    #[arg(long, value_name = "DIR", default_value = "/etc/containerd/certs.d")]
    certs_dir: PathBuf,
}

impl Folder {
    fn absolute(&self) -> PathBuf {
        std::path::absolute(&self.certs_dir).unwrap_or_else(|_| self.certs_dir.clone())
    }
}

/// Enables it; the exit code.
pub(super) fn enable(state: &Path, settings: &Settings, args: &Enable) -> Result<u8, ServeError> {
    let mirror = mirror(state, settings)?;
    let folder = args.folder.absolute();
    let changes = containerd::enable(&folder, &mirror)?;
    let config = durable::read_if_present(&args.config, MAX_CONFIG)?;
    let config = config.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let state = containerd::config_state(config.as_deref(), &folder);
    let is_named = state == ConfigState::Named;
    if console::is_json() {
        console::result(json!({
            "url": mirror.url,
            "ca": mirror.authority.as_deref().map(json_path),
            "files": files(&changes),
            "config": { "path": json_path(&args.config), "reads_folder": is_named },
        }));
    } else {
        show(&changes);
    }
    let left = left(&changes);
    report(&state, &args.config, &folder);
    Ok(u8::from(left || !is_named))
}

/// Disables it; the exit code.
pub(super) fn disable(args: &Disable) -> Result<u8, ServeError> {
    let folder = args.folder.absolute();
    let changes = containerd::disable(&folder)?;
    if console::is_json() {
        console::result(json!({ "files": files(&changes) }));
    } else if changes.is_empty() {
        console::data("the mirror is not enabled there");
    } else {
        show(&changes);
    }
    Ok(u8::from(left(&changes)))
}

/// The mirror, as this machine reaches it.
pub(super) fn mirror(state: &Path, settings: &Settings) -> Result<Mirror, ServeError> {
    let listen = settings.listen;
    // What listens on every address is reached on this machine's own.
    let address = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    if listen.port() == 0 {
        return Err(ServeError::Usage {
            problem: "`serve.listen` has port 0, which is another one at each start".to_owned(),
            help: "write a port of its own into `[serve]` of `agent.toml`, such as 5443".to_owned(),
        });
    }
    let address = SocketAddr::new(address, listen.port());
    if settings.plain_http {
        return Ok(Mirror {
            url: format!("http://{address}"),
            authority: None,
        });
    }
    let authority =
        std::path::absolute(state.join(AUTHORITY)).unwrap_or_else(|_| state.join(AUTHORITY));
    if !authority.exists() {
        return Err(ServeError::Usage {
            problem: format!("`{}` is missing: the mirror has never run", authority.display()),
            help: "start the mirror first, which makes it: `systemctl enable --now outhaul-mirror`, or \
                   `outhaul-mirror run`"
                .to_owned(),
        });
    }
    Ok(Mirror {
        url: format!("https://{address}"),
        authority: Some(authority),
    })
}

/// Each file, for programs.
fn files(changes: &[FileChange]) -> serde_json::Value {
    let file = |change: &FileChange| {
        let (what, before, reason) = match &change.what {
            HostsFileOutcome::Written => ("written", None, None),
            HostsFileOutcome::Merged(before) => ("changed", Some(before), None),
            HostsFileOutcome::Unchanged => ("unchanged", None, None),
            HostsFileOutcome::Left(why) => ("left", None, Some(why)),
            HostsFileOutcome::Restored => ("restored", None, None),
            HostsFileOutcome::Removed => ("removed", None, None),
        };
        json!({ "path": json_path(&change.path), "what": what, "before": before, "reason": reason })
    };
    changes.iter().map(file).collect()
}

/// Each file, for people.
fn show(changes: &[FileChange]) {
    for change in changes {
        let path = change.path.display();
        let line = match &change.what {
            HostsFileOutcome::Written => format!("written    {path}"),
            HostsFileOutcome::Merged(before) => format!(
                "changed    {path}: the mirror is asked first; what was there is kept as `{}`",
                before.display()
            ),
            HostsFileOutcome::Unchanged => format!("unchanged  {path}: it asks the mirror already"),
            HostsFileOutcome::Left(_) => continue,
            HostsFileOutcome::Restored => format!("restored   {path}"),
            HostsFileOutcome::Removed => format!("removed    {path}: there was none before"),
        };
        console::data(&printable(&line));
    }
}

/// Reports the files that are left as they are; whether there are any.
fn left(changes: &[FileChange]) -> bool {
    let mut any = false;
    for change in changes {
        if let HostsFileOutcome::Left(why) = &change.what {
            let message = format!("`{}` is left as it is: {why}", change.path.display());
            console::finding(json!({ "rule": "left", "message": message }));
            console::always(&format!("warning: {}", printable(&message)));
            any = true;
        }
    }
    any
}

/// Reports what containerd would ignore, and what to do.
fn report(state: &ConfigState, config: &Path, folder: &Path) {
    let config = config.display();
    let (message, help) = match state {
        ConfigState::Named => return,
        ConfigState::Missing { found, add } => (
            format!(
                "pulls of Kubernetes do not use `{}` yet: in `{config}` {found}",
                folder.display()
            ),
            format!(
                "add these lines to `{config}`, and restart containerd (`systemctl restart containerd`; containers go \
                 on running):\n{add}"
            ),
        ),
        ConfigState::Unreadable(problem) => (
            format!("`{config}` cannot be read: {problem}"),
            format!(
                "correct it; `config_path` of the registry has to name `{}`",
                folder.display()
            ),
        ),
    };
    console::finding(json!({ "rule": "config-path", "message": message, "help": help }));
    console::always(&format!(
        "warning: {}\nhelp: {}",
        printable(&message),
        help.trim_end()
    ));
}
