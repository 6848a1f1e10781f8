//! The fuzz bodies as property tests: any bytes, and bytes that are nearly right.

use proptest::prelude::*;

use crate::bodies;

fn nearly_a_target() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just("/v2/".to_owned()),
        Just("docker.io/".to_owned()),
        Just("library/hello".to_owned()),
        Just("/manifests/".to_owned()),
        Just("/blobs/sha256:".to_owned()),
        Just("0123456789abcdef".repeat(4)),
        Just("/referrers/".to_owned()),
        Just("/tags/list".to_owned()),
        Just("/info/refs".to_owned()),
        Just("/git-upload-pack".to_owned()),
        Just("/index.yaml".to_owned()),
        Just("charts/app-1.2.3.tgz".to_owned()),
        Just("?ns=docker.io&n=1".to_owned()),
        Just("%2e%2E/%2f".to_owned()),
        Just("../".to_owned()),
        "[ -~]{0,8}",
    ];
    proptest::collection::vec(part, 0..8).prop_map(|parts| parts.concat().into_bytes())
}

fn nearly_packets() -> impl Strategy<Value = Vec<u8>> {
    let id = "a".repeat(40);
    let line = prop_oneof![
        Just(format!("want {id} side-band-64k\n")),
        Just(format!("have {id}\n")),
        Just(format!("shallow {id}\n")),
        Just("deepen 1".to_owned()),
        Just("done\n".to_owned()),
        Just("command=fetch".to_owned()),
        Just("command=ls-refs\n".to_owned()),
        Just("ref-prefix refs/heads/".to_owned()),
        "[ -~]{0,12}",
    ];
    let packet = prop_oneof![
        4 => line.prop_map(|line| format!("{:04x}{line}", line.len() + 4)),
        1 => Just("0000".to_owned()),
        1 => Just("0001".to_owned()),
        1 => "[0-9a-f]{0,5}",
    ];
    proptest::collection::vec(packet, 0..12).prop_map(|packets| packets.concat().into_bytes())
}

proptest! {
    #[test]
    fn fuzz_targets_of_requests(bytes in prop_oneof![
        any::<Vec<u8>>(),
        ".{0,200}".prop_map(String::into_bytes),
        nearly_a_target(),
    ]) {
        bodies::target(&bytes);
    }

    #[test]
    fn fuzz_packets_of_git(bytes in prop_oneof![any::<Vec<u8>>(), nearly_packets()]) {
        bodies::packets(&bytes);
    }
}
