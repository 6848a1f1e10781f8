//! Whether a network has come up: the kernel's routing tables, compared with the last look.
//!
//! What comes in: `/proc/self/net/route` and `ipv6_route`, which need no privileges and no socket. What goes
//! out: `true` when there is a route that was not there before, or again after it was gone. It opens no
//! connection; whether the hub answers is found by asking it.

use std::collections::BTreeSet;
use std::path::Path;

use outhaul_kit::durable;

/// Largest routing table that is read, in bytes; a longer one is taken for "no change".
const MAX_TABLE_BYTES: u64 = 1024 * 1024;
/// The flag of a route that can be used (`RTF_UP`).
const UP: u32 = 1;
/// The flag of a route that refuses (`RTF_REJECT`).
const REJECT: u32 = 0x200;

/// The routes of the last look.
#[derive(Debug, Default)]
pub struct Links {
    routes: BTreeSet<String>,
}

impl Links {
    /// Looks at the kernel's tables; the first look reports no change.
    pub fn now() -> Self {
        Self { routes: tables() }
    }

    /// Whether there is a route that was not there at the last look.
    pub fn came_up(&mut self) -> bool {
        self.compare(tables())
    }

    fn compare(&mut self, routes: BTreeSet<String>) -> bool {
        let came = routes.difference(&self.routes).next().is_some();
        self.routes = routes;
        came
    }
}

fn tables() -> BTreeSet<String> {
    let text = |path: &str| {
        let bytes = durable::read_if_present(Path::new(path), MAX_TABLE_BYTES);
        String::from_utf8_lossy(&bytes.ok().flatten().unwrap_or_default()).into_owned()
    };
    let mut routes = ipv4(&text("/proc/self/net/route"));
    routes.extend(ipv6(&text("/proc/self/net/ipv6_route")));
    routes
}

/// Interface, destination and gateway of each usable route; the first line names the columns.
fn ipv4(table: &str) -> BTreeSet<String> {
    let rows = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().take(4).collect();
        let [interface, destination, gateway, flags] = fields[..] else {
            return None;
        };
        usable(flags).then(|| format!("{interface} {destination} {gateway}"))
    });
    rows.collect()
}

/// Destination, prefix, gateway and interface of each usable route, without multicast and link-local
/// ones: every interface has those, also when its cable leads nowhere.
fn ipv6(table: &str) -> BTreeSet<String> {
    let rows = table.lines().filter_map(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let (destination, prefix) = (fields.first()?, fields.get(1)?);
        let (gateway, flags, interface) = (fields.get(4)?, fields.get(8)?, fields.get(9)?);
        let local = destination.starts_with("ff") || destination.starts_with("fe80");
        (usable(flags) && !local).then(|| format!("{interface} {destination}/{prefix} {gateway}"))
    });
    rows.collect()
}

fn usable(flags: &str) -> bool {
    u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & UP != 0 && flags & REJECT == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // As Linux 6.1 prints them.
    const NAMES: &str =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
    const DEFAULT: &str = "eth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
    const NO_ROUTE: &str = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
                            00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n";
    const GLOBAL: &str = "20010db8000000000000000000000000 40 00000000000000000000000000000000 00 \
                          00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0\n";
    const LINK: &str = "fe800000000000000000000000000000 40 00000000000000000000000000000000 00 \
                        00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0\n";

    #[test]
    fn a_route_that_appears_is_news_once_and_again_after_it_was_gone() {
        let mut links = Links::default();
        let (none, some) = (ipv4(NAMES), ipv4(&format!("{NAMES}{DEFAULT}")));
        assert!(!links.compare(none.clone()));
        assert!(links.compare(some.clone()));
        assert!(!links.compare(some.clone()));
        assert!(!links.compare(none));
        assert!(links.compare(some));
    }

    #[test]
    fn only_usable_routes_beyond_the_link_count() {
        assert_eq!(ipv4(&format!("{NAMES}{DEFAULT}")).len(), 1);
        assert!(ipv6(&format!("{NO_ROUTE}{LINK}")).is_empty());
        assert_eq!(ipv6(&format!("{NO_ROUTE}{GLOBAL}{LINK}")).len(), 1);
        assert!(ipv4("nonsense\n1 2\n").is_empty());
    }
}
