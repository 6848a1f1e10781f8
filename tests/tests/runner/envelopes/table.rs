//! The table of `--output json`: for each command a line that works, or why none does here, and one that
//! fails. The lines are typed in this order in one folder.

use super::{Case, case, not_here};

/// Every command of every program.
pub(super) const TABLE: &[Case] = &[
    case(
        "outhaul init",
        "other --environments dev",
        "control-plane --environments dev",
    ),
    case(
        "outhaul bundle",
        "--environment dev --control-plane control-plane --fleet fleet --passphrase-file passphrase --out stick",
        "--environment dev --control-plane control-plane --fleet nowhere --passphrase-file passphrase --out x",
    ),
    case(
        "outhaul check",
        "--environment dev --control-plane control-plane",
        "--environment dev --control-plane nowhere",
    ),
    not_here(
        "outhaul demo",
        "it takes a minute; the demo has its own tests",
        "--keep control-plane",
    ),
    case(
        "outhaul diff",
        "dev dev --control-plane control-plane",
        "dev none --control-plane control-plane",
    ),
    case(
        "outhaul explain",
        "--environment dev --control-plane control-plane hello-dev edge",
        "--environment dev --control-plane control-plane nothing edge",
    ),
    case(
        "outhaul import kalypso",
        "--control-plane control-plane --gitops app --environment dev",
        "--control-plane nowhere --gitops app",
    ),
    case("outhaul inspect", "stick/dev-edge-1.outhaul", "nowhere"),
    case(
        "outhaul copy",
        "--fleet fleet --to stick",
        "--fleet fleet --to nowhere",
    ),
    case(
        "outhaul key init",
        "--fleet second --passphrase-file passphrase",
        "--fleet fleet --passphrase-file passphrase",
    ),
    case(
        "outhaul key set-hub",
        "--fleet second --hub-key hub.pub --hub-url http://127.0.0.1:1",
        "--fleet nowhere --hub-key hub.pub --hub-url http://127.0.0.1:1",
    ),
    case("outhaul key status", "--fleet fleet", "--fleet nowhere"),
    case("outhaul completions", "bash", "nothing"),
    case("outhaul project trust", "", "extra"),
    case(
        "outhaul new acknowledgement",
        "old --in on-dev --removal 8637914a6778c55b --reason closed",
        "old --in nowhere --removal 8637914a6778c55b --reason closed",
    ),
    not_here(
        "outhaul new composition-policy",
        "`outhaul init` writes one already",
        "second --in nowhere",
    ),
    not_here(
        "outhaul new promotion-policy",
        "it takes two environments, see the bundler's tests",
        "dev-to-stage --in nowhere --from dev --to stage --min-confirmed-percent 80",
    ),
    case(
        "outhaul new cluster-type",
        "oven --in on-dev --label hall=west",
        "oven --in nowhere",
    ),
    case(
        "outhaul new config",
        "extra --in on-dev --set A=b",
        "extra --in nowhere --set A=b",
    ),
    case(
        "outhaul new environment",
        "stage --in copy",
        "stage --in nowhere",
    ),
    case(
        "outhaul new policy",
        "ovens --in on-dev",
        "ovens --in nowhere",
    ),
    case(
        "outhaul new registration",
        "printer --in copy --workspace shop --repo https://git.example.org/printer",
        "printer --in nowhere --workspace shop --repo https://git.example.org/printer",
    ),
    case(
        "outhaul new site",
        "press-7 --in on-dev --cluster-type edge",
        "press-7 --in nowhere --cluster-type edge",
    ),
    case("outhaul new template", "json --in copy", "json --in x"),
    case(
        "outhaul new workload",
        "printer --in app --environments dev",
        "printer --in nowhere --environments dev",
    ),
    not_here(
        "outhaul blame",
        "it needs a site's reports, see `blame`",
        "edge-1 --control-plane control-plane --faults nowhere",
    ),
    case(
        "outhaul promote",
        "--control-plane control-plane --to dev",
        "--control-plane nowhere --to dev",
    ),
    case(
        "outhaul publish git",
        "--environment dev --control-plane control-plane --to platform.git",
        "--environment dev --control-plane control-plane --to nowhere.git",
    ),
    case(
        "outhaul publish web",
        "--fleet fleet --to www",
        "--fleet nowhere --to www",
    ),
    not_here(
        "outhaul publish s3",
        "it takes a server, see `published`",
        "--fleet nowhere --to http://127.0.0.1:1/bundles",
    ),
    not_here(
        "outhaul publish oci",
        "it takes a registry, see `published`",
        "--fleet nowhere --to 127.0.0.1:1/bundles",
    ),
    case(
        "outhaul render",
        "--environment dev --control-plane control-plane --out rendered",
        "--environment dev --control-plane nowhere --out x",
    ),
    case(
        "outhaul schedule",
        "--environment dev --control-plane control-plane",
        "--environment dev --control-plane nowhere",
    ),
    case("outhaul schema", "DeliveryPolicy", "Nothing"),
    case("outhaul secret keygen", "--out dev.age", "--out passphrase"),
    Case {
        command: "outhaul secret seal",
        works: Ok(
            "--fleet fleet --environment dev --workload hello --key PASSWORD --recipient \
                   dev=age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p",
        ),
        input: "a password",
        fails: "--fleet fleet --environment dev --workload hello --key PASSWORD --recipient dev=nothing",
    },
    case(
        "outhaul serve",
        "--config serve.toml --once",
        "--config nowhere",
    ),
    case(
        "outhaul site enrol",
        "edge-2 --fleet fleet --environment dev --cluster-type edge --control-plane control-plane --out two.kit",
        "edge-2 --fleet nowhere --environment dev --cluster-type edge --out two.kit",
    ),
    not_here(
        "outhaul site kit",
        "a package is made first, see `first_stick`",
        "edge-2 --fleet nowhere --environment dev --cluster-type edge --package a_1_all.deb --stick .",
    ),
    not_here(
        "outhaul site approve",
        "a fingerprint is asked for, see `story`",
        "nowhere --fleet fleet",
    ),
    case("outhaul site list", "--fleet fleet", "--fleet nowhere"),
    not_here(
        "outhaul site move",
        "a site is approved first, see `story`",
        "nobody --to dev/edge --fleet fleet",
    ),
    not_here(
        "outhaul site rekey",
        "a site is approved first, see `story`",
        "nobody --fleet fleet",
    ),
    not_here(
        "outhaul site revoke",
        "a site is approved first, see `story`",
        "nobody --fleet fleet",
    ),
    not_here(
        "outhaul site close-orders",
        "a site is approved first, see `story`",
        "nowhere --fleet fleet",
    ),
    case(
        "outhaul slip",
        "--fleet fleet --passphrase-file passphrase --environment dev --cluster-type edge --out edge.slip",
        "--fleet nowhere --passphrase-file passphrase --environment dev --cluster-type edge --out x.slip",
    ),
    case(
        "outhaul verify",
        "stick/dev-edge-1.outhaul --fleet fleet",
        "passphrase --fleet fleet",
    ),
    case(
        "outhaul-agent enrol",
        "two.kit --state sites/edge-2",
        "passphrase --state sites/edge-9",
    ),
    case(
        "outhaul-agent plan",
        "stick --state sites/edge-1",
        "nowhere --state sites/edge-1",
    ),
    case(
        "outhaul-agent import",
        "stick --state sites/edge-1",
        "nowhere --state sites/edge-1",
    ),
    case(
        "outhaul-agent status",
        "--state sites/edge-1",
        "--state nowhere",
    ),
    case(
        "outhaul-agent apply",
        "--state sites/edge-1",
        "--state sites/edge-2",
    ),
    case(
        "outhaul-agent approve",
        "1 --state sites/edge-1",
        "9 --state sites/edge-1",
    ),
    case(
        "outhaul-agent hold",
        "--why harvest --state sites/edge-1",
        "--state nowhere",
    ),
    case(
        "outhaul-agent values",
        "--state sites/edge-1",
        "--state nowhere",
    ),
    not_here(
        "outhaul-agent set",
        "its bundle opens no value, see the agent's tests",
        "A=b --state nowhere",
    ),
    not_here(
        "outhaul-agent unset",
        "its bundle opens no value, see the agent's tests",
        "A --state nowhere",
    ),
    case(
        "outhaul-agent backup",
        "--to site.backup --state sites/edge-1",
        "--to site.backup --state nowhere",
    ),
    case(
        "outhaul-agent restore",
        "site.backup --state sites/edge-8",
        "nowhere.backup --state sites/edge-9",
    ),
    not_here(
        "outhaul-agent observe",
        "it takes a cluster, see `observing`",
        "--state sites/edge-1",
    ),
    not_here(
        "outhaul-agent rollback",
        "it takes two bundles, see `reported`",
        "--state sites/edge-1",
    ),
    case(
        "outhaul-agent export",
        "stick --state sites/edge-1",
        "nowhere --state sites/edge-1",
    ),
    not_here(
        "outhaul-agent send",
        "no hub serves here, see `loops`",
        "--state sites/edge-1",
    ),
    not_here(
        "outhaul-agent run",
        "a round prints nothing of its own",
        "--once --state nowhere",
    ),
    not_here(
        "outhaul-agent apply-helper answer",
        "it answers on the agent's connection, see the agent's tests",
        "--folder nowhere --state sites/edge-1",
    ),
    not_here(
        "outhaul-agent apply-helper init",
        "it is for root and a second user, see the agent's tests",
        "--folder helper --state nowhere",
    ),
    case("outhaul-hub completions", "bash", "nothing"),
    case(
        "outhaul-hub init",
        "--root fleet/metadata/1.root.json --state hub2 --plain-key test",
        "--root nowhere --state hub3",
    ),
    case(
        "outhaul-hub import",
        "stick --state hub",
        "stick --state nowhere",
    ),
    case(
        "outhaul-hub acks",
        "stick --state hub",
        "stick --state nowhere",
    ),
    case(
        "outhaul-hub caller add",
        "ci --state hub",
        "ci --state nowhere",
    ),
    case(
        "outhaul-hub backup",
        "--to hub.backup --state hub",
        "--to hub.backup --state nowhere",
    ),
    case(
        "outhaul-hub restore",
        "hub.backup --state hub5",
        "nowhere.backup --state hub6",
    ),
    not_here(
        "outhaul-hub choose",
        "it takes two machines with one key, see `conflicts.rs`",
        "edge-1 --digest 00000000 --reason both --by ann --state hub",
    ),
    case(
        "outhaul-hub advisories import",
        "advisory.json --by ann --state hub",
        "alerts.yaml --by ann --state hub",
    ),
    case(
        "outhaul-hub advisories list",
        "--state hub",
        "--state nowhere",
    ),
    case(
        "outhaul-hub advisories show",
        "DSA-1 --state hub",
        "DSA-2 --state hub",
    ),
    case(
        "outhaul-hub advisories remove",
        "DSA-1 --by ann --state hub",
        "DSA-1 --by ann --state hub",
    ),
    case("outhaul-hub alerts list", "--state hub", "--state nowhere"),
    not_here(
        "outhaul-hub alerts retry",
        "it takes an alert that was not sent, see the hub's tests",
        "on-call --state hub",
    ),
    case(
        "outhaul-hub alerts test",
        "alerts.yaml --dry-run --state hub",
        "nowhere.yaml --state hub",
    ),
    case("outhaul-hub caller list", "--state hub", "--state nowhere"),
    case(
        "outhaul-hub caller remove",
        "ci --state hub",
        "ci --state hub",
    ),
    case(
        "outhaul-hub gate",
        "--environment dev --commit 0000000000000000000000000000000000000000 --state hub",
        "--environment dev --commit 0000000000000000000000000000000000000000 --state nowhere",
    ),
    case(
        "outhaul-hub audit export",
        "gates.audit --state hub",
        "gates.audit --state nowhere",
    ),
    case("outhaul-hub decisions", "--state hub", "9 --state hub"),
    case(
        "outhaul-hub check",
        "--environment dev --commit 0000000000000000000000000000000000000000 --name smoke --outcome passed --by ann --state hub",
        "--environment dev --commit 0000000000000000000000000000000000000000 --name smoke --outcome passed --by ann --state nowhere",
    ),
    case("outhaul-hub approvals", "--state hub", "--state nowhere"),
    case(
        "outhaul-hub approve",
        "--environment dev --commit 0000000000000000000000000000000000000000 --reason ok --by ann --state hub",
        "--environment dev --commit 0000000000000000000000000000000000000000 --reason ok --by ann --state nowhere",
    ),
    case(
        "outhaul-hub hold",
        "--environment dev --reason smoke --by ann --state hub",
        "--environment dev --reason smoke --by ann --state nowhere",
    ),
    case(
        "outhaul-hub token create",
        "ann --scope read --state hub",
        "ann --scope read --state nowhere",
    ),
    case("outhaul-hub person list", "--state hub", "--state nowhere"),
    not_here(
        "outhaul-hub person end",
        "it takes an identity provider",
        "oidc:nobody --state hub",
    ),
    not_here(
        "outhaul-hub person forget",
        "it takes an identity provider",
        "oidc:nobody --state hub",
    ),
    case("outhaul-hub token list", "--state hub", "--state nowhere"),
    case(
        "outhaul-hub token revoke",
        "ann --state hub",
        "ann --state hub",
    ),
    case("outhaul-hub audit access", "--state hub", "--state nowhere"),
    case(
        "outhaul-hub defer",
        "--site edge-1 --until 14d --reason sea --by ann --state hub",
        "--site nobody --until 14d --reason sea --by ann --state hub",
    ),
    case(
        "outhaul-hub withdraw",
        "1 --reason back --by ann --state hub",
        "99 --reason back --by ann --state hub",
    ),
    case(
        "outhaul-hub waive",
        "--site edge-1 --until 14d --reason dock --by ann --state hub",
        "--site nobody --until 14d --reason dock --by ann --state hub",
    ),
    not_here(
        "outhaul-hub site add",
        "a fingerprint is asked for, see `scene`",
        "nobody --state hub",
    ),
    case(
        "outhaul-hub site expect",
        "edge-5 --kit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 --state hub",
        "edge-5 --kit 12 --state hub",
    ),
    case("outhaul-hub site list", "--state hub", "--state nowhere"),
    case(
        "outhaul-hub site reject",
        "--network --state hub",
        "nobody --fingerprint 8eb0f2a93a0b77c1 --state hub",
    ),
    case(
        "outhaul-hub site requests",
        "--state hub",
        "--state nowhere",
    ),
    case(
        "outhaul-hub site webhook",
        "store-7 --sender flux --environment dev --cluster-type edge --repository https://git.example.org/platform --record https://git.example.org/{commit} --object Kustomization/flux-system/platform=edge --state hub",
        "store-8 --sender flux --environment dev --cluster-type none --repository https://git.example.org/platform --record https://git.example.org/{commit} --object Kustomization/flux-system/platform=edge --state hub",
    ),
    case(
        "outhaul-hub site revoke",
        "edge-1 --state hub",
        "nobody --state hub",
    ),
    case(
        "outhaul-hub faults",
        "edge-1 --state hub",
        "nobody --state hub",
    ),
    case("outhaul-hub carry", "--state hub", "--state nowhere"),
    case(
        "outhaul-hub prune",
        "--older-than 9d --dry-run --state hub",
        "extra",
    ),
    case("outhaul-hub compact", "--state hub", "--state nowhere"),
    case("outhaul-hub sites", "--state hub", "--state nowhere"),
    case("outhaul-hub key", "--state hub", "--state nowhere"),
    not_here(
        "outhaul-hub serve",
        "it serves until it is ended, see `loops`",
        "--listen 127.0.0.1:0 --state nowhere",
    ),
    case("outhaul-signer completions", "bash", "nothing"),
];
