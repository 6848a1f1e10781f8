//! What each answer of a hub tells a browser: that it frames and runs nothing, guesses no type, and keeps nothing; and where a
//! login may lead.
//!
//! What comes in: whether the hub answers over TLS, and the address that was asked for. What goes out: names and values of headers, and an
//! address of this hub. It sends none.

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

/// An address of this hub, whatever was asked for: a login leads nowhere else.
pub fn own(next: &str) -> &str {
    let is_own = next.starts_with('/')
        && !next.starts_with("//")
        && !next.starts_with("/login")
        && !next
            .chars()
            .any(|letter| letter == '\\' || letter.is_control() || !letter.is_ascii());
    if is_own { next } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_this_hub_only() {
        for here in ["/", "/sites?q=a&state=ok", "/environments/dev"] {
            assert_eq!(own(here), here);
        }
        for elsewhere in [
            "",
            "https://evil.example/",
            "//evil.example",
            "/\\evil.example",
            "/a\r\nSet-Cookie: x=y",
            "/login?next=/login",
            "evil",
        ] {
            assert_eq!(own(elsewhere), "/", "{elsewhere}");
        }
    }
}
