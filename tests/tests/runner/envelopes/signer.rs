//! The rows of `outhaul-signer` in the table of `--output json`, typed after those of `table`.

use super::{Case, case, not_here};

/// Every command of the program.
pub(super) const SIGNER: &[Case] = &[
    case(
        "outhaul-signer init",
        "third --passphrase-file passphrase",
        "fleet --passphrase-file passphrase",
    ),
    case(
        "outhaul-signer key",
        "vault --passphrase-file passphrase",
        "vault --passphrase-file passphrase",
    ),
    not_here(
        "outhaul-signer countersign",
        "it takes two people, see `countersigned`",
        "nowhere --root nowhere --show",
    ),
    case("outhaul-signer status", "third", "nowhere"),
    case(
        "outhaul-signer root third add-key",
        "vault.pub --passphrase-file passphrase",
        "nowhere --passphrase-file passphrase",
    ),
    case(
        "outhaul-signer root third renew",
        "--passphrase-file passphrase",
        "--passphrase-file nowhere",
    ),
    case(
        "outhaul-signer root third threshold",
        "2 --passphrase-file passphrase",
        "9 --passphrase-file passphrase",
    ),
    not_here(
        "outhaul-signer root third finish",
        "it takes two people, see the signer's tests",
        "--passphrase-file nowhere",
    ),
    not_here(
        "outhaul-signer root third name-key",
        "it takes a key's id, see the signer's tests",
        "zz --name vault --passphrase-file passphrase",
    ),
    not_here(
        "outhaul-signer root third remove-key",
        "it takes a key's id, see the signer's tests",
        "zz --passphrase-file passphrase",
    ),
    case(
        "outhaul-signer rotate",
        "second online --passphrase-file passphrase",
        "nowhere online --passphrase-file passphrase",
    ),
    case(
        "outhaul-signer passphrase",
        "second --passphrase-file passphrase --new-passphrase-file passphrase",
        "nowhere --passphrase-file passphrase --new-passphrase-file passphrase",
    ),
    case("outhaul-signer restored", "second", "nowhere"),
    not_here(
        "outhaul-signer revoke",
        "it takes a stream's role, see the signer's tests",
        "fleet s-nothing --passphrase-file passphrase",
    ),
    not_here(
        "outhaul-signer stream",
        "it takes a stream's role, see `countersigned`",
        "fleet s-nothing --threshold 2 --passphrase-file passphrase",
    ),
    not_here(
        "outhaul-signer verify-metadata",
        "it takes a stream's role, see the signer's tests",
        "fleet/metadata --role s-nothing",
    ),
];
