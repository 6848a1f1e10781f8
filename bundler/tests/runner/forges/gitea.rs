//! A real Gitea with one user, one repository and a token, in a temporary folder.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use outhaul_git::program::Credential;
use outhaul_remote::forge::ForgeKind;

use super::{ForgeFixture, forge, from_environment};

/// Stops the server, and only it.
pub struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program; without it the test says that it is skipped, and fails in CI.
pub fn program() -> Option<PathBuf> {
    let found = from_environment("OUTHAUL_GITEA");
    if found.is_none() {
        outhaul_tests::skipped(
            "OUTHAUL_GITEA does not name a Gitea; `.ci/programs/build gitea` builds one",
        );
    }
    found
}

fn config(folder: &Path, assets: &Path, port: u16) -> String {
    let (folder, assets) = (folder.display(), assets.display());
    format!(
        "RUN_USER = root\nAPP_NAME = test\nRUN_MODE = prod\nWORK_PATH = {folder}\n\
         [server]\nHTTP_ADDR = 127.0.0.1\nHTTP_PORT = {port}\nROOT_URL = http://127.0.0.1:{port}/\n\
         STATIC_ROOT_PATH = {assets}\nDISABLE_SSH = true\nOFFLINE_MODE = true\n\
         [database]\nDB_TYPE = sqlite3\nPATH = {folder}/gitea.db\n\
         [repository]\nROOT = {folder}/repositories\n\
         [security]\nINSTALL_LOCK = true\nSECRET_KEY = test\n\
         [log]\nMODE = console\nLEVEL = Info\n[cron]\nENABLED = false\n[indexer]\nISSUE_INDEXER_TYPE = db\n"
    )
}

pub fn place(program: &Path) -> (ForgeFixture, Server) {
    let folder = tempfile::tempdir().unwrap();
    let port = outhaul_tests::ports::free_port().unwrap();
    let ini = folder.path().join("app.ini");
    let user = Command::new("id").arg("-un").output().unwrap();
    let user = String::from_utf8(user.stdout).unwrap();
    let text = config(folder.path(), program.parent().unwrap(), port);
    let text = text.replace("RUN_USER = root", &format!("RUN_USER = {}", user.trim()));
    std::fs::write(&ini, text).unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .arg("--config")
            .arg(&ini)
            // Its own switch for machines such as CI's, where everything runs as root.
            .env("GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT", "true")
            .env("HOME", folder.path())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "gitea {arguments:?}: {errors}{text}"
        );
        text.into_owned()
    };
    run(&["migrate"]);
    run(&[
        "admin",
        "user",
        "create",
        "--username",
        "team",
        "--email",
        "team@example.org",
        "--random-password",
        "--must-change-password=false",
    ]);
    let token = run(&[
        "admin",
        "user",
        "generate-access-token",
        "--username",
        "team",
        "--token-name",
        "test",
        "--scopes",
        "write:repository,write:issue,write:user",
        "--raw",
    ]);
    // On a slow machine it logs beside it.
    let is_token = |line: &&str| line.len() == 40 && line.bytes().all(|b| b.is_ascii_hexdigit());
    let token = token.lines().map(str::trim).find(is_token);
    let token = token.expect("a token").to_owned();
    let server = start(program, &ini, folder.path(), port);
    let api = format!("http://127.0.0.1:{port}/api/v1");
    // Not empty: of an empty one it learns only some time after the first push that it no longer is.
    let body = serde_json::json!({"name": "platform", "default_branch": "main", "auto_init": true,
        "private": true});
    let client = outhaul_remote::http::RemoteClient::new(None).unwrap();
    let authorization = format!("token {token}");
    let headers = [
        ("Authorization", authorization.as_str()),
        ("Content-Type", "application/json"),
    ];
    let method = outhaul_remote::http::Method::POST;
    let made = client
        .send(
            method,
            &format!("{api}/user/repos"),
            &headers,
            Some(body.to_string().into_bytes()),
        )
        .unwrap();
    assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.bytes));
    let credential = Credential {
        url: format!("http://127.0.0.1:{port}/"),
        user: "outhaul".into(),
        token: token.clone().into(),
    };
    let place = ForgeFixture {
        forge: forge(ForgeKind::Gitea, &api, &token),
        url: format!("http://127.0.0.1:{port}/team/platform.git"),
        clone_url: format!("http://team:{token}@127.0.0.1:{port}/team/platform.git"),
        credential: Some(credential),
        folder,
    };
    (place, server)
}

/// Started, and listening.
fn start(program: &Path, ini: &Path, home: &Path, port: u16) -> Server {
    let mut child = Command::new(program)
        .args(["web", "--config"])
        .arg(ini)
        .env("GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT", "true")
        .env("HOME", home)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let server = Server(child);
    let mut said = String::new();
    for line in lines.by_ref() {
        let line = line.unwrap();
        said.push_str(&line);
        said.push('\n');
        if line.contains("Starting new Web server") {
            // It must be able to go on talking.
            std::thread::spawn(move || lines.for_each(drop));
            // It says so a moment before it listens.
            while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
                std::thread::park_timeout(std::time::Duration::from_millis(20));
            }
            return server;
        }
    }
    panic!("Gitea ended:\n{said}");
}
