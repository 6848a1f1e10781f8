//! An instance of Sigstore on this machine: what signs images for identities, all of it the real programs.
//!
//! What comes in: a folder, the programs of `OUTHAUL_SIGSTORE`, and cosign. What goes out: a certificate authority (Fulcio) with a log of
//! certificates (`TesseraCT`), a timestamp authority, a log of signatures (Rekor, tiles), an issuer of identities, and the trusted root
//! that cosign makes of them. Everything listens on 127.0.0.1 and ends with the value.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::ports::free_port;
use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;

/// From when on the parts of an instance count.
const START: &str = "2026-01-01T00:00:00Z";
/// How long a program may take until it answers.
const READY: Duration = Duration::from_secs(60);

/// Where a timestamp authority also listens, whatever it is told: there is one at a time.
const METRICS: &str = "0.0.0.0:2112";
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A running instance.
#[derive(Debug)]
pub struct Sigstore {
    children: Vec<Child>,
    folder: PathBuf,
    issuer: Issuer,
    timestamps: String,
    authority: String,
    /// Given up after the programs have ended.
    _one: MutexGuard<'static, ()>,
}

/// Who knows people by addresses of mail: the identity provider, as far as a certificate authority asks it.
#[derive(Debug)]
struct Issuer {
    url: String,
    key: Vec<u8>,
}

/// The programs of an instance; `None`, and the test is skipped, where they are not here.
#[track_caller]
pub fn programs_or_skip() -> Option<PathBuf> {
    let found = std::env::var_os("OUTHAUL_SIGSTORE").map(PathBuf::from);
    let found = found.filter(|folder| folder.join("fulcio").is_file());
    if found.is_none() {
        crate::skipped(
            "an instance of Sigstore is not here: set OUTHAUL_SIGSTORE (`.ci/programs/build sigstore`)",
        );
    }
    found
}

impl Sigstore {
    /// Starts all of it; what it needs and writes is in `folder`.
    ///
    /// # Errors
    /// When a program does not start, or does not answer.
    pub fn start(folder: &Path, programs: &Path, cosign: &Path) -> Result<Self> {
        Self::started(folder, programs, cosign).with_context(|| logs(folder))
    }

    fn started(folder: &Path, programs: &Path, cosign: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let ports = (0..8).map(|_| free_port()).collect::<Result<Vec<u16>>>()?;
        let [
            authority,
            grpc,
            metrics,
            timestamps,
            log,
            log_grpc,
            log_metrics,
            certificates,
        ] = ports[..]
        else {
            anyhow::bail!("no free ports");
        };
        let url = |port: u16| format!("http://localhost:{port}");
        let one = ONE_AT_A_TIME.lock();
        let one = one.unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        while TcpListener::bind(METRICS).is_err() && begun.elapsed() < READY {
            std::thread::yield_now();
        }
        let mut made = Self {
            children: Vec::new(),
            folder: folder.to_owned(),
            issuer: Issuer::start()?,
            timestamps: format!("{}/api/v1/timestamp", url(timestamps)),
            authority: url(authority),
            _one: one,
        };
        // Each log takes another form of a private key.
        made.script(
            "openssl ecparam -name prime256v1 -genkey -noout -out certificates.pem\n\
             openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out log.pem\n\
             for name in certificates log; do openssl pkey -in $name.pem -pubout -out $name.pub; done",
        )?;
        let issuer = &made.issuer.url;
        let config = format!(
            "oidc-issuers:\n  {issuer}:\n    issuer-url: {issuer}\n    client-id: sigstore\n    type: email\n"
        );
        fs::write(folder.join("fulcio.yaml"), config)?;
        let run = |name: &str, arguments: &str| start(folder, &programs.join(name), arguments);
        let child = run(
            "fulcio",
            &format!(
                "serve --ca ephemeralca --ct-log-url {} --ct-log-public-key-path certificates.pub --config-path fulcio.yaml \
                 --host 127.0.0.1 --port {authority} --grpc-host 127.0.0.1 --grpc-port {grpc} --metrics-port {metrics} \
                 --legacy-unix-domain-socket @outhaul-fulcio-{authority}",
                url(certificates)
            ),
        )?;
        made.children.push(child);
        made.children.push(run(
            "timestamp-server",
            &format!("serve --host 127.0.0.1 --port {timestamps} --disable-ntp-monitoring"),
        )?);
        made.children.push(run(
            "rekor-tiles",
            &format!(
                "serve --storage-dir tiles --signer-filepath log.pem --http-port {log} --grpc-port {log_grpc} \
                 --http-metrics-port {log_metrics} --hostname localhost --checkpoint-interval 1s"
            ),
        )?);
        let chain = get(authority, "/api/v1/rootCert")?;
        fs::write(folder.join("authority-chain.pem"), chain)?;
        let chain = get(timestamps, "/api/v1/timestamp/certchain")?;
        fs::write(folder.join("timestamps-chain.pem"), chain)?;
        made.children.push(run(
            "tesseract",
            &format!(
                "--http_endpoint 127.0.0.1:{certificates} --origin certificates.press.example --private_key certificates.pem \
                 --roots_pem_file authority-chain.pem --storage_dir certificates"
            ),
        )?);
        for port in [log, certificates] {
            connected(port)?;
        }
        let (log, certificates) = (url(log), url(certificates));
        let (authority, timestamps) = (&made.authority, &made.timestamps);
        let of = format!("start-time={START},operator=press");
        made.script(&format!(
            r#"
            "{cosign}" signing-config create --fulcio url={authority},api-version=1,{of} --rekor url={log},api-version=2,{of} \
              --rekor-config ANY --tsa url={timestamps},api-version=1,{of} --tsa-config ANY \
              --oidc-provider url={issuer},api-version=1,{of} --out signing.json
            "{cosign}" trusted-root create --fulcio url={authority},certificate-chain=authority-chain.pem \
              --ctfe url={certificates},public-key=certificates.pub,start-time={START} \
              --rekor url={log},public-key=log.pub,start-time={START},origin=localhost \
              --tsa url={timestamps},certificate-chain=timestamps-chain.pem --out root.json
            "#,
            cosign = cosign.display(),
        ))?;
        Ok(made)
    }

    /// The issuer's URL.
    pub fn issuer(&self) -> &str {
        &self.issuer.url
    }

    /// The text of the trusted root.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn root(&self) -> Result<String> {
        Ok(fs::read_to_string(self.folder.join("root.json"))?)
    }

    /// Signs `image`, by its digest, as `subject`: in the newer form into the log, in the older one with a timestamp alone,
    /// because that form knows no log of this kind.
    ///
    /// # Errors
    /// When cosign does not.
    pub fn sign(&self, cosign: &Path, image: &str, subject: &str, is_older: bool) -> Result<()> {
        fs::write(self.folder.join("token"), self.issuer.token(subject)?)?;
        let options = match is_older {
            false => "--signing-config signing.json --trusted-root root.json".to_owned(),
            true => format!(
                "--use-signing-config=false --new-bundle-format=false --tlog-upload=false --fulcio-url {} \
                 --timestamp-server-url {}",
                self.authority, self.timestamps
            ),
        };
        let cosign = cosign.display();
        self.script(&format!(
            "\"{cosign}\" sign --identity-token token {options} --yes {image} 2>&1"
        ))
        .with_context(|| logs(&self.folder))
    }

    fn script(&self, script: &str) -> Result<()> {
        let mut shell = Command::new("bash");
        shell
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(&self.folder)
            .env("HOME", &self.folder)
            .env_remove("CI");
        let ran = crate::run_script(&mut shell)?;
        ensure!(ran.code == Some(0), "{}", ran.everything());
        Ok(())
    }
}

impl Drop for Sigstore {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Issuer {
    /// Answers on a thread of its own for as long as the test's process is there.
    fn start() -> Result<Self> {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
            .map_err(|_| anyhow::anyhow!("no key"))?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://localhost:{}", listener.local_addr()?.port());
        let made = Self {
            url: url.clone(),
            key: pkcs8.as_ref().to_vec(),
        };
        let public = made.pair(&random)?.public_key().as_ref().to_vec();
        let part = |from: usize| URL_SAFE_NO_PAD.encode(&public[from..from + 32]);
        let keys = json!({"keys": [{
            "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "1", "x": part(1), "y": part(33),
        }]});
        let discovered = json!({
            "issuer": url, "jwks_uri": format!("{url}/keys"), "authorization_endpoint": format!("{url}/authorize"),
            "token_endpoint": format!("{url}/token"), "id_token_signing_alg_values_supported": ["ES256"],
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
        });
        let (keys, discovered) = (keys.to_string(), discovered.to_string());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut asked = [0; 4096];
                let read = stream.read(&mut asked).unwrap_or(0);
                let is_keys = asked[..read].starts_with(b"GET /keys ");
                let body = if is_keys { &keys } else { &discovered };
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        Ok(made)
    }

    fn pair(&self, random: &SystemRandom) -> Result<EcdsaKeyPair> {
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &self.key, random)
            .map_err(|_| anyhow::anyhow!("no key"))
    }

    /// A token that says that whoever has it is `subject`.
    fn token(&self, subject: &str) -> Result<String> {
        let random = SystemRandom::new();
        #[expect(
            clippy::disallowed_methods,
            reason = "the authority that reads the token has this clock"
        )]
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let header = json!({"alg": "ES256", "kid": "1", "typ": "JWT"});
        let claims = json!({
            "iss": self.url, "aud": "sigstore", "sub": subject, "email": subject, "email_verified": true,
            "iat": now, "nbf": now - 5, "exp": now + 600,
        });
        let mut token = URL_SAFE_NO_PAD.encode(header.to_string());
        write!(token, ".{}", URL_SAFE_NO_PAD.encode(claims.to_string()))?;
        let signature = self
            .pair(&random)?
            .sign(&random, token.as_bytes())
            .map_err(|_| anyhow::anyhow!("no signature"))?;
        write!(token, ".{}", URL_SAFE_NO_PAD.encode(signature))?;
        Ok(token)
    }
}

/// What the programs said, for a message.
fn logs(folder: &Path) -> String {
    let logs = ["fulcio", "timestamp-server", "rekor-tiles", "tesseract"].map(|name| {
        let log = fs::read_to_string(folder.join(format!("{name}.log")));
        format!("-- {name}\n{}", log.unwrap_or_default())
    });
    logs.join("\n")
}

fn start(folder: &Path, program: &Path, arguments: &str) -> Result<Child> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let log = fs::File::create(folder.join(format!("{name}.log")))?;
    Command::new(program)
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))
}

fn connected(port: u16) -> Result<TcpStream> {
    let begun = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return Ok(stream),
            Err(error) => ensure!(begun.elapsed() < READY, "nothing on port {port}: {error}"),
        }
        std::thread::yield_now();
    }
}

fn get(port: u16, path: &str) -> Result<String> {
    let begun = Instant::now();
    loop {
        let mut stream = connected(port)?;
        write!(
            stream,
            "GET {path} HTTP/1.0\r\nHost: localhost:{port}\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
        if head.contains(" 200 ") {
            return Ok(body.to_owned());
        }
        // Fulcio's port of HTTP answers so while the one behind it is not open.
        let starts = head.contains(" 503 ") && begun.elapsed() < READY;
        ensure!(starts, "{head}");
        std::thread::yield_now();
    }
}
