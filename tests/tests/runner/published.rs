//! Bundles published to a web folder, S3-compatible storage and an OCI registry: what must come out is what was signed, once,
//! and what breaks off goes on.
//!
//! What comes in: the real programs, a server of static files, versitygw, Debian's registry, skopeo. Between a program and
//! its server may stand a relay that lets go of connections. What must come out: the same bytes, and refusals by name.
#![expect(
    clippy::single_element_loop,
    clippy::cast_possible_wrap,
    clippy::large_stack_arrays,
    reason = "sizes of a test"
)]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use outhaul_test_kit::folder::paths;
use outhaul_tests::{available_or_skip, program, run_expecting};

use super::since;
use super::system::SystemFixture;
use outhaul_tests::ports::free_port;

const MIB: usize = 1024 * 1024;

/// A server of someone else; it ends with its value.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(command: &mut Command, port: u16) -> Self {
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = quiet.spawn().unwrap();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::yield_now();
        }
        Self { child, port }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets bytes through to a server until `left` of those to it are used up; then it ends the connection.
fn relay(to: u16) -> (u16, Arc<AtomicI64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let left = Arc::new(AtomicI64::new(i64::MAX));
    let shared = Arc::clone(&left);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut server = TcpStream::connect(("127.0.0.1", to)).unwrap();
            let (mut back_from, mut back_to) =
                (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut back_from, &mut back_to);
                let _ = back_to.shutdown(std::net::Shutdown::Write);
            });
            let left = Arc::clone(&shared);
            std::thread::spawn(move || {
                let mut buffer = [0; 65536];
                while let Ok(count) = client.read(&mut buffer) {
                    let after = left.fetch_sub(i64::try_from(count).unwrap(), Ordering::SeqCst);
                    if count == 0 || after < 0 || server.write_all(&buffer[..count]).is_err() {
                        break;
                    }
                }
                let both = std::net::Shutdown::Both;
                let _ = (server.shutdown(both), client.shutdown(both));
            });
        }
    });
    (port, left)
}

fn publish(fixture: &SystemFixture, code: i32, arguments: &[&str], secret: &str) -> String {
    let mut command = fixture.command(&program("outhaul").unwrap());
    command
        .env("AWS_ACCESS_KEY_ID", "outhaul")
        .env("AWS_SECRET_ACCESS_KEY", secret)
        .args(["publish", arguments[0], "--fleet", "fleet", "--to"])
        .args(&arguments[1..]);
    let ran = run_expecting(&mut command, code).unwrap();
    ran.everything()
}

/// What lies below a folder, by path.
fn content(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let read = |path: &PathBuf| {
        let name = path.strip_prefix(folder).unwrap().to_owned();
        (name, fs::read(path).unwrap())
    };
    paths(folder).iter().map(read).collect()
}

#[test]
fn a_site_pulls_from_the_folder_of_a_server_of_static_files() {
    if !available_or_skip("python3") {
        return;
    }
    let fixture = since::fixture(300_000);
    fixture.site("bench-1", "dev", "bench");
    let nowhere = publish(&fixture, 3, &["web", "www"], "");
    assert!(nowhere.contains("www"), "{nowhere}");
    fs::create_dir(fixture.path("www")).unwrap();
    let first = publish(&fixture, 0, &["web", "www"], "");
    assert!(first.contains("number 1 is published"), "{first}");
    let again = publish(&fixture, 0, &["web", "www"], "");
    assert!(again.contains("nothing sent, all "), "{again}");
    let port = free_port().unwrap();
    let mut python = Command::new("python3");
    python.args(["-m", "http.server", "--bind", "127.0.0.1", "--directory"]);
    let _server = Server::start(python.arg(fixture.path("www")).arg(port.to_string()), port);
    let config = format!("[repository]\nurl = \"http://127.0.0.1:{port}\"\n");
    fs::write(fixture.path("sites/bench-1/agent.toml"), config).unwrap();
    // Its hub does not answer: that is what it says.
    fixture.agent("bench-1", 3, &["run", "--once"]);
    let applied = fixture.path("sites/bench-1/applied");
    let model = paths(&applied);
    let is_model = |path: &&PathBuf| path.ends_with("model.gz");
    let model = model.iter().find(is_model).unwrap();
    assert_eq!(
        fs::read(model).unwrap(),
        fs::read(fixture.path("files/app/model.gz")).unwrap()
    );
    // A copy of the fleet's folder that was made before knows less than what is published.
    since::change(&fixture);
    let old = fixture.path("old");
    fs::rename(fixture.path("www"), &old).unwrap();
    fs::create_dir(fixture.path("www")).unwrap();
    publish(&fixture, 0, &["web", "www"], "");
    let newer = content(&fixture.path("www"));
    for name in ["timestamp.json"] {
        let (there, here) = (
            old.join("metadata").join(name),
            fixture.path("fleet/metadata").join(name),
        );
        fs::copy(there, here).unwrap();
    }
    let refused = publish(&fixture, 3, &["web", "www"], "");
    assert!(
        refused.contains("nothing was sent") || refused.contains("keeps no copy"),
        "{refused}"
    );
    assert!(content(&fixture.path("www")) == newer, "it changed");
}

#[test]
fn an_upload_to_s3_goes_on_where_it_broke_off_and_a_second_one_sends_nothing() {
    let Some(versitygw) = std::env::var_os("OUTHAUL_S3").map(PathBuf::from) else {
        outhaul_tests::skipped("versitygw is not here: set OUTHAUL_S3 (`.ci/programs/build s3`)");
        return;
    };
    let fixture = since::fixture(70 * MIB);
    fs::create_dir_all(fixture.path("s3/bundles")).unwrap();
    let port = free_port().unwrap();
    let mut gateway = Command::new(versitygw);
    gateway
        .env("ROOT_ACCESS_KEY", "outhaul")
        .env("ROOT_SECRET_KEY", "a secret of tests")
        .args(["--port", &format!("127.0.0.1:{port}"), "posix"]);
    let server = Server::start(gateway.arg(fixture.path("s3")), port);
    let (relayed, left) = relay(server.port);
    let url = format!("http://127.0.0.1:{relayed}/bundles/fleet");
    let secret = "a secret of tests";
    let s3 = |code, more: &[&str]| {
        publish(
            &fixture,
            code,
            &[&["s3", url.as_str()][..], more].concat(),
            secret,
        )
    };
    let wrong = publish(&fixture, 3, &["s3", &url], "another secret");
    assert!(
        wrong.contains("403 Forbidden: SignatureDoesNotMatch"),
        "{wrong}"
    );
    let missing = format!("http://127.0.0.1:{relayed}/nothing");
    let missing = publish(&fixture, 3, &["s3", &missing], secret);
    assert!(missing.contains("NoSuchBucket"), "{missing}");
    // The first of three parts arrives, the second breaks off.
    left.store(50 * MIB as i64, Ordering::SeqCst);
    let broken = s3(3, &[]);
    assert!(broken.contains("continues from there"), "{broken}");
    let there = fixture.path("s3/bundles/fleet");
    assert!(!there.join("metadata/timestamp.json").exists());
    left.store(i64::MAX, Ordering::SeqCst);
    let done = s3(0, &[]);
    assert!(done.contains("number 1 is published"), "{done}");
    let sent = i64::MAX - left.load(Ordering::SeqCst);
    assert!(
        sent < 45 * MIB as i64,
        "{sent} bytes were sent after 32 MiB were there"
    );
    assert!(!fixture.path("fleet/uploads.json").exists());
    // The same as in a folder, byte for byte.
    fs::create_dir(fixture.path("www")).unwrap();
    publish(&fixture, 0, &["web", "www"], "");
    assert!(
        content(&there) == content(&fixture.path("www")),
        "not the same"
    );
    let again = s3(0, &["--read-back"]);
    assert!(again.contains("nothing sent, all "), "{again}");
    // What someone changed there is seen when it is read back, and put right.
    let blob = paths(&there.join("blobs"));
    let largest = |path: &&PathBuf| fs::metadata(path).unwrap().len();
    let blob = blob.iter().max_by_key(largest).unwrap();
    let mut bytes = fs::read(blob).unwrap();
    bytes[1] ^= 1;
    fs::write(blob, bytes).unwrap();
    let mended = s3(0, &["--read-back"]);
    assert!(mended.contains("1 file sent"), "{mended}");
    assert!(
        content(&there) == content(&fixture.path("www")),
        "not the same"
    );
}

#[test]
fn a_registry_gives_back_the_members_of_the_bundle() {
    if !available_or_skip("docker-registry") || !available_or_skip("skopeo") {
        return;
    }
    let fixture = since::fixture(300_000);
    let port = free_port().unwrap();
    let registry = format!(
        "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: 127.0.0.1:{port}}}\n",
        fixture.path("registry").display()
    );
    fs::write(fixture.path("registry.yml"), registry).unwrap();
    let mut command = Command::new("docker-registry");
    let server = Server::start(command.arg("serve").arg(fixture.path("registry.yml")), port);
    let name = format!("127.0.0.1:{}/outhaul/bundles", server.port);
    let tagged = publish(&fixture, 2, &["oci", &format!("{name}:latest")], "");
    assert!(tagged.contains("name the repository alone"), "{tagged}");
    let first = publish(&fixture, 0, &["oci", &name], "");
    assert!(first.contains(":dev-bench-1@sha256:"), "{first}");
    let again = publish(&fixture, 0, &["oci", &name, "--read-back"], "");
    assert!(again.contains("nothing sent"), "{again}");
    let mut skopeo = fixture.command(Path::new("skopeo"));
    skopeo.args(["copy", "--quiet", "--src-tls-verify=false"]);
    skopeo
        .arg(format!("docker://{name}:dev-bench"))
        .arg("dir:pulled");
    run_expecting(&mut skopeo, 0).unwrap();
    let manifest = fs::read(fixture.path("pulled/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(
        manifest["artifactType"],
        "application/vnd.outhaul.bundle.v1"
    );
    // Put together again in the order of the layers it is the bundle, but for the tar's headers.
    let mut members =
        tar::Archive::new(fs::File::open(fixture.path("out/dev-bench-1.outhaul")).unwrap());
    let mut layers = manifest["layers"].as_array().unwrap().iter();
    for member in members.entries().unwrap() {
        let mut bytes = Vec::new();
        member.unwrap().read_to_end(&mut bytes).unwrap();
        let layer = layers.next().unwrap()["digest"].as_str().unwrap();
        let layer = fixture
            .path("pulled")
            .join(layer.trim_start_matches("sha256:"));
        assert!(fs::read(layer).unwrap() == bytes, "another layer");
    }
    assert!(layers.next().is_none());
}
