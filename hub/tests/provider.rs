//! A real Gitea as identity provider, and a browser that walks its forms.
//!
//! What comes in: names of people, and addresses. What goes out: what a browser is answered, with its cookies. A cookie that is
//! `SameSite=Strict` goes with no request that another site's page leads to, as in a browser.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use outhaul_bundle::hub_api::escaped;
use outhaul_kit::durable;
use serde_json::Value;

use crate::access::Answer;

/// The password of everyone.
const PASSWORD: &str = "correct horse battery";

/// A port that is free.
pub fn free_port() -> u16 {
    outhaul_tests::ports::free_port().unwrap()
}

/// A running Gitea; it alone is ended when dropped.
#[derive(Debug)]
pub struct Gitea {
    folder: tempfile::TempDir,
    program: PathBuf,
    server: Option<Child>,
    pub url: String,
    client: String,
}

impl Drop for Gitea {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Gitea {
    /// One with these people, of whom the first may change the others, and the hub at this URL as a client; `None`, and the calling test is skipped, without the program.
    #[track_caller]
    pub fn or_skip(people: &[&str], hub: &str) -> Option<Self> {
        let Some(program) = std::env::var_os("OUTHAUL_GITEA").filter(|path| !path.is_empty())
        else {
            outhaul_tests::skipped(
                "OUTHAUL_GITEA does not name a Gitea; `.ci/programs/build gitea` builds one",
            );
            return None;
        };
        let port = free_port();
        let mut gitea = Self {
            folder: tempfile::tempdir().unwrap(),
            program: program.into(),
            server: None,
            url: format!("http://127.0.0.1:{port}"),
            client: String::new(),
        };
        gitea.write_settings(port);
        gitea.run(&["migrate"]);
        for (at, name) in people.iter().enumerate() {
            gitea.add(name, at == 0);
        }
        gitea.start(port);
        let redirect = format!("{hub}/login/oidc/return");
        let body = serde_json::json!({"name": "hub", "redirect_uris": [redirect], "confidential_client": true});
        let made = gitea.api(people[0], "POST /api/v1/user/applications/oauth2", &body);
        made["client_id"]
            .as_str()
            .unwrap()
            .clone_into(&mut gitea.client);
        let secret = made["client_secret"].as_str().unwrap().as_bytes();
        durable::write(&gitea.path("secret"), secret, durable::SECRET_MODE).unwrap();
        Some(gitea)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write_settings(&self, port: u16) {
        let folder = self.folder.path().display();
        let assets = self.program.parent().unwrap_or(Path::new("/")).display();
        let user = Command::new("id").arg("-un").output().unwrap();
        let user = String::from_utf8(user.stdout).unwrap();
        let text = format!(
            "RUN_USER = {}\nAPP_NAME = test\nRUN_MODE = prod\nWORK_PATH = {folder}\n\
             [server]\nHTTP_ADDR = 127.0.0.1\nHTTP_PORT = {port}\nROOT_URL = {}/\n\
             STATIC_ROOT_PATH = {assets}\nDISABLE_SSH = true\nOFFLINE_MODE = true\n\
             [database]\nDB_TYPE = sqlite3\nPATH = {folder}/gitea.db\n\
             [repository]\nROOT = {folder}/repositories\n\
             [security]\nINSTALL_LOCK = true\nSECRET_KEY = test\n\
             [log]\nMODE = console\nLEVEL = Info\n[cron]\nENABLED = false\n[indexer]\nISSUE_INDEXER_TYPE = db\n",
            user.trim(),
            self.url
        );
        fs::write(self.path("app.ini"), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .arg("--config")
            .arg(self.path("app.ini"))
            // Its own switch for machines such as CI's, where everything runs as root.
            .env("GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT", "true")
            .env("HOME", self.folder.path());
        command
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) {
        let output = self.command(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "gitea {arguments:?}: {errors}");
    }

    fn add(&self, name: &str, is_admin: bool) {
        let mail = format!("{name}@example.org");
        let admin = format!("--admin={is_admin}");
        self.run(&[
            "admin",
            "user",
            "create",
            "--username",
            name,
            "--email",
            &mail,
            "--password",
            PASSWORD,
            "--must-change-password=false",
            &admin,
        ]);
    }

    /// Started, and listening.
    fn start(&mut self, port: u16) {
        let mut child = self
            .command(&["web"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        self.server = Some(child);
        let mut said = String::new();
        for line in lines.by_ref() {
            let line = line.unwrap();
            said.push_str(&line);
            said.push('\n');
            if line.contains("Starting new Web server") {
                // It must be able to go on talking.
                std::thread::spawn(move || lines.for_each(drop));
                // It says so a moment before it listens.
                while TcpStream::connect(("127.0.0.1", port)).is_err() {
                    std::thread::park_timeout(std::time::Duration::from_millis(20));
                }
                return;
            }
        }
        panic!("Gitea ended:\n{said}");
    }

    pub fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            drop(server.kill());
            drop(server.wait());
        }
    }

    /// Its answer to what someone asks of its API.
    #[track_caller]
    pub fn api(&self, who: &str, line: &str, body: &Value) -> Value {
        let (method, path) = line.split_once(' ').unwrap();
        let output = Command::new("curl")
            .args(["-sS", "-X", method, "-u", &format!("{who}:{PASSWORD}")])
            .args([
                "-H",
                "Content-Type: application/json",
                "-d",
                &body.to_string(),
            ])
            .arg(format!("{}{path}", self.url))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// The hub's settings for it, in a file.
    pub fn settings(&self, hub: &str, grants: &str) -> String {
        let text = format!(
            "issuer: {}\nclientId: {}\nclientSecretFile: {}\nhub: {hub}\nlabel: Gitea\nname: preferred_username\n\
             requestScopes: [profile, email, groups]\nsessionMinutes: 60\ngrants:\n{grants}\n",
            self.url,
            self.client,
            self.path("secret").display()
        );
        let path = self.path("oidc.yaml");
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

/// A browser: its cookies by host and port.
#[derive(Debug, Default)]
pub struct Browser(BTreeMap<(String, String), String>);

impl Browser {
    /// Another one with the same cookies.
    pub fn copy(&self) -> Self {
        Self(self.0.clone())
    }

    /// The value of a cookie of a URL's host.
    pub fn cookie(&self, url: &str, name: &str) -> Option<&str> {
        let host = url.split('/').nth(2).unwrap().to_owned();
        self.0.get(&(host, name.to_owned())).map(String::as_str)
    }

    /// Asks as a page of the same site does.
    #[track_caller]
    pub fn get(&mut self, url: &str) -> Answer {
        self.send("GET", url, "", &|_| true)
    }

    /// Comes from another site's page: what is `SameSite=Strict` stays.
    #[track_caller]
    pub fn led_to(&mut self, url: &str) -> Answer {
        self.send("GET", url, "", &|name| {
            name != "outhaul_session" && name != "outhaul_login"
        })
    }

    #[track_caller]
    pub fn post(&mut self, url: &str, fields: &[(&str, &str)]) -> Answer {
        let body: Vec<_> = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", escaped(value)))
            .collect();
        self.send("POST", url, &body.join("&"), &|_| true)
    }

    fn send(&mut self, method: &str, url: &str, body: &str, goes: &dyn Fn(&str) -> bool) -> Answer {
        let host = url.split('/').nth(2).unwrap();
        let path = &url[url.find(host).unwrap() + host.len()..];
        let path = path.split('#').next().unwrap();
        let cookies: Vec<_> = self
            .0
            .iter()
            .filter(|((of, name), _)| of == host && goes(name))
            .map(|((_, name), value)| format!("{name}={value}"))
            .collect();
        let mut stream = TcpStream::connect(host).unwrap();
        write!(
            stream,
            "{method} {} HTTP/1.0\r\nHost: {host}\r\nCookie: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{body}",
            if path.is_empty() { "/" } else { path },
            cookies.join("; "),
            body.len()
        )
        .unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let answer = Answer {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_owned(),
            body: body.to_owned(),
        };
        for set in answer.all("set-cookie") {
            let (name, value) = set.split(';').next().unwrap().split_once('=').unwrap();
            let place = (host.to_owned(), name.to_owned());
            match set.contains("Max-Age=0") {
                true => drop(self.0.remove(&place)),
                false => drop(self.0.insert(place, value.to_owned())),
            }
        }
        answer
    }

    /// Logs in at Gitea and agrees; returns where it sends the browser back to.
    #[track_caller]
    pub fn agree(&mut self, gitea: &Gitea, who: &str, address: &str) -> String {
        assert!(
            address.starts_with(&format!("{}/login/oauth/authorize?", gitea.url)),
            "{address}"
        );
        self.post(
            &format!("{}/user/login", gitea.url),
            &[("user_name", who), ("password", PASSWORD)],
        );
        let asked = self.get(address);
        if asked.status != 200 {
            // It remembers that someone agreed.
            return asked.header("location").to_owned();
        }
        let names = ["client_id", "state", "scope", "nonce", "redirect_uri"];
        let values = names.map(|name| asked.field(name));
        let mut fields: Vec<_> = names
            .iter()
            .zip(&values)
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        fields.push(("granted", "true"));
        let granted = self.post(&format!("{}/login/oauth/grant", gitea.url), &fields);
        granted.header("location").to_owned()
    }
}
