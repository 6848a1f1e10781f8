//! A chart repository that lies, redirects, has no end, or asks who it is: a server of a few lines stands in.
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::*;
use crate::credentials::Credentials;

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lie {
    None,
    Digest,
    RedirectsIndex,
    RedirectsArchive,
    RedirectsHere,
    RedirectsToNamed,
    EndlessArchive,
    Denies,
    WantsBasic,
    ArchiveElsewhere,
}

struct Repository {
    archive: Mutex<Vec<u8>>,
    lie: Lie,
    address: String,
    /// Each request, with what authenticates it.
    log: Mutex<Vec<String>>,
}

impl Repository {
    fn start(lie: Lie) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let repository = Arc::new(Self {
            archive: Mutex::new(b"an archive".to_vec()),
            lie,
            address,
            log: Mutex::default(),
        });
        let serving = Arc::clone(&repository);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serving.answer(stream);
            }
        });
        repository
    }

    fn index(&self) -> String {
        let archive = self.archive.lock().unwrap();
        let digest = match self.lie {
            Lie::Digest => Digest::of(b"another").hex(),
            _ => Digest::of(&archive).hex(),
        };
        let url = match self.lie {
            Lie::ArchiveElsewhere => "https://other.example/app-1.2.3.tgz",
            _ => "charts/app-1.2.3+site.tgz",
        };
        format!(
            "apiVersion: v1\nentries:\n  app:\n  - {{apiVersion: v2, name: app, version: 1.2.3+site, digest: {digest}, \
             urls: ['{url}']}}\n  - {{name: app, version: 1.2.2, urls: []}}\n"
        )
    }

    fn answer(&self, mut stream: TcpStream) {
        let mut line = String::new();
        let mut given = String::new();
        for read in BufReader::new(stream.try_clone().unwrap()).lines() {
            let read = read.unwrap_or_default();
            if line.is_empty() {
                line = read.split(' ').nth(1).unwrap_or_default().to_owned();
            }
            if let Some(value) = read.to_ascii_lowercase().strip_prefix("authorization: ") {
                value.clone_into(&mut given);
            }
            if read.is_empty() {
                break;
            }
        }
        self.log.lock().unwrap().push(format!("{line} {given}"));
        let is_index = line.ends_with("/index.yaml");
        let elsewhere = "HTTP/1.1 302 Found\r\nLocation: https://other.example/x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        let endless = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
        let text = match (self.lie, is_index) {
            (Lie::RedirectsIndex, true) | (Lie::RedirectsArchive, false) => elsewhere.to_owned(),
            (Lie::RedirectsHere, false) if !line.ends_with("/moved") => {
                "HTTP/1.1 307 Moved\r\nLocation: moved\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_owned()
            }
            (Lie::RedirectsToNamed, false) if !line.ends_with("/named") => {
                let (_, port) = self.address.split_once(':').unwrap();
                format!(
                    "HTTP/1.1 302 Found\r\nLocation: http://localhost:{port}/named\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
                )
            }
            (Lie::EndlessArchive, false) => {
                let piece = vec![b'x'; 1 << 20];
                stream.write_all(endless.as_bytes()).ok();
                while stream.write_all(&piece).is_ok() {}
                return;
            }
            (Lie::Denies, _) => "HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer realm=\"https://x\"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_owned(),
            (Lie::WantsBasic, _) if given.is_empty() => {
                "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"x\"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_owned()
            }
            (_, true) => {
                let index = self.index();
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{index}", index.len())
            }
            (_, false) => {
                let archive = self.archive.lock().unwrap().clone();
                let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", archive.len());
                stream.write_all(head.as_bytes()).ok();
                stream.write_all(&archive).ok();
                return;
            }
        };
        stream.write_all(text.as_bytes()).ok();
    }

    fn url(&self) -> String {
        format!("http://{}/stable", self.address)
    }

    fn pull(
        &self,
        cache: &ImageCache,
        version: &str,
        known: Option<Digest>,
    ) -> Result<Pulled, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        let text = format!(
            "{{\"auths\":{{\"{}\":{{\"auth\":\"bWU6c2VjcmV0\"}}}}}}",
            self.address
        );
        std::fs::write(&file, text).unwrap();
        let credentials = match self.lie {
            Lie::WantsBasic => Credentials::read(&[file]).unwrap(),
            _ => Credentials::default(),
        };
        // No certificate is looked at here.
        let client = RegistryClient::new(credentials, None).unwrap();
        let (url, own) = (self.url(), self.address.clone());
        let chart = ChartReference {
            repository: &url,
            name: "app",
            version,
        };
        // Who runs the program named this machine: else nothing of it is asked.
        let is_named = |url: &str| url.contains(&own) || url.starts_with("http://localhost:");
        let may_ask = |url: &str| match is_named(url) {
            true => Ok(()),
            false => Err("no other host is asked".to_owned()),
        };
        let hosts = Hosts {
            may_ask: &may_ask,
            is_named: &is_named,
        };
        pull_chart(&client, cache, chart, &hosts, known).map_err(|error| error.to_string())
    }
}

fn cache() -> (tempfile::TempDir, ImageCache) {
    let folder = tempfile::tempdir().unwrap();
    let cache = ImageCache::at(folder.path());
    (folder, cache)
}

#[test]
fn a_chart_is_brought_as_the_artifact_that_helm_pushes_and_is_the_same_anywhere() {
    let repository = Repository::start(Lie::None);
    let ((_one, first), (_two, second)) = (cache(), cache());
    let pulled = repository.pull(&first, "1.2.3+site", None).unwrap();
    assert_eq!(
        repository.pull(&second, "v1.2.3+site", None),
        Ok(pulled.clone())
    );
    let archive = archive_of(&first, &pulled.manifest.digest).unwrap();
    assert_eq!(
        first
            .read(&archive.digest, MAX_CHART_ARCHIVE_BYTES)
            .unwrap(),
        b"an archive"
    );
    let manifest = first
        .read(&pulled.manifest.digest, MAX_CHART_ARCHIVE_BYTES)
        .unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(
        manifest["annotations"][CHART_PATH],
        "charts/app-1.2.3+site.tgz"
    );
    assert_eq!(manifest["annotations"][CHART_REPOSITORY], repository.url());
    // What is pinned and here is not asked for again.
    repository.log.lock().unwrap().clear();
    let again = repository.pull(&first, "1.2.3+site", Some(pulled.manifest.digest));
    assert_eq!(again, Ok(pulled.clone()));
    assert_eq!(*repository.log.lock().unwrap(), Vec::<String>::new());
    // Another archive under the same version does not take the place of what is pinned.
    *repository.archive.lock().unwrap() = b"replaced".to_vec();
    let (_three, third) = cache();
    let error = repository.pull(&third, "1.2.3+site", Some(pulled.manifest.digest));
    let error = error.unwrap_err();
    assert!(
        error.contains("is another one than it was") && error.contains("is pinned"),
        "{error}"
    );
}

#[test]
fn each_way_in_which_a_repository_lies_is_named_and_nothing_of_it_is_kept() {
    for (lie, version, expected) in [
        (
            Lie::Digest,
            "1.2.3+site",
            "is not the archive that the index lists",
        ),
        (
            Lie::RedirectsIndex,
            "1.2.3+site",
            "`index.yaml` is redirected to another host, `other.example`",
        ),
        (
            Lie::RedirectsArchive,
            "1.2.3+site",
            "`--allow-host other.example`",
        ),
        (
            Lie::ArchiveElsewhere,
            "1.2.3+site",
            "`app-1.2.3.tgz` is elsewhere: no other host is asked",
        ),
        (
            Lie::EndlessArchive,
            "1.2.3+site",
            "has more than 33554432 bytes",
        ),
        (
            Lie::Denies,
            "1.2.3+site",
            "another proof than a name and a password",
        ),
        (
            Lie::None,
            "^1.2",
            "is requested as `^1.2`, which is not a single version; the repository has 1.2.3+site, 1.2.2",
        ),
        (
            Lie::None,
            "1.2.9",
            "has no version 1.2.9; the repository has 1.2.3+site, 1.2.2",
        ),
        (
            Lie::None,
            "1.2.2",
            "has no address in the index that can be asked",
        ),
    ] {
        let (folder, cache) = cache();
        let error = Repository::start(lie)
            .pull(&cache, version, None)
            .unwrap_err();
        assert!(error.contains(expected), "{lie:?}: {error}");
        assert!(!folder.path().join("sha256").exists(), "{lie:?}");
    }
}

#[test]
fn a_password_is_given_when_it_is_asked_for_and_a_redirect_on_the_same_host_is_followed() {
    let (_folder, cache) = cache();
    let repository = Repository::start(Lie::WantsBasic);
    repository.pull(&cache, "1.2.3+site", None).unwrap();
    let log = repository.log.lock().unwrap().join("\n");
    assert_eq!(log.matches("basic bwu6c2vjcmv0").count(), 2, "{log}");
    let repository = Repository::start(Lie::RedirectsHere);
    repository.pull(&cache, "1.2.3+site", None).unwrap();
    let log = repository.log.lock().unwrap().join("\n");
    assert!(log.contains("/stable/charts/moved"), "{log}");
}

#[test]
fn an_archive_is_fetched_from_another_host_that_was_named_and_compared_with_the_index() {
    let (_folder, cache) = cache();
    let repository = Repository::start(Lie::RedirectsToNamed);
    let pulled = repository.pull(&cache, "1.2.3+site", None).unwrap();
    let archive = archive_of(&cache, &pulled.manifest.digest).unwrap();
    assert_eq!(
        cache
            .read(&archive.digest, MAX_CHART_ARCHIVE_BYTES)
            .unwrap(),
        b"an archive"
    );
    let log = repository.log.lock().unwrap().join("\n");
    assert!(log.ends_with("/named "), "{log}");
}

#[test]
fn attack_a_file_server_that_leads_to_this_machine_is_not_followed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("none.pem");
    std::fs::write(&pem, include_str!("../../testdata/authority.pem")).unwrap();
    let client = RegistryClient::new(Credentials::default(), Some(&pem)).unwrap();
    let cache = ImageCache::at(folder.path());
    // The name was checked before, when it led elsewhere.
    let hosts = Hosts {
        may_ask: &|_| Ok(()),
        is_named: &|_| false,
    };
    let url = format!("https://localhost:{port}/file");
    let digest = Digest::of(b"x");
    let error = crate::pull_file(&client, &cache, &url, digest, &hosts).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(&format!("`localhost:{port}` leads to")),
        "{text}"
    );
    let help = error.help().unwrap();
    assert!(
        help.contains(&format!("`--allow-host localhost:{port}`")),
        "{help}"
    );
    let nobody = listener.accept().unwrap_err();
    assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);
}
