//! `[serve]` in `agent.toml`: where a site serves, and under which names.
//!
//! What comes in: the table, as the agent and this program read it. What goes out: [`Settings`]. Without the
//! table they are the defaults: this machine alone, with TLS.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// `[serve]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Address and port.
    pub listen: SocketAddr,
    /// Names beside this machine's own by which clients reach the server.
    pub names: Vec<String>,
    /// Without TLS, for this machine alone.
    pub plain_http: bool,
    /// Loopback address at which `outhaul-mirror page` serves the status; while it is set, the agent writes the page.
    pub page: Option<SocketAddr>,
}

/// Where the agent writes the page of its status, below its state folder.
pub fn page_file(state: &Path) -> PathBuf {
    state.join("serve").join("status.html")
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 5443)),
            names: Vec::new(),
            plain_http: false,
            page: None,
        }
    }
}

impl Settings {
    /// The first value that is out of its range: its key, the value, and what is allowed.
    pub fn out_of_range(&self) -> Option<(&'static str, String, &'static str)> {
        if self.plain_http && !self.listen.ip().is_loopback() {
            let expected =
                "an address of this machine alone, such as \"127.0.0.1:5443\", with `plain_http`";
            return Some(("serve.listen", format!("`{}`", self.listen), expected));
        }
        if let Some(page) = self.page.filter(|page| !page.ip().is_loopback()) {
            let expected = "an address of this machine alone, such as \"127.0.0.1:5480\"";
            return Some(("serve.page", format!("`{page}`"), expected));
        }
        let wrong = self.names.iter().find(|name| {
            crate::name::normal_registry(name).is_none_or(|name| name.contains(':'))
        })?;
        let expected = "names of hosts, such as \"registry.site.example\"";
        Some(("serve.names", format!("`{wrong}`"), expected))
    }
}
