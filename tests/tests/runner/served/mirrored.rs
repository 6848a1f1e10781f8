//! Images from a real registry (distribution's `registry`): of a mirror, with a login, under a private authority.
//!
//! What comes in: a workload whose image names a registry that cannot be reached, and its mirror at an address of this machine, which wants
//! a password and has a certificate of a private authority. What must come out: the image under its own name, pinned to its digest; without
//! the password or the authority a refusal that names both places; nothing of the password in a message.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use outhaul_tests::{Ran, available_or_skip, program, run_expecting, run_script, skipped};

use super::{crane_or_skip, with_image};
use crate::cluster::follow_the_example;
use crate::system::{KEYS, SystemFixture};

/// `secret`, as distribution's registry keeps it.
const HTPASSWD: &str = "ann:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";
/// `ann:secret`
const BASIC: &str = "YW5uOnNlY3JldA==";

/// A server; it ends with its value.
struct Server(Child);

impl Server {
    fn start(command: &mut Command, address: &str) -> Self {
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Self(quiet.spawn().unwrap());
        while std::net::TcpStream::connect(address).is_err() {
            let ended = server.0.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "{command:?} ended before it answered at {address}: {ended:?}"
            );
            std::thread::yield_now();
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An address of this machine that is not loopback: there TLS is spoken.
fn own_address_or_skip() -> Option<String> {
    let said = Command::new("hostname").arg("-I").output().ok();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    let found = said.and_then(|said| said.split_whitespace().next().map(str::to_owned));
    let found = found.filter(|address| address.parse::<std::net::Ipv4Addr>().is_ok());
    if found.is_none() {
        skipped("this machine has no address but loopback (`hostname -I`)");
    }
    found
}

fn script(fixture: &SystemFixture, script: &str, variables: &[(&str, &str)]) -> String {
    let mut shell = fixture.command(Path::new("bash"));
    shell.args(["-euc", script]);
    for (name, value) in variables {
        shell.env(name, value);
    }
    let ran = run_script(&mut shell).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
    ran.stdout.trim().to_owned()
}

/// A registry with `auth` at `address`, and TLS where a certificate is there.
fn registry(fixture: &SystemFixture, address: &str, auth: &str, tls: &str) -> Server {
    let name = format!("registry-{}.yml", address.replace(':', "-"));
    let text = format!(
        "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: \"{address}\"{tls}}}\n{auth}",
        fixture.path("registry").display()
    );
    fs::write(fixture.path(&name), text).unwrap();
    let mut command = Command::new("docker-registry");
    Server::start(command.arg("serve").arg(fixture.path(&name)), address)
}

/// `outhaul bundle` with a file of `docker login` that knows `host`, if any.
fn bundle(fixture: &SystemFixture, host: Option<&str>, code: i32, more: &[&str]) -> Ran {
    let auths = host.map(|host| format!("\"{host}\": {{\"auth\": \"{BASIC}\"}}"));
    let text = format!("{{\"auths\": {{{}}}}}\n", auths.unwrap_or_default());
    fs::create_dir_all(fixture.path("docker")).unwrap();
    fs::write(fixture.path("docker/config.json"), text).unwrap();
    let at = [
        "bundle",
        "--environment",
        "dev",
        "--control-plane",
        "control-plane",
    ];
    let sources: Vec<&str> = fixture
        .sources
        .iter()
        .flat_map(|s| ["--source", s])
        .collect();
    let mut command = fixture.command(&program("outhaul").unwrap());
    command
        .args([&at[..], &sources, &KEYS, &["--out", "stick"], more].concat())
        .env("DOCKER_CONFIG", fixture.path("docker"));
    let ran = run_expecting(&mut command, code).unwrap();
    assert!(!ran.everything().contains(BASIC), "{}", ran.everything());
    ran
}

#[test]
fn an_image_comes_from_a_mirror_with_a_login_and_a_private_authority_under_its_own_name() {
    if !available_or_skip("docker-registry") || !available_or_skip("openssl") {
        return;
    }
    let Some(crane) = crane_or_skip() else { return };
    let Some(own) = own_address_or_skip() else {
        return;
    };
    let mut fixture = SystemFixture::new();
    follow_the_example(&mut fixture);
    let port = outhaul_tests::ports::free_port().unwrap();
    let address = format!("{own}:{port}");
    let made = r#"
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=registry -keyout tls.key -out tls.csr
        printf 'subjectAltName=IP:%s\n' "$OWN" >tls.ext
        openssl x509 -req -in tls.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile tls.ext -out tls.pem
    "#;
    script(&fixture, made, &[("OWN", &own)]);
    fs::write(fixture.path("htpasswd"), HTPASSWD).unwrap();
    let at = |name: &str| fixture.path(name).display().to_string();
    let auth = format!(
        "auth: {{htpasswd: {{realm: test, path: {}}}}}\n",
        at("htpasswd")
    );
    let tls = format!(
        ", tls: {{certificate: {}, key: {}}}",
        at("tls.pem"),
        at("tls.key")
    );
    let _server = registry(&fixture, &address, &auth, &tls);
    let push = r#"
        mkdir -p rootfs crane && echo report >rootfs/report && head -c 300000 /dev/urandom >rootfs/noise
        tar --sort=name --owner=0 --group=0 --mtime=@0 -czf layer.tar.gz -C rootfs .
        export DOCKER_CONFIG=$PWD/crane SSL_CERT_FILE=$PWD/ca.pem
        "$CRANE" auth login "$AT" -u ann -p secret >&2
        "$CRANE" append --oci-empty-base -f layer.tar.gz -t "$AT/far/team/stock-report:1.4.0" >&2
        "$CRANE" digest "$AT/far/team/stock-report:1.4.0"
    "#;
    let crane = crane.display().to_string();
    let digest = script(&fixture, push, &[("CRANE", &crane), ("AT", &address)]);
    // A name that no resolver has: only the mirror can have the image.
    let name = "far.invalid/team/stock-report:1.4.0";
    with_image(&fixture, name);
    let mirror = format!("far.invalid={address}/far");
    let authority = format!("{address}=ca.pem");
    let mirrored = ["--registry-mirror", &mirror, "--registry-ca", &authority];

    let wrong = bundle(&fixture, None, 2, &["--registry-mirror", "far.invalid"]);
    assert!(
        wrong.stderr.contains("is not a mirror"),
        "{}",
        wrong.everything()
    );
    let none = bundle(&fixture, Some(&address), 3, &[]);
    assert!(
        none.stderr.contains("cannot reach `far.invalid`"),
        "{}",
        none.everything()
    );
    let no_login = bundle(&fixture, None, 3, &mirrored);
    for words in [
        "cannot reach `far.invalid`",
        "its mirrors were asked before: ",
        &format!(
            "`{address}` does not serve `far/team/stock-report:1.4.0`: no credentials for it are here"
        ),
    ] {
        assert!(
            no_login.stderr.contains(words),
            "{words}: {}",
            no_login.everything()
        );
    }
    let no_authority = bundle(&fixture, Some(&address), 3, &mirrored[..2]);
    let unknown = format!("its mirrors were asked before: cannot reach `{address}`");
    assert!(
        no_authority.stderr.contains(&unknown),
        "{}",
        no_authority.everything()
    );
    assert!(!fixture.path("stick/dev-store-1.outhaul").exists());

    bundle(&fixture, Some(&address), 0, &mirrored);
    let shown = fixture.run("outhaul", 0, &["inspect", "stick/dev-store-1.outhaul"]);
    let line = format!("  image       {name} (");
    assert!(shown.stdout.contains(&line), "{}", shown.stdout);
    assert!(!shown.stdout.contains(&address), "{}", shown.stdout);
    let lock = fs::read_to_string(fixture.path("fleet/outhaul.lock")).unwrap();
    assert!(
        lock.contains(&format!("\"{name}\": \"{digest}\"")),
        "{lock}"
    );

    // The same from the settings of a folder; and a tag that moved at the mirror stays what it was.
    script(&fixture, push, &[("CRANE", &crane), ("AT", &address)]);
    let set = format!("registry_mirrors = [\"{mirror}\"]\nregistry_cas = [\"{authority}\"]\n");
    fs::write(fixture.path("outhaul.toml"), set).unwrap();
    fixture.run("outhaul", 0, &["project", "trust"]);
    let again = bundle(&fixture, Some(&address), 0, &[]);
    assert!(again.stderr.contains("unchanged"), "{}", again.everything());
    let moved = bundle(&fixture, Some(&address), 0, &["--update"]);
    let says = format!("updated: {name} from {digest} to sha256:");
    assert!(moved.stderr.contains(&says), "{}", moved.everything());
}
