//! The API as an OpenAPI document: made of the same declarations that route requests.
//!
//! What comes in: the description of each call, collected with its route. What goes out: one JSON text, the same for
//! each build of a version. It is checked in as `docs/openapi.json`, and a test compares.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::{Modify, OpenApi as Describe};

/// What belongs to no single call.
#[derive(Describe)]
#[openapi(
    info(
        title = "Outhaul hub",
        description = "What runs at each site beside what should run, and may a commit be promoted. What is sent is signed; who sends it does not matter."
    ),
    modifiers(&Token),
    tags(
        (name = "read", description = "Lists, in parts"),
        (name = "gate", description = "Promotion"),
        (name = "send", description = "What sites and the centre bring"),
        (name = "operate", description = "For who runs the hub"),
    )
)]
pub(super) struct Described;

struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut OpenApi) {
        let token = Http::builder()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("`outhaul-hub token create` makes one; a hub that was started with `--open-reading` needs none for reading"))
            .build();
        let schemes = document.components.get_or_insert_default();
        schemes.add_security_scheme("token", SecurityScheme::Http(token));
        let needed = SecurityRequirement::new("token", Vec::<String>::new());
        document.security = Some(vec![needed]);
    }
}

/// The document as it is served and checked in; one that cannot be written is empty, which the test of it sees.
pub(super) fn text(document: &OpenApi) -> String {
    document
        .to_pretty_json()
        .map(|text| text + "\n")
        .unwrap_or_default()
}

pub(super) fn answer(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
