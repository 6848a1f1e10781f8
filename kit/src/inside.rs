//! Addresses that lead to this machine, or to what only it can reach.
//!
//! What comes in: the name of a host, or an address. What goes out: what it is, for a message, when no other machine should decide that it is
//! asked. It resolves no name and opens no connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether a name is one of this machine, whatever it resolves to.
pub fn is_this_machine(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// What an address is that only this machine, or its link, can reach.
pub fn inside_address(ip: IpAddr) -> Option<&'static str> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_another_spelling_of_this_machine_or_its_link_is_found() {
        for (address, what) in [
            ("127.9.9.9", "this machine"),
            ("0.0.0.0", "this machine"),
            ("::1", "this machine"),
            ("::ffff:127.0.0.1", "this machine"),
            ("64:ff9b::7f00:1", "this machine"),
            ("169.254.169.254", "a link-local address"),
            ("::ffff:169.254.169.254", "a link-local address"),
            ("fe80::1", "a link-local address"),
            ("fd00:ec2::254", "the metadata service of a cloud"),
            ("224.0.0.1", "no address of one server"),
        ] {
            assert_eq!(
                inside_address(address.parse().unwrap()),
                Some(what),
                "{address}"
            );
        }
        for address in ["10.0.0.1", "192.0.2.1", "2001:db8::1"] {
            assert_eq!(inside_address(address.parse().unwrap()), None, "{address}");
        }
        assert!(is_this_machine("LocalHost.") && is_this_machine("a.localhost"));
        assert!(!is_this_machine("localhost.example"));
    }
}
