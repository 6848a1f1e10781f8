//! Answers in JSON that are safe to look at.
//!
//! What comes in: any answer, with texts that sites and files wrote. What goes out: the same value as JSON, in which
//! what a terminal or an editor would act on instead of show is escaped. It leaves nothing out.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use outhaul_kit::text;
use serde::Serialize;
use serde_json::{Value, json};

/// An answer in JSON.
#[derive(Debug)]
pub(super) struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let Ok(text) = serde_json::to_string(&self.0) else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        let kind = [(header::CONTENT_TYPE, "application/json")];
        (kind, text::json(&text).into_owned()).into_response()
    }
}

/// The answer with its keys sorted.
pub(super) fn sorted<T: Serialize>(answer: &T) -> Json<Value> {
    Json(json!(answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_turns_no_text_of_an_answer_around() {
        let value = serde_json::json!({ "message": "a\u{202e}gpj.exe\u{9b}31m" });
        let answer = Json(value.clone()).into_response();
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/json");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let body = axum::body::to_bytes(answer.into_body(), 1000);
        let text = String::from_utf8(runtime.block_on(body).unwrap().to_vec()).unwrap();
        assert!(!text.contains(outhaul_kit::text::is_hidden), "{text:?}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, value);
    }
}
