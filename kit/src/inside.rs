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

const OF_CLOUD: &str = "the metadata service of a cloud";
/// Where clouds answer for the machine itself, beside the link-local address of most: Alibaba Cloud, Azure, Oracle Cloud.
const METADATA: [Ipv4Addr; 3] = [
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];

fn inside_v4(ip: Ipv4Addr) -> Option<&'static str> {
    match () {
        () if ip.is_loopback() || ip.octets()[0] == 0 => Some("this machine"),
        () if METADATA.contains(&ip) => Some(OF_CLOUD),
        () if ip.is_link_local() => Some("a link-local address"),
        () if ip.is_multicast() || ip.is_broadcast() => Some("no address of one server"),
        () => None,
    }
}

fn inside_v6(ip: Ipv6Addr) -> Option<&'static str> {
    let parts = ip.segments();
    let v4_at = |at: usize| {
        let [a, b] = parts[at].to_be_bytes();
        let [c, d] = parts[at + 1].to_be_bytes();
        inside_v4(Ipv4Addr::new(a, b, c, d))
    };
    match () {
        () if ip.is_loopback() || ip.is_unspecified() => Some("this machine"),
        () if ip.is_unicast_link_local() => Some("a link-local address"),
        () if ip.is_multicast() => Some("no address of one server"),
        // Where clouds answer for the machine itself: AWS, Google Cloud.
        () if parts == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254]
            || parts == [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] =>
        {
            Some(OF_CLOUD)
        }
        // IPv4 inside IPv6: mapped, compatible and translated (RFC 4291, RFC 2765), and through a translator (RFC 6052, RFC 8215). Where the network
        // part of such a translator is shorter, the address is in the middle, around eight bits that are zero.
        () if parts[..6] == [0, 0, 0, 0, 0, 0xffff] || parts[..6] == [0; 6] => v4_at(6),
        () if parts[..6] == [0, 0, 0, 0, 0xffff, 0] => v4_at(6),
        () if parts[..6] == [0x64, 0xff9b, 0, 0, 0, 0] => v4_at(6),
        () if parts[..3] == [0x64, 0xff9b, 1] => v4_at(6).or_else(|| {
            let [a, b] = parts[3].to_be_bytes();
            let [_, c] = parts[4].to_be_bytes();
            let [d, _] = parts[5].to_be_bytes();
            inside_v4(Ipv4Addr::new(a, b, c, d))
        }),
        // 6to4 (RFC 3056), and ISATAP (RFC 5214), which has the address in any network.
        () if parts[0] == 0x2002 => v4_at(1),
        () if matches!(parts[4..6], [0 | 0x200, 0x5efe]) => v4_at(6),
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
            ("fd00:ec2::254", OF_CLOUD),
            ("fd20:ce::254", OF_CLOUD),
            ("100.100.100.200", OF_CLOUD),
            ("168.63.129.16", OF_CLOUD),
            ("192.0.0.192", OF_CLOUD),
            ("::ffff:100.100.100.200", OF_CLOUD),
            ("::ffff:0:127.0.0.1", "this machine"),
            ("::ffff:0:169.254.169.254", "a link-local address"),
            ("64:ff9b:1::127.0.0.1", "this machine"),
            ("64:ff9b:1:ffff::169.254.169.254", "a link-local address"),
            ("64:ff9b:1:7f00:0:100::", "this machine"),
            ("2002:7f00:1::", "this machine"),
            ("2002:a9fe:a9fe::1", "a link-local address"),
            ("2001:db8::5efe:127.0.0.1", "this machine"),
            ("2001:db8::200:5efe:169.254.169.254", "a link-local address"),
            ("224.0.0.1", "no address of one server"),
        ] {
            assert_eq!(
                inside_address(address.parse().unwrap()),
                Some(what),
                "{address}"
            );
        }
        for address in [
            "10.0.0.1",
            "192.0.2.1",
            "100.100.100.201",
            "2001:db8::1",
            "64:ff9b:1:a00:0:100:c000:201",
            "2002:c000:201::1",
            "2001:db8::5efe:192.0.2.1",
        ] {
            assert_eq!(inside_address(address.parse().unwrap()), None, "{address}");
        }
        assert!(is_this_machine("LocalHost.") && is_this_machine("a.localhost"));
        assert!(!is_this_machine("localhost.example"));
    }
}
