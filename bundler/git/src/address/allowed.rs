//! Which hosts a control plane or a workload may name.
//!
//! What comes in: an [`Address`], and the hosts that who runs outhaul opened. What goes out: the
//! addresses at which it may be asked, or why it may not. Names are resolved here, because what a name
//! says and where it leads are two things; nothing is asked.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs as _};

use super::{Address, AddressError, Scheme};

/// Hosts that who runs outhaul opened, although they are this machine or are spoken to in clear.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts(BTreeSet<(String, Option<u16>)>);

impl AllowedHosts {
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
        let name = address.host.trim_end_matches('.');
        if name == "localhost" || name.ends_with(".localhost") {
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

/// What an address is that only this machine, or its link, can reach.
fn inside_address(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(ip) => inside_v4(ip),
        IpAddr::V6(ip) => inside_v6(ip),
    }
}

fn inside_v4(ip: Ipv4Addr) -> Option<&'static str> {
    match () {
        () if ip.is_loopback() || ip.octets()[0] == 0 => Some("this machine"),
        () if ip.is_link_local() => Some("a link-local address"),
        () if ip.is_multicast() || ip.is_broadcast() => Some("no address of one server"),
        () => None,
    }
}

fn inside_v6(ip: Ipv6Addr) -> Option<&'static str> {
    let parts = ip.segments();
    let embedded = || {
        let [a, b] = parts[6].to_be_bytes();
        let [c, d] = parts[7].to_be_bytes();
        inside_v4(Ipv4Addr::new(a, b, c, d))
    };
    match () {
        () if ip.is_loopback() || ip.is_unspecified() => Some("this machine"),
        () if ip.is_unicast_link_local() => Some("a link-local address"),
        () if ip.is_multicast() => Some("no address of one server"),
        // IPv4 inside IPv6: mapped, compatible, and through a translator.
        () if parts[..6] == [0, 0, 0, 0, 0, 0xffff] || parts[..6] == [0; 6] => embedded(),
        () if parts[..6] == [0x64, 0xff9b, 0, 0, 0, 0] => embedded(),
        // Where clouds answer for the machine itself.
        () if parts == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] => {
            Some("the metadata service of a cloud")
        }
        () => None,
    }
}
