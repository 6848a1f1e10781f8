//! The HTTP client of all of Outhaul's programs.
//!
//! What comes in: [`ClientSettings`], URLs, request bodies. What goes out: a [`Response`] with its status, its headers
//! and a bounded or streamed body. It knows no format and no protocol above HTTP, and reads no configuration
//! but the proxy of the environment, where a caller asks for it.

mod address;
mod authority;
mod body;
mod client;
mod error;
mod outside;
mod quoted;
mod unanswered;

pub use address::{BaseUrl, check_url, is_tls};
pub use authority::Authority;
pub use body::LeastRate;
pub use client::{Client, ClientSettings, Identity, Proxy, Request, Response, TimeLimits};
pub use error::{HttpError, is_timeout};
pub use outhaul_kit::url::is_loopback;
pub use quoted::quoted;
pub use ureq::http::Method;
