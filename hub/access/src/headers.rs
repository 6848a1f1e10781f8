//! What each answer of a hub tells a browser: that it frames and runs nothing, guesses no type, and keeps nothing.
//!
//! What comes in: whether the hub answers over TLS. What goes out: names and values of headers. It sends none.

/// For every answer.
const ALWAYS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// That it is asked over TLS only, for a year.
const OVER_TLS: (&str, &str) = ("strict-transport-security", "max-age=31536000");

/// The headers of an answer that has none of its own of these names.
pub fn of_answers(is_tls: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    ALWAYS.into_iter().chain(is_tls.then_some(OVER_TLS))
}
