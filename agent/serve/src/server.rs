//! Which part answers which request, and what clients may take of this machine.
//!
//! What comes in: requests, and what is served. What goes out: answers. A body that does not come in time ends its request
//! alone. How connections are accepted and ended is in `kit/listen`.

use std::convert::Infallible;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_ENCODING, HOST, HeaderMap};
use hyper::service::{Service, service_fn};
use hyper::{Method, Request, StatusCode};
use outhaul_listen::ConnectionLimits;

use crate::answer::{self, Answer, Code, error, header, text};
use crate::body::{BodyContent, FileBody, Framing, Source};
use crate::catalog::Catalog;
use crate::charts::ChartFile;
use crate::digest::Hasher;
use crate::git::request::Band;
use crate::git::{self, RepositoryAddress};
use crate::registry::{self, ImageQuestion};
use crate::route::{self, Route, RouteError};
use crate::view::Current;

/// What clients may take of this machine.
pub const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 256,
    of_peer: 256,
    receive: Duration::from_secs(15),
    stall: Duration::from_secs(30),
    head: 16 * 1024,
};
/// Largest body of a request in bytes, as sent.
const MAX_BODY: usize = 2 << 20;
/// Largest body of a request once it is unpacked.
const MAX_UNPACKED: u64 = 8 << 20;

/// What answers the requests of one connection.
pub fn service(
    current: Arc<Current>,
) -> impl Service<
    Request<Incoming>,
    Response = Answer,
    Error = Infallible,
    Future = impl Future<Output = Result<Answer, Infallible>> + Send + use<>,
> + Send
+ 'static {
    service_fn(move |request| {
        let current = Arc::clone(&current);
        async move { Ok(answered(request, current).await) }
    })
}

async fn answered(request: Request<Incoming>, current: Arc<Current>) -> Answer {
    let (parts, body) = request.into_parts();
    let read_only = matches!(parts.method, Method::GET | Method::HEAD);
    let path = parts.uri.path();
    let is_registry = path == "/v2" || path.starts_with("/v2/");
    if is_registry && !read_only {
        return answer::read_only("GET, HEAD");
    }
    let route = match route::parse(path, parts.uri.query().unwrap_or_default()) {
        Ok(route) => route,
        Err(problem) => return misunderstood(is_registry, &problem),
    };
    let posts = matches!(route, Route::UploadPack { .. });
    let allowed = match posts {
        true => parts.method == Method::POST,
        false => read_only,
    };
    if !allowed {
        let allow = if posts { "POST" } else { "GET, HEAD" };
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "this server is read only");
        header(&mut answer, ALLOW, allow);
        return answer;
    }
    let content = match posts {
        true => match tokio::time::timeout(LIMITS.receive, received(body, MAX_BODY)).await {
            Ok(Ok(content)) => content,
            Ok(Err(refused)) => return *refused,
            Err(_) => return text(StatusCode::REQUEST_TIMEOUT, "the request took too long"),
        },
        false => Vec::new(),
    };
    let host = parts.uri.host().map(str::to_owned).or_else(|| {
        let host = parts.headers.get(HOST)?.to_str().ok()?;
        Some(host.to_owned())
    });
    let asked = ParsedRequest {
        route,
        host,
        headers: parts.headers,
        head: parts.method == Method::HEAD,
        content,
    };
    let done = tokio::task::spawn_blocking(move || asked.answer(&current, is_registry)).await;
    done.unwrap_or_else(|_| text(StatusCode::INTERNAL_SERVER_ERROR, "internal error"))
}

/// The whole body of a request.
async fn received(mut body: Incoming, max: usize) -> Result<Vec<u8>, Box<Answer>> {
    let mut content = Vec::new();
    while let Some(frame) =
        std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await
    {
        let refused = |status, message| Err(Box::new(text(status, message)));
        let Ok(frame) = frame else {
            return refused(StatusCode::BAD_REQUEST, "the request ended early");
        };
        let data: Bytes = frame.into_data().unwrap_or_default();
        if content.len() + data.len() > max {
            return refused(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large");
        }
        content.extend_from_slice(&data);
    }
    Ok(content)
}

fn misunderstood(is_registry: bool, problem: &RouteError) -> Answer {
    let message = problem.to_string();
    let (status, code) = match problem {
        RouteError::Nothing => (StatusCode::NOT_FOUND, Code::Unsupported),
        RouteError::TooLong => (StatusCode::URI_TOO_LONG, Code::NameInvalid),
        // The specification wants 404 for what is not there, and no name of this form can be.
        RouteError::Name(_) => (StatusCode::NOT_FOUND, Code::NameInvalid),
        RouteError::Reference(_) => (StatusCode::NOT_FOUND, Code::ManifestUnknown),
        RouteError::Digest { .. } => (StatusCode::BAD_REQUEST, Code::DigestInvalid),
        RouteError::Parameter(_) => (StatusCode::BAD_REQUEST, Code::Unsupported),
    };
    match is_registry {
        true => error(status, code, &message),
        false => text(status, &message),
    }
}

/// A request that is understood.
struct ParsedRequest {
    route: Route,
    host: Option<String>,
    headers: HeaderMap,
    head: bool,
    content: Vec<u8>,
}

impl ParsedRequest {
    /// Answers it. Reads the disk and blocks.
    fn answer(self, current: &Current, is_registry: bool) -> Answer {
        if self.route == Route::Ping {
            let body = if self.head { "" } else { "{}" };
            return answer::registry(answer::of(StatusCode::OK, "application/json", body));
        }
        let catalog = match current.catalog() {
            Ok(Some(catalog)) => catalog,
            unavailable => {
                let message = match &unavailable {
                    Err(error) => {
                        tracing::error!(%error, "nothing can be served");
                        "what is to be served cannot be read; see the log of outhaul-mirror"
                    }
                    Ok(_) => "no generation is active yet",
                };
                let status = StatusCode::SERVICE_UNAVAILABLE;
                return match is_registry {
                    true => error(status, Code::NameUnknown, message),
                    false => text(status, message),
                };
            }
        };
        match &self.route {
            Route::Ping => answer::read_only("GET, HEAD"),
            Route::Image { name, ns, what } => {
                let asked = ImageQuestion {
                    name,
                    ns: ns.as_deref(),
                    host: self.host.as_deref(),
                    headers: &self.headers,
                    head: self.head,
                };
                let mut answer = registry::answer(&catalog, &asked, what);
                if self.head {
                    *answer.body_mut() = BodyContent::Bytes(None);
                }
                answer
            }
            Route::Chart { path } => self.chart(&catalog, path),
            Route::Package { repository, path } => self.package(&catalog, repository, path),
            Route::Refs {
                repository,
                service,
            } => match service.as_deref() {
                Some("git-upload-pack") => match self.repository(&catalog, repository) {
                    Some(found) => uncached(answer::of(
                        StatusCode::OK,
                        "application/x-git-upload-pack-advertisement",
                        git::answer::refs(&found, self.version()),
                    )),
                    None => unknown(repository),
                },
                Some(_) => text(StatusCode::FORBIDDEN, "this server is read only"),
                None => text(
                    StatusCode::FORBIDDEN,
                    "only git's smart HTTP protocol is served here",
                ),
            },
            Route::UploadPack { repository } => match self.repository(&catalog, repository) {
                Some(found) => self.upload_pack(&found),
                None => unknown(repository),
            },
        }
    }

    fn chart(&self, catalog: &Arc<Catalog>, path: &str) -> Answer {
        let asked = ImageQuestion {
            name: path,
            ns: None,
            host: self.host.as_deref(),
            headers: &self.headers,
            head: self.head,
        };
        match catalog.charts().find(path, asked.host) {
            Some(ChartFile::Index(index)) => {
                uncached(registry::bytes(&asked, "application/yaml", index))
            }
            Some(ChartFile::Archive(digest, stored)) => {
                registry::file(catalog, &asked, digest, stored)
            }
            None => {
                let known: Vec<&str> = catalog.charts().addresses().take(20).collect();
                let message = match known.is_empty() {
                    true => "the site's active generation has no chart repository".to_owned(),
                    false => format!(
                        "the site's active generation has no such file of a chart repository; here are {}",
                        known.join(", ")
                    ),
                };
                text(StatusCode::NOT_FOUND, &message)
            }
        }
    }

    /// Something of an apt repository.
    fn package(&self, catalog: &Arc<Catalog>, repository: &str, path: &str) -> Answer {
        let asked = ImageQuestion {
            name: path,
            ns: None,
            host: self.host.as_deref(),
            headers: &self.headers,
            head: self.head,
        };
        let Some(found) = catalog.packages().get(repository) else {
            let known: Vec<&str> = catalog.packages().keys().map(String::as_str).collect();
            let message = match known.is_empty() {
                true => "the site's active generation has no apt repository".to_owned(),
                false => format!(
                    "the site's active generation has no apt repository of this name; here are {}",
                    known.join(", ")
                ),
            };
            return text(StatusCode::NOT_FOUND, &message);
        };
        match found.file(path) {
            Some((digest, stored)) => registry::file(catalog, &asked, digest, stored),
            // apt asks for forms of an index that a flat repository need not have.
            None => text(
                StatusCode::NOT_FOUND,
                "this apt repository has no such file",
            ),
        }
    }

    /// By the host that the request was sent to, or by a path that begins with the host.
    fn repository(
        &self,
        catalog: &Catalog,
        path: &RepositoryAddress,
    ) -> Option<Arc<git::GitRepository>> {
        let by_host = self.host.as_deref().and_then(|host| {
            let bare = host.rsplit_once(':').map_or(host, |(bare, _)| bare);
            let on = |host| catalog.git().get(&RepositoryAddress::on(host, path)?);
            on(host).or_else(|| on(bare))
        });
        by_host.or_else(|| catalog.git().get(path)).cloned()
    }

    /// The protocol's version that the client prefers.
    fn version(&self) -> u8 {
        let value = self.headers.get("git-protocol");
        let value = value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let asked = |wanted: &str| value.split(':').any(|part| part == wanted);
        match (asked("version=2"), asked("version=1")) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => 0,
        }
    }

    fn upload_pack(&self, repository: &git::GitRepository) -> Answer {
        let content = match self.unpacked() {
            Ok(content) => content,
            Err(refused) => return *refused,
        };
        let version = self.version();
        let parsed = match version {
            2 => git::request::parse_v2(&content, repository.object_format()),
            _ => git::request::parse(&content),
        };
        let said = match parsed {
            Ok(request) => git::answer::answer(repository, &request, version),
            Err(error) => git::answer::error(&error.to_string()),
        };
        let media_type = "application/x-git-upload-pack-result";
        let Some(band) = said.pack else {
            return uncached(answer::of(StatusCode::OK, media_type, said.head));
        };
        let file = match repository.pack() {
            Ok(file) if file.metadata().is_ok_and(|m| m.len() == repository.size) => file,
            _ => {
                tracing::error!(digest = %repository.digest, "a stored pack cannot be served");
                let message = "the stored pack is missing or damaged; import the bundle again";
                return text(StatusCode::INTERNAL_SERVER_ERROR, message);
            }
        };
        let source = Source {
            file,
            left: repository.size,
            hasher: Some(Hasher::default()),
            digest: repository.digest,
            remember: None,
            framing: match band {
                Band::None => Framing::Plain,
                Band::Small => Framing::SMALL_BAND,
                Band::Large => Framing::LARGE_BAND,
            },
        };
        let body = FileBody::new(said.head, source, said.tail);
        let mut answer = answer::of(StatusCode::OK, media_type, Vec::new());
        answer.headers_mut().remove(hyper::header::CONTENT_LENGTH);
        *answer.body_mut() = BodyContent::File(body);
        uncached(answer)
    }

    /// The body, unpacked: git compresses long ones.
    fn unpacked(&self) -> Result<Vec<u8>, Box<Answer>> {
        let refused = |status, message| Err(Box::new(text(status, message)));
        let encoding = self.headers.get(CONTENT_ENCODING);
        match encoding.map(hyper::header::HeaderValue::as_bytes) {
            None | Some(b"identity") => Ok(self.content.clone()),
            Some(b"gzip" | b"x-gzip") => {
                let mut content = Vec::new();
                let read = flate2::read::GzDecoder::new(self.content.as_slice())
                    .take(MAX_UNPACKED + 1)
                    .read_to_end(&mut content);
                match read {
                    Ok(_) if content.len() as u64 > MAX_UNPACKED => {
                        refused(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large")
                    }
                    Ok(_) => Ok(content),
                    Err(_) => refused(StatusCode::BAD_REQUEST, "the request is not valid gzip"),
                }
            }
            Some(_) => refused(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "only gzip is understood as the encoding of a request",
            ),
        }
    }
}

fn unknown(repository: &RepositoryAddress) -> Answer {
    text(
        StatusCode::NOT_FOUND,
        &format!("the site's active generation has no repository {repository}"),
    )
}

/// What a ref is at may be another commit next time.
fn uncached(mut answer: Answer) -> Answer {
    header(
        &mut answer,
        CACHE_CONTROL,
        "no-cache, max-age=0, must-revalidate",
    );
    answer
}
