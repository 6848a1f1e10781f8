//! A server that git may fetch from, and how git is kept from asking another one.
//!
//! What comes in: an [`Address`], and the addresses that its name had when it was checked. What goes out:
//! the settings of one git command: this protocol and no other, no redirect, these addresses and no
//! others, and no proxy but one that git's own configuration names. It opens no connection.

use std::net::IpAddr;
use std::process::{Command, Stdio};

use super::plain;
use crate::address::{Address, Scheme};

/// A server that git may fetch from.
#[derive(Debug, Clone)]
pub struct Remote {
    address: Address,
    url: String,
    /// What its name stood for when it was checked; `None` when any address will do.
    found: Option<Vec<IpAddr>>,
}

impl Remote {
    /// One that was typed by who runs outhaul.
    pub fn given(address: Address) -> Self {
        Self {
            url: address.canonical(),
            address,
            found: None,
        }
    }

    /// One that a control plane or a workload wrote, and that may be asked at `found`.
    pub fn checked(address: Address, found: Option<Vec<IpAddr>>) -> Self {
        Self {
            found,
            ..Self::given(address)
        }
    }

    /// What git is given.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What people see of it.
    pub fn shown(&self) -> String {
        self.address.to_string()
    }

    /// Why git is not even started: a name without an address might get one that was not checked.
    pub(super) fn unresolved(&self) -> Option<String> {
        let nowhere = self.found.as_ref().is_some_and(Vec::is_empty);
        (nowhere && self.address.scheme() == Scheme::Https && !self.has_proxy())
            .then(|| format!("Could not resolve host: {}", self.address.host()))
    }

    /// Whether git's configuration names a proxy, which then resolves the name.
    fn has_proxy(&self) -> bool {
        let mut command = plain();
        command
            .args(["config", "--get-urlmatch", "http.proxy", &self.url])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        command
            .output()
            .is_ok_and(|output| output.status.success() && !output.stdout.is_empty())
    }

    /// Keeps `command` to this server.
    pub(super) fn confine(&self, command: &mut Command) {
        let scheme = self.address.scheme();
        // `insteadOf` in git's own configuration may turn the one into the other.
        let protocols = match scheme {
            Scheme::Https | Scheme::Ssh => "https:ssh".to_owned(),
            other => format!("https:ssh:{}", other.as_str()),
        };
        command
            .env("GIT_ALLOW_PROTOCOL", protocols)
            // A redirect would lead to a host that nobody checked.
            .args(["-c", "http.followRedirects=false"])
            .args(["-c", "fetch.recurseSubmodules=false"]);
        let found = self.found.as_deref().filter(|found| !found.is_empty());
        if let Some(found) = found.filter(|_| scheme == Scheme::Https) {
            let addresses: Vec<String> = found.iter().map(ToString::to_string).collect();
            // What a name stands for may change between two questions.
            command.arg("-c").arg(format!(
                "http.curloptResolve={}:{}:{}",
                self.address.host(),
                self.address.port(),
                addresses.join(",")
            ));
        }
    }
}
