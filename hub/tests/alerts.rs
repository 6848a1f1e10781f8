//! Alerts, to a real web server and a real mail server: what is announced, when it is not taken, and when the hub is killed.
//!
//! What comes in: a hub whose sites report, and Python's servers as receivers. What goes out: what these got, and what the hub
//! lists.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outhaul_bundle::report::ComplianceStatus as C;
use outhaul_tests::{available_or_skip, skipped};
use serde_json::Value;

use crate::gate_rules::{approve, report, world};
use crate::program::{Hub, code, stderr};

/// How long a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A web server that writes each request into a line of its own, and answers with the code in a file.
const WEB: &str = r"
import http.server, json, os, sys
folder = sys.argv[1]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        answer = int(open(os.path.join(folder, 'answer')).read())
        with open(os.path.join(folder, 'got'), 'a') as got:
            got.write(json.dumps({'signature': self.headers.get('Outhaul-Signature'), 'answer': answer,
                                  'body': json.loads(body), 'raw': body.hex()}) + '\n')
        self.send_response(answer)
        if answer == 307: self.send_header('Location', 'http://127.0.0.1:9/')
        self.end_headers()
        self.wfile.write(b'so it is')
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[2])), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
";

/// A mail server with STARTTLS and a login, which writes each mail into a line of its own.
const MAIL: &str = r"
import json, ssl, sys, time
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
folder = sys.argv[1]
class Handler:
    async def handle_DATA(self, server, session, envelope):
        with open(folder + '/got', 'a') as got:
            got.write(json.dumps({'from': envelope.mail_from, 'to': envelope.rcpt_tos,
                                  'text': envelope.content.decode()}) + '\n')
        return '250 taken'
def login(server, session, envelope, mechanism, data):
    good = isinstance(data, LoginPassword) and data.login == b'hub' and data.password == b'open sesame'
    return AuthResult(success=good)
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(folder + '/server.pem', folder + '/server.key')
import socket
free = socket.create_server(('127.0.0.1', 0))
port = free.getsockname()[1]
free.close()
controller = Controller(Handler(), hostname='127.0.0.1', port=port, tls_context=context, require_starttls=True,
                        authenticator=login, auth_required=True, timeout=3)
controller.start()
print(port, flush=True)
time.sleep(3600)
";

/// A server in Python; ended when dropped.
struct Python {
    child: Child,
    port: u16,
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn python(program: &str, folder: &Path, port: u16) -> Python {
    let mut child = Command::new("python3")
        .args(["-c", program])
        .arg(folder)
        .arg(port.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let port = line.trim().parse().unwrap();
    Python { child, port }
}

/// What a receiver got, each with what it is about: `subject: status`.
fn got(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("got")).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn about(message: &Value) -> Vec<String> {
    let alerts = message["body"]["alerts"].as_array().unwrap();
    let one = |alert: &Value| {
        let text = |key: &str| alert[key].as_str().unwrap().to_owned();
        format!("{} {}: {}", text("kind"), text("subject"), text("status"))
    };
    alerts.iter().map(one).collect()
}

/// Waits until what `look` sees is there.
#[track_caller]
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < until, "not seen: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn configure(hub: &Hub, destinations: &str) -> String {
    let path = hub.path("alerts.yaml");
    let text = format!("lookSeconds: 1\nhub: https://hub.example\ndestinations:\n{destinations}");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_site_that_fails_is_announced_signed_once_and_again_when_it_is_well() {
    if !available_or_skip("python3") {
        return;
    }
    let (hub, centre, mut sites) = world(&["press-1", "press-2"]);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("answer"), "200").unwrap();
    let web = python(WEB, folder.path(), 0);
    hub.secret("secret", "a secret\n");
    let file = configure(
        &hub,
        &format!(
            "- name: on-call\n  everySeconds: 1\n  kinds: [site, act]\n  webhook: {{url: 'http://127.0.0.1:{}/hook?team=a', secretFile: {}}}\n",
            web.port,
            hub.path("secret").display()
        ),
    );
    let tested = hub.json(&["alerts", "test", &file]);
    assert_eq!(tested["destinations"][0]["result"], "sent");
    report(&hub, &centre, &mut sites[0], C::Failed);
    report(&hub, &centre, &mut sites[1], C::Compliant);
    let server = hub.serve(&["--alerts", &file]);
    let messages = |count: usize| {
        wait_for("messages", || {
            let got = got(folder.path());
            (got.len() >= count).then_some(got)
        })
    };
    let first = &messages(2)[1];
    assert_eq!(about(first), ["site press-1: failed"]);
    assert_eq!(first["body"]["format"], "outhaul.dev/alert/v1");
    assert_eq!(first["body"]["alerts"][0]["severity"], "bad");
    // As another program would verify it.
    let made = Command::new("python3")
        .args([
            "-c",
            "import hashlib, hmac, sys; print(hmac.new(b'a secret', bytes.fromhex(sys.argv[1]), hashlib.sha256).hexdigest())",
            first["raw"].as_str().unwrap(),
        ])
        .output()
        .unwrap();
    let digest = String::from_utf8(made.stdout).unwrap();
    assert_eq!(first["signature"], format!("sha256={}", digest.trim()));

    report(&hub, &centre, &mut sites[0], C::Compliant);
    approve(&hub, "ana");
    let all = wait_for("what came after", || {
        let all: Vec<String> = got(folder.path()).iter().skip(2).flat_map(about).collect();
        (all.len() >= 2).then_some(all)
    });
    assert!(all.contains(&"site press-1: ok".to_owned()), "{all:?}");
    assert!(all.contains(&"act dev: approve".to_owned()), "{all:?}");
    drop(server);
    let listed = hub.run(&["alerts", "list"]);
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(
        text.contains("press-1") && text.contains("on-call sent"),
        "{text}"
    );
}

#[test]
fn what_is_not_taken_waits_through_a_killed_hub_and_a_redirect_is_not_followed() {
    if !available_or_skip("python3") {
        return;
    }
    let (hub, centre, mut sites) = world(&["press-1"]);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("answer"), "307").unwrap();
    let web = python(WEB, folder.path(), 0);
    let file = configure(
        &hub,
        &format!(
            "- name: on-call\n  everySeconds: 1\n  webhook: {{url: 'http://127.0.0.1:{}/'}}\n",
            web.port
        ),
    );
    let refused = hub.run(&["alerts", "test", &file, "--to", "nobody"]);
    assert_eq!(code(&refused), 2);
    assert!(
        stderr(&refused).contains("it names on-call"),
        "{}",
        stderr(&refused)
    );
    report(&hub, &centre, &mut sites[0], C::Failed);
    let server = hub.serve(&["--alerts", &file]);
    wait_for("a try", || (!got(folder.path()).is_empty()).then_some(()));
    let problem = || {
        let listed = hub.json(&["alerts", "list"]);
        let delivery = listed["alerts"][0]["deliveries"][0].clone();
        (delivery["attempts"] == 1).then_some(delivery)
    };
    let delivery = wait_for("what came of it", problem);
    assert_eq!(delivery["state"], "waiting");
    let said = delivery["problem"].as_str().unwrap();
    assert!(said.contains("307") && said.contains("so it is"), "{said}");
    drop(server);
    fs::write(folder.path().join("answer"), "200").unwrap();
    let unknown = hub.run(&["alerts", "retry", "onn-call"]);
    assert_eq!(code(&unknown), 1);
    assert!(
        stderr(&unknown).contains("there are alerts for on-call"),
        "{}",
        stderr(&unknown)
    );
    let again = hub.json(&["alerts", "retry", "on-call"]);
    assert_eq!(again["waiting"], 1);
    let server = hub.serve(&["--alerts", &file]);
    let taken = wait_for("the message", || {
        got(folder.path())
            .into_iter()
            .find(|message| message["answer"] == 200)
    });
    assert_eq!(about(&taken), ["site press-1: failed"]);
    assert_eq!(taken["body"]["id"], got(folder.path())[0]["body"]["id"]);
    wait_for("that it is sent", || {
        let listed = hub.json(&["alerts", "list"]);
        (listed["alerts"][0]["deliveries"][0]["state"] == "sent").then_some(())
    });
    drop(server);
}

#[test]
fn mail_goes_over_starttls_with_a_login_and_to_no_server_of_another_authority() {
    if !available_or_skip("python3") || !available_or_skip("openssl") {
        return;
    }
    let has = Command::new("python3")
        .args(["-c", "import aiosmtpd"])
        .output()
        .unwrap();
    if !has.status.success() {
        return skipped("Python has no aiosmtpd (`pip install aiosmtpd`)");
    }
    let (hub, _centre, _sites) = world(&["press-1"]);
    let folder = tempfile::tempdir().unwrap();
    for name in ["server", "other"] {
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ])
            .args([
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
                "-addext",
                "subjectAltName=DNS:localhost",
            ])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-keyout")
            .arg(folder.path().join(format!("{name}.key")))
            .arg("-out")
            .arg(folder.path().join(format!("{name}.pem")))
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
    }
    let mail = python(MAIL, folder.path(), 0);
    let configured = |authority: &str, password: &str| {
        hub.secret("password", password);
        configure(
            &hub,
            &format!(
                "- name: team\n  mail:\n    server: 'localhost:{}'\n    ca: {}\n    user: hub\n    passwordFile: {}\n    \
                 from: hub@example.org\n    to: [a@example.org, b@example.org]\n",
                mail.port,
                folder.path().join(authority).display(),
                hub.path("password").display()
            ),
        )
    };
    let test = |file: &str| {
        let tried = hub.run(&["alerts", "test", file]);
        let text = String::from_utf8(tried.stdout.clone()).unwrap();
        (code(&tried), format!("{text}{}", stderr(&tried)))
    };
    let (failed, said) = test(&configured("other.pem", "open sesame"));
    assert_eq!(failed, 3, "{said}");
    assert!(said.contains("certificate"), "{said}");
    let (failed, said) = test(&configured("server.pem", "guessed"));
    assert_eq!(failed, 3, "{said}");
    assert!(!said.contains("guessed"), "{said}");
    assert!(got(folder.path()).is_empty());
    let (done, said) = test(&configured("server.pem", "open sesame\n"));
    assert_eq!(done, 0, "{said}");
    let mails = got(folder.path());
    assert_eq!(mails[0]["from"], "hub@example.org");
    assert_eq!(mails[0]["to"].as_array().unwrap().len(), 2);
    let text = mails[0]["text"].as_str().unwrap();
    assert!(
        text.contains("test team: test") && text.contains("https://hub.example"),
        "{text}"
    );
}

#[test]
fn a_file_that_cannot_be_used_ends_the_server_before_it_serves() {
    let (hub, _centre, _sites) = world(&[]);
    let file = hub.path("alerts.yaml");
    fs::write(
        &file,
        "destinations:\n- name: a\n  webook: {url: 'https://x/'}\n",
    )
    .unwrap();
    let refused = hub.run(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--alerts",
        file.to_str().unwrap(),
    ]);
    assert_eq!(code(&refused), 2);
    let said = stderr(&refused);
    for words in [
        "alerts.yaml",
        "unknown field `webook`",
        "line 3 column 3",
        "docs/hub-alerts.md",
    ] {
        assert!(said.contains(words), "{said}");
    }
}
