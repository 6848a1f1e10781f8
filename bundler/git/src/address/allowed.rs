//! Which hosts a control plane or a workload may name.
//!
//! What comes in: an [`Address`], and the hosts that who runs outhaul opened. What goes out: the
//! addresses at which it may be asked, or why it may not. Names are resolved here, because what a name
//! says and where it leads are two things; nothing is asked.

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs as _};

use outhaul_kit::inside::{inside_address, is_this_machine};

use super::{Address, AddressError, Scheme};

/// Hosts that who runs outhaul opened, although they are this machine or are spoken to in clear.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts(BTreeSet<(String, Option<u16>)>);

impl AllowedHosts {
    /// The hosts of the list, each with the port to which it is limited.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, Option<u16>)> {
        self.0.iter().map(|(host, port)| (host.as_str(), *port))
    }

    /// A list from texts of the form `HOST` or `HOST:PORT`.
    ///
    /// # Errors
    /// [`AddressError::NotAUrl`] for the first that is not one.
    pub fn parse<S: AsRef<str>>(texts: &[S]) -> Result<Self, AddressError> {
        let mut hosts = BTreeSet::new();
        for text in texts {
            let text = text.as_ref();
            let address = Address::parse(&format!("https://{text}/"));
            let address = address
                .ok()
                .filter(|address| address.rest == "/" && !address.has_user());
            let Some(address) = address else {
                return Err(AddressError::NotAUrl {
                    url: text.to_owned(),
                    problem: "a host is written `HOST` or `HOST:PORT`",
                });
            };
            hosts.insert((address.host, address.port));
        }
        Ok(Self(hosts))
    }

    fn holds(&self, address: &Address) -> bool {
        let host = &address.host;
        self.0.contains(&(host.clone(), None))
            || self.0.contains(&(host.clone(), Some(address.port())))
    }

    /// Whether what a control plane or a workload wrote may be asked, and at which addresses: every
    /// address that the name has must be one that may. `None` when the host is on the list: then at any.
    ///
    /// # Errors
    /// [`AddressError`], which says why not.
    pub fn check(&self, address: &Address) -> Result<Option<Vec<IpAddr>>, AddressError> {
        let url = address.to_string();
        if address.scheme == Scheme::File {
            return Err(AddressError::Local { url });
        }
        address.refuse_password()?;
        if self.holds(address) {
            return Ok(None);
        }
        let inside = |ip: Option<IpAddr>, what| AddressError::Inside {
            url: url.clone(),
            host: match ip.filter(|ip| ip.to_string() != address.host) {
                Some(ip) => format!("{} ({ip})", address.host),
                None => address.host.clone(),
            },
            what,
        };
        if is_this_machine(&address.host) {
            return Err(inside(None, "this machine"));
        }
        let literal = address.host.parse::<IpAddr>().ok();
        let found: Vec<IpAddr> = match literal {
            Some(ip) => vec![ip],
            None => (address.host.as_str(), address.port())
                .to_socket_addrs()
                .map(|found| found.map(|one| one.ip()).collect())
                .unwrap_or_default(),
        };
        if let Some((ip, what)) = found
            .iter()
            .find_map(|ip| Some((*ip, inside_address(*ip)?)))
        {
            return Err(inside(Some(ip), what));
        }
        if address.scheme.is_plain() {
            let scheme = address.scheme;
            return Err(AddressError::Plain { url, scheme });
        }
        Ok(Some(found))
    }
}
