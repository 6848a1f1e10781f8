//! Addresses that a server may lead to: none of this machine, and none that only it can reach.
//!
//! What comes in: the address of a request that who runs the program did not name. What goes out: the socket addresses that its name has, all
//! of them checked, to which the connection then goes: a name that resolves to something else a moment later changes nothing. It opens no
//! connection.

use std::fmt;

use outhaul_kit::inside::{inside_address, is_this_machine};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Where a request would go that may not go there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inside {
    /// The host, with its address where the name does not say it.
    pub(crate) host: String,
    /// What the address is.
    pub(crate) what: &'static str,
}

impl fmt::Display for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it leads to {}, {}", self.host, self.what)
    }
}

impl std::error::Error for Inside {}

/// Resolves names, and refuses those with an address of this machine or its link.
#[derive(Debug, Default)]
pub(crate) struct OutsideOnly(DefaultResolver);

impl Resolver for OutsideOnly {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let name = uri.host().unwrap_or_default();
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let refused = |host: String, what| ureq::Error::Other(Box::new(Inside { host, what }));
        if is_this_machine(name) {
            return Err(refused(name.to_owned(), "this machine"));
        }
        let found = self.0.resolve(uri, config, timeout)?;
        for address in &found {
            if let Some(what) = inside_address(address.ip()) {
                let ip = address.ip().to_string();
                let host = match ip == name {
                    true => ip,
                    false => format!("{name} ({ip})"),
                };
                return Err(refused(host, what));
            }
        }
        Ok(found)
    }
}
